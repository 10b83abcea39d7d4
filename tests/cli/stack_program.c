/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose driver waits for a call of an actor, which waits for a task, which runs until it
 * is killed: for test_stack.py. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <crt.h>

static crt_status_t turns_run(crt_call_t *call)
{
    struct timespec nap = {0, 1000000};

    while (!crt_cancelled(call))
        nanosleep(&nap, NULL);
    return CRT_OK;
}
static const crt_task_t turns =
    CRT_TASK(.name = "turns", .run = turns_run, .signature = "");

static __attribute__((noinline)) crt_status_t wait_deep_inside(crt_ref_t *ref)
{
    crt_status_t status = crt_get(ref, NULL);

    crt_ref_drop(&ref);
    return status;
}

static crt_status_t ask_run(void *self, crt_call_t *call)
{
    return wait_deep_inside(crt_submit(&turns, NULL));
}
static const crt_method_t asker_ask =
    CRT_METHOD(.name = "ask", .run = ask_run, .signature = "");
static const crt_actor_class_t asker =
    CRT_ACTOR_CLASS(.name = "Asker", .size = 8, .methods = CRT_METHODS(&asker_ask));

static int driver(int argc, char **argv)
{
    crt_actor_t *actor = crt_actor_new(&asker, CRT_ACTOR_OPTIONS(.name = "the-asker"));
    crt_ref_t *object = crt_put(((crt_bytes_t){calloc(1, 300000), 300000}));
    crt_ref_t *ref;

    CRT_CHECK(crt_actor_ready(actor, -1));
    ref = crt_call(actor, &asker_ask);
    puts("ready");
    fflush(stdout);
    CRT_CHECK(crt_get(ref, NULL)); /* until it is killed */
    crt_ref_drop(&ref);
    crt_ref_drop(&object);
    crt_actor_drop(&actor);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.classes = CRT_CLASSES(&asker), .tasks = CRT_TASKS(&turns)), driver);
}
