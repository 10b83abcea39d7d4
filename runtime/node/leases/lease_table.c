/* SPDX-License-Identifier: Apache-2.0 */
/* Lease table. See lease_table.h for the policy and the states. */
#include "runtime/node/leases/lease_table_int.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/arrow.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/map.h"
#include "runtime/node/leases/fair_share.h"
#include "runtime/node/leases/lease_reason.h"
#include "runtime/node/leases/no_room.h"
#include "runtime/node/leases/node_views.h"
#include "runtime/node/leases/room.h"

#define TELL_AFTER (1 * CRTI_S)
#define PATIENCE   (5 * CRTI_S)

#define TO(state) (1u << CRTI_LEASE_##state)
static const crti_state_row_t states[CRTI_LEASE_STATES] = {
    [CRTI_LEASE_WAITING] = {"waiting", TO(STARTING) | TO(SPILLBACK) | TO(GONE)},
    [CRTI_LEASE_STARTING] = {"starting", TO(GRANTED) | TO(GONE)},
    [CRTI_LEASE_GRANTED] = {"granted", TO(GONE)},
    [CRTI_LEASE_SPILLBACK] = {"spilled", TO(WAITING) | TO(GONE)},
    [CRTI_LEASE_GONE] = {"gone", 0},
};

static void set_state(entry_t *e, crti_lease_state_t state)
{
    assert(states[e->lease.state].next & 1u << state);
    CRTI_ARROW("node lease", states, e->lease.state, state);
    crti_log(CRTI_LOG_DEBUG, "lease", "%016llx %s -> %s",
             (unsigned long long)e->lease.id.high, states[e->lease.state].name,
             states[state].name);
    e->lease.state = state;
}

/* ---------------------------------------------------------------- life and actions */

crt_status_t crti_lease_table_new(crti_id_t self, const crti_resources_t *resources,
                                  size_t max_workers, crti_lease_table_t **table_out)
{
    crti_lease_table_t *table = calloc(1, sizeof(*table));

    if (table == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "lease table");
    table->self = self;
    table->labels = "";
    table->max_workers = max_workers;
    crti_map_init(&table->leases, sizeof(crti_id_t));
    crti_map_init(&table->workers, sizeof(crti_id_t));
    crti_room_init(&table->room, resources);
    crti_job_shares_init(&table->shares);
    crti_node_views_init(&table->views, resources);
    crti_list_init(&table->queue);
    *table_out = table;
    return CRT_OK;
}

void crti_lease_table_labels(crti_lease_table_t *table, const char *labels)
{
    table->labels = labels;
}

void crti_lease_table_free(crti_lease_table_t *table)
{
    if (table == NULL)
        return;
    CRTI_MAP_FOREACH (entry_t, e, &table->leases)
        free(e);
    crti_map_fini(&table->leases);
    crti_room_fini(&table->room);
    crti_job_shares_fini(&table->shares);
    crti_node_views_fini(&table->views);
    crti_map_fini(&table->workers);
    crti_buffer_fini(&table->actions);
    free(table);
}

static crti_lease_action_t *act(crti_lease_table_t *table, crti_lease_verb_t verb,
                                crti_id_t lease)
{
    crti_lease_action_t action = {.verb = verb, .lease = lease};

    if (crti_buffer_append(&table->actions, &action, sizeof(action)) != CRT_OK) {
        /* The lease keeps its state; its owner times out or cancels. */
        crti_log(CRTI_LOG_ERROR, "lease", "no memory for an action");
        return NULL;
    }
    return (crti_lease_action_t *)(void *)(table->actions.data + table->actions.size -
                                           sizeof(action));
}

bool crti_lease_table_action(crti_lease_table_t *table, crti_lease_action_t *action_out)
{
    if (!crti_buffer_take(&table->actions, &table->action_done, action_out,
                          sizeof(*action_out)))
        return false;
    if (action_out->verb == CRTI_LEASE_CHANGED)
        table->told_changed = false;
    return true;
}

static void changed(crti_lease_table_t *table)
{
    if (!table->told_changed && act(table, CRTI_LEASE_CHANGED, (crti_id_t){0}))
        table->told_changed = true;
}

static entry_t *find(const crti_lease_table_t *table, crti_id_t id)
{
    return crti_map_get(&table->leases, &id);
}

const crti_lease_t *crti_lease_table_get(const crti_lease_table_t *table, crti_id_t id)
{
    const entry_t *e = find(table, id);

    return e ? &e->lease : NULL;
}

const crti_resources_t *crti_lease_table_resources(const crti_lease_table_t *table)
{
    return &table->room.resources;
}

const crti_resources_t *crti_lease_table_available(const crti_lease_table_t *table)
{
    return &table->room.available;
}

const crti_lease_t *crti_lease_table_next(const crti_lease_table_t *table, size_t *cursor)
{
    void *value;

    return crti_map_next(&table->leases, cursor, NULL, &value)
               ? &((entry_t *)value)->lease
               : NULL;
}

const crti_room_t *crti_lease_table_room(const crti_lease_table_t *table)
{
    return &table->room;
}

const crti_job_shares_t *crti_lease_table_shares(const crti_lease_table_t *table)
{
    return &table->shares;
}

crti_job_shares_t *crti_lease_table_change_shares(crti_lease_table_t *table)
{
    return &table->shares;
}

/* ---------------------------------------------------------------- where to */

/* The node with room that the policy prefers. `here` says whether this node may be chosen.
 * NULL: this node, or (with *found_out false) none. */
static crti_node_view_t *choose(const crti_lease_table_t *table,
                                const crti_lease_t *lease, bool here, bool *found_out)
{
    crti_node_self_t self = crti_lease_table_self(table);
    crti_node_need_t need = {.resources = &lease->resources,
                             .how = &lease->how,
                             .prefer = lease->prefer,
                             .stays = lease->spillbacks != 0};

    self.has_room = here && !table->is_drained && table->running < table->max_workers &&
                    crti_room_fits(&table->room, NULL, &lease->resources);
    return crti_node_views_choose(&table->views, &self, &need, found_out);
}

/* What runs in a bundle is reserved already: the shares of jobs are about the rest of the node. */
static bool is_shared(const entry_t *e)
{
    return crti_id_is_zero(e->lease.how.group);
}

static void join_shares(crti_lease_table_t *table, const entry_t *e, uint64_t now_ns)
{
    if (is_shared(e))
        crti_job_shares_join(&table->shares, e->lease.job, &e->lease.quota, now_ns);
}

static void leave_shares(crti_lease_table_t *table, const entry_t *e, uint64_t now_ns)
{
    if (is_shared(e))
        crti_job_shares_leave(&table->shares, e->lease.job, now_ns);
}

static void hold_share(crti_lease_table_t *table, const entry_t *e, int change,
                       uint64_t now_ns)
{
    if (is_shared(e))
        crti_job_shares_hold(&table->shares, e->lease.job,
                             change * crti_lease_weight(&e->lease), now_ns);
}

static void enqueue(crti_lease_table_t *table, entry_t *e, uint64_t now_ns)
{
    crti_list_t *at = table->queue.prev;

    while (at != &table->queue && CRTI_CONTAINER(at, entry_t, link)->arrival > e->arrival)
        at = at->prev;
    crti_list_append(at->next, &e->link); /* before the first later one */
    table->waiting++;
    join_shares(table, e, now_ns);
}

static void dequeue(crti_lease_table_t *table, entry_t *e, uint64_t now_ns)
{
    crti_list_remove(&e->link);
    table->waiting--;
    leave_shares(table, e, now_ns);
}

static void start_here(crti_lease_table_t *table, entry_t *e, uint64_t now_ns)
{
    /* First, as a job that is not here for a moment has come back. */
    join_shares(table, e, now_ns);
    hold_share(table, e, 1, now_ns);
    dequeue(table, e, now_ns);
    set_state(e, CRTI_LEASE_STARTING);
    table->running++;
    crti_room_take(&table->room, e->lease.bundle, &e->lease.resources, &e->lease.gpus);
    act(table, CRTI_LEASE_FIND_WORKER, e->lease.id);
    changed(table);
}

bool crti_lease_entry_forward(crti_lease_table_t *table, entry_t *e,
                              crti_node_view_t *view, uint64_t now_ns)
{
    crti_lease_action_t *action = act(table, CRTI_LEASE_FORWARD, e->lease.id);

    if (action == NULL)
        return false;
    dequeue(table, e, now_ns);
    set_state(e, CRTI_LEASE_SPILLBACK);
    e->lease.node = action->node = view->id;
    if (is_shared(e) && !e->lease.awaits_turn)
        crti_node_view_expect_less(view, &e->lease.resources, now_ns);
    return true;
}

static void forget(crti_lease_table_t *table, entry_t *e)
{
    set_state(e, CRTI_LEASE_GONE);
    crti_map_remove(&table->leases, &e->lease.id);
    free(e);
}

bool crti_lease_entry_give_back(crti_lease_table_t *table, entry_t *e, const char *text,
                                uint64_t now_ns)
{
    crti_lease_action_t *action = act(table, CRTI_LEASE_GIVE_BACK, e->lease.id);

    if (action == NULL)
        return false;
    snprintf(action->text, sizeof(action->text), "%s", text);
    dequeue(table, e, now_ns);
    forget(table, e);
    changed(table);
    return true;
}

/* No node has what it needs, however idle, and it does not wait for one. Without the head nobody
 * knows. */
static bool is_hopeless(const crti_lease_table_t *table, const crti_lease_t *lease)
{
    bool is_for_one =
        lease->how.strategy == CRTI_STRATEGY_AFFINITY && !lease->how.is_soft;

    return crti_id_is_zero(lease->how.group) &&
           (lease->fails_if_infeasible || is_for_one) && !table->views.is_headless &&
           !crti_lease_feasible(table, lease);
}

static void refuse(crti_lease_table_t *table, entry_t *e, uint64_t now_ns)
{
    crti_lease_action_t *action = act(table, CRTI_LEASE_REFUSE, e->lease.id);

    if (action == NULL)
        return;
    crti_lease_reason(table, &e->lease, action->text, sizeof(action->text));
    dequeue(table, e, now_ns);
    forget(table, e);
    changed(table);
}

/* What nodes have in all has changed. */
static void refuse_infeasible(crti_lease_table_t *table, uint64_t now_ns)
{
    CRTI_LIST_FOREACH_SAFE (item, &table->queue) {
        entry_t *e = CRTI_CONTAINER(item, entry_t, link);

        if (is_hopeless(table, &e->lease))
            refuse(table, e, now_ns);
    }
}

static bool is_allowed(const crti_lease_table_t *table, const crti_lease_t *lease)
{
    return crti_job_shares_allow(&table->shares, lease->job, crti_lease_weight(lease),
                                 crti_resources_get(&table->room.resources, "CPU"));
}

/* It has waited so long that room is kept for it: nobody behind it may take this node. */
static bool keeps_room(const crti_lease_table_t *table, const crti_lease_t *lease,
                       uint64_t now_ns)
{
    return !table->is_drained && now_ns - lease->since_ns > PATIENCE &&
           is_allowed(table, lease) &&
           crti_scheduling_feasible(&table->room.resources, table->self, table->labels,
                                    &lease->resources, &lease->how);
}

/* A request for a bundle goes to the bundle's node, and waits there. Whoever asked is told when the
 * bundle is not there: the head knows where it is. True: it does not wait any more. */
static bool serve_bundle(crti_lease_table_t *table, entry_t *e, uint64_t now_ns)
{
    const crti_lease_t *lease = &e->lease;
    crti_bundle_t *bundle = NULL;
    crti_node_view_t *view = NULL;

    if (crti_id_equal(lease->how.node, table->self))
        bundle = crti_bundle_table_get(&table->room.bundles, lease->how.group,
                                       lease->how.bundle, &lease->resources);
    else if (!lease->spillbacks)
        view = crti_node_views_get(&table->views, lease->how.node);
    if (!bundle && !view)
        return crti_lease_entry_give_back(table, e, CRTI_NO_BUNDLE, now_ns);
    if (view) {
        return crti_lease_entry_forward(table, e, view, now_ns);
    }
    if (table->running >= table->max_workers ||
        !crti_room_fits(&table->room, bundle, &lease->resources))
        return false;
    e->lease.bundle = bundle;
    start_here(table, e, now_ns);
    return true;
}

/* True: it does not wait any more. */
static bool serve_one(crti_lease_table_t *table, entry_t *e, bool here,
                      crti_no_room_t *no_room, uint64_t now_ns)
{
    bool is_in_its_share = is_allowed(table, &e->lease), found;
    crti_node_view_t *view = choose(table, &e->lease, here && is_in_its_share, &found);

    if (!found && is_in_its_share && no_room->count < CRTI_NO_ROOM)
        no_room->shapes[no_room->count++] = &e->lease;
    if (found && e->lease.how.strategy == CRTI_STRATEGY_SPREAD)
        table->views.spread_last = view ? view->id : table->self;
    if (view && e->lease.spillbacks) {
        crti_node_view_expect_less(view, &e->lease.resources, now_ns);
        crti_lease_entry_give_back(table, e, "another node has room", now_ns);
    } else if (view)
        crti_lease_entry_forward(table, e, view, now_ns);
    else if (found)
        start_here(table, e, now_ns);
    return found;
}

/* Serves the queue from its head; with `shares` one request of the job that is next, true: there
 * was one. A request that has waited for PATIENCE and can't be served closes this node to those
 * behind it (they may still go elsewhere). */
static bool serve_jobs(crti_lease_table_t *table, crti_fair_shares_t *shares,
                       uint64_t now_ns)
{
    crti_no_room_t no_room = {.count = 0};
    bool here = true;

    CRTI_LIST_FOREACH_SAFE (item, &table->queue) {
        entry_t *e = CRTI_CONTAINER(item, entry_t, link);

        if (!is_shared(e)) {
            serve_bundle(table, e, now_ns);
            continue;
        }
        if (shares && !crti_fair_shares_is_next(shares, e->lease.job)) {
            here = here && (crti_room_fits(&table->room, NULL, &e->lease.resources) ||
                            !keeps_room(table, &e->lease, now_ns));
            continue;
        }
        if (crti_has_no_room(&no_room, &e->lease))
            continue;
        if (serve_one(table, e, here, &no_room, now_ns)) {
            if (shares)
                return true;
        } else if (keeps_room(table, &e->lease, now_ns)) {
            here = false;
        }
    }
    return false;
}

/* Jobs that have used least of their shares come first; within a job, who came first. */
static void serve(crti_lease_table_t *table, uint64_t now_ns)
{
    crti_fair_shares_t shares;

    if (table->waiting > 1 && crti_fair_shares_collect(table, &shares, now_ns))
        while (crti_fair_shares_next(&shares))
            crti_fair_shares_served(&shares, table, serve_jobs(table, &shares, now_ns));
    (void)serve_jobs(table, NULL, now_ns);
}

size_t crti_lease_table_waiting(const crti_lease_table_t *table)
{
    return table->waiting;
}

/* ---------------------------------------------------------------- requests */

crt_status_t crti_lease_table_request(crti_lease_table_t *table,
                                      const crti_lease_t *lease, uint64_t now_ns)
{
    entry_t *e = find(table, lease->id);
    crt_status_t status = crti_resources_check(&lease->resources);

    if (e || status != CRT_OK)
        return e ? CRT_OK : status;
    e = calloc(1, sizeof(*e));
    if (e == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "lease");
    e->lease = *lease;
    e->lease.state = CRTI_LEASE_WAITING;
    e->lease.worker = e->lease.node = (crti_id_t){0};
    e->lease.gpus = (crti_gpu_share_t){0};
    e->lease.bundle = NULL;
    e->lease.is_blocked = false;
    e->lease.since_ns = now_ns;
    e->told[0] = '\0';
    e->arrival = table->arrivals++;
    e->explained_ns = now_ns;
    status = crti_map_put(&table->leases, &lease->id, e);
    if (status != CRT_OK) {
        free(e);
        return status;
    }
    enqueue(table, e, now_ns);
    serve(table, now_ns);
    e = find(table, lease->id);
    if (e && e->lease.state == CRTI_LEASE_WAITING) {
        changed(table); /* the head shows what waits */
        if (is_hopeless(table, &e->lease))
            refuse(table, e, now_ns);
        else
            (void)crti_fair_share_judge(table, lease->id, now_ns);
    }
    return CRT_OK;
}

void crti_lease_table_yield(crti_lease_table_t *table, crti_id_t id, bool when_idle)
{
    entry_t *e = find(table, id);
    bool *was_asked = !e ? NULL : when_idle ? &e->lease.is_wanted : &e->lease.is_yielding;

    if (was_asked && !*was_asked && e->lease.state == CRTI_LEASE_GRANTED)
        *was_asked =
            act(table, when_idle ? CRTI_LEASE_WHEN_IDLE : CRTI_LEASE_YIELD, id) != NULL;
}

void crti_lease_table_drain(crti_lease_table_t *table, uint64_t now_ns)
{
    table->is_drained = true;
    serve(table, now_ns);
    refuse_infeasible(table, now_ns);
}

bool crti_lease_table_granted(crti_lease_table_t *table, crti_id_t id, crti_id_t worker,
                              uint64_t now_ns)
{
    entry_t *e = find(table, id);

    if (e == NULL || e->lease.state != CRTI_LEASE_STARTING)
        return false;
    if (crti_map_put(&table->workers, &worker, e) != CRT_OK)
        return false;
    set_state(e, CRTI_LEASE_GRANTED);
    e->lease.worker = worker;
    e->lease.granted_ns = now_ns;
    return true;
}

/* A lease that runs or is to run gives back what it has. */
static void stop_here(crti_lease_table_t *table, entry_t *e, uint64_t now_ns)
{
    crti_resources_t back = e->lease.resources;

    if (e->lease.is_blocked) /* it has lent them */
        crti_resources_set(&back, "CPU", 0);
    if (e->lease.state == CRTI_LEASE_GRANTED) {
        crti_map_remove(&table->workers, &e->lease.worker);
        crti_room_keep_gpus(&table->room, e->lease.worker, e->lease.job, e->lease.bundle,
                            &back, &e->lease.gpus);
    }
    table->running--;
    if (!e->lease.is_blocked)
        hold_share(table, e, -1, now_ns);
    leave_shares(table, e, now_ns);
    crti_room_give(&table->room, e->lease.bundle, &back, &e->lease.gpus);
}

bool crti_lease_table_end(crti_lease_table_t *table, crti_id_t id, uint64_t now_ns)
{
    entry_t *e = find(table, id);

    if (e == NULL)
        return false;
    switch (e->lease.state) {
    case CRTI_LEASE_WAITING: dequeue(table, e, now_ns); break;
    case CRTI_LEASE_GRANTED:
    case CRTI_LEASE_STARTING: stop_here(table, e, now_ns); break;
    case CRTI_LEASE_SPILLBACK:
    case CRTI_LEASE_GONE:
    case CRTI_LEASE_STATES: break;
    }
    forget(table, e);
    changed(table);
    serve(table, now_ns);
    return true;
}

static void wait_again(crti_lease_table_t *table, entry_t *e, uint64_t now_ns)
{
    set_state(e, CRTI_LEASE_WAITING);
    e->lease.node = (crti_id_t){0};
    e->lease.awaits_turn = false;
    enqueue(table, e, now_ns);
}

void crti_lease_table_bounced(crti_lease_table_t *table, crti_id_t id, uint64_t now_ns)
{
    entry_t *e = find(table, id);

    if (e == NULL || e->lease.state != CRTI_LEASE_SPILLBACK)
        return;
    if (e->lease.awaits_turn)
        crti_fair_share_bounced(table, &e->lease, now_ns);
    else
        crti_node_views_refused(&table->views, e->lease.node,
                                now_ns); /* not there at once */
    wait_again(table, e, now_ns);
    if (is_shared(e) || !crti_lease_entry_give_back(table, e, CRTI_NO_BUNDLE, now_ns))
        serve(table, now_ns);
}

void crti_lease_table_blocked(crti_lease_table_t *table, crti_id_t worker, bool blocked,
                              uint64_t now_ns)
{
    entry_t *e = crti_map_get(&table->workers, &worker);
    crti_resources_t cpus = {0};

    if (e == NULL || e->lease.is_blocked == blocked)
        return;
    e->lease.is_blocked = blocked;
    hold_share(table, e, blocked ? -1 : 1, now_ns);
    crti_resources_set(&cpus, "CPU", crti_resources_get(&e->lease.resources, "CPU"));
    crti_room_lend(&table->room, e->lease.bundle, &cpus, blocked);
    changed(table);
    serve(table, now_ns);
}

/* ---------------------------------------------------------------- actors and bundles */

crti_room_t *crti_lease_table_change_room(crti_lease_table_t *table)
{
    changed(table);
    return &table->room;
}

void crti_lease_table_serve(crti_lease_table_t *table, uint64_t now_ns)
{
    serve(table, now_ns);
}

/* ---------------------------------------------------------------- other nodes */

crt_status_t crti_lease_table_view(crti_lease_table_t *table, crti_id_t node,
                                   const char *labels, const crti_resources_t *resources,
                                   const crti_resources_t *available)
{
    if (crti_id_equal(node, table->self))
        return CRT_OK;
    return crti_node_views_note(&table->views, node, labels, resources, available);
}

void crti_lease_table_view_room(crti_lease_table_t *table, crti_id_t node,
                                const crti_resources_t *available)
{
    crti_node_views_note_room(&table->views, node, available);
}

void crti_lease_table_head(crti_lease_table_t *table, bool is_away, uint64_t now_ns)
{
    if (table->views.is_headless == is_away)
        return;
    crti_node_views_head(&table->views, is_away);
    crti_job_shares_reset(&table->shares, now_ns);
    serve(table, now_ns);
    refuse_infeasible(table, now_ns);
}

void crti_lease_table_node_died(crti_lease_table_t *table, crti_id_t node,
                                uint64_t now_ns)
{
    crti_node_views_forget(&table->views, node);
    CRTI_MAP_FOREACH (entry_t, e, &table->leases) {
        if (e->lease.state == CRTI_LEASE_SPILLBACK && crti_id_equal(e->lease.node, node))
            wait_again(table, e, now_ns);
    }
    serve(table, now_ns);
    refuse_infeasible(table, now_ns);
}

/* ---------------------------------------------------------------- why it waits */

const crti_node_views_t *crti_lease_table_views(const crti_lease_table_t *table)
{
    return &table->views;
}

size_t crti_lease_table_nodes(const crti_lease_table_t *table)
{
    return table->views.map.count;
}

uint64_t crti_lease_table_tick(crti_lease_table_t *table, uint64_t now_ns)
{
    uint64_t next = UINT64_MAX, doubts = UINT64_MAX;

    crti_node_views_tick(&table->views, now_ns, &doubts);
    serve(table, now_ns);
    next = table->waiting ? doubts : next;
    CRTI_LIST_FOREACH (item, &table->queue) {
        entry_t *e = CRTI_CONTAINER(item, entry_t, link);
        crti_lease_action_t *action;
        char text[160];
        uint64_t due = e->explained_ns + TELL_AFTER;

        if (now_ns < due) {
            next = due < next ? due : next;
            continue;
        }
        e->explained_ns = now_ns;
        next = now_ns + TELL_AFTER < next ? now_ns + TELL_AFTER : next;
        crti_lease_reason(table, &e->lease, text, sizeof(text));
        if (!crti_lease_reason_is_new(text, e->told))
            continue;
        action = act(table, CRTI_LEASE_TELL, e->lease.id);
        if (action == NULL)
            continue;
        memcpy(action->text, text, sizeof(text));
        memcpy(e->told, text, sizeof(text));
    }
    return next;
}
