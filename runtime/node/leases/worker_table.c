/* SPDX-License-Identifier: Apache-2.0 */
/* Worker table. See worker_table.h for the states and rules.
 *
 * Workers hang in one list per state, oldest first, so that a tick looks at those only whose
 * deadline is near.
 */
#include "runtime/node/leases/worker_table.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/arrow.h"
#include "runtime/base/buffer.h"
#include "runtime/base/clock.h"
#include "runtime/base/environment.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/base/map.h"

#define RETIRE_NS (30 * CRTI_S)

struct crti_worker_table {
    size_t keep;
    crti_map_t workers;  /* id -> crti_worker_t */
    crti_map_t purposes; /* lease or actor id -> crti_worker_t */
    crti_list_t lists[CRTI_WORKER_STATES];
    size_t idle;
    crti_buffer_t actions;
    size_t action_done;
};

#define TO(state)  (1u << CRTI_WORKER_##state)
#define END_OR_DIE (TO(ENDING) | TO(DEAD))
static const crti_state_row_t states[CRTI_WORKER_STATES] = {
    [CRTI_WORKER_WANTED] = {"wanted", TO(FORKING) | END_OR_DIE},
    [CRTI_WORKER_FORKING] = {"forking", TO(ATTACHED) | END_OR_DIE},
    [CRTI_WORKER_ATTACHED] = {"attached", TO(IDLE) | TO(ACTOR) | END_OR_DIE},
    [CRTI_WORKER_IDLE] = {"idle", TO(LEASED) | END_OR_DIE},
    [CRTI_WORKER_LEASED] = {"leased", TO(IDLE) | TO(RETIRING) | END_OR_DIE},
    [CRTI_WORKER_ACTOR] = {"actor", TO(RETIRING) | END_OR_DIE},
    [CRTI_WORKER_RETIRING] = {"retiring", END_OR_DIE},
    [CRTI_WORKER_ENDING] = {"ending", TO(DEAD)},
    [CRTI_WORKER_DEAD] = {"dead", 0},
};

static void set_state(crti_worker_table_t *table, crti_worker_t *w,
                      crti_worker_state_t state)
{
    assert(states[w->state].next & 1u << state);
    CRTI_ARROW("worker", states, w->state, state);
    crti_log(CRTI_LOG_DEBUG, "worker", "%016llx %s -> %s", (unsigned long long)w->id.high,
             states[w->state].name, states[state].name);
    table->idle -= w->state == CRTI_WORKER_IDLE;
    table->idle += state == CRTI_WORKER_IDLE;
    w->state = state;
    crti_list_remove(&w->link);
    crti_list_append(&table->lists[state], &w->link);
}

/* ---------------------------------------------------------------- life and look-ups */

crt_status_t crti_worker_table_new(size_t keep, crti_worker_table_t **table_out)
{
    crti_worker_table_t *table = calloc(1, sizeof(*table));

    if (table == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "worker table");
    table->keep = keep;
    crti_map_init(&table->workers, sizeof(crti_id_t));
    crti_map_init(&table->purposes, sizeof(crti_id_t));
    for (int i = 0; i < CRTI_WORKER_STATES; i++)
        crti_list_init(&table->lists[i]);
    *table_out = table;
    return CRT_OK;
}

void crti_worker_table_free(crti_worker_table_t *table)
{
    if (table == NULL)
        return;
    CRTI_MAP_FOREACH (crti_worker_t, worker, &table->workers) {
        crti_environment_drop(worker->environment);
        free(worker);
    }
    crti_map_fini(&table->workers);
    crti_map_fini(&table->purposes);
    crti_buffer_fini(&table->actions);
    free(table);
}

static crti_worker_action_t *act(crti_worker_table_t *table, crti_worker_verb_t verb,
                                 crti_worker_t *worker, crti_id_t purpose, bool is_actor)
{
    static crti_worker_action_t lost; /* written when memory is out, never read */
    crti_worker_action_t *action;

    if (crti_buffer_reserve(&table->actions, sizeof(*action)) != CRT_OK) {
        crti_log(CRTI_LOG_ERROR, "worker", "no memory for an action");
        return &lost;
    }
    action = (crti_worker_action_t *)(void *)(table->actions.data + table->actions.size);
    table->actions.size += sizeof(*action);
    action->verb = verb;
    action->worker = worker;
    action->purpose = purpose;
    action->is_actor = is_actor;
    action->status = CRT_OK;
    action->text[0] = '\0';
    return action;
}

bool crti_worker_table_action(crti_worker_table_t *table,
                              crti_worker_action_t *action_out)
{
    return crti_buffer_take(&table->actions, &table->action_done, action_out,
                            sizeof(*action_out));
}

crti_worker_t *crti_worker_table_get(const crti_worker_table_t *table, crti_id_t id)
{
    return crti_map_get(&table->workers, &id);
}

crti_worker_t *crti_worker_table_of(const crti_worker_table_t *table, crti_id_t purpose)
{
    return crti_map_get(&table->purposes, &purpose);
}

crti_worker_t *crti_worker_table_next(const crti_worker_table_t *table, size_t *cursor)
{
    void *value;

    return crti_map_next(&table->workers, cursor, NULL, &value) ? value : NULL;
}

size_t crti_worker_table_count(const crti_worker_table_t *table)
{
    return table->workers.count;
}

/* ---------------------------------------------------------------- purposes */

static void drop_purpose(crti_worker_table_t *table, crti_worker_t *w)
{
    if (!crti_id_is_zero(w->purpose))
        crti_map_remove(&table->purposes, &w->purpose);
    w->purpose = (crti_id_t){0};
}

static void assign(crti_worker_table_t *table, crti_worker_t *w)
{
    w->answered = true;
    act(table, CRTI_WORKER_ASSIGN, w, w->purpose, w->is_actor);
}

/* One that serves nobody: the one that idled last, as its memory is warm, or one that is being made
 * for a lease that was cancelled. */
static crti_worker_t *find_free(const crti_worker_table_t *table, crti_id_t job,
                                double cpus, const crti_environment_t *environment)
{
    for (int state = CRTI_WORKER_IDLE; state > CRTI_WORKER_WANTED; state--) {
        const crti_list_t *list = &table->lists[state];

        for (crti_list_t *item = list->prev; item != list; item = item->prev) {
            crti_worker_t *w = CRTI_CONTAINER(item, crti_worker_t, link);

            if (crti_id_is_zero(w->purpose) && crti_id_equal(w->job, job) &&
                w->cpus == cpus && crti_environment_equal(w->environment, environment))
                return w;
        }
    }
    return NULL;
}

static crt_status_t add_worker(crti_worker_table_t *table, crti_id_t id, crti_id_t job,
                               double cpus, crti_worker_t **worker_out)
{
    crti_worker_t *w = calloc(1, sizeof(*w));
    crt_status_t status;

    if (w == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "worker");
    *w = (crti_worker_t){.id = id, .job = job, .cpus = cpus};
    crti_list_append(&table->lists[CRTI_WORKER_WANTED], &w->link);
    status = crti_map_put(&table->workers, &id, w);
    if (status != CRT_OK) {
        crti_list_remove(&w->link);
        free(w);
        return status;
    }
    *worker_out = w;
    return CRT_OK;
}

crt_status_t crti_worker_table_want(crti_worker_table_t *table, crti_id_t id,
                                    crti_id_t job, bool is_actor, crti_id_t purpose,
                                    double cpus, uint64_t gpus,
                                    crti_environment_t *environment, uint64_t now_ns)
{
    crti_worker_t *w = is_actor || gpus ? NULL : find_free(table, job, cpus, environment);
    bool is_new = w == NULL;
    crt_status_t status = CRT_OK;

    if (crti_map_get(&table->purposes, &purpose))
        return crt_raise(CRT_ERR_EXISTS, "a worker serves it already");
    if (is_new)
        status = add_worker(table, id, job, cpus, &w);
    if (is_new && status == CRT_OK) {
        w->gpus = gpus;
        w->environment = crti_environment_keep(environment);
    }
    if (status == CRT_OK)
        status = crti_map_put(&table->purposes, &purpose, w);
    if (status != CRT_OK) {
        if (is_new && w)
            crti_worker_table_died(table, w, status, "");
        return status;
    }
    w->purpose = purpose;
    w->is_actor = is_actor;
    w->answered = false;
    if (is_new) {
        act(table, CRTI_WORKER_SPAWN, w, purpose, is_actor);
    } else if (w->state == CRTI_WORKER_IDLE) {
        set_state(table, w, CRTI_WORKER_LEASED);
        assign(table, w);
    }
    return CRT_OK;
}

void crti_worker_table_forking(crti_worker_table_t *table, crti_worker_t *worker,
                               uint64_t now_ns)
{
    set_state(table, worker, CRTI_WORKER_FORKING);
    worker->deadline_ns = now_ns + CRTI_LIMIT(worker_start_timeout);
}

bool crti_worker_table_attached(crti_worker_table_t *table, crti_worker_t *worker,
                                uint64_t now_ns)
{
    if (worker->state != CRTI_WORKER_FORKING)
        return false;
    set_state(table, worker, CRTI_WORKER_ATTACHED);
    worker->deadline_ns = now_ns + CRTI_LIMIT(worker_start_timeout);
    return true;
}

static void idle(crti_worker_table_t *table, crti_worker_t *w, uint64_t now_ns)
{
    set_state(table, w, CRTI_WORKER_IDLE);
    w->deadline_ns = now_ns;
}

bool crti_worker_table_ready(crti_worker_table_t *table, crti_worker_t *worker,
                             uint64_t now_ns)
{
    if (worker->state != CRTI_WORKER_ATTACHED)
        return false;
    if (worker->is_actor) {
        set_state(table, worker, CRTI_WORKER_ACTOR);
        assign(table, worker);
        return true;
    }
    idle(table, worker, now_ns);
    if (crti_id_is_zero(worker->purpose))
        return true;
    set_state(table, worker, CRTI_WORKER_LEASED);
    assign(table, worker);
    return true;
}

void crti_worker_table_released(crti_worker_table_t *table, crti_worker_t *worker,
                                bool broken, uint64_t now_ns)
{
    if (worker->state != CRTI_WORKER_LEASED)
        return;
    drop_purpose(table, worker);
    if (broken || worker->gpus)
        crti_worker_table_end(table, worker, false, now_ns);
    else
        idle(table, worker, now_ns);
}

void crti_worker_table_unwanted(crti_worker_table_t *table, crti_id_t purpose,
                                uint64_t now_ns)
{
    crti_worker_t *w = crti_worker_table_of(table, purpose);

    if (w == NULL)
        return;
    if (w->state == CRTI_WORKER_LEASED) {
        crti_worker_table_released(table, w, false, now_ns);
        return;
    }
    if (w->is_actor || w->gpus || w->state == CRTI_WORKER_WANTED)
        crti_worker_table_end(table, w, false, now_ns);
    else
        drop_purpose(table, w);
}

/* ---------------------------------------------------------------- the end */

/* Its purpose, if that waits for an answer, gets no worker. */
static void fail(crti_worker_table_t *table, crti_worker_t *w, crt_status_t status,
                 const char *text)
{
    crti_worker_action_t *action;

    if (crti_id_is_zero(w->purpose) || w->answered)
        return;
    w->answered = true;
    action = act(table, CRTI_WORKER_FAIL, NULL, w->purpose, w->is_actor);
    action->status = status;
    snprintf(action->text, sizeof(action->text), "%s", text);
    drop_purpose(table, w);
}

static void kill_it(crti_worker_table_t *table, crti_worker_t *w)
{
    act(table, CRTI_WORKER_KILL, w, w->purpose, w->is_actor);
    w->was_killed = true;
}

void crti_worker_table_end(crti_worker_table_t *table, crti_worker_t *worker,
                           bool at_once, uint64_t now_ns)
{
    if (worker->state == CRTI_WORKER_WANTED && worker->io == NULL) {
        crti_worker_table_died(table, worker, CRT_ERR_CANCELLED,
                               "it was ended before it began");
        return;
    }
    if (worker->state == CRTI_WORKER_WANTED) {
        act(table, CRTI_WORKER_DISCARD, worker, worker->purpose, worker->is_actor);
        set_state(table, worker, CRTI_WORKER_ENDING);
        worker->deadline_ns = now_ns + CRTI_LIMIT(worker_end_timeout);
        return;
    }
    if (worker->state == CRTI_WORKER_ENDING) {
        if (at_once && !worker->was_killed && worker->deadline_ns > now_ns) {
            worker->deadline_ns = now_ns;
            crti_list_remove(&worker->link);
            crti_list_append(table->lists[CRTI_WORKER_ENDING].next, &worker->link);
        }
        return;
    }
    /* A process that has not attached has no link on which it could hear SHUTDOWN. */
    if (at_once || worker->state == CRTI_WORKER_FORKING)
        kill_it(table, worker);
    else
        act(table, CRTI_WORKER_SHUTDOWN, worker, worker->purpose, worker->is_actor);
    set_state(table, worker, CRTI_WORKER_ENDING);
    worker->deadline_ns = now_ns + CRTI_LIMIT(worker_end_timeout);
}

void crti_worker_table_retire(crti_worker_table_t *table, crti_worker_t *worker,
                              uint64_t now_ns)
{
    if (worker->state == CRTI_WORKER_RETIRING)
        return;
    if (worker->state != CRTI_WORKER_ACTOR && worker->state != CRTI_WORKER_LEASED) {
        crti_worker_table_end(table, worker, false, now_ns);
        return;
    }
    act(table, CRTI_WORKER_RETIRE, worker, worker->purpose, worker->is_actor);
    if (!worker->is_actor)
        drop_purpose(table, worker); /* its lease has ended */
    set_state(table, worker, CRTI_WORKER_RETIRING);
    worker->deadline_ns = now_ns + RETIRE_NS;
}

void crti_worker_table_end_job(crti_worker_table_t *table, crti_id_t job, bool actors,
                               bool at_once, uint64_t now_ns)
{
    for (int state = 0; state < CRTI_WORKER_ENDING; state++)
        CRTI_LIST_FOREACH_SAFE (item, &table->lists[state]) {
            crti_worker_t *w = CRTI_CONTAINER(item, crti_worker_t, link);

            if (crti_id_equal(w->job, job) && (actors || !w->is_actor))
                crti_worker_table_end(table, w, at_once, now_ns);
        }
}

void crti_worker_table_died(crti_worker_table_t *table, crti_worker_t *worker,
                            crt_status_t status, const char *text)
{
    crti_worker_action_t *action;

    fail(table, worker, status, text);
    /* Actions that were not fetched yet must not lead to freed memory. */
    for (size_t at = table->action_done; at < table->actions.size;
         at += sizeof(*action)) {
        action = (crti_worker_action_t *)(void *)(table->actions.data + at);
        if (action->worker == worker) {
            crti_buffer_t *all = &table->actions;

            memmove(all->data + at, all->data + at + sizeof(*action),
                    all->size - at - sizeof(*action));
            all->size -= sizeof(*action);
            at -= sizeof(*action);
        }
    }
    drop_purpose(table, worker);
    set_state(table, worker, CRTI_WORKER_DEAD);
    crti_list_remove(&worker->link);
    crti_map_remove(&table->workers, &worker->id);
    crti_environment_drop(worker->environment);
    free(worker);
}

/* ---------------------------------------------------------------- time */

/* It may hang in the kernel, or have no process yet that SIGKILL could reach: again. After the
 * second time nobody waits for it any longer. */
static void kill_again(crti_worker_table_t *table, crti_worker_t *w, uint64_t now_ns)
{
    w->is_given_up = w->was_killed;
    kill_it(table, w);
    if (w->is_given_up)
        fail(table, w, CRT_ERR_WORKER_DIED,
             "its worker did not begin and can't be ended: it, or the zygote that is to "
             "fork it, is stopped or hangs");
    w->deadline_ns = now_ns + CRTI_LIMIT(worker_end_timeout);
    crti_list_remove(&w->link);
    crti_list_append(&table->lists[CRTI_WORKER_ENDING], &w->link);
}

/* Those of one state are in the order of their deadlines. */
static uint64_t check_deadlines(crti_worker_table_t *table, crti_worker_state_t state,
                                uint64_t now_ns)
{
    CRTI_LIST_FOREACH_SAFE (item, &table->lists[state]) {
        crti_worker_t *w = CRTI_CONTAINER(item, crti_worker_t, link);

        if (w->deadline_ns > now_ns)
            return w->deadline_ns;
        if (state == CRTI_WORKER_ENDING)
            kill_again(table, w, now_ns);
        else
            crti_worker_table_end(table, w, state != CRTI_WORKER_RETIRING, now_ns);
    }
    return UINT64_MAX;
}

uint64_t crti_worker_table_tick(crti_worker_table_t *table, uint64_t now_ns)
{
    static const crti_worker_state_t timed[] = {CRTI_WORKER_FORKING, CRTI_WORKER_ATTACHED,
                                                CRTI_WORKER_RETIRING, CRTI_WORKER_ENDING};
    uint64_t next = UINT64_MAX;

    while (table->idle > table->keep) {
        crti_worker_t *oldest =
            CRTI_CONTAINER(table->lists[CRTI_WORKER_IDLE].next, crti_worker_t, link);

        if (oldest->deadline_ns + CRTI_LIMIT(worker_idle_timeout) > now_ns) {
            next = oldest->deadline_ns + CRTI_LIMIT(worker_idle_timeout);
            break;
        }
        crti_worker_table_end(table, oldest, false, now_ns);
    }
    for (unsigned i = 0; i < sizeof(timed) / sizeof(timed[0]); i++) {
        uint64_t due = check_deadlines(table, timed[i], now_ns);

        next = due < next ? due : next;
    }
    if (!crti_list_is_empty(&table->lists[CRTI_WORKER_ENDING]) &&
        next > now_ns + CRTI_LIMIT(worker_end_timeout))
        next = now_ns + CRTI_LIMIT(worker_end_timeout);
    return next;
}
