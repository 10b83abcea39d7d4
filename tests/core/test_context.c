/* SPDX-License-Identifier: Apache-2.0 */
/* What a program knows of itself: ids, attempts, its own handle, its log; and actors that are
 * stopped from outside. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crt.h>

#include <cmocka.h>

#include "notes.h"
#include "ok.h"

#define PATIENCE_MS 60000

/* ---------------------------------------------------------------- in the workers */

/* "id worker attempt name" */
static crt_status_t describe(crt_call_t *call)
{
    char id[CRT_OBJECT_ID_SIZE], text[300];

    CRT_TRY(crt_task_id(call, id, sizeof(id)));
    snprintf(text, sizeof(text), "%s %s %lld %s", id, crt_worker_id(),
             (long long)crt_call_attempt(call), crt_call_name(call));
    return crt_return(call, text);
}

static crt_status_t who_run(crt_call_t *call)
{
    return describe(call);
}
static const crt_task_t who = CRT_TASK(.name = "who", .run = who_run);

/* Dies, then fails, then tells. */
static crt_status_t third_run(crt_call_t *call)
{
    const char *path;

    CRT_TRY(crt_args(call, &path));
    note(path, '+');
    if (crt_call_attempt(call) == 1)
        kill(getpid(), SIGKILL);
    if (crt_call_attempt(call) == 2)
        return crt_fail(call, CRT_ERR_USER, "once more");
    return describe(call);
}
static const crt_task_t third =
    CRT_TASK(.name = "third", .run = third_run, .signature = "string");

static crt_status_t small_id_run(crt_call_t *call)
{
    char id[CRT_OBJECT_ID_SIZE - 1];
    crt_actor_t *actor;

    if (crt_task_id(call, id, sizeof(id)) != CRT_ERR_INVALID ||
        crt_actor_self(call, &actor) != CRT_ERR_INVALID)
        return crt_fail(call, CRT_ERR_USER, "it was taken");
    return crt_return(call, crt_error_detail());
}
static const crt_task_t small_id = CRT_TASK(.name = "small_id", .run = small_id_run);

static crt_status_t log_run(crt_call_t *call)
{
    const char *path;
    int before = dup(2), fd;

    CRT_TRY(crt_args(call, &path));
    fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    dup2(fd, 2);
    crt_log(CRT_LOG_WARNING, "loss is %g\nat step %d", 2.5, 7);
    crt_log_text(CRT_LOG_ERROR, "100 %s");
    crt_log(CRT_LOG_DEBUG, "not shown");
    dup2(before, 2);
    close(before);
    close(fd);
    return describe(call);
}
static const crt_task_t log_task =
    CRT_TASK(.name = "log", .run = log_run, .signature = "string");

typedef struct node {
    char path[32];
    int64_t count;
    crt_actor_t *self;
} node_t;

static crt_status_t create_run(void *self, crt_call_t *call)
{
    const char *path;

    CRT_TRY(crt_args(call, &path));
    snprintf(((node_t *)self)->path, sizeof(((node_t *)self)->path), "%s", path);
    return CRT_OK;
}

static void node_destroy(void *self)
{
    note(((node_t *)self)->path, 'd');
}

static crt_status_t add_run(void *self, crt_call_t *call)
{
    note(((node_t *)self)->path, '+');
    return crt_return(call, ++((node_t *)self)->count);
}

static crt_status_t self_run(void *self, crt_call_t *call)
{
    crt_actor_t *own;
    crt_status_t status;

    CRT_TRY(crt_actor_self(call, &own));
    status = crt_return(call, own);
    crt_actor_drop(&own);
    return status;
}

/* Until it is cancelled; the first process of the actor dies of it when it shall. */
static crt_status_t hold_run(void *self, crt_call_t *call)
{
    int64_t dies;

    CRT_TRY(crt_args(call, &dies));
    note(((node_t *)self)->path, 'h');
    if (dies && crt_call_attempt(call) == 1)
        kill(getpid(), SIGKILL);
    for (int i = 0; !crt_cancelled(call) && !dies && i < PATIENCE_MS; i++)
        usleep(1000);
    return crt_return(call, crt_call_attempt(call));
}

static crt_status_t stop_self_run(void *self, crt_call_t *call)
{
    crt_actor_t *own;
    crt_status_t status;

    CRT_TRY(crt_actor_self(call, &own));
    status = crt_actor_stop(own, 0);
    crt_actor_drop(&own);
    return crt_return(call, (int)status);
}

static const crt_method_t add =
                              CRT_METHOD(.name = "add", .run = add_run, .signature = ""),
                          own = CRT_METHOD(.name = "self", .run = self_run,
                                           .signature = ""),
                          hold = CRT_METHOD(.name = "hold", .run = hold_run,
                                            .signature = "int"),
                          stop_self = CRT_METHOD(.name = "stop_self",
                                                 .run = stop_self_run, .signature = "");
static const crt_actor_class_t node_class =
    CRT_ACTOR_CLASS(.name = "Node", .size = sizeof(node_t), .create = create_run,
                    .signature = "string", .destroy = node_destroy,
                    .methods = CRT_METHODS(&add, &own, &hold, &stop_self));

/* Calls an actor that it was given. */
static crt_status_t visit_run(crt_call_t *call)
{
    crt_actor_t *actor;
    crt_ref_t *ref;
    int64_t count;
    crt_status_t status;

    CRT_TRY(crt_args(call, &actor));
    ref = crt_call(actor, &add);
    status = crt_get(ref, &count);
    crt_ref_drop(&ref);
    return status == CRT_OK ? crt_return(call, count) : status;
}
static const crt_task_t visit =
    CRT_TASK(.name = "visit", .run = visit_run, .signature = "actor");

/* ---------------------------------------------------------------- ids */

static void the_id_of_a_task_is_that_of_its_ref(void **state)
{
    crt_ref_t *ref = crt_submit(&who, CRT_TASK_OPTIONS(.name = "epoch 7")),
              *kept = crt_ref_keep(ref);
    char id[CRT_OBJECT_ID_SIZE], same[CRT_OBJECT_ID_SIZE], worker[64], said[64], name[64];
    const char *text;
    int attempt;

    OK(crt_ref_id(ref, id, sizeof(id)));
    OK(crt_ref_id(kept, same, sizeof(same)));
    assert_string_equal(id, same);
    OK(crt_get(ref, &text));
    assert_int_equal(sscanf(text, "%63s %63s %d %63[^\n]", said, worker, &attempt, name),
                     4);
    assert_string_equal(said, id);
    assert_int_equal(strlen(worker), 32);
    assert_string_not_equal(worker, crt_worker_id());
    assert_int_equal(strlen(crt_worker_id()), 32);
    assert_memory_equal(id, crt_worker_id(), 32); /* this process owns it */
    assert_int_equal(attempt, 1);
    assert_string_equal(name, "epoch 7");
    assert_int_equal(crt_ref_id(ref, id, 48), CRT_ERR_INVALID);
    assert_int_equal(crt_ref_id(NULL, id, sizeof(id)), CRT_ERR_INVALID);
    crt_ref_drop(&ref);
    crt_ref_drop(&kept);
}

static void a_call_that_is_made_again_knows_it_and_keeps_its_id(void **state)
{
    crt_ref_t *ref = crt_submit(
        &third, CRT_TASK_OPTIONS(.retry_exceptions = CRT_STATUSES(CRT_ERR_USER)), notes);
    char id[CRT_OBJECT_ID_SIZE], wanted[80];
    const char *text;

    OK(crt_ref_id(ref, id, sizeof(id)));
    OK(crt_get_for(ref, PATIENCE_MS, &text));
    assert_int_equal(notes_in(notes), 3);
    assert_memory_equal(text, id, strlen(id));
    snprintf(wanted, sizeof(wanted), " 3 third");
    assert_non_null(strstr(text, wanted));
    crt_ref_drop(&ref);
}

static void a_task_has_no_actor_and_an_id_needs_room(void **state)
{
    crt_ref_t *ref = crt_submit(&small_id, NULL);
    const char *text;

    OK(crt_get(ref, &text));
    assert_string_equal(text, "small_id is no method: it has no actor");
    crt_ref_drop(&ref);
}

/* ---------------------------------------------------------------- the log */

static void a_line_of_the_log_says_when_how_bad_and_in_which_call(void **state)
{
    crt_ref_t *ref = crt_submit(&log_task, NULL, notes);
    char id[CRT_OBJECT_ID_SIZE], line[300], wanted[300];
    const char *text;
    FILE *file;

    OK(crt_ref_id(ref, id, sizeof(id)));
    OK(crt_get(ref, &text));
    file = fopen(notes, "r");
    assert_non_null(fgets(line, sizeof(line), file));
    snprintf(wanted, sizeof(wanted), " WARNING log %s loss is 2.5 at step 7\n", id);
    assert_string_equal(line + strlen("2026-01-31 12:00:00.123"), wanted);
    assert_int_equal(line[10], ' ');
    assert_non_null(fgets(line, sizeof(line), file));
    snprintf(wanted, sizeof(wanted), " ERROR log %s 100 %%s\n", id);
    assert_string_equal(line + strlen("2026-01-31 12:00:00.123"), wanted);
    assert_null(fgets(line, sizeof(line), file));
    fclose(file);
    crt_ref_drop(&ref);
}

/* ---------------------------------------------------------------- the own handle */

static int64_t count_of(crt_ref_t *ref)
{
    int64_t count;

    OK(crt_get_for(ref, PATIENCE_MS, &count));
    crt_ref_drop(&ref);
    return count;
}

static void an_actor_gives_its_own_handle_away(void **state)
{
    crt_actor_t *actor = crt_actor_new(&node_class, NULL, notes), *other, *kept;
    crt_ref_t *ref = crt_call(actor, &own), *again = crt_call(actor, &own);

    OK(crt_get(ref, &other));
    assert_string_equal(crt_actor_id(other), crt_actor_id(actor));
    kept = crt_actor_keep(other);
    OK(crt_get(again, &other));
    crt_ref_drop(&ref);
    crt_ref_drop(&again);
    assert_int_equal(count_of(crt_submit(&visit, NULL, kept)), 1);
    crt_actor_drop(&actor); /* the other handle keeps it alive */
    assert_int_equal(count_of(crt_call(kept, &add)), 2);
    crt_actor_drop(&kept);
    wait_for_notes(notes, 3); /* with the last handle it ends, and its destroy runs */
}

/* ---------------------------------------------------------------- stopped from outside */

static void expect_dead(crt_actor_t *actor)
{
    crt_ref_t *ref = crt_call(actor, &add);

    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_ACTOR_DIED);
    crt_ref_drop(&ref);
}

static void an_actor_that_is_stopped_does_first_what_it_was_asked_for(void **state)
{
    crt_actor_t *actor =
        crt_actor_new(&node_class, CRT_ACTOR_OPTIONS(.max_restarts = -1), notes);
    crt_ref_t *refs[20];

    for (int i = 0; i < 20; i++)
        refs[i] = crt_call(actor, &add);
    OK(crt_actor_stop(actor, PATIENCE_MS));
    for (int i = 0; i < 20; i++)
        assert_int_equal(count_of(refs[i]), i + 1);
    expect_dead(actor);
    OK(crt_actor_stop(actor, 0)); /* again */
    OK(crt_actor_kill(actor, NULL));
    OK(crt_actor_stop(actor, 0));
    wait_for_notes(notes, 21);
    assert_int_equal(notes_in(notes), 21); /* destroy ran once */
    crt_actor_drop(&actor);
}

static void one_that_does_not_end_in_time_is_killed(void **state)
{
    crt_actor_t *actor =
        crt_actor_new(&node_class, CRT_ACTOR_OPTIONS(.max_restarts = -1), notes);
    crt_ref_t *ref = crt_call(actor, &hold, 0);

    wait_for_notes(notes, 1);
    assert_int_equal(crt_actor_stop(actor, 50), CRT_ERR_TIMED_OUT);
    assert_non_null(strstr(crt_error_detail(), "was killed"));
    /* Cancelled by its end, the call may still have answered. */
    assert_int_not_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_TIMED_OUT);
    expect_dead(actor);
    crt_ref_drop(&ref);
    crt_actor_drop(&actor);
}

static void one_whose_process_dies_meanwhile_is_stopped_in_the_next(void **state)
{
    crt_actor_t *actor = crt_actor_new(
        &node_class, CRT_ACTOR_OPTIONS(.max_restarts = 1, .max_task_retries = 1), notes);
    crt_ref_t *ref = crt_call(actor, &hold, 1);

    OK(crt_actor_stop(actor, PATIENCE_MS));
    assert_int_equal(count_of(ref), 2); /* the second attempt */
    expect_dead(actor);
    crt_actor_drop(&actor);
}

static void one_whose_process_dies_for_good_has_stopped(void **state)
{
    crt_actor_t *actor = crt_actor_new(&node_class, NULL, notes);
    crt_ref_t *ref = crt_call(actor, &hold, 1);

    OK(crt_actor_stop(actor, PATIENCE_MS));
    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_ACTOR_DIED);
    crt_ref_drop(&ref);
    crt_actor_drop(&actor);
}

static void an_actor_can_not_wait_for_its_own_end(void **state)
{
    crt_actor_t *actor = crt_actor_new(&node_class, NULL, notes);

    assert_int_equal(count_of(crt_call(actor, &stop_self)), CRT_ERR_DEADLOCK);
    assert_int_equal(crt_actor_stop(actor, -1), CRT_ERR_INVALID);
    assert_int_equal(crt_actor_stop(NULL, 0), CRT_ERR_INVALID);
    crt_actor_drop(&actor);
}

static int driver(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, notes_begin, notes_end)
    const struct CMUnitTest tests[] = {
        TEST(the_id_of_a_task_is_that_of_its_ref),
        TEST(a_call_that_is_made_again_knows_it_and_keeps_its_id),
        TEST(a_task_has_no_actor_and_an_id_needs_room),
        TEST(a_line_of_the_log_says_when_how_bad_and_in_which_call),
        TEST(an_actor_gives_its_own_handle_away),
        TEST(an_actor_that_is_stopped_does_first_what_it_was_asked_for),
        TEST(one_that_does_not_end_in_time_is_killed),
        TEST(one_whose_process_dies_meanwhile_is_stopped_in_the_next),
        TEST(one_whose_process_dies_for_good_has_stopped),
        TEST(an_actor_can_not_wait_for_its_own_end),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.classes = CRT_CLASSES(&node_class),
                    .tasks = CRT_TASKS(&who, &third, &small_id, &log_task, &visit),
                    .num_cpus = 2, .object_store_memory = 32 << 20),
        driver);
}
