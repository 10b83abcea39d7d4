/* SPDX-License-Identifier: Apache-2.0 */
/* A program that has one of everything that can be listed, for test_state.py and ray_client.py; it
 * waits for the end of its input. With SAYS in the environment its actors print a line, with TALKS
 * each call of them says which it is, a task prints 1000 lines, and one that waits says so
 * first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <crt.h>

static crt_status_t add_run(void *self, crt_call_t *call)
{
    if (getenv("TALKS"))
        printf("call %d\n", ++*(int *)self);
    if (getenv("SAYS")) {
        puts("an actor says so");
        fflush(stdout);
    }
    return crt_return(call, 1);
}
static const crt_method_t counter_add =
    CRT_METHOD(.name = "add", .run = add_run, .signature = "");
static const crt_actor_class_t counter =
    CRT_ACTOR_CLASS(.name = "Counter", .size = 8, .methods = CRT_METHODS(&counter_add));

static crt_status_t fails_run(crt_call_t *call)
{
    return crt_fail(call, CRT_ERR_USER, "as it should");
}
static const crt_task_t fails =
    CRT_TASK(.name = "fails", .run = fails_run, .signature = "");

static crt_status_t waits_run(crt_call_t *call)
{
    struct timespec nap = {0, 1000000};

    if (getenv("TALKS")) {
        puts("it waits");
        fflush(stdout);
    }
    while (!crt_cancelled(call))
        nanosleep(&nap, NULL);
    return CRT_OK;
}
static const crt_task_t waits =
    CRT_TASK(.name = "waits", .run = waits_run, .signature = "ref");

static crt_status_t says_run(crt_call_t *call)
{
    for (int i = 0; i < 1000; i++)
        printf("line %d\n", i);
    fflush(stdout);
    return CRT_OK;
}
static const crt_task_t says = CRT_TASK(.name = "says", .run = says_run, .signature = "");

/* A list of a ref that nothing else holds. */
static crt_ref_t *put_inside(crt_bytes_t bytes)
{
    crt_ref_t *inner = crt_put(bytes), *outer;
    crt_arg_t item = CRT_ARG(inner);

    outer = crt_put(crt_list(&item, 1));
    crt_ref_drop(&inner);
    return outer;
}

static int driver(int argc, char **argv)
{
    crt_bundle_t bundle = CRT_BUNDLE(.num_cpus = 1);
    crt_placement_group_t *group = crt_placement_group_new(&bundle, 1, NULL);
    crt_actor_t *actors[] = {crt_actor_new(&counter, NULL),
                             crt_actor_new(&counter, NULL)};
    unsigned char *bytes = calloc(1, 1 << 20);
    crt_ref_t *object = crt_put(((crt_bytes_t){bytes, 1 << 20}));
    crt_ref_t *outer = put_inside((crt_bytes_t){bytes, 300000});
    crt_ref_t *given = crt_put(((crt_bytes_t){bytes, 200000}));
    crt_ref_t *refs[6], *failed = crt_submit(&fails, NULL), *waiting;

    CRT_CHECK(crt_placement_group_wait(group, -1));
    for (int i = 0; i < 6; i++)
        refs[i] = crt_call(actors[i % 2], &counter_add);
    for (int i = 0; i < 6; i++)
        CRT_CHECK(crt_get(refs[i], NULL));
    if (crt_get(failed, NULL) != CRT_ERR_USER)
        return 1;
    if (getenv("TALKS")) {
        crt_ref_t *said = crt_submit(&says, NULL);

        CRT_CHECK(crt_get(said, NULL));
        crt_ref_drop(&said);
    }
    waiting = crt_submit(&waits, NULL, given);
    while (crt_get_for(waiting, 300, NULL) != CRT_ERR_TIMED_OUT)
        continue;
    puts("ready");
    fflush(stdout);
    getchar();
    CRT_CHECK(crt_cancel(waiting, NULL));
    crt_refs_drop(refs, 6);
    crt_ref_drop(&failed);
    crt_ref_drop(&waiting);
    crt_ref_drop(&object);
    crt_ref_drop(&outer);
    crt_ref_drop(&given);
    for (int i = 0; i < 2; i++)
        crt_actor_drop(&actors[i]);
    crt_placement_group_drop(&group);
    free(bytes);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&counter),
                                .tasks = CRT_TASKS(&fails, &waits, &says),
                                .no_log_to_driver = getenv("TALKS") != NULL),
                    driver);
}
