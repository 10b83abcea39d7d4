/* SPDX-License-Identifier: Apache-2.0 */
/* Actors of this node. See actor.h. */
#include "runtime/node/actors/actor.h"

#include <assert.h>
#include <string.h>

#include "runtime/base/environment.h"
#include "runtime/base/log.h"
#include "runtime/node/actors/actors_int.h"
#include "runtime/node/leases/lease.h"
#include "runtime/node/leases/lease_table.h"
#include "runtime/node/leases/worker_table.h"
#include "runtime/node/links/head.h"
#include "runtime/node/process/process.h"

#define ENDED_MAX 4096

/*              worker READY        ACTOR_STOP, create failed
 *   STARTING ---------------> RUNNING ----------------------> ENDING
 *      |                         |                               |
 *      +--- no worker -----------+------- process gone ----------+----> (forgotten)
 */
typedef enum actor_state { ACTOR_STARTING, ACTOR_RUNNING, ACTOR_ENDING } actor_state_t;

typedef struct actor {
    crti_id_t id;
    uint64_t incarnation;
    actor_state_t state;
    crti_id_t job;
    char *class_name, *name;
    crti_resources_t resources;
    bool fenced;
    crti_buffer_t creation, saved;
    uint64_t start_request; /* of the head, 0: answered */
    uint64_t stop_request;  /* of the head, 0: none */
    crti_id_t process;      /* RUNNING */
    bool create_failed;
    crt_status_t fail_status;
    char end_text[600]; /* why it ends: the stop's or the create function's text */
} actor_t;

static void set_state(actor_t *actor, actor_state_t state)
{
    static const char *const names[] = {"starting", "running", "ending"};

    assert(state > actor->state);
    crti_log(CRTI_LOG_DEBUG, "actor", "%016llx %s -> %s",
             (unsigned long long)actor->id.high, names[actor->state], names[state]);
    actor->state = state;
}

static actor_t *find(crti_node_t *node, crti_id_t id)
{
    return crti_map_get(&node->actors->by_id, &id);
}

static void free_actor(actor_t *actor)
{
    free(actor->class_name);
    free(actor->name);
    crti_buffer_fini(&actor->creation);
    crti_buffer_fini(&actor->saved);
    free(actor);
}

/* ---------------------------------------------------------------- what ended */

typedef struct ended {
    crti_id_t actor;
    uint64_t incarnation;
    crt_status_t status;
    crti_list_t link;
    char text[];
} ended_t;

static void free_ended(crti_node_t *node, ended_t *e)
{
    crti_map_remove(&node->actors->ended, &e->actor);
    crti_list_remove(&e->link);
    free(e);
}

/* Without memory it is not remembered: the head's own rules still hold, but for one lost answer. */
static void remember(crti_node_t *node, const actor_t *actor, crt_status_t status,
                     const char *text)
{
    ended_t *old = crti_map_get(&node->actors->ended, &actor->id);
    size_t size = strlen(text) + 1;
    ended_t *e = calloc(1, sizeof(*e) + size);

    if (old)
        free_ended(node, old);
    if (e == NULL || crti_map_put(&node->actors->ended, &actor->id, e) != CRT_OK) {
        free(e);
        return;
    }
    e->actor = actor->id;
    e->incarnation = actor->incarnation;
    e->status = status;
    memcpy(e->text, text, size);
    crti_list_append(&node->actors->ended_order, &e->link);
    if (node->actors->ended.count > ENDED_MAX)
        free_ended(node, CRTI_CONTAINER(node->actors->ended_order.next, ended_t, link));
}

/* That incarnation, or a later one, ended here already: answered, and true. */
static bool answer_ended(crti_node_t *node, uint64_t request,
                         const crti_msg_actor_start_t *start)
{
    const ended_t *e = crti_map_get(&node->actors->ended, &start->actor);

    if (e == NULL || e->incarnation < start->actor_incarnation)
        return false;
    crti_head_send_error(node, request, e->status, e->text);
    return true;
}

static void forget(crti_node_t *node, actor_t *actor)
{
    crti_map_remove(&node->actors->by_id, &actor->id);
    crti_lease_table_give(node->lease_table, actor->id, crti_node_now(node));
    free_actor(actor);
}

void crti_actor_free_all(crti_node_t *node)
{
    CRTI_MAP_FOREACH (void, value, &node->actors->by_id)
        free_actor(value);
    crti_map_fini(&node->actors->by_id);
    while (!crti_list_is_empty(&node->actors->ended_order))
        free_ended(node, CRTI_CONTAINER(node->actors->ended_order.next, ended_t, link));
    crti_map_fini(&node->actors->ended);
}

/* ---------------------------------------------------------------- starting */

static crti_msg_actor_started_t started(crti_node_t *node, const actor_t *actor,
                                        const crti_process_t *process)
{
    return (crti_msg_actor_started_t){.actor = actor->id,
                                      .actor_incarnation = actor->incarnation,
                                      .pid = process->pid,
                                      .process = process->id,
                                      .incarnation = process->incarnation,
                                      .node = node->id,
                                      .ipc = crti_str(process->ipc),
                                      .tcp = crti_str(process->tcp)};
}

static void answer_started(crti_node_t *node, actor_t *actor)
{
    crti_process_t *process = crti_process_get(node, actor->process);
    crti_msg_actor_started_t message;

    if (process == NULL || actor->start_request == 0)
        return;
    message = started(node, actor, process);
    crti_head_send(node, CRTI_MSG_ACTOR_STARTED, actor->start_request, &message);
    actor->start_request = 0;
}

/* The same actor again, or an older incarnation that still ends. */
static void start_again(crti_node_t *node, actor_t *actor, uint64_t request,
                        const crti_msg_actor_start_t *start)
{
    if (actor->incarnation != start->actor_incarnation || actor->state == ACTOR_ENDING) {
        if (actor->incarnation < start->actor_incarnation)
            crti_actor_end_id(node, actor->id, "the actor was placed anew");
        crti_head_send_error(node, request, CRT_ERR_BACKPRESSURE,
                             "another incarnation of the actor still ends on the node");
        return;
    }
    actor->start_request = request;
    if (actor->state == ACTOR_RUNNING)
        answer_started(node, actor);
}

static crt_status_t make_actor(const crti_msg_actor_start_t *start, actor_t **actor_out)
{
    actor_t *actor = calloc(1, sizeof(*actor));

    if (actor == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "actor");
    actor->id = start->actor;
    actor->incarnation = start->actor_incarnation;
    actor->job = start->job;
    actor->resources = start->resources;
    actor->fenced = start->fenced;
    actor->class_name = crti_str_dup(start->class_name);
    actor->name = crti_str_dup(start->name);
    if (!actor->class_name || !actor->name ||
        crti_buffer_append(&actor->creation, start->creation.data,
                           start->creation.size) != CRT_OK ||
        crti_buffer_append(&actor->saved, start->saved.data, start->saved.size) !=
            CRT_OK) {
        free_actor(actor);
        return crt_raise(CRT_ERR_NO_MEMORY, "actor with %zu bytes of arguments and state",
                         start->creation.size + start->saved.size);
    }
    *actor_out = actor;
    return CRT_OK;
}

static crt_status_t begin(crti_node_t *node, const crti_msg_actor_start_t *start,
                          uint64_t request)
{
    CRTI_AUTO(crti_environment_drop) crti_environment_t *environment = NULL;
    double cpus =
        (double)crti_resources_get(&start->resources, "CPU") / CRTI_RESOURCE_ONE;
    uint64_t now = crti_node_now(node);
    uint64_t gpus;
    actor_t *actor;
    crt_status_t status;

    if (node->stopping)
        return crt_raise(CRT_ERR_CLOSED, "the node is stopping");
    status = crti_environment_read(start->environment, &environment);
    if (status != CRT_OK)
        return status;
    status = crti_id_is_zero(start->group)
                 ? crti_lease_table_take(node->lease_table, start->actor, start->job,
                                         &start->resources)
                 : crti_lease_table_take_of_bundle(node->lease_table, start->actor,
                                                   start->job, start->group,
                                                   start->bundle, &start->resources);
    if (status != CRT_OK)
        return status;
    status = make_actor(start, &actor);
    if (status == CRT_OK) {
        actor->start_request = request;
        status = crti_map_put(&node->actors->by_id, &actor->id, actor);
        if (status != CRT_OK)
            free_actor(actor);
    }
    if (status != CRT_OK) {
        crti_lease_table_give(node->lease_table, start->actor, now);
        return status;
    }
    crti_lease_table_gpus(node->lease_table, start->actor, &gpus);
    status = crti_worker_table_want(node->workers, crti_id_of_node(node->id), start->job,
                                    true, start->actor, cpus, gpus, environment, now);
    if (status != CRT_OK)
        forget(node, actor);
    return status;
}

void crti_actor_start(crti_node_t *node, uint64_t request,
                      const crti_msg_actor_start_t *start)
{
    actor_t *actor = find(node, start->actor);
    crt_status_t status;

    if (actor) {
        start_again(node, actor, request, start);
        return;
    }
    if (answer_ended(node, request, start))
        return;
    status = begin(node, start, request);
    if (status != CRT_OK)
        crti_head_send_error(node, request, status, crt_error_detail());
    crti_lease_act(node);
}

void crti_actor_fill(crti_node_t *node, crti_id_t id, crti_msg_attached_t *attached)
{
    const actor_t *actor = find(node, id);

    attached->actor = id;
    if (actor == NULL)
        return; /* stopped meanwhile; SHUTDOWN is on its way */
    attached->actor_incarnation = actor->incarnation;
    attached->fenced = actor->fenced;
    attached->class_name = crti_str(actor->class_name);
    attached->creation = crti_span(actor->creation.data, actor->creation.size);
    attached->saved = crti_span(actor->saved.data, actor->saved.size);
}

bool crti_actor_assigned(crti_node_t *node, crti_worker_t *worker)
{
    actor_t *actor = find(node, worker->purpose);

    if (actor == NULL || actor->state != ACTOR_STARTING) {
        crti_worker_table_end(node->workers, worker, false, crti_node_now(node));
        return false;
    }
    actor->process = worker->id;
    set_state(actor, ACTOR_RUNNING);
    answer_started(node, actor);
    crti_buffer_fini(&actor->creation); /* the worker has them; the head keeps them */
    crti_buffer_fini(&actor->saved);
    return true;
}

/* ---------------------------------------------------------------- ending */

static void tell_died(crti_node_t *node, const actor_t *actor, crt_status_t status,
                      const char *text, bool ran_no_call)
{
    crti_msg_actor_died_t died = {.actor = actor->id,
                                  .actor_incarnation = actor->incarnation,
                                  .status = status,
                                  .text = crti_str(text),
                                  .created = !actor->create_failed,
                                  .ran_no_call = ran_no_call};

    crti_head_send(node, CRTI_MSG_ACTOR_DIED, 0, &died);
}

/* No worker could be made for it. */
void crti_actor_failed(crti_node_t *node, crti_id_t id, crt_status_t status,
                       const char *text)
{
    actor_t *actor = find(node, id);

    if (actor == NULL)
        return;
    /* Nobody stopped it: its worker was given up, because it did not attach in time. That is a
     * death, after which the head may try again. */
    if (actor->state == ACTOR_STARTING && status == CRT_ERR_CANCELLED)
        status = CRT_ERR_WORKER_DIED;
    remember(node, actor, status, text);
    if (actor->start_request)
        crti_head_send_error(node, actor->start_request, status, text);
    if (actor->stop_request)
        crti_head_send(node, CRTI_MSG_DONE, actor->stop_request, NULL);
    forget(node, actor);
}

void crti_actor_create_failed(crti_process_t *process,
                              const crti_msg_actor_failed_t *failed)
{
    actor_t *actor = find(process->node, process->actor);

    if (actor == NULL || !crti_id_equal(failed->actor, process->actor))
        return;
    actor->create_failed = true;
    actor->fail_status = failed->status < 0 && failed->status > -1000
                             ? (crt_status_t)failed->status
                             : CRT_ERR_USER;
    crti_text(failed->text, actor->end_text, sizeof(actor->end_text));
    crti_process_expect_end(process); /* it ends by itself now */
}

void crti_actor_process_died(crti_process_t *process, crt_status_t status,
                             const char *text)
{
    crti_node_t *node = process->node;
    actor_t *actor = find(node, process->actor);

    if (actor == NULL || !crti_id_equal(actor->process, process->id))
        return; /* it failed before it was assigned: told by the worker table */
    if (actor->end_text[0])
        text = actor->end_text;
    tell_died(node, actor, actor->create_failed ? actor->fail_status : CRT_ERR_ACTOR_DIED,
              text, crti_process_ran_no_call(process));
    /* To ACTOR_START the head takes WORKER_DIED for a death after which it may try again, and
     * NOT_FOUND for one after which it may not. */
    remember(node, actor, actor->create_failed ? CRT_ERR_NOT_FOUND : CRT_ERR_WORKER_DIED,
             text);
    if (actor->stop_request)
        crti_head_send(node, CRTI_MSG_DONE, actor->stop_request, NULL);
    forget(node, actor);
}

static void end_actor(crti_node_t *node, actor_t *actor, bool graceful, const char *text)
{
    crti_worker_t *worker = crti_worker_table_of(node->workers, actor->id);
    crti_process_t *process = worker ? worker->io : NULL;

    if (actor->end_text[0] == '\0')
        snprintf(actor->end_text, sizeof(actor->end_text), "%s", text);
    if (actor->state != ACTOR_ENDING)
        set_state(actor, ACTOR_ENDING);
    if (process) {
        crti_process_expect_end(process);
        crti_fence_shut(process);
    }
    if (worker && graceful)
        crti_worker_table_retire(node->workers, worker, crti_node_now(node));
    else if (worker) /* told first, so that its destroy runs; killed soon after */
        crti_worker_table_end(node->workers, worker, false, crti_node_now(node));
    crti_lease_act(node);
}

void crti_actor_end_id(crti_node_t *node, crti_id_t id, const char *text)
{
    actor_t *actor = find(node, id);

    if (actor)
        end_actor(node, actor, false, text);
}

void crti_actor_stop(crti_node_t *node, uint64_t request,
                     const crti_msg_actor_stop_t *stop)
{
    actor_t *actor = find(node, stop->actor);
    char text[256];

    if (actor == NULL || actor->incarnation != stop->actor_incarnation) {
        crti_head_send(node, CRTI_MSG_DONE, request, NULL);
        return;
    }
    actor->stop_request = request;
    end_actor(node, actor, stop->graceful, crti_text(stop->text, text, sizeof(text)));
}

/* ---------------------------------------------------------------- what others ask */

const char *crti_actor_end_reason(crti_node_t *node, crti_id_t id)
{
    const actor_t *actor = find(node, id);

    return actor ? actor->end_text : "";
}

const char *crti_actor_class(crti_node_t *node, crti_id_t id, char *text, size_t size)
{
    const actor_t *actor = find(node, id);

    snprintf(text, size, "%s", actor ? actor->class_name : "");
    return text;
}

size_t crti_actor_count(const crti_node_t *node)
{
    return node->actors->by_id.count;
}

crt_status_t crti_actor_list(crti_node_t *node, crti_buffer_t *list)
{
    CRTI_MAP_FOREACH (const actor_t, actor, &node->actors->by_id) {
        const crti_process_t *process = crti_process_get(node, actor->process);
        crti_msg_actor_running_t running = {.actor = actor->id,
                                            .actor_incarnation = actor->incarnation,
                                            .job = actor->job,
                                            .class_name = crti_str(actor->class_name),
                                            .name = crti_str(actor->name),
                                            .resources = actor->resources,
                                            .node = node->id};
        crt_status_t status;

        if (process == NULL && actor->state != ACTOR_STARTING)
            continue; /* one that ends still runs: its death will be told */
        if (process) {
            running.pid = process->pid;
            running.process = process->id;
            running.incarnation = process->incarnation;
            running.ipc = crti_str(process->ipc);
            running.tcp = crti_str(process->tcp);
        }
        status = crti_head_pack(list, CRTI_MSG_ACTOR_RUNNING, &running);
        if (status != CRT_OK)
            return status;
    }
    return CRT_OK;
}

void crti_actor_head_lost(crti_node_t *node)
{
    CRTI_MAP_FOREACH (actor_t, actor, &node->actors->by_id)
        actor->start_request = actor->stop_request = 0;
}

void crti_actor_init(crti_node_t *node)
{
    crti_map_init(&node->actors->by_id, sizeof(crti_id_t));
    crti_map_init(&node->actors->ended, sizeof(crti_id_t));
    crti_list_init(&node->actors->ended_order);
}
