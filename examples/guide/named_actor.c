/* SPDX-License-Identifier: Apache-2.0 */
/* An actor that others find by its name, that is restarted, and that is ended. */
#include <stdio.h>
#include <unistd.h>

#include <crt.h>

struct counter {
    int value;
};

static crt_status_t add_run(void *self, crt_call_t *call)
{
    struct counter *c = self;
    int amount;

    CRT_TRY(crt_args(call, &amount));
    c->value += amount;
    return crt_return(call, c->value);
}
static const crt_method_t add =
    CRT_METHOD(.name = "add", .run = add_run, .signature = "int");

static crt_status_t crash_run(void *self, crt_call_t *call)
{
    _exit(1);
}
static const crt_method_t crash =
    CRT_METHOD(.name = "crash", .run = crash_run, .signature = "");

static const crt_actor_class_t counter =
    CRT_ACTOR_CLASS(.name = "Counter", .size = sizeof(struct counter),
                    .methods = CRT_METHODS(&add, &crash));

/* Any process of the cluster may do this. */
static crt_status_t add_to(const char *name, int amount)
{
    crt_actor_t *found;
    crt_ref_t *ref;
    int value;
    crt_status_t status;

    CRT_TRY(crt_actor_find(name, NULL, &counter, &found));
    ref = crt_call(found, &add, amount);
    status = crt_get(ref, &value);
    if (status == CRT_OK)
        printf("the counter is at %d\n", value);
    crt_ref_drop(&ref);
    crt_actor_drop(&found);
    return status;
}

static int driver(int argc, char **argv)
{
    crt_actor_t *actor = crt_actor_new(
        &counter, CRT_ACTOR_OPTIONS(.name = "shared", .num_cpus = 1, .max_restarts = 1));
    crt_ref_t *ref;

    CRT_CHECK(crt_actor_ready(actor, 60000));
    CRT_CHECK(add_to("shared", 5));
    ref = crt_call(actor, &crash);
    printf("the crash: %s\n", crt_status_name(crt_get(ref, NULL)));
    crt_ref_drop(&ref);
    CRT_CHECK(add_to("shared", 2)); /* waits for the restart; its state began anew */
    CRT_CHECK(crt_actor_kill(actor, NULL));
    printf("after the kill: %s\n", crt_status_name(add_to("shared", 1)));
    crt_actor_drop(&actor);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.classes = CRT_CLASSES(&counter)), driver);
}
