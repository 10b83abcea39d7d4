/* SPDX-License-Identifier: Apache-2.0 */
/* What train_mnist was asked to do. */
#ifndef TRAIN_MNIST_H
#define TRAIN_MNIST_H

#include <crt_actors.h>

#define WORKERS_MAX 1024
#define SHARDS_MAX  64

typedef enum mode { SYNC, ASYNC, ALLREDUCE, SHARDED } train_mode_t;
typedef enum overlap { ON, OFF, BOTH } overlap_t;

struct options {
    const char *data, *save, *load, *mode_name;
    train_mode_t mode;
    overlap_t overlap;
    crt_on_death_t on_death;
    bool bfloat16, sharded, json;
    int workers, shards, iterations, batch, hidden, eval_every, bucket;
    double dropout, lr;
    uint64_t seed;
};

extern struct options options;

/* Ends the program with 2 and one sentence when an option is wrong. */
void read_options(int argc, char **argv);

#endif
