/* SPDX-License-Identifier: Apache-2.0 */
/* What the scaling benchmark's workers share: the arrays of the model and the emulated computation.
 *
 * The model is spaCy's tok2vec + ner with its default settings: 31 arrays of 982,194 floats. Only
 * their sizes matter here; they lie one after another in the order of the forward pass. An update
 * computes nothing but takes the time of one: a third for the forward pass, two thirds for the
 * backward pass, in which the arrays become readable from the last to the first, each at its share
 * of the floats.
 */
#ifndef CRTI_BENCH_SCALING_H
#define CRTI_BENCH_SCALING_H

#include <crt.h>

enum { SCALING_ARRAYS = 31, SCALING_FLOATS = 982194 };

typedef struct scaling_array {
    const char *name;
    size_t at, count; /* in the flat buffer */
} scaling_array_t;

/* In the order of the forward pass. Ends the program when the shapes do not add up. */
const scaling_array_t *scaling_arrays(void);

/* A run of arrays that become readable one after another, sent together. */
typedef struct scaling_bucket {
    size_t at, count;
} scaling_bucket_t;

/* Cuts the arrays into buckets of at least `bytes` (0: one for all), in the order in which they
 * become readable. Gives their number. */
int scaling_buckets(size_t bytes, scaling_bucket_t buckets[SCALING_ARRAYS]);

/* One update's clock. */
typedef struct scaling_clock {
    uint64_t forward_ns, backward_ns, start_ns;
} scaling_clock_t;

scaling_clock_t scaling_clock(double update_ms);
void scaling_clock_start(scaling_clock_t *clock);

/* Waits until all floats from `at` on are readable; `at` is the first of an array. */
void scaling_clock_wait(const scaling_clock_t *clock, size_t at);

/* For a computation that stood still for a while: everything after that comes later. */
void scaling_clock_delay(scaling_clock_t *clock, uint64_t ns);

uint64_t scaling_now_ns(void);

/* Whole numbers, so that every sum is exact: what worker `rank` puts into each float of its
 * gradient, and what each weight is after `updates` updates of `workers` workers. */
float scaling_gradient(int rank, int64_t update);
float scaling_weight(int workers, int64_t updates);

/* Fails unless the first and the last of `count` floats are `wanted`. */
crt_status_t scaling_check(const float *floats, size_t count, float wanted,
                           const char *what);

#endif
