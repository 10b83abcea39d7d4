/* SPDX-License-Identifier: Apache-2.0 */
/* Four tasks make steps, and the driver draws one bar for all of them.
 *
 *     ./progress [STEPS]
 */
#include <stdio.h>
#include <stdlib.h>

#include <crt_util.h>

#define TASKS 4

static crt_status_t work_run(crt_call_t *call)
{
    crt_actor_t *progress;
    int steps;

    CRT_TRY(crt_args(call, &progress, &steps));
    for (int i = 0; i < steps; i++) {
        for (volatile int k = 0; k < 1000000; k++) /* the work */
            ;
        CRT_TRY(crt_progress_add(progress, 1));
    }
    return CRT_OK;
}
static const crt_task_t work =
    CRT_TASK(.name = "work", .run = work_run, .signature = "actor, int");

static int driver(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 100;
    crt_actor_t *progress = crt_progress_new(NULL, "working", (int64_t)steps * TASKS);
    crt_ref_t *refs[TASKS];

    for (int i = 0; i < TASKS; i++)
        refs[i] = crt_submit(&work, NULL, progress, steps);
    CRT_CHECK(crt_progress_wait(progress, refs, TASKS, -1));
    printf("%d tasks are done\n", TASKS);
    crt_refs_drop(refs, TASKS);
    crt_actor_drop(&progress);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&work)), driver);
}
