/* SPDX-License-Identifier: Apache-2.0 */
/* crt_cluster_state tells a driver of everything that the state commands list, by either of their
 * spellings; what is of the driver itself and of its node is there, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crt.h>
#include <crt_placement_group.h>
#include <jansson.h>

#include <cmocka.h>

#include "ok.h"

#define BYTES 300000

static crt_status_t add_run(void *self, crt_call_t *call)
{
    return crt_return(call, 1);
}
static const crt_method_t counter_add =
    CRT_METHOD(.name = "add", .run = add_run, .signature = "");
static const crt_actor_class_t counter =
    CRT_ACTOR_CLASS(.name = "Counter", .size = 8, .methods = CRT_METHODS(&counter_add));

static crt_status_t small_run(crt_call_t *call)
{
    return crt_return(call, 1);
}
static const crt_task_t small = CRT_TASK(.name = "small", .run = small_run);

/* The list; of an answer that is an object, its member `list`. Caller drops it. */
static json_t *ask(const char *what, const char *list)
{
    json_t *all, *rows;
    char *text;

    OK(crt_cluster_state(what, &text));
    all = json_loads(text, 0, NULL);
    crt_free(text);
    rows = json_incref(list ? json_object_get(all, list) : all);
    json_decref(all);
    if (!json_is_array(rows))
        fail_msg("%s is no list", what);
    return rows;
}

static bool has(const json_t *rows, const char *key, const char *value)
{
    const json_t *row;
    size_t i;

    json_array_foreach((json_t *)rows, i, row)
    {
        const char *text = json_string_value(json_object_get(row, key));

        if (text && strcmp(text, value) == 0)
            return true;
    }
    return false;
}

static void expect(const char *what, const char *list, const char *key, const char *value)
{
    json_t *rows = ask(what, list);

    if (!has(rows, key, value)) {
        char *text = json_dumps(rows, JSON_COMPACT);

        fail_msg("%s has nothing with %s %s: %s", what, key, value, text);
    }
    json_decref(rows);
}

static void a_driver_is_told_of_every_kind(void **state)
{
    crt_actor_t *actor = crt_actor_new(&counter, NULL);
    crt_ref_t *sum = crt_call(actor, &counter_add), *task = crt_submit(&small, NULL);

    OK(crt_get(sum, NULL));
    OK(crt_get(task, NULL));
    expect("actors", NULL, "actor_id", crt_actor_id(actor));
    expect("actors_detail", NULL, "actor_id", crt_actor_id(actor));
    expect("tasks", "tasks", "name", "Counter.add");
    expect("tasks", "tasks", "name", "small");
    expect("nodes", NULL, "node_id", crt_node_id());
    expect("jobs", NULL, "job_id", crt_job_id());
    expect("workers", NULL, "actor_id", crt_actor_id(actor));
    expect("workers", NULL, "worker_type", "DRIVER");
    expect("events", NULL, "source_type", "NODE");
    crt_ref_drop(&sum);
    crt_ref_drop(&task);
    crt_actor_drop(&actor);
}

static void a_driver_is_told_of_its_own_objects(void **state)
{
    char *bytes = calloc(1, BYTES);
    crt_ref_t *ref = crt_put(((crt_bytes_t){bytes, BYTES}));
    json_t *objects, *object, *holder;

    free(bytes);
    assert_non_null(ref);
    objects = ask("objects", NULL);
    assert_int_equal(json_array_size(objects), 1);
    object = json_array_get(objects, 0);
    assert_string_equal(json_string_value(json_object_get(object, "node_id")),
                        crt_node_id());
    assert_string_equal(json_string_value(json_object_get(object, "owner_type")),
                        "DRIVER");
    holder = json_array_get(json_object_get(object, "holders"), 0);
    assert_true(json_is_true(json_object_get(holder, "is_owner")));
    json_decref(objects);
    expect("refs", "refs", "worker_type", "DRIVER");
    crt_ref_drop(&ref);
}

static void both_spellings_of_the_commands_are_taken(void **state)
{
    const crt_bundle_t bundles[] = {CRT_BUNDLE(.num_cpus = 1)};
    crt_placement_group_t *group =
        crt_placement_group_new(bundles, 1, CRT_PLACEMENT_GROUP_OPTIONS(.name = "g"));

    OK(crt_placement_group_wait(group, -1));
    expect("placement-groups", NULL, "name", "g");
    expect("placement_groups", NULL, "name", "g");
    expect("cluster-events", NULL, "source_type", "NODE");
    expect("cluster_events", NULL, "source_type", "NODE");
    crt_placement_group_drop(&group);
}

static void what_is_not_known_is_refused(void **state)
{
    char *text;

    assert_int_equal(crt_cluster_state("colours", &text), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "\"colours\""));
    assert_int_equal(crt_cluster_state("", &text), CRT_ERR_INVALID);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_driver_is_told_of_every_kind),
        cmocka_unit_test(a_driver_is_told_of_its_own_objects),
        cmocka_unit_test(both_spellings_of_the_commands_are_taken),
        cmocka_unit_test(what_is_not_known_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&small),
                                .classes = CRT_CLASSES(&counter), .num_cpus = 2),
                    driver);
}
