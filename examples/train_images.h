/* SPDX-License-Identifier: Apache-2.0 */
/* What train_images was asked to do. */
#ifndef TRAIN_IMAGES_H
#define TRAIN_IMAGES_H

#include <crt_actors.h>
#include <crt_configuration.h>
#include <crt_fit.h>

#include "curve.h"

#define WORKERS_MAX   256
#define LAYERS_MAX    16
#define STALENESS_MAX 64

struct settings {
    crt_configuration_t *configuration; /* where all of this comes from */
    /* [data] */
    const crt_image_format_t *format;
    const char *source;
    int64_t limit, test_limit, batch, ahead;
    /* each worker has its own part; else they take turns with all images */
    bool has_shards;
    /* [network] */
    const char *network;
    int64_t hidden, depth; /* of "mlp", as dropout is */
    double dropout;
    /* [training] */
    int64_t workers, needed, staleness, steps, seed, slow_worker;
    double slowdown;
    bool cancel;
    int64_t piece_kb;      /* 0: gradients come whole */
    const char *precision; /* of a GPU; NULL: workers compute on the CPU */
    double num_gpus, limit_s;
    /* [training], by crt_fit: see train_images_fit.c */
    bool fits;
    crt_fit_strategy_t strategy;
    crt_accelerator_t accelerator;
    int64_t devices, devices_most, epochs, accumulate;
    double clip, validation;
    bool sync_norms, bfloat16, tests;
    const char *fit_precision;
    /* [optimizer] */
    crt_optimizer_options_t optimizer;
    /* [compression] */
    const char *compression;
    double keep_part;
    /* [checkpoints] */
    const char *folder;
    int64_t every, keep;
    bool resume;
    /* [output] */
    const char *csv, *svg;
    int64_t log_every;
    /* [evaluation] */
    const char *evaluation_csv, *evaluation_svg;
    int64_t patience_s;
};

extern struct settings settings;

/* Reads `file` (NULL: nothing but defaults) and the command line into `settings`; ends the program
 * with 2 and one sentence when something is wrong. The configuration is the caller's: texts of
 * `settings` lie in it. */
crt_configuration_t *read_settings(int argc, char **argv);

/* The network as actors are told of it; widths hold what `spec` points at. */
void fill_spec(crt_model_spec_t *spec, int widths[LAYERS_MAX + 3]);

/* The network itself, with its first weights; ends the program with 1 when these images do not fit
 * in. */
crt_model_t *make_model(void);

/* Trains with crt_fit. */
int fit_images(int argc, char **argv);

/* Evaluates each checkpoint that comes into the folder, until the last one of a training. */
int evaluate_checkpoints(void);

/* Writes a curve, unless `path` is NULL; ends the program with 1 when that fails. check_curve does
 * so when that can be known before the training. */
void check_curve(const char *path);
void save_curve(curve_t *curve, const char *path);

/* Ends the program with 1 when `status` is an error. */
void check(crt_status_t status, const char *what);

#endif
