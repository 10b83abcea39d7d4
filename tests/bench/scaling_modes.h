/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to train that the scaling benchmark compares; scaling_program.c picks one. */
#ifndef CRTI_BENCH_SCALING_MODES_H
#define CRTI_BENCH_SCALING_MODES_H

#include "scaling.h"

#define SCALING_HOSTS 64 /* at most */

typedef enum scaling_mode {
    SCALING_SERVER,    /* one parameter server, on the first host */
    SCALING_SHARDED,   /* one on each host */
    SCALING_BLOCKING,  /* a blocking allreduce of each array, as soon as it is readable */
    SCALING_OVERLAPPED /* allreduce of buckets while the backward pass goes on */
} scaling_mode_t;

typedef struct scaling_options {
    scaling_mode_t mode;
    int workers, updates, warm_up;
    double update_ms;
    size_t bucket_bytes;
} scaling_options_t;

extern const crt_actor_class_t scaling_server, scaling_server_worker,
    scaling_allreduce_worker;

/* What updates took: of the clock, and of all processors of the machine together (whoever used
 * them; with the hosts on one machine that is all of them). */
typedef struct scaling_time {
    double seconds, cpu_seconds;
} scaling_time_t;

scaling_time_t scaling_time_now(void);
scaling_time_t scaling_time_since(scaling_time_t start);

/* The time of `updates` updates; wrong weights or a failure end the program. */
scaling_time_t scaling_run_servers(const scaling_options_t *options);
scaling_time_t scaling_run_allreduce(const scaling_options_t *options);

/* Host `number` of 0, 1, ...: its node has the resource "hostNUMBER". Valid until the next call. */
const crt_actor_options_t *scaling_place(int number);

/* Ends the program, saying why. */
void scaling_must(crt_status_t status, const char *what);
void scaling_must_ref(crt_ref_t *ref);

#endif
