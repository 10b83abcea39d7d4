/* SPDX-License-Identifier: Apache-2.0 */
/* Bench of the object store alone (no runtime around it).
 *
 *     bench_store [--rounds N]
 *
 * small    put (create, copy, seal), get, release and free of 1 KiB: ns each, in one process;
 *          then get and release of objects that another process made
 * large    put of 100 MB (create, crti_store_copy, seal) against memcpy of the same bytes into
 *          warm pages of the same arena that are mapped and written before; interleaved rounds,
 *          medians. Freeing is outside the time of both.
 * get      first get of a 100 MB object that another process made
 * flat     100,000 put, get, release, free rounds: arena use after 10 % and at the end
 *
 * Once on a tmpfs with huge pages (where the host allows it), once on a memfd.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/store/arena.h"

#define SMALL_BYTES  1024u
#define SMALL_ROUNDS 200000u
#define LARGE_BYTES  100000000u
#define STORE_BYTES  (1024u << 20)

static crti_object_id_t object(uint64_t owner, uint64_t number)
{
    return (crti_object_id_t){{owner, ~owner}, number};
}

static void put(crti_store_t *store, crti_object_id_t id, const void *from, size_t size)
{
    void *data;

    CRT_CHECK(crti_store_create(store, id, size, &data));
    crti_store_copy(data, from, size);
    CRT_CHECK(crti_store_seal(store, id, true));
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double *values, unsigned count)
{
    qsort(values, count, sizeof(*values), by_value);
    return values[count / 2];
}

/* Runs `body` in a process of its own and waits for it. */
static void in_child(crti_store_t *daemon, unsigned slot,
                     void (*body)(crti_store_t *store, void *user), void *user)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        crti_store_t *store;

        CRT_CHECK(
            crti_store_attach(crti_store_fd(daemon), slot, crti_id_random(), &store));
        body(store, user);
        crti_store_detach(store);
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "the child failed\n");
        exit(1);
    }
}

/* ---------------------------------------------------------------- small objects */

static void make_small(crti_store_t *store, void *user)
{
    char bytes[SMALL_BYTES] = {1};

    for (uint64_t i = 1; i <= SMALL_ROUNDS / 10; i++)
        put(store, object(2, i), bytes, sizeof(bytes));
}

/* In batches, so that each kind of step can be timed without reading the clock in between. */
static void bench_small(crti_store_t *store)
{
    enum { BATCH = 100 };
    char bytes[SMALL_BYTES] = {1};
    crti_store_view_t views[BATCH];
    uint64_t put_ns = 0, get_ns = 0, release_ns = 0, free_ns = 0, rounds = SMALL_ROUNDS;
    uint64_t start;

    for (uint64_t n = 0; n < rounds; n += BATCH) {
        start = crti_now_ns();
        for (uint64_t i = 1; i <= BATCH; i++)
            put(store, object(1, n + i), bytes, sizeof(bytes));
        put_ns += crti_now_ns() - start;
        start = crti_now_ns();
        for (uint64_t i = 1; i <= BATCH; i++)
            CRT_CHECK(crti_store_get(store, object(1, n + i), &views[i - 1]));
        get_ns += crti_now_ns() - start;
        start = crti_now_ns();
        for (uint64_t i = 1; i <= BATCH; i++)
            crti_store_release(store, &views[i - 1]);
        release_ns += crti_now_ns() - start;
        start = crti_now_ns();
        for (uint64_t i = 1; i <= BATCH; i++)
            crti_store_free(store, object(1, n + i));
        free_ns += crti_now_ns() - start;
    }
    printf("1 KiB: put %.1f ns, get %.1f ns, release %.1f ns, free %.1f ns, together "
           "%.1f ns\n",
           (double)put_ns / (double)rounds, (double)get_ns / (double)rounds,
           (double)release_ns / (double)rounds, (double)free_ns / (double)rounds,
           (double)(put_ns + get_ns + release_ns + free_ns) / (double)rounds);
}

static void bench_small_of_others(crti_store_t *daemon, crti_store_t *store)
{
    const uint64_t count = SMALL_ROUNDS / 10;
    uint64_t start, get_ns, free_ns;
    crti_store_view_t view;

    in_child(daemon, 2, make_small, NULL);
    start = crti_now_ns();
    for (uint64_t i = 1; i <= count; i++) {
        CRT_CHECK(crti_store_get(store, object(2, i), &view));
        crti_store_release(store, &view);
    }
    get_ns = crti_now_ns() - start;
    start = crti_now_ns();
    for (uint64_t i = 1; i <= count; i++)
        crti_store_free(store, object(2, i));
    free_ns = crti_now_ns() - start;
    printf("1 KiB of another process: get and release %.1f ns, free %.1f ns\n",
           (double)get_ns / (double)count, (double)free_ns / (double)count);
}

/* ---------------------------------------------------------------- large objects */

static double timed_put(crti_store_t *store, const void *from, uint64_t number)
{
    uint64_t start = crti_now_ns();

    put(store, object(3, number), from, LARGE_BYTES);
    return (double)(crti_now_ns() - start) / 1e9;
}

static void bench_large(crti_store_t *store, unsigned rounds)
{
    uint8_t *from = malloc(LARGE_BYTES);
    double *puts = calloc(rounds, sizeof(double)),
           *copies = calloc(rounds, sizeof(double));
    double put_gb, copy_gb;
    void *warm;

    memset(from, 1, LARGE_BYTES);
    CRT_CHECK(crti_store_create(store, object(3, 1), LARGE_BYTES, &warm));
    memset(warm, 2, LARGE_BYTES);
    (void)timed_put(store, from, 2); /* the pages that puts will reuse */
    crti_store_free(store, object(3, 2));
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t start;

        puts[i] = timed_put(store, from, 10 + i);
        crti_store_free(store, object(3, 10 + i));
        start = crti_now_ns();
        memcpy(warm, from, LARGE_BYTES);
        copies[i] = (double)(crti_now_ns() - start) / 1e9;
    }
    put_gb = LARGE_BYTES / 1e9 / median(puts, rounds);
    copy_gb = LARGE_BYTES / 1e9 / median(copies, rounds);
    printf("100 MB: put %.2f GB/s, memcpy into warm mapped pages %.2f GB/s, ratio %.2f "
           "(medians of %u rounds)\n",
           put_gb, copy_gb, put_gb / copy_gb, rounds);
    crti_store_abort(store, object(3, 1));
    free(puts);
    free(copies);
    free(from);
}

static void make_large(crti_store_t *store, void *user)
{
    const uint64_t *number = user;
    void *data;

    CRT_CHECK(crti_store_create(store, object(4, *number), LARGE_BYTES, &data));
    memset(data, (int)*number, LARGE_BYTES);
    CRT_CHECK(crti_store_seal(store, object(4, *number), true));
}

static void bench_large_get(crti_store_t *daemon, crti_store_t *store, unsigned rounds)
{
    double *gets = calloc(rounds, sizeof(double));
    crti_store_view_t view;

    for (uint64_t i = 1; i <= rounds; i++) {
        uint64_t start;

        in_child(daemon, 2, make_large, &i);
        start = crti_now_ns();
        CRT_CHECK(crti_store_get(store, object(4, i), &view));
        gets[i - 1] = (double)(crti_now_ns() - start) / 1e3;
        if (((const uint8_t *)view.data)[LARGE_BYTES - 1] != (uint8_t)i)
            abort();
        crti_store_release(store, &view);
        crti_store_free(store, object(4, i));
    }
    printf("get of 100 MB made by another process, first get: median %.2f us",
           median(gets, rounds));
    printf(", worst %.2f us (%u rounds)\n", gets[rounds - 1], rounds);
    free(gets);
}

static void bench_flat(crti_store_t *store)
{
    char bytes[SMALL_BYTES] = {1};
    struct crti_store_stats early = {0}, late;
    crti_store_view_t view;

    for (uint64_t i = 1; i <= 100000; i++) {
        put(store, object(5, i), bytes, sizeof(bytes));
        CRT_CHECK(crti_store_get(store, object(5, i), &view));
        crti_store_release(store, &view);
        crti_store_free(store, object(5, i));
        if (i == 10000)
            crti_store_stats(store, &early);
    }
    crti_store_stats(store, &late);
    printf("100,000 rounds: arena use %zu bytes after 10,000, %zu at the end; high water "
           "%zu, "
           "%zu\n",
           early.used, late.used, early.high_water, late.high_water);
}

static void bench_all(bool huge, unsigned rounds)
{
    crti_store_t *daemon, *store;
    struct crti_store_stats stats;

    CRT_CHECK(crti_store_new_on(STORE_BYTES, 16, huge, &daemon));
    CRT_CHECK(crti_store_attach(crti_store_fd(daemon), 1, crti_id_random(), &store));
    crti_store_stats(store, &stats);
    printf("--- %s\n", stats.huge_pages ? "tmpfs with huge pages" : "memfd");
    bench_small(store);
    bench_small_of_others(daemon, store);
    bench_large(store, rounds);
    bench_large_get(daemon, store, rounds);
    bench_flat(store);
    crti_store_detach(store);
    crti_store_detach(daemon);
}

int main(int argc, char **argv)
{
    int rounds = argc == 3 && strcmp(argv[1], "--rounds") == 0 ? atoi(argv[2]) : 21;

    bench_all(true, rounds < 1 ? 1 : (unsigned)rounds);
    bench_all(false, rounds < 1 ? 1 : (unsigned)rounds);
    return 0;
}
