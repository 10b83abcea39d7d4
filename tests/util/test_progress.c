/* SPDX-License-Identifier: Apache-2.0 */
/* Progress on a private cluster: what is counted and shown, also when somebody dies. */
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crt_util.h>

#include <cmocka.h>

#define PATIENCE_MS 60000
#define LATE_MS     300

static crt_status_t work_run(crt_call_t *call)
{
    crt_actor_t *progress;
    int steps;
    bool dies;

    CRT_TRY(crt_args(call, &progress, &steps, &dies));
    for (int i = 0; i < steps; i++)
        CRT_TRY(crt_progress_add(progress, 1));
    if (dies)
        raise(SIGKILL);
    return CRT_OK;
}
static const crt_task_t work =
    CRT_TASK(.name = "work", .run = work_run, .signature = "actor, int, bool");

/* Ends when the queue holds an item. */
static crt_status_t await_run(crt_call_t *call)
{
    crt_actor_t *gate;
    crt_ref_t *item;

    CRT_TRY(crt_args(call, &gate));
    CRT_TRY(crt_queue_get(gate, PATIENCE_MS, &item));
    crt_ref_drop(&item);
    return CRT_OK;
}
static const crt_task_t await =
    CRT_TASK(.name = "await", .run = await_run, .signature = "actor");

/* A step that comes later than every result. */
static crt_status_t late_run(crt_call_t *call)
{
    crt_actor_t *progress;

    CRT_TRY(crt_args(call, &progress));
    poll(NULL, 0, LATE_MS);
    return crt_progress_add(progress, 1);
}
static const crt_task_t late =
    CRT_TASK(.name = "late", .run = late_run, .signature = "actor");

/* What crt_progress_wait says on stderr while it is `fd`. */
static char said[65536];

static crt_status_t wait_on(int fd, crt_actor_t *progress, crt_ref_t **refs, size_t count,
                            int64_t timeout_ms)
{
    int kept = dup(STDERR_FILENO);
    crt_status_t status;

    dup2(fd, STDERR_FILENO);
    status = crt_progress_wait(progress, refs, count, timeout_ms);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    return status;
}

static crt_status_t wait_on_file(crt_actor_t *progress, crt_ref_t **refs, size_t count,
                                 int64_t timeout_ms)
{
    FILE *file = tmpfile();
    crt_status_t status;
    size_t size;

    assert_non_null(file);
    status = wait_on(fileno(file), progress, refs, count, timeout_ms);
    rewind(file);
    size = fread(said, 1, sizeof(said) - 1, file);
    said[size] = '\0';
    fclose(file);
    return status;
}

static crt_ref_t *start(crt_actor_t *progress, int steps, bool dies)
{
    return crt_submit(&work, NULL, progress, steps, dies);
}

static void steps_of_many_workers_are_one_line_each_tenth(void **state)
{
    crt_actor_t *progress = crt_progress_new(NULL, "steps", 1000);
    crt_ref_t *refs[4];
    int64_t done, total;

    for (int i = 0; i < 4; i++)
        refs[i] = start(progress, 250, false);
    assert_int_equal(wait_on_file(progress, refs, 4, PATIENCE_MS), CRT_OK);
    assert_non_null(strstr(said, "steps: 1000 of 1000 (100 %)\n"));
    assert_int_equal(crt_progress_read(progress, &done, &total), CRT_OK);
    assert_int_equal(done, 1000);
    assert_int_equal(total, 1000);
    crt_refs_drop(refs, 4);
    crt_actor_drop(&progress);
}

static void a_terminal_gets_a_bar_of_its_width(void **state)
{
    struct winsize size = {.ws_row = 20, .ws_col = 60};
    crt_actor_t *progress = crt_progress_new(NULL, "steps", 10);
    crt_ref_t *ref = start(progress, 10, false);
    int ours, theirs;
    ssize_t got;

    assert_int_equal(openpty(&ours, &theirs, NULL, NULL, &size), 0);
    assert_int_equal(wait_on(theirs, progress, &ref, 1, PATIENCE_MS), CRT_OK);
    got = read(ours, said, sizeof(said) - 1);
    assert_true(got > 0);
    said[got] = '\0';
    assert_non_null(strstr(said, "\rsteps [########"));
    assert_non_null(strstr(said, "] 100% 10/10 "));
    *strstr(said, "\033[K") = '\0'; /* behind the first drawing */
    assert_true(strlen(said) <= 60);
    close(ours);
    close(theirs);
    crt_ref_drop(&ref);
    crt_actor_drop(&progress);
}

static void a_worker_that_dies_makes_no_more_steps(void **state)
{
    crt_actor_t *progress = crt_progress_new(NULL, "steps", 20);
    crt_ref_t *refs[2] = {start(progress, 10, false), start(progress, 3, true)};

    assert_int_equal(wait_on_file(progress, refs, 2, PATIENCE_MS), CRT_OK);
    assert_null(strstr(said, "100 %"));
    assert_non_null(strstr(said, " of 20 ("));
    assert_null(crt_ref_error(refs[0]));
    assert_int_equal(crt_ref_error(refs[1])->status, CRT_ERR_WORKER_DIED);
    crt_refs_drop(refs, 2);
    crt_actor_drop(&progress);
}

static void steps_that_are_still_on_their_way_are_waited_for(void **state)
{
    crt_actor_t *progress = crt_progress_new(NULL, "steps", 2);
    crt_ref_t *other = crt_submit(&late, NULL, progress),
              *ref = start(progress, 1, false);

    assert_int_equal(wait_on_file(progress, &ref, 1, PATIENCE_MS), CRT_OK);
    assert_non_null(strstr(said, "steps: 2 of 2 (100 %)\n"));
    crt_ref_drop(&ref);
    crt_ref_drop(&other);
    crt_actor_drop(&progress);
}

static void the_wait_goes_on_without_its_progress(void **state)
{
    crt_actor_t *progress = crt_progress_new(NULL, "steps", 20);
    crt_actor_t *gate = crt_queue_new(NULL, 0);
    crt_ref_t *ref = crt_submit(&await, NULL, gate), *item = crt_put(1);

    assert_int_equal(crt_actor_kill(progress, NULL), CRT_OK);
    assert_int_equal(wait_on_file(progress, &ref, 1, 300), CRT_ERR_TIMED_OUT);
    assert_non_null(strstr(said, "progress: "));
    assert_null(strstr(strstr(said, "progress: ") + 1, "progress: ")); /* once */
    assert_int_equal(crt_queue_put(gate, item, PATIENCE_MS), CRT_OK);
    assert_int_equal(wait_on_file(progress, &ref, 1, PATIENCE_MS), CRT_OK);
    assert_int_equal(crt_get(ref, NULL), CRT_OK);
    crt_ref_drop(&item);
    crt_ref_drop(&ref);
    crt_actor_drop(&gate);
    crt_actor_drop(&progress);
}

static void a_negative_number_of_steps_is_refused(void **state)
{
    crt_actor_t *progress = crt_progress_new(NULL, "steps", -1);

    assert_int_equal(crt_actor_ready(progress, PATIENCE_MS), CRT_ERR_INVALID);
    crt_actor_drop(&progress);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_many_workers_are_one_line_each_tenth),
        cmocka_unit_test(a_terminal_gets_a_bar_of_its_width),
        cmocka_unit_test(a_worker_that_dies_makes_no_more_steps),
        cmocka_unit_test(steps_that_are_still_on_their_way_are_waited_for),
        cmocka_unit_test(the_wait_goes_on_without_its_progress),
        cmocka_unit_test(a_negative_number_of_steps_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&work, &await, &late), .num_cpus = 2,
                                .object_store_memory = 64 << 20),
                    driver);
}
