/* SPDX-License-Identifier: Apache-2.0 */
/* Calls whose process dies: made again as often as asked, else failed; and nothing of the earlier
 * tries is left. How often something ran is counted in the bytes of a file. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <crt.h>

#include <cmocka.h>

#include "notes.h"
#include "ok.h"

#define STORE_BYTES (32 << 20)
#define PATIENCE_MS 60000

static const int64_t BIG = 4 << 20;

/* ---------------------------------------------------------------- in the workers */

/* Dies in its first `deaths` runs; gives the number of the run. */
static crt_status_t try_run(crt_call_t *call)
{
    const char *path;
    int64_t deaths, run;

    CRT_TRY(crt_args(call, &path, &deaths));
    run = note(path, '+');
    if (run <= deaths)
        kill(getpid(), SIGKILL);
    return crt_return(call, run);
}
static const crt_task_t try_task =
    CRT_TASK(.name = "try", .run = try_run, .signature = "string, int");

/* Dies, or leaves a note that it ran. */
static crt_status_t one_of_many_run(crt_call_t *call)
{
    const char *path;
    int64_t number;
    bool is_deadly;
    int fd;

    CRT_TRY(crt_args(call, &path, &number, &is_deadly));
    if (is_deadly)
        kill(getpid(), SIGKILL);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || pwrite(fd, "+", 1, (off_t)number) != 1)
        return crt_fail(call, CRT_ERR_IO, "%s", path);
    close(fd);
    return crt_return(call, number);
}
static const crt_task_t one_of_many =
    CRT_TASK(.name = "one_of_many", .run = one_of_many_run,
             .signature = "string, int, bool");

static crt_status_t refuse_run(crt_call_t *call)
{
    const char *path;

    CRT_TRY(crt_args(call, &path));
    note(path, '+');
    return crt_fail(call, CRT_ERR_INVALID, "on purpose");
}
static const crt_task_t refuse_task =
    CRT_TASK(.name = "refuse", .run = refuse_run, .signature = "string");

static crt_status_t return_big(crt_call_t *call, bool in_place, int64_t run)
{
    unsigned char *bytes;
    crt_object_t *object;
    crt_tensor_t view;
    crt_status_t status;

    if (in_place) {
        CRT_TRY(crt_object_create(CRT_DTYPE_UINT8, 1, &BIG, &object, &view));
        memset(view.data, (int)run, (size_t)BIG);
        return crt_return(call, object);
    }
    bytes = malloc((size_t)BIG);
    memset(bytes, (int)run, (size_t)BIG);
    view = crt_tensor_view(CRT_DTYPE_UINT8, 1, &BIG, bytes);
    status = crt_return(call, (const crt_tensor_t *)&view);
    free(bytes);
    return status;
}

/* Has stored its result, and not told of it, when it dies (deaths > 0) or fails (-1). */
static crt_status_t leave_run(crt_call_t *call)
{
    const char *path;
    int64_t deaths, run;
    bool in_place;

    CRT_TRY(crt_args(call, &path, &deaths, &in_place));
    run = note(path, '+');
    CRT_TRY(return_big(call, in_place, run));
    if (run <= deaths)
        kill(getpid(), SIGKILL);
    return deaths < 0 ? crt_fail(call, CRT_ERR_INVALID, "on purpose") : CRT_OK;
}
static const crt_task_t leave_task =
    CRT_TASK(.name = "leave", .run = leave_run, .signature = "string, int, bool");

/* Notes `letter`; dies when it is 'b' and noted for the first time. */
static crt_status_t fragile_note_run(void *self, crt_call_t *call)
{
    const char *path;
    int64_t letter;
    char text[64] = "";
    int fd;

    CRT_TRY(crt_args(call, &path, &letter));
    note(path, (char)letter);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
        abort();
    close(fd);
    if (letter == 'b' && strchr(text, 'b') == strrchr(text, 'b'))
        kill(getpid(), SIGKILL);
    return crt_return(call, letter);
}
static const crt_method_t fragile_note =
    CRT_METHOD(.name = "note", .run = fragile_note_run, .signature = "string, int");

static crt_status_t fragile_try_run(void *self, crt_call_t *call)
{
    return try_run(call);
}
static const crt_method_t fragile_try =
    CRT_METHOD(.name = "try", .run = fragile_try_run, .signature = "string, int");

static const crt_actor_class_t fragile_class =
    CRT_ACTOR_CLASS(.name = "Fragile",
                    .methods = CRT_METHODS(&fragile_note, &fragile_try));

/* By a handle that was passed. */
static crt_status_t call_try_run(crt_call_t *call)
{
    crt_actor_t *actor;
    const char *path;
    int64_t deaths, run;
    crt_ref_t *ref;
    crt_status_t status;

    CRT_TRY(crt_args(call, &actor, &path, &deaths));
    ref = crt_call(actor, &fragile_try, path, deaths);
    status = crt_get(ref, &run);
    crt_ref_drop(&ref);
    return status == CRT_OK ? crt_return(call, run) : status;
}
static const crt_task_t call_try_task =
    CRT_TASK(.name = "call_try", .run = call_try_run, .signature = "actor, string, int");

/* ---------------------------------------------------------------- in the driver */

static const char *noted(void)
{
    static char text[256];
    FILE *file = fopen(notes, "re");
    size_t size = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

    text[size] = '\0';
    if (file)
        fclose(file);
    return text;
}

static void expect_int(crt_ref_t *ref, int64_t wanted)
{
    int64_t value;

    OK(crt_get_for(ref, PATIENCE_MS, &value));
    assert_int_equal(value, wanted);
    crt_ref_drop(&ref);
}

static void expect_death(crt_ref_t *ref, crt_status_t status, const char *words)
{
    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), status);
    if (!strstr(crt_error_detail(), words))
        fail_msg("\"%s\" is not in \"%s\"", words, crt_error_detail());
    assert_true(crt_ref_error(ref)->may_have_run);
    crt_ref_drop(&ref);
}

static void without_retries_a_task_runs_at_most_once(void **state)
{
    expect_death(crt_submit(&try_task, CRT_TASK_OPTIONS(.max_attempts = 1), notes, 1),
                 CRT_ERR_WORKER_DIED, "signal 9");
    assert_string_equal(noted(), "+");
}

static void a_task_whose_worker_dies_runs_again(void **state)
{
    expect_int(crt_submit(&try_task, CRT_TASK_OPTIONS(.max_attempts = 4), notes, 3), 4);
    assert_string_equal(noted(), "++++");
}

static void a_task_runs_no_more_often_than_asked(void **state)
{
    expect_death(crt_submit(&try_task, CRT_TASK_OPTIONS(.max_attempts = 3), notes, 100),
                 CRT_ERR_WORKER_DIED, "the last of 3 tries");
    assert_string_equal(noted(), "+++");
}

static void an_error_that_a_task_returns_is_no_reason_to_run_it_again(void **state)
{
    crt_ref_t *ref =
        crt_submit(&refuse_task, CRT_TASK_OPTIONS(.max_attempts = CRT_UNLIMITED), notes);

    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_INVALID);
    crt_ref_drop(&ref);
    assert_string_equal(noted(), "+");
}

static void calls_of_an_actor_are_made_again_in_their_order(void **state)
{
    crt_actor_t *fragile = crt_actor_new(
        &fragile_class, CRT_ACTOR_OPTIONS(.max_restarts = 1, .max_task_retries = 1));
    crt_ref_t *refs[5];

    OK(crt_actor_ready(fragile, PATIENCE_MS));
    for (int i = 0; i < 5; i++)
        refs[i] = crt_call(fragile, &fragile_note, notes, 'a' + i);
    for (int i = 0; i < 5; i++)
        expect_int(refs[i], 'a' + i);
    crt_actor_drop(&fragile);
    /* "a" may have been told of or not when its process died. */
    assert_true(!strcmp(noted(), "abbcde") || !strcmp(noted(), "ababcde"));
}

static void a_handle_that_was_passed_makes_calls_again_too(void **state)
{
    crt_actor_t *fragile = crt_actor_new(
        &fragile_class, CRT_ACTOR_OPTIONS(.max_restarts = -1, .max_task_retries = -1));

    expect_int(crt_submit(&call_try_task, NULL, fragile, notes, 5), 6);
    crt_actor_drop(&fragile);
}

static void a_call_ends_with_its_actor_when_restarts_are_used_up(void **state)
{
    crt_actor_t *fragile = crt_actor_new(
        &fragile_class, CRT_ACTOR_OPTIONS(.max_restarts = 2, .max_task_retries = -1));

    expect_death(crt_call(fragile, &fragile_try, notes, 100), CRT_ERR_ACTOR_DIED,
                 "the last of 3 tries");
    crt_actor_drop(&fragile);
    assert_string_equal(noted(), "+++");
}

static void a_call_of_a_restarted_actor_is_made_once_unless_asked(void **state)
{
    crt_actor_t *fragile =
        crt_actor_new(&fragile_class, CRT_ACTOR_OPTIONS(.max_restarts = -1));

    expect_death(crt_call(fragile, &fragile_try, notes, 1), CRT_ERR_ACTOR_DIED,
                 "signal 9");
    crt_actor_drop(&fragile);
    assert_string_equal(noted(), "+");
}

static void options_of_retries_are_checked(void **state)
{
    crt_ref_t *ref =
        crt_submit(&try_task, CRT_TASK_OPTIONS(.max_attempts = -3), notes, 0);
    crt_actor_t *actor =
        crt_actor_new(&fragile_class, CRT_ACTOR_OPTIONS(.max_task_retries = 1));

    assert_int_equal(crt_get(ref, NULL), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "max_attempts"));
    crt_ref_drop(&ref);
    assert_int_equal(crt_actor_ready(actor, PATIENCE_MS), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "needs max_restarts"));
    crt_actor_drop(&actor);
}

#define MANY  600
#define EVERY 100 /* of so many one dies */

static void tasks_behind_one_that_kills_their_worker_run_elsewhere(void **state)
{
    crt_ref_t *refs[MANY];
    char ran[MANY] = {0};
    int fd, failed = 0;

    for (int i = 0; i < MANY; i++)
        refs[i] = crt_submit(&one_of_many, CRT_TASK_OPTIONS(.max_attempts = 1), notes, i,
                             i % EVERY == EVERY / 2);
    crt_refs_wait(refs, MANY, CRT_REFS_WAIT_OPTIONS(.past_errors = true), PATIENCE_MS,
                  NULL);
    fd = open(notes, O_RDONLY | O_CLOEXEC);
    assert_true(pread(fd, ran, MANY, 0) > 0);
    close(fd);
    for (int i = 0; i < MANY; i++) {
        crt_status_t status = crt_get_for(refs[i], PATIENCE_MS, NULL);
        bool is_deadly = i % EVERY == EVERY / 2;

        if (status != CRT_OK)
            assert_int_equal(status, CRT_ERR_WORKER_DIED);
        else
            assert_false(is_deadly);
        if (!is_deadly)
            assert_int_equal(ran[i], '+'); /* its answer may be lost with its worker */
        failed += status != CRT_OK;
    }
    print_message("%d of %d failed, %d of them died\n", failed, MANY, MANY / EVERY);
    crt_refs_drop(refs, MANY);
}

/* ---------------------------------------------------------------- what they leave */

static crt_ref_t *leave(int64_t max_attempts, int64_t deaths, bool in_place)
{
    assert_int_equal(truncate(notes, 0), 0);
    return crt_submit(&leave_task, CRT_TASK_OPTIONS(.max_attempts = max_attempts), notes,
                      deaths, in_place);
}

/* More of them than the store holds: each would fail if those before were still there. */
static void what_a_worker_stored_before_it_died_is_freed(void **state)
{
    for (int i = 0; i < 20; i++)
        expect_death(leave(1, 1, i % 2), CRT_ERR_WORKER_DIED, "signal 9");
    for (int i = 0; i < 20; i++) {
        crt_ref_t *ref = leave(2, 1, i % 2);
        const crt_tensor_t *bytes;

        OK(crt_get_for(ref, PATIENCE_MS, &bytes));
        assert_int_equal(crt_tensor_count(bytes), BIG);
        assert_int_equal(((const unsigned char *)bytes->data)[BIG - 1], 2);
        crt_ref_drop(&ref);
    }
}

static void what_a_task_returned_before_it_failed_is_freed(void **state)
{
    for (int i = 0; i < 20; i++) {
        crt_ref_t *ref = leave(0, -1, i % 2);

        assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_INVALID);
        assert_non_null(strstr(crt_error_detail(), "on purpose"));
        crt_ref_drop(&ref);
    }
}

static int driver(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, notes_begin, notes_end)
    const struct CMUnitTest tests[] = {
        TEST(without_retries_a_task_runs_at_most_once),
        TEST(a_task_whose_worker_dies_runs_again),
        TEST(a_task_runs_no_more_often_than_asked),
        TEST(an_error_that_a_task_returns_is_no_reason_to_run_it_again),
        TEST(calls_of_an_actor_are_made_again_in_their_order),
        TEST(a_handle_that_was_passed_makes_calls_again_too),
        TEST(a_call_ends_with_its_actor_when_restarts_are_used_up),
        TEST(a_call_of_a_restarted_actor_is_made_once_unless_asked),
        TEST(tasks_behind_one_that_kills_their_worker_run_elsewhere),
        TEST(options_of_retries_are_checked),
        TEST(what_a_worker_stored_before_it_died_is_freed),
        TEST(what_a_task_returned_before_it_failed_is_freed),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&fragile_class),
                                .tasks = CRT_TASKS(&try_task, &one_of_many, &refuse_task,
                                                   &leave_task, &call_try_task),
                                .num_cpus = 2, .object_store_memory = STORE_BYTES),
                    driver);
}
