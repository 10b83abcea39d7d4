/* SPDX-License-Identifier: Apache-2.0 */
/* Wait sets: what is in them, and what becomes ready. See waitset.h. */
#include "runtime/core/client/waitset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/stream.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/value_of.h"
#include "runtime/core/values/error.h"
#include "runtime/core/values/handles.h"

typedef struct entry {
    crti_wait_entry_t in;
    crt_waitset_t *set;
    /* Which member counts: REF, STREAM_END; ACTOR_END and NODE_END: of the end alone;
     * ACTOR_RESTART and NODE_DRAIN: of all that happens. */
    crt_event_kind_t kind;
    union {
        struct {
            crt_ref_t *ref; /* a handle */
            crti_waiting_t waiting;
        };
        crt_stream_t *stream; /* held */
        struct {
            crt_actor_t *actor; /* held weakly */
            crti_actor_watcher_t watcher;
            uint64_t restarts; /* that were not told yet; */
            bool is_drained;   /* likewise, */
            crti_id_t drained; /* the node where it lived; */
            bool actor_ended;
        };
        struct {
            crti_list_t link; /* core->waits->nodes, until it has ended */
            crti_id_t node;
            bool node_drains;    /* not told yet */
            crt_status_t status; /* CRT_OK: it has not ended */
            char *text;
        };
    };
} entry_t;

static entry_t *entry_of(crti_wait_entry_t *in)
{
    return CRTI_CONTAINER(in, entry_t, in);
}

static bool is_of_actor(const entry_t *entry)
{
    return entry->kind == CRT_EVENT_ACTOR_END || entry->kind == CRT_EVENT_ACTOR_RESTART;
}

static bool is_of_node(const entry_t *entry)
{
    return entry->kind == CRT_EVENT_NODE_END || entry->kind == CRT_EVENT_NODE_DRAIN;
}

void crti_waits_init(crti_waits_t *waits)
{
    crti_list_init(&waits->nodes);
}

void crti_waits_fini(crti_waits_t *waits)
{
    crti_numbers_fini(&waits->sets);
    crti_wait_memory_fini(&waits->memory);
}

/* ------------------------------------------------------------------ its descriptor */

/* Readable when an entry is ready. Both can't fail: it holds 0 or 1. */
static void show(crt_waitset_t *set)
{
    bool has_event = crti_wait_table_first(&set->table) != NULL;
    uint64_t one = 1;

    if (set->fd < 0 || has_event == set->is_shown)
        return;
    set->is_shown = has_event;
    if (has_event)
        (void)!write(set->fd, &one, sizeof(one));
    else
        (void)!read(set->fd, &one, sizeof(one));
}

crt_status_t crti_waitset_open_fd(crt_waitset_t *set)
{
    if (set->fd < 0)
        set->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (set->fd < 0)
        return crt_raise(CRT_ERR_IO, "a descriptor of a wait set: %s", strerror(errno));
    show(set);
    return CRT_OK;
}

/* ------------------------------------------------------------------ sets */

crt_waitset_t *crti_waitset_new(crti_core_t *core)
{
    crt_waitset_t *set = calloc(1, sizeof(*set));

    if (!set) {
        crt_raise(CRT_ERR_NO_MEMORY, "a wait set");
        return NULL;
    }
    set->core = core;
    set->holds = 1;
    set->fd = -1;
    crti_wait_table_init(&set->table);
    return set;
}

void crti_waitset_release(crt_waitset_t *set)
{
    if (--set->holds)
        return;
    crti_wait_table_fini(&set->table);
    if (set->fd >= 0)
        close(set->fd);
    free(set);
}

/* Threads that wait in it look again. Those that were woken for an earlier one look by
 * themselves. */
static void become_ready(entry_t *entry)
{
    crt_waitset_t *set = entry->set;
    bool is_first = crti_wait_table_first(&set->table) == NULL;

    crti_wait_table_ready(&set->table, &entry->in);
    show(set);
    if (!is_first || !set->core || !set->core->net)
        return;
    if (set->is_ticked)
        crti_core_wake_at(set->core, crti_now_ns());
    else
        crti_net_wake(set->core->net);
}

/* The entry is gone; what it held is the caller's. */
static void take_out(entry_t *entry)
{
    crt_waitset_t *set = entry->set;

    crti_wait_table_remove(&set->table, &entry->in);
    show(set);
    free(entry);
    if (set->table.count == 0 && set->core && set->core->net)
        crti_net_wake(set->core->net); /* who waits has nothing to wait for */
}

static void give_up(crti_core_t *core, entry_t *entry)
{
    crt_event_kind_t kind = entry->kind;
    crt_ref_t *ref = kind == CRT_EVENT_REF ? entry->ref : NULL;
    crt_stream_t *stream = kind == CRT_EVENT_STREAM_END ? entry->stream : NULL;
    crt_actor_t *actor = is_of_actor(entry) ? entry->actor : NULL;

    if (ref)
        crti_list_remove(&entry->waiting.link);
    if (stream)
        stream->on_change = NULL;
    if (actor)
        crti_list_remove(&entry->watcher.link);
    if (is_of_node(entry)) {
        crti_list_remove(&entry->link);
        free(entry->text);
    }
    take_out(entry);
    if (ref)
        crti_ref_drop_handle(core, ref);
    if (stream)
        crti_call_stream_release(stream);
    if (actor)
        crti_actor_release_weakly(actor);
}

void crti_waitset_clear(crti_core_t *core, crt_waitset_t *set)
{
    crti_wait_entry_t *in;

    while ((in = crti_wait_table_any(&set->table)))
        give_up(core, entry_of(in));
}

bool crti_waitset_remove(crt_waitset_t *set, const void *user)
{
    crti_wait_entry_t *in = crti_wait_table_find(&set->table, user);

    if (!in)
        return false;
    for (; in; in = crti_wait_table_find(&set->table, user))
        give_up(set->core, entry_of(in));
    return true;
}

/* ------------------------------------------------------------------ what is added */

static crt_status_t new_entry(crt_waitset_t *set, crt_event_kind_t kind, void *user,
                              entry_t **entry_out)
{
    entry_t *entry = calloc(1, sizeof(*entry));
    crt_status_t status;

    if (!entry)
        return crt_raise(CRT_ERR_NO_MEMORY, "an entry of a wait set");
    entry->set = set;
    entry->kind = kind;
    status = crti_wait_table_add(&set->table, &entry->in, user);
    if (status != CRT_OK)
        free(entry);
    else
        *entry_out = entry;
    return status;
}

static void on_ref(crti_waiting_t *waiting, crt_ref_t *ref)
{
    become_ready(CRTI_CONTAINER(waiting, entry_t, waiting));
}

crt_status_t crti_waitset_add_ref(crt_waitset_t *set, crt_ref_t *ref, void *user)
{
    entry_t *entry = NULL;
    crt_status_t status = new_entry(set, CRT_EVENT_REF, user, &entry);

    if (status != CRT_OK)
        return status;
    crti_ref_keep_handle(ref);
    entry->ref = ref;
    entry->waiting.on_ready = on_ref;
    crti_list_init(&entry->waiting.link);
    if (ref->core)
        crti_ref_await(ref, &entry->waiting, true);
    else
        become_ready(entry); /* it failed before there was a runtime */
    return CRT_OK;
}

static void on_stream(void *user)
{
    entry_t *entry = user;

    if (entry->stream->is_dropped)
        give_up(entry->set->core, entry);
    else if (entry->stream->count || entry->stream->is_ended)
        become_ready(entry);
}

crt_status_t crti_waitset_add_stream(crt_waitset_t *set, crt_stream_t *stream, void *user)
{
    entry_t *entry = NULL;
    crt_status_t status;

    if (stream->on_change)
        return crt_raise(CRT_ERR_EXISTS, "the stream is in a wait set already");
    status = new_entry(set, CRT_EVENT_STREAM_END, user, &entry);
    if (status != CRT_OK)
        return status;
    entry->stream = stream;
    stream->holds++;
    stream->on_change = on_stream;
    stream->on_change_user = entry;
    on_stream(entry);
    return CRT_OK;
}

static void on_actor(crti_actor_watcher_t *watcher, crti_actor_news_t news,
                     uint64_t count)
{
    entry_t *entry = CRTI_CONTAINER(watcher, entry_t, watcher);

    if (news == CRTI_ACTOR_LEARNT ||
        (entry->kind == CRT_EVENT_ACTOR_END && news != CRTI_ACTOR_ENDED))
        return;
    entry->restarts += count;
    if (news == CRTI_ACTOR_DRAINED) {
        entry->is_drained = true;
        entry->drained = entry->actor->remote->address.node;
    }
    entry->actor_ended |= news == CRTI_ACTOR_ENDED;
    become_ready(entry);
}

crt_status_t crti_waitset_add_actor(crt_waitset_t *set, crt_actor_t *actor,
                                    bool wants_all, void *user)
{
    entry_t *entry = NULL;
    crt_status_t status = new_entry(
        set, wants_all ? CRT_EVENT_ACTOR_RESTART : CRT_EVENT_ACTOR_END, user, &entry);

    if (status != CRT_OK)
        return status;
    crti_actor_hold_weakly(actor);
    entry->actor = actor;
    entry->watcher.on_news = on_actor;
    crti_actor_follow(actor, &entry->watcher);
    return CRT_OK;
}

/* ------------------------------------------------------------------ nodes */

static void node_ended(entry_t *entry, crt_status_t status, const char *text)
{
    crti_list_remove(&entry->link);
    entry->status = status;
    entry->text = strdup(text);
    become_ready(entry);
}

void crti_waits_node_gone(crti_core_t *core, crti_id_t node, crt_status_t status,
                          const char *text)
{
    CRTI_LIST_FOREACH_SAFE (item, &core->waits->nodes) {
        entry_t *entry = CRTI_CONTAINER(item, entry_t, link);

        if (crti_id_equal(entry->node, node))
            node_ended(entry, status, text);
    }
}

void crti_waits_node_drains(crti_core_t *core, crti_id_t node)
{
    CRTI_LIST_FOREACH (item, &core->waits->nodes) {
        entry_t *entry = CRTI_CONTAINER(item, entry_t, link);

        if (entry->kind != CRT_EVENT_NODE_DRAIN || !crti_id_equal(entry->node, node))
            continue;
        entry->node_drains = true;
        become_ready(entry);
    }
}

void crti_waits_break(crti_core_t *core, crt_status_t status, const char *text)
{
    CRTI_LIST_FOREACH_SAFE (item, &core->waits->nodes)
        node_ended(CRTI_CONTAINER(item, entry_t, link), status, text);
}

typedef struct question {
    crti_core_t *core;
    crti_id_t node;
} question_t;

/* The answer is a list of one row, or of none: control/rows/state_json.c. */
static bool has_row(crti_span_t json, crti_id_t node, const char *state)
{
    char hex[CRTI_ID_HEX], row[128];
    size_t size =
        (size_t)snprintf(row, sizeof(row), "[{\"node_id\":\"%s\"%s%s",
                         crti_id_hex(node, hex), *state ? ",\"state\":" : "", state);

    return json.size >= size && memcmp(json.data, row, size) == 0;
}

/* Without an answer the link to the node has ended, and so have all nodes, for this process. */
static void on_answer(void *user, const crti_message_t *answer)
{
    question_t *question = user;
    bool is_told = answer && answer->kind == CRTI_MSG_STATE_ANSWER;
    crti_span_t json = is_told ? answer->state_answer.json : (crti_span_t){"", 0};

    if (is_told && !has_row(json, question->node, ""))
        crti_waits_node_gone(question->core, question->node, CRT_ERR_NOT_FOUND,
                             "the cluster knows no such node");
    else if (is_told && has_row(json, question->node, "\"DEAD\""))
        crti_waits_node_gone(question->core, question->node, CRT_ERR_NODE_LOST,
                             "the node had left the cluster before");
    free(question);
}

/* Each process hears of the death of each node; of those of before now the head knows. */
static crt_status_t ask_for_node(crti_core_t *core, crti_id_t node)
{
    char hex[CRTI_ID_HEX];
    crti_msg_state_query_t body = {.what = crti_str("nodes"),
                                   .filter = crti_str(crti_id_hex(node, hex))};
    question_t *question = malloc(sizeof(*question));
    crt_status_t status;

    if (!question)
        return crt_raise(CRT_ERR_NO_MEMORY, "a question for a node");
    *question = (question_t){core, node};
    status = crti_node_request(core, CRTI_MSG_STATE_QUERY, &body, on_answer, question);
    if (status != CRT_OK)
        free(question);
    return status;
}

crt_status_t crti_waitset_add_node(crt_waitset_t *set, crti_id_t node, bool wants_all,
                                   void *user)
{
    crti_core_t *core = set->core;
    entry_t *entry = NULL;
    crt_status_t status = new_entry(
        set, wants_all ? CRT_EVENT_NODE_DRAIN : CRT_EVENT_NODE_END, user, &entry);

    if (status != CRT_OK)
        return status;
    entry->node = node;
    crti_list_append(&core->waits->nodes, &entry->link);
    status = ask_for_node(core, node);
    if (status != CRT_OK) {
        give_up(core, entry);
    } else if (wants_all && crti_remotes_is_draining(core, node)) {
        entry->node_drains = true;
        become_ready(entry);
    }
    return status;
}

/* ------------------------------------------------------------------ what is taken out */

static crt_status_t status_of(const crt_ref_t *ref)
{
    if (ref->content != CRTI_CONTENT_FAILED)
        return CRT_OK;
    return ref->error ? ref->error->user.status : CRT_ERR_NO_MEMORY;
}

static void take_ref(entry_t *entry, crt_event_t *event)
{
    event->kind = CRT_EVENT_REF;
    event->ref = entry->ref;
    event->status = status_of(entry->ref);
    take_out(entry);
}

/* The next item, or the end. False: somebody else has taken what was there. */
static bool take_from_stream(entry_t *entry, crt_event_t *event)
{
    crt_stream_t *stream = entry->stream;
    const crt_ref_t *completed = stream->completed;

    crti_wait_table_idle(&entry->set->table, &entry->in); /* the others' turn */
    event->stream = stream;
    if (stream->count) {
        event->kind = CRT_EVENT_ITEM;
        event->ref = crti_call_stream_take(stream);
        event->ref->handles++;
        event->status = status_of(event->ref);
        if (stream->count || stream->is_ended)
            crti_wait_table_ready(&entry->set->table, &entry->in);
        show(entry->set);
        return true;
    }
    show(entry->set);
    if (!stream->is_ended)
        return false;
    event->kind = CRT_EVENT_STREAM_END;
    event->status = completed ? status_of(completed) : CRT_ERR_CLOSED;
    if (completed && completed->error && event->status != CRT_OK)
        event->text = strdup(completed->error->user.text);
    if (event->status == CRT_OK)
        event->status = CRT_END_OF_STREAM;
    give_up(entry->set->core, entry);
    return true;
}

/* More follows: at once, behind the others, or later. */
static void stay(entry_t *entry, bool is_ready)
{
    crti_wait_table_idle(&entry->set->table, &entry->in);
    if (is_ready)
        crti_wait_table_ready(&entry->set->table, &entry->in);
    show(entry->set);
}

static void take_restart(entry_t *entry, crt_event_t *event)
{
    const crt_actor_t *actor = entry->actor;

    event->kind = CRT_EVENT_ACTOR_RESTART;
    event->status =
        actor->restart_status != CRT_OK ? actor->restart_status : CRT_ERR_ACTOR_DIED;
    event->text =
        strdup(actor->restart_text ? actor->restart_text : "its process has ended");
    event->count = entry->restarts;
    entry->restarts = 0;
    stay(entry, entry->is_drained || entry->actor_ended);
}

static void take_actor(entry_t *entry, crt_event_t *event)
{
    crt_actor_t *actor = entry->actor;

    event->actor = actor;
    event->restarts = actor->restarts;
    actor->handles++;
    crti_actor_hold(actor);
    if (entry->restarts) {
        take_restart(entry, event);
    } else if (entry->is_drained) {
        event->kind = CRT_EVENT_ACTOR_DRAIN;
        crti_id_hex(entry->drained, event->node_id);
        event->text = strdup("the node where it lives is drained");
        entry->is_drained = false;
        stay(entry, entry->actor_ended);
    } else {
        event->kind = CRT_EVENT_ACTOR_END;
        event->status = actor->status;
        event->text = strdup(actor->text ? actor->text : "");
        give_up(entry->set->core, entry);
    }
}

static void take_node(entry_t *entry, crt_event_t *event)
{
    crti_id_hex(entry->node, event->node_id);
    if (entry->node_drains) {
        event->kind = CRT_EVENT_NODE_DRAIN;
        event->text = strdup("the node is drained");
        entry->node_drains = false;
        stay(entry, entry->status != CRT_OK);
        return;
    }
    event->kind = CRT_EVENT_NODE_END;
    event->status = entry->status;
    event->text = CRTI_TAKE(entry->text);
    give_up(entry->set->core, entry);
}

bool crti_waitset_take(crt_waitset_t *set, crt_event_t *event)
{
    crti_wait_entry_t *in;
    bool is_taken = false;

    while (!is_taken && (in = crti_wait_table_first(&set->table))) {
        entry_t *entry = entry_of(in);
        void *user = in->user;

        is_taken = true;
        switch (entry->kind) {
        case CRT_EVENT_REF: take_ref(entry, event); break;
        case CRT_EVENT_ACTOR_END:
        case CRT_EVENT_ACTOR_RESTART: take_actor(entry, event); break;
        case CRT_EVENT_NODE_END:
        case CRT_EVENT_NODE_DRAIN: take_node(entry, event); break;
        default: is_taken = take_from_stream(entry, event);
        }
        event->user = user;
    }
    return is_taken;
}

crt_ref_t *crti_waitset_first_ref(const crt_waitset_t *set)
{
    CRTI_LIST_FOREACH (item, &set->table.idle) {
        const entry_t *entry = entry_of(CRTI_CONTAINER(item, crti_wait_entry_t, link));

        if (entry->kind == CRT_EVENT_REF)
            return entry->ref;
    }
    return NULL;
}

/* ------------------------------------------------------------------ shutdown */

/* What is left of it are refs: the program may drop the set, and callbacks hear of theirs. Actors
 * count no holds from now on. */
static void orphan(crt_waitset_t *set)
{
    crti_list_t refs;
    crti_wait_entry_t *in;

    crti_list_init(&refs);
    set->core = NULL;
    while ((in = crti_wait_table_any(&set->table))) {
        entry_t *entry = entry_of(in);

        if (entry->kind == CRT_EVENT_REF) {
            crti_list_remove(&entry->waiting.link);
            crti_list_remove(&in->link);
            crti_list_append(&refs, &in->link);
        } else if (is_of_actor(entry)) {
            take_out(entry);
        } else {
            give_up(NULL, entry);
        }
    }
    while (!crti_list_is_empty(&refs)) {
        crti_wait_entry_t *first = CRTI_CONTAINER(refs.next, crti_wait_entry_t, link);

        first->is_ready = false;
        crti_wait_table_ready(&set->table, first);
    }
    show(set);
}

void crti_waits_orphan(crti_core_t *core)
{
    size_t cursor = 0;
    crt_waitset_t *set;

    while ((set = crti_numbers_next(&core->waits->sets, &cursor))) {
        orphan(set);
        crti_old_handle_add(set);
    }
    if (core->waits->callback_set)
        orphan(core->waits->callback_set);
}
