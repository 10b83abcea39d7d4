/* SPDX-License-Identifier: Apache-2.0 */
/* A map-reduce of 1,000 tasks, for node_lost.py: 992 maps sleep 20 ms each and return 8 objects of
 * 70,000 bytes, 8 reduces sum up one of each map. Begins with the first line of standard input, and
 * prints the sum. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <crt.h>

#define MAPS   992
#define RANGES 8
#define BYTES  70000 /* too long to be part of the answer: it lies in the store */

static int64_t value_of(int64_t map, int64_t range)
{
    return (map * 31 + range) % 251;
}

static crt_status_t map_run(crt_call_t *call)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    static unsigned char bytes[BYTES];
    int64_t number;

    CRT_TRY(crt_args(call, &number));
    nanosleep(&pause, NULL);
    for (int64_t r = 0; r < RANGES; r++) {
        memset(bytes, (int)value_of(number, r), BYTES);
        CRT_TRY(crt_return_at(call, (size_t)r, crt_bytes(bytes, BYTES)));
    }
    return CRT_OK;
}
static const crt_task_t map = CRT_TASK(.name = "map", .run = map_run, .signature = "int");

static crt_status_t reduce_run(crt_call_t *call)
{
    int64_t sum = 0;

    for (size_t i = 0; i < crt_arg_count(call); i++) {
        crt_bytes_t bytes;

        CRT_TRY(crt_arg_at(call, i, &bytes));
        for (size_t at = 0; at < bytes.size; at++)
            sum += ((const unsigned char *)bytes.data)[at];
    }
    return crt_return(call, sum);
}
static const crt_task_t reduce =
    CRT_TASK(.name = "reduce", .run = reduce_run, .signature = "bytes...");

static int64_t expected(void)
{
    int64_t sum = 0;

    for (int64_t m = 0; m < MAPS; m++)
        for (int64_t r = 0; r < RANGES; r++)
            sum += value_of(m, r) * BYTES;
    return sum;
}

static int driver(int argc, char **argv)
{
    static crt_ref_t *parts[RANGES][MAPS], *results[RANGES];
    int64_t total = 0, sum;

    (void)getchar();
    for (int64_t m = 0; m < MAPS; m++) {
        crt_submit_returns(results, RANGES, &map, NULL, m);
        for (size_t r = 0; r < RANGES; r++)
            parts[r][m] = results[r];
    }
    for (size_t r = 0; r < RANGES; r++) {
        results[r] = crt_submit(&reduce, NULL, crt_arg_each(parts[r], MAPS));
        crt_refs_drop(parts[r], MAPS);
    }
    for (size_t r = 0; r < RANGES; r++) {
        CRT_CHECK(crt_get(results[r], &sum));
        total += sum;
    }
    crt_refs_drop(results, RANGES);
    printf("%lld\n", (long long)total);
    return total == expected() ? 0 : 1;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&map, &reduce)), driver);
}
