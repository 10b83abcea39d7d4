/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of thousands of refs that another process owns: each is read for the
 * first time, with the owner, or whoever reads, dying in the middle. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <crt.h>

#include <cmocka.h>

#include "ok.h"

#define MANY        10000
#define LONG        300
#define LONG_BYTES  3000
#define PATIENCE_MS 60000

/* ---------------------------------------------------------------- in the workers */

static crt_status_t return_and_drop(crt_call_t *call, crt_arg_t *items, size_t count)
{
    crt_status_t status = crt_return(call, crt_list(items, count));

    for (size_t i = 0; i < count; i++)
        crt_ref_drop(&items[i].as.ref);
    return status;
}

/* A list of which nothing but its ref is registered for who gets it. */
static crt_status_t keeper_list_run(void *self, crt_call_t *call)
{
    crt_ref_t **list = self;
    static crt_arg_t items[MANY];

    for (int i = 0; !*list && i < MANY; i++)
        items[i] = crt_arg_ref(crt_put(i));
    if (!*list) {
        *list = crt_put(crt_list(items, MANY));
        for (int i = 0; i < MANY; i++)
            crt_ref_drop(&items[i].as.ref);
    }
    items[0] = crt_arg_ref(*list);
    return crt_return(call, crt_list(items, 1));
}
static const crt_method_t keeper_list =
    CRT_METHOD(.name = "list", .run = keeper_list_run, .signature = "");

static void keeper_destroy(void *self)
{
    crt_ref_drop(self);
}

static crt_status_t keeper_numbers_run(void *self, crt_call_t *call)
{
    static crt_arg_t items[MANY];

    for (int i = 0; i < MANY; i++)
        items[i] = crt_arg_ref(crt_put(i));
    return return_and_drop(call, items, MANY);
}
static const crt_method_t keeper_numbers =
    CRT_METHOD(.name = "numbers", .run = keeper_numbers_run, .signature = "");

/* More than one answer has room for, and among them what lies in the store. */
static crt_status_t keeper_texts_run(void *self, crt_call_t *call)
{
    static crt_arg_t items[LONG];
    static char bytes[3 * LONG_BYTES];

    for (int i = 0; i < LONG; i++) {
        snprintf(bytes, sizeof(bytes), "%d", i);
        items[i] = crt_arg_ref(
            crt_put(((crt_bytes_t){bytes, i % 10 ? LONG_BYTES : 3 * LONG_BYTES})));
    }
    return return_and_drop(call, items, LONG);
}
static const crt_method_t keeper_texts =
    CRT_METHOD(.name = "texts", .run = keeper_texts_run, .signature = "");

/* Tasks that end one after the other, while the list is read. */
static crt_status_t later_run(crt_call_t *call)
{
    int64_t number;

    CRT_TRY(crt_args(call, &number));
    usleep(1000);
    return crt_return(call, number);
}
static const crt_task_t later =
    CRT_TASK(.name = "later", .run = later_run, .signature = "int");

static crt_status_t keeper_tasks_run(void *self, crt_call_t *call)
{
    static crt_arg_t items[100];

    for (int i = 0; i < 100; i++)
        items[i] = crt_arg_ref(crt_submit(&later, NULL, i));
    return return_and_drop(call, items, 100);
}
static const crt_method_t keeper_tasks =
    CRT_METHOD(.name = "tasks", .run = keeper_tasks_run, .signature = "");

static crt_status_t keeper_pid_run(void *self, crt_call_t *call)
{
    return crt_return(call, (int64_t)getpid());
}
static const crt_method_t keeper_pid =
    CRT_METHOD(.name = "pid", .run = keeper_pid_run, .signature = "");

/* The sum of the first `count` numbers of a list. */
static crt_status_t read_numbers(const crt_value_t *list, size_t from, size_t count,
                                 int64_t *sum)
{
    for (size_t i = from; i < from + count; i++) {
        int64_t number;
        crt_ref_t *ref;

        CRT_TRY(crt_value_read(crt_value_at(list, i), &ref));
        CRT_TRY(crt_get_for(ref, PATIENCE_MS, &number));
        *sum += number;
    }
    return CRT_OK;
}

/* Half of it, and then no more: it is ended before it returns. */
static crt_status_t reader_half_run(void *self, crt_call_t *call)
{
    const crt_value_t *list;
    const char *path;
    int64_t sum = 0;
    FILE *f;

    CRT_TRY(crt_args(call, &list, &path));
    CRT_TRY(read_numbers(list, 0, MANY / 2, &sum));
    f = fopen(path, "we");
    if (f)
        fclose(f);
    for (;;)
        pause();
}
static const crt_method_t reader_half =
    CRT_METHOD(.name = "half", .run = reader_half_run, .signature = "list, string");

static const crt_actor_class_t keeper_class =
    CRT_ACTOR_CLASS(.name = "Keeper", .size = sizeof(crt_ref_t *),
                    .destroy = keeper_destroy,
                    .methods = CRT_METHODS(&keeper_list, &keeper_numbers, &keeper_texts,
                                           &keeper_tasks, &keeper_pid, &reader_half));

/* ---------------------------------------------------------------- in the driver */

static const int64_t sum_of_all = (int64_t)MANY * (MANY - 1) / 2;

static const crt_value_t *get_list(crt_ref_t *ref, size_t count)
{
    const crt_value_t *list = NULL;

    OK(crt_get_for(ref, PATIENCE_MS, &list));
    assert_int_equal(crt_value_count(list), count);
    return list;
}

static void each_is_read(void **state)
{
    crt_actor_t *keeper = crt_actor_new(&keeper_class, NULL);
    crt_ref_t *ref = crt_call(keeper, &keeper_numbers);
    int64_t sum = 0;

    OK(read_numbers(get_list(ref, MANY), 0, MANY, &sum));
    assert_int_equal(sum, sum_of_all);
    crt_ref_drop(&ref);
    crt_actor_drop(&keeper);
}

static void they_are_read_from_the_last_to_the_first_too(void **state)
{
    crt_actor_t *keeper = crt_actor_new(&keeper_class, NULL);
    crt_ref_t *ref = crt_call(keeper, &keeper_numbers);
    const crt_value_t *list = get_list(ref, MANY);
    int64_t sum = 0;

    for (size_t i = MANY; i-- > 0;)
        OK(read_numbers(list, i, 1, &sum));
    assert_int_equal(sum, sum_of_all);
    crt_ref_drop(&ref);
    crt_actor_drop(&keeper);
}

/* And then it comes again, when some of it is here and some is not. */
static void some_are_kept_when_their_list_goes(void **state)
{
    static crt_ref_t *kept[MANY];
    crt_actor_t *keeper = crt_actor_new(&keeper_class, NULL);

    for (size_t step = 1; step < 64; step = step * 3 + 1) {
        crt_ref_t *answer = crt_call(keeper, &keeper_list), *ref;
        const crt_value_t *list;
        int64_t number, sum = 0;

        OK(crt_value_read(crt_value_at(get_list(answer, 1), 0), &ref));
        list = get_list(ref, MANY);
        OK(read_numbers(list, 0, MANY / 2, &sum));
        for (size_t i = 0; i < MANY; i++) {
            OK(crt_value_read(crt_value_at(list, i), &ref));
            if (i % step == 0 && !kept[i])
                kept[i] = crt_ref_keep(ref);
        }
        crt_ref_drop(&answer);
        for (size_t i = 0; i < MANY; i++) {
            if (!kept[i])
                continue;
            OK(crt_get_for(kept[i], PATIENCE_MS, &number));
            assert_int_equal(number, i);
            if (i % 3 == step % 3)
                crt_ref_drop(&kept[i]);
        }
    }
    crt_refs_drop(kept, MANY);
    crt_actor_drop(&keeper);
}

static void long_values_and_stored_ones_are_read(void **state)
{
    crt_actor_t *keeper = crt_actor_new(&keeper_class, NULL);
    crt_ref_t *ref = crt_call(keeper, &keeper_texts), *text;
    const crt_value_t *list = get_list(ref, LONG);

    for (int i = 0; i < LONG; i++) {
        crt_bytes_t bytes;

        OK(crt_value_read(crt_value_at(list, (size_t)i), &text));
        OK(crt_get_for(text, PATIENCE_MS, &bytes));
        assert_int_equal(bytes.size, i % 10 ? LONG_BYTES : 3 * LONG_BYTES);
        assert_int_equal(atoi(bytes.data), i);
    }
    crt_ref_drop(&ref);
    crt_actor_drop(&keeper);
}

static void what_is_not_there_yet_is_waited_for_alone_and_together(void **state)
{
    crt_actor_t *keeper = crt_actor_new(&keeper_class, NULL);

    for (int together = 0; together < 2; together++) {
        crt_ref_t *ref = crt_call(keeper, &keeper_tasks), *refs[100];
        const crt_value_t *list = get_list(ref, 100);
        size_t ready;
        int64_t sum = 0;

        for (size_t i = 0; i < 100; i++)
            OK(crt_value_read(crt_value_at(list, i), &refs[i]));
        if (together)
            OK(crt_wait(refs, 100, 100, PATIENCE_MS, NULL, &ready));
        OK(read_numbers(list, 0, 100, &sum));
        assert_int_equal(sum, 100 * 99 / 2);
        crt_ref_drop(&ref);
    }
    crt_actor_drop(&keeper);
}

static void wait_for_end(pid_t pid)
{
    for (int i = 0; kill(pid, 0) == 0; i++) {
        assert_true(i < PATIENCE_MS);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

static void the_owner_dies_in_the_middle(void **state)
{
    crt_actor_t *keeper = crt_actor_new(&keeper_class, NULL);
    crt_ref_t *asked = crt_call(keeper, &keeper_pid);
    crt_ref_t *ref = crt_call(keeper, &keeper_numbers), *one;
    const crt_value_t *list = get_list(ref, MANY);
    int64_t sum = 0, number, pid;
    size_t lost = 0;

    OK(crt_get(asked, &pid));
    crt_ref_drop(&asked);
    OK(read_numbers(list, 0, MANY / 4, &sum));
    OK(crt_actor_kill(keeper, NULL));
    wait_for_end((pid_t)pid);
    for (size_t i = MANY / 4; i < MANY; i++) {
        crt_status_t status;

        OK(crt_value_read(crt_value_at(list, i), &one));
        status = crt_get_for(one, PATIENCE_MS, &number);
        if (status == CRT_OK)
            assert_int_equal(number, i);
        else
            assert_int_equal(status, CRT_ERR_OWNER_DIED);
        lost += status != CRT_OK;
    }
    assert_true(lost > 0); /* no more than some messages' worth was asked for ahead */
    crt_ref_drop(&ref);
    crt_actor_drop(&keeper);
}

static void wait_for_file(const char *path)
{
    for (int i = 0; access(path, F_OK) != 0; i++) {
        assert_true(i < PATIENCE_MS);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

static void who_reads_dies_in_the_middle_and_the_owner_goes_on(void **state)
{
    crt_actor_t *keeper = crt_actor_new(&keeper_class, NULL);
    crt_actor_t *reader = crt_actor_new(&keeper_class, NULL);
    crt_ref_t *ref = crt_call(keeper, &keeper_numbers), *half;
    char directory[] = "/tmp/crt-many-refs-XXXXXX", path[64];
    int64_t sum = 0;

    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/half", directory);
    half = crt_call(reader, &reader_half, ref, (const char *)path);
    wait_for_file(path);
    OK(crt_actor_kill(reader, NULL));
    assert_int_equal(crt_get_for(half, PATIENCE_MS, NULL), CRT_ERR_ACTOR_DIED);
    OK(read_numbers(get_list(ref, MANY), 0, MANY, &sum));
    assert_int_equal(sum, sum_of_all);
    crt_ref_drop(&half);
    crt_ref_drop(&ref);
    crt_actor_drop(&reader);
    crt_actor_drop(&keeper);
    unlink(path);
    rmdir(directory);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_read),
        cmocka_unit_test(they_are_read_from_the_last_to_the_first_too),
        cmocka_unit_test(some_are_kept_when_their_list_goes),
        cmocka_unit_test(long_values_and_stored_ones_are_read),
        cmocka_unit_test(what_is_not_there_yet_is_waited_for_alone_and_together),
        cmocka_unit_test(the_owner_dies_in_the_middle),
        cmocka_unit_test(who_reads_dies_in_the_middle_and_the_owner_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&keeper_class),
                                .tasks = CRT_TASKS(&later), .num_cpus = 2),
                    driver);
}
