/* SPDX-License-Identifier: Apache-2.0 */
/* Ten calls by three actors: each actor gets the next one when it is free; results in order.
 *
 *     ./actor_pool
 */
#include <stdio.h>

#include <crt_util.h>

static crt_status_t square_run(void *self, crt_call_t *call)
{
    int number;

    CRT_TRY(crt_args(call, &number));
    return crt_return(call, number * number);
}
static const crt_method_t square =
    CRT_METHOD(.name = "square", .run = square_run, .signature = "int");
static const crt_actor_class_t calculator =
    CRT_ACTOR_CLASS(.name = "Calculator", .methods = CRT_METHODS(&square));

/* Called by the pool with an actor that is free. */
static crt_ref_t *square_by(crt_actor_t *actor, void *user)
{
    return crt_call(actor, &square, *(int *)user);
}

static int driver(int argc, char **argv)
{
    crt_actor_t *actors[3];
    int numbers[10];
    crt_pool_t *pool;

    for (int i = 0; i < 3; i++)
        actors[i] = crt_actor_new(&calculator, NULL);
    CRT_CHECK(crt_pool_new(actors, 3, &pool));
    for (int i = 0; i < 10; i++) {
        numbers[i] = i;
        CRT_CHECK(crt_pool_submit(pool, square_by, &numbers[i]));
    }
    while (crt_pool_has_next(pool)) {
        crt_ref_t *ref;
        int result;

        CRT_CHECK(crt_pool_next(pool, -1, &ref));
        CRT_CHECK(crt_get(ref, &result));
        printf("%d ", result);
        crt_ref_drop(&ref);
    }
    printf("\n");
    crt_pool_drop(&pool);
    for (int i = 0; i < 3; i++)
        crt_actor_drop(&actors[i]);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.classes = CRT_CLASSES(&calculator)), driver);
}
