/* SPDX-License-Identifier: Apache-2.0 */
/* Results that wait for each other. See result_wait.h. */
#include "runtime/core/execution/result_wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/backlog.h"
#include "runtime/core/execution/execution_int.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/forward.h"

#define FIRST_NS (100 * CRTI_MS) /* doubled for each level */
#define LOOK_MAX 65536           /* refs that one probe looks at */
#define SEEN_MAX 1024            /* probes that are remembered; a power of two */

/* ------------------------------------------------------------------ within this process */

/* What was come across: each once, in the order in which it is looked behind. */
typedef struct search {
    crti_buffer_t refs; /* crt_ref_t * */
    size_t max;
    crt_status_t status;
} search_t;

static crt_ref_t *found(const search_t *s, size_t index)
{
    return ((crt_ref_t **)(void *)s->refs.data)[index];
}

static size_t found_count(const search_t *s)
{
    return s->refs.size / sizeof(crt_ref_t *);
}

/* A missing object (missing.c) has had its value. */
static bool is_pending(const crt_ref_t *ref)
{
    return ref->content == CRTI_CONTENT_NONE &&
           (!ref->is_owned || ref->owned.state == CRTI_OWNED_PENDING);
}

static void come_across(search_t *s, crt_ref_t *ref)
{
    if (!ref || ref->is_searched || !is_pending(ref) || s->status ||
        found_count(s) == s->max)
        return;
    s->status = crti_buffer_append(&s->refs, &ref, sizeof(ref));
    ref->is_searched = s->status == CRT_OK;
}

/* The call before it in the order of its actor, which is sent first. */
static crt_ref_t *sent_before(const crti_pending_t *p)
{
    bool is_queued = p->attempt.state == CRTI_ATTEMPT_ARGUMENTS ||
                     p->attempt.state == CRTI_ATTEMPT_QUEUED;

    if (!p->spec.actor || !is_queued || crti_list_is_empty(&p->link) ||
        p->link.prev == &p->spec.actor->queue)
        return NULL;
    return CRTI_CONTAINER(p->link.prev, crti_pending_t, link)->result;
}

static void look_behind(search_t *s, const crt_ref_t *ref)
{
    const crti_pending_t *p = crti_ref_pending(ref);

    come_across(s, ref->more->forward);
    if (!p)
        return;
    for (unsigned i = 0; i < p->slot_count; i++)
        come_across(s, p->slots[i].ref);
    come_across(s, sent_before(p));
}

static void look_at_all(search_t *s)
{
    for (size_t i = 0; i < found_count(s); i++)
        look_behind(s, found(s, i));
}

static void end_search(search_t *s)
{
    for (size_t i = 0; i < found_count(s); i++)
        found(s, i)->is_searched = false;
    crti_buffer_fini(&s->refs);
}

crt_status_t crti_check_result_wait(const crt_ref_t *ref, crt_ref_t *target)
{
    search_t s = {.max = SIZE_MAX};
    crt_status_t status;

    come_across(&s, target);
    look_at_all(&s);
    status = s.status;
    if (status == CRT_OK && ref->is_searched) {
        const crti_pending_t *p = crti_ref_pending(target);

        status = crt_raise(CRT_ERR_DEADLOCK,
                           "a result that waits for itself: it is that of %s",
                           p ? p->spec.function->display : "a call that waits for it");
    }
    end_search(&s);
    return status;
}

/* ------------------------------------------------------------------ to other processes */

/* Where it goes on from a ref: to the owner of one of another process, to who runs the call that
 * makes one of ours. NULL: nowhere. */
static crti_remote_t *next_of(const crt_ref_t *ref, crti_probe_step_t *step)
{
    const crti_pending_t *p = crti_ref_pending(ref);
    crti_remote_t *to = NULL;

    *step = (crti_probe_step_t){.name = crti_str("")};
    if (!ref->is_owned) {
        to = ref->owner;
        step->is_object = true;
        step->number = ref->number;
    } else if (p && p->attempt.state == CRTI_ATTEMPT_SENT) {
        to = p->remote;
        step->number = p->number;
    }
    if (to)
        step->process = to->address.process;
    return to;
}

static bool is_same(const crti_probe_step_t *a, const crti_probe_step_t *b)
{
    return crti_id_equal(a->process, b->process) && a->is_object == b->is_object &&
           a->number == b->number;
}

/* Within the window, so that nobody can make us keep more of them for who does not take any. Calls
 * that wait for each other may fill the window; then one goes outside of it when all before it has
 * arrived. */
static void transmit(crti_core_t *core, crti_remote_t *to, const crti_probe_t *probe)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t record = {0};
    struct iovec part;

    if (crti_put_probe(&record, probe) != CRT_OK ||
        crti_remote_connect(core, to) != CRT_OK)
        return; /* there will be another one */
    part = (struct iovec){record.data, record.size};
    if (crti_net_send(core->net, to->peer, &part, 1, CRTI_SEND_TRY, CRTI_NET_NO_DEADLINE,
                      NULL) == CRT_ERR_BACKPRESSURE &&
        crti_peer_unacknowledged(to->peer) == 0)
        crti_remote_send(core, to, &record);
}

/* To all that what was come across waits for. */
static void send_on(crti_core_t *core, const search_t *s, crti_probe_t *probe)
{
    if (probe->count == CRTI_CHAIN_MAX)
        return; /* longer cycles are not found */
    probe->at = probe->count++;
    for (size_t i = 0; i < found_count(s); i++) {
        crti_remote_t *to = next_of(found(s, i), &probe->step[probe->at]);

        if (to)
            transmit(core, to, probe);
    }
}

/* Who is asked next on a way that is known; NULL: what was come across does not wait for that. */
static crti_remote_t *on_way(const search_t *s, const crti_probe_step_t *next)
{
    crti_probe_step_t step;

    for (size_t i = 0; i < found_count(s); i++) {
        crti_remote_t *to = next_of(found(s, i), &step);

        if (to && is_same(&step, next))
            return to;
    }
    return NULL;
}

/* ------------------------------------------------------------------ those of ours */

/* A ref of ours whose value is another one's; in core->execution->result_waits until the tick that
 * finds it has content. */
typedef struct wait {
    crti_list_t link; /* of its level: in the order of `at_ns` */
    uint64_t number, at_ns;
    uint64_t nonce; /* of its last probe */
    unsigned level;
    const char *name;
} wait_t;

static void schedule(crti_core_t *core, wait_t *wait, uint64_t now_ns)
{
    wait->at_ns = now_ns + (FIRST_NS << wait->level);
    crti_list_append(&core->execution->result_waits.due[wait->level], &wait->link);
}

void crti_result_waits_for(crt_ref_t *ref, const crti_function_t *function)
{
    crti_core_t *core = ref->core;
    wait_t *wait = is_pending(ref) ? calloc(1, sizeof(*wait)) : NULL;

    if (!wait)
        return;
    wait->number = ref->number;
    wait->name = function->display;
    if (crti_numbers_add(&core->execution->result_waits.of, wait->number, wait) !=
        CRT_OK) {
        free(wait);
        return;
    }
    schedule(core, wait, crti_now_ns());
    crti_core_wake_at(core, wait->at_ns);
}

static void forget(crti_result_waits_t *waits, wait_t *wait)
{
    crti_numbers_remove(&waits->of, wait->number);
    crti_list_remove(&wait->link);
    free(wait);
}

static void begin_probe(crti_core_t *core, wait_t *wait, crt_ref_t *ref)
{
    search_t s = {.max = LOOK_MAX};
    crti_probe_t probe = {.count = 1};

    wait->nonce = probe.nonce = crti_id_random().low;
    probe.step[0] =
        (crti_probe_step_t){core->process, true, wait->number, crti_str(wait->name)};
    come_across(&s, ref);
    look_at_all(&s);
    send_on(core, &s, &probe);
    end_search(&s);
}

static void probe_again(crti_core_t *core, wait_t *wait, uint64_t now_ns)
{
    crt_ref_t *ref = crti_ref_owned(core, wait->number);

    if (!ref || !is_pending(ref)) {
        forget(&core->execution->result_waits, wait);
        return;
    }
    crti_list_remove(&wait->link);
    wait->level += wait->level < CRTI_RESULT_WAIT_LEVELS - 1;
    schedule(core, wait, now_ns);
    begin_probe(core, wait, ref);
}

void crti_result_waits_tick(crti_core_t *core, uint64_t now_ns)
{
    for (unsigned i = 0; i < CRTI_RESULT_WAIT_LEVELS; i++) {
        crti_list_t *due = &core->execution->result_waits.due[i];

        while (!crti_list_is_empty(due)) {
            wait_t *wait = CRTI_CONTAINER(due->next, wait_t, link);

            if (wait->at_ns > now_ns) {
                crti_core_wake_at(core, wait->at_ns);
                break;
            }
            probe_again(core, wait, now_ns);
        }
    }
}

void crti_result_waits_init(crti_result_waits_t *waits)
{
    *waits = (crti_result_waits_t){.seen = NULL};
    for (unsigned i = 0; i < CRTI_RESULT_WAIT_LEVELS; i++)
        crti_list_init(&waits->due[i]);
}

void crti_result_waits_fini(crti_result_waits_t *waits)
{
    for (unsigned i = 0; i < CRTI_RESULT_WAIT_LEVELS; i++)
        while (!crti_list_is_empty(&waits->due[i]))
            forget(waits, CRTI_CONTAINER(waits->due[i].next, wait_t, link));
    crti_numbers_fini(&waits->of);
    free(waits->seen);
}

/* ------------------------------------------------------------------ those that arrive */

static void come_across_args(search_t *s, const crt_call_t *call)
{
    for (unsigned i = 0; i < call->arg_count; i++)
        come_across(s, call->args[i].ref);
}

static crt_call_t *call_of(const crti_client_t *client, uint64_t number)
{
    CRTI_LIST_FOREACH (item, &client->calls) {
        crt_call_t *call = CRTI_CONTAINER(item, crt_call_t, of_client);

        if (call->number == number)
            return call;
    }
    return NULL;
}

/* What it waits for is not here: its arguments, or those of a call that goes first. One that runs
 * waits in a get, if it waits. */
static void look_at_call(search_t *s, const crti_client_t *client,
                         crti_probe_step_t *step)
{
    const crt_call_t *call = call_of(client, step->number);

    if (!call || call->is_started || !call->function)
        return;
    step->name = crti_str(call->function->display);
    come_across_args(s, call);
    if (!call->is_blocked)
        return;
    CRTI_LIST_FOREACH (item, &client->blocked) {
        if (item == &call->link)
            return;
        come_across_args(s, CRTI_CONTAINER(item, crt_call_t, link));
    }
}

static void look_at_object(search_t *s, const crti_core_t *core, crti_probe_step_t *step)
{
    crt_ref_t *ref = crti_ref_owned(core, step->number);
    const wait_t *wait =
        crti_numbers_get(&core->execution->result_waits.of, step->number);

    if (!ref)
        return;
    if (crti_ref_pending(ref))
        step->name = crti_str(crti_ref_pending(ref)->spec.function->display);
    else
        step->name = crti_str(wait ? wait->name : "an object");
    come_across(s, ref);
}

/* From one step of its way, and on from there. */
static void look_from(search_t *s, const crti_client_t *client, crti_probe_step_t *step)
{
    if (step->is_object)
        look_at_object(s, client->core, step);
    else
        look_at_call(s, client, step);
    look_at_all(s);
}

static uint64_t mix(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return sum ^ sum >> 32;
}

/* It has been at this step before, by another way: what is behind it was told then. */
static bool was_here(crti_client_t *client, const crti_probe_t *probe)
{
    crti_result_waits_t *waits = &client->core->execution->result_waits;
    const crti_probe_step_t *first = &probe->step[0], *step = &probe->step[probe->at];
    uint64_t sum = mix(mix(mix(probe->nonce, first->process.high), first->process.low),
                       first->number);
    uint64_t *place;

    if (!step->is_object)
        sum = mix(sum, crti_peer_process(client->peer).low);
    sum = mix(mix(sum, step->number), step->is_object);
    if (!waits->seen)
        waits->seen = calloc(SEEN_MAX, sizeof(*waits->seen));
    if (!waits->seen)
        return true; /* without memory it is not found */
    place = &waits->seen[sum % SEEN_MAX];
    if (*place == sum)
        return true;
    *place = sum;
    return false;
}

static bool is_ours(const crti_core_t *core, const crti_probe_t *probe)
{
    return crti_id_equal(probe->step[0].process, core->process);
}

/* Our ref that a probe of ours is about; NULL: it was not the last one. */
static crt_ref_t *origin_of(const crti_core_t *core, const crti_probe_t *probe)
{
    uint64_t number = probe->step[0].number;
    const wait_t *wait = crti_numbers_get(&core->execution->result_waits.of, number);

    return wait && wait->nonce == probe->nonce ? crti_ref_owned(core, number) : NULL;
}

/* Where its way begins; NULL: it does not any more. */
static crti_remote_t *way_from(crt_ref_t *ref, const crti_probe_t *probe)
{
    search_t s = {.max = LOOK_MAX};
    crti_remote_t *to;

    come_across(&s, ref);
    look_at_all(&s);
    to = on_way(&s, &probe->step[1]);
    end_search(&s);
    return to;
}

/* "Ping.give (process 1a2b3c4d) -> Pong.give (process 5e6f7a8b) -> Ping.give (process
 * 1a2b3c4d)". */
static void describe(const crti_probe_t *probe, char *text, size_t size)
{
    const crti_probe_step_t *last = &probe->step[probe->count - 1];
    bool is_closed = is_same(last, &probe->step[0]);
    unsigned count = probe->count + !is_closed;
    char hex[CRTI_ID_HEX];
    size_t used = 0;

    for (unsigned i = 0; i < count && used < size; i++) {
        const crti_probe_step_t *step = &probe->step[i % probe->count];

        used += (size_t)snprintf(text + used, size - used, "%s%.*s (process %.8s)",
                                 i ? " -> " : "", (int)step->name.size,
                                 (const char *)step->name.data,
                                 crti_id_hex(step->process, hex));
    }
}

static void fail(crt_ref_t *ref, const crti_probe_t *probe)
{
    char text[900];

    describe(probe, text, sizeof(text));
    if (ref->more->forward)
        crti_list_remove(&ref->more->forward_waiting.link);
    crti_ref_fail(ref, crt_raise(CRT_ERR_DEADLOCK,
                                 "a result that waits for itself: %s: each is the "
                                 "result of the next, or waits for it",
                                 text));
}

/* It has come back to `ref`: goes along its way once more, or has done so. */
static void came_back(crti_core_t *core, crt_ref_t *ref, crti_probe_t *probe)
{
    crti_remote_t *to = way_from(ref, probe);

    if (to && probe->is_confirming) {
        fail(ref, probe);
    } else if (to) {
        probe->is_confirming = true;
        probe->at = 1;
        transmit(core, to, probe);
    }
}

static void go_on(crti_core_t *core, const search_t *s, crti_probe_t *probe)
{
    crti_remote_t *to;

    if (!probe->is_confirming) {
        send_on(core, s, probe);
        return;
    }
    to = on_way(s, &probe->step[++probe->at]);
    if (to)
        transmit(core, to, probe);
}

crt_status_t crti_probe_arrived(crti_client_t *client, const void *data, size_t size)
{
    crti_core_t *core = client->core;
    search_t s = {.max = LOOK_MAX};
    crti_probe_t probe;
    crt_status_t status = crti_get_probe(data, size, &probe);
    crt_ref_t *origin = NULL;
    bool is_last, is_back;

    if (status != CRT_OK || !crti_id_equal(probe.step[probe.at].process, core->process) ||
        (!probe.is_confirming && was_here(client, &probe)))
        return status;
    if (is_ours(core, &probe)) {
        origin = origin_of(core, &probe);
        if (!origin)
            return CRT_OK;
    }
    look_from(&s, client, &probe.step[probe.at]);
    is_last = probe.at == probe.count - 1;
    is_back = is_last && origin && origin->is_searched;
    if (!is_back && !(is_last && probe.is_confirming))
        go_on(core, &s, &probe);
    end_search(&s);
    if (is_back)
        came_back(core, origin, &probe);
    return CRT_OK;
}
