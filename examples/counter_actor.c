/* SPDX-License-Identifier: Apache-2.0 */
/* An actor: a struct that lives in a process of its own and is changed by calls.
 *
 *     ./counter_actor
 */
#include <stdio.h>

#include <crt_define.h>

struct counter {
    int64_t value;
};

CRT_DEFINE_ACTOR(counter, struct counter, (int64_t, start))
{
    self->value = start;
    return CRT_OK;
}

CRT_DEFINE_METHOD(counter, add, (int64_t, amount))
{
    if (amount < 0)
        return crt_fail(call, CRT_ERR_USER, "can't count down by %lld",
                        (long long)-amount);
    self->value += amount;
    return crt_return(call, self->value);
}

static int driver(int argc, char **argv)
{
    crt_actor_t *actor = counter_new(NULL, 100);
    crt_ref_t *refs[3], *wrong;
    int64_t value;

    for (int i = 0; i < 3; i++) /* calls of one caller run in the order they were made */
        refs[i] = counter_add_call(actor, NULL, i + 1);
    for (int i = 0; i < 3; i++) {
        CRT_CHECK(crt_get(refs[i], &value));
        printf("the counter is at %lld\n", (long long)value);
    }
    crt_refs_drop(refs, 3);

    wrong = counter_add_call(actor, NULL, -5);
    if (crt_get(wrong, &value) != CRT_OK) {
        const crt_error_t *error = crt_ref_error(wrong);

        printf("%s.%s failed: %s\n", error->class_name, error->method, error->text);
    }
    crt_ref_drop(&wrong);
    crt_actor_drop(&actor);
    return 0;
}

CRT_MAIN(driver)
