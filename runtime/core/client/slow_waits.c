/* SPDX-License-Identifier: Apache-2.0 */
/* Slow waits. A thread of a driver that has waited for tell_waits says once, as a
 * warning on the standard error, for what: a call that is queued, and for what; one that runs,
 * since when, where and in which process; an actor that is not there, and why; an object that is
 * fetched.
 *
 * Where it sits
 *     process/blocking.c (somebody waits) -> dispatch.c (the timer) -> [ slow_waits.c ] ->
 *     STATE_QUERY "tasks" or "actors" to the head, "transfer" to the node, for what this process
 *     does not know itself
 * Cost
 *     A wait compares a number. While some wait, the timer looks at them LOOKS times in that time.
 * Failure
 *     Without an answer of the head nothing is said of that wait. A wait that has ended meanwhile
 *     is not told.
 */
#include "runtime/core/client/slow_waits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/base/number_text.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/call_options.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/client/slow_text.h"
#include "runtime/core/client/told.h"
#include "runtime/core/process/blocking.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/process/timer.h"

#define LOOKS 10
#define NAME  128
#define PAUSE                                                                            \
    (60 * CRTI_S) /* before what was told last is told of again; then twice that, */
#define PAUSE_MAX (3600 * CRTI_S) /* up to this */

typedef enum about { CALL, ACTOR, TRANSFER } about_t;

/* The head is asked about a call or an actor, the node about a transfer. */
typedef struct question {
    crti_core_t *core;
    uint64_t wait; /* its number */
    about_t about;
    size_t bytes; /* of what is transferred */
    char name[NAME];
} question_t;

void crti_slow_waits_begin(crti_core_t *core)
{
    core->blocked->look_ns = CRTI_LIMIT(tell_waits) / LOOKS;
}

void crti_slow_waits_end(crti_core_t *core)
{
    core->blocked->look_ns = core->blocked->look_at_ns = 0;
}

/* ------------------------------------------------------------------ what is said */

/* Of a call that was sent: a loop whose every step takes so long would fill the terminal. Of the
 * process, under the lock. */
static bool is_told_often(const char *name)
{
    static struct {
        char name[NAME];
        uint64_t until_ns, pause_ns;
    } last;
    uint64_t now = crti_now_ns();
    bool is_same = strcmp(last.name, name) == 0;

    if (is_same && now < last.until_ns)
        return true;
    snprintf(last.name, sizeof(last.name), "%s", name);
    last.pause_ns = !is_same                        ? PAUSE
                    : last.pause_ns < PAUSE_MAX / 2 ? 2 * last.pause_ns
                                                    : PAUSE_MAX;
    last.until_ns = now + last.pause_ns;
    return false;
}

static void say(const crti_core_t *core, const char *name, const char *text)
{
    char after[32];

    crti_format(after, sizeof(after), "%g",
                (double)core->blocked->look_ns * LOOKS / (double)CRTI_S);
    crti_log(CRTI_LOG_WARN, "core", "has waited %s s for %s%s%s", after, name,
             *text ? ": " : "", text);
}

static bool goes_on(const crti_core_t *core, uint64_t wait)
{
    CRTI_LIST_FOREACH (item, &core->blocked->waiters)
        if (CRTI_CONTAINER(item, crti_shown_wait_t, link)->number == wait)
            return true;
    return false;
}

static void on_answer(void *user, const crti_message_t *answer)
{
    question_t *q = user;
    CRTI_AUTO(free)
    char *json = answer && answer->kind == CRTI_MSG_STATE_ANSWER
                     ? crti_str_dup(answer->state_answer.json)
                     : NULL;

    char text[512];

    if ((json || q->about == TRANSFER) && goes_on(q->core, q->wait) &&
        !(q->about == CALL && is_told_often(q->name))) {
        if (q->about == CALL)
            crti_slow_text_call(json, crti_wall_ms(), text, sizeof(text));
        else if (q->about == ACTOR)
            crti_slow_text_actor(json, text, sizeof(text));
        else
            crti_slow_text_transfer(json, q->bytes, text, sizeof(text));
        say(q->core, q->name, text);
    }
    free(q);
}

static void ask_of(crti_core_t *core, uint64_t wait, const char *name, about_t about,
                   const char *filter, size_t bytes)
{
    static const char *const what[] = {
        [CALL] = "tasks", [ACTOR] = "actors", [TRANSFER] = "transfer"};
    crti_msg_state_query_t body = {.what = crti_str(what[about]),
                                   .filter = crti_str(filter)};
    question_t *q = calloc(1, sizeof(*q));

    if (q == NULL)
        return;
    q->core = core;
    q->wait = wait;
    q->about = about;
    q->bytes = bytes;
    snprintf(q->name, sizeof(q->name), "%s", name);
    if (crti_node_request(core, CRTI_MSG_STATE_QUERY, &body, on_answer, q) != CRT_OK)
        free(q);
}

static void ask(crti_core_t *core, uint64_t wait, const char *name, about_t about,
                const char *filter)
{
    ask_of(core, wait, name, about, filter, 0);
}

static void tell_pending(crti_core_t *core, uint64_t wait, const crti_pending_t *p)
{
    char id[CRTI_ID_HEX + 20], name[NAME];

    snprintf(name, sizeof(name), "%.100s%s", crti_call_name(p),
             p->lineage ? ", which is made again" : "");
    if (p->attempt.state == CRTI_ATTEMPT_SENT) {
        snprintf(id, sizeof(id), "%s%016" PRIx64, core->process_hex, p->number);
        ask(core, wait, name, CALL, id);
    } else if (p->attempt.state == CRTI_ATTEMPT_ARGUMENTS) {
        say(core, name, "its arguments are not there yet");
    } else if (p->spec.actor) {
        ask(core, wait, name, ACTOR, p->spec.actor->hex);
    } else {
        say(core, name,
            p->pool && p->pool->reason[0] ? p->pool->reason
                                          : "it is queued for a worker");
    }
}

static void tell_ref(crti_core_t *core, const crti_shown_wait_t *w, const crt_ref_t *ref)
{
    const crti_pending_t *p = crti_ref_pending(ref);
    char text[160], hex[CRTI_ID_HEX];

    if (ref->content != CRTI_CONTENT_NONE || ref->is_pulling) {
        snprintf(text, sizeof(text), "%s%016" PRIx64,
                 crti_id_hex(ref->more->object.owner, hex), ref->more->object.number);
        ask_of(core, w->number, w->what, TRANSFER, text, ref->size);
    } else if (ref->is_owned && p) {
        tell_pending(core, w->number, p);
    } else if (ref->is_owned) {
        say(core, w->what,
            crti_ref_has_call(ref) ? "its call is far back in the queue for workers"
                                   : "copies of it are looked for");
    } else {
        snprintf(text, sizeof(text), "process %.8s owns it, and has not got it yet",
                 ref->owner ? crti_id_hex(ref->owner->address.process, hex) : "?");
        say(core, w->what, text);
    }
}

/* Who looks for the same ref again and again, each time for long, is told once. */
static bool is_news(crti_core_t *core, const crt_ref_t *ref)
{
    const crti_object_id_t id = crti_ref_id(ref), last = core->blocked->told;

    core->blocked->told = id;
    return !crti_id_equal(id.owner, last.owner) || id.number != last.number;
}

static void tell(crti_core_t *core, const crti_shown_wait_t *w)
{
    size_t at = 0;
    const crt_ref_t *ref = crti_told_ref(w, &at);
    const crti_wait_detail_t *detail = w->detail;
    char text[512] = "";

    if (detail && detail->describe)
        detail->describe(w->user, text, sizeof(text));
    if (ref && !ref->is_free && is_news(core, ref))
        tell_ref(core, w, ref);
    else if (detail && detail->actor)
        ask(core, w->number, w->what, ACTOR, detail->actor->hex);
    else if (!ref && !w->is_open) /* an event loop may be idle for days */
        say(core, w->what, text);
}

/* ------------------------------------------------------------------ looks */

void crti_slow_waits_tick(crti_core_t *core, uint64_t now_ns)
{
    struct crti_blocked *b = core->blocked;
    bool is_any = false;

    if (b->look_at_ns == 0)
        return;
    if (now_ns < b->look_at_ns) {
        crti_core_wake_at(core, b->look_at_ns);
        return;
    }
    CRTI_LIST_FOREACH (item, &b->waiters) {
        crti_shown_wait_t *w = CRTI_CONTAINER(item, crti_shown_wait_t, link);

        is_any |= !w->is_of_call;
        if (!w->is_of_call && ++w->looks == LOOKS + 1) /* it began between two looks */
            tell(core, w);
    }
    b->look_at_ns = is_any ? now_ns + b->look_ns : 0;
    if (is_any)
        crti_core_wake_at(core, b->look_at_ns);
}
