/* SPDX-License-Identifier: Apache-2.0 */
#include "load.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "account.h"
#include "ledger.h"

/* The ledger counts on tasks that run at most once. */
#define ONCE         CRT_TASK_OPTIONS(.max_attempts = 1)
#define WAIT_MS      20
#define SMALL        (12 << 10) /* elements: above what travels in a reply */
#define LARGE        (256 << 10)
#define SECOND       UINT64_C(1000000000)
#define LAG_NS       (SECOND / 10)
#define CANCELLED    "was cancelled"
#define WORD_OF_NODE 1000 /* ms until crt_actor_ready has to say something */

atomic_bool load_is_over, load_is_lost;
atomic_int load_findings;

/* ---------------------------------------------------------------- what is seen */

void load_beat(load_t *load, const char *doing)
{
    atomic_store(&load->beat_ns, ledger_now_ns());
    atomic_store(&load->doing, doing);
}

uint64_t load_random(load_t *load, uint64_t below)
{
    uint64_t x = load->random += 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) % below;
}

void load_finding(const char *format, ...)
{
    char text[2000];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    printf("FINDING %s\n", text);
    fflush(stdout);
    atomic_fetch_add(&load_findings, 1);
}

/* What faults may do to a call. Anything else is a bug. */
static bool is_fault(crt_status_t status, const char *text)
{
    switch (status) {
    case CRT_ERR_IO: /* redis-server ended twice under it, or was stopped */
        return strstr(text, "the control store can't") != NULL;
    case CRT_ERR_ACTOR_DIED:
    case CRT_ERR_WORKER_DIED:
    case CRT_ERR_OWNER_DIED:
    case CRT_ERR_OBJECT_LOST:
    case CRT_ERR_UNREACHABLE:
    case CRT_ERR_NODE_LOST:
    case CRT_ERR_INTERRUPTED: /* it was stopped, and went on */
    case CRT_ERR_HEAD_LOST: return true;
    case CRT_ERR_STORE_FULL: /* its disk was full, too (hoard.c) */
        return getenv("CHAOS_HOARD_MIB") && strstr(text, "spilling to disk fails");
    case CRT_ERR_CANCELLED:
        return strstr(text, CANCELLED) != NULL; /* by us, or its argument */
    default: return false;
    }
}

void load_count(load_t *load, const char *op, crt_status_t status, const char *text)
{
    load->ended++;
    if (status == CRT_OK ||
        (status == CRT_ERR_CANCELLED && is_fault(status, text))) /* as this load asked */
        return;
    if (-status > 0 && -status < LOAD_STATUS)
        load->failed[-status]++;
    if (status == CRT_ERR_TIMED_OUT)
        load_finding("hang: %s did not end: %s", op, text);
    else if (status == CRT_ERR_CANCELLED &&
             !is_fault(status, text)) { /* the job was ended: all else is lost, too */
        printf("lost: %s: %s\n", op, text);
        atomic_store(&load_is_lost, true);
    } else if (!is_fault(status, text))
        load_finding("%s: %s: %s", op, crt_status_name(status), text);
    else if (getenv("CHAOS_VERBOSE"))
        printf("error %s: %s: %s\n", op, crt_status_name(status), text);
}

/* ---------------------------------------------------------------- actors */

static void new_actor(load_t *load, load_actor_t *actor)
{
    actor->id = load_random(load, UINT64_MAX >> 1) | 1;
    actor->restarts = load_random(load, 3) == 0;
    actor->handle =
        crt_actor_new(&account_class,
                      CRT_ACTOR_OPTIONS(.resources = "spot=1",
                                        .max_restarts = actor->restarts ? -1 : 0),
                      (int64_t)actor->id);
}

static void end_actor(load_t *load, load_actor_t *actor)
{
    crt_status_t status;

    load_beat(load, "crt_actor_kill");
    status = crt_actor_kill(actor->handle, NULL);
    if (status != CRT_OK && status != CRT_ERR_NOT_FOUND)
        load_count(load, "crt_actor_kill", status, crt_error_detail());
    crt_actor_drop(&actor->handle);
}

/* One whose death a call told, or that the control store did not take: such a handle is no use. */
static void replace_dead(load_t *load, int index)
{
    load_actor_t *actor = &load->actors[index];
    crt_status_t status;

    load_beat(load, "crt_actor_ready");
    status = crt_actor_ready(actor->handle, WORD_OF_NODE);
    if (status == CRT_OK || status == CRT_ERR_TIMED_OUT || status == CRT_ERR_INTERRUPTED)
        return;
    crt_actor_drop(&actor->handle);
    new_actor(load, actor);
}

/* ---------------------------------------------------------------- a call begins */

static load_slot_t *take_slot(load_t *load, const char *op, int actor)
{
    load_slot_t *slot = load->slots;

    while (slot->ref)
        slot++;
    *slot = (load_slot_t){.op = op,
                          .number = ++load->numbers,
                          .target = actor < 0 ? 0 : load->actors[actor].id,
                          .began_ns = ledger_now_ns(),
                          .actor = actor};
    return slot;
}

static void note_ask(const load_t *load, const load_slot_t *slot)
{
    ledger_write((ledger_record_t){.kind = LEDGER_ASK,
                                   .origin = load->origin,
                                   .number = slot->number,
                                   .target = slot->target,
                                   .value = slot->value});
}

static int64_t some_count(load_t *load)
{
    return load_random(load, 8) == 0
               ? LARGE
               : SMALL + (int64_t)load_random(load, 3 * (uint64_t)SMALL);
}

static void start_add(load_t *load, int actor)
{
    load_slot_t *slot = take_slot(load, "add", actor);

    slot->value = (int64_t)load_random(load, 1000000);
    note_ask(load, slot);
    slot->ref = crt_call(load->actors[actor].handle, &account_add, (int64_t)load->origin,
                         (int64_t)slot->number, slot->value);
}

static void start_pass(load_t *load, int actor)
{
    load_slot_t *slot = take_slot(load, "pass", actor);
    /* To a later one: two that wait for each other would be a deadlock. */
    const load_actor_t *to =
        &load->actors[actor + 1 +
                      (int)load_random(load, (uint64_t)(LOAD_ACTORS - 1 - actor))];

    slot->value = (int64_t)load_random(load, 1000000);
    note_ask(load, slot);
    slot->ref = crt_call(load->actors[actor].handle, &account_pass, (int64_t)load->origin,
                         (int64_t)slot->number, slot->value, (int64_t)to->id, to->handle);
}

static void start_triple(load_t *load)
{
    load_slot_t *slot = take_slot(load, "triple", -1);

    slot->value = (int64_t)load_random(load, 1000000);
    slot->expected = 3 * slot->value + 1;
    slot->is_known = true;
    note_ask(load, slot);
    slot->ref = crt_submit(&task_triple, ONCE, (int64_t)load->origin,
                           (int64_t)slot->number, slot->value);
}

static void start_nest(load_t *load)
{
    load_slot_t *slot = take_slot(load, "nest", -1);

    slot->value = slot->expected = 1 + (int64_t)load_random(load, 3);
    slot->is_known = true;
    note_ask(load, slot);
    slot->ref = crt_submit(&task_nest, ONCE, (int64_t)load->origin, (int64_t)slot->number,
                           slot->value);
}

/* Somebody totals what the ref holds; -1: a task. */
static void start_total(load_t *load, int actor, crt_ref_t *what, int64_t expected)
{
    load_slot_t *slot = take_slot(load, "total", actor);

    slot->expected = expected;
    slot->is_known = true;
    note_ask(load, slot);
    slot->ref = actor < 0 ? crt_submit(&task_total, ONCE, (int64_t)load->origin,
                                       (int64_t)slot->number, what)
                          : crt_call(load->actors[actor].handle, &account_total,
                                     (int64_t)load->origin, (int64_t)slot->number, what);
}

/* A tensor is made in one place and totalled in another. */
static void start_fill(load_t *load, int maker, int reader)
{
    load_slot_t *slot = take_slot(load, "fill", maker);
    int64_t sum;

    slot->value = some_count(load);
    slot->is_tensor = true;
    slot->is_read = load_random(load, 4) == 0;
    slot->expected = sum = account_sum_of(slot->number, slot->value);
    note_ask(load, slot);
    slot->ref = maker < 0
                    ? crt_submit(&task_fill, ONCE, (int64_t)load->origin,
                                 (int64_t)slot->number, slot->value)
                    : crt_call(load->actors[maker].handle, &account_fill,
                               (int64_t)load->origin, (int64_t)slot->number, slot->value);
    start_total(load, reader, slot->ref, sum);
}

static crt_ref_t *put_tensor(load_t *load, int64_t *sum_out)
{
    int64_t count = some_count(load);
    uint64_t number = load_random(load, 1u << 30);
    crt_object_t *object;
    crt_tensor_t view;
    crt_status_t status;

    load_beat(load, "crt_object_create");
    status = crt_object_create(CRT_DTYPE_INT64, 1, &count, &object, &view);
    if (status != CRT_OK) {
        load_count(load, "crt_object_create", status, crt_error_detail());
        return NULL;
    }
    account_fill_in(number, count, view.data);
    *sum_out = account_sum_of(number, count);
    return crt_object_seal(&object);
}

static void start_put(load_t *load, int reader)
{
    int64_t sum;
    crt_ref_t *ref = put_tensor(load, &sum);

    if (ref)
        start_total(load, reader, ref, sum);
    crt_ref_drop(&ref);
}

static void start_keep(load_t *load, int actor)
{
    int64_t sum;
    crt_ref_t *ref = put_tensor(load, &sum);
    load_slot_t *slot;

    if (!ref)
        return;
    slot = take_slot(load, "keep", actor);
    note_ask(load, slot);
    slot->ref = crt_call(load->actors[actor].handle, &account_keep, (int64_t)load->origin,
                         (int64_t)slot->number, ref);
    crt_ref_drop(&ref);
}

static void start_plain(load_t *load, int actor, const char *op,
                        const crt_method_t *method)
{
    load_slot_t *slot = take_slot(load, op, actor);

    note_ask(load, slot);
    slot->ref = crt_call(load->actors[actor].handle, method, (int64_t)load->origin,
                         (int64_t)slot->number);
}

/* It ends, whatever it is about. */
static void cancel_something(load_t *load)
{
    load_slot_t *slot = &load->slots[load_random(load, LOAD_SLOTS)];
    bool force = slot->actor < 0 && load_random(load, 3) == 0;
    crt_status_t status;

    if (!slot->ref)
        return;
    load_beat(load, "crt_cancel");
    status = crt_cancel(slot->ref, force ? CRT_CANCEL_OPTIONS(.force = true) : NULL);
    if (status != CRT_OK && status != CRT_ERR_NOT_FOUND)
        load_count(load, "crt_cancel", status, crt_error_detail());
}

static void start_something(load_t *load)
{
    int actor = (int)load_random(load, LOAD_ACTORS);
    int other = (int)load_random(load, LOAD_ACTORS + 1) - 1; /* -1: a task */

    load_beat(load, "starts a call");
    switch (load_random(load, 100)) {
    case 0:
        if (getenv(
                "CHAOS_LASTING")) /* an end waits for the head, and this thread with it */
            return;
        end_actor(load, &load->actors[actor]);
        new_actor(load, &load->actors[actor]);
        return;
    case 1: start_plain(load, actor, "litter", &account_litter); return;
    case 2 ... 4: start_keep(load, actor); return;
    case 5 ... 7: start_plain(load, actor, "recall", &account_recall); return;
    case 8 ... 13: start_put(load, other); return;
    case 14 ... 19: start_fill(load, actor, other); return;
    case 20 ... 24: start_fill(load, -1, other); return;
    case 25 ... 27: start_nest(load); return;
    case 28 ... 36: start_pass(load, (int)load_random(load, LOAD_ACTORS - 1)); return;
    case 37 ... 50: start_triple(load); return;
    case 51 ... 54: cancel_something(load); return;
    default: break;
    }
    start_add(load, actor);
}

/* ---------------------------------------------------------------- a call ends */

static void note_end(const load_t *load, const load_slot_t *slot, crt_status_t status,
                     int64_t result)
{
    const crt_error_t *error = crt_ref_error(slot->ref);

    ledger_write((ledger_record_t){
        .kind = LEDGER_END,
        .origin = load->origin,
        .number = slot->number,
        .target = slot->target,
        .value = slot->value,
        .result = slot->is_tensor ? 0 : result,
        .status = (int32_t)status,
        .may_have_run = status != CRT_OK && (error == NULL || error->may_have_run)});
}

static void finish(load_t *load, load_slot_t *slot)
{
    const crt_tensor_t *tensor = NULL;
    const crt_error_t *error = crt_ref_error(slot->ref);
    int64_t result = 0;
    crt_status_t status = error ? error->status : CRT_OK;

    load_beat(load, slot->op);
    if (slot->is_tensor && slot->is_read)
        status = account_get(slot->ref, CRT_OUT(&tensor));
    else if (strcmp(slot->op, "keep") == 0 || strcmp(slot->op, "litter") == 0)
        status = account_get(slot->ref, CRT_OUT(NULL));
    else if (!slot->is_tensor)
        status = account_get(slot->ref, CRT_OUT(&result));
    if (tensor && status == CRT_OK && !account_sum(tensor, &result))
        load_finding("wrong: the tensor of call %llu is not what was written",
                     (unsigned long long)slot->number);
    if (status == CRT_OK && (slot->is_known || tensor) && result != slot->expected)
        load_finding("wrong: %s %llu gave %lld and not %lld", slot->op,
                     (unsigned long long)slot->number, (long long)result,
                     (long long)slot->expected);
    /* A value that was there and is lost since does not undo the call that made it. */
    if (!slot->is_tensor || error || status == CRT_OK)
        note_end(load, slot, status, result);
    error = crt_ref_error(slot->ref);
    load_count(load, slot->op, status, error ? error->text : crt_error_detail());
    crt_ref_drop(&slot->ref);
    if ((status == CRT_ERR_ACTOR_DIED || status == CRT_ERR_IO) && slot->actor >= 0 &&
        load->actors[slot->actor].id == slot->target)
        replace_dead(load, slot->actor);
}

/* chaos.py looks at the cluster when a call is slow, while it can still be seen why. */
static void look_at_age(load_slot_t *slot)
{
    uint64_t age = ledger_now_ns() - slot->began_ns;

    if (age > CHAOS_PATIENCE_MS * UINT64_C(1000000)) {
        load_finding("hang: %s %llu has not ended after %llu s", slot->op,
                     (unsigned long long)slot->number,
                     (unsigned long long)(age / SECOND));
        abort();
    }
    if (age > CHAOS_PATIENCE_MS * UINT64_C(1000000) / 2 && !slot->is_slow) {
        slot->is_slow = true;
        printf("slow: %s %llu\n", slot->op, (unsigned long long)slot->number);
        fflush(stdout);
    }
}

static size_t wait_some(load_t *load, size_t *busy_out)
{
    crt_ref_t *refs[LOAD_SLOTS];
    load_slot_t *of[LOAD_SLOTS];
    size_t ready[LOAD_SLOTS], count = 0, found = 0;

    for (size_t i = 0; i < LOAD_SLOTS; i++)
        if (load->slots[i].ref) {
            of[count] = &load->slots[i];
            refs[count++] = load->slots[i].ref;
        }
    *busy_out = count;
    load_beat(load, "waits for calls");
    if (count == 0) {
        nanosleep(&(struct timespec){0, WAIT_MS * 1000000 / 4}, NULL);
        return 0;
    }
    crt_wait(refs, count, 1, WAIT_MS, ready, &found);
    for (size_t i = 0; i < found; i++)
        finish(load, of[ready[i]]);
    for (size_t i = 0; i < LOAD_SLOTS; i++)
        if (load->slots[i].ref)
            look_at_age(&load->slots[i]);
    return found;
}

void *load_main(void *user)
{
    load_t *load = user;
    uint64_t next = ledger_now_ns();
    size_t busy = 0;

    for (int i = 0; i < LOAD_ACTORS; i++)
        new_actor(load, &load->actors[i]);
    while (!atomic_load(&load_is_lost)) {
        uint64_t now = ledger_now_ns();

        if (atomic_load(&load_is_over)) {
            if (busy == 0)
                break;
        } else if (now >= next && busy + 2 < LOAD_SLOTS) {
            start_something(load);
            next += (uint64_t)((double)SECOND / load->rate);
            if (next + LAG_NS < now)
                next = now;
            if (now >= next) {
                busy += 2; /* at most; counted below */
                continue;
            }
        }
        wait_some(load, &busy);
    }
    for (int i = 0; i < LOAD_ACTORS; i++)
        if (atomic_load(&load_is_lost))
            crt_actor_drop(&load->actors[i].handle);
        else
            end_actor(load, &load->actors[i]);
    for (int i = 0; i < LOAD_SLOTS; i++)
        crt_ref_drop(&load->slots[i].ref);
    load_beat(load, "has ended");
    return NULL;
}
