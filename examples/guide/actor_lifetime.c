/* SPDX-License-Identifier: Apache-2.0 */
/* An actor lives as long as anybody has a handle of it. */
#include <stdio.h>

#include <crt.h>

static crt_status_t greet_run(void *self, crt_call_t *call)
{
    return crt_return(call, "hello");
}
static const crt_method_t greet =
    CRT_METHOD(.name = "greet", .run = greet_run, .signature = "");
static const crt_actor_class_t greeter =
    CRT_ACTOR_CLASS(.name = "Greeter", .size = 1, .methods = CRT_METHODS(&greet));

/* Calls the actor that it is given. */
static crt_status_t visit_run(crt_call_t *call)
{
    crt_actor_t *actor;
    const char *text;
    crt_ref_t *ref;
    crt_status_t status;

    CRT_TRY(crt_args(call, &actor));
    ref = crt_call(actor, &greet);
    status = crt_get(ref, &text);
    if (status == CRT_OK)
        status = crt_return(call, text);
    crt_ref_drop(&ref);
    return status;
}
static const crt_task_t visit =
    CRT_TASK(.name = "visit", .run = visit_run, .signature = "actor");

static int driver(int argc, char **argv)
{
    crt_actor_t *actor = crt_actor_new(&greeter, CRT_ACTOR_OPTIONS(.name = "greeter"));
    crt_actor_t *found;
    crt_ref_t *ref = crt_submit(&visit, NULL, actor);
    const char *text;

    crt_actor_drop(&actor); /* the task has one */
    CRT_CHECK(crt_get(ref, &text));
    printf("the visitor heard: %s\n", text);
    crt_ref_drop(&ref);
    printf("afterwards: %s\n",
           crt_status_name(crt_actor_find("greeter", NULL, &greeter, &found)));

    actor =
        crt_actor_new(&greeter, CRT_ACTOR_OPTIONS(.name = "greeter", .detached = true));
    CRT_CHECK(crt_actor_ready(actor, 60000));
    crt_actor_drop(&actor);
    CRT_CHECK(crt_actor_find("greeter", NULL, &greeter, &found));
    printf("a detached one lives until it is killed\n");
    CRT_CHECK(crt_actor_kill(found, NULL));
    crt_actor_drop(&found);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.tasks = CRT_TASKS(&visit), .classes = CRT_CLASSES(&greeter)),
        driver);
}
