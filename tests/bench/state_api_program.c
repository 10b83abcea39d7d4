/* SPDX-License-Identifier: Apache-2.0 */
/* What state_api.py asks about: state_api_program ACTORS TASKS. Actors that wait for a resource that no node has, tasks that have ended;
 * it says "ready" when they are known, and ends with its input. */
#include <stdio.h>
#include <stdlib.h>

#include <crt.h>

#define AT_ONCE 1000

static crt_status_t nothing_run(crt_call_t *call)
{
    return CRT_OK;
}
static const crt_task_t nothing =
    CRT_TASK(.name = "nothing", .run = nothing_run, .signature = "");
static const crt_actor_class_t waiting = CRT_ACTOR_CLASS(.name = "Waiting", .size = 8);

static void run_tasks(long count)
{
    crt_ref_t *refs[AT_ONCE];

    for (long i = 0; i < count; i += AT_ONCE) {
        for (int k = 0; k < AT_ONCE; k++)
            refs[k] = crt_submit(&nothing, NULL);
        for (int k = 0; k < AT_ONCE; k++)
            CRT_CHECK(crt_get(refs[k], NULL));
        crt_refs_drop(refs, AT_ONCE);
    }
}

static int driver(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 1;
    crt_actor_t **actors = calloc((size_t)count, sizeof(*actors));

    for (long i = 0; actors && i < count; i++)
        actors[i] = crt_actor_new(&waiting, CRT_ACTOR_OPTIONS(.resources = "nowhere=1"));
    run_tasks(argc > 2 ? atol(argv[2]) : 0);
    puts("ready");
    fflush(stdout);
    getchar();
    for (long i = 0; actors && i < count; i++)
        crt_actor_drop(&actors[i]);
    free(actors);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.classes = CRT_CLASSES(&waiting), .tasks = CRT_TASKS(&nothing)),
        driver);
}
