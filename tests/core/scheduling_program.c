/* SPDX-License-Identifier: Apache-2.0 */
/* Says where its tasks and actors run, and what becomes of those that can run nowhere
 * (test_scheduling.py).
 *     scheduling_program infeasible FAIL RESOURCES   a task and an actor with these options */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crt.h>

#define WAIT_MS 1500

static crt_status_t nothing_run(crt_call_t *call)
{
    return CRT_OK;
}
static const crt_task_t nothing = CRT_TASK(.name = "nothing", .run = nothing_run);

typedef struct idle {
    int unused;
} idle_t;

static crt_status_t idle_nothing_run(void *self, crt_call_t *call)
{
    return CRT_OK;
}
static const crt_method_t idle_nothing = {"nothing", idle_nothing_run, NULL};
static const crt_actor_class_t idle_class =
    CRT_ACTOR_CLASS(.name = "Idle", .size = sizeof(idle_t),
                    .methods = CRT_METHODS(&idle_nothing));

/* "task -21 what the error says" */
static void tell(const char *what, crt_ref_t *ref)
{
    crt_status_t status = crt_get_for(ref, WAIT_MS, NULL);
    const crt_error_t *error = crt_ref_error(ref);

    printf("%s %d %s\n", what, (int)status, error ? error->text : "");
    crt_ref_drop(&ref);
}

static int infeasible(int fail, const char *resources)
{
    crt_actor_t *actor =
        crt_actor_new(&idle_class, CRT_ACTOR_OPTIONS(.resources = resources,
                                                     .fail_if_infeasible = fail));

    tell("task", crt_submit(&nothing, CRT_TASK_OPTIONS(.resources = resources,
                                                       .fail_if_infeasible = fail)));
    tell("actor", crt_call(actor, &idle_nothing));
    crt_actor_drop(&actor);
    return 0;
}

static int driver(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 4 && strcmp(argv[1], "infeasible") == 0)
        return infeasible(atoi(argv[2]), argv[3]);
    return 2;
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.tasks = CRT_TASKS(&nothing), .classes = CRT_CLASSES(&idle_class)),
        driver);
}
