/* SPDX-License-Identifier: Apache-2.0 */
/* A task whose results come one by one, while it runs; and one that is told to stop. */
#include <stdio.h>

#include <crt.h>

static crt_status_t primes_run(crt_call_t *call)
{
    int64_t most;

    CRT_TRY(crt_args(call, &most));
    for (int64_t n = 2; n < most; n++) {
        int64_t d = 2;

        while (d * d <= n && n % d)
            d++;
        if (d * d > n)
            CRT_TRY(crt_yield(call, n)); /* CRT_ERR_CANCELLED: nobody wants more */
    }
    return CRT_OK;
}
static const crt_task_t primes =
    CRT_TASK(.name = "primes", .run = primes_run, .signature = "int");

static int driver(int argc, char **argv)
{
    /* It is at most 10 primes ahead of what was taken. */
    crt_stream_t *stream = crt_submit_stream(
        &primes, CRT_TASK_OPTIONS(.generator_backpressure_num_objects = 10), 20);
    crt_status_t status;
    crt_ref_t *ref;
    int64_t prime;

    while ((status = crt_stream_next(stream, -1, &ref)) == CRT_OK) {
        CRT_CHECK(crt_get(ref, &prime));
        crt_ref_drop(&ref);
        printf("%lld\n", (long long)prime);
    }
    printf("%s\n", crt_status_text(status)); /* or the error of the task */
    crt_stream_drop(&stream);

    stream = crt_submit_stream(&primes, NULL, INT64_MAX);
    CRT_CHECK(crt_stream_next(stream, -1, &ref));
    crt_ref_drop(&ref);
    crt_stream_drop(&stream); /* the task ends with its next crt_yield */
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&primes)), driver);
}
