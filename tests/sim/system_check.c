/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold in a simulated cluster, while it works and when it has come to rest. See
 * system_truth.h. */
#include <stdlib.h>
#include <string.h>

#include "runtime/node/leases/leases_int.h"
#include "runtime/node/links/links_int.h"
#include "runtime/node/objects/pull_table.h"
#include "runtime/node/process/process_int.h"
#include "tests/sim/system_truth.h"

truth_t *truth;

/* ---------------------------------------------------------------- calls */

unsigned truth_call_new(void)
{
    if (truth->calls + 1 >= TRUTH_CALLS)
        sim_fail(sys->world, "more than %d calls", TRUTH_CALLS);
    else
        truth->calls++;
    truth->call[truth->calls].tries = 1;
    return truth->calls;
}

unsigned truth_call_retried(int64_t max_attempts)
{
    unsigned serial = truth_call_new();

    truth->call[serial].tries =
        max_attempts == CRT_UNLIMITED ? 0 : (unsigned)max_attempts;
    return serial;
}

void truth_call_runs(unsigned serial)
{
    truth_call_t *c = &truth->call[serial % TRUTH_CALLS];

    c->runs++;
    sim_note(sys->world, "  call %u runs in pid %d", serial, (int)sys->self->pid);
    sim_fold(sys->world, (uint64_t)serial << 8 | c->runs);
    if ((c->tries && c->runs > c->tries) ||
        (c->runs > 1u + c->has_backup && truth->is_mild && !truth->restarts))
        sim_fail(sys->world,
                 "call %u of %u tries runs %u times: in pid %d, now in pid %d", serial,
                 c->tries, c->runs, (int)sys->process[c->by].pid, (int)sys->self->pid);
    if (c->is_over && c->has_failed && !c->may_have_run)
        sim_fail(sys->world, "call %u runs, and its caller was told that it did not",
                 serial);
    c->by = sys->self->index;
}

static bool is_expected(crt_status_t status, const char *text)
{
    /* Somebody killed the actor; who put what it keeps has left; its fence is shut. */
    return status == CRT_ERR_ACTOR_DIED || status == CRT_ERR_NOT_FOUND ||
           status == CRT_ERR_OWNER_DIED ||
           (status == CRT_ERR_CANCELLED && truth->cancels) ||
           ((status == CRT_ERR_UNSCHEDULABLE || status == CRT_ERR_WORKER_DIED) &&
            truth->removals) ||
           (status == CRT_ERR_HEAD_LOST && strstr(text, "its actor is fenced"));
}

void truth_failed(const char *what, crt_status_t status, const char *text)
{
    sim_fold(sys->world, (uint64_t)(unsigned)status);
    truth->failures++;
    if (truth->is_mild && !is_expected(status, text))
        sim_fail(sys->world, "%s of pid %d fails: %s (%s)", what, (int)sys->self->pid,
                 crt_status_text(status), text);
}

void truth_call_ended(unsigned serial, const char *what, crt_status_t status,
                      const crt_error_t *error)
{
    truth_call_t *c = &truth->call[serial % TRUTH_CALLS];

    sim_fold(sys->world, (uint64_t)serial << 16 ^ (uint64_t)(unsigned)status);
    truth->gets++;
    c->is_over = true;
    c->status = status;
    if (status == CRT_OK) {
        truth->successes++;
        if (c->runs == 0 || (c->tries == 1 && c->runs != 1))
            sim_fail(sys->world, "%s %u has a result and ran %u times", what, serial,
                     c->runs);
        return;
    }
    c->has_failed = true;
    c->may_have_run = !error || error->may_have_run;
    if (!c->may_have_run && c->runs)
        sim_fail(sys->world, "%s %u ran, and its caller is told that it did not: %s",
                 what, serial, error->text);
    truth_failed(what, status, error ? error->text : crt_error_detail());
}

/* ---------------------------------------------------------------- leases */

/* Available is what the node has less what is held. */
static void check_leases(const crti_node_t *node)
{
    const crti_lease_t *lease;
    size_t cursor = 0, granted = 0;
    int64_t held = 0, all, available;

    while ((lease = crti_lease_table_next(node->lease_table, &cursor)))
        if (lease->state == CRTI_LEASE_STARTING || lease->state == CRTI_LEASE_GRANTED) {
            held += lease->is_blocked ? 0 : crti_resources_get(&lease->resources, "CPU");
            granted += lease->state == CRTI_LEASE_GRANTED;
        }
    all = crti_resources_get(crti_lease_table_resources(node->lease_table), "CPU");
    available = crti_resources_get(crti_lease_table_available(node->lease_table), "CPU");
    if (available + held > all)
        sim_fail(sys->world, "node %.8s has %lld of %lld CPU free while leases hold %lld",
                 node->hex, (long long)available, (long long)all, (long long)held);
    (void)granted;
}

/* One worker, one lease. */
static void check_workers(const crti_node_t *node)
{
    const crti_lease_t *lease;
    size_t cursor = 0;

    while ((lease = crti_lease_table_next(node->lease_table, &cursor))) {
        const crti_worker_t *w;

        if (lease->state != CRTI_LEASE_GRANTED)
            continue;
        w = crti_worker_table_get(node->workers, lease->worker);
        if (w && w->state == CRTI_WORKER_LEASED && !crti_id_equal(w->purpose, lease->id))
            sim_fail(sys->world, "node %.8s: two leases of one worker", node->hex);
        if (w && w->state == CRTI_WORKER_IDLE)
            sim_fail(sys->world, "node %.8s: a worker is idle and leased", node->hex);
    }
}

void sys_check_now(void)
{
    for (unsigned i = 0; i < sys->hosts && !sys->world->failed; i++)
        if (sys->node[i] && sys->node[i]->node) {
            check_leases(sys->node[i]->node);
            check_workers(sys->node[i]->node);
        }
}

/* ---------------------------------------------------------------- at rest */

static void check_programs(void)
{
    for (unsigned i = 0; i < sys->processes; i++) {
        const sys_process_t *p = &sys->process[i];

        if (p->is_alive && p->kind == SYS_DRIVER)
            sim_fail(sys->world, "driver pid %d on %u hangs: %s", (int)p->pid, p->host,
                     p->doing);
    }
}

static void check_node(unsigned host)
{
    const crti_node_t *node = sys->node[host] ? sys->node[host]->node : NULL;
    const crti_lease_t *lease;
    size_t cursor = 0;
    void *value;

    if (!node || !node->head->open) {
        sim_fail(sys->world, "the node on %u is not registered", host);
        return;
    }
    lease = crti_lease_table_next(node->lease_table, &cursor);
    if (lease)
        sim_fail(sys->world, "the node on %u keeps a lease in state %d of %016llx", host,
                 (int)lease->state, (unsigned long long)lease->owner.high);
    if (node->leases->askers.count)
        sim_fail(sys->world, "the node on %u keeps %zu askers of leases", host,
                 node->leases->askers.count);
    if (!crti_list_is_empty(&node->head->order))
        sim_fail(sys->world,
                 "the node on %u has a question to the head without an answer", host);
    if (crti_pull_table_count(node->pull_table))
        sim_fail(sys->world, "the node on %u pulls for ever", host);
    cursor = 0;
    while (crti_map_next(&node->processes->by_id, &cursor, NULL, &value)) {
        const crti_process_t *p = value;
        const sys_process_t *s = sys_process_find(p->pid);

        if (!s || !s->is_alive)
            sim_fail(sys->world, "the node on %u has a process pid %d that is dead", host,
                     (int)p->pid);
    }
}

/* The process that hosts the actor; `*count_out`: how many do. */
static const crti_process_t *host_of_actor(crti_id_t actor, unsigned *count_out)
{
    const crti_process_t *found = NULL;

    *count_out = 0;
    for (unsigned i = 0; i < sys->hosts; i++) {
        const crti_node_t *node = sys->node[i] ? sys->node[i]->node : NULL;
        size_t cursor = 0;
        void *value;

        while (node && crti_map_next(&node->processes->by_id, &cursor, NULL, &value)) {
            const crti_process_t *p = value;

            if (!crti_id_equal(p->actor, actor))
                continue;
            found = p;
            (*count_out)++;
        }
    }
    return found;
}

static void check_actor(unsigned index)
{
    const truth_actor_t *a = &truth->actor[index];
    unsigned count;
    const crti_process_t *p = host_of_actor(a->id, &count);
    crti_id_t process;
    bool is_alive, is_known = sys_head_has_actor(a->id, &is_alive, &process);

    if (count > 1)
        sim_fail(sys->world, "actor %u has %u processes", index, count);
    if (count && (!is_known || !is_alive || !crti_id_equal(p->id, process)))
        sim_fail(sys->world, "actor %u has a process that the head does not %s", index,
                 is_known ? "take for the living one" : "know");
    if (!count && is_known && is_alive)
        sim_fail(sys->world, "actor %u is alive and has no process", index);
    if (count && a->was_killed)
        sim_fail(sys->world, "actor %u lives in pid %d although it was killed", index,
                 (int)p->pid);
}

static void check_objects(void)
{
    for (unsigned i = 0; i < sys->hosts; i++) {
        const crti_node_t *node = sys->node[i] ? sys->node[i]->node : NULL;
        size_t left = node ? sys_arena_objects(sys_arena_of(node->store)) : 0;

        if (left) {
            crti_object_id_t id = sys_arena_first(sys_arena_of(node->store));
            const sys_process_t *owner = sys_net_process(id.owner);

            sim_fail(sys->world, "the store on %u keeps %zu objects: %llu of pid %d, %s",
                     i, left, (unsigned long long)id.number, owner ? (int)owner->pid : 0,
                     owner && owner->is_alive ? "which lives" : "which is dead");
        }
    }
}

void sys_check_rest(void)
{
    check_programs();
    for (unsigned i = 0; i < sys->hosts && !sys->world->failed; i++)
        check_node(i);
    for (unsigned i = 0; i < truth->actors && !sys->world->failed; i++)
        check_actor(i);
    if (sys_head_revoked())
        sim_fail(sys->world, "%zu creations stay revoked", sys_head_revoked());
    if (!sys->world->failed)
        check_objects();
}
