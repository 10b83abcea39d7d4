/* SPDX-License-Identifier: Apache-2.0 */
/* Actions of leases: carries out what the lease table and the worker table decide.
 *
 * Where it sits
 *     lease_table.c, worker_table.c -> [ node/dispatch/lease_act.c ] -> lease.c (answers), spawn.c,
 *     actor.c
 * Invariants
 *     This is the one place where actions are carried out; what an action causes in the tables is
 *     carried out by the same loop, never by a nested one.
 */
#include "runtime/node/actors/actor.h"
#include "runtime/node/dispatch/dispatch.h"
#include "runtime/node/jobs/job.h"
#include "runtime/node/leases/lease.h"
#include "runtime/node/leases/lease_table.h"
#include "runtime/node/leases/worker_table.h"
#include "runtime/node/links/local.h"
#include "runtime/node/process/context.h"
#include "runtime/node/process/process.h"

static void find_worker(crti_node_t *node, crti_id_t id)
{
    const crti_lease_t *lease = crti_lease_table_get(node->lease_table, id);
    double cpus;
    crt_status_t status;

    if (lease == NULL || node->stopping)
        return; /* whoever asked from elsewhere sees the link break, and asks another node */
    cpus = (double)crti_resources_get(&lease->resources, "CPU") / CRTI_RESOURCE_ONE;
    status = crti_worker_table_want(
        node->workers, crti_id_of_node(node->id), lease->job, false, id, cpus,
        lease->gpus.gpus, crti_lease_environment(node, id), crti_node_now(node));
    if (status != CRT_OK)
        crti_lease_fail(node, id, status, crt_error_detail());
}

/* Not when it was asked for once more meanwhile. */
static void give_back(crti_node_t *node, const crti_lease_action_t *action)
{
    if (crti_lease_table_get(node->lease_table, action->lease) == NULL)
        crti_lease_answer_error(node, action->lease, CRT_ERR_BACKPRESSURE, action->text);
}

static void tell(crti_node_t *node, const crti_lease_action_t *action)
{
    crti_msg_lease_waiting_t waiting = {.lease = action->lease,
                                        .text = crti_str(action->text)};

    crti_lease_waiting(node, &waiting);
    crti_head_changed(node);
}

static void refuse(crti_node_t *node, const crti_lease_action_t *action)
{
    crti_lease_answer_error(node, action->lease, CRT_ERR_UNSCHEDULABLE, action->text);
    crti_head_changed(node);
}

static void act_on_lease(crti_node_t *node, const crti_lease_action_t *action)
{
    switch (action->verb) {
    case CRTI_LEASE_FIND_WORKER: find_worker(node, action->lease); break;
    case CRTI_LEASE_FORWARD: crti_lease_forward(node, action->lease, action->node); break;
    case CRTI_LEASE_GIVE_BACK: give_back(node, action); break;
    case CRTI_LEASE_TELL: tell(node, action); break;
    case CRTI_LEASE_REFUSE: refuse(node, action); break;
    case CRTI_LEASE_YIELD: crti_lease_ask_to_yield(node, action->lease, false); break;
    case CRTI_LEASE_WHEN_IDLE: crti_lease_ask_to_yield(node, action->lease, true); break;
    case CRTI_LEASE_CHANGED: crti_head_changed(node); break;
    }
}

static void assign_actor(crti_node_t *node, crti_worker_t *worker)
{
    if (crti_actor_assigned(node, worker))
        crti_job_worker_born(worker->io);
}

static void assign(crti_node_t *node, crti_worker_t *worker, crti_id_t id)
{
    crti_process_t *process = worker->io;

    if (!crti_lease_table_granted(node->lease_table, id, worker->id,
                                  crti_node_now(node))) {
        crti_worker_table_released(node->workers, worker, false, crti_node_now(node));
        return;
    }
    crti_memory_began(process);
    crti_lease_grant(node, id, process);
}

static void shut_down(crti_process_t *process, bool graceful)
{
    crti_msg_shutdown_t shutdown = {.text = crti_str(process->end_text),
                                    .graceful = graceful};

    crti_process_expect_end(process);
    crti_local_send(process, CRTI_MSG_SHUTDOWN, 0, &shutdown);
}

static void kill_worker(crti_process_t *process, bool is_given_up)
{
    crti_process_expect_end(process);
    crti_process_kill(process);
    if (is_given_up)
        crti_spawn_given_up(process);
}

static void act_on_worker(crti_node_t *node, const crti_worker_action_t *action)
{
    crti_process_t *process = action->worker ? action->worker->io : NULL;

    switch (action->verb) {
    case CRTI_WORKER_SPAWN: crti_spawn_worker(node, action->worker); break;
    case CRTI_WORKER_ASSIGN:
        if (action->is_actor)
            assign_actor(node, action->worker);
        else
            assign(node, action->worker, action->purpose);
        break;
    case CRTI_WORKER_FAIL:
        if (action->is_actor) {
            crti_actor_failed(node, action->purpose, action->status, action->text);
            break;
        }
        if (node->stopping) /* see find_worker */
            break;
        crti_lease_fail(node, action->purpose, action->status, action->text);
        break;
    case CRTI_WORKER_RETIRE:
    case CRTI_WORKER_SHUTDOWN:
        if (process)
            shut_down(process, action->verb == CRTI_WORKER_RETIRE);
        break;
    case CRTI_WORKER_KILL:
        if (process)
            kill_worker(process, action->worker->is_given_up);
        break;
    case CRTI_WORKER_DISCARD:
        crti_spawn_failed(process, CRT_ERR_CANCELLED, "it was ended before it began");
        break;
    }
}

void crti_lease_carry_out(crti_node_t *node)
{
    crti_lease_action_t lease;
    crti_worker_action_t worker;
    bool more = true, any = false;

    for (; more; any |= more) {
        more = false;
        while (crti_lease_table_action(node->lease_table, &lease)) {
            act_on_lease(node, &lease);
            more = true;
        }
        while (crti_worker_table_action(node->workers, &worker)) {
            act_on_worker(node, &worker);
            more = true;
        }
    }
    if (any) /* deadlines may have moved */
        crti_node_schedule_tick(node, crti_node_now(node));
}
