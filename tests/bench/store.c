/* SPDX-License-Identifier: Apache-2.0 */
/* Bench of the object store: alone, then with the whole API.
 *
 *     bench_store [--rounds N] [--only small|pairs|large|gets|flat|api]
 *
 * small    put (create, copy, seal), get, release and free of 1 KiB: ns each, in one process
 * pairs    put, get, release and free of 1 KiB by two processes at once against one of them alone;
 *          beside it the same with a store for each: what the processors give
 * large    put of 100 MB against memcpy of the same bytes into warm pages of the same arena that
 * are
 *          mapped and written before: by one thread, by two, and by a process that never wrote
 *          before. Freeing is outside the time of both.
 * gets     the first get of objects that another, living process made, of 1 KiB to 100 MB; beside
 * it
 *          what it costs to read that many lines that another processor wrote
 * flat     100,000 put, get, release, free rounds: arena use after 10 % and at the end
 * api      the same from a driver and from workers: crt_put, crt_get, crt_ref_drop
 *
 * Every figure is a median of interleaved rounds (ours, bare, ours, ...) with the middle 80 %.
 * Processes are pinned to processors of their own. Once on a tmpfs with huge pages (where the host
 * allows it), once on a memfd.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "store_bench.h"

#include "runtime/crt.h"

#define STORE_BYTES (1024u << 20)

/* ---------------------------------------------------------------- small, one process */

/* In batches, so that each kind of step can be timed without reading the clock in between. */
void bench_small(crti_store_t *daemon, crti_store_t *store, unsigned rounds)
{
    enum { BATCH = 100, BATCHES = 100 };
    static const char *const names[] = {"put", "get", "release", "free"};
    char bytes[SMALL_BYTES] = {1};
    crti_store_view_t views[BATCH];
    samples_t steps[4] = {{0}}, none = {0};
    uint64_t n = 0;

    for (unsigned round = 0; round < rounds * BATCHES; round++, n += BATCH) {
        uint64_t at[5];

        at[0] = crti_now_ns();
        for (uint64_t i = 1; i <= BATCH; i++)
            bench_put(store, bench_object(1, n + i), bytes, sizeof(bytes));
        at[1] = crti_now_ns();
        for (uint64_t i = 1; i <= BATCH; i++)
            CRT_CHECK(crti_store_get(store, bench_object(1, n + i), &views[i - 1]));
        at[2] = crti_now_ns();
        for (uint64_t i = 1; i <= BATCH; i++)
            crti_store_release(store, &views[i - 1]);
        at[3] = crti_now_ns();
        for (uint64_t i = 1; i <= BATCH; i++)
            crti_store_free(store, bench_object(1, n + i));
        at[4] = crti_now_ns();
        for (unsigned i = 0; i < 4; i++)
            sample(&steps[i], (double)(at[i + 1] - at[i]) / BATCH / 1000);
    }
    for (unsigned i = 0; i < 4; i++) {
        char name[32];

        snprintf(name, sizeof(name), "1 KiB, %s", names[i]);
        print_beside(name, "us", &steps[i], NULL, &none);
    }
}

/* ---------------------------------------------------------------- small, two processes */

/* Rounds of put, get, release and free until the time is over; how many. */
static uint64_t churn(crti_store_t *store, uint64_t owner, uint64_t ns)
{
    char bytes[SMALL_BYTES] = {1};
    uint64_t end = crti_now_ns() + ns, n = 0;
    crti_store_view_t view;

    while (n % 64 != 0 || crti_now_ns() < end) {
        bench_put(store, bench_object(owner, ++n), bytes, sizeof(bytes));
        CRT_CHECK(crti_store_get(store, bench_object(owner, n), &view));
        crti_store_release(store, &view);
        crti_store_free(store, bench_object(owner, n));
    }
    return n;
}

/* Both at once, each in its store; per microsecond. */
static double churn_both(peer_t *peer, crti_store_t *store, uint64_t ns)
{
    uint64_t here;

    peer_go(peer, churn, 12, ns);
    here = churn(store, 11, ns);
    return (double)(here + peer_wait(peer)) / ((double)ns / 1000);
}

void bench_pairs(crti_store_t *daemon, crti_store_t *store, unsigned rounds)
{
    const uint64_t ns = 20 * CRTI_MS;
    samples_t one = {0}, both = {0}, bare_one = {0}, bare = {0};
    crti_store_t *other;
    peer_t peer, apart;

    if (!bench_pin(0))
        return;
    CRT_CHECK(
        crti_store_new_on(STORE_BYTES / 8, 16, daemon->geometry.huge_pages, &other));
    peer_start(&peer, daemon, 2, 1);
    peer_start(&apart, other, 2, 1);
    for (unsigned i = 0; i < rounds; i++) {
        double alone = (double)churn(store, 11, ns) / ((double)ns / 1000);

        sample(&one, alone);
        sample(&bare_one, alone);
        sample(&both, churn_both(&peer, store, ns));
        sample(&bare, churn_both(&apart, store, ns));
    }
    print_ratio("1 KiB, rounds of two processes", "/us", &both, "one", &one, 1.6);
    print_ratio("  bare: a store for each", "/us", &bare, "one", &bare_one, 0);
    peer_end(&peer, daemon, 2);
    peer_end(&apart, other, 2);
    crti_store_detach(other);
    bench_unpin();
}

/* ---------------------------------------------------------------- flat */

static void bench_flat(crti_store_t *daemon, crti_store_t *store, unsigned rounds)
{
    char bytes[SMALL_BYTES] = {1};
    struct crti_store_stats early = {0}, late;
    crti_store_view_t view;

    for (uint64_t i = 1; i <= 100000; i++) {
        bench_put(store, bench_object(5, i), bytes, sizeof(bytes));
        CRT_CHECK(crti_store_get(store, bench_object(5, i), &view));
        crti_store_release(store, &view);
        crti_store_free(store, bench_object(5, i));
        if (i == 10000)
            crti_store_stats(store, &early);
    }
    crti_store_stats(store, &late);
    printf("100,000 rounds: arena use %zu bytes after 10,000, %zu at the end; high water "
           "%zu, %zu\n",
           early.used, late.used, early.high_water, late.high_water);
}

/* ---------------------------------------------------------------- all */

static const struct part {
    const char *name;
    void (*run)(crti_store_t *daemon, crti_store_t *store, unsigned rounds);
} parts[] = {
    {"small", bench_small}, {"pairs", bench_pairs}, {"large", bench_large},
    {"gets", bench_gets},   {"flat", bench_flat},
};

static void bench_alone(bool huge, const char *only, unsigned rounds)
{
    crti_store_t *daemon, *store;

    CRT_CHECK(crti_store_new_on(STORE_BYTES, 16, huge, &daemon));
    printf("--- %s\n", daemon->geometry.huge_pages ? "tmpfs with huge pages" : "memfd");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (only && strcmp(only, parts[i].name) != 0)
            continue;
        CRT_CHECK(crti_store_attach(crti_store_fd(daemon), 1, crti_id_random(), &store));
        parts[i].run(daemon, store, rounds);
        crti_store_detach(store);
        fflush(stdout);
    }
    crti_store_detach(daemon);
}

int main(int argc, char **argv)
{
    const char *only = NULL;
    int rounds = 21;

    /* A worker of the last part is this program, too. */
    if (getenv("CRT_NODE_SOCKET"))
        return bench_api(argc, argv);
    TAKE_OPTIONS(argc, argv, OPTION("rounds", rounds, 1, 1e6),
                 OPTION("only", only, 0, 0));
    if (!only || strcmp(only, "api") != 0) {
        bench_alone(true, only, (unsigned)rounds);
        bench_alone(false, only, (unsigned)rounds);
    }
    if (!only || strcmp(only, "api") == 0)
        return bench_api(argc, argv);
    return 0;
}
