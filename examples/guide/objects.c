/* SPDX-License-Identifier: Apache-2.0 */
/* Values in the store, refs as arguments, and the first that is ready. */
#include <stdio.h>

#include <crt.h>

static crt_status_t sum_run(crt_call_t *call)
{
    const crt_tensor_t *numbers; /* the caller's memory, not a copy */
    double sum = 0;

    CRT_TRY(crt_args(call, &numbers));
    for (size_t i = 0; i < crt_tensor_count(numbers); i++)
        sum += (double)((const float *)numbers->data)[i];
    return crt_return(call, sum);
}
static const crt_task_t sum =
    CRT_TASK(.name = "sum", .run = sum_run, .signature = "tensor");

static crt_status_t add_run(crt_call_t *call)
{
    double a, b;

    CRT_TRY(crt_args(call, &a, &b));
    return crt_return(call, a + b);
}
static const crt_task_t add =
    CRT_TASK(.name = "add", .run = add_run, .signature = "float, float");

static int driver(int argc, char **argv)
{
    static float values[100000];
    crt_tensor_t view = crt_tensor_floats(values, 100000);
    crt_ref_t *refs[2], *numbers, *both;
    size_t ready[2], count;
    double result;

    for (int i = 0; i < 100000; i++)
        values[i] = 1;
    numbers = crt_put(&view);
    for (int i = 0; i < 2; i++)
        refs[i] = crt_submit(&sum, NULL, numbers);   /* the ref stands for its value */
    both = crt_submit(&add, NULL, refs[0], refs[1]); /* runs when both are there */
    CRT_CHECK(crt_wait(refs, 2, 1, 60000, ready, &count));
    printf("at least one of two is ready: %s\n", count >= 1 ? "yes" : "no");
    CRT_CHECK(crt_get(both, &result));
    printf("the sums together are %g\n", result);
    crt_ref_drop(&both);
    crt_ref_drop(&numbers);
    crt_refs_drop(refs, 2);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&sum, &add)), driver);
}
