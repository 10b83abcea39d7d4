/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of users: drivers that make tasks, actors and objects by the public interface and check
 * every answer, and the functions that they call. See system_truth.h.
 *
 * They run in the fibers of their processes: sys_sleep is time that a function takes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/system_truth.h"

#define PENDING 24
#define ONCE    CRT_TASK_OPTIONS(.max_attempts = 1)
#define HANDLES 5
#define ITEM    70000 /* bytes of every fourth item of a stream, or of a bag, about */
#define BAG_MAX 40    /* refs in a value */
#define ROOM_MS 20000 /* that a group which lost a node gets for its room */

static void take_time(void)
{
    sim_world_t *w = sys->world;

    if (sim_chance(w, 5000))
        return;
    sys_sleep(sim_chance(w, 9000) ? sim_below(w, 20 * CRTI_MS)
                                  : sim_below(w, 400 * CRTI_MS));
}

static void doing(const char *what, unsigned serial)
{
    snprintf(sys->self->doing, sizeof(sys->self->doing), "%s %u", what, serial);
}

/* ---------------------------------------------------------------- calls that are out */

typedef enum sort { NUMBER, BYTES } sort_t;

typedef struct pending {
    crt_ref_t *ref;
    unsigned serial;
    sort_t sort;
    int64_t expected; /* NUMBER: the value (-1: any); BYTES: the size */
    const char *what;
} pending_t;

typedef struct calls {
    pending_t list[PENDING];
    unsigned count;
} calls_t;

static void check_bytes(const pending_t *p, crt_bytes_t bytes)
{
    const unsigned char *at = bytes.data;

    if ((int64_t)bytes.size != p->expected ||
        (bytes.size && at[bytes.size - 1] != (unsigned char)p->expected))
        sim_fail(sys->world, "%s %u: %zu bytes, not %" PRId64, p->what, p->serial,
                 bytes.size, p->expected);
}

static void finish(pending_t *p)
{
    crt_status_t status;
    crt_bytes_t bytes;
    int64_t value = 0;

    doing(p->what, p->serial);
    if (p->sort == NUMBER)
        status = crt_get(p->ref, &value);
    else
        status = crt_get(p->ref, &bytes);
    if (status == CRT_OK && p->sort == BYTES)
        check_bytes(p, bytes);
    if (status == CRT_OK && p->sort == NUMBER && p->expected >= 0 && value != p->expected)
        sim_fail(sys->world, "%s %u: %" PRId64 ", not %" PRId64, p->what, p->serial,
                 value, p->expected);
    sim_note(sys->world, "pid %d: %s %u is %s", (int)sys->self->pid, p->what, p->serial,
             status == CRT_OK ? "done" : crt_error_detail());
    truth_call_ended(p->serial, p->what, status, crt_ref_error(p->ref));
    crt_ref_drop(&p->ref);
    doing("-", 0);
}

static void finish_first(calls_t *calls)
{
    pending_t first = calls->list[0];

    calls->count--;
    memmove(calls->list, calls->list + 1, calls->count * sizeof(first));
    finish(&first);
}

static void add_call(calls_t *calls, pending_t p)
{
    if (calls->count == PENDING)
        finish_first(calls);
    calls->list[calls->count++] = p;
}

/* ---------------------------------------------------------------- tasks */

static crt_status_t add_run(crt_call_t *call)
{
    int64_t serial, x;

    CRT_TRY(crt_args(call, &serial, &x));
    truth_call_runs((unsigned)serial);
    take_time();
    return crt_return(call, x + 1);
}

static crt_bytes_t make_bytes(int64_t size, unsigned char **buffer)
{
    *buffer = malloc((size_t)size + 1);
    if (!*buffer)
        abort();
    memset(*buffer, (unsigned char)size, (size_t)size);
    return (crt_bytes_t){*buffer, (size_t)size};
}

static crt_status_t make_run(crt_call_t *call)
{
    int64_t serial, size;
    unsigned char *buffer;
    crt_status_t status;

    CRT_TRY(crt_args(call, &serial, &size));
    truth_call_runs((unsigned)serial);
    take_time();
    status = crt_return(call, make_bytes(size, &buffer));
    free(buffer);
    return status;
}

static crt_status_t measure_run(crt_call_t *call)
{
    int64_t serial;
    crt_bytes_t bytes;

    CRT_TRY(crt_args(call, &serial, &bytes));
    truth_call_runs((unsigned)serial);
    take_time();
    if (bytes.size &&
        ((const unsigned char *)bytes.data)[bytes.size / 2] != (unsigned char)bytes.size)
        sim_fail(sys->world, "an argument of %zu bytes has changed", bytes.size);
    return crt_return(call, (int64_t)bytes.size);
}

static crt_status_t tree_run(crt_call_t *call);

static const crt_task_t add =
    CRT_TASK(.name = "add", .run = add_run, .signature = "int,int");
static const crt_task_t make =
    CRT_TASK(.name = "make", .run = make_run, .signature = "int,int");
static const crt_task_t measure = CRT_TASK(.name = "measure", .run = measure_run,
                                           .signature = "int,bytes", .max_calls = 2);
static const crt_task_t tree =
    CRT_TASK(.name = "tree", .run = tree_run, .signature = "int,int");

static crt_status_t tree_run(crt_call_t *call)
{
    int64_t serial, depth, sum = 0;
    unsigned serials[2];
    crt_ref_t *refs[2];
    crt_status_t status = CRT_OK;

    CRT_TRY(crt_args(call, &serial, &depth));
    truth_call_runs((unsigned)serial);
    if (depth == 0)
        return crt_return(call, (int64_t)1);
    for (int i = 0; i < 2; i++) {
        serials[i] = truth_call_new();
        refs[i] = crt_submit(&tree, ONCE, (int64_t)serials[i], depth - 1);
    }
    for (int i = 0; i < 2; i++) {
        int64_t part = 0;
        crt_status_t one;

        doing("inner tree", serials[i]);
        one = crt_get(refs[i], &part);
        truth_call_ended(serials[i], "inner tree", one, crt_ref_error(refs[i]));
        status = one == CRT_OK ? status : one;
        sum += part;
        crt_ref_drop(&refs[i]);
    }
    if (status != CRT_OK)
        return crt_fail(call, status, "a branch failed");
    return crt_return(call, sum);
}

static crt_status_t items_run(crt_call_t *call)
{
    int64_t serial, count;
    crt_status_t status = CRT_OK;

    CRT_TRY(crt_args(call, &serial, &count));
    truth_call_runs((unsigned)serial);
    for (int64_t i = 0; i < count && status == CRT_OK; i++) {
        unsigned char *buffer = NULL;

        if (sim_chance(sys->world, 1000))
            take_time();
        status =
            i % 4 == 3 ? crt_yield(call, make_bytes(ITEM, &buffer)) : crt_yield(call, i);
        free(buffer);
    }
    return status;
}
static const crt_task_t items =
    CRT_TASK(.name = "items", .run = items_run, .signature = "int,int");

/* ---------------------------------------------------------------- values with many refs */

/* Its refs are of the worker that runs it; every fourth is of an object of the store. */
static crt_status_t bag_run(crt_call_t *call)
{
    crt_arg_t refs[BAG_MAX];
    int64_t serial, count;
    crt_status_t status;

    CRT_TRY(crt_args(call, &serial, &count));
    truth_call_runs((unsigned)serial);
    for (int64_t i = 0; i < count; i++) {
        unsigned char *buffer = NULL;

        refs[i] = crt_arg_ref(i % 4 == 3 ? crt_put(make_bytes(ITEM + i, &buffer))
                                         : crt_put(ITEM + i));
        free(buffer);
    }
    status = crt_return(call, crt_list(refs, (size_t)count));
    for (int64_t i = 0; i < count; i++)
        crt_ref_drop(&refs[i].as.ref);
    return status;
}
static const crt_task_t bag =
    CRT_TASK(.name = "bag", .run = bag_run, .signature = "int,int");

/* Its result has the refs of somebody else. */
static crt_status_t pass_run(crt_call_t *call)
{
    int64_t serial;
    const crt_value_t *list;

    CRT_TRY(crt_args(call, &serial, &list));
    truth_call_runs((unsigned)serial);
    take_time();
    return crt_return(call, list);
}
static const crt_task_t pass =
    CRT_TASK(.name = "pass", .run = pass_run, .signature = "int,list");

/* ---------------------------------------------------------------- an actor */

struct counter {
    int64_t actor, count;
    bool is_restored;
    uint32_t seen[SYS_PROCESSES]; /* the last call of each caller that this process ran */
    crt_ref_t *kept;
    int64_t kept_size;
};

static crt_status_t counter_create(void *self, crt_call_t *call)
{
    struct counter *c = self;
    uint64_t incarnation = sys_actor_incarnation();
    truth_actor_t *a;

    CRT_TRY(crt_args(call, &c->actor));
    a = &truth->actor[c->actor];
    if (incarnation == 0 || incarnation > 63 || a->incarnations >> incarnation & 1)
        sim_fail(sys->world, "actor %" PRId64 " is made a second time as %" PRIu64,
                 c->actor, incarnation);
    if (sys_head_has_revoked(a->id))
        sim_fail(sys->world, "actor %" PRId64 " is made, and was told to have failed",
                 c->actor);
    a->incarnations |= 1ull << (incarnation & 63);
    take_time();
    return CRT_OK;
}

/* What was kept last, or, when whoever kept it could not be told of that, something later. A
 * process that comes so late that the next one serves already begins with what was kept before. */
static crt_status_t counter_restore(void *self, const void *state, size_t size)
{
    struct counter *c = self;
    truth_actor_t *a = &truth->actor[c->actor];
    int64_t count = 0;

    memcpy(&count, state, size < sizeof(count) ? size : sizeof(count));
    if (size != sizeof(count) || count > a->may_be_kept ||
        (count < a->saved && sys_actor_incarnation() >= a->newest))
        sim_fail(sys->world,
                 "actor %" PRId64 " begins with %" PRId64 ", kept were %" PRId64
                 " to %" PRId64,
                 c->actor, count, a->saved, a->may_be_kept);
    c->is_restored = true;
    c->count = count;
    return CRT_OK;
}

/* Counts are kept in their order. */
static void save(struct counter *c, crt_call_t *call)
{
    truth_actor_t *a = &truth->actor[c->actor];
    int64_t count = c->count;
    crt_status_t status;

    if (sys_actor_incarnation() < a->newest || count <= a->may_be_kept)
        return; /* another process serves the actor: it may or may not take this */
    a->may_be_kept = count;
    status = crt_actor_save(call, &count, sizeof(count));
    if (status == CRT_OK)
        a->saved = count > a->saved ? count : a->saved;
    else
        truth_failed("a save", status, crt_error_detail());
}

/* Once a fenced actor's next process took a call, no earlier one begins any. */
static void check_fence(const struct counter *c)
{
    truth_actor_t *a = &truth->actor[c->actor];
    uint64_t incarnation = sys_actor_incarnation();

    if (a->is_fenced && incarnation < a->newest)
        sim_fail(sys->world,
                 "fenced actor %" PRId64 ": pid %d, incarnation %" PRIu64
                 ", takes a call after %" PRIu64 " took one",
                 c->actor, (int)sys->self->pid, incarnation, a->newest);
    a->newest = incarnation > a->newest ? incarnation : a->newest;
}

static crt_status_t counter_add_run(void *self, crt_call_t *call)
{
    struct counter *c = self;
    int64_t serial, caller, sequence;
    uint32_t *seen;

    CRT_TRY(crt_arg_at(call, 0, &serial));
    CRT_TRY(crt_arg_at(call, 1, &caller));
    CRT_TRY(crt_arg_at(call, 2, &sequence));
    truth_call_runs((unsigned)serial);
    check_fence(c);
    if (truth->actor[c->actor].saved && !c->is_restored && sys_actor_incarnation() > 1 &&
        sys_actor_incarnation() == truth->actor[c->actor].newest &&
        c->count < truth->actor[c->actor].saved)
        sim_fail(sys->world, "actor %" PRId64 " has forgotten that it kept %" PRId64,
                 c->actor, truth->actor[c->actor].saved);
    /* A call that is made again runs before those that were made after it, once more. */
    seen = truth->actor[c->actor].max_task_retries ? &c->seen[caller]
                                                   : &truth->seen[c->actor][caller];
    if ((uint32_t)sequence <= *seen && !truth->actor[c->actor].is_unordered)
        sim_fail(sys->world,
                 "actor %" PRId64 ": call %" PRId64 " of pid %d runs after %u", c->actor,
                 sequence, (int)sys->process[caller].pid, *seen);
    *seen = (uint32_t)sequence;
    c->count++;
    if (sim_chance(sys->world, 2000))
        take_time();
    if (sim_chance(sys->world, 500))
        save(c, call);
    return crt_return(call, c->count);
}

static crt_status_t counter_keep_run(void *self, crt_call_t *call)
{
    struct counter *c = self;
    int64_t serial, size;
    crt_ref_t *ref;

    CRT_TRY(crt_args(call, &serial, &size, &ref));
    truth_call_runs((unsigned)serial);
    crt_ref_drop(&c->kept);
    c->kept = crt_ref_keep(ref);
    c->kept_size = size;
    return crt_return(call, (int64_t)0);
}

/* What was kept: its size, 0 without, -2 when it can't be had. */
static crt_status_t counter_fetch_run(void *self, crt_call_t *call)
{
    struct counter *c = self;
    crt_bytes_t bytes;
    int64_t serial;
    crt_status_t status;

    CRT_TRY(crt_args(call, &serial));
    truth_call_runs((unsigned)serial);
    if (!c->kept)
        return crt_return(call, (int64_t)0);
    doing("fetch", (unsigned)serial);
    status = crt_get(c->kept, &bytes);
    doing("-", 0);
    if (status != CRT_OK) {
        truth_failed("a kept ref", status, crt_error_detail());
        return crt_return(call, (int64_t)-2);
    }
    if ((int64_t)bytes.size != c->kept_size)
        sim_fail(sys->world, "a kept object of %" PRId64 " bytes has %zu", c->kept_size,
                 bytes.size);
    return crt_return(call, (int64_t)bytes.size);
}

static const crt_method_t counter_add =
    CRT_METHOD(.name = "add", .run = counter_add_run, .signature = "any...");
static const crt_method_t counter_keep =
    CRT_METHOD(.name = "keep", .run = counter_keep_run, .signature = "int,int,ref");
static const crt_method_t counter_fetch =
    CRT_METHOD(.name = "fetch", .run = counter_fetch_run, .signature = "int");
static const crt_actor_class_t counter =
    CRT_ACTOR_CLASS(.name = "Counter", .size = sizeof(struct counter),
                    .create = counter_create, .signature = "int",
                    .restore = counter_restore,
                    .methods = CRT_METHODS(&counter_add, &counter_keep, &counter_fetch));

/* ---------------------------------------------------------------- a borrowed handle */

static int64_t attempts_at(unsigned actor)
{
    int64_t retries = truth->actor[actor].max_task_retries;

    return retries == CRT_UNLIMITED ? retries : retries + 1;
}

/* Calls an actor by a handle that came as an argument. The actor may not be anywhere yet, or never
 * will be. */
static crt_status_t borrow_run(crt_call_t *call)
{
    int64_t serial, index, count = 0;
    crt_actor_t *actor;
    crt_status_t status;
    crt_ref_t *ref;
    unsigned inner;

    CRT_TRY(crt_args(call, &serial, &index, &actor));
    truth_call_runs((unsigned)serial);
    inner = truth_call_retried(attempts_at((unsigned)index));
    ref = crt_call(actor, &counter_add, (int64_t)inner, (int64_t)sys->self->index,
                   (int64_t)++truth->sent[index][sys->self->index]);
    doing("borrower's add", inner);
    status = crt_get(ref, &count);
    truth_call_ended(inner, "borrower's add", status, crt_ref_error(ref));
    doing("-", 0);
    crt_ref_drop(&ref);
    return status == CRT_OK ? crt_return(call, count) : status;
}

static const crt_task_t borrow =
    CRT_TASK(.name = "borrow", .run = borrow_run, .signature = "int,int,actor");

#define PROGRAM                                                                          \
    CRT_OPTIONS(.name_space = "all", .classes = CRT_CLASSES(&counter),                   \
                .tasks = CRT_TASKS(&add, &make, &measure, &tree, &items, &bag, &pass,    \
                                   &borrow),                                             \
                .address = "sim", .no_log_to_driver = true)

void sys_program_worker(sys_process_t *self)
{
    char *argv[] = {"program", NULL};

    if (crt_init(1, argv, PROGRAM) != CRT_OK) /* does not come back in a worker */
        sys_exit(1);
}

/* ---------------------------------------------------------------- a driver */

typedef struct handle {
    crt_actor_t *actor;
    unsigned index; /* in truth */
} handle_t;

typedef struct driver {
    calls_t calls;
    handle_t handle[HANDLES];
    unsigned handles;
    crt_ref_t *big; /* put by this driver */
    int64_t big_size;
} driver_t;

static int64_t pick_size(void)
{
    sim_world_t *w = sys->world;

    return (int64_t)(sim_chance(w, 6000) ? sim_below(w, 3000) : sim_below(w, 150000));
}

/* How often something may begin when its process died; most things only once. */
static int64_t pick_attempts(void)
{
    static const int64_t attempts[] = {2, 4, CRT_UNLIMITED};

    return sim_chance(sys->world, 7000) ? 1 : attempts[sim_below(sys->world, 3)];
}

/* What may begin more than once is run a second time when it is slow. */
static double pick_backup(unsigned serial, int64_t attempts)
{
    truth->call[serial].has_backup = attempts != 1;
    return attempts == 1 ? 0 : attempts == 4 ? 3 : 1;
}

/* A task whose argument may be the result of another one that is not there yet. */
static void submit_add(driver_t *d)
{
    int64_t attempts = pick_attempts();
    unsigned serial = truth_call_retried(attempts);
    pending_t p = {.serial = serial, .expected = 6, .what = "add"};

    for (unsigned i = 0; i < d->calls.count; i++) {
        const pending_t *other = &d->calls.list[i];

        if (other->sort == NUMBER && other->expected >= 0 &&
            sim_chance(sys->world, 4000)) {
            p.expected = other->expected + 1;
            p.ref = crt_submit(
                &add,
                CRT_TASK_OPTIONS(.max_attempts = attempts,
                                 .backup_after = pick_backup(serial, attempts)),
                (int64_t)serial, other->ref);
            add_call(&d->calls, p);
            return;
        }
    }
    p.ref = crt_submit(&add,
                       CRT_TASK_OPTIONS(.max_attempts = attempts,
                                        .backup_after = pick_backup(serial, attempts)),
                       (int64_t)serial, (int64_t)5);
    add_call(&d->calls, p);
}

/* Many at once are sent to one worker, one behind the other. */
static void submit_burst(driver_t *d)
{
    for (uint64_t n = sim_between(sys->world, 4, 16); n > 0; n--)
        submit_add(d);
}

static void submit_make(driver_t *d)
{
    int64_t attempts = pick_attempts();
    pending_t p = {.serial = truth_call_retried(attempts),
                   .sort = BYTES,
                   .expected = pick_size(),
                   .what = "make"};

    p.ref = crt_submit(&make,
                       CRT_TASK_OPTIONS(.max_attempts = attempts,
                                        .backup_after = pick_backup(p.serial, attempts),
                                        .copies = 1 + p.serial % 2),
                       (int64_t)p.serial, p.expected);
    add_call(&d->calls, p);
}

static void submit_measure(driver_t *d)
{
    pending_t p = {.what = "measure"};

    for (unsigned i = 0; i < d->calls.count; i++)
        if (d->calls.list[i].sort == BYTES) {
            p.serial = truth_call_new();
            p.expected = d->calls.list[i].expected;
            p.ref = crt_submit(&measure, ONCE, (int64_t)p.serial, d->calls.list[i].ref);
            add_call(&d->calls, p);
            return;
        }
    if (!d->big)
        return;
    p.serial = truth_call_new();
    p.expected = d->big_size;
    p.ref = crt_submit(&measure, ONCE, (int64_t)p.serial, d->big);
    add_call(&d->calls, p);
}

static void submit_tree(driver_t *d)
{
    int64_t depth = (int64_t)sim_below(sys->world, 4);
    pending_t p = {.serial = truth_call_new(), .expected = 1ll << depth, .what = "tree"};

    p.ref = crt_submit(&tree, ONCE, (int64_t)p.serial, depth);
    add_call(&d->calls, p);
}

static crt_status_t take_item(crt_stream_t *stream, unsigned serial, int64_t i)
{
    pending_t p = {.serial = serial, .expected = i % 4 == 3 ? ITEM : i, .what = "item"};
    crt_status_t status = crt_stream_next(stream, -1, &p.ref), got;
    crt_bytes_t bytes;
    int64_t value = 0;

    if (status != CRT_OK)
        return status;
    got = i % 4 == 3 ? crt_get(p.ref, &bytes) : crt_get(p.ref, &value);
    if (got != CRT_OK)
        truth_failed("an item", got, crt_error_detail());
    else if (i % 4 == 3)
        check_bytes(&p, bytes);
    else if (value != i)
        sim_fail(sys->world, "item %" PRId64 " of stream %u is %" PRId64, i, serial,
                 value);
    crt_ref_drop(&p.ref);
    return CRT_OK;
}

/* A stream, to its end or not: each item comes once, in order. */
static void use_stream(void)
{
    int64_t attempts = pick_attempts(), count = (int64_t)sim_below(sys->world, 40), i = 0;
    int64_t most = sim_chance(sys->world, 3000) ? count / 2 : INT64_MAX;
    unsigned serial = truth_call_retried(attempts);
    crt_stream_t *stream =
        crt_submit_stream(&items,
                          CRT_TASK_OPTIONS(.max_attempts = attempts,
                                           .generator_backpressure_num_objects =
                                               (int64_t)sim_between(sys->world, 1, 9)),
                          (int64_t)serial, count);
    crt_ref_t *completed = crt_stream_completed(stream);
    crt_status_t status = CRT_OK;

    doing("stream", serial);
    while (i < most && (status = take_item(stream, serial, i)) == CRT_OK)
        i++;
    if (status == CRT_END_OF_STREAM && i != count)
        sim_fail(sys->world, "stream %u of %" PRId64 " items has %" PRId64, serial, count,
                 i);
    truth->cancels += i == most;
    crt_stream_drop(&stream);
    status = crt_get(completed, NULL);
    truth_call_ended(serial, "stream", status, crt_ref_error(completed));
    crt_ref_drop(&completed);
    doing("-", 0);
}

/* Whatever has become of it: it ends. */
static void cancel_one(driver_t *d)
{
    const pending_t *p;
    bool force = sim_chance(sys->world, 3000);
    crt_status_t status;

    if (d->calls.count == 0)
        return;
    p = &d->calls.list[sim_below(sys->world, d->calls.count)];
    truth->cancels++;
    status = crt_cancel(p->ref, force ? CRT_CANCEL_OPTIONS(.force = true) : NULL);
    sim_note(sys->world, "pid %d cancels %s %u%s: %s", (int)sys->self->pid, p->what,
             p->serial, force ? " by force" : "", crt_status_text(status));
    if (status != CRT_OK && status != CRT_ERR_NOT_FOUND &&
        !(status == CRT_ERR_INVALID && force))
        truth_failed("cancel", status, crt_error_detail());
}

static void put_big(driver_t *d)
{
    unsigned char *buffer;
    crt_bytes_t bytes;

    crt_ref_drop(&d->big);
    d->big_size = pick_size();
    bytes = make_bytes(d->big_size, &buffer);
    d->big = crt_put_with(bytes, CRT_PUT_OPTIONS(.copies = 1 + d->big_size % 2));
    free(buffer);
    if (crt_ref_error(d->big))
        truth_failed("put", crt_ref_error(d->big)->status, crt_ref_error(d->big)->text);
}

/* The list that a call returned; NULL: it failed, which is told. */
static const crt_value_t *get_bag(crt_ref_t *ref, unsigned serial, const char *what)
{
    const crt_value_t *list = NULL;
    crt_status_t status;

    doing(what, serial);
    status = crt_get(ref, &list);
    truth_call_ended(serial, what, status, crt_ref_error(ref));
    doing("-", 0);
    return status == CRT_OK ? list : NULL;
}

static void check_item(crt_ref_t *ref, int64_t index)
{
    crt_bytes_t bytes;
    int64_t number = 0;
    crt_status_t status;

    doing("item", (unsigned)index);
    status = index % 4 == 3 ? crt_get(ref, &bytes) : crt_get(ref, &number);
    if (status == CRT_OK && index % 4 == 3)
        number = (int64_t)bytes.size;
    if (status != CRT_OK)
        truth_failed("a ref of a bag", status, crt_error_detail());
    else if (number != ITEM + index)
        sim_fail(sys->world, "item %" PRId64 " of a bag is %" PRId64, index, number);
    doing("-", 0);
}

/* Some of a bag's refs are kept when it is dropped: the worker that made it is asked for all of
 * them together; others go back. What was kept is passed on by another worker, which has this
 * process registered for it, and is read or not. */
static void use_bag(void)
{
    sim_world_t *w = sys->world;
    int64_t count = sim_between(w, 1, BAG_MAX), index[BAG_MAX];
    unsigned serial = truth_call_new();
    crt_ref_t *ref = crt_submit(&bag, ONCE, (int64_t)serial, count), *kept[BAG_MAX];
    const crt_value_t *list = get_bag(ref, serial, "bag");
    crt_arg_t passed[BAG_MAX];
    size_t left = 0;

    for (int64_t i = 0; list && i < count; i++) {
        crt_ref_t *item = NULL;

        if (crt_value_read(crt_value_at(list, (size_t)i), &item) != CRT_OK)
            sim_fail(w, "item %" PRId64 " of a bag is no ref", i);
        if (sim_chance(w, 3000))
            continue;
        index[left] = i;
        passed[left] = crt_arg_ref(item);
        kept[left++] = crt_ref_keep(item);
    }
    crt_ref_drop(&ref);
    if (left == 0)
        return;
    serial = truth_call_new();
    ref = crt_submit(&pass, ONCE, (int64_t)serial, crt_list(passed, left));
    crt_refs_drop(kept, left);
    list = get_bag(ref, serial, "pass");
    for (size_t i = 0; list && i < left; i++) {
        crt_ref_t *item = NULL;

        if (crt_value_read(crt_value_at(list, i), &item) == CRT_OK && sim_chance(w, 7000))
            check_item(item, index[i]);
    }
    crt_ref_drop(&ref);
}

/* Each node has one CPU at least: tasks must always find one that no actor holds. */
static bool takes_cpu(void)
{
    if (truth->cpu_actors + 1 >= sys->hosts || !sim_chance(sys->world, 2000))
        return false;
    truth->cpu_actors++;
    return true;
}

static void lend(driver_t *d, const handle_t *h)
{
    pending_t p = {.serial = truth_call_new(), .expected = -1, .what = "borrow"};

    p.ref = crt_submit(&borrow, ONCE, (int64_t)p.serial, (int64_t)h->index, h->actor);
    add_call(&d->calls, p);
}

static void make_actor(driver_t *d)
{
    static const int64_t restarts[] = {0, 0, 1, 3, -1};
    sim_world_t *w = sys->world;
    truth_actor_t *a = &truth->actor[truth->actors];
    handle_t *h = &d->handle[d->handles];

    if (d->handles == HANDLES || truth->actors == TRUTH_ACTORS)
        return;
    a->maker = sys->self->index;
    a->max_restarts = restarts[sim_below(w, 5)];
    a->max_task_retries = a->max_restarts ? pick_attempts() : 0;
    if (a->max_task_retries > 0)
        a->max_task_retries--;
    a->is_fenced = sim_chance(w, 3000);
    a->is_unordered = sim_chance(w, 2000);
    a->is_detached = sim_chance(w, 1500);
    if (a->is_detached || sim_chance(w, 3000))
        snprintf(a->name, sizeof(a->name), "n%u", truth->actors);
    h->index = truth->actors++;
    h->actor = crt_actor_new(
        &counter,
        CRT_ACTOR_OPTIONS(.name = a->name[0] ? a->name : NULL, .detached = a->is_detached,
                          .max_restarts = a->max_restarts,
                          .max_task_retries = a->max_task_retries, .fenced = a->is_fenced,
                          .allow_out_of_order_execution = a->is_unordered,
                          .num_cpus = takes_cpu() ? 1 : 0),
        (int64_t)h->index);
    crti_id_parse(crt_actor_id(h->actor), &a->id);
    sim_note(w, "pid %d makes %sactor %u: %s", (int)sys->self->pid,
             a->is_fenced ? "fenced " : "", h->index, crt_actor_id(h->actor));
    d->handles++;
    if (sim_chance(w, 2000)) /* before the head has answered */
        lend(d, h);
}

static void find_actor(driver_t *d)
{
    unsigned index = truth->actors ? (unsigned)sim_below(sys->world, truth->actors) : 0;
    handle_t *h = &d->handle[d->handles];

    if (d->handles == HANDLES || !truth->actors || !truth->actor[index].name[0])
        return;
    for (unsigned i = 0; i < d->handles; i++)
        if (d->handle[i].index == index)
            return; /* the same handle twice: one order of calls all the same */
    doing("find", index);
    if (crt_actor_find(truth->actor[index].name, NULL, &counter, &h->actor) == CRT_OK) {
        h->index = index;
        d->handles++;
    }
    doing("-", 0);
}

/* How often a call of the actor may begin. */
static void call_add(driver_t *d, const handle_t *h)
{
    uint32_t sequence = ++truth->sent[h->index][sys->self->index];
    pending_t p = {.serial = truth_call_retried(attempts_at(h->index)),
                   .expected = -1,
                   .what = "Counter.add"};
    crt_ref_t *late = NULL;

    for (unsigned i = 0; i < d->calls.count && !late; i++)
        if (d->calls.list[i].sort == NUMBER && sim_chance(sys->world, 500))
            late = d->calls.list[i].ref; /* which may not be there yet */
    if (late)
        p.ref = crt_call(h->actor, &counter_add, (int64_t)p.serial,
                         (int64_t)sys->self->index, (int64_t)sequence, late);
    else
        p.ref = crt_call(h->actor, &counter_add, (int64_t)p.serial,
                         (int64_t)sys->self->index, (int64_t)sequence);
    add_call(&d->calls, p);
}

static void call_keep(driver_t *d, const handle_t *h)
{
    pending_t p = {.expected = 0, .what = "Counter.keep"};

    p.serial = truth_call_retried(attempts_at(h->index));
    if (!d->big)
        put_big(d);
    p.ref = crt_call(h->actor, &counter_keep, (int64_t)p.serial, d->big_size, d->big);
    add_call(&d->calls, p);
}

static void call_fetch(driver_t *d, const handle_t *h)
{
    pending_t p = {.expected = -1, .what = "Counter.fetch"};

    p.serial = truth_call_retried(attempts_at(h->index));
    p.ref = crt_call(h->actor, &counter_fetch, (int64_t)p.serial);
    add_call(&d->calls, p);
}

static void end_handle(driver_t *d, unsigned at, bool kill)
{
    handle_t *h = &d->handle[at];
    truth_actor_t *a = &truth->actor[h->index];
    crt_status_t status;

    if (kill) {
        doing("kill", h->index);
        status = crt_actor_kill(h->actor, NULL);
        sim_note(sys->world, "pid %d has killed actor %u: %s", (int)sys->self->pid,
                 h->index, crt_status_text(status));
        if (status == CRT_OK)
            a->was_killed = true;
        else if (status != CRT_ERR_ACTOR_DIED)
            truth_failed("kill", status, crt_error_detail());
        doing("-", 0);
    }
    crt_actor_drop(&h->actor);
    *h = d->handle[--d->handles];
}

/* Its process ends, and another one follows if it may restart. */
static void restart_actor(const handle_t *h)
{
    crt_status_t status;

    doing("restart", h->index);
    status = crt_actor_kill(h->actor, CRT_KILL_OPTIONS(.restart = true));
    sim_note(sys->world, "pid %d restarts actor %u: %s", (int)sys->self->pid, h->index,
             crt_status_text(status));
    truth->restarts++;
    if (status != CRT_OK && status != CRT_ERR_ACTOR_DIED)
        truth_failed("restart", status, crt_error_detail());
    doing("-", 0);
}

/* Whether the first call came to its end. A group that lost its node may find no room again: an
 * actor of the same driver has it. */
static bool ends_in_group(const calls_t *calls, crt_placement_group_t *group)
{
    const pending_t *first = &calls->list[0];
    size_t ready, found;

    doing(first->what, first->serial);
    while (crt_wait(&first->ref, 1, 1, ROOM_MS, &ready, &found) == CRT_ERR_TIMED_OUT)
        if (crt_placement_group_wait(group, 0) == CRT_ERR_TIMED_OUT)
            return false;
    return true;
}

/* Tasks on what a group has reserved, if it gets that soon. Others wait for it meanwhile, and it
 * for nobody. */
static void use_placement_group(void)
{
    static const crt_placement_strategy_t strategies[] = {
        CRT_PLACEMENT_PACK, CRT_PLACEMENT_SPREAD, CRT_PLACEMENT_STRICT_PACK,
        CRT_PLACEMENT_STRICT_SPREAD};
    sim_world_t *w = sys->world;
    crt_bundle_t bundles[3] = {CRT_BUNDLE(.num_cpus = 0.5), CRT_BUNDLE(.num_cpus = 0.5),
                               CRT_BUNDLE(.num_cpus = 0.25)};
    size_t count = (size_t)sim_between(w, 1, 3);
    crt_placement_group_t *group = crt_placement_group_new(
        bundles, count,
        CRT_PLACEMENT_GROUP_OPTIONS(.strategy = strategies[sim_below(w, 4)]));
    calls_t calls = {.count = 0};
    crt_status_t status;

    doing("placement group", 0);
    status = crt_placement_group_wait(group, (int64_t)sim_below(w, 3000));
    for (size_t i = 0; status == CRT_OK && i < count; i++) {
        pending_t p = {.serial = truth_call_new(), .expected = 6, .what = "add inside"};

        p.ref = crt_submit(&add,
                           CRT_TASK_OPTIONS(.max_attempts = 1, .num_cpus = 0.25,
                                            CRT_IN_BUNDLE(group, (int)i)),
                           (int64_t)p.serial, (int64_t)5);
        add_call(&calls, p);
    }
    if (status != CRT_OK && status != CRT_ERR_TIMED_OUT)
        truth_failed("a placement group", status, crt_error_detail());
    if (sim_chance(w, 8000)) /* else they end with it */
        while (calls.count && ends_in_group(&calls, group))
            finish_first(&calls);
    truth->removals += calls.count;
    doing("removal", 0);
    status = crt_placement_group_remove(group);
    if (status != CRT_OK)
        truth_failed("the removal of a placement group", status, crt_error_detail());
    while (calls.count)
        finish_first(&calls);
    crt_placement_group_drop(&group);
    doing("-", 0);
}

static void use_actor(driver_t *d)
{
    sim_world_t *w = sys->world;
    uint64_t kind = sim_below(w, 100);
    unsigned at;

    if (d->handles == 0) {
        make_actor(d);
        return;
    }
    at = (unsigned)sim_below(w, d->handles);
    if (kind < 10)
        lend(d, &d->handle[at]);
    else if (kind < 75)
        for (uint64_t n = sim_between(w, 1, 4); n > 0; n--)
            call_add(d, &d->handle[at]);
    else if (kind < 83)
        call_keep(d, &d->handle[at]);
    else if (kind < 91)
        call_fetch(d, &d->handle[at]);
    else if (kind < 93)
        restart_actor(&d->handle[at]);
    else
        end_handle(d, at, sim_chance(w, 6000));
}

static void act(driver_t *d)
{
    uint64_t kind = sim_below(sys->world, 100);

    if (kind < 4)
        submit_burst(d);
    else if (kind < 20)
        submit_add(d);
    else if (kind < 28)
        submit_make(d);
    else if (kind < 36)
        submit_measure(d);
    else if (kind < 42)
        submit_tree(d);
    else if (kind < 47)
        put_big(d);
    else if (kind < 53)
        make_actor(d);
    else if (kind < 56)
        find_actor(d);
    else if (kind < 83)
        use_actor(d);
    else if (kind < 85)
        cancel_one(d);
    else if (kind < 88)
        use_stream();
    else if (kind < 91)
        use_bag();
    else if (kind < 93)
        use_placement_group();
    else if (d->calls.count)
        finish_first(&d->calls);
}

static void drive(sys_process_t *self)
{
    driver_t *d = calloc(1, sizeof(*d));
    char *argv[] = {"program", NULL};
    unsigned turns = (unsigned)sim_between(sys->world, 20, 200);
    crt_status_t status;

    doing("init", 0);
    status = crt_init(1, argv, PROGRAM);
    if (!d || status != CRT_OK) {
        truth_failed("crt_init", status, crt_error_detail());
        sys_exit(1);
    }
    for (unsigned i = 0; i < turns && !truth->is_ending; i++) {
        act(d);
        sys_sleep(sim_below(sys->world, 100 * CRTI_MS));
    }
    while (d->calls.count)
        finish_first(&d->calls);
    while (d->handles)
        end_handle(d, 0,
                   truth->actor[d->handle[0].index].is_detached &&
                       sim_chance(sys->world, 8000));
    crt_ref_drop(&d->big);
    doing("shutdown", 0);
    status = crt_shutdown();
    if (status != CRT_OK)
        truth_failed("crt_shutdown", status, crt_error_detail());
    doing("end", 0);
}

void sys_program_start_driver(unsigned host)
{
    sys_process_new(SYS_DRIVER, host, NULL, drive);
}
