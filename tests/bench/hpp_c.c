/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of hpp.cpp through the C interface. See hpp_c.h. */
#include "hpp_c.h"

#include <crt_define.h>

struct adder {
    int64_t sum;
};

CRT_DEFINE_ACTOR(adder, struct adder)
{
    self->sum = 0;
    return CRT_OK;
}

CRT_DEFINE_METHOD(adder, add, (int64_t, amount))
{
    return crt_return(call, self->sum += amount);
}

CRT_DEFINE_TASK(square, (int64_t, number))
{
    return crt_return(call, number * number);
}

CRT_DEFINE_TASK(length, (const char *, text))
{
    int64_t size = 0;

    while (text[size])
        size++;
    return crt_return(call, size);
}

crt_actor_t *c_adder(void)
{
    crt_actor_t *actor = adder_new(NULL);

    CRT_CHECK(crt_actor_ready(actor, CRT_FOREVER));
    return actor;
}

int64_t c_calls(crt_actor_t *actor, int count)
{
    int64_t sum = 0;

    for (int i = 0; i < count; i++) {
        crt_ref_t *ref = adder_add_call(actor, NULL, i);

        CRT_CHECK(crt_get(ref, &sum));
        crt_ref_drop(&ref);
    }
    return sum;
}

int64_t c_batch(crt_actor_t *actor, crt_ref_t **refs, int count)
{
    int64_t sum = 0;

    for (int i = 0; i < count; i++)
        refs[i] = adder_add_call(actor, NULL, i);
    for (int i = 0; i < count; i++)
        CRT_CHECK(crt_get(refs[i], &sum));
    crt_refs_drop(refs, (size_t)count);
    return sum;
}

int64_t c_tasks(int count)
{
    int64_t number = 0;

    for (int i = 0; i < count; i++) {
        crt_ref_t *ref = square_submit(NULL, i);

        CRT_CHECK(crt_get(ref, &number));
        crt_ref_drop(&ref);
    }
    return number;
}

int64_t c_texts(int count)
{
    int64_t number = 0;

    for (int i = 0; i < count; i++) {
        crt_ref_t *ref = length_submit(NULL, "a text of some length");

        CRT_CHECK(crt_get(ref, &number));
        crt_ref_drop(&ref);
    }
    return number;
}
