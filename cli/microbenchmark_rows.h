/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of crt microbenchmark: bodies of Ray's ray_perf.py and of its single-node test, and what
 * they work with. */
#ifndef CRT_CLI_MICROBENCHMARK_ROWS_H
#define CRT_CLI_MICROBENCHMARK_ROWS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct row {
    const char *name;
    const char *ray; /* its name in Ray's microbenchmark; NULL: not there */
    const char *unit;
    void (*prepare)(void);
    void (*body)(void);
    double multiplier; /* operations (or gigabytes, or batches) of one body */
    bool per_server;   /* multiplier counts per server */
    const char *limit_name;
    void (*limit)(void);
    double limit_multiplier;
} row_t;

extern const row_t rows[];
extern const size_t row_count;

/* The echo partner, servers and what else the rows share. False: it can't be, and was said. */
bool bench_start(void);
void bench_end(void);
/* C of Ray's bodies: half the cores, at least one. */
int bench_server_count(void);
/* The driver on core 0, servers and the echo partner on core 1, where there are two; or all
 * anywhere. */
void bench_pin(bool pinned);

#endif
