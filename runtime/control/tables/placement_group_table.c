/* SPDX-License-Identifier: Apache-2.0 */
/* Placement group table. See placement_group_table.h. */
#include "runtime/control/tables/placement_group_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/arrow.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/limit.h"
#include "runtime/control/placement/bundle_placement.h"
#include "runtime/control/tables/actor_table.h"

#define TO(state) (1u << CRTI_PLACEMENT_GROUP_##state)
static const crti_state_row_t states[CRTI_PLACEMENT_GROUP_STATES] = {
    [CRTI_PLACEMENT_GROUP_PENDING] = {"PENDING", TO(CREATED) | TO(REMOVED)},
    [CRTI_PLACEMENT_GROUP_CREATED] = {"CREATED", TO(RESCHEDULING) | TO(REMOVED)},
    [CRTI_PLACEMENT_GROUP_RESCHEDULING] = {"RESCHEDULING", TO(CREATED) | TO(REMOVED)},
    [CRTI_PLACEMENT_GROUP_REMOVED] = {"REMOVED", 0},
};

const char *crti_placement_group_state_name(unsigned state)
{
    return state < CRTI_PLACEMENT_GROUP_STATES ? states[state].name : "unknown";
}

/* ---------------------------------------------------------------- entries */

void crti_placement_group_table_init(crti_placement_group_table_t *table)
{
    *table = (crti_placement_group_table_t){.last_serial = 0};
    crti_map_init(&table->by_id, sizeof(crti_id_t));
    crti_map_init(&table->by_name, 0);
    crti_list_init(&table->waiting);
    crti_list_init(&table->created);
    crti_list_init(&table->removed);
    crti_list_init(&table->waiters);
}

static void free_waiters(crti_placement_group_entry_t *group)
{
    crti_placement_group_waiter_t *waiter;

    while ((waiter = crti_placement_group_next_waiter(group)))
        free(waiter);
}

static void free_group(crti_placement_group_entry_t *group)
{
    free_waiters(group);
    free(group->bundles);
    free(group->name);
    free(group->name_space);
    free(group->full_name);
    free(group->text);
    free(group);
}

void crti_placement_group_table_fini(crti_placement_group_table_t *table)
{
    CRTI_MAP_FOREACH (void, group, &table->by_id)
        free_group(group);
    crti_map_fini(&table->by_id);
    crti_map_fini(&table->by_name);
}

crti_placement_group_entry_t *
crti_placement_group_table_get(const crti_placement_group_table_t *table, crti_id_t id)
{
    return crti_map_get(&table->by_id, &id);
}

crti_placement_group_entry_t *
crti_placement_group_table_find(const crti_placement_group_table_t *table,
                                crti_span_t name_space, crti_span_t name)
{
    CRTI_AUTO(free) char *text = crti_full_name(name_space, name);

    return text && *text ? crti_map_get(&table->by_name, text) : NULL;
}

static crt_status_t read_bundle(const crti_msg_bundle_t *m, size_t index,
                                crti_bundle_entry_t *bundle)
{
    crt_status_t status = crti_resources_check(&m->resources);

    *bundle = (crti_bundle_entry_t){
        .resources = m->resources, .node = m->node, .incarnation = m->incarnation};
    if (status == CRT_OK && m->resources.count == 0)
        return crt_raise(CRT_ERR_INVALID, "bundle %zu needs nothing", index);
    return status == CRT_OK
               ? crti_scheduling_read(&(crti_scheduling_t){.strategy = 0},
                                      m->selector.data, m->selector.size, &bundle->how)
               : status;
}

static crt_status_t read_bundles(crti_placement_group_entry_t *group, crti_span_t list)
{
    crti_span_t rest = list, entry;
    crt_status_t status = CRT_OK;
    crti_message_t m;
    size_t count = 0;

    while (crti_list_unpack(&rest, &entry) == CRT_OK)
        count++;
    if (count == 0 || count > CRTI_BUNDLES_MAX)
        return crt_raise(CRT_ERR_INVALID,
                         "a placement group has 1 to %d bundles, not %zu",
                         CRTI_BUNDLES_MAX, count);
    group->bundles = calloc(count, sizeof(*group->bundles));
    if (group->bundles == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "%zu bundles", count);
    for (rest = list; status == CRT_OK && crti_list_unpack(&rest, &entry) == CRT_OK;
         group->bundle_count++) {
        status = crti_message_decode(entry.data, entry.size, &m);
        if (status == CRT_OK && m.kind != CRTI_MSG_BUNDLE)
            status =
                crt_raise(CRT_ERR_PROTOCOL, "a bundle is %s", crti_message_name(m.kind));
        if (status == CRT_OK)
            status = read_bundle(&m.bundle, group->bundle_count,
                                 &group->bundles[group->bundle_count]);
    }
    return status;
}

/* Into the maps and the list of those that wait. */
static crt_status_t insert(crti_placement_group_table_t *table,
                           crti_placement_group_entry_t *group)
{
    crt_status_t status = crti_map_put(&table->by_id, &group->id, group);

    if (status == CRT_OK && *group->name) {
        status = crti_map_put(&table->by_name, group->full_name, group);
        if (status != CRT_OK)
            crti_map_remove(&table->by_id, &group->id);
    }
    if (status != CRT_OK)
        return status;
    group->state = CRTI_PLACEMENT_GROUP_PENDING;
    table->counts[group->state]++;
    crti_list_append(&table->waiting, &group->in_state);
    return CRT_OK;
}

/* In no map yet; names are copied. NULL: out of memory. */
static crti_placement_group_entry_t *make(crti_id_t id, crti_id_t job,
                                          crti_span_t name_space, crti_span_t name)
{
    crti_placement_group_entry_t *group = calloc(1, sizeof(*group));

    if (group == NULL)
        return NULL;
    crti_list_init(&group->waiters);
    group->id = id;
    group->job = job;
    group->name = crti_str_dup(name);
    group->name_space = crti_str_dup(name_space);
    group->full_name = crti_full_name(name_space, name);
    group->text = strdup("");
    if (group->name && group->name_space && group->full_name && group->text)
        return group;
    free_group(group);
    return NULL;
}

crt_status_t crti_placement_group_table_create(crti_placement_group_table_t *table,
                                               const crti_msg_placement_group_create_t *m,
                                               crti_placement_group_entry_t **group_out)
{
    const crti_placement_group_entry_t *other =
        crti_placement_group_table_find(table, m->name_space, m->name);
    crti_placement_group_entry_t *group;
    char hex[CRTI_ID_HEX];
    crt_status_t status;

    if (m->strategy >= CRTI_PLACEMENT_STRATEGIES)
        return crt_raise(CRT_ERR_INVALID, "there is no placement strategy %llu",
                         (unsigned long long)m->strategy);
    if (other)
        return crt_raise(CRT_ERR_EXISTS, "the name \"%s\" is that of placement group %s",
                         other->name, crti_id_hex(other->id, hex));
    group = make(m->group, m->job, m->name_space, m->name);
    if (group == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "a placement group");
    group->strategy = m->strategy;
    group->detached = m->detached;
    group->if_infeasible = m->if_infeasible;
    group->unsaved = true;
    group->serial = ++table->last_serial;
    status = read_bundles(group, m->bundles);
    for (size_t i = 0; i < group->bundle_count; i++)
        crti_placement_group_unplaced(&group->bundles[i]);
    if (status == CRT_OK)
        status = insert(table, group);
    if (status != CRT_OK) {
        free_group(group);
        return status;
    }
    *group_out = group;
    return CRT_OK;
}

void crti_placement_group_table_forget(crti_placement_group_table_t *table,
                                       crti_placement_group_entry_t *group)
{
    if (*group->name && crti_map_get(&table->by_name, group->full_name) == group)
        crti_map_remove(&table->by_name, group->full_name);
    crti_map_remove(&table->by_id, &group->id);
    table->counts[group->state]--;
    if (group->state == CRTI_PLACEMENT_GROUP_REMOVED)
        table->removed_count--;
    crti_list_remove(&group->in_state);
    free_group(group);
}

/* ---------------------------------------------------------------- states */

static void set_text(crti_placement_group_entry_t *group, const char *text)
{
    char *copy = strdup(text);

    if (copy == NULL)
        return; /* the old one stays */
    free(group->text);
    group->text = copy;
}

static void set_state(crti_placement_group_table_t *table,
                      crti_placement_group_entry_t *group, unsigned state,
                      crti_list_t *list)
{
    assert(states[group->state].next & 1u << state);
    CRTI_ARROW("placement group", states, group->state, state);
    table->counts[group->state]--;
    table->counts[state]++;
    group->state = state;
    group->version++;
    crti_list_remove(&group->in_state);
    crti_list_append(list, &group->in_state);
}

crt_status_t crti_placement_group_table_load(crti_placement_group_table_t *table,
                                             const crti_msg_row_placement_group_t *row)
{
    crti_placement_group_entry_t *group;
    crt_status_t status;

    if (crti_placement_group_table_get(table, row->group)) /* a row may come twice */
        return CRT_OK;
    if (row->strategy >= CRTI_PLACEMENT_STRATEGIES ||
        row->state >= CRTI_PLACEMENT_GROUP_REMOVED)
        return crt_raise(CRT_ERR_CORRUPT, "a placement group in state %llu",
                         (unsigned long long)row->state);
    group = make(row->group, row->job, row->name_space, row->name);
    if (group == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "a placement group");
    group->strategy = row->strategy;
    group->detached = row->detached;
    group->if_infeasible = row->if_infeasible;
    group->serial = row->serial;
    group->incarnation = row->incarnation;
    group->version = 1;
    group->is_stored = true;
    status = read_bundles(group, row->bundles);
    if (status == CRT_OK)
        status = insert(table, group);
    if (status != CRT_OK) {
        free_group(group);
        return status;
    }
    if (row->serial > table->last_serial)
        table->last_serial = row->serial;
    for (size_t i = 0; i < group->bundle_count; i++)
        if (!crti_id_is_zero(group->bundles[i].node))
            group->bundles[i].state = CRTI_BUNDLE_RESERVED;
    if (row->state != CRTI_PLACEMENT_GROUP_PENDING)
        crti_placement_group_created(table, group);
    if (row->state == CRTI_PLACEMENT_GROUP_RESCHEDULING)
        crti_placement_group_reschedules(table, group, "");
    return CRT_OK;
}

void crti_placement_group_created(crti_placement_group_table_t *table,
                                  crti_placement_group_entry_t *group)
{
    for (size_t i = 0; i < group->bundle_count; i++)
        group->bundles[i].is_new = false;
    group->refusals = 0;
    set_text(group, "");
    set_state(table, group, CRTI_PLACEMENT_GROUP_CREATED, &table->created);
}

bool crti_placement_group_waits(crti_placement_group_entry_t *group, const char *text)
{
    if (group->version && strcmp(group->text, text) == 0)
        return false;
    set_text(group, text);
    group->version++;
    return true;
}

void crti_placement_group_reschedules(crti_placement_group_table_t *table,
                                      crti_placement_group_entry_t *group,
                                      const char *text)
{
    set_text(group, text);
    if (group->state == CRTI_PLACEMENT_GROUP_CREATED)
        set_state(table, group, CRTI_PLACEMENT_GROUP_RESCHEDULING, &table->waiting);
}

void crti_placement_group_removed(crti_placement_group_table_t *table,
                                  crti_placement_group_entry_t *group,
                                  crt_status_t status, const char *text)
{
    if (*group->name)
        crti_map_remove(&table->by_name, group->full_name);
    group->status = status;
    set_text(group, text);
    set_state(table, group, CRTI_PLACEMENT_GROUP_REMOVED, &table->removed);
    table->removed_count++;
    free(group->bundles);
    group->bundles = NULL;
    group->bundle_count = 0;
    group->reserving = 0;
}

crti_placement_group_entry_t *
crti_placement_group_table_expired(const crti_placement_group_table_t *table)
{
    return table->removed_count > CRTI_LIMIT(removed_groups)
               ? CRTI_PLACEMENT_GROUP_OF(table->removed.next)
               : NULL;
}

/* ---------------------------------------------------------------- reservations */

void crti_placement_group_reserving(crti_placement_group_entry_t *group,
                                    crti_bundle_entry_t *bundle, crti_id_t node)
{
    if (group->reserving++ == 0)
        group->is_refused = false;
    bundle->state = CRTI_BUNDLE_RESERVING;
    bundle->node = node;
    bundle->incarnation = ++group->incarnation;
    bundle->is_new = true;
}

void crti_placement_group_unplaced(crti_bundle_entry_t *bundle)
{
    bundle->state = CRTI_BUNDLE_UNPLACED;
    bundle->node = (crti_id_t){0};
    bundle->is_new = false;
    bundle->request = 0;
    bundle->used = (crti_resources_t){0};
}

bool crti_placement_group_answered(crti_placement_group_entry_t *group,
                                   crti_bundle_entry_t *bundle, bool is_reserved)
{
    assert(bundle->state == CRTI_BUNDLE_RESERVING && group->reserving);
    bundle->request = 0;
    group->reserving--;
    if (is_reserved) {
        bundle->state = CRTI_BUNDLE_RESERVED;
    } else {
        crti_placement_group_unplaced(bundle);
        group->is_refused = true;
    }
    return group->reserving == 0;
}

void crti_placement_group_refused(crti_placement_group_entry_t *group, uint64_t now_ns)
{
    uint64_t pause = CRTI_LIMIT(group_retry);

    for (unsigned i = 0; i < group->refusals; i++)
        pause += pause / 2;
    if (pause >= CRTI_LIMIT(group_retry_max))
        pause = CRTI_LIMIT(group_retry_max);
    else
        group->refusals++;
    group->retry_ns = now_ns + pause;
}

/* ---------------------------------------------------------------- who waits */

crt_status_t crti_placement_group_wait(crti_placement_group_table_t *table,
                                       crti_placement_group_entry_t *group, uint64_t link,
                                       uint64_t request, uint64_t version,
                                       uint64_t now_ns)
{
    crti_placement_group_waiter_t *waiter = malloc(sizeof(*waiter));

    if (waiter == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "who waits for a placement group");
    *waiter = (crti_placement_group_waiter_t){.group = group,
                                              .link = link,
                                              .request = request,
                                              .version = version,
                                              .deadline_ns =
                                                  now_ns + CRTI_PLACEMENT_GROUP_WAIT_NS};
    crti_list_append(&group->waiters, &waiter->in_group);
    crti_list_append(&table->waiters, &waiter->in_all);
    return CRT_OK;
}

static crti_placement_group_waiter_t *take_out(crti_placement_group_waiter_t *waiter)
{
    crti_list_remove(&waiter->in_group);
    crti_list_remove(&waiter->in_all);
    return waiter;
}

crti_placement_group_waiter_t *
crti_placement_group_next_waiter(crti_placement_group_entry_t *group)
{
    CRTI_LIST_FOREACH (item, &group->waiters)
        return take_out(CRTI_CONTAINER(item, crti_placement_group_waiter_t, in_group));
    return NULL;
}

crti_placement_group_waiter_t *
crti_placement_group_overdue(crti_placement_group_table_t *table, uint64_t now_ns)
{
    CRTI_LIST_FOREACH (item, &table->waiters) {
        crti_placement_group_waiter_t *waiter =
            CRTI_CONTAINER(item, crti_placement_group_waiter_t, in_all);

        return waiter->deadline_ns <= now_ns ? take_out(waiter) : NULL;
    }
    return NULL;
}

void crti_placement_group_link_ended(crti_placement_group_table_t *table, uint64_t link)
{
    CRTI_LIST_FOREACH_SAFE (item, &table->waiters) {
        crti_placement_group_waiter_t *waiter =
            CRTI_CONTAINER(item, crti_placement_group_waiter_t, in_all);

        if (waiter->link == link)
            free(take_out(waiter));
    }
}

uint64_t crti_placement_group_table_deadline(const crti_placement_group_table_t *table,
                                             uint64_t done_ns)
{
    uint64_t next = UINT64_MAX;

    if (!crti_list_is_empty(&table->waiters))
        next = CRTI_CONTAINER(table->waiters.next, crti_placement_group_waiter_t, in_all)
                   ->deadline_ns;
    CRTI_LIST_FOREACH (item, &table->waiting) {
        const crti_placement_group_entry_t *group = CRTI_PLACEMENT_GROUP_OF(item);

        if (!group->reserving && group->retry_ns > done_ns && group->retry_ns < next)
            next = group->retry_ns;
    }
    return next;
}

crt_status_t crti_placement_group_pack(const crti_placement_group_entry_t *group,
                                       crti_buffer_t *list)
{
    crt_status_t status = CRT_OK;

    for (size_t i = 0; status == CRT_OK && i < group->bundle_count; i++) {
        const crti_bundle_entry_t *bundle = &group->bundles[i];
        CRTI_AUTO(crti_buffer_fini) crti_buffer_t entry = {0};
        crti_msg_bundle_t m = {.resources = bundle->resources,
                               .selector = crti_str(bundle->how.selector)};

        if (bundle->state == CRTI_BUNDLE_RESERVED) {
            m.node = bundle->node;
            m.incarnation = bundle->incarnation;
        }
        status = crti_message_encode(CRTI_MSG_BUNDLE, 0, &m, &entry);
        if (status == CRT_OK)
            status = crti_list_pack(list, entry.data, entry.size);
    }
    return status;
}
