/* SPDX-License-Identifier: Apache-2.0 */
/* What this process says of itself when its node asks: what its threads wait for, and which refs to objects in stores
 * it holds. Who waits in crt_get serves the link meanwhile, so that it answers just then.
 *
 * Where it sits
 *     crt-node (node/dispatch/questions.c) -> STATE_QUERY, "ROUND LIMIT" as its filter -> node_messages.c ->
 *     [ told_state.c ] -> STATE_ANSWER, {"round": ROUND, ...}
 * Threads: the core's lock. A million refs take some 20 ms.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/json_escape.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/backlog.h"
#include "runtime/core/calls/call_options.h"
#include "runtime/core/client/client.h"
#include "runtime/core/core.h"

#define LIMIT_MAX     10000
#define BORROWERS_MAX 8 /* that are named */

static void put(crti_buffer_t *json, const char *text)
{
    (void)crti_buffer_append(json, text, strlen(text));
}

/* ,"key":"text" */
static void put_text(crti_buffer_t *json, const char *key, const char *text)
{
    put(json, ",\"");
    put(json, key);
    put(json, "\":\"");
    (void)crti_json_escape(crti_str(text), json);
    put(json, "\"");
}

static void put_id(crti_buffer_t *json, const char *key, crti_id_t id)
{
    char hex[CRTI_ID_HEX];

    put_text(json, key, crti_id_is_zero(id) ? "" : crti_id_hex(id, hex));
}

static void put_object(crti_buffer_t *json, crti_object_id_t id)
{
    char hex[CRTI_ID_HEX], text[CRTI_ID_HEX + 20];

    snprintf(text, sizeof(text), "%s%016" PRIx64, crti_id_hex(id.owner, hex), id.number);
    put_text(json, "object_id", text);
}

/* ---------------------------------------------------------------- waits */

static const char *state_name(crti_call_state_t state)
{
    switch (state) {
    case CRTI_CALL_ARGUMENTS: return "PENDING_ARGS_AVAIL";
    case CRTI_CALL_QUEUED: return "PENDING_NODE_ASSIGNMENT";
    case CRTI_CALL_SENT: return "SUBMITTED_TO_WORKER";
    case CRTI_CALL_INLINE: return "RUNNING";
    }
    return "";
}

/* The call that makes what is waited for: whose, and who has it. */
static void put_call(crti_buffer_t *json, const crti_pending_t *p)
{
    put_text(json, "call", crti_call_name(p));
    put_text(json, "call_state", state_name(p->state));
    if (p->actor)
        put_id(json, "actor_id", p->actor->id);
    if (p->state == CRTI_CALL_SENT && p->remote) {
        put_id(json, "worker_id", p->remote->address.process);
        put_id(json, "node_id", p->remote->address.node);
    }
}

static void put_wait(crti_buffer_t *json, const crti_shown_wait_t *w, uint64_t now_ns)
{
    const crt_ref_t *ref = w->ref;
    const crti_pending_t *p;
    char head[96];

    snprintf(head, sizeof(head), "{\"tid\":%d,\"for_ms\":", (int)w->tid);
    put(json, head);
    if (w->since_ns)
        snprintf(head, sizeof(head), "%.3f", (double)(now_ns - w->since_ns) / CRTI_MS);
    put(json, w->since_ns ? head : "null");
    put_text(json, "what", w->what);
    while (ref && ref->more->forward && ref->content == CRTI_CONTENT_NONE)
        ref = ref->more->forward;
    if (ref && !ref->is_free) {
        p = crti_ref_pending(ref);
        put_object(json, crti_ref_id(ref));
        if (p && ref->is_owned)
            put_call(json, p);
        else if (!ref->is_owned && ref->owner)
            put_id(json, "owner_id", ref->owner->address.process);
    }
    put(json, "}");
}

static void put_waits(crti_core_t *core, crti_buffer_t *json)
{
    uint64_t now = crti_now_ns();
    bool is_first = true;

    put(json, "\"waits\":[");
    CRTI_LIST_FOREACH (item, &core->blocked.waiters) {
        if (!is_first)
            put(json, ",");
        is_first = false;
        put_wait(json, CRTI_CONTAINER(item, crti_shown_wait_t, link), now);
    }
    put(json, "]");
}

/* ---------------------------------------------------------------- refs */

static bool is_stored(const crt_ref_t *ref, const void *nothing)
{
    return ref->content == CRTI_CONTENT_STORED && !ref->is_free;
}

/* The largest first. */
static int by_size(const void *a, const void *b)
{
    size_t x = (*(crt_ref_t *const *)a)->size, y = (*(crt_ref_t *const *)b)->size;

    return (x < y) - (x > y);
}

/* Who borrows it, and for what it is kept. */
static void put_holders(crti_buffer_t *json, const crti_owned_t *owned)
{
    char text[96], hex[CRTI_ID_HEX];

    snprintf(text, sizeof(text),
             ",\"local\":%" PRIu32 ",\"calls\":%" PRIu32 ",\"borrowers\":[", owned->local,
             owned->pins);
    put(json, text);
    for (uint32_t i = 0; i < owned->borrower_count && i < BORROWERS_MAX; i++) {
        put(json, i ? ",\"" : "\"");
        put(json, crti_id_hex(owned->borrowers[i].process, hex));
        put(json, "\"");
    }
    snprintf(text, sizeof(text), "],\"borrower_count\":%" PRIu32, owned->borrower_count);
    put(json, text);
}

static void put_ref(crti_buffer_t *json, const crt_ref_t *ref)
{
    char text[96];

    snprintf(text, sizeof(text), "{\"size\":%zu,\"handles\":%" PRIu32 ",\"is_owned\":%s",
             ref->size, ref->handles, ref->is_owned ? "true" : "false");
    put(json, text);
    put_object(json, ref->more->object);
    put_text(json, "site", ref->more->site ? ref->more->site : "");
    if (ref->is_owned)
        put_holders(json, &ref->owned);
    put(json, "}");
}

/* Of ours, or of those that we borrow; how many are left of `limit`. */
static size_t put_some(crti_core_t *core, bool borrowed, size_t limit, bool *is_first,
                       crti_buffer_t *json)
{
    size_t count;
    crt_ref_t **refs = crti_refs_gather(core, borrowed, is_stored, NULL, &count);

    if (count)
        qsort(refs, count, sizeof(*refs), by_size);
    for (size_t i = 0; i < count; i++) {
        if (limit) {
            put(json, *is_first ? "" : ",");
            *is_first = false;
            put_ref(json, refs[i]);
            limit--;
        }
        crti_ref_release(refs[i]);
    }
    free(refs);
    return limit;
}

static void put_refs(crti_core_t *core, size_t limit, crti_buffer_t *json)
{
    bool is_first = true;

    put(json, "\"refs\":[");
    limit = put_some(core, false, limit, &is_first, json);
    put_some(core, true, limit, &is_first, json);
    put(json, "]");
}

/* ---------------------------------------------------------------- the answer */

void crti_tell_state(crti_core_t *core, const crti_msg_state_query_t *query)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t json = {0};
    unsigned long long round = 0, limit = 0;
    crti_msg_state_answer_t answer;
    char filter[64], head[48];

    if (sscanf(crti_text(query->filter, filter, sizeof(filter)), "%llu %llu", &round,
               &limit) != 2)
        return;
    snprintf(head, sizeof(head), "{\"round\":%llu,", round);
    put(&json, head);
    if (crti_str_equal(query->what, "waits"))
        put_waits(core, &json);
    else
        put_refs(core, limit < LIMIT_MAX ? (size_t)limit : LIMIT_MAX, &json);
    put(&json, "}");
    answer = (crti_msg_state_answer_t){.json = crti_span(json.data, json.size)};
    crti_node_notice(core, CRTI_MSG_STATE_ANSWER, &answer);
}
