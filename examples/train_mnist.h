/* SPDX-License-Identifier: Apache-2.0 */
/* What train_mnist was asked to do. */
#ifndef TRAIN_MNIST_H
#define TRAIN_MNIST_H

#include <stdio.h>

#include <crt_actors.h>

#include "show.h"

#define WORKERS_MAX 1024
#define SHARDS_MAX  64

typedef enum mode { SYNC, ASYNC, ALLREDUCE, SHARDED } train_mode_t;
typedef enum overlap { ON, OFF, BOTH } overlap_t;

struct options {
    const char *data, *save, *load, *mode_name, *csv, *svg;
    /* a configuration that is not here: of no matter to a worker on another host */
    const char *missing;
    train_mode_t mode;
    overlap_t overlap;
    crt_on_death_t on_death;
    bool bfloat16, sharded, json;
    int workers, shards, iterations, epochs, batch, hidden, eval_every, bucket;
    double dropout, lr;
    uint64_t seed;
};

extern struct options options;

/* A configuration, when the first word is one, and the options, which win. Ends the program with 2
 * and one sentence when something is wrong. */
void read_options(int argc, char **argv);

/* Ends the program with 1 when `status` is an error. */
void check(crt_status_t status, const char *what);

/* ---------------------------------------------------------------- train_mnist_report.c */

/* What is shown, and written to --csv and --svg. */
typedef struct report {
    show_t show;
    FILE *csv;
    double began, row_s; /* of the loop; seconds of training, behind the last row */
    int row_update;
    crt_histogram_t *staleness;
    double late;    /* updates, of the gradients since the last row, */
    int late_count; /* which are so many */
} report_t;

void report_open(report_t *report);

/* Sorts them; 0 when there are none. */
double report_median(double *values, size_t count);

/* A gradient came that many updates after the weights it was computed with. */
void report_late(report_t *report, int updates);

/* A row: what the weights are worth behind an update and so many seconds of training. */
void report_update(report_t *report, crt_model_t *model, const crt_tensor_t *weights,
                   const crt_dataset_t *test, int update, double accuracy,
                   double trained);

void report_close(report_t *report);

#endif
