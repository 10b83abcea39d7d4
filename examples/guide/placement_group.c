/* SPDX-License-Identifier: Apache-2.0 */
/* Resources reserved together, for tasks and actors that belong together. */
#include <stdio.h>

#include <crt.h>

static crt_status_t inside_run(crt_call_t *call)
{
    crt_placement_group_t *group = crt_placement_group_current();
    crt_status_t status = crt_return(call, group != NULL);

    crt_placement_group_drop(&group);
    return status;
}
static const crt_task_t inside = CRT_TASK(.name = "inside", .run = inside_run);

static crt_status_t nothing_run(void *self, crt_call_t *call)
{
    return crt_return(call, 1);
}
static const crt_method_t nothing =
    CRT_METHOD(.name = "nothing", .run = nothing_run, .signature = "");
static const crt_actor_class_t worker =
    CRT_ACTOR_CLASS(.name = "Worker", .methods = CRT_METHODS(&nothing));

static int driver(int argc, char **argv)
{
    crt_bundle_t bundles[] = {CRT_BUNDLE(.num_cpus = 1), CRT_BUNDLE(.num_cpus = 1),
                              CRT_BUNDLE(.num_cpus = 1)};
    crt_placement_group_t *group = crt_placement_group_new(
        bundles, 2, CRT_PLACEMENT_GROUP_OPTIONS(.strategy = CRT_PLACEMENT_SPREAD));
    crt_actor_t *actor =
        crt_actor_new(&worker, CRT_ACTOR_OPTIONS(.num_cpus = 1, CRT_IN_BUNDLE(group, 0)));
    crt_ref_t *ready = crt_placement_group_ready(group),
              *task = crt_submit(&inside, CRT_TASK_OPTIONS(CRT_IN_BUNDLE(group, 1))),
              *call = crt_call(actor, &nothing);
    crt_placement_group_t *large;
    bool is_ready, is_inside;
    int one;

    CRT_CHECK(crt_get(ready, &is_ready));
    CRT_CHECK(crt_get(task, &is_inside));
    CRT_CHECK(crt_get(call, &one));
    printf("the task was in the group: %s\n", is_inside ? "yes" : "no");
    CRT_CHECK(crt_placement_group_remove(group));
    large = crt_placement_group_new(
        bundles, 3, CRT_PLACEMENT_GROUP_OPTIONS(.if_infeasible = CRT_INFEASIBLE_FAILS));
    if (crt_placement_group_wait(large, -1) == CRT_ERR_UNSCHEDULABLE)
        printf("three CPUs of two: never\n");
    crt_refs_drop((crt_ref_t *[]){ready, task, call}, 3);
    crt_actor_drop(&actor);
    crt_placement_group_drop(&group);
    crt_placement_group_drop(&large);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&inside),
                                .classes = CRT_CLASSES(&worker), .num_cpus = 2),
                    driver);
}
