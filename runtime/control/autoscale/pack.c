/* SPDX-License-Identifier: Apache-2.0 */
/* First fit, the largest first. See pack.h. */
#include "runtime/control/autoscale/pack.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/buffer.h"
#include "runtime/base/cleanup.h"
#include "runtime/control/placement/bundle_placement.h"

#define PART 1000 /* of a node */

/* Of a group: so many of an entry went to a bin. */
typedef struct step {
    size_t bin, entry;
    uint64_t count;
    bool was_used;
} step_t;

void crti_pack_init(crti_pack_t *pack, const crti_node_type_t *types, size_t type_count)
{
    *pack = (crti_pack_t){.types = types, .type_count = type_count};
}

void crti_pack_fini(crti_pack_t *pack)
{
    free(pack->bins);
    crti_buffer_fini(&pack->steps);
}

/* ---------------------------------------------------------------- bins */

void crti_pack_add(crti_pack_t *pack, crti_id_t node, const char *labels, int type,
                   const crti_resources_t *available)
{
    if (pack->bin_count == pack->bin_room) {
        size_t room = pack->bin_room ? pack->bin_room * 2 : 16;
        crti_pack_bin_t *grown = realloc(pack->bins, room * sizeof(*grown));

        if (!grown) {
            pack->is_short = true;
            return;
        }
        pack->bins = grown;
        pack->bin_room = room;
    }
    pack->bins[pack->bin_count++] = (crti_pack_bin_t){
        .node = node, .labels = labels, .free = *available, .type = type};
}

void crti_pack_open(crti_pack_t *pack, size_t type, size_t wanted_by)
{
    size_t count = pack->bin_count;

    crti_pack_add(pack, (crti_id_t){0, 0}, pack->types[type].labels, (int)type,
                  &pack->types[type].resources);
    if (pack->bin_count == count)
        return;
    pack->bins[count].is_new = true;
    pack->bins[count].wanted_by = wanted_by;
    if (pack->more[type])
        pack->more[type]--;
}

static bool allows(const crti_demand_entry_t *entry, crti_id_t node, const char *labels)
{
    crti_scheduling_t how = entry->how;

    if (how.strategy == CRTI_STRATEGY_AFFINITY)
        how.strategy =
            CRTI_STRATEGY_DEFAULT; /* a soft one: tied entries don't come here */
    for (unsigned i = 0; i < crti_scheduling_alternatives(&how); i++)
        if (crti_scheduling_allows(&how, i, node, labels))
            return true;
    return false;
}

/* How many of it have room at once, at most `most`. */
static uint64_t times(const crti_resources_t *have, const crti_resources_t *need,
                      uint64_t most)
{
    for (unsigned i = 0; i < need->count; i++) {
        int64_t amount = need->item[i].amount;
        int64_t there = crti_resources_get(have, need->item[i].name);

        if (amount <= 0)
            continue;
        if (there < amount)
            return 0;
        if ((uint64_t)(there / amount) < most)
            most = (uint64_t)(there / amount);
    }
    return most;
}

static void take(crti_resources_t *have, const crti_resources_t *need, uint64_t count)
{
    for (unsigned i = 0; i < need->count; i++)
        for (unsigned k = 0; k < have->count; k++)
            if (strcmp(have->item[k].name, need->item[i].name) == 0)
                have->item[k].amount -= need->item[i].amount * (int64_t)count;
}

static void give(crti_resources_t *have, const crti_resources_t *need, uint64_t count)
{
    for (unsigned i = 0; i < need->count; i++)
        for (unsigned k = 0; k < have->count; k++)
            if (strcmp(have->item[k].name, need->item[i].name) == 0)
                have->item[k].amount += need->item[i].amount * (int64_t)count;
}

/* ---------------------------------------------------------------- types */

bool crti_pack_type_fits(const crti_node_type_t *type, const crti_demand_entry_t *entry)
{
    return times(&type->resources, &entry->need, 1) == 1 &&
           allows(entry, (crti_id_t){0, 0}, type->labels);
}

/* How much of it would be in use with `count` of that need, 0..PART. */
static int64_t part_of(const crti_resources_t *all, const crti_resources_t *need,
                       uint64_t count)
{
    int64_t most = 0;

    for (unsigned i = 0; i < need->count; i++) {
        int64_t total = crti_resources_get(all, need->item[i].name);
        int64_t part;

        if (need->item[i].amount <= 0 || total <= 0)
            continue;
        part = (int64_t)((double)need->item[i].amount * (double)count * PART /
                         (double)total);
        most = part > most ? part : most;
    }
    return most;
}

/* Resources beside CPUs and memory that would lie idle. */
static unsigned idle_names(const crti_resources_t *all, const crti_resources_t *need)
{
    unsigned count = 0;

    for (unsigned i = 0; i < all->count; i++) {
        const char *name = all->item[i].name;

        count += strcmp(name, "CPU") != 0 && strcmp(name, CRTI_RESOURCE_MEMORY) != 0 &&
                 crti_resources_get(need, name) == 0;
    }
    return count;
}

/* The best type for as many of it, of those that may be asked for; -1: none. */
static int best_type(const crti_pack_t *pack, const crti_demand_entry_t *entry,
                     uint64_t left)
{
    unsigned least_idle = 0;
    int64_t best_part = 0;
    int best = -1;

    for (size_t i = 0; i < pack->type_count; i++) {
        const crti_node_type_t *type = &pack->types[i];
        unsigned idle = idle_names(&type->resources, &entry->need);
        int64_t part = part_of(&type->resources, &entry->need,
                               times(&type->resources, &entry->need, left));

        if (pack->more[i] == 0 || pack->is_closed[i] || !crti_pack_type_fits(type, entry))
            continue;
        if (best >= 0 && (idle > least_idle || (idle == least_idle && part <= best_part)))
            continue;
        best = (int)i;
        least_idle = idle;
        best_part = part;
    }
    return best;
}

/* Why it got no room. */
static crti_pack_outcome_t why_not(const crti_pack_t *pack,
                                   const crti_demand_entry_t *entry)
{
    crti_pack_outcome_t why = CRTI_PACK_NEVER;

    for (size_t i = 0; i < pack->type_count; i++) {
        if (pack->types[i].max == 0 || !crti_pack_type_fits(&pack->types[i], entry))
            continue;
        if (pack->is_closed[i] && pack->more[i])
            return CRTI_PACK_LATER;
        why = CRTI_PACK_AT_MAX;
    }
    return why;
}

/* ---------------------------------------------------------------- what goes where */

static void put(crti_pack_t *pack, size_t bin, const crti_demand_t *demand, size_t entry,
                uint64_t count)
{
    crti_pack_bin_t *at = &pack->bins[bin];
    step_t step = {bin, entry, count, at->is_used};

    if (crti_buffer_append(&pack->steps, &step, sizeof(step)) != CRT_OK)
        pack->is_short = true;
    take(&at->free, &demand->entries[entry].need, count);
    at->is_used = true;
    at->gang = pack->gangs;
}

/* What was put since the steps began is taken back, with the nodes that were opened for it. */
static void undo(crti_pack_t *pack, const crti_demand_t *demand, size_t bins)
{
    const step_t *steps = (const step_t *)(const void *)pack->steps.data;

    for (size_t i = pack->steps.size / sizeof(step_t); i-- > 0;) {
        crti_pack_bin_t *at = &pack->bins[steps[i].bin];

        give(&at->free, &demand->entries[steps[i].entry].need, steps[i].count);
        at->is_used = steps[i].was_used;
    }
    while (pack->bin_count > bins)
        pack->more[pack->bins[--pack->bin_count].type]++;
}

/* Puts what has room; returns how many are left. `each`: so many of it at most on one node, which
 * has no other of the group. */
static uint64_t put_all(crti_pack_t *pack, const crti_demand_t *demand, size_t entry,
                        uint64_t each)
{
    const crti_demand_entry_t *e = &demand->entries[entry];
    uint64_t left = e->count;
    size_t at = 0;

    for (;;) {
        int type;

        for (; at < pack->bin_count && left; at++) {
            crti_pack_bin_t *bin = &pack->bins[at];
            uint64_t count;

            if ((each && bin->gang == pack->gangs) || !allows(e, bin->node, bin->labels))
                continue;
            count = times(&bin->free, &e->need, each && each < left ? each : left);
            if (count)
                put(pack, at, demand, entry, count);
            left -= count;
        }
        type = left && !pack->is_short ? best_type(pack, e, left) : -1;
        if (type < 0)
            return left;
        crti_pack_open(pack, (size_t)type, entry + 1);
    }
}

/* ---------------------------------------------------------------- groups */

/* Entries of a group follow each other. */
static size_t group_size(const crti_demand_t *demand, size_t first)
{
    size_t count = 1;

    while (
        first + count < demand->count &&
        demand->entries[first + count].kind == CRTI_DEMAND_BUNDLE &&
        crti_id_equal(demand->entries[first + count].group, demand->entries[first].group))
        count++;
    return count;
}

/* Nodes that have a bundle of it already. */
static void mark_places(crti_pack_t *pack, const crti_demand_t *demand, crti_id_t group)
{
    for (size_t i = 0; i < demand->place_count; i++) {
        if (!crti_id_equal(demand->places[i].group, group))
            continue;
        for (size_t k = 0; k < pack->bin_count; k++)
            if (crti_id_equal(pack->bins[k].node, demand->places[i].node))
                pack->bins[k].gang = pack->gangs;
    }
}

/* The bin that has room for it, or is made; -1: none. */
static ptrdiff_t find_bin(crti_pack_t *pack, const crti_demand_entry_t *entry,
                          size_t wanted_by)
{
    size_t at;
    int type;

    for (at = 0; at < pack->bin_count; at++)
        if (times(&pack->bins[at].free, &entry->need, 1) &&
            allows(entry, pack->bins[at].node, pack->bins[at].labels))
            return (ptrdiff_t)at;
    type = best_type(pack, entry, 1);
    if (type >= 0)
        crti_pack_open(pack, (size_t)type, wanted_by);
    return at < pack->bin_count ? (ptrdiff_t)at : -1;
}

/* All on one node: as one entry that needs the sum. */
static crti_pack_outcome_t put_together(crti_pack_t *pack, const crti_demand_t *demand,
                                        size_t first, size_t count)
{
    crti_demand_entry_t sum = demand->entries[first];
    ptrdiff_t at;

    sum.need.count = 0;
    for (size_t i = first; i < first + count; i++)
        for (uint64_t k = 0; k < demand->entries[i].count; k++)
            crti_resources_give(&sum.need, &demand->entries[i].need);
    at = find_bin(pack, &sum, first + 1);
    if (at < 0)
        return why_not(pack, &sum);
    for (size_t i = first; i < first + count; i++)
        put(pack, (size_t)at, demand, i, demand->entries[i].count);
    return CRTI_PACK_ROOM;
}

static crti_pack_outcome_t put_group(crti_pack_t *pack, const crti_demand_t *demand,
                                     size_t first, size_t count)
{
    const crti_demand_entry_t *group = &demand->entries[first];
    uint64_t each = group->strategy == CRTI_PLACEMENT_STRICT_SPREAD;
    crti_pack_outcome_t why = CRTI_PACK_ROOM;
    size_t bins = pack->bin_count;

    pack->steps.size = 0;
    pack->gangs++;
    if (each)
        mark_places(pack, demand, group->group);
    if (group->strategy == CRTI_PLACEMENT_STRICT_PACK)
        return put_together(pack, demand, first, count);
    for (size_t i = first; i < first + count && why == CRTI_PACK_ROOM; i++)
        if (put_all(pack, demand, i, each))
            why = why_not(pack, &demand->entries[i]);
    if (why != CRTI_PACK_ROOM)
        undo(pack, demand, bins);
    return why;
}

/* ---------------------------------------------------------------- the order */

typedef struct turn {
    size_t first, count; /* entries */
    bool is_group;
    int64_t part; /* of the largest node that it fills */
} turn_t;

static int by_turn(const void *a, const void *b)
{
    const turn_t *x = a, *y = b;

    if (x->is_group != y->is_group)
        return x->is_group ? -1 : 1;
    if (x->part != y->part)
        return x->part < y->part ? 1 : -1;
    return x->first < y->first ? -1 : 1;
}

static int64_t largest_part(const crti_pack_t *pack, const crti_demand_entry_t *entry)
{
    int64_t least = INT64_MAX;

    for (size_t i = 0; i < pack->type_count; i++)
        if (crti_pack_type_fits(&pack->types[i], entry)) {
            int64_t part = part_of(&pack->types[i].resources, &entry->need, 1);

            least = part < least ? part : least;
        }
    return least;
}

static bool is_tied(const crti_demand_entry_t *entry)
{
    return !crti_id_is_zero(entry->how.group) ||
           (entry->how.strategy == CRTI_STRATEGY_AFFINITY && !entry->how.is_soft);
}

static size_t make_turns(const crti_pack_t *pack, const crti_demand_t *demand,
                         unsigned kinds, turn_t *turns)
{
    size_t count = 0;

    for (size_t i = 0; i < demand->count; i += turns[count - 1].count) {
        const crti_demand_entry_t *entry = &demand->entries[i];
        turn_t *turn = &turns[count++];

        *turn = (turn_t){.first = i, .count = 1};
        turn->is_group = entry->kind == CRTI_DEMAND_BUNDLE;
        turn->part = largest_part(pack, entry);
        if (turn->is_group)
            turn->count = group_size(demand, i);
        if (!(kinds & 1u << entry->kind))
            turn->part = -1;
    }
    return count;
}

void crti_pack_demand(crti_pack_t *pack, const crti_demand_t *demand, unsigned kinds,
                      crti_pack_outcome_t *outcomes)
{
    CRTI_AUTO(free) turn_t *turns = calloc(demand->count + 1, sizeof(*turns));
    size_t count = turns ? make_turns(pack, demand, kinds, turns) : 0;

    pack->is_short |= !turns;
    if (count)
        qsort(turns, count, sizeof(*turns), by_turn);
    for (size_t i = 0; i < count; i++) {
        const turn_t *turn = &turns[i];
        const crti_demand_entry_t *entry = &demand->entries[turn->first];
        crti_pack_outcome_t outcome = CRTI_PACK_ROOM;

        if (!(kinds & 1u << entry->kind))
            continue;
        pack->steps.size = 0;
        if (turn->is_group)
            outcome = put_group(pack, demand, turn->first, turn->count);
        else if (is_tied(entry))
            outcome = CRTI_PACK_TIED;
        else if (put_all(pack, demand, turn->first, 0))
            outcome = why_not(pack, entry);
        for (size_t k = turn->first; k < turn->first + turn->count; k++)
            outcomes[k] = outcome;
    }
}
