/* SPDX-License-Identifier: Apache-2.0 */
/* Many tasks of different length: each result is handled as soon as it is there.
 *
 *     ./wait_many [TASKS]
 */
#include <stdio.h>
#include <stdlib.h>

#include <crt.h>

#define TASKS_MAX 1000

static bool is_prime(int64_t n)
{
    for (int64_t d = 2; d * d <= n; d++)
        if (n % d == 0)
            return false;
    return n > 1;
}

static crt_status_t count_primes_run(crt_call_t *call)
{
    int64_t below, primes = 0;

    CRT_TRY(crt_args(call, &below));
    for (int64_t n = 2; n < below; n++)
        primes += is_prime(n);
    return crt_return(call, primes);
}
static const crt_task_t count_primes =
    CRT_TASK(.name = "count_primes", .run = count_primes_run, .signature = "int");

/* The longest first: what takes long should not begin last. */
static int64_t limit_of(int task, int tasks)
{
    return 100000 * (int64_t)(tasks - task);
}

static int driver(int argc, char **argv)
{
    int tasks = argc > 1 ? atoi(argv[1]) : 8;
    crt_ref_t *pending[TASKS_MAX];
    int task_of[TASKS_MAX]; /* which task pending[i] is the result of */
    size_t left, ready[TASKS_MAX], ready_count;

    if (tasks < 1 || tasks > TASKS_MAX) {
        fprintf(stderr, "wait_many: 1 to %d tasks\n", TASKS_MAX);
        return 2;
    }
    for (int i = 0; i < tasks; i++) {
        pending[i] = crt_submit(&count_primes, NULL, limit_of(i, tasks));
        task_of[i] = i;
    }
    for (left = (size_t)tasks; left > 0; left--) {
        int64_t primes;
        size_t i;

        CRT_CHECK(crt_wait(pending, left, 1, -1, ready, &ready_count));
        i = ready[0];
        CRT_CHECK(crt_get(pending[i], &primes));
        printf("task %d: %lld primes below %lld\n", task_of[i], (long long)primes,
               (long long)limit_of(task_of[i], tasks));
        fflush(stdout);
        crt_ref_drop(&pending[i]);
        pending[i] = pending[left - 1]; /* the last one takes its place */
        task_of[i] = task_of[left - 1];
    }
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&count_primes)), driver);
}
