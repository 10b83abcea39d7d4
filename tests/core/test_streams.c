/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: calls that yield results one by one. How far a producer came is told by bytes of a
 * file. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <crt.h>

#include <cmocka.h>

#include "notes.h"
#include "ok.h"

#define PATIENCE_MS 60000
#define LARGE       (300 << 10) /* bytes of a value that goes to the store */
#define STORE_BYTES (48 << 20)

/* ---------------------------------------------------------------- in the workers */

/* Yields 0 to count - 1; then ends as it is told: "", "fail", "die". */
static crt_status_t count_items(crt_call_t *call)
{
    const char *how;
    int64_t count;

    CRT_TRY(crt_args(call, &count, &how));
    for (int64_t i = 0; i < count; i++)
        CRT_TRY(crt_yield(call, i));
    if (strcmp(how, "die") == 0)
        raise(SIGKILL);
    if (strcmp(how, "return") == 0)
        return crt_return(call, count);
    return *how ? crt_fail(call, CRT_ERR_USER, "after %lld", (long long)count) : CRT_OK;
}
static crt_status_t count_run(crt_call_t *call)
{
    return count_items(call);
}
static const crt_task_t count_task =
    CRT_TASK(.name = "count", .run = count_run, .signature = "int, string");

/* Yields each item when its reader has noted the one before, and dies right after the last. */
static crt_status_t step_run(crt_call_t *call)
{
    const char *path;
    int64_t count;

    CRT_TRY(crt_args(call, &count, &path));
    for (int64_t i = 0; i < count; i++) {
        for (int tries = 0; notes_in(path) < i && tries < NOTES_PATIENCE_MS; tries++)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        CRT_TRY(crt_yield(call, i));
    }
    raise(SIGKILL);
    return CRT_OK;
}
static const crt_task_t step =
    CRT_TASK(.name = "step", .run = step_run, .signature = "int, string");

/* Notes each item before it yields it, and its end: 'c' when it was told that nobody wants more. */
static crt_status_t endless_items(crt_call_t *call)
{
    const char *path;
    crt_status_t status = CRT_OK;

    CRT_TRY(crt_args(call, &path));
    for (int64_t i = 0; status == CRT_OK; i++) {
        note(path, '.');
        status = crt_yield(call, i);
    }
    note(path, status == CRT_ERR_CANCELLED && crt_cancelled(call) ? 'c' : '?');
    return status;
}
static crt_status_t endless_run(crt_call_t *call)
{
    return endless_items(call);
}
static const crt_task_t endless =
    CRT_TASK(.name = "endless", .run = endless_run, .signature = "string");

/* Large values: copied, written in place, and two objects at a time. */
static crt_status_t large_run(crt_call_t *call)
{
    static unsigned char bytes[LARGE];
    const int64_t shape = LARGE;
    int64_t count;

    CRT_TRY(crt_args(call, &count));
    for (int64_t i = 0; i < count; i++) {
        crt_tensor_t view = crt_tensor_view(CRT_DTYPE_UINT8, 1, &shape, bytes);
        crt_object_t *object, *other;

        memset(bytes, (int)i, sizeof(bytes));
        if (i % 3 == 0) {
            CRT_TRY(crt_yield(call, (const crt_tensor_t *)&view));
            continue;
        }
        CRT_TRY(crt_object_create(CRT_DTYPE_UINT8, 1, &shape, &object, &view));
        memset(view.data, (int)i, LARGE);
        if (i % 3 == 2) {
            CRT_TRY(crt_object_create(CRT_DTYPE_UINT8, 1, &shape, &other, &view));
            crt_object_abort(&other);
        }
        CRT_TRY(crt_yield(call, object));
    }
    return CRT_OK;
}
static const crt_task_t large =
    CRT_TASK(.name = "large", .run = large_run, .signature = "int");

/* Refs: its own, inside a list, and as the item itself; then its worker's id. */
static crt_status_t refs_run(crt_call_t *call)
{
    crt_ref_t *mine = crt_put(41), *next = crt_put(42);
    const crt_arg_t items[] = {CRT_ARG(mine)};
    crt_status_t status = crt_yield(call, crt_list(items, 1));

    if (status == CRT_OK)
        status = crt_yield(call, next);
    if (status == CRT_OK)
        status = crt_yield(call, getpid());
    crt_ref_drop(&mine);
    crt_ref_drop(&next);
    return status;
}
static const crt_task_t refs_task =
    CRT_TASK(.name = "refs", .run = refs_run, .signature = "");

/* A ref of its caller, which passes it on. */
static crt_status_t pass_run(crt_call_t *call)
{
    crt_ref_t *ref;

    CRT_TRY(crt_args(call, &ref));
    for (int i = 0; i < 5; i++) {
        const crt_arg_t items[] = {CRT_ARG(ref)};

        CRT_TRY(crt_yield(call, crt_list(items, 1)));
        CRT_TRY(crt_yield(call, ref));
    }
    return CRT_OK;
}
static const crt_task_t pass_task =
    CRT_TASK(.name = "pass", .run = pass_run, .signature = "ref");

/* Dies once, when it has made `at` items, large ones in between; the file tells how often it
 * ran. */
static crt_status_t fragile_items(crt_call_t *call)
{
    static unsigned char bytes[LARGE];
    const int64_t shape = LARGE;
    const crt_tensor_t view = crt_tensor_view(CRT_DTYPE_UINT8, 1, &shape, bytes);
    const char *path;
    int64_t count, at, run;

    CRT_TRY(crt_args(call, &path, &count, &at));
    run = note(path, '+');
    for (int64_t i = 0; i < count; i++) {
        if (i == at && run == 1)
            raise(SIGKILL);
        if (i == at && run == 2)
            return crt_fail(call, CRT_ERR_IO, "on purpose");
        CRT_TRY(i % 5 == 4 ? crt_yield(call, &view) : crt_yield(call, i));
    }
    return CRT_OK;
}
static crt_status_t fragile_run(crt_call_t *call)
{
    return fragile_items(call);
}
static const crt_task_t fragile =
    CRT_TASK(.name = "fragile", .run = fragile_run, .signature = "string, int, int");

/* Yields three items and dies; when it runs again it yields none. */
static crt_status_t shrinking_run(crt_call_t *call)
{
    const char *path;

    CRT_TRY(crt_args(call, &path));
    if (note(path, '+') > 1)
        return CRT_OK;
    for (int i = 0; i < 3; i++)
        CRT_TRY(crt_yield(call, i));
    raise(SIGKILL);
    return CRT_OK;
}
static const crt_task_t shrinking =
    CRT_TASK(.name = "shrinking", .run = shrinking_run, .signature = "string");

/* Sums the items of a task that it submits itself. */
static crt_status_t consume_run(crt_call_t *call)
{
    int64_t count, sum = 0, number;
    crt_stream_t *stream;
    crt_status_t status;
    crt_ref_t *ref;

    CRT_TRY(crt_args(call, &count));
    stream = crt_submit_stream(&count_task, NULL, count, "");
    while ((status = crt_stream_next(stream, PATIENCE_MS, &ref)) == CRT_OK) {
        CRT_CHECK(crt_get(ref, &number));
        sum += number;
        crt_ref_drop(&ref);
    }
    crt_stream_drop(&stream);
    return status == CRT_END_OF_STREAM ? crt_return(call, sum) : status;
}
static const crt_task_t consume =
    CRT_TASK(.name = "consume", .run = consume_run, .signature = "int");

/* Takes one item, then dies with the stream open. */
static crt_status_t leave_run(crt_call_t *call)
{
    const char *path;
    crt_stream_t *stream;
    crt_ref_t *ref;

    CRT_TRY(crt_args(call, &path));
    stream = crt_submit_stream(&endless, CRT_TASK_OPTIONS(.num_cpus = 0.1), path);
    CRT_TRY(crt_stream_next(stream, PATIENCE_MS, &ref));
    crt_ref_drop(&ref);
    raise(SIGKILL);
    return CRT_OK;
}
static const crt_task_t leave =
    CRT_TASK(.name = "leave", .run = leave_run, .signature = "string");

static crt_status_t method_count_run(void *self, crt_call_t *call)
{
    return count_items(call);
}
static crt_status_t method_endless_run(void *self, crt_call_t *call)
{
    return endless_items(call);
}
static crt_status_t method_fragile_run(void *self, crt_call_t *call)
{
    return fragile_items(call);
}
static crt_status_t method_answer_run(void *self, crt_call_t *call)
{
    return crt_return(call, 7);
}
static const crt_method_t method_count =
    CRT_METHOD(.name = "count", .run = method_count_run, .signature = "int, string");
static const crt_method_t method_endless =
    CRT_METHOD(.name = "endless", .run = method_endless_run, .signature = "string");
static const crt_method_t method_fragile =
    CRT_METHOD(.name = "fragile", .run = method_fragile_run,
               .signature = "string, int, int");
static const crt_method_t method_answer =
    CRT_METHOD(.name = "answer", .run = method_answer_run, .signature = "");
static const crt_actor_class_t producer =
    CRT_ACTOR_CLASS(.name = "Producer",
                    .methods = CRT_METHODS(&method_count, &method_endless,
                                           &method_fragile, &method_answer));

/* ---------------------------------------------------------------- in the tests */

static char last_noted(void)
{
    FILE *file = fopen(notes, "re");
    char byte = '\0';

    if (file && fseek(file, -1, SEEK_END) == 0)
        byte = (char)fgetc(file);
    if (file)
        fclose(file);
    return byte;
}

static double ms_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* How long it took, in ms. */
static double wait_for_last(char byte)
{
    double start = ms_now();

    while (last_noted() != byte) {
        assert_true(ms_now() - start < PATIENCE_MS);
        pause_ms(1);
    }
    return ms_now() - start;
}

/* The producer stays where it is for a while. */
static int64_t where_it_rests(void)
{
    int64_t before, now = -1;

    do {
        before = now;
        pause_ms(100);
        now = notes_in(notes);
    } while (now != before);
    return now;
}

static crt_ref_t *next_ref(crt_stream_t *stream)
{
    crt_ref_t *ref = NULL;

    OK(crt_stream_next(stream, PATIENCE_MS, &ref));
    return ref;
}

static int64_t next_int(crt_stream_t *stream)
{
    crt_ref_t *ref = next_ref(stream);
    int64_t value;

    OK(crt_get_for(ref, PATIENCE_MS, &value));
    crt_ref_drop(&ref);
    return value;
}

static void counts(crt_stream_t *stream, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        assert_int_equal(next_int(stream), i);
}

/* Again and again. */
static void ends(crt_stream_t *stream, crt_status_t status, const char *words)
{
    for (int i = 0; i < 2; i++) {
        crt_ref_t *ref = NULL;
        crt_status_t is = crt_stream_next(stream, PATIENCE_MS, &ref);

        if (is != status || (status < 0 && !strstr(crt_error_detail(), words)))
            fail_msg("%s instead of %s: \"%s\" is not in \"%s\"", crt_status_name(is),
                     crt_status_name(status), words, crt_error_detail());
        assert_null(ref);
    }
}

static void ends_well(crt_stream_t **stream)
{
    ends(*stream, CRT_END_OF_STREAM, "");
    crt_stream_drop(stream);
    assert_null(*stream);
}

/* ---------------------------------------------------------------- items */

static void a_task_yields_in_order_and_ends(void **state)
{
    crt_stream_t *stream = crt_submit_stream(&count_task, NULL, 5000, "");

    counts(stream, 0, 5000);
    ends_well(&stream);
}

static void so_does_a_method_and_its_actor_goes_on(void **state)
{
    crt_actor_t *actor = crt_actor_new(&producer, NULL);
    crt_stream_t *streams[3];
    int64_t value;
    crt_ref_t *ref;

    for (int i = 0; i < 3; i++)
        streams[i] = crt_call_stream(actor, &method_count, NULL, 100 * i, "");
    ref = crt_call(actor, &method_answer);
    for (int i = 0; i < 3; i++) {
        counts(streams[i], 0, 100 * i);
        ends_well(&streams[i]);
    }
    OK(crt_get_for(ref, PATIENCE_MS, &value));
    crt_ref_drop(&ref);
    crt_actor_drop(&actor);
}

static void a_stream_may_have_no_items(void **state)
{
    crt_stream_t *stream = crt_submit_stream(&count_task, NULL, 0, "");

    ends_well(&stream);
}

static void items_come_before_the_call_has_ended(void **state)
{
    crt_stream_t *stream = crt_submit_stream(&endless, NULL, notes);

    counts(stream, 0, 3);
    crt_stream_drop(&stream);
    wait_for_last('c');
}

static void large_items_outlive_their_worker_and_are_freed(void **state)
{
    enum { ITEMS = 400 }; /* several times what the store holds */
    crt_stream_t *stream = crt_submit_stream(
        &large, CRT_TASK_OPTIONS(.generator_backpressure_num_objects = 10), ITEMS);
    crt_ref_t *kept[5];
    const crt_tensor_t *bytes;

    for (int i = 0; i < ITEMS; i++) {
        crt_ref_t *ref = next_ref(stream);

        OK(crt_get_for(ref, PATIENCE_MS, &bytes));
        assert_int_equal(crt_tensor_count(bytes), LARGE);
        assert_int_equal(((const unsigned char *)bytes->data)[LARGE - 1], i % 256);
        if (i < 5)
            kept[i] = ref;
        else
            crt_ref_drop(&ref);
    }
    ends_well(&stream);
    for (int i = 0; i < 5; i++) {
        OK(crt_get_for(kept[i], PATIENCE_MS, &bytes));
        assert_int_equal(((const unsigned char *)bytes->data)[0], i);
        crt_ref_drop(&kept[i]);
    }
}

static void items_hold_what_they_refer_to(void **state)
{
    crt_stream_t *stream = crt_submit_stream(&refs_task, NULL);
    crt_ref_t *list_ref = next_ref(stream), *forward = next_ref(stream), *inner;
    int64_t pid = next_int(stream), value;
    const crt_value_t *list;

    ends_well(&stream);
    OK(crt_get_for(list_ref, PATIENCE_MS, &list));
    OK(crt_value_read(crt_value_at(list, 0), &inner));
    inner = crt_ref_keep(inner);
    crt_ref_drop(&list_ref);
    OK(crt_get_for(inner, PATIENCE_MS, &value));
    assert_int_equal(value, 41);
    OK(crt_get_for(forward, PATIENCE_MS, &value));
    assert_int_equal(value, 42);
    crt_ref_drop(&inner);
    crt_ref_drop(&forward);
    assert_true(pid > 0);
}

static void a_ref_of_another_process_is_passed_on(void **state)
{
    static unsigned char bytes[LARGE];
    const crt_bytes_t mine = {bytes, sizeof(bytes)};
    crt_ref_t *ref = crt_put(mine), *items[10];
    crt_stream_t *stream = crt_submit_stream(&pass_task, NULL, ref);
    const crt_value_t *list;
    crt_ref_t *inner;
    crt_bytes_t got;

    for (int i = 0; i < 10; i++)
        items[i] = next_ref(stream);
    ends_well(&stream);
    crt_ref_drop(&ref);
    for (int i = 0; i < 10; i++) {
        if (i % 2) {
            OK(crt_get_for(items[i], PATIENCE_MS, &got));
        } else {
            OK(crt_get_for(items[i], PATIENCE_MS, &list));
            OK(crt_value_read(crt_value_at(list, 0), &inner));
            OK(crt_get_for(inner, PATIENCE_MS, &got));
        }
        assert_int_equal(got.size, LARGE);
        crt_ref_drop(&items[i]);
    }
}

static void a_worker_consumes_the_stream_of_its_own_task(void **state)
{
    crt_ref_t *refs[3];
    int64_t sum;

    for (int i = 0; i < 3; i++) /* more than there are CPUs */
        refs[i] = crt_submit(&consume, NULL, 3000);
    for (int i = 0; i < 3; i++) {
        OK(crt_get_for(refs[i], PATIENCE_MS, &sum));
        assert_int_equal(sum, 2999 * 3000 / 2);
        crt_ref_drop(&refs[i]);
    }
}

/* ---------------------------------------------------------------- back-pressure */

static void a_producer_is_no_more_ahead_than_it_may(void **state)
{
    crt_stream_t *stream = crt_submit_stream(
        &endless, CRT_TASK_OPTIONS(.generator_backpressure_num_objects = 10), notes);

    counts(stream, 0, 1);
    assert_in_range(where_it_rests(), 11, 12); /* one is taken; the next was noted */
    counts(stream, 1, 7);
    assert_in_range(where_it_rests(), 16, 18);
    crt_stream_drop(&stream);
    wait_for_last('c');
}

static void with_room_for_one_they_go_hand_in_hand(void **state)
{
    crt_stream_t *stream = crt_submit_stream(
        &count_task, CRT_TASK_OPTIONS(.generator_backpressure_num_objects = 1), 300, "");

    counts(stream, 0, 300);
    ends_well(&stream);
}

static void a_concurrent_actor_answers_while_one_of_its_streams_waits(void **state)
{
    crt_actor_t *actor =
        crt_actor_new(&producer, CRT_ACTOR_OPTIONS(.max_concurrency = 2));
    crt_stream_t *stream =
        crt_call_stream(actor, &method_endless,
                        CRT_CALL_OPTIONS(.generator_backpressure_num_objects = 5), notes);
    crt_ref_t *ref;
    int64_t value;

    counts(stream, 0, 1);
    where_it_rests();
    for (int i = 0; i < 100; i++) {
        ref = crt_call(actor, &method_answer);
        OK(crt_get_for(ref, PATIENCE_MS, &value));
        crt_ref_drop(&ref);
    }
    counts(stream, 1, 100);
    crt_stream_drop(&stream);
    wait_for_last('c');
    crt_actor_drop(&actor);
}

/* ---------------------------------------------------------------- ends */

static void a_consumer_that_stops_half_way_ends_the_producer(void **state)
{
    crt_actor_t *actor = crt_actor_new(&producer, NULL);
    crt_stream_t *stream = crt_call_stream(actor, &method_endless, NULL, notes);
    double took;

    counts(stream, 0, 2500);
    crt_stream_drop(&stream);
    took = wait_for_last('c');
    print_message("the producer ended after %.1f ms\n", took);
    crt_actor_drop(&actor);
}

static void one_that_waits_for_room_ends_too(void **state)
{
    crt_stream_t *stream = crt_submit_stream(
        &endless, CRT_TASK_OPTIONS(.generator_backpressure_num_objects = 3), notes);

    counts(stream, 0, 1);
    where_it_rests();
    crt_stream_drop(&stream);
    wait_for_last('c');
}

static void items_before_an_error_come_first(void **state)
{
    crt_stream_t *stream = crt_submit_stream(&count_task, NULL, 20, "fail");
    crt_ref_t *completed = crt_stream_completed(stream);

    assert_int_equal(crt_get_for(completed, PATIENCE_MS, NULL), CRT_ERR_USER);
    counts(stream, 0, 20);
    ends(stream, CRT_ERR_USER, "after 20");
    crt_stream_drop(&stream);
    assert_int_equal(crt_ref_error(completed)->status, CRT_ERR_USER);
    crt_ref_drop(&completed);
}

static void its_completion_is_a_ref_like_any_other(void **state)
{
    crt_stream_t *stream = crt_submit_stream(&count_task, NULL, 5, "return");
    crt_ref_t *completed = crt_stream_completed(stream);
    int64_t value;

    OK(crt_get_for(completed, PATIENCE_MS, &value));
    assert_int_equal(value, 5);
    crt_ref_drop(&completed);
    counts(stream, 0, 5);
    ends_well(&stream);
    stream = crt_submit_stream(&count_task, NULL, 5, "");
    completed = crt_stream_completed(stream);
    OK(crt_get_for(completed, PATIENCE_MS, NULL));
    crt_stream_drop(&stream); /* with items in it */
    crt_ref_drop(&completed);
}

static void it_can_be_cancelled_by_its_completion(void **state)
{
    crt_stream_t *stream = crt_submit_stream(&endless, NULL, notes);
    crt_ref_t *completed = crt_stream_completed(stream), *ref;
    crt_status_t status;

    counts(stream, 0, 10);
    OK(crt_cancel(completed, NULL));
    while ((status = crt_stream_next(stream, PATIENCE_MS, &ref)) == CRT_OK)
        crt_ref_drop(&ref);
    assert_int_equal(status, CRT_ERR_CANCELLED);
    crt_ref_drop(&completed);
    crt_stream_drop(&stream);
    assert_int_equal(last_noted(), 'c');
}

static void a_timeout_ends_it_where_it_is(void **state)
{
    crt_stream_t *stream = crt_submit_stream(
        &endless,
        CRT_TASK_OPTIONS(.limit_ms = 500, .generator_backpressure_num_objects = 5),
        notes);

    counts(stream, 0, 1);
    wait_for_last('c');
    counts(stream, 1, 5);
    ends(stream, CRT_ERR_TIMED_OUT, "500 ms");
    crt_stream_drop(&stream);
}

static void a_wait_for_the_next_item_may_time_out(void **state)
{
    crt_actor_t *actor = crt_actor_new(&producer, NULL);
    crt_stream_t *first = crt_call_stream(actor, &method_endless, NULL, notes);
    crt_stream_t *second = crt_call_stream(actor, &method_count, NULL, 3, "");
    crt_ref_t *ref = NULL;

    counts(first, 0, 1);
    assert_int_equal(crt_stream_next(second, 50, &ref), CRT_ERR_TIMED_OUT);
    assert_int_equal(crt_stream_next(second, 0, &ref), CRT_ERR_TIMED_OUT);
    crt_stream_drop(&first);
    counts(second, 0, 3);
    ends_well(&second);
    crt_actor_drop(&actor);
}

static void one_that_was_queued_never_begins(void **state)
{
    crt_actor_t *actor = crt_actor_new(&producer, NULL);
    crt_stream_t *first = crt_call_stream(actor, &method_count, NULL, 5000, "");
    crt_stream_t *second = crt_call_stream(actor, &method_endless, NULL, notes);

    crt_stream_drop(&second);
    counts(first, 0, 5000);
    ends_well(&first);
    assert_int_equal(notes_in(notes), 0);
    crt_actor_drop(&actor);
}

/* ---------------------------------------------------------------- deaths */

/* Takes 0, 1, 2, ... until the worker dies; how many. `on_item`: may be NULL. */
static int64_t take_until_death(crt_stream_t *stream, void (*on_item)(void))
{
    crt_ref_t *ref;
    int64_t value, i = 0;
    crt_status_t status;

    while ((status = crt_stream_next(stream, PATIENCE_MS, &ref)) == CRT_OK) {
        OK(crt_get_for(ref, PATIENCE_MS, &value));
        assert_int_equal(value, i++);
        crt_ref_drop(&ref);
        if (on_item)
            on_item();
    }
    assert_int_equal(status, CRT_ERR_WORKER_DIED);
    assert_non_null(strstr(crt_error_detail(), "signal 9"));
    crt_stream_drop(&stream);
    return i;
}

static void what_came_before_its_worker_died_is_given(void **state)
{
    assert_in_range(take_until_death(
                        crt_submit_stream(
                            &count_task, CRT_TASK_OPTIONS(.max_attempts = 1), 700, "die"),
                        NULL),
                    0, 700);
}

static void note_item(void)
{
    note(notes, '.');
}

/* Nothing waits for company in its process while the reader has taken all that came. */
static void what_a_reader_that_keeps_up_was_yielded_is_given(void **state)
{
    enum { ITEMS = 20 };

    assert_int_equal(
        take_until_death(crt_submit_stream(&step, CRT_TASK_OPTIONS(.max_attempts = 1),
                                           (int64_t)ITEMS, notes),
                         note_item),
        ITEMS);
}

/* Item i of fragile_items. */
static void is_item(crt_ref_t *ref, int64_t i)
{
    const crt_tensor_t *bytes;
    int64_t value;

    if (i % 5 == 4) {
        OK(crt_get_for(ref, PATIENCE_MS, &bytes));
        assert_int_equal(crt_tensor_count(bytes), LARGE);
    } else {
        OK(crt_get_for(ref, PATIENCE_MS, &value));
        assert_int_equal(value, i);
    }
}

static void goes_on_where_it_was(crt_stream_t **stream, int64_t count)
{
    crt_ref_t *first = next_ref(*stream), *ref;

    for (int64_t i = 1; i < count; i++) {
        ref = next_ref(*stream);
        is_item(ref, i);
        crt_ref_drop(&ref);
    }
    is_item(first, 0);
    crt_ref_drop(&first);
    ends_well(stream);
    assert_int_equal(notes_in(notes), 3); /* it died, failed, and came through */
}

static void a_task_that_is_run_again_goes_on_where_it_was(void **state)
{
    crt_stream_t *stream =
        crt_submit_stream(&fragile,
                          CRT_TASK_OPTIONS(.retry_exceptions = CRT_STATUSES(CRT_ERR_IO),
                                           .generator_backpressure_num_objects = 20),
                          notes, 200, 77);

    goes_on_where_it_was(&stream, 200);
}

static void so_does_a_method_of_an_actor_that_was_restarted(void **state)
{
    crt_actor_t *actor = crt_actor_new(&producer, CRT_ACTOR_OPTIONS(.max_restarts = 1));
    crt_stream_t *stream = crt_call_stream(
        actor, &method_fragile,
        CRT_CALL_OPTIONS(.max_attempts = 3, .retry_exceptions = CRT_STATUSES(CRT_ERR_IO),
                         .generator_backpressure_num_objects = 20),
        notes, 200, 77);

    goes_on_where_it_was(&stream, 200);
    crt_actor_drop(&actor);
}

/* The third item may be lost with its worker, which yields it when the second one was taken. */
static void one_that_yields_fewer_when_it_is_run_again_fails(void **state)
{
    crt_stream_t *stream = crt_submit_stream(
        &shrinking, CRT_TASK_OPTIONS(.generator_backpressure_num_objects = 1), notes);
    crt_status_t status;
    crt_ref_t *ref;

    counts(stream, 0, 2);
    while ((status = crt_stream_next(stream, PATIENCE_MS, &ref)) == CRT_OK)
        crt_ref_drop(&ref);
    assert_int_equal(status, CRT_ERR_USER);
    ends(stream, CRT_ERR_USER, "it yielded 0 results in this run and ");
    assert_int_equal(notes_in(notes), 2);
    crt_stream_drop(&stream);
}

/* More than the store holds are left behind: each would fail if those before were still there. */
static void what_a_dead_worker_had_stored_is_freed(void **state)
{
    for (int i = 0; i < 30; i++) {
        crt_stream_t *stream = crt_submit_stream(
            &fragile, CRT_TASK_OPTIONS(.max_attempts = 1), notes, 100, 30);
        crt_ref_t *ref;
        int64_t item = 0;

        while (crt_stream_next(stream, PATIENCE_MS, &ref) == CRT_OK) {
            is_item(ref, item++);
            crt_ref_drop(&ref);
        }
        crt_stream_drop(&stream);
        assert_int_equal(truncate(notes, 0), 0); /* the next one dies, too */
    }
}

static void an_abandoned_stream_ends_with_its_consumer(void **state)
{
    crt_ref_t *ref = crt_submit(&leave, CRT_TASK_OPTIONS(.max_attempts = 1), notes);
    crt_stream_t *stream;

    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_WORKER_DIED);
    crt_ref_drop(&ref);
    /* The worker of the producer ends with its owner: all CPUs are free. */
    stream = crt_submit_stream(&count_task, CRT_TASK_OPTIONS(.num_cpus = 2), 10, "");
    counts(stream, 0, 10);
    ends_well(&stream);
}

/* ---------------------------------------------------------------- bad input */

static void a_call_whose_caller_wants_no_stream_can_not_yield(void **state)
{
    crt_ref_t *ref = crt_submit(&count_task, NULL, 3, "");

    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "asked for no stream"));
    crt_ref_drop(&ref);
}

static void what_is_no_stream_is_refused(void **state)
{
    crt_stream_t *stream = crt_submit_stream(&count_task, NULL, 1), *none = NULL, *stale;
    crt_ref_t *ref = NULL;

    ends(stream, CRT_ERR_INVALID, "count takes 2 arguments");
    stale = stream;
    crt_stream_drop(&stream);
    assert_int_equal(crt_stream_next(stale, 0, &ref), CRT_ERR_INVALID);
    assert_int_equal(crt_stream_next(NULL, 0, &ref), CRT_ERR_INVALID);
    crt_stream_drop(&none);
    crt_stream_drop(NULL);
    crt_stream_drop(&stale);
    ref = crt_stream_completed(NULL);
    assert_int_equal(crt_get(ref, NULL), CRT_ERR_INVALID);
    crt_ref_drop(&ref);
    for (int64_t bad = 0; bad < 2; bad++) {
        stream = crt_submit_stream(
            &count_task,
            CRT_TASK_OPTIONS(.generator_backpressure_num_objects = bad ? -2 : 100001), 1,
            "");
        ends(stream, CRT_ERR_INVALID, "generator_backpressure_num_objects");
        crt_stream_drop(&stream);
    }
}

static int driver(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, notes_begin, notes_end)
    const struct CMUnitTest tests[] = {
        TEST(a_task_yields_in_order_and_ends),
        TEST(so_does_a_method_and_its_actor_goes_on),
        TEST(a_stream_may_have_no_items),
        TEST(items_come_before_the_call_has_ended),
        TEST(large_items_outlive_their_worker_and_are_freed),
        TEST(items_hold_what_they_refer_to),
        TEST(a_ref_of_another_process_is_passed_on),
        TEST(a_worker_consumes_the_stream_of_its_own_task),
        TEST(a_producer_is_no_more_ahead_than_it_may),
        TEST(with_room_for_one_they_go_hand_in_hand),
        TEST(a_concurrent_actor_answers_while_one_of_its_streams_waits),
        TEST(a_consumer_that_stops_half_way_ends_the_producer),
        TEST(one_that_waits_for_room_ends_too),
        TEST(items_before_an_error_come_first),
        TEST(its_completion_is_a_ref_like_any_other),
        TEST(it_can_be_cancelled_by_its_completion),
        TEST(a_timeout_ends_it_where_it_is),
        TEST(a_wait_for_the_next_item_may_time_out),
        TEST(one_that_was_queued_never_begins),
        TEST(what_came_before_its_worker_died_is_given),
        TEST(what_a_reader_that_keeps_up_was_yielded_is_given),
        TEST(a_task_that_is_run_again_goes_on_where_it_was),
        TEST(so_does_a_method_of_an_actor_that_was_restarted),
        TEST(one_that_yields_fewer_when_it_is_run_again_fails),
        TEST(what_a_dead_worker_had_stored_is_freed),
        TEST(an_abandoned_stream_ends_with_its_consumer),
        TEST(a_call_whose_caller_wants_no_stream_can_not_yield),
        TEST(what_is_no_stream_is_refused),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&producer),
                                .tasks = CRT_TASKS(&count_task, &step, &endless, &large,
                                                   &refs_task, &pass_task, &fragile,
                                                   &shrinking, &consume, &leave),
                                .num_cpus = 2, .object_store_memory = STORE_BYTES),
                    driver);
}
