/* SPDX-License-Identifier: Apache-2.0 */
/* An actor: a struct that lives in a process of its own and is changed by calls.
 *
 *     ./counter_actor
 */
#include <stdio.h>

#include <crt.h>

struct counter {
    int64_t value;
};

static crt_status_t counter_create(void *self, crt_call_t *call)
{
    struct counter *c = self;

    return crt_args(call, &c->value);
}

static crt_status_t counter_add_run(void *self, crt_call_t *call)
{
    struct counter *c = self;
    int64_t amount;

    CRT_TRY(crt_args(call, &amount));
    if (amount < 0)
        return crt_fail(call, CRT_ERR_USER, "can't count down by %lld",
                        (long long)-amount);
    c->value += amount;
    return crt_return(call, c->value);
}

static const crt_method_t counter_add =
    CRT_METHOD(.name = "add", .run = counter_add_run, .signature = "int");
static const crt_actor_class_t counter =
    CRT_ACTOR_CLASS(.name = "Counter", .size = sizeof(struct counter),
                    .create = counter_create, .signature = "int",
                    .methods = CRT_METHODS(&counter_add));

static int driver(int argc, char **argv)
{
    crt_actor_t *actor = crt_actor_new(&counter, NULL, 100);
    crt_ref_t *refs[3], *wrong;
    int64_t value;

    for (int i = 0; i < 3; i++) /* calls of one caller run in the order they were made */
        refs[i] = crt_call(actor, &counter_add, i + 1);
    for (int i = 0; i < 3; i++) {
        CRT_CHECK(crt_get(refs[i], &value));
        printf("the counter is at %lld\n", (long long)value);
    }
    crt_refs_drop(refs, 3);

    wrong = crt_call(actor, &counter_add, -5);
    if (crt_get(wrong, &value) != CRT_OK) {
        const crt_error_t *error = crt_ref_error(wrong);

        printf("%s.%s failed: %s\n", error->class_name, error->method, error->text);
    }
    crt_ref_drop(&wrong);
    crt_actor_drop(&actor);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.classes = CRT_CLASSES(&counter)), driver);
}
