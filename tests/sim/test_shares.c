/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of jobs on a cluster: the tables of leases of several nodes and the levels of the head, on
 * virtual time, with greedy jobs. Each has its share by weight, whichever node its driver is on and
 * whichever job was first; also while heartbeats are lost, after the head died, and after a node
 * did. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/control/tables/job_levels.h"
#include "runtime/node/leases/fair_share.h"

#include <cmocka.h>

#define NODES_MAX 8
#define JOBS_MAX  3
#define FLIGHT    10 /* tasks that a driver has under way */
#define LEASES    4096
#define STEP      CRTI_MS
#define HOP       1  /* ms that a message takes */
#define GATHER    50 /* ms, of heartbeats and of views */

/* A lease as its owner knows it; its id is its place. */
typedef struct lease {
    bool is_used, is_running, yields;
    unsigned job, node; /* where it runs */
    uint64_t until;     /* the task's end */
} lease_t;

typedef enum event_kind {
    NONE,
    REQUEST,
    GRANTED,
    BOUNCED,
    BEAT,
    ACK,
    VIEW,
    YIELD
} event_kind_t;

typedef struct event {
    event_kind_t kind;
    uint64_t at;
    unsigned node, to;
    size_t lease;
    double available, ahead;
    uint64_t jobs;
    unsigned count;
    crti_job_use_t use[JOBS_MAX];
    crti_job_level_t level[JOBS_MAX];
} event_t;

typedef struct world {
    unsigned nodes, jobs, task_ms, loss; /* loss: of 100 heartbeats */
    crti_lease_table_t *table[NODES_MAX];
    bool is_dead[NODES_MAX];
    uint64_t beat[NODES_MAX], beat_due[NODES_MAX], view_due[NODES_MAX];
    double said[NODES_MAX];
    crti_job_levels_t head;
    unsigned weight[JOBS_MAX], home[JOBS_MAX], done[JOBS_MAX];
    uint64_t begin[JOBS_MAX], now, seed;
    lease_t lease[LEASES];
    event_t *event;
    size_t events, room;
} world_t;

static crti_id_t node_id(unsigned node)
{
    return (crti_id_t){1, node + 1};
}
static crti_id_t job_id(unsigned job)
{
    return (crti_id_t){2, job + 1};
}
static crti_id_t lease_id(size_t lease)
{
    return (crti_id_t){3, lease + 1};
}

static unsigned draw(world_t *w, unsigned below)
{
    w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(w->seed >> 33) % below;
}

static event_t *later(world_t *w, event_kind_t kind, unsigned ms)
{
    if (w->events == w->room) {
        w->room = w->room * 2 + 256;
        w->event = realloc(w->event, w->room * sizeof(*w->event));
    }
    w->event[w->events] = (event_t){.kind = kind, .at = w->now + ms * STEP};
    return &w->event[w->events++];
}

/* ---------------------------------------------------------------- nodes */

static void request(world_t *w, unsigned node, size_t lease, bool is_sent,
                    bool awaits_turn)
{
    const lease_t *l = &w->lease[lease];
    crti_lease_t ask = {.id = lease_id(lease),
                        .job = job_id(l->job),
                        .owner = {4, l->job + 1},
                        .owner_node = node_id(w->home[l->job]),
                        .quota = {w->weight[l->job], CRTI_JOB_SHARE_ONE},
                        .spillbacks = is_sent,
                        .awaits_turn = awaits_turn};

    crti_resources_set(&ask.resources, "CPU", CRTI_RESOURCE_ONE);
    assert_int_equal(crti_lease_table_request(w->table[node], &ask, w->now), CRT_OK);
}

static void act(world_t *w, unsigned node)
{
    crti_lease_action_t a;

    crti_fair_share_want_back(w->table[node]);
    while (crti_lease_table_action(w->table[node], &a)) {
        size_t lease = a.lease.low - 1;
        event_t *e;

        switch (a.verb) {
        case CRTI_LEASE_FIND_WORKER:
            e = later(w, GRANTED, HOP);
            e->node = node;
            e->lease = lease;
            break;
        case CRTI_LEASE_FORWARD:
            e = later(w, REQUEST, HOP);
            e->node = (unsigned)a.node.low - 1;
            e->lease = lease;
            e->count = crti_lease_table_get(w->table[node], a.lease)->awaits_turn;
            break;
        case CRTI_LEASE_GIVE_BACK:
            e = later(w, BOUNCED, HOP);
            e->lease = lease;
            break;
        case CRTI_LEASE_YIELD:
            e = later(w, YIELD, HOP);
            e->lease = lease;
            break;
        case CRTI_LEASE_CHANGED:
            if (!w->beat_due[node])
                w->beat_due[node] = w->beat[node] + GATHER * STEP;
            break;
        default: break;
        }
    }
}

static void beat(world_t *w, unsigned node)
{
    crti_job_shares_t *shares = crti_lease_table_change_shares(w->table[node]);
    bool all = crti_lease_table_waiting(w->table[node]) > 0;
    event_t *e = later(w, BEAT, HOP);
    size_t cursor = 0;

    e->node = node;
    e->available =
        (double)crti_resources_get(crti_lease_table_available(w->table[node]), "CPU");
    while (e->count < JOBS_MAX &&
           crti_job_shares_tell(shares, &cursor, all, w->now, &e->use[e->count]))
        e->count++;
    w->beat[node] = w->now;
    w->beat_due[node] = 0;
    if ((unsigned)draw(w, 100) < w->loss) /* as if the link had broken */
        e->kind = NONE;
    if (e->kind == NONE)
        crti_job_shares_reset(shares, w->now);
    if (e->kind == NONE)
        crti_job_levels_forget(&w->head, node_id(node), w->now);
}

/* ---------------------------------------------------------------- the head */

static void heard(world_t *w, const event_t *of)
{
    event_t beat = *of, *e = later(w, ACK, HOP);

    e->node = beat.node;
    for (unsigned i = 0; i < beat.count; i++)
        e->count += crti_job_levels_note(&w->head, node_id(beat.node), &beat.use[i],
                                         w->now, &e->level[e->count]);
    e->ahead = crti_job_levels_ahead(&w->head, w->now);
    e->jobs = w->head.present;
    if (beat.available != w->said[beat.node] && !w->view_due[beat.node])
        w->view_due[beat.node] = w->now + GATHER * STEP;
    w->said[beat.node] = beat.available;
}

static void tell_views(world_t *w, unsigned node)
{
    w->view_due[node] = 0;
    for (unsigned i = 0; i < w->nodes; i++) {
        event_t *e = i == node ? NULL : later(w, VIEW, HOP);

        if (e) {
            e->node = node;
            e->to = i;
            e->available = w->said[node];
        }
    }
}

static void see(world_t *w, unsigned node, unsigned to, double available)
{
    crti_resources_t all = {0}, free_ = {0};

    crti_resources_set(&all, "CPU", CRTI_RESOURCE_ONE);
    crti_resources_set(&free_, "CPU", (int64_t)(available > 0 ? available : 0));
    assert_int_equal(crti_lease_table_view(w->table[to], node_id(node), "", &all, &free_),
                     CRT_OK);
    crti_lease_table_serve(w->table[to], w->now);
}

/* ---------------------------------------------------------------- drivers */

static void ask(world_t *w, unsigned job)
{
    size_t lease = 0;

    while (w->lease[lease].is_used)
        lease++;
    w->lease[lease] = (lease_t){.is_used = true, .job = job};
    request(w, w->home[job], lease, false, false);
    act(w, w->home[job]);
}

static void granted(world_t *w, unsigned node, size_t lease)
{
    lease_t *l = &w->lease[lease];
    unsigned home = w->home[l->job];

    if (!crti_lease_table_granted(w->table[node], lease_id(lease),
                                  (crti_id_t){5, lease + 1}, w->now))
        return;
    if (home != node)
        crti_lease_table_end(w->table[home], lease_id(lease), w->now);
    l->is_running = true;
    l->node = node;
    l->until = w->now + w->task_ms * STEP;
    act(w, home);
    act(w, node);
}

static void end_task(world_t *w, size_t lease)
{
    lease_t *l = &w->lease[lease];
    unsigned job = l->job, node = l->node;

    w->done[job]++;
    l->until = w->now + w->task_ms * STEP;
    if (!l->yields)
        return;
    l->is_used = l->is_running = false;
    crti_lease_table_end(w->table[node], lease_id(lease), w->now);
    act(w, node);
    ask(w, job);
}

/* ---------------------------------------------------------------- time */

static void happen(world_t *w, const event_t *at)
{
    event_t e = *at;
    unsigned home = w->home[w->lease[e.lease].job];

    switch (e.kind) {
    case NONE: break;
    case REQUEST:
        if (w->is_dead[e.node])
            break;
        request(w, e.node, e.lease, true, e.count);
        act(w, e.node);
        break;
    case GRANTED:
        if (!w->is_dead[e.node])
            granted(w, e.node, e.lease);
        break;
    case BOUNCED:
        crti_lease_table_bounced(w->table[home], lease_id(e.lease), w->now);
        act(w, home);
        break;
    case BEAT:
        if (!w->is_dead[e.node])
            heard(w, &e);
        break;
    case ACK: {
        crti_job_shares_t *shares = crti_lease_table_change_shares(w->table[e.node]);

        shares->ahead = e.ahead;
        shares->jobs = e.jobs;
        for (unsigned i = 0; i < e.count; i++)
            crti_job_shares_told(shares, &e.level[i], w->now);
        break;
    }
    case VIEW:
        if (w->is_dead[e.node])
            break;
        see(w, e.node, e.to, e.available);
        act(w, e.to);
        break;
    case YIELD: w->lease[e.lease].yields = true; break;
    }
}

static void tick(world_t *w, unsigned node)
{
    const crti_lease_table_t *table = w->table[node];

    if (w->now / STEP % 25 == 0) {
        crti_lease_table_tick(w->table[node], w->now);
        crti_fair_share_tick(w->table[node], w->now);
        act(w, node);
        if (crti_lease_table_waiting(table) && crti_lease_table_shares(table)->jobs > 1 &&
            w->now - w->beat[node] >= CRTI_LIMIT(share_turn) + w->nodes * STEP)
            w->beat_due[node] = w->now;
    }
    if ((w->beat_due[node] && w->now >= w->beat_due[node]) ||
        w->now - w->beat[node] >= CRTI_S)
        beat(w, node);
    if (w->view_due[node] && w->now >= w->view_due[node])
        tell_views(w, node);
}

static void run(world_t *w, unsigned ms)
{
    for (uint64_t end = w->now + ms * STEP; w->now < end; w->now += STEP) {
        for (unsigned j = 0; j < w->jobs; j++)
            for (unsigned i = 0; w->begin[j] == w->now && i < FLIGHT; i++)
                ask(w, j);
        for (size_t i = 0; i < w->events; i++)
            if (w->event[i].at <= w->now) {
                event_t e = w->event[i];

                memmove(w->event + i, w->event + i + 1,
                        (--w->events - i) * sizeof(*w->event));
                i--;
                happen(w, &e);
            }
        for (size_t i = 0; i < LEASES; i++)
            if (w->lease[i].is_running && w->now >= w->lease[i].until)
                end_task(w, i);
        for (unsigned n = 0; n < w->nodes; n++)
            if (!w->is_dead[n])
                tick(w, n);
    }
}

static world_t *begin(unsigned nodes, const unsigned *weights, unsigned jobs,
                      unsigned task_ms)
{
    world_t *w = calloc(1, sizeof(*w));
    crti_resources_t have = {0};

    w->nodes = nodes;
    w->jobs = jobs;
    w->task_ms = task_ms;
    w->now = 100 * CRTI_S;
    w->seed = nodes * 100 + jobs;
    crti_job_levels_init(&w->head);
    crti_resources_set(&have, "CPU", CRTI_RESOURCE_ONE);
    for (unsigned i = 0; i < nodes; i++) {
        w->said[i] = CRTI_RESOURCE_ONE;
        w->beat[i] = w->now;
        assert_int_equal(crti_lease_table_new(node_id(i), &have, 64, &w->table[i]),
                         CRT_OK);
    }
    for (unsigned i = 0; i < nodes; i++)
        for (unsigned k = 0; k < nodes; k++)
            see(w, i, k, CRTI_RESOURCE_ONE);
    for (unsigned i = 0; i < jobs; i++) {
        w->weight[i] = weights[i];
        w->begin[i] = w->now + i * 500 * STEP; /* the lightest takes all at first */
    }
    return w;
}

static void end(world_t *w)
{
    for (unsigned i = 0; i < w->nodes; i++)
        crti_lease_table_free(w->table[i]);
    crti_job_levels_fini(&w->head);
    free(w->event);
    free(w);
}

/* Of `ms` from now on each job has its share within a tenth, and the CPUs do not idle. */
static void assert_shares(world_t *w, unsigned ms)
{
    unsigned sum = 0, weights = 0, alive = 0;

    memset(w->done, 0, sizeof(w->done));
    run(w, ms);
    for (unsigned i = 0; i < w->jobs; i++) {
        sum += w->done[i];
        weights += w->weight[i];
    }
    for (unsigned i = 0; i < w->nodes; i++)
        alive += !w->is_dead[i];
    for (unsigned i = 0; i < w->jobs; i++) {
        double part = (double)w->done[i] / sum, wanted = (double)w->weight[i] / weights;

        print_message("%u nodes, weight %u: %.3f, wanted %.3f\n", w->nodes, w->weight[i],
                      part, wanted);
        assert_true(part > 0.9 * wanted && part < 1.1 * wanted);
    }
    print_message("%.3f of the CPUs\n", (double)sum * w->task_ms / ms / alive);
    assert_true((double)sum * w->task_ms > 0.9 * ms * alive);
}

static const unsigned fifth[] = {1, 4}, eighth[] = {1, 2, 5};

static void jobs_have_their_shares_of_several_nodes(void **state)
{
    for (unsigned nodes = 1; nodes <= 8; nodes += nodes == 3 ? 5 : 2)
        for (unsigned jobs = 2; jobs <= 3; jobs++)
            for (unsigned spread = 0; spread < 2; spread++) {
                world_t *w = begin(nodes, jobs == 2 ? fifth : eighth, jobs, 20);

                for (unsigned i = 0; i < jobs; i++)
                    w->home[i] = spread ? i % nodes : 0;
                run(w, 3000);
                assert_shares(w, 20000); /* 10 s: up to 11 % by the order of a map */
                end(w);
            }
}

static void long_tasks_are_shared_as_well(void **state)
{
    world_t *w = begin(3, fifth, 2, 200);

    run(w, 3000);
    assert_shares(w, 30000);
    end(w);
}

static void lost_heartbeats_and_a_new_head_change_nothing_for_long(void **state)
{
    world_t *w = begin(3, fifth, 2, 20);

    w->loss = 5;
    run(w, 3000);
    assert_shares(w, 20000);
    crti_job_levels_fini(&w->head);
    crti_job_levels_init(&w->head);
    for (unsigned i = 0; i < 3; i++)
        crti_lease_table_head(w->table[i], true, w->now);
    run(w, 2000); /* beats in between are lost with the links that are not there */
    for (unsigned i = 0; i < 3; i++)
        crti_lease_table_head(w->table[i], false, w->now);
    crti_job_levels_fini(&w->head);
    crti_job_levels_init(&w->head);
    run(w, 2000);
    assert_shares(w, 20000);
    end(w);
}

static void what_a_dead_node_had_counts_no_more(void **state)
{
    world_t *w = begin(4, eighth, 3, 20);

    run(w, 3000);
    w->is_dead[3] = true;
    crti_job_levels_forget(&w->head, node_id(3), w->now);
    for (unsigned i = 0; i < 3; i++) {
        crti_lease_table_node_died(w->table[i], node_id(3), w->now);
        act(w, i);
    }
    for (size_t i = 0; i < LEASES; i++)
        if (w->lease[i].is_running && w->lease[i].node == 3) {
            w->lease[i].is_used = w->lease[i].is_running = false;
            ask(w, w->lease[i].job);
        }
    run(w, 2000);
    assert_shares(w, 10000);
    end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_have_their_shares_of_several_nodes),
        cmocka_unit_test(long_tasks_are_shared_as_well),
        cmocka_unit_test(lost_heartbeats_and_a_new_head_change_nothing_for_long),
        cmocka_unit_test(what_a_dead_node_had_counts_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
