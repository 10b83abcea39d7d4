/* SPDX-License-Identifier: Apache-2.0 */
/* What state_api.py asks about: state_api_program ACTORS TASKS OBJECTS DEAD. Actors that wait for a
 * resource that no node has, tasks that have ended, objects in the store; it says "ready" when they
 * are known, and ends with its input. */
#include <stdio.h>
#include <stdlib.h>

#include <crt.h>

#define AT_ONCE 1000
#define OBJECT  5000 /* bytes: smaller ones are not in the store */

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

static crt_ref_t **put_objects(long count)
{
    static const char bytes[OBJECT];
    crt_ref_t **refs = calloc((size_t)count + 1, sizeof(*refs));

    for (long i = 0; refs && i < count; i++)
        refs[i] = crt_put(((crt_bytes_t){bytes, OBJECT}));
    return refs;
}

/* Actors that nobody has a handle of any more. */
static void drop_actors(long count)
{
    for (long i = 0; i < count; i++) {
        crt_actor_t *actor =
            crt_actor_new(&waiting, CRT_ACTOR_OPTIONS(.resources = "nowhere=1"));

        CRT_CHECK(crt_actor_kill(actor, NULL));
        crt_actor_drop(&actor);
    }
}

static int driver(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 1;
    long object_count = argc > 3 ? atol(argv[3]) : 0;
    crt_actor_t **actors = calloc((size_t)count, sizeof(*actors));
    crt_ref_t **objects = put_objects(object_count);

    for (long i = 0; actors && i < count; i++)
        actors[i] = crt_actor_new(&waiting, CRT_ACTOR_OPTIONS(.resources = "nowhere=1"));
    drop_actors(argc > 4 ? atol(argv[4]) : 0);
    run_tasks(argc > 2 ? atol(argv[2]) : 0);
    puts("ready");
    fflush(stdout);
    getchar();
    for (long i = 0; actors && i < count; i++)
        crt_actor_drop(&actors[i]);
    if (objects)
        crt_refs_drop(objects, (size_t)object_count);
    free(objects);
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
