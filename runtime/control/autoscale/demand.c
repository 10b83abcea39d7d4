/* SPDX-License-Identifier: Apache-2.0 */
/* What waits, by shape. See demand.h. */
#include "runtime/control/autoscale/demand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/buffer.h"
#include "runtime/base/cleanup.h"

void crti_demand_init(crti_demand_t *demand)
{
    *demand = (crti_demand_t){.count = 0};
    crti_map_init(&demand->by_what, 0);
}

void crti_demand_fini(crti_demand_t *demand)
{
    free(demand->entries);
    free(demand->places);
    crti_map_fini(&demand->by_what);
}

const char *crti_demand_kind_name(crti_demand_kind_t kind)
{
    static const char *const names[CRTI_DEMAND_KINDS] = {"task", "actor", "bundle", "job",
                                                         "request"};

    return names[kind];
}

/* ---------------------------------------------------------------- entries */

static void put(crti_buffer_t *what, const char *text)
{
    crti_buffer_append(what, text, strlen(text));
    crti_buffer_append(what, "\n", 1);
}

/* All that tells two entries apart, as one text. */
static crt_status_t name_entry(const crti_demand_entry_t *e, crti_buffer_t *what)
{
    char hex[CRTI_ID_HEX], amount[32];

    put(what, crti_demand_kind_name(e->kind));
    put(what, e->name);
    put(what, crti_id_hex(e->group, hex));
    put(what, e->how.selector);
    put(what, crti_id_hex(e->how.node, hex));
    put(what, crti_id_hex(e->how.group, hex));
    snprintf(amount, sizeof(amount), "%u %d", (unsigned)e->how.strategy, e->how.is_soft);
    put(what, amount);
    for (unsigned i = 0; i < e->need.count; i++) {
        put(what, e->need.item[i].name);
        snprintf(amount, sizeof(amount), "%lld", (long long)e->need.item[i].amount);
        put(what, amount);
    }
    return crti_buffer_append(what, "", 1);
}

/* NULL: there is no room for it. */
static crti_demand_entry_t *append(crti_demand_t *demand, const char *what)
{
    if (demand->count == CRTI_DEMAND_MAX)
        return NULL;
    if (demand->count == demand->room) {
        size_t room = demand->room ? demand->room * 2 : 16;
        crti_demand_entry_t *grown =
            realloc(demand->entries, room * sizeof(*demand->entries));

        if (!grown)
            return NULL;
        demand->entries = grown;
        demand->room = room;
    }
    if (crti_map_put(&demand->by_what, what, (void *)(uintptr_t)(demand->count + 1)) !=
        CRT_OK)
        return NULL;
    return &demand->entries[demand->count++];
}

void crti_demand_add(crti_demand_t *demand, const crti_demand_entry_t *entry)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t what = {0};
    crti_demand_entry_t *mine = NULL;
    uintptr_t at;

    if (name_entry(entry, &what) == CRT_OK) {
        at = (uintptr_t)crti_map_get(&demand->by_what, what.data);
        if (at) {
            demand->entries[at - 1].count += entry->count;
            return;
        }
        mine = append(demand, (const char *)what.data);
    }
    if (mine)
        *mine = *entry;
    else
        demand->others += entry->count;
}

void crti_demand_add_place(crti_demand_t *demand, crti_id_t group, crti_id_t node)
{
    size_t count = demand->place_count;
    crti_demand_place_t *grown = demand->places;

    /* Room for 1, 2, 4, 8, ... */
    if ((count & (count - 1)) == 0)
        grown = realloc(demand->places, (count ? count * 2 : 1) * sizeof(*grown));
    if (!grown)
        return; /* the group then counts on a node that it can't have, and is served later */
    demand->places = grown;
    demand->places[demand->place_count++] = (crti_demand_place_t){group, node};
}
