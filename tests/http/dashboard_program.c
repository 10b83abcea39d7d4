/* SPDX-License-Identifier: Apache-2.0 */
/* A job for the dashboard to show: an actor that lives, a task that failed, one that waits, a
 * placement group. It goes on until it is stopped. */
#include <stdio.h>
#include <unistd.h>

#include <crt.h>

#define PATIENCE_MS 60000

typedef struct tally {
    int count;
} tally_t;

static crt_status_t add_run(void *self, crt_call_t *call)
{
    return crt_return(call, ++((tally_t *)self)->count);
}
static const crt_method_t add =
    CRT_METHOD(.name = "add", .run = add_run, .signature = NULL);
static const crt_actor_class_t tally_class =
    CRT_ACTOR_CLASS(.name = "<b>Tally</b>", .size = sizeof(tally_t),
                    .methods = CRT_METHODS(&add));

static crt_status_t fail_run(crt_call_t *call)
{
    return crt_raise(CRT_ERR_INVALID, "meant to fail");
}
static const crt_task_t fail = CRT_TASK(.name = "fail", .run = fail_run);

static int driver(int argc, char **argv)
{
    crt_actor_t *actor = crt_actor_new(&tally_class, CRT_ACTOR_OPTIONS(.name = "tally"));
    crt_ref_t *one = crt_call(actor, &add), *failed = crt_submit(&fail, NULL);
    crt_ref_t *waits = crt_submit(&fail, CRT_TASK_OPTIONS(.num_cpus = 64));
    crt_placement_group_t *group = crt_placement_group_new(
        &CRT_BUNDLE(.num_cpus = 1), 1, CRT_PLACEMENT_GROUP_OPTIONS(.name = "group"));
    int count;

    if (crt_get_for(one, PATIENCE_MS, &count) != CRT_OK ||
        crt_get_for(failed, PATIENCE_MS, NULL) != CRT_ERR_INVALID) {
        fprintf(stderr, "dashboard_program: %s\n", crt_error_detail());
        return 1;
    }
    printf("everything <i>stands</i>\n");
    fflush(stdout);
    pause();
    crt_placement_group_drop(&group);
    crt_ref_drop(&waits);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.tasks = CRT_TASKS(&fail), .classes = CRT_CLASSES(&tally_class)),
        driver);
}
