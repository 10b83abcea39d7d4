/* SPDX-License-Identifier: Apache-2.0 */
/* Large objects, and gets of what others made. See store.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "store_bench.h"

#define CPU_LINE 64

/* ---------------------------------------------------------------- puts of 100 MB */

static uint8_t *source;

static double gigabytes(uint64_t ns)
{
    return LARGE_BYTES / (double)ns;
}

static uint64_t timed_put(crti_store_t *store, uint64_t owner, uint64_t number)
{
    uint64_t start = crti_now_ns();

    bench_put(store, bench_object(owner, number), source, LARGE_BYTES);
    return crti_now_ns() - start;
}

/* Its own bytes it has written, the store never. */
static uint64_t put_there(crti_store_t *store, uint64_t owner, uint64_t number)
{
    memset(source, (int)number, LARGE_BYTES);
    return timed_put(store, owner, number);
}

static double put_here(crti_store_t *store, uint64_t number)
{
    double rate = gigabytes(timed_put(store, 3, number));

    crti_store_free(store, bench_object(3, number));
    return rate;
}

/* By a process that has just been made. */
static double put_fresh(crti_store_t *daemon, uint64_t number, unsigned core)
{
    peer_t peer;
    double rate;

    peer_start(&peer, daemon, 2, core);
    peer_go(&peer, put_there, 4, number);
    rate = gigabytes(peer_wait(&peer));
    crti_store_free(daemon, bench_object(4, number));
    peer_end(&peer, daemon, 2);
    return rate;
}

static double copy_rate(void *to)
{
    uint64_t start = crti_now_ns();

    memcpy(to, source, LARGE_BYTES);
    return gigabytes(crti_now_ns() - start);
}

void bench_large(crti_store_t *daemon, crti_store_t *store, unsigned rounds)
{
    samples_t bare[4] = {{0}}, one = {0}, two = {0}, fresh = {0}, fresh_two = {0};
    void *warm;

    source = malloc(LARGE_BYTES);
    if (!source || !bench_pin(0))
        return;
    memset(source, 1, LARGE_BYTES);
    CRT_CHECK(crti_store_create(store, bench_object(3, 1), LARGE_BYTES, &warm));
    memset(warm, 2, LARGE_BYTES);
    (void)put_here(store, 2); /* the pages that puts will reuse */
    for (unsigned i = 0; i < rounds; i++) {
        bench_pin(0);
        sample(&one, put_here(store, 10 + i));
        sample(&bare[0], copy_rate(warm));
        sample(&fresh, put_fresh(daemon, 10 + i, 0));
        sample(&bare[1], copy_rate(warm));
        sample(&fresh_two, put_fresh(daemon, 10 + i, ALL_CORES));
        sample(&bare[3], copy_rate(warm));
        bench_unpin();
        sample(&two, put_here(store, 10 + i));
        bench_pin(0);
        sample(&bare[2], copy_rate(warm));
    }
    print_ratio("100 MB, put, one processor", "GB/s", &one, "memcpy", &bare[0], 1.1);
    print_ratio("100 MB, put, all processors", "GB/s", &two, "memcpy", &bare[2], 1.1);
    print_ratio("  by a new process, one processor", "GB/s", &fresh, "memcpy", &bare[1],
                0.8);
    print_ratio("  by a new process, all", "GB/s", &fresh_two, "memcpy", &bare[3], 0.8);
    crti_store_abort(store, bench_object(3, 1));
    free(source);
    bench_unpin();
}

/* ---------------------------------------------------------------- first gets */

#define BATCH 64

static uint64_t lines; /* address of shared memory, the same in both */

static uint64_t make_objects(crti_store_t *store, uint64_t size, uint64_t first)
{
    unsigned count = size > 1000000 ? 4 : BATCH;

    /* The lines that a get reads: bucket, entry, two more. */
    for (uint64_t i = 0; i < 4ull * BATCH; i++)
        atomic_store((_Atomic uint64_t *)(lines + i * CPU_LINE), first);

    for (unsigned i = 0; i < count; i++) {
        void *data;

        CRT_CHECK(crti_store_create(store, bench_object(6, first + i), size, &data));
        memset(data, (int)(first + i), size);
        CRT_CHECK(crti_store_seal(store, bench_object(6, first + i), true));
    }
    return count;
}

/* What they cost at least, one after the other, the first one taken over. */
static double bare_get(unsigned at)
{
    _Atomic uint64_t *line = (_Atomic uint64_t *)(lines + (uint64_t)at * 4 * CPU_LINE);
    uint64_t start = crti_now_ns(), sum = atomic_fetch_add(line, 1);

    for (unsigned i = 1; i < 4; i++)
        sum += atomic_load(line + i * (CPU_LINE / 8) + (sum & 0));
    return (double)(crti_now_ns() - start) / 1000;
}

static void get_objects(crti_store_t *store, uint64_t size, uint64_t first,
                        unsigned count, samples_t *coldest, samples_t *others)
{
    crti_store_view_t views[BATCH];

    for (unsigned i = 0; i < count; i++) {
        uint64_t start = crti_now_ns();

        CRT_CHECK(crti_store_get(store, bench_object(6, first + i), &views[i]));
        sample(i == 0 ? coldest : others, (double)(crti_now_ns() - start) / 1000);
    }
    for (unsigned i = 0; i < count; i++) {
        if (((const uint8_t *)views[i].data)[size - 1] != (uint8_t)(first + i))
            abort();
        crti_store_release(store, &views[i]);
        crti_store_free(store, bench_object(6, first + i));
    }
}

/* The first of a batch finds everything cold: the other process has just written all of it through
 * the cache that both share. So does whatever stands in its place. */
static void bench_size(peer_t *peer, crti_store_t *store, size_t size, const char *name,
                       unsigned rounds)
{
    samples_t cold = {0}, warm = {0}, none = {0}, bare_cold = {0}, bare_warm = {0};
    uint64_t number = 1;
    char whole[64];

    for (unsigned i = 0; i < 2 * rounds; i++) {
        unsigned count;

        peer_go(peer, make_objects, size, number);
        count = (unsigned)peer_await(peer);
        for (unsigned k = 0; i % 2 && k < BATCH; k++)
            sample(k == 0 ? &bare_cold : &bare_warm, bare_get(k));
        get_objects(store, size, number, count, i % 2 ? &none : &cold, &warm);
        number += count;
    }
    snprintf(whole, sizeof(whole), "%s, first get", name);
    print_beside(whole, "us", &warm, "4 lines of another's", &bare_warm);
    print_beside("  when all is cold", "us", &cold, "4 lines of another's", &bare_cold);
    free(none.values);
}

void bench_gets(crti_store_t *daemon, crti_store_t *store, unsigned rounds)
{
    static const struct {
        size_t size;
        const char *name;
    } sizes[] = {
        {1024, "1 KiB"}, {65536, "64 KiB"}, {1 << 20, "1 MiB"}, {LARGE_BYTES, "100 MB"}};
    samples_t clock = {0}, none = {0};
    peer_t peer;

    if (!bench_pin(0))
        return;
    lines =
        (uint64_t)(uintptr_t)mmap(NULL, 4ull * BATCH * CPU_LINE, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    peer_start(&peer, daemon, 2, 1);
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t start = crti_now_ns();

        sample(&clock, (double)(crti_now_ns() - start) / 1000);
    }
    print_beside("the clock, in each of the next", "us", &clock, NULL, &none);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        bench_size(&peer, store, sizes[i].size, sizes[i].name, rounds);
    peer_end(&peer, daemon, 2);
    bench_unpin();
}
