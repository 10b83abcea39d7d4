/* SPDX-License-Identifier: Apache-2.0 */
/* Wait sets: refs, streams and ends of actors and nodes, by whatever way they become ready. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <crt.h>

#include "ok.h"

#define PATIENCE_MS 60000

/* ---------------------------------------------------------------- in the workers */

static crt_status_t echo_run(crt_call_t *call)
{
    int64_t number;

    CRT_TRY(crt_args(call, &number));
    return crt_return(call, number);
}
static const crt_task_t echo =
    CRT_TASK(.name = "echo", .run = echo_run, .signature = "int");

static crt_status_t nap_run(crt_call_t *call)
{
    int64_t most_ms;

    CRT_TRY(crt_args(call, &most_ms));
    for (int64_t ms = 0; ms < most_ms && !crt_cancelled(call); ms += 5)
        usleep(5000);
    return crt_return(call, most_ms);
}
static const crt_task_t nap = CRT_TASK(.name = "nap", .run = nap_run, .signature = "int");

/* (ms) Its worker dies then. */
static crt_status_t die_run(crt_call_t *call)
{
    int64_t ms;

    CRT_TRY(crt_args(call, &ms));
    usleep((useconds_t)ms * 1000);
    raise(SIGKILL);
    return CRT_OK;
}
static const crt_task_t die = CRT_TASK(.name = "die", .run = die_run, .signature = "int");

static crt_status_t large_run(crt_call_t *call)
{
    static float numbers[100000];
    crt_tensor_t view = crt_tensor_floats(numbers, 100000);

    return crt_return(call, &view);
}
static const crt_task_t large =
    CRT_TASK(.name = "large", .run = large_run, .signature = "");

/* Yields 0 to count - 1; then fails, or not. */
static crt_status_t count_run(crt_call_t *call)
{
    int64_t count;
    bool fails;

    CRT_TRY(crt_args(call, &count, &fails));
    for (int64_t i = 0; i < count; i++)
        CRT_TRY(crt_yield(call, i));
    return fails ? crt_fail(call, CRT_ERR_USER, "on purpose") : CRT_OK;
}
static const crt_task_t count_task =
    CRT_TASK(.name = "count", .run = count_run, .signature = "int, bool");

static const crt_task_t unlisted =
    CRT_TASK(.name = "unlisted", .run = echo_run, .signature = "int");

/* Sums what `count` tasks of its own give, by a set of its own. */
static crt_status_t sum_run(crt_call_t *call)
{
    crt_event_t event = CRT_EVENT_INIT;
    crt_waitset_t *set;
    int64_t count, number, sum = 0;
    crt_status_t status;

    CRT_TRY(crt_args(call, &count));
    CRT_TRY(crt_waitset_new(&set));
    for (int64_t i = 0; i < count; i++) {
        crt_ref_t *ref = crt_submit(&echo, NULL, i);

        CRT_CHECK(crt_waitset_add_ref(set, ref, NULL));
        crt_ref_drop(&ref);
    }
    while ((status = crt_waitset_next(set, PATIENCE_MS, &event)) == CRT_OK) {
        CRT_CHECK(crt_get(event.ref, &number));
        sum += number;
    }
    crt_waitset_drop(&set);
    return status == CRT_ERR_NOT_FOUND ? crt_return(call, sum) : status;
}
static const crt_task_t sum = CRT_TASK(.name = "sum", .run = sum_run, .signature = "int");

static crt_status_t pid_run(void *self, crt_call_t *call)
{
    return crt_return(call, (int64_t)getpid());
}
static crt_status_t crash_run(void *self, crt_call_t *call)
{
    raise(SIGKILL);
    return CRT_OK;
}
static const crt_method_t pid =
                              CRT_METHOD(.name = "pid", .run = pid_run, .signature = ""),
                          crash = CRT_METHOD(.name = "crash", .run = crash_run,
                                             .signature = "");
static const crt_actor_class_t actor_class =
    CRT_ACTOR_CLASS(.name = "Actor", .methods = CRT_METHODS(&pid, &crash));

/* ---------------------------------------------------------------- in the tests */

static crt_waitset_t *new_set(void)
{
    crt_waitset_t *set = NULL;

    OK(crt_waitset_new(&set));
    return set;
}

/* The set has a hold of its own. */
static void give(crt_waitset_t *set, crt_ref_t *ref, void *user)
{
    OK(crt_waitset_add_ref(set, ref, user));
    crt_ref_drop(&ref);
}

static void is_empty(crt_waitset_t *set)
{
    crt_event_t event = CRT_EVENT_INIT;

    assert_int_equal(crt_waitset_count(set), 0);
    assert_int_equal(crt_waitset_next(set, -1, &event), CRT_ERR_NOT_FOUND);
    assert_string_equal(crt_error_detail(), "the wait set is empty");
}

static void nothing_comes(crt_waitset_t *set, int64_t wait_ms)
{
    crt_event_t event = CRT_EVENT_INIT;

    assert_int_equal(crt_waitset_next(set, wait_ms, &event), CRT_ERR_TIMED_OUT);
    assert_int_equal(event.kind, CRT_EVENT_NONE);
}

static bool is_readable(int fd, int wait_ms)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};

    return poll(&one, 1, wait_ms) == 1;
}

/* ---------------------------------------------------------------- refs */

static void each_ref_is_an_event_with_its_pointer(void **state)
{
    enum { COUNT = 200 };
    crt_waitset_t *set = new_set();
    crt_event_t event = CRT_EVENT_INIT;
    bool seen[COUNT] = {0};

    for (int64_t i = 0; i < COUNT; i++)
        give(set, crt_submit(&echo, NULL, i), &seen[i]);
    assert_int_equal(crt_waitset_count(set), COUNT);
    for (int i = 0; i < COUNT; i++) {
        int64_t number = -1;

        OK(crt_waitset_next(set, PATIENCE_MS, &event));
        assert_int_equal(event.kind, CRT_EVENT_REF);
        assert_int_equal(event.status, CRT_OK);
        assert_null(event.text);
        assert_true(crt_ref_is_ready(event.ref));
        OK(crt_get(event.ref, &number));
        assert_ptr_equal(event.user, &seen[number]);
        assert_false(seen[number]);
        seen[number] = true;
    }
    crt_event_drop(&event);
    assert_null(event.ref);
    is_empty(set);
    crt_waitset_drop(&set);
    assert_null(set);
    crt_waitset_drop(&set);
}

static void what_is_ready_or_failed_when_it_is_added_is_an_event_too(void **state)
{
    crt_waitset_t *set = new_set();
    crt_event_t event = CRT_EVENT_INIT;
    int first, second, third;

    give(set, crt_put(7), &first);
    give(set, crt_submit(&unlisted, NULL, 1), &second);
    give(set, crt_submit(&large, NULL), &third);
    OK(crt_waitset_next(set, 0, &event));
    assert_ptr_equal(event.user, &first);
    OK(crt_waitset_next(set, 0, &event));
    assert_ptr_equal(event.user, &second);
    assert_true(event.status < 0);
    assert_int_equal(crt_get(event.ref, NULL), event.status);
    OK(crt_waitset_next(set, PATIENCE_MS, &event));
    assert_ptr_equal(event.user, &third);
    OK(crt_get_for(event.ref, 0, NULL));
    crt_event_drop(&event);
    crt_waitset_drop(&set);
}

static void the_program_may_drop_its_ref_while_it_is_in_the_set(void **state)
{
    crt_waitset_t *set = new_set();
    crt_event_t event = CRT_EVENT_INIT;
    crt_ref_t *ref = crt_submit(&nap, NULL, 50), *kept;
    int64_t ms;

    OK(crt_waitset_add_ref(set, ref, NULL));
    crt_ref_drop(&ref);
    OK(crt_waitset_next(set, PATIENCE_MS, &event));
    kept = crt_ref_keep(event.ref);
    assert_int_equal(crt_waitset_next(set, 0, &event), CRT_ERR_NOT_FOUND);
    assert_null(event.ref); /* dropped by that call, and kept by the program */
    OK(crt_get(kept, &ms));
    assert_int_equal(ms, 50);
    crt_ref_drop(&kept);
    crt_waitset_drop(&set);
}

static void a_ref_may_be_in_a_set_twice_and_in_others(void **state)
{
    crt_waitset_t *sets[2] = {new_set(), new_set()};
    crt_event_t event = CRT_EVENT_INIT;
    crt_ref_t *ref = crt_submit(&nap, NULL, 50);
    int users[2], sum_of = 0;

    OK(crt_waitset_add_ref(sets[0], ref, &users[0]));
    OK(crt_waitset_add_ref(sets[0], ref, &users[1]));
    OK(crt_waitset_add_ref(sets[1], ref, &users[1]));
    for (int i = 0; i < 2; i++) {
        OK(crt_waitset_next(sets[0], PATIENCE_MS, &event));
        assert_ptr_equal(event.ref, ref);
        sum_of += (int)((int *)event.user - users);
    }
    assert_int_equal(sum_of, 1);
    OK(crt_waitset_next(sets[1], 0, &event));
    assert_ptr_equal(event.ref, ref);
    crt_event_drop(&event);
    crt_ref_drop(&ref);
    crt_waitset_drop(&sets[0]);
    crt_waitset_drop(&sets[1]);
}

static void the_death_of_a_worker_is_an_event(void **state)
{
    crt_waitset_t *set = new_set();
    crt_event_t event = CRT_EVENT_INIT;

    give(set, crt_submit(&die, CRT_TASK_OPTIONS(.max_attempts = 1), 50), NULL);
    OK(crt_waitset_next(set, PATIENCE_MS, &event));
    assert_int_equal(event.status, CRT_ERR_WORKER_DIED);
    assert_int_equal(crt_get(event.ref, NULL), CRT_ERR_WORKER_DIED);
    crt_event_drop(&event);
    crt_waitset_drop(&set);
}

static void a_task_waits_with_a_set_for_its_own_tasks(void **state)
{
    crt_ref_t *ref = crt_submit(&sum, NULL, 100);
    int64_t result = 0;

    OK(crt_get_for(ref, PATIENCE_MS, &result));
    assert_int_equal(result, 4950);
    crt_ref_drop(&ref);
}

/* ---------------------------------------------------------------- streams */

static void items_of_streams_come_in_order_and_then_their_ends(void **state)
{
    enum { STREAMS = 3, ITEMS = 2500 };
    crt_waitset_t *set = new_set();
    crt_event_t event = CRT_EVENT_INIT;
    crt_stream_t *streams[STREAMS];
    int64_t next[STREAMS] = {0}, number;
    int ends = 0;

    for (int i = 0; i < STREAMS; i++) {
        streams[i] = crt_submit_stream(&count_task, NULL, ITEMS, i == 1);
        OK(crt_waitset_add_stream(set, streams[i], &next[i]));
        assert_int_equal(crt_waitset_add_stream(set, streams[i], NULL), CRT_ERR_EXISTS);
    }
    while (ends < STREAMS) {
        OK(crt_waitset_next(set, PATIENCE_MS, &event));
        if (event.kind == CRT_EVENT_ITEM) {
            OK(crt_get(event.ref, &number));
            assert_int_equal(number, (*(int64_t *)event.user)++);
            continue;
        }
        assert_int_equal(event.kind, CRT_EVENT_STREAM_END);
        assert_int_equal(*(int64_t *)event.user, ITEMS);
        ends++;
        if (event.stream == streams[1]) {
            assert_int_equal(event.status, CRT_ERR_USER);
            assert_non_null(strstr(event.text, "on purpose"));
        } else {
            assert_int_equal(event.status, CRT_END_OF_STREAM);
            assert_null(event.text);
        }
    }
    is_empty(set);
    crt_event_drop(&event);
    for (int i = 0; i < STREAMS; i++) {
        crt_ref_t *ref;

        assert_int_not_equal(crt_stream_next(streams[i], 0, &ref), CRT_OK);
        crt_stream_drop(&streams[i]);
    }
    crt_waitset_drop(&set);
}

static void a_stream_that_is_dropped_leaves_the_set(void **state)
{
    crt_waitset_t *set = new_set();
    crt_event_t event = CRT_EVENT_INIT;
    crt_stream_t *stream = crt_submit_stream(&count_task, NULL, 100000, false);

    OK(crt_waitset_add_stream(set, stream, NULL));
    OK(crt_waitset_next(set, PATIENCE_MS, &event));
    assert_int_equal(event.kind, CRT_EVENT_ITEM);
    crt_stream_drop(&stream);
    is_empty(set);
    OK(crt_get(event.ref, NULL)); /* what was taken stays */
    crt_event_drop(&event);
    crt_waitset_drop(&set);
}

static void a_stream_that_left_its_set_is_read_by_hand(void **state)
{
    crt_waitset_t *set = new_set(), *other = new_set();
    crt_stream_t *stream = crt_submit_stream(&count_task, NULL, 3, false);
    crt_event_t event = CRT_EVENT_INIT;
    crt_ref_t *ref;
    int64_t number;

    OK(crt_waitset_add_stream(set, stream, stream));
    OK(crt_waitset_next(set, PATIENCE_MS, &event));
    OK(crt_waitset_remove(set, stream));
    OK(crt_stream_next(stream, PATIENCE_MS, &ref));
    OK(crt_get(ref, &number));
    assert_int_equal(number, 1);
    crt_ref_drop(&ref);
    OK(crt_waitset_add_stream(other, stream, NULL));
    /* Whoever takes an item besides leaves the set with nothing to give. */
    OK(crt_stream_next(stream, PATIENCE_MS, &ref));
    crt_ref_drop(&ref);
    OK(crt_waitset_next(other, PATIENCE_MS, &event));
    assert_int_equal(event.kind, CRT_EVENT_STREAM_END);
    crt_event_drop(&event);
    crt_stream_drop(&stream);
    crt_waitset_drop(&set);
    crt_waitset_drop(&other);
}

/* ---------------------------------------------------------------- ends */

static void an_actor_that_restarts_has_not_ended_and_one_that_is_killed_has(void **state)
{
    crt_waitset_t *set = new_set();
    crt_event_t event = CRT_EVENT_INIT;
    crt_actor_t *actor =
        crt_actor_new(&actor_class, CRT_ACTOR_OPTIONS(.max_restarts = 1));
    crt_ref_t *ref = crt_call(actor, &crash);
    int mine;

    OK(crt_waitset_add_actor_end(set, actor, &mine));
    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_ACTOR_DIED);
    crt_ref_drop(&ref);
    ref = crt_call(actor, &pid);
    OK(crt_get_for(ref, PATIENCE_MS, NULL));
    crt_ref_drop(&ref);
    nothing_comes(set, 0);
    OK(crt_actor_kill(actor, NULL));
    OK(crt_waitset_next(set, PATIENCE_MS, &event));
    assert_int_equal(event.kind, CRT_EVENT_ACTOR_END);
    assert_int_equal(event.status, CRT_ERR_ACTOR_DIED);
    assert_non_null(strstr(event.text, "killed by crt_actor_kill"));
    assert_ptr_equal(event.user, &mine);
    assert_string_equal(crt_actor_id(event.actor), crt_actor_id(actor));
    OK(crt_waitset_add_actor_end(set, actor, NULL)); /* it is dead already */
    OK(crt_waitset_next(set, 0, &event));
    crt_event_drop(&event);
    crt_actor_drop(&actor);
    crt_waitset_drop(&set);
}

static void the_death_of_an_actor_is_an_event_and_so_is_the_call_that_it_had(void **state)
{
    crt_waitset_t *set = new_set();
    crt_event_t event = CRT_EVENT_INIT;
    crt_actor_t *actor = crt_actor_new(&actor_class, NULL);
    int seen = 0;

    OK(crt_waitset_add_actor_end(set, actor, NULL));
    give(set, crt_call(actor, &crash), NULL);
    for (int i = 0; i < 2; i++) {
        OK(crt_waitset_next(set, PATIENCE_MS, &event));
        assert_int_equal(event.status, CRT_ERR_ACTOR_DIED);
        seen += event.kind == CRT_EVENT_REF         ? 1
                : event.kind == CRT_EVENT_ACTOR_END ? 2
                                                    : 9;
    }
    assert_int_equal(seen, 3);
    crt_event_drop(&event);
    crt_actor_drop(&actor);
    crt_waitset_drop(&set);
}

static void a_set_keeps_no_actor_alive(void **state)
{
    crt_waitset_t *set = new_set();
    crt_event_t event = CRT_EVENT_INIT;
    crt_actor_t *actor = crt_actor_new(&actor_class, NULL), *other;

    OK(crt_actor_ready(actor, PATIENCE_MS));
    OK(crt_waitset_add_actor_end(set, actor, NULL));
    crt_actor_drop(&actor);
    OK(crt_waitset_next(set, PATIENCE_MS, &event));
    assert_int_equal(event.kind, CRT_EVENT_ACTOR_END);
    crt_event_drop(&event);
    other = crt_actor_new(&actor_class, NULL);
    OK(crt_waitset_add_actor_end(set, other, &other));
    OK(crt_waitset_remove(set, &other));
    crt_actor_drop(&other);
    is_empty(set);
    crt_waitset_drop(&set);
}

static void a_node_that_nobody_knows_has_ended(void **state)
{
    crt_waitset_t *set = new_set();
    crt_event_t event = CRT_EVENT_INIT;
    int mine;

    OK(crt_waitset_add_node_end(set, crt_node_id(), NULL));
    OK(crt_waitset_add_node_end(set, "0123456789abcdef0123456789abcdef", &mine));
    OK(crt_waitset_next(set, PATIENCE_MS, &event));
    assert_int_equal(event.kind, CRT_EVENT_NODE_END);
    assert_int_equal(event.status, CRT_ERR_NOT_FOUND);
    assert_ptr_equal(event.user, &mine);
    nothing_comes(set, 50);
    assert_int_equal(crt_waitset_add_node_end(set, "node", NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_waitset_add_node_end(set, NULL, NULL), CRT_ERR_INVALID);
    crt_event_drop(&event);
    crt_waitset_drop(&set);
}

/* ---------------------------------------------------------------- taking out */

static void what_is_removed_by_its_pointer_gives_no_event(void **state)
{
    crt_waitset_t *set = new_set();
    crt_event_t event = CRT_EVENT_INIT;
    crt_ref_t *slow = crt_submit(&nap, NULL, 100), *pending;
    int gone, stays, fd;

    OK(crt_waitset_fd(set, &fd));
    give(set, crt_put(1), &gone);              /* ready, */
    OK(crt_waitset_add_ref(set, slow, &gone)); /* not ready, */
    pending = crt_submit(&nap, NULL, 100);
    give(set, pending, &gone); /* and nobody else wants it */
    OK(crt_waitset_add_ref(set, slow, &stays));
    assert_true(is_readable(fd, 0));
    OK(crt_waitset_remove(set, &gone));
    assert_false(is_readable(fd, 0));
    assert_int_equal(crt_waitset_remove(set, &gone), CRT_ERR_NOT_FOUND);
    assert_int_equal(crt_waitset_remove(set, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_waitset_count(set), 1);
    OK(crt_waitset_next(set, PATIENCE_MS, &event));
    assert_ptr_equal(event.user, &stays);
    is_empty(set);
    crt_event_drop(&event);
    crt_ref_drop(&slow);
    crt_waitset_drop(&set);
}

static void a_set_is_dropped_with_all_that_is_in_it(void **state)
{
    crt_waitset_t *set = new_set();
    crt_stream_t *stream = crt_submit_stream(&count_task, NULL, 10, false);
    crt_actor_t *actor = crt_actor_new(&actor_class, NULL);
    crt_ref_t *ref = crt_submit(&nap, NULL, 50), *item;

    OK(crt_waitset_add_ref(set, ref, NULL));
    give(set, crt_submit(&nap, NULL, 10), NULL);
    give(set, crt_put(1), NULL);
    OK(crt_waitset_add_stream(set, stream, NULL));
    OK(crt_waitset_add_actor_end(set, actor, NULL));
    OK(crt_waitset_add_node_end(set, crt_node_id(), NULL));
    crt_waitset_drop(&set);
    OK(crt_get_for(ref, PATIENCE_MS, NULL));
    OK(crt_stream_next(stream, PATIENCE_MS, &item));
    OK(crt_actor_ready(actor, PATIENCE_MS));
    crt_ref_drop(&item);
    crt_ref_drop(&ref);
    crt_stream_drop(&stream);
    crt_actor_drop(&actor);
}

static void what_is_no_set_and_no_event_is_refused(void **state)
{
    crt_waitset_t *set = new_set(), *old = set;
    crt_event_t event = CRT_EVENT_INIT, none = {.struct_size = 8};
    crt_ref_t *ref = crt_put(1);
    int fd;

    assert_int_equal(crt_waitset_next(set, 0, &none), CRT_ERR_INVALID);
    assert_int_equal(crt_waitset_next(set, 0, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_waitset_add_ref(set, NULL, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_waitset_add_stream(set, NULL, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_waitset_add_actor_end(set, NULL, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_waitset_fd(set, NULL), CRT_ERR_INVALID);
    crt_waitset_drop(&set);
    assert_int_equal(crt_waitset_add_ref(old, ref, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_waitset_next(old, 0, &event), CRT_ERR_INVALID);
    assert_int_equal(crt_waitset_next(NULL, 0, &event), CRT_ERR_INVALID);
    assert_int_equal(crt_waitset_fd(old, &fd), CRT_ERR_INVALID);
    assert_int_equal(crt_waitset_count(old), 0);
    assert_int_equal(crt_waitset_new(NULL), CRT_ERR_INVALID);
    crt_event_drop(NULL);
    crt_waitset_drop(NULL);
    crt_ref_drop(&ref);
}

/* ---------------------------------------------------------------- waiting */

static void a_wait_ends_at_its_deadline(void **state)
{
    crt_waitset_t *set = new_set();
    crt_ref_t *ref = crt_submit(&nap, NULL, PATIENCE_MS);
    struct timespec begin, end;

    OK(crt_waitset_add_ref(set, ref, NULL));
    nothing_comes(set, 0);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    nothing_comes(set, 30);
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true((end.tv_sec - begin.tv_sec) * 1000 +
                    (end.tv_nsec - begin.tv_nsec) / 1000000 >=
                29);
    OK(crt_cancel(ref, NULL));
    crt_ref_drop(&ref);
    crt_waitset_drop(&set);
}

static void the_descriptor_is_readable_while_there_is_an_event(void **state)
{
    crt_waitset_t *set = new_set();
    crt_event_t event = CRT_EVENT_INIT;
    int fd, same;

    give(set, crt_put(1), NULL);
    OK(crt_waitset_fd(set, &fd));
    OK(crt_waitset_fd(set, &same));
    assert_int_equal(fd, same);
    give(set, crt_put(2), NULL);
    for (int i = 0; i < 2; i++) {
        assert_true(is_readable(fd, 0));
        assert_true(is_readable(fd, 0));
        OK(crt_waitset_next(set, 0, &event));
    }
    assert_false(is_readable(fd, 0));
    give(set, crt_submit(&nap, NULL, 30), NULL);
    assert_false(is_readable(fd, 0));
    assert_true(is_readable(fd, PATIENCE_MS)); /* nobody waits in a function of crt */
    OK(crt_waitset_next(set, 0, &event));
    assert_false(is_readable(fd, 0));
    crt_event_drop(&event);
    crt_waitset_drop(&set);
}

enum { THREADS = 4, SHARED = 4000 };
static atomic_int times[SHARED];

static void *take_all(void *user)
{
    crt_event_t event = CRT_EVENT_INIT;
    crt_status_t status;
    int64_t number;

    while ((status = crt_waitset_next(user, PATIENCE_MS, &event)) == CRT_OK) {
        if (crt_get(event.ref, &number) == CRT_OK &&
            event.user == (void *)(intptr_t)(number + 1))
            atomic_fetch_add(&times[number], 1);
    }
    return (void *)(intptr_t)status;
}

static void *add_some(void *user)
{
    for (int64_t i = SHARED / 2; i < SHARED; i++)
        give(user, crt_submit(&echo, NULL, i), (void *)(intptr_t)(i + 1));
    return NULL;
}

static void several_threads_take_each_event_once_and_end_together(void **state)
{
    crt_waitset_t *set = new_set();
    pthread_t threads[THREADS], adder;
    crt_ref_t *last = crt_submit(&nap, NULL, 300); /* not empty while some are added */

    OK(crt_waitset_add_ref(set, last, NULL));
    crt_ref_drop(&last);
    for (int64_t i = 0; i < SHARED / 2; i++)
        give(set, crt_submit(&echo, NULL, i), (void *)(intptr_t)(i + 1));
    pthread_create(&adder, NULL, add_some, set);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, take_all, set);
    pthread_join(adder, NULL);
    for (int i = 0; i < THREADS; i++) {
        void *status;

        pthread_join(threads[i], &status);
        assert_int_equal((intptr_t)status, CRT_ERR_NOT_FOUND);
    }
    (void)take_all(set); /* what was added later, on a slow machine */
    for (int i = 0; i < SHARED; i++)
        assert_int_equal(times[i], 1);
    crt_waitset_drop(&set);
}

static void *wait_once(void *user)
{
    crt_event_t event = CRT_EVENT_INIT;

    return (void *)(intptr_t)crt_waitset_next(user, -1, &event);
}

static void a_thread_that_waits_is_told_when_the_set_is_dropped(void **state)
{
    crt_waitset_t *set = new_set();
    crt_ref_t *ref = crt_submit(&nap, NULL, PATIENCE_MS);
    pthread_t thread;
    void *status;

    OK(crt_waitset_add_ref(set, ref, NULL));
    pthread_create(&thread, NULL, wait_once, set);
    nothing_comes(set, 20); /* it waits by now, as a rule */
    crt_waitset_drop(&set);
    pthread_join(thread, &status);
    /* CLOSED; or INVALID, when it came only after that. */
    assert_true((intptr_t)status == CRT_ERR_CLOSED ||
                (intptr_t)status == CRT_ERR_INVALID);
    OK(crt_cancel(ref, NULL));
    crt_ref_drop(&ref);
}

/* The last one. */
static void a_set_of_before_a_shutdown_is_dropped_after_it(void **state)
{
    crt_waitset_t *set = new_set();
    crt_event_t event = CRT_EVENT_INIT, kept = CRT_EVENT_INIT;
    crt_stream_t *stream = crt_submit_stream(&count_task, NULL, 10, false);
    crt_actor_t *actor = crt_actor_new(&actor_class, NULL);
    int64_t number;
    int fd;

    give(set, crt_put(5), NULL);
    OK(crt_waitset_next(set, 0, &kept));
    OK(crt_get(kept.ref, &number)); /* what was got stays */
    give(set, crt_submit(&nap, NULL, PATIENCE_MS), NULL);
    give(set, crt_put(1), NULL);
    OK(crt_waitset_add_stream(set, stream, NULL));
    OK(crt_waitset_add_actor_end(set, actor, NULL));
    OK(crt_waitset_add_node_end(set, crt_node_id(), NULL));
    OK(crt_waitset_fd(set, &fd));
    OK(crt_shutdown());
    assert_int_equal(crt_waitset_next(set, -1, &event), CRT_ERR_NOT_INITIALIZED);
    assert_int_equal(crt_waitset_count(set), 0);
    OK(crt_get(kept.ref, &number));
    assert_int_equal(number, 5);
    crt_event_drop(&kept);
    crt_actor_drop(&actor);
    crt_waitset_drop(&set);
    crt_stream_drop(&stream);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_ref_is_an_event_with_its_pointer),
        cmocka_unit_test(what_is_ready_or_failed_when_it_is_added_is_an_event_too),
        cmocka_unit_test(the_program_may_drop_its_ref_while_it_is_in_the_set),
        cmocka_unit_test(a_ref_may_be_in_a_set_twice_and_in_others),
        cmocka_unit_test(the_death_of_a_worker_is_an_event),
        cmocka_unit_test(a_task_waits_with_a_set_for_its_own_tasks),
        cmocka_unit_test(items_of_streams_come_in_order_and_then_their_ends),
        cmocka_unit_test(a_stream_that_is_dropped_leaves_the_set),
        cmocka_unit_test(a_stream_that_left_its_set_is_read_by_hand),
        cmocka_unit_test(an_actor_that_restarts_has_not_ended_and_one_that_is_killed_has),
        cmocka_unit_test(
            the_death_of_an_actor_is_an_event_and_so_is_the_call_that_it_had),
        cmocka_unit_test(a_set_keeps_no_actor_alive),
        cmocka_unit_test(a_node_that_nobody_knows_has_ended),
        cmocka_unit_test(what_is_removed_by_its_pointer_gives_no_event),
        cmocka_unit_test(a_set_is_dropped_with_all_that_is_in_it),
        cmocka_unit_test(what_is_no_set_and_no_event_is_refused),
        cmocka_unit_test(a_wait_ends_at_its_deadline),
        cmocka_unit_test(the_descriptor_is_readable_while_there_is_an_event),
        cmocka_unit_test(several_threads_take_each_event_once_and_end_together),
        cmocka_unit_test(a_thread_that_waits_is_told_when_the_set_is_dropped),
        cmocka_unit_test(a_set_of_before_a_shutdown_is_dropped_after_it),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.classes = CRT_CLASSES(&actor_class),
                    .tasks = CRT_TASKS(&echo, &nap, &die, &large, &count_task, &sum),
                    .num_cpus = 4, .object_store_memory = 48 << 20),
        driver);
}
