/* SPDX-License-Identifier: Apache-2.0 */
/* An actor that goes on where it was when its process was replaced; and calls that are made
 * again. */
#include <stdio.h>
#include <string.h>

#include <crt.h>

struct counter {
    int value, tries;
};

/* In a process that follows another one, after `create`. */
static crt_status_t restore(void *self, const void *state, size_t size)
{
    struct counter *c = self;

    memcpy(&c->value, state, size);
    return CRT_OK;
}

static crt_status_t add_run(void *self, crt_call_t *call)
{
    struct counter *c = self;

    c->value++;
    CRT_TRY(crt_actor_save(call, &c->value, sizeof(c->value))); /* durable from here on */
    return crt_return(call, c->value);
}
static const crt_method_t add =
    CRT_METHOD(.name = "add", .run = add_run, .signature = "");

static crt_status_t shaky_run(void *self, crt_call_t *call)
{
    struct counter *c = self;

    if (++c->tries < 3)
        return crt_fail(call, CRT_ERR_IO, "try %d", c->tries);
    return crt_return(call, c->tries);
}
static const crt_method_t shaky =
    CRT_METHOD(.name = "shaky", .run = shaky_run, .signature = "");

static const crt_actor_class_t counter =
    CRT_ACTOR_CLASS(.name = "Counter", .size = sizeof(struct counter), .restore = restore,
                    .methods = CRT_METHODS(&add, &shaky));

static int driver(int argc, char **argv)
{
    crt_actor_t *actor = crt_actor_new(&counter, CRT_ACTOR_OPTIONS(.max_restarts = 1));
    crt_ref_t *refs[3] = {crt_call(actor, &add)};
    int value;

    CRT_CHECK(crt_get(refs[0], &value));
    printf("before: %d\n", value);
    CRT_CHECK(crt_actor_kill(actor, CRT_KILL_OPTIONS(.restart = true)));
    do { /* until its next process serves it, calls may still reach the old one */
        crt_ref_drop(&refs[1]);
        refs[1] = crt_call(actor, &add);
    } while (crt_get(refs[1], &value) == CRT_ERR_ACTOR_DIED);
    printf("after: %d\n", value);
    refs[2] = crt_call_with(
        actor, &shaky,
        CRT_CALL_OPTIONS(.max_attempts = 6, .retry_exceptions = CRT_RETRY_ALL));
    CRT_CHECK(crt_get(refs[2], &value));
    printf("try %d went well\n", value);
    crt_refs_drop(refs, 3);
    crt_actor_drop(&actor);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.classes = CRT_CLASSES(&counter)), driver);
}
