/* SPDX-License-Identifier: Apache-2.0 */
/* Queues on a private cluster: order, bounds, waits and their ends. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <crt_util.h>

#include <cmocka.h>

#define PATIENCE_MS 60000

/* ---------------------------------------------------------------- what others do */

static crt_status_t put_number(crt_actor_t *queue, int number, int64_t timeout_ms)
{
    crt_ref_t *item = crt_put(number);
    crt_status_t status = crt_queue_put(queue, item, timeout_ms);

    crt_ref_drop(&item);
    return status;
}

static crt_status_t produce_run(crt_call_t *call)
{
    crt_actor_t *queue;
    int from, to;

    CRT_TRY(crt_args(call, &queue, &from, &to));
    for (int i = from; i < to; i++)
        CRT_TRY(put_number(queue, i, PATIENCE_MS));
    return CRT_OK;
}
static const crt_task_t produce =
    CRT_TASK(.name = "produce", .run = produce_run, .signature = "actor, int, int");

/* Adds what it gets until a 0, which it puts back for the others. */
static crt_status_t consume_run(crt_call_t *call)
{
    crt_actor_t *queue;
    int number, sum = 0;

    CRT_TRY(crt_args(call, &queue));
    for (;;) {
        crt_ref_t *item;
        crt_status_t status;

        CRT_TRY(crt_queue_get(queue, PATIENCE_MS, &item));
        status = crt_get(item, &number);
        crt_ref_drop(&item);
        CRT_TRY(status);
        if (number == 0)
            break;
        sum += number;
    }
    CRT_TRY(put_number(queue, 0, PATIENCE_MS));
    return crt_return(call, sum);
}
static const crt_task_t consume =
    CRT_TASK(.name = "consume", .run = consume_run, .signature = "actor");

/* Waits without a limit; gives the status. */
static crt_status_t block_run(crt_call_t *call)
{
    crt_actor_t *queue, *started;
    crt_ref_t *item;
    bool puts;

    CRT_TRY(crt_args(call, &queue, &started, &puts));
    CRT_TRY(put_number(started, 1, PATIENCE_MS));
    return crt_return(call, puts ? (int)put_number(queue, 1, -1)
                                 : (int)crt_queue_get(queue, -1, &item));
}
static const crt_task_t block =
    CRT_TASK(.name = "block", .run = block_run, .signature = "actor, actor, bool");

static crt_status_t keep_put_run(void *self, crt_call_t *call)
{
    static char large[200000];
    crt_actor_t *queue;
    crt_ref_t *item = crt_put(((crt_bytes_t){large, sizeof(large)}));
    crt_status_t status = crt_args(call, &queue);

    if (status == CRT_OK)
        status = crt_queue_put(queue, item, PATIENCE_MS);
    crt_ref_drop(&item);
    return status == CRT_OK ? crt_return(call, (int)getpid()) : status;
}
static const crt_method_t keep_put =
    CRT_METHOD(.name = "put", .run = keep_put_run, .signature = "actor");
static const crt_actor_class_t producer =
    CRT_ACTOR_CLASS(.name = "Producer", .methods = CRT_METHODS(&keep_put));

/* ---------------------------------------------------------------- helpers */

static void expect_number(crt_ref_t *item, int wanted)
{
    int number = -1;

    assert_int_equal(crt_get(item, &number), CRT_OK);
    assert_int_equal(number, wanted);
    crt_ref_drop(&item);
}

static void expect_get(crt_actor_t *queue, int wanted)
{
    crt_ref_t *item;

    assert_int_equal(crt_queue_get(queue, PATIENCE_MS, &item), CRT_OK);
    expect_number(item, wanted);
}

static void expect_size(crt_actor_t *queue, size_t wanted)
{
    size_t size;

    assert_int_equal(crt_queue_size(queue, &size), CRT_OK);
    assert_int_equal(size, wanted);
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---------------------------------------------------------------- tests */

static void items_come_out_in_the_order_they_went_in(void **state)
{
    crt_actor_t *queue = crt_queue_new(NULL, 0);

    assert_int_equal(crt_actor_ready(queue, PATIENCE_MS), CRT_OK);
    for (int round = 0; round < 3; round++) { /* the ring turns and grows */
        for (int i = 0; i < 30 + round; i++)
            assert_int_equal(put_number(queue, i, 0), CRT_OK);
        expect_size(queue, 30 + (size_t)round);
        for (int i = 0; i < 30 + round; i++)
            expect_get(queue, i);
    }
    expect_size(queue, 0);
    crt_actor_drop(&queue);
}

static void a_full_queue_and_an_empty_one_time_out(void **state)
{
    crt_actor_t *queue = crt_queue_new(NULL, 2);
    crt_ref_t *item;
    int64_t start;

    assert_int_equal(crt_actor_ready(queue, PATIENCE_MS), CRT_OK);
    start = now_ms();
    assert_int_equal(crt_queue_get(queue, 0, &item), CRT_ERR_TIMED_OUT);
    assert_int_equal(crt_queue_get(queue, 100, &item), CRT_ERR_TIMED_OUT);
    assert_true(now_ms() - start >= 100);
    assert_int_equal(put_number(queue, 1, 0), CRT_OK);
    assert_int_equal(put_number(queue, 2, 0), CRT_OK);
    assert_int_equal(put_number(queue, 3, 0), CRT_ERR_TIMED_OUT);
    start = now_ms();
    assert_int_equal(put_number(queue, 3, 100), CRT_ERR_TIMED_OUT);
    assert_true(now_ms() - start >= 100);
    expect_get(queue, 1);
    assert_int_equal(put_number(queue, 3, 0), CRT_OK);
    expect_get(queue, 2);
    expect_get(queue, 3);
    crt_actor_drop(&queue);
}

static void a_batch_goes_in_as_a_whole_or_not_at_all(void **state)
{
    crt_actor_t *queue = crt_queue_new(NULL, 5);
    crt_ref_t *items[6], *got[10];
    size_t count;

    for (int i = 0; i < 6; i++)
        items[i] = crt_put(i);
    assert_int_equal(crt_actor_ready(queue, PATIENCE_MS), CRT_OK);
    assert_int_equal(crt_queue_put_batch(queue, items, 3, 0), CRT_OK);
    assert_int_equal(crt_queue_put_batch(queue, items, 3, 0), CRT_ERR_TIMED_OUT);
    expect_size(queue, 3);
    assert_int_equal(crt_queue_put_batch(queue, &items[3], 2, 0), CRT_OK);
    assert_int_equal(crt_queue_put_batch(queue, items, 6, -1), CRT_ERR_INVALID);
    assert_int_equal(crt_queue_get_batch(queue, 4, 0, got, &count), CRT_OK);
    assert_int_equal(count, 4);
    for (int i = 0; i < 4; i++)
        expect_number(got[i], i);
    assert_int_equal(crt_queue_get_batch(queue, 10, 0, got, &count), CRT_OK);
    assert_int_equal(count, 1);
    expect_number(got[0], 4);
    crt_refs_drop(items, 6);
    crt_actor_drop(&queue);
}

static void batches_of_none_or_too_many_are_refused(void **state)
{
    crt_actor_t *queue = crt_queue_new(NULL, 0);
    crt_ref_t *item = crt_put(1);
    size_t count;

    assert_int_equal(crt_queue_put_batch(queue, &item, 0, 0), CRT_ERR_INVALID);
    assert_int_equal(crt_queue_put_batch(queue, NULL, 1, 0), CRT_ERR_INVALID);
    assert_int_equal(crt_queue_get_batch(queue, 0, 0, &item, &count), CRT_ERR_INVALID);
    assert_int_equal(crt_queue_get_batch(queue, 10001, 0, &item, &count),
                     CRT_ERR_INVALID);
    assert_int_equal(crt_queue_get(queue, 0, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_queue_get(NULL, 0, &item), CRT_ERR_INVALID);
    crt_ref_drop(&item);
    crt_actor_drop(&queue);
}

static void who_waits_goes_on_when_another_process_puts_or_gets(void **state)
{
    crt_actor_t *queue = crt_queue_new(NULL, 2);
    crt_ref_t *done = crt_submit(&produce, NULL, queue, 0, 50);

    for (int i = 0; i < 50; i++)
        expect_get(queue, i);
    assert_int_equal(crt_get(done, NULL), CRT_OK);
    crt_ref_drop(&done);
    crt_actor_drop(&queue);
}

static void each_item_is_got_by_one(void **state)
{
    crt_actor_t *queue = crt_queue_new(NULL, 10);
    crt_ref_t *produced[2], *consumed[2];
    int sum = 0, part;

    for (int i = 0; i < 2; i++)
        consumed[i] = crt_submit(&consume, CRT_TASK_OPTIONS(.no_cpus = true), queue);
    for (int i = 0; i < 2; i++)
        produced[i] = crt_submit(&produce, CRT_TASK_OPTIONS(.no_cpus = true), queue,
                                 1 + 50 * i, 51 + 50 * i);
    for (int i = 0; i < 2; i++)
        assert_int_equal(crt_get(produced[i], NULL), CRT_OK);
    assert_int_equal(put_number(queue, 0, PATIENCE_MS), CRT_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(crt_get(consumed[i], &part), CRT_OK);
        sum += part;
    }
    assert_int_equal(sum, 100 * 101 / 2);
    crt_refs_drop(produced, 2);
    crt_refs_drop(consumed, 2);
    crt_actor_drop(&queue);
}

static void a_queue_that_can_not_begin_times_out(void **state)
{
    crt_actor_t *queue = crt_queue_new(CRT_ACTOR_OPTIONS(.num_cpus = 1000), 0);
    crt_ref_t *item;

    assert_int_equal(put_number(queue, 1, 100), CRT_ERR_TIMED_OUT);
    assert_int_equal(crt_queue_get(queue, 0, &item), CRT_ERR_TIMED_OUT);
    assert_int_equal(crt_actor_kill(queue, NULL), CRT_OK);
    crt_actor_drop(&queue);
}

static void the_end_of_the_queue_ends_all_waits(void **state)
{
    crt_actor_t *empty = crt_queue_new(NULL, 1), *full = crt_queue_new(NULL, 1);
    crt_actor_t *started = crt_queue_new(NULL, 0);
    crt_ref_t *waits[2];
    int status;

    assert_int_equal(put_number(full, 1, PATIENCE_MS), CRT_OK);
    waits[0] = crt_submit(&block, NULL, empty, started, false);
    waits[1] = crt_submit(&block, NULL, full, started, true);
    expect_get(started, 1);
    expect_get(started, 1);
    assert_int_equal(crt_actor_kill(empty, NULL), CRT_OK);
    assert_int_equal(crt_actor_kill(full, NULL), CRT_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(crt_get(waits[i], &status), CRT_OK);
        assert_int_equal(status, CRT_ERR_ACTOR_DIED);
    }
    crt_refs_drop(waits, 2);
    crt_actor_drop(&empty);
    crt_actor_drop(&full);
    crt_actor_drop(&started);
}

static void an_item_whose_owner_was_killed_says_so(void **state)
{
    crt_actor_t *queue = crt_queue_new(NULL, 0), *actor = crt_actor_new(&producer, NULL);
    crt_ref_t *put = crt_call(actor, &keep_put, queue), *item;
    crt_bytes_t bytes;
    int pid;

    assert_int_equal(crt_get(put, &pid), CRT_OK);
    crt_ref_drop(&put);
    kill(pid, SIGKILL);
    assert_int_equal(put_number(queue, 2, PATIENCE_MS), CRT_OK);
    put = crt_call(actor, &keep_put, queue); /* ends when the death is known */
    assert_int_equal(crt_get(put, &pid), CRT_ERR_ACTOR_DIED);
    crt_ref_drop(&put);
    assert_int_equal(crt_queue_get(queue, PATIENCE_MS, &item), CRT_OK);
    assert_int_equal(crt_get(item, &bytes), CRT_ERR_OWNER_DIED);
    crt_ref_drop(&item);
    expect_get(queue, 2);
    crt_actor_drop(&actor);
    crt_actor_drop(&queue);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_out_in_the_order_they_went_in),
        cmocka_unit_test(a_full_queue_and_an_empty_one_time_out),
        cmocka_unit_test(a_batch_goes_in_as_a_whole_or_not_at_all),
        cmocka_unit_test(batches_of_none_or_too_many_are_refused),
        cmocka_unit_test(who_waits_goes_on_when_another_process_puts_or_gets),
        cmocka_unit_test(each_item_is_got_by_one),
        cmocka_unit_test(a_queue_that_can_not_begin_times_out),
        cmocka_unit_test(the_end_of_the_queue_ends_all_waits),
        cmocka_unit_test(an_item_whose_owner_was_killed_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&producer),
                                .tasks = CRT_TASKS(&produce, &consume, &block),
                                .num_cpus = 2, .object_store_memory = 64 << 20),
                    driver);
}
