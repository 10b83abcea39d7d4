/* SPDX-License-Identifier: Apache-2.0 */
/* A program that gives every struct of the public interface to the library, compiled with the
 * headers of one version and run with the library of another one. GROWN, where it is defined, is a
 * struct's name: its newest member is set, which an older library does not have. Prints "all done",
 * or which call failed and why.
 *
 * Usage: program [case]: without a case, all that the headers have.
 */
#include <crt.h>
#include <crt_collective.h>

#include <stdio.h>
#include <string.h>

#ifdef GROWN
#    define NEW , .grown_flag = true
#else
#    define NEW
#endif
#define WAIT_MS 60000

/* ---------------------------------------------------------------- what the program defines */

static crt_status_t add_run(crt_call_t *call)
{
    int64_t a, b;

    CRT_TRY(crt_args(call, &a, &b));
    return crt_return(call, a + b);
}
static const crt_task_t add =
    CRT_TASK(.name = "add", .run = add_run, .signature = "int, int", .max_calls = 100);

struct counter {
    int64_t count;
};
static crt_status_t up_run(void *self, crt_call_t *call)
{
    return crt_return(call, ++((struct counter *)self)->count);
}
static const crt_method_t up = CRT_METHOD(.name = "up", .run = up_run, .signature = "");

static crt_status_t meet_run(void *self, crt_call_t *call)
{
    crt_group_t *group;
    float one = 1;
    crt_tensor_t tensor = crt_tensor_floats(&one, 1);
    crt_operation_t *operation;

    CRT_TRY(crt_group_join(1, 0, CRT_GROUP_OPTIONS(.name = "abi", .limit_ms = WAIT_MS),
                           &group));
    CRT_TRY(
        crt_group_post(group,
                       CRT_COLLECTIVE(.kind = CRT_COLLECTIVE_ALLREDUCE, .input = &tensor,
                                      .output = &tensor, .reduction = CRT_REDUCE_SUM),
                       &operation));
    CRT_TRY(crt_operation_wait(&operation));
    crt_group_drop(&group);
    return crt_return(call, (int64_t)one);
}
static const crt_method_t meet =
    CRT_METHOD(.name = "meet", .run = meet_run, .signature = "");
static const crt_concurrency_group_t beside =
    CRT_CONCURRENCY_GROUP(.name = "beside", .max_concurrency = 2,
                          .methods = CRT_METHODS(&meet));
static const crt_actor_class_t counter =
    CRT_ACTOR_CLASS(.name = "counter", .size = sizeof(struct counter),
                    .methods = CRT_METHODS(&up, &meet),
                    .concurrency_groups = CRT_CONCURRENCY_GROUPS(&beside));

/* ---------------------------------------------------------------- what it does */

static int fails(const char *what, crt_status_t status)
{
    printf("%s: %s: %s\n", what, crt_status_name(status), crt_error_detail());
    return 1;
}

static int expect(const char *what, crt_ref_t *ref, int64_t wanted)
{
    int64_t got = 0;
    crt_status_t status = crt_get_for(ref, WAIT_MS, &got);
    int failed = status == CRT_OK ? 0 : fails(what, status);

    crt_ref_drop(&ref);
    if (failed)
        return failed;
    if (got != wanted)
        printf("%s: %lld, not %lld\n", what, (long long)got, (long long)wanted);
    return got != wanted;
}

static int tasks(void)
{
    crt_ref_t *ref = crt_submit(
        &add, CRT_TASK_OPTIONS(.num_cpus = 1, .max_attempts = 2, .limit_ms = WAIT_MS NEW),
        2, 3);
    crt_status_t status;

    if (expect("task", ref, 5))
        return 1;
    ref = crt_submit(&add, NULL, 1, 1);
    status = crt_cancel(ref, CRT_CANCEL_OPTIONS(.not_recursive = true NEW));
    if (status != CRT_OK && status != CRT_ERR_NOT_FOUND)
        return fails("cancel", status);
    crt_ref_drop(&ref);
    return 0;
}

static int use_actor(crt_actor_t *actor)
{
    crt_actor_t *found = NULL;
    crt_status_t status;

    if (expect("call", crt_call(actor, &up), 1) ||
        expect("call with",
               crt_call_with(actor, &up, CRT_CALL_OPTIONS(.name = "once" NEW)), 2) ||
        expect("group", crt_call(actor, &meet), 1))
        return 1;
    status =
        crt_actor_find("abi", CRT_FIND_OPTIONS(.name_space = NULL NEW), &counter, &found);
    crt_actor_drop(&found);
    if (status != CRT_OK)
        return fails("find", status);
    status = crt_actor_kill(actor, CRT_KILL_OPTIONS(.restart = false NEW));
    if (status != CRT_OK)
        return fails("kill", status);
    return 0;
}

static int actors(void)
{
    crt_actor_t *actor =
        crt_actor_new(&counter, CRT_ACTOR_OPTIONS(.name = "abi", .max_restarts = 1 NEW));
    int failed = use_actor(actor);

    crt_actor_drop(&actor);
    return failed;
}

static int groups(void)
{
    crt_bundle_t bundles[] = {CRT_BUNDLE(.num_cpus = 0.25), CRT_BUNDLE(.num_cpus = 0.5)};
    crt_placement_group_t *group = crt_placement_group_new(
        bundles, 2, CRT_PLACEMENT_GROUP_OPTIONS(.strategy = CRT_PLACEMENT_PACK NEW));
    crt_status_t status = crt_placement_group_wait(group, WAIT_MS);
    int failed = status == CRT_OK ? 0 : fails("placement group", status);

    if (!failed &&
        expect("task in a bundle",
               crt_submit(&add,
                          CRT_TASK_OPTIONS(.num_cpus = 0.5, CRT_IN_BUNDLE(group, 1)), 4,
                          5),
               9))
        failed = 1;
    status = failed ? CRT_OK : crt_placement_group_remove(group);
    crt_placement_group_drop(&group);
    return status == CRT_OK ? failed : fails("remove", status);
}

static int driver(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } cases[] = {{"tasks", tasks}, {"actors", actors}, {"groups", groups}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        if ((argc < 2 || strcmp(argv[1], cases[i].name) == 0) && cases[i].run())
            return 1;
    printf("all done by %s with headers of %s\n", crt_version(), CRT_VERSION_TEXT);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&add),
                                .classes = CRT_CLASSES(&counter), .num_cpus = 2),
                    driver);
}
