/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of bench_store share: samples, a second process that does what it is told, and
 * how a figure is printed beside its limit. */
#ifndef CRT_BENCH_STORE_H
#define CRT_BENCH_STORE_H

#include <limits.h>
#include <stdatomic.h>

#include "runtime/base/clock.h"
#include "runtime/store/arena.h"

#define SMALL_BYTES 1024u
#define LARGE_BYTES 100000000u

/* ---------------------------------------------------------------- samples */

typedef struct samples {
    double *values;
    unsigned count, room;
} samples_t;

void sample(samples_t *s, double value);
/* Sorts; `part` 0.5 is the median. */
double quantile(samples_t *s, double part);
/* "NAME  0.13 us (0.12 ... 0.15)  bare 0.02 us": median and the middle 80 %; empties both. */
void print_beside(const char *name, const char *unit, samples_t *ours, const char *limit,
                  samples_t *bare);
/* The same with the median of the ratios ours[i] / bare[i], which are of one round each, and the
 * bound that they should keep. */
void print_ratio(const char *name, const char *unit, samples_t *ours, const char *limit,
                 samples_t *bare, double bound);

/* ---------------------------------------------------------------- processes */

crti_object_id_t bench_object(uint64_t owner, uint64_t number);
void bench_put(crti_store_t *store, crti_object_id_t id, const void *from, size_t size);
/* To a processor of those this process may use; false when it has not so many. */
bool bench_pin(unsigned number);
void bench_unpin(void);

/* A process with an attachment of its own, asleep until it is told something. */
typedef struct peer {
    pid_t pid;
    struct peer_page *page;
} peer_t;

typedef uint64_t peer_work_t(crti_store_t *store, uint64_t a, uint64_t b);

#define ALL_CORES UINT_MAX

void peer_start(peer_t *peer, crti_store_t *daemon, unsigned slot, unsigned core);
/* Begins the work there; peer_wait gives what it returned. */
void peer_go(peer_t *peer, peer_work_t *work, uint64_t a, uint64_t b);
uint64_t peer_wait(peer_t *peer);
/* The same without sleeping: this processor stays awake. */
uint64_t peer_await(peer_t *peer);
void peer_end(peer_t *peer, crti_store_t *daemon, unsigned slot);

/* ---------------------------------------------------------------- parts */

void bench_small(crti_store_t *daemon, crti_store_t *store, unsigned rounds);
void bench_pairs(crti_store_t *daemon, crti_store_t *store, unsigned rounds);
void bench_large(crti_store_t *daemon, crti_store_t *store, unsigned rounds);
void bench_gets(crti_store_t *daemon, crti_store_t *store, unsigned rounds);
/* With the whole API, on a cluster of its own: driver of crt_main. */
int bench_api(int argc, char **argv);

#endif
