/* SPDX-License-Identifier: Apache-2.0 */
/* What this process says of itself when its node asks: what its threads wait for, and which refs it
 * holds. Who waits in crt_get serves the link meanwhile, so that it answers just then.
 *
 * Where it sits
 *     crt-node (node/dispatch/questions.c) -> STATE_QUERY, "ROUND LIMIT" as its filter ->
 *     node_messages.c ->
 *     [ told_state.c ] -> STATE_ANSWER: {"round": ROUND, "waits": [...]}, or refs
 *     (base/object_records.h)
 * Threads: the core's lock.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/json_write.h"
#include "runtime/base/number_text.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/backlog.h"
#include "runtime/core/calls/call_options.h"
#include "runtime/core/client/client.h"
#include "runtime/core/client/told.h"
#include "runtime/core/process/blocking.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/remotes.h"

#define LIMIT_MAX 10000

void crti_told_put(crti_buffer_t *json, const char *text)
{
    (void)crti_buffer_append(json, text, strlen(text));
}

void crti_told_text(crti_buffer_t *json, const char *key, const char *text)
{
    crti_json_writer_t w = {.out = json};

    crti_told_put(json, ",\"");
    crti_told_put(json, key);
    crti_told_put(json, "\":");
    crti_json_text(&w, text);
}

static void put_id(crti_buffer_t *json, const char *key, crti_id_t id)
{
    char hex[CRTI_ID_HEX];

    crti_told_text(json, key, crti_id_is_zero(id) ? "" : crti_id_hex(id, hex));
}

void crti_told_object(crti_buffer_t *json, crti_object_id_t id)
{
    char hex[CRTI_ID_HEX], text[CRTI_ID_HEX + 20];

    snprintf(text, sizeof(text), "%s%016" PRIx64, crti_id_hex(id.owner, hex), id.number);
    crti_told_text(json, "object_id", text);
}

/* ---------------------------------------------------------------- waits */

/* As Ray names them. */
static const char *state_name(crti_attempt_state_t state)
{
    switch (state) {
    case CRTI_ATTEMPT_ARGUMENTS: return "PENDING_ARGS_AVAIL";
    case CRTI_ATTEMPT_QUEUED:
    case CRTI_ATTEMPT_SUSPECT: return "PENDING_NODE_ASSIGNMENT";
    case CRTI_ATTEMPT_SENT: return "SUBMITTED_TO_WORKER";
    case CRTI_ATTEMPT_INLINE: return "RUNNING";
    default: return "";
    }
}

/* The call that makes what is waited for: whose, and who has it. */
static void put_call(crti_buffer_t *json, const crti_pending_t *p)
{
    crti_told_text(json, "call", crti_call_name(p));
    crti_told_text(json, "call_state", state_name(p->attempt.state));
    if (p->spec.actor)
        put_id(json, "actor_id", p->spec.actor->id);
    if (p->attempt.state == CRTI_ATTEMPT_SENT && p->remote) {
        put_id(json, "worker_id", p->remote->address.process);
        put_id(json, "node_id", p->remote->address.node);
    }
}

const crt_ref_t *crti_told_ref(const crti_shown_wait_t *w, size_t *at)
{
    const crt_ref_t *ref = *at == 0 ? w->ref : NULL;

    if (ref)
        *at = 1;
    else if (w->detail && w->detail->pick)
        ref = w->detail->pick(w->user, at);
    while (ref && ref->more->forward && ref->content == CRTI_CONTENT_NONE)
        ref = ref->more->forward;
    return ref;
}

static void put_wait(crti_buffer_t *json, const crti_shown_wait_t *w, uint64_t now_ns)
{
    size_t at = 0;
    const crt_ref_t *ref = crti_told_ref(w, &at);
    const crti_pending_t *p;
    char head[96], reason[512] = "";

    snprintf(head, sizeof(head), "{\"tid\":%d,\"for_ms\":", (int)w->tid);
    crti_told_put(json, head);
    if (w->since_ns)
        crti_format(head, sizeof(head), "%.3f", (double)(now_ns - w->since_ns) / CRTI_MS);
    crti_told_put(json, w->since_ns ? head : "null");
    crti_told_text(json, "what", w->what);
    if (w->detail && w->detail->describe)
        w->detail->describe(w->user, reason, sizeof(reason));
    if (reason[0])
        crti_told_text(json, "reason", reason);
    if (w->detail && w->detail->actor)
        put_id(json, "actor_id", w->detail->actor->id);
    if (ref && !ref->is_free) {
        p = crti_ref_pending(ref);
        crti_told_object(json, crti_ref_id(ref));
        if (p && ref->is_owned)
            put_call(json, p);
        else if (!ref->is_owned && ref->owner)
            put_id(json, "owner_id", ref->owner->address.process);
    }
    crti_told_put(json, "}");
}

static void put_waits(crti_core_t *core, crti_buffer_t *json)
{
    uint64_t now = crti_now_ns();
    bool is_first = true;

    crti_told_put(json, "\"waits\":[");
    CRTI_LIST_FOREACH (item, &core->blocked->waiters) {
        if (!is_first)
            crti_told_put(json, ",");
        is_first = false;
        put_wait(json, CRTI_CONTAINER(item, crti_shown_wait_t, link), now);
    }
    crti_told_put(json, "]");
}

/* ---------------------------------------------------------------- the answer */

static void tell_waits(crti_core_t *core, unsigned long long round, crti_buffer_t *json)
{
    char head[48];

    snprintf(head, sizeof(head), "{\"round\":%llu,", round);
    crti_told_put(json, head);
    put_waits(core, json);
    crti_told_put(json, "}");
}

void crti_tell_state(crti_core_t *core, const crti_msg_state_query_t *query)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t told = {0};
    unsigned long long round = 0, limit = 0;
    crti_msg_state_answer_t answer;
    char filter[64];

    if (sscanf(crti_text(query->filter, filter, sizeof(filter)), "%llu %llu", &round,
               &limit) != 2)
        return;
    if (crti_str_equal(query->what, "waits"))
        tell_waits(core, round, &told);
    else if (crti_str_equal(query->what, "rest"))
        crti_told_rest(core, round, &told);
    else
        crti_told_refs(core, round, limit < LIMIT_MAX ? (size_t)limit : LIMIT_MAX, &told);
    answer = (crti_msg_state_answer_t){.json = crti_span(told.data, told.size)};
    crti_node_notice(core, CRTI_MSG_STATE_ANSWER, &answer);
}
