/* SPDX-License-Identifier: Apache-2.0 */
/* Actors as their callers see them: where they live, what waits for them, their end.
 *
 * Where it sits
 *     crt_actor_*, outgoing.c -> [ actor.c ] -> net (calls), node daemon (create, watch, kill)
 * Threads
 *     The core's lock.
 * Hearsay
 *     A handle comes with the place where its sender knew the actor to live, and is callable at
 *     once, head or no head. The session names the process and its incarnation, so that nobody else
 *     takes the calls; those that certainly did not run wait for what the head says.
 * Invariants
 *     Calls leave in the order they were made: whatever can't be sent now waits in the queue, and
 *     then everything behind it does. Of an actor that is unordered those whose arguments are not
 *     there wait in no list.
 * Failure
 *     Calls in flight to a process that died wait until the head has said why, at most 0.5 s;
 *     without a report of the death, 10 s. Calls that wait in the queue outlive restarts.
 */
#include "runtime/core/calls/actor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/core/calls/call_events.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/process/blocking.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/remotes.h"

/* How long a lost session may stay unexplained, and the head may take to explain a death. */
#define SUSPECT_NS     (2 * CRTI_LIMIT(heartbeat_timeout))
#define REPORT_NS      (500 * CRTI_MS)
#define DRAIN_AGAIN_NS (10 * CRTI_MS)
#define WARN_AGAIN_NS  CRTI_S

/* ------------------------------------------------------------------ its end */

static void fail_all(crti_list_t *list, crt_status_t status, const char *text,
                     bool may_have_run)
{
    while (!crti_list_is_empty(list)) {
        crti_pending_t *p = CRTI_CONTAINER(list->next, crti_pending_t, link);

        crti_pending_fail(p, status, text, may_have_run && p->attempt.may_have_run);
    }
}

/* Before `next` in the queue of its actor. */
static void put_in_queue(crti_pending_t *p, crti_list_t *next)
{
    crti_pending_queue(p);
    crti_list_append(next, &p->link);
}

/* Calls of a process that died, in their order, before those that were not sent yet. */
static void make_again(crt_actor_t *actor, const char *text)
{
    crti_list_t *next = actor->queue.next;

    CRTI_LIST_FOREACH_SAFE (item, &actor->suspects) {
        crti_pending_t *p = CRTI_CONTAINER(item, crti_pending_t, link);

        crti_attempt_action_t action = crti_attempt_settled(
            &p->attempt, p->spec.record.size > 0, crti_pending_most(p));

        if (action == CRTI_ATTEMPT_DO_END ||
            (action == CRTI_ATTEMPT_DO_REPEAT && !crti_pending_again(p, text)))
            continue;
        crti_pending_unlink(p);
        put_in_queue(p, next);
    }
}

/* What was heard of its place was wrong: the head will tell, it has been asked. */
static void forget_place(crt_actor_t *actor)
{
    actor->is_unconfirmed = false;
    crti_actor_set_remote(actor, NULL);
}

/* It is known what became of its process. `text` NULL: what the node reported. */
static void end_suspect(crt_actor_t *actor, crt_status_t status, const char *text)
{
    char *report = CRTI_TAKE(actor->report);

    if (!text || !*text)
        text = report ? report : "its process has ended";
    if (status == CRT_ERR_ACTOR_DIED && actor->phase != CRTI_ACTOR_GONE)
        make_again(actor, text);
    fail_all(&actor->suspects, status, text, true);
    free(report);
}

static void tell_end(crt_actor_t *actor)
{
    crti_list_t *item;

    while ((item = crti_list_pop(&actor->watchers))) {
        crti_actor_watcher_t *w = CRTI_CONTAINER(item, crti_actor_watcher_t, link);

        w->on_news(w, CRTI_ACTOR_ENDED, 0);
    }
}

void crti_actor_end(crt_actor_t *actor, crt_status_t status, const char *text)
{
    if (actor->phase == CRTI_ACTOR_GONE)
        return;
    crti_actor_hold(actor);
    actor->status = status < 0 ? status : CRT_ERR_ACTOR_DIED;
    actor->text = strdup(text);
    crti_actor_set_phase(actor, CRTI_ACTOR_GONE);
    end_suspect(actor, actor->status, text);
    fail_all(&actor->queue, actor->status, text, false);
    if (actor->remote) { /* its process: everything in flight there is this actor's */
        CRTI_LIST_FOREACH (item, &actor->remote->in_flight)
            crti_attempt_learn(&CRTI_CONTAINER(item, crti_pending_t, link)->attempt,
                               !actor->remote->ran_no_call);
        fail_all(&actor->remote->in_flight, actor->status, text, true);
    }
    crti_actor_set_remote(actor, NULL);
    crti_actor_drop_creation(actor);
    crti_actor_lifetime_spent(actor);
    tell_end(actor);
    crti_actor_release(actor);
}

/* Its process is gone. What that means (a create that failed, a restart, a kill) the head says
 * soon; until then the node's report, if there is one, is kept. */
static void become_suspect(crt_actor_t *actor, const char *report)
{
    crti_actor_set_phase(actor, CRTI_ACTOR_SUSPECT);
    if (report && !actor->report)
        actor->report = strdup(report);
    actor->suspect_deadline = crti_now_ns() + (report ? REPORT_NS : SUSPECT_NS);
    crti_actor_check_at(actor, actor->suspect_deadline);
}

/* It is told that its process has died in `create`: before its sessions are lost, or after that. */
static void mark_as_not_run(crt_actor_t *actor)
{
    actor->remote->ran_no_call = true;
    CRTI_LIST_FOREACH (item, &actor->suspects) {
        crti_pending_t *p = CRTI_CONTAINER(item, crti_pending_t, link);

        if (p->remote == actor->remote)
            crti_attempt_learn(&p->attempt, false);
    }
}

void crti_actor_lost(crt_actor_t *actor, crti_remote_t *remote,
                     const crti_net_loss_t *loss)
{
    switch (loss->status) {
    case CRT_ERR_UNREACHABLE:
    case CRT_ERR_PROTOCOL:
        if (!actor->is_unconfirmed || actor->phase != CRTI_ACTOR_CALLABLE)
            break; /* it lives: the next call makes another session; or is SUSPECT already */
        crti_actor_set_phase(actor, CRTI_ACTOR_WAITING);
        forget_place(actor);
        break;
    case CRT_ERR_WORKER_DIED:
    case CRT_ERR_NODE_LOST: become_suspect(actor, loss->detail); break;
    default: become_suspect(actor, NULL);
    }
}

void crti_actors_lost(crti_core_t *core, crti_remote_t *remote,
                      const crti_net_loss_t *loss)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&core->calls->actors, &cursor, NULL, &value))
        if (((crt_actor_t *)value)->remote == remote)
            crti_actor_lost(value, remote, loss);
}

void crti_actor_process_died(crti_core_t *core, crti_remote_t *remote, const char *text)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&core->calls->actors, &cursor, NULL, &value)) {
        crt_actor_t *actor = value;

        if (actor->remote == remote) { /* a process hosts one actor */
            become_suspect(actor, text);
            if (remote->ran_no_call)
                mark_as_not_run(actor);
            return;
        }
    }
}

/* ------------------------------------------------------------------ calls */

/* Sends one; false when it and those behind it have to wait. */
static bool send_or_fail(crt_actor_t *actor, crti_pending_t *p,
                         const crti_buffer_t *record)
{
    switch (crti_pending_send(p, actor->remote, record)) {
    case CRT_OK: return true;
    case CRT_ERR_BACKPRESSURE: /* an answer makes room, as a rule */
        crti_actor_check_at(actor, crti_now_ns() + DRAIN_AGAIN_NS);
        return false;
    case CRT_ERR_WORKER_DIED:
    case CRT_ERR_NODE_LOST:
    case CRT_ERR_CLOSED: return false; /* its state will tell */
    default:
        crti_pending_fail(p, CRT_ERR_UNREACHABLE, crt_error_detail(), false);
        return true;
    }
}

/* For a call that is sent later, or perhaps once more: no call runs while its process has not
 * answered one, as far as is known here, and it may die before any does. */
static crt_status_t keep_record(crti_pending_t *p, const crti_buffer_t **record)
{
    crt_status_t status = CRT_OK;

    if (*record != &p->spec.record)
        status = crti_buffer_append(&p->spec.record, (*record)->data, (*record)->size);
    *record = &p->spec.record;
    return status;
}

static void queue_call(crti_pending_t *p, const crti_buffer_t *record)
{
    crt_actor_t *actor = p->spec.actor;
    crt_status_t status = keep_record(p, &record);

    crti_call_event_queued(p);
    put_in_queue(p, &actor->queue);
    if (status != CRT_OK)
        crti_pending_fail(p, status, crt_error_detail(), false);
    else
        crti_actor_observe(actor);
}

static void fail_too_large(crti_pending_t *p)
{
    char text[100];

    snprintf(text, sizeof(text), "the arguments of one call exceed %s (record_limit)",
             CRTI_LIMIT_SAID(record_limit));
    crti_pending_fail(p, CRT_ERR_TOO_LARGE, text, false);
}

void crti_actor_submit(crti_pending_t *p, const crti_buffer_t *record)
{
    crt_actor_t *actor = p->spec.actor;

    if (actor->is_unconfirmed)
        crti_actor_observe(actor);
    if (actor->phase == CRTI_ACTOR_GONE)
        crti_pending_fail(p, actor->status, actor->text ? actor->text : "", false);
    else if (record->size > CRTI_LIMIT(record_limit))
        fail_too_large(p);
    else if ((crti_pending_most(p) || actor->is_unconfirmed || !actor->has_answered) &&
             keep_record(p, &record) != CRT_OK)
        crti_pending_fail(p, CRT_ERR_NO_MEMORY, crt_error_detail(), false);
    else if (!crti_list_is_empty(&actor->queue) || actor->phase != CRTI_ACTOR_CALLABLE ||
             !send_or_fail(actor, p, record))
        queue_call(p, record);
}

void crti_actor_take_back(crti_pending_t *p)
{
    crt_actor_t *actor = p->spec.actor;
    crti_list_t *place = &actor->queue;

    CRTI_LIST_FOREACH (item, &actor->queue) {
        if (CRTI_CONTAINER(item, crti_pending_t, link)->result->number <
            p->result->number)
            continue;
        place = item;
        break;
    }
    crti_call_event_queued(p);
    p->remote = NULL;
    put_in_queue(p, place);
    crti_actor_observe(actor);
}

void crti_actor_reserve(crti_pending_t *p)
{
    if (!p->spec.actor->terms.is_unordered)
        crti_list_append(&p->spec.actor->queue, &p->link);
    crti_actor_observe(p->spec.actor);
}

void crti_actor_complete(crti_pending_t *p)
{
    if (crti_list_is_empty(&p->link)) {
        crti_pending_unlink(p);
        crti_actor_submit(p, &p->spec.record);
        return;
    }
    crti_pending_queue(p);
    crti_call_event_queued(p);
}

void crti_actor_drain(crt_actor_t *actor)
{
    crti_actor_hold(actor);
    while (!crti_list_is_empty(&actor->queue)) {
        crti_pending_t *p = CRTI_CONTAINER(actor->queue.next, crti_pending_t, link);

        if (actor->phase == CRTI_ACTOR_GONE) {
            crti_pending_fail(p, actor->status, actor->text ? actor->text : "", false);
            continue;
        }
        if (p->attempt.state != CRTI_ATTEMPT_QUEUED ||
            actor->phase != CRTI_ACTOR_CALLABLE ||
            !send_or_fail(actor, p, &p->spec.record))
            break;
    }
    crti_actor_release(actor);
}

static bool has_room(void *user)
{
    crt_actor_t *actor = user;

    return actor->queue_bytes <= CRTI_LIMIT(actor_queue) ||
           actor->phase == CRTI_ACTOR_GONE;
}

crt_status_t crti_actor_room(crt_actor_t *actor, bool try_only)
{
    if (actor->terms.max_pending_calls > 0 &&
        actor->pending_calls >= actor->terms.max_pending_calls)
        return crt_raise(CRT_ERR_BACKPRESSURE,
                         "actor %s (%s) has %lld calls of this process that were not "
                         "answered, which are its max_pending_calls",
                         actor->hex, actor->class_name, (long long)actor->pending_calls);
    if (has_room(actor))
        return CRT_OK;
    if (try_only)
        return crt_raise(CRT_ERR_BACKPRESSURE, "%zu bytes of calls wait for actor %s",
                         actor->queue_bytes, actor->hex);
    return crti_wait_in_detail(actor->core, has_room, actor, -1,
                               &(crti_wait_detail_t){.actor = actor},
                               "room in the queue of an actor");
}

/* ------------------------------------------------------------------ who watches it */

static void tell_watchers(crt_actor_t *actor, crti_actor_news_t news, uint64_t count)
{
    CRTI_LIST_FOREACH_SAFE (item, &actor->watchers) {
        crti_actor_watcher_t *w = CRTI_CONTAINER(item, crti_actor_watcher_t, link);

        w->on_news(w, news, count);
    }
}

/* Also when its process has ended, and the head has not said why. */
static bool is_drained(const crt_actor_t *actor)
{
    return actor->remote &&
           crti_remotes_is_draining(actor->core, actor->remote->address.node);
}

void crti_actor_follow(crt_actor_t *actor, crti_actor_watcher_t *watcher)
{
    crti_list_init(&watcher->link);
    crti_actor_observe(actor);
    if (actor->phase == CRTI_ACTOR_GONE) {
        watcher->on_news(watcher, CRTI_ACTOR_ENDED, 0);
        return;
    }
    crti_list_append(&actor->watchers, &watcher->link);
    if (actor->is_told)
        watcher->on_news(watcher, CRTI_ACTOR_LEARNT, 0);
    if (actor->is_restarting)
        watcher->on_news(watcher, CRTI_ACTOR_RESTARTS, 1);
    else if (is_drained(actor))
        watcher->on_news(watcher, CRTI_ACTOR_DRAINED, 0);
}

void crti_actors_drained(crti_core_t *core, crti_id_t node)
{
    CRTI_MAP_FOREACH (crt_actor_t, actor, &core->calls->actors)
        if (actor->remote && crti_id_equal(actor->remote->address.node, node))
            tell_watchers(actor, CRTI_ACTOR_DRAINED, 0);
}

/* How many of its processes have ended that were not told of, with another one to follow: the head
 * counts, so that none is missed when the node had no link to it. A drain that moves an actor
 * counts as a restart here, and not there. */
static uint64_t count_restarts(const crt_actor_t *actor, const crti_msg_actor_state_t *m)
{
    bool is_between = m->state != CRTI_ACTOR_ALIVE && m->state != CRTI_ACTOR_DEAD;

    if (actor->is_told && m->restarts > actor->restarts)
        return m->restarts - actor->restarts;
    if (actor->is_restarting || m->actor_incarnation < actor->incarnation)
        return 0;
    if (m->state == CRTI_ACTOR_RESTARTING ||
        (!actor->is_told && is_between && m->restarts > 0))
        return 1;
    return m->state == CRTI_ACTOR_ALIVE && actor->incarnation > 0 &&
           m->actor_incarnation > actor->incarnation;
}

/* Before the rest of what the head says is applied. */
static void learn_restarts(crt_actor_t *actor, const crti_msg_actor_state_t *m)
{
    uint64_t count = count_restarts(actor, m);
    bool is_first = !actor->is_told;

    if (m->state == CRTI_ACTOR_ALIVE || m->state == CRTI_ACTOR_DEAD)
        actor->is_restarting = false;
    else if (count)
        actor->is_restarting = true;
    actor->is_told = true;
    if (m->restarts > actor->restarts)
        actor->restarts = m->restarts;
    if (is_first)
        tell_watchers(actor, CRTI_ACTOR_LEARNT, 0);
    if (count == 0)
        return;
    free(actor->restart_text);
    actor->restart_text =
        m->state == CRTI_ACTOR_RESTARTING ? crti_str_dup(m->text) : NULL;
    actor->restart_status = m->state == CRTI_ACTOR_RESTARTING && m->status < 0
                                ? (crt_status_t)m->status
                                : CRT_ERR_ACTOR_DIED;
    tell_watchers(actor, CRTI_ACTOR_RESTARTS, count);
}

/* ------------------------------------------------------------------ what the head says */

/* Whether the head speaks of the process that is called already. */
static bool is_same_place(const crt_actor_t *actor, const crti_msg_actor_state_t *m)
{
    return actor->incarnation == m->actor_incarnation && actor->remote &&
           crti_id_equal(actor->remote->address.process, m->process);
}

/* It lives anew, and the end of its last process is not known here yet. */
static void suspect_in_flight(crt_actor_t *actor)
{
    CRTI_LIST_FOREACH_SAFE (item, &actor->remote->in_flight) {
        crti_pending_t *p = CRTI_CONTAINER(item, crti_pending_t, link);

        if (crti_pending_most(p) == 0)
            continue;
        crti_attempt_learn(&p->attempt, true);
        crti_pending_suspect(p);
    }
}

static void become_callable(crt_actor_t *actor, const crti_msg_actor_state_t *m)
{
    crti_core_t *core = actor->core;
    crti_address_t address =
        crti_peer_address(m->process, m->incarnation, m->node, m->ipc, m->tcp);
    crti_remote_t *remote;

    if (is_same_place(actor, m))
        actor->is_unconfirmed = false;
    if (actor->phase == CRTI_ACTOR_CALLABLE && is_same_place(actor, m))
        return;
    if (actor->phase == CRTI_ACTOR_SUSPECT && is_same_place(actor, m))
        return; /* said before its process was lost */
    if (actor->remote)
        suspect_in_flight(actor);
    end_suspect(actor, CRT_ERR_ACTOR_DIED, NULL);
    if (crti_remote_use(core, &address, &remote) != CRT_OK) {
        crti_actor_end(actor, CRT_ERR_NO_MEMORY, crt_error_detail());
        return;
    }
    crti_actor_set_remote(actor, remote);
    actor->is_unconfirmed = false;
    actor->incarnation = m->actor_incarnation;
    crti_actor_set_phase(actor, CRTI_ACTOR_CALLABLE);
    if (is_drained(actor))
        tell_watchers(actor, CRTI_ACTOR_DRAINED, 0);
    crti_actor_drain(actor);
    if (actor->on_callable)
        actor->on_callable(actor);
}

/* Thousands of actors may wait, each told again at every try: a reason that was just said is not
 * said again. */
static void warn_of_waiting(const crt_actor_t *actor, const char *text)
{
    crti_core_t *core = actor->core;
    uint64_t now = crti_now_ns();

    if (now < core->calls->warned_ns + WARN_AGAIN_NS)
        return;
    core->calls->warned_ns = now;
    crti_log(CRTI_LOG_WARN, "core", "actor %s (%s) waits: %s", actor->hex,
             actor->class_name, text);
}

static void apply_state(crt_actor_t *actor, const crti_msg_actor_state_t *m)
{
    char text[1024];

    CRTI_TERMS_COPY(&actor->terms, m);
    crti_text(m->text, text, sizeof(text));
    crti_actor_hold(actor);
    if (m->ran_no_call && actor->remote && actor->incarnation == m->actor_incarnation)
        mark_as_not_run(actor);
    if (actor->phase != CRTI_ACTOR_GONE)
        learn_restarts(actor, m);
    if (actor->phase == CRTI_ACTOR_GONE) {
        /* nothing follows */
    } else if (m->state == CRTI_ACTOR_ALIVE) {
        become_callable(actor, m);
    } else if (m->state == CRTI_ACTOR_DEAD) {
        crti_actor_end(
            actor, m->status < 0 ? (crt_status_t)m->status : CRT_ERR_ACTOR_DIED, text);
    } else if (m->actor_incarnation >= actor->incarnation) {
        if (m->state == CRTI_ACTOR_PENDING && text[0])
            warn_of_waiting(actor, text);
        if (m->state == CRTI_ACTOR_RESTARTING)
            actor->incarnation =
                m->actor_incarnation; /* it is over: nothing unconfirmed of it */
        if (actor->phase != CRTI_ACTOR_CALLABLE || m->state == CRTI_ACTOR_RESTARTING) {
            /* Another text says what the next process waits for. */
            end_suspect(actor, CRT_ERR_ACTOR_DIED,
                        m->state == CRTI_ACTOR_RESTARTING ? text : NULL);
            crti_actor_set_phase(actor, CRTI_ACTOR_WAITING);
        }
    }
    crti_actor_release(actor);
}

void crti_actor_state(crti_core_t *core, const crti_msg_actor_state_t *m)
{
    crt_actor_t *actor = crti_map_get(&core->calls->actors, &m->actor);

    if (actor)
        apply_state(actor, m);
}

static void on_watched(void *user, const crti_message_t *message)
{
    crt_actor_t *actor = user;

    if (message && message->kind == CRTI_MSG_ACTOR_STATE) {
        apply_state(actor, &message->actor_state);
    } else if (message && message->kind == CRTI_MSG_ERROR) {
        crti_channel_raise(&message->error);
        crti_actor_end(actor, (crt_status_t)message->error.status, crt_error_detail());
    }
    crti_actor_release_weakly(actor);
}

void crti_actor_observe(crt_actor_t *actor)
{
    crti_msg_actor_watch_t body = {.actor = actor->id};

    if (actor->is_watched || actor->phase == CRTI_ACTOR_GONE)
        return;
    actor->is_watched = true;
    crti_actor_hold_weakly(actor);
    if (crti_node_request(actor->core, CRTI_MSG_ACTOR_WATCH, &body, on_watched, actor) ==
        CRT_OK)
        return;
    crti_actor_end(actor, crti_node_loss(actor->core), crt_error_detail());
    crti_actor_release_weakly(actor);
}

/* The head is silent: what the node said is all there is. Without that, it may be alive. */
static void end_long_suspicion(crt_actor_t *actor)
{
    bool has_died = actor->report != NULL;

    if (!has_died && !actor->is_unconfirmed) {
        crti_actor_set_phase(actor, CRTI_ACTOR_CALLABLE);
        end_suspect(actor, CRT_ERR_UNREACHABLE, "its process closed the session");
        return;
    }
    crti_actor_set_phase(actor, CRTI_ACTOR_WAITING);
    end_suspect(actor, has_died ? CRT_ERR_ACTOR_DIED : CRT_ERR_UNREACHABLE,
                has_died ? NULL : "its process closed the session");
    forget_place(actor);
}

void crti_actor_tick(crti_core_t *core, uint64_t now_ns)
{
    crti_list_t due, *item;

    crti_list_init(&due);
    crti_list_prepend_all(&due, &core->calls->due_actors);
    while ((item = crti_list_pop(&due))) {
        crt_actor_t *actor = CRTI_CONTAINER(item, crt_actor_t, in_due);

        if (actor->phase == CRTI_ACTOR_SUSPECT && actor->suspect_deadline > now_ns) {
            crti_actor_check_at(actor, actor->suspect_deadline);
            continue;
        }
        crti_actor_hold(actor);
        if (actor->phase == CRTI_ACTOR_SUSPECT)
            end_long_suspicion(actor);
        crti_actor_drain(actor);
        crti_actor_release(actor);
    }
}

void crti_actors_end(crti_core_t *core, crt_status_t status, const char *text)
{
    crt_actor_t **actors = malloc((core->calls->actors.count + 1) * sizeof(*actors));
    size_t cursor = 0, count = 0;
    void *value;

    while (actors && crti_map_next(&core->calls->actors, &cursor, NULL, &value)) {
        actors[count] = value;
        crti_actor_hold(actors[count++]);
    }
    for (size_t i = 0; i < count; i++) {
        crti_actor_end(actors[i], status, text);
        crti_actor_release(actors[i]);
    }
    free(actors);
}

void crti_actor_drop_creation(crt_actor_t *actor)
{
    crt_ref_t **refs = actor->creation_refs;
    size_t count = actor->creation_count;

    if (count == 0)
        return;
    actor->creation_refs = NULL;
    actor->creation_count = 0;
    for (size_t i = 0; i < count; i++)
        crti_ref_unpin(refs[i]);
    free(refs);
    crti_actor_release_weakly(actor);
}
