/* SPDX-License-Identifier: Apache-2.0 */
/* The store with the whole API around it, from a driver and from workers. See store.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "own_cluster.h"
#include "store_bench.h"

#include "runtime/crt.h"

#define BATCH  100
#define ROUNDS 200 /* batches of one measurement in one process */

/* One batch of puts, gets and drops: ns of each step. */
static crt_status_t batch(size_t size, uint64_t ns[3])
{
    static char bytes[65536];
    crt_ref_t *refs[BATCH];
    crt_status_t status = CRT_OK;
    uint64_t at[4];

    at[0] = crti_now_ns();
    for (unsigned i = 0; i < BATCH; i++)
        refs[i] = crt_put(((crt_bytes_t){bytes, size}));
    at[1] = crti_now_ns();
    for (unsigned i = 0; i < BATCH && status == CRT_OK; i++) {
        crt_bytes_t out;

        status = crt_get(refs[i], &out);
    }
    at[2] = crti_now_ns();
    crt_refs_drop(refs, BATCH);
    at[3] = crti_now_ns();
    for (unsigned i = 0; i < 3; i++)
        ns[i] = at[i + 1] - at[i];
    return status;
}

/* Medians of put, of get and release, in ns. */
static crt_status_t measure(size_t size, double *put_ns, double *get_ns)
{
    samples_t puts = {0}, gets = {0};

    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t ns[3];

        CRT_TRY(batch(size, ns));
        sample(&puts, (double)ns[0] / BATCH);
        sample(&gets, (double)(ns[1] + ns[2]) / BATCH);
    }
    *put_ns = quantile(&puts, 0.5);
    *get_ns = quantile(&gets, 0.5);
    free(puts.values);
    free(gets.values);
    return CRT_OK;
}

/* ---------------------------------------------------------------- in workers */

static crt_status_t measure_run(crt_call_t *call)
{
    int64_t size, core;
    double ns[2];
    int64_t shape = 2;
    crt_tensor_t result;

    CRT_TRY(crt_args(call, &size, &core));
    bench_pin((unsigned)core);
    CRT_TRY(measure((size_t)size, &ns[0], &ns[1]));
    result = crt_tensor_view(CRT_DTYPE_FLOAT64, 1, &shape, ns);
    return crt_return(call, &result);
}
static const crt_task_t measure_task =
    CRT_TASK(.name = "measure", .run = measure_run, .signature = "int, int");

/* Batches until the moment; how many. */
static crt_status_t churn_run(crt_call_t *call)
{
    int64_t size, core, begin, end, count = 0;

    CRT_TRY(crt_args(call, &size, &core, &begin, &end));
    bench_pin((unsigned)core);
    while (crti_now_ns() < (uint64_t)begin)
        ;
    for (; crti_now_ns() < (uint64_t)end; count++) {
        uint64_t ns[3];

        CRT_TRY(batch((size_t)size, ns));
    }
    return crt_return(call, count);
}
static const crt_task_t churn_task =
    CRT_TASK(.name = "churn", .run = churn_run, .signature = "int, int, int, int");

/* ---------------------------------------------------------------- the driver */

static void measure_there(size_t size, samples_t *puts, samples_t *gets)
{
    crt_ref_t *ref = crt_submit(&measure_task, NULL, (int64_t)size, 1);
    const crt_tensor_t *result;

    CRT_CHECK(crt_get(ref, &result));
    sample(puts, ((const double *)result->data)[0] / 1000);
    sample(gets, ((const double *)result->data)[1] / 1000);
    crt_ref_drop(&ref);
}

/* By so many workers at once; rounds of put, get, drop per microsecond. */
static double churn_there(size_t size, unsigned workers)
{
    const uint64_t ns = 100 * CRTI_MS;
    uint64_t begin = crti_now_ns() + 20 * CRTI_MS;
    crt_ref_t *refs[2];
    double sum = 0;

    for (unsigned i = 0; i < workers; i++)
        refs[i] = crt_submit(&churn_task, NULL, (int64_t)size, (int64_t)i, (int64_t)begin,
                             (int64_t)(begin + ns));
    for (unsigned i = 0; i < workers; i++) {
        int64_t count;

        CRT_CHECK(crt_get(refs[i], &count));
        sum += (double)count * BATCH / ((double)ns / 1000);
    }
    crt_refs_drop(refs, workers);
    return sum;
}

static void bench_bytes(size_t size, const char *name, unsigned rounds)
{
    samples_t put = {0}, get = {0}, there_put = {0}, there_get = {0}, one = {0};
    samples_t both = {0}, none = {0};
    char whole[64];

    (void)churn_there(size, 2); /* both workers exist */
    for (unsigned i = 0; i < rounds; i++) {
        double put_ns, get_ns;

        CRT_CHECK(measure(size, &put_ns, &get_ns));
        sample(&put, put_ns / 1000);
        sample(&get, get_ns / 1000);
        measure_there(size, &there_put, &there_get);
        sample(&one, churn_there(size, 1));
        sample(&both, churn_there(size, 2));
    }
    snprintf(whole, sizeof(whole), "%s, crt_put, driver", name);
    print_beside(whole, "us", &put, NULL, &none);
    snprintf(whole, sizeof(whole), "%s, crt_get and drop, driver", name);
    print_beside(whole, "us", &get, NULL, &none);
    snprintf(whole, sizeof(whole), "%s, crt_put, worker", name);
    print_beside(whole, "us", &there_put, NULL, &none);
    snprintf(whole, sizeof(whole), "%s, crt_get and drop, worker", name);
    print_beside(whole, "us", &there_get, NULL, &none);
    snprintf(whole, sizeof(whole), "%s, rounds of two workers", name);
    print_ratio(whole, "/us", &both, "one", &one, 1.6);
}

/* Put, get and drop of 100 MB against memcpy into memory of our own. */
static void bench_tensor(unsigned rounds)
{
    int64_t shape = LARGE_BYTES / 4;
    float *from = malloc(LARGE_BYTES);
    char *warm = malloc(LARGE_BYTES);
    crt_tensor_t tensor = crt_tensor_view(CRT_DTYPE_FLOAT32, 1, &shape, from);
    samples_t puts = {0}, copies = {0}, gets = {0}, none = {0};

    if (!from || !warm)
        abort();
    memset(from, 0, LARGE_BYTES);
    memset(warm, 1, LARGE_BYTES);
    for (unsigned i = 0; i <= rounds; i++) {
        uint64_t at[4];
        const crt_tensor_t *out;
        crt_ref_t *ref;

        at[0] = crti_now_ns();
        ref = crt_put(&tensor);
        at[1] = crti_now_ns();
        CRT_CHECK(crt_get(ref, &out));
        at[2] = crti_now_ns();
        crt_ref_drop(&ref);
        at[3] = crti_now_ns();
        memcpy(warm, from, LARGE_BYTES);
        if (i == 0)
            continue; /* its pages were cold */
        sample(&copies, LARGE_BYTES / (double)(crti_now_ns() - at[3]));
        sample(&puts, LARGE_BYTES / (double)(at[1] - at[0]));
        sample(&gets, (double)(at[2] - at[1]) / 1000);
    }
    print_ratio("100 MB, crt_put, driver", "GB/s", &puts, "memcpy", &copies, 1.1);
    print_beside("100 MB, crt_get, driver", "us", &gets, NULL, &none);
    free(from);
    free(warm);
}

static unsigned api_rounds = 11;

static int driver(int argc, char **argv)
{
    printf("--- the whole API\n");
    bench_bytes(1024, "1 KiB", api_rounds);
    bench_bytes(8000, "8 kB", api_rounds);
    bench_tensor(2 * api_rounds);
    return 0;
}

int bench_api(int argc, char **argv)
{
    use_own_cluster();
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&measure_task, &churn_task),
                                .num_cpus = 2, .object_store_memory = 1024u << 20),
                    driver);
}
