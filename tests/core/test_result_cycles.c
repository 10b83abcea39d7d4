/* SPDX-License-Identifier: Apache-2.0 */
/* Results that are other refs, of other processes: when each is that of the next and the last is
 * that of the first, none of them ever comes. Who waits for one hears so; of a chain that ends he
 * gets the value. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ok.h"
#include "runtime/base/clock.h"
#include <crt.h>

#include <cmocka.h>

#define MOST        6 /* makers */
#define FOUND_MS    2000
#define PATIENCE_MS 60000

/* ---------------------------------------------------------------- in the workers */

static crt_status_t return_in_list(crt_call_t *call, crt_ref_t *ref)
{
    crt_arg_t items[] = {CRT_ARG(ref)};
    crt_status_t status = crt_return(call, crt_list(items, 1));

    crt_ref_drop(&ref);
    return status;
}

/* Keeps refs for others, by number. */
typedef struct box {
    crt_ref_t *ref[MOST];
} box_t;

static crt_status_t box_put_run(void *self, crt_call_t *call)
{
    box_t *box = self;
    const crt_value_t *list;
    crt_ref_t *ref;
    int64_t at;

    CRT_TRY(crt_args(call, &at, &list));
    CRT_TRY(crt_value_read(crt_value_at(list, 0), &ref));
    box->ref[at] = crt_ref_keep(ref);
    return crt_return(call, at);
}
static const crt_method_t box_put =
    CRT_METHOD(.name = "put", .run = box_put_run, .signature = "int, list");

static crt_status_t box_take_run(void *self, crt_call_t *call)
{
    box_t *box = self;
    crt_ref_t *ref;
    int64_t at;

    CRT_TRY(crt_args(call, &at));
    ref = box->ref[at];
    box->ref[at] = NULL;
    return return_in_list(call, ref);
}
static const crt_method_t box_take =
    CRT_METHOD(.name = "take", .run = box_take_run, .signature = "int");

static const crt_actor_class_t box_class =
    CRT_ACTOR_CLASS(.name = "Box", .size = sizeof(box_t),
                    .methods = CRT_METHODS(&box_put, &box_take));

/* ([box], number, path of a pipe): when its other end is opened, the ref in the box is the
 * result. */
static crt_status_t give_run(crt_call_t *call)
{
    const crt_value_t *list;
    const char *path;
    crt_actor_t *box;
    crt_ref_t *taken, *ref;
    crt_status_t status;
    int64_t at;
    FILE *file;

    CRT_TRY(crt_args(call, &list, &at, &path));
    CRT_TRY(crt_value_read(crt_value_at(list, 0), &box));
    file = fopen(path, "re");
    if (!file)
        return crt_fail(call, CRT_ERR_IO, "no pipe %s", path);
    fclose(file);
    taken = crt_call(box, &box_take, at);
    status = crt_get(taken, &list);
    if (status == CRT_OK)
        status = crt_value_read(crt_value_at(list, 0), &ref);
    if (status == CRT_OK)
        status = crt_return(call, ref);
    crt_ref_drop(&taken);
    return status;
}
static const crt_task_t give =
    CRT_TASK(.name = "give", .run = give_run, .signature = "list, int, string");

static crt_status_t pass_run(crt_call_t *call)
{
    int64_t number;

    CRT_TRY(crt_args(call, &number));
    return crt_return(call, number);
}
static const crt_task_t pass =
    CRT_TASK(.name = "pass", .run = pass_run, .signature = "int");

/* [the result of `give`], which is this process's. */
static crt_status_t maker_give_run(void *self, crt_call_t *call)
{
    const crt_value_t *list;
    const char *path;
    crt_actor_t *box;
    int64_t at;

    CRT_TRY(crt_args(call, &list, &at, &path));
    CRT_TRY(crt_value_read(crt_value_at(list, 0), &box));
    crt_arg_t items[] = {CRT_ARG(box)};
    /* Once: what was in the box is gone then. */
    return return_in_list(call, crt_submit(&give, CRT_TASK_OPTIONS(.max_attempts = 1),
                                           crt_list(items, 1), at, path));
}
static const crt_method_t maker_give =
    CRT_METHOD(.name = "give", .run = maker_give_run, .signature = "list, int, string");

/* ([ref]): [the result of a task with that argument]. */
static crt_status_t maker_pass_run(void *self, crt_call_t *call)
{
    const crt_value_t *list;
    crt_ref_t *ref;

    CRT_TRY(crt_args(call, &list));
    CRT_TRY(crt_value_read(crt_value_at(list, 0), &ref));
    return return_in_list(call, crt_submit(&pass, NULL, ref));
}
static const crt_method_t maker_pass =
    CRT_METHOD(.name = "pass", .run = maker_pass_run, .signature = "list");

/* ([ref]): waits for it here. */
static crt_status_t maker_get_run(void *self, crt_call_t *call)
{
    const crt_value_t *list;
    crt_ref_t *ref;
    int64_t value;

    CRT_TRY(crt_args(call, &list));
    CRT_TRY(crt_value_read(crt_value_at(list, 0), &ref));
    CRT_TRY(crt_get(ref, &value));
    return crt_return(call, value);
}
static const crt_method_t maker_get =
    CRT_METHOD(.name = "get", .run = maker_get_run, .signature = "list");

static crt_status_t maker_pid_run(void *self, crt_call_t *call)
{
    return crt_return(call, (int64_t)getpid());
}
static const crt_method_t maker_pid =
    CRT_METHOD(.name = "pid", .run = maker_pid_run, .signature = "");

static const crt_actor_class_t maker_class =
    CRT_ACTOR_CLASS(.name = "Maker", .methods = CRT_METHODS(&maker_give, &maker_pass,
                                                            &maker_get, &maker_pid));

/* ---------------------------------------------------------------- in the driver */

typedef struct scene {
    char folder[32];
    crt_actor_t *box, *maker[MOST];
    crt_ref_t *list[MOST], *result[MOST]; /* of each maker; the second borrowed */
    int count;
} scene_t;

static void path_of(const scene_t *s, int i, char path[64])
{
    snprintf(path, 64, "%s/%d", s->folder, i);
}

/* The only ref in a list. Borrowed. */
static crt_ref_t *only(crt_ref_t *list)
{
    const crt_value_t *value;
    crt_ref_t *ref;

    OK(crt_get_for(list, PATIENCE_MS, &value));
    OK(crt_value_read(crt_value_at(value, 0), &ref));
    return ref;
}

static void put(const scene_t *s, int at, crt_ref_t *ref)
{
    crt_arg_t items[] = {CRT_ARG(ref)};
    crt_ref_t *done = crt_call(s->box, &box_put, at, crt_list(items, 1));

    OK(crt_get_for(done, PATIENCE_MS, NULL));
    crt_ref_drop(&done);
}

/* Each maker has a result that waits for its gate. */
static void begin(scene_t *s, int count)
{
    char path[64];

    *s = (scene_t){.folder = "/tmp/crt-cycles-XXXXXX", .count = count};
    assert_non_null(mkdtemp(s->folder));
    s->box = crt_actor_new(&box_class, NULL);
    for (int i = 0; i < count; i++) {
        crt_arg_t items[] = {CRT_ARG(s->box)};

        path_of(s, i, path);
        assert_int_equal(mkfifo(path, 0600), 0);
        s->maker[i] = crt_actor_new(&maker_class, NULL);
        s->list[i] =
            crt_call(s->maker[i], &maker_give, crt_list(items, 1), i, (const char *)path);
    }
    for (int i = 0; i < count; i++)
        s->result[i] = only(s->list[i]);
}

static void open_gate(const scene_t *s, int i)
{
    char path[64];
    FILE *end;

    path_of(s, i, path);
    end = fopen(path, "we"); /* when the task is there */
    assert_non_null(end);
    fclose(end);
}

static void end(scene_t *s)
{
    char path[64];

    for (int i = 0; i < s->count; i++) {
        crt_ref_drop(&s->list[i]);
        crt_actor_drop(&s->maker[i]);
        path_of(s, i, path);
        unlink(path);
    }
    crt_actor_drop(&s->box);
    rmdir(s->folder);
}

static void link_in_a_ring(const scene_t *s)
{
    for (int i = 0; i < s->count; i++)
        put(s, i, s->result[(i + 1) % s->count]);
}

/* All of them fail, soon. */
static void check_deadlock(const scene_t *s)
{
    uint64_t start = crti_now_ns();

    for (int i = 0; i < s->count; i++) {
        assert_int_equal(crt_get_for(s->result[i], PATIENCE_MS, NULL), CRT_ERR_DEADLOCK);
        assert_non_null(strstr(crt_error_detail(), "a result that waits for itself"));
    }
    assert_true(crti_now_ns() - start < FOUND_MS * CRTI_MS);
}

static void check_ring(int count)
{
    scene_t s;

    begin(&s, count);
    link_in_a_ring(&s);
    for (int i = 0; i < count; i++)
        open_gate(&s, i);
    check_deadlock(&s);
    end(&s);
}

/* ---------------------------------------------------------------- tests */

static void a_result_that_is_itself_fails(void **state)
{
    check_ring(1);
}

static void a_cycle_through_two_processes_is_found(void **state)
{
    check_ring(2);
}

static void a_cycle_through_three_processes_is_found_and_named(void **state)
{
    const char *name;
    int names = 0;
    scene_t s;

    begin(&s, 3);
    link_in_a_ring(&s);
    for (int i = 0; i < 3; i++)
        open_gate(&s, i);
    check_deadlock(&s);
    for (name = crt_error_detail(); (name = strstr(name, "give (process ")); name++)
        names++;
    assert_int_equal(names, 4); /* the first is the last */
    end(&s);
}

/* The second maker's result is that of a task whose argument is the first one's. */
static void a_cycle_through_an_argument_of_a_call_is_found(void **state)
{
    crt_ref_t *list;
    scene_t s;

    begin(&s, 2);
    {
        crt_arg_t items[] = {CRT_ARG(s.result[0])};

        list = crt_call(s.maker[1], &maker_pass, crt_list(items, 1));
    }
    put(&s, 0, only(list));
    put(&s, 1, s.result[0]);
    open_gate(&s, 0);
    open_gate(&s, 1); /* waits for the cycle, and is not part of it */
    check_deadlock(&s);
    assert_int_equal(crt_get_for(only(list), PATIENCE_MS, NULL), CRT_ERR_DEADLOCK);
    crt_ref_drop(&list);
    end(&s);
}

/* A method waits in a get for a result that is that of a call behind it. */
static void a_cycle_through_a_get_ends_that(void **state)
{
    crt_ref_t *got, *behind;
    int64_t pid;
    scene_t s;

    begin(&s, 2);
    {
        crt_arg_t items[] = {CRT_ARG(s.result[0])};

        got = crt_call(s.maker[1], &maker_get, crt_list(items, 1));
    }
    behind = crt_call(s.maker[1], &maker_pid);
    put(&s, 0, behind);
    put(&s, 1, behind);
    open_gate(&s, 0);
    assert_int_equal(crt_get_for(got, PATIENCE_MS, NULL), CRT_ERR_DEADLOCK);
    OK(crt_get_for(s.result[0], PATIENCE_MS, &pid));
    assert_true(pid > 0 && pid != getpid());
    open_gate(&s, 1);
    OK(crt_get_for(s.result[1], PATIENCE_MS, &pid));
    crt_ref_drop(&got);
    crt_ref_drop(&behind);
    end(&s);
}

static void a_chain_through_many_processes_that_ends_is_no_cycle(void **state)
{
    crt_ref_t *list;
    scene_t s;
    int64_t value = 0;

    begin(&s, MOST);
    for (int i = 0; i + 1 < MOST; i++) {
        put(&s, i, s.result[i + 1]);
        open_gate(&s, i);
    }
    /* Probes have gone along it several times. */
    assert_int_equal(crt_get_for(s.result[0], 1500, NULL), CRT_ERR_TIMED_OUT);
    list = crt_put((int64_t)4711);
    put(&s, MOST - 1, list);
    open_gate(&s, MOST - 1);
    for (int i = 0; i < MOST; i++) {
        OK(crt_get_for(s.result[i], PATIENCE_MS, &value));
        assert_int_equal(value, 4711);
    }
    crt_ref_drop(&list);
    end(&s);
}

static void kill_maker(const scene_t *s, int i)
{
    crt_ref_t *ref = crt_call(s->maker[i], &maker_pid);
    int64_t pid;

    OK(crt_get_for(ref, PATIENCE_MS, &pid));
    crt_ref_drop(&ref);
    kill((pid_t)pid, SIGKILL);
}

static void a_chain_whose_middle_dies_ends_with_that(void **state)
{
    scene_t s;

    begin(&s, 3);
    link_in_a_ring(&s);
    open_gate(&s, 0);
    open_gate(&s, 1);
    assert_int_equal(crt_get_for(s.result[0], 500, NULL), CRT_ERR_TIMED_OUT);
    kill_maker(&s, 1);
    assert_int_equal(crt_get_for(s.result[0], PATIENCE_MS, NULL), CRT_ERR_OWNER_DIED);
    open_gate(&s, 2); /* now it is no cycle any more */
    assert_int_equal(crt_get_for(s.result[2], PATIENCE_MS, NULL), CRT_ERR_OWNER_DIED);
    end(&s);
}

static void a_cycle_whose_middle_dies_hangs_nobody(void **state)
{
    crt_status_t status;
    scene_t s;

    begin(&s, 3);
    link_in_a_ring(&s);
    for (int i = 0; i < 3; i++)
        open_gate(&s, i);
    kill_maker(&s, 1);
    for (int i = 0; i < 3; i++) {
        status = crt_get_for(s.result[i], PATIENCE_MS, NULL);
        assert_true(status == CRT_ERR_DEADLOCK || status == CRT_ERR_OWNER_DIED);
    }
    end(&s);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_that_is_itself_fails),
        cmocka_unit_test(a_cycle_through_two_processes_is_found),
        cmocka_unit_test(a_cycle_through_three_processes_is_found_and_named),
        cmocka_unit_test(a_cycle_through_an_argument_of_a_call_is_found),
        cmocka_unit_test(a_cycle_through_a_get_ends_that),
        cmocka_unit_test(a_chain_through_many_processes_that_ends_is_no_cycle),
        cmocka_unit_test(a_chain_whose_middle_dies_ends_with_that),
        cmocka_unit_test(a_cycle_whose_middle_dies_hangs_nobody),
    };

    return cmocka_run_group_tests_name(argc > 1 ? argv[1] : "cycles", tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&box_class, &maker_class),
                                .tasks = CRT_TASKS(&give, &pass), .num_cpus = 16),
                    driver);
}
