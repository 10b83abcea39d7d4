/* SPDX-License-Identifier: Apache-2.0 */
/* Tools of bench_store. See store_bench.h. */
#include "store_bench.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/store/futex.h"

/* ---------------------------------------------------------------- samples */

void sample(samples_t *s, double value)
{
    if (s->count == s->room) {
        s->room = 2 * s->room + 64;
        s->values = realloc(s->values, s->room * sizeof(*s->values));
        if (!s->values)
            abort();
    }
    s->values[s->count++] = value;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

double quantile(samples_t *s, double part)
{
    if (s->count == 0)
        return 0;
    qsort(s->values, s->count, sizeof(*s->values), by_value);
    return s->values[(unsigned)(part * (s->count - 1) + 0.5)];
}

static void empty(samples_t *s)
{
    free(s->values);
    *s = (samples_t){0};
}

static void print_one(const char *name, const char *unit, samples_t *ours)
{
    printf("%-34s %8.3f %-4s (%.3f ... %.3f)", name, quantile(ours, 0.5), unit,
           quantile(ours, 0.1), quantile(ours, 0.9));
}

void print_beside(const char *name, const char *unit, samples_t *ours, const char *limit,
                  samples_t *bare)
{
    print_one(name, unit, ours);
    if (limit)
        printf("  %s %.3f %s", limit, quantile(bare, 0.5), unit);
    printf("\n");
    empty(ours);
    empty(bare);
}

void print_ratio(const char *name, const char *unit, samples_t *ours, const char *limit,
                 samples_t *bare, double bound)
{
    samples_t ratios = {0};

    for (unsigned i = 0; i < ours->count && i < bare->count; i++)
        sample(&ratios, ours->values[i] / bare->values[i]);
    print_one(name, unit, ours);
    printf("  %s %.3f %s  ratio %.2f (%.2f ... %.2f)", limit, quantile(bare, 0.5), unit,
           quantile(&ratios, 0.5), quantile(&ratios, 0.1), quantile(&ratios, 0.9));
    if (bound > 0)
        printf("  bound %.2f", bound);
    printf("\n");
    empty(&ratios);
    empty(ours);
    empty(bare);
}

/* ---------------------------------------------------------------- processes */

crti_object_id_t bench_object(uint64_t owner, uint64_t number)
{
    return (crti_object_id_t){{owner, ~owner}, number};
}

void bench_put(crti_store_t *store, crti_object_id_t id, const void *from, size_t size)
{
    void *data;

    CRT_CHECK(crti_store_create(store, id, size, &data));
    crti_store_copy(data, from, size);
    CRT_CHECK(crti_store_seal(store, id, true));
}

static cpu_set_t allowed;

static bool pin_to(unsigned number)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && number-- == 0) {
            CPU_SET(cpu, &one);
            return sched_setaffinity(0, sizeof(one), &one) == 0;
        }
    return false;
}

bool bench_pin(unsigned number)
{
    if (CPU_COUNT(&allowed) == 0)
        sched_getaffinity(0, sizeof(allowed), &allowed);
    if (CPU_COUNT(&allowed) < 2) {
        printf("two processors are needed\n");
        return false;
    }
    return pin_to(number);
}

void bench_unpin(void)
{
    sched_setaffinity(0, sizeof(allowed), &allowed);
}

struct peer_page {
    _Atomic uint32_t told, answered; /* futexes: how many orders */
    peer_work_t *work;               /* NULL: end */
    uint64_t a, b, result;
};

static void peer_main(struct peer_page *page, crti_store_t *store)
{
    for (uint32_t n = 1;; n++) {
        while (atomic_load(&page->told) != n)
            crti_futex_wait(&page->told, n - 1, CRTI_S);
        if (!page->work)
            break;
        page->result = page->work(store, page->a, page->b);
        atomic_store(&page->answered, n);
        crti_futex_wake(&page->answered, 1);
    }
    crti_store_detach(store);
    _exit(0);
}

void peer_start(peer_t *peer, crti_store_t *daemon, unsigned slot, unsigned core)
{
    crti_store_t *store;

    peer->page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (peer->page == MAP_FAILED)
        abort();
    fflush(stdout);
    peer->pid = fork();
    if (peer->pid != 0)
        return;
    if (core == ALL_CORES)
        bench_unpin();
    else if (!bench_pin(core))
        _exit(1);
    CRT_CHECK(crti_store_attach(crti_store_fd(daemon), slot, crti_id_random(), &store));
    peer_main(peer->page, store);
}

void peer_go(peer_t *peer, peer_work_t *work, uint64_t a, uint64_t b)
{
    peer->page->work = work;
    peer->page->a = a;
    peer->page->b = b;
    atomic_fetch_add(&peer->page->told, 1);
    crti_futex_wake(&peer->page->told, 1);
}

uint64_t peer_wait(peer_t *peer)
{
    uint32_t told = atomic_load(&peer->page->told), answered;

    while ((answered = atomic_load(&peer->page->answered)) != told) {
        crti_futex_wait(&peer->page->answered, answered, CRTI_S);
        if (waitpid(peer->pid, NULL, WNOHANG) == peer->pid) {
            fprintf(stderr, "the other process ended\n");
            exit(1);
        }
    }
    return peer->page->result;
}

uint64_t peer_await(peer_t *peer)
{
    uint64_t start = crti_now_ns();

    while (atomic_load(&peer->page->answered) != atomic_load(&peer->page->told))
        if (crti_now_ns() - start > 10 * CRTI_S)
            return peer_wait(peer);
    return peer->page->result;
}

void peer_end(peer_t *peer, crti_store_t *daemon, unsigned slot)
{
    peer_go(peer, NULL, 0, 0);
    waitpid(peer->pid, NULL, 0);
    CRT_CHECK(crti_store_reclaim(daemon, slot));
    munmap(peer->page, 4096);
}
