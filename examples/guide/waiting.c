/* SPDX-License-Identifier: Apache-2.0 */
/* All of a list of refs, a wait set, and a callback. */
#include <stdio.h>

#include <crt.h>

static crt_status_t square_run(crt_call_t *call)
{
    int64_t number;

    CRT_TRY(crt_args(call, &number));
    if (number < 0)
        return crt_fail(call, CRT_ERR_USER, "%lld is negative", (long long)number);
    return crt_return(call, number * number);
}
static const crt_task_t square =
    CRT_TASK(.name = "square", .run = square_run, .signature = "int");

/* In a thread of the library. */
static void on_ready(crt_ref_t *ref, void *user)
{
    int64_t number;

    if (crt_get(ref, &number) == CRT_OK)
        *(int64_t *)user = number;
}

static int driver(int argc, char **argv)
{
    crt_ref_t *refs[3];
    crt_event_t event = CRT_EVENT_INIT;
    crt_waitset_t *set;
    int64_t inputs[3] = {3, -4, 5}, number, told = 0, sum = 0;
    size_t failed;

    for (int i = 0; i < 3; i++)
        refs[i] = crt_submit(&square, NULL, inputs[i]);
    if (crt_refs_wait(refs, 3, NULL, CRT_FOREVER, &failed) != CRT_OK) /* ray.get(refs) */
        printf("%s\n", crt_error_detail());

    CRT_CHECK(crt_waitset_new(&set));
    for (int i = 0; i < 3; i++)
        CRT_CHECK(crt_waitset_add_ref(set, refs[i], &inputs[i]));
    while (crt_waitset_next(set, CRT_FOREVER, &event) ==
           CRT_OK) { /* in the order of their ends */
        if (crt_get(event.ref, &number) == CRT_OK)
            sum += number;
        else
            printf("of %lld there is no square\n", (long long)*(int64_t *)event.user);
    }
    printf("the sum of the squares is %lld\n", (long long)sum);
    crt_waitset_drop(&set);

    CRT_CHECK(crt_ref_on_ready(refs[2], on_ready, &told));
    crt_refs_drop(refs, 3);
    CRT_CHECK(crt_shutdown()); /* callbacks have run then */
    printf("the callback was told %lld\n", (long long)told);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&square)), driver);
}
