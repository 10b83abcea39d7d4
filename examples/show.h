/* SPDX-License-Identifier: Apache-2.0 */
/* What a training shows of itself while it runs: metrics for Prometheus, curves as pictures, and a
 * line with the time that is left, on a terminal.
 *
 *     show_t show;
 *
 *     CRT_TRY(show_open(&show, "images"));
 *     for each row: show_row(&show, step, loss, accuracy, images_per_s);  show_progress("train",
 *     step, steps, began); show_write(&show, "output");       output-loss.svg, output-accuracy.svg,
 *     output-throughput.svg
 *
 * One thread; after crt_init.
 */
#ifndef SHOW_H
#define SHOW_H

#include <crt.h>

#include "curve.h"

enum { SHOW_LOSS, SHOW_ACCURACY, SHOW_THROUGHPUT, SHOW_KINDS };

typedef struct show {
    crt_gauge_t *gauges[SHOW_KINDS];
    crt_gauge_t *step;
    crt_gauge_t *sweep_step; /* what crt job submit --sweep looks for */
    curve_t curves[SHOW_KINDS];
} show_t;

/* Registers train_loss, train_accuracy, train_UNITS_per_second, train_step and, by which sweeps
 * compare their runs, step; and begins the curves. */
crt_status_t show_open(show_t *show, const char *units);

/* What is known behind a step; NAN: nothing. CRT_ERR_NO_MEMORY. */
crt_status_t show_row(show_t *show, double step, double loss, double accuracy,
                      double per_second);

/* The histogram train_staleness_updates: by how many updates the weights of a gradient were older
 * than those it came to. In the process that adds gradients. */
crt_status_t show_staleness(crt_histogram_t **histogram_out);

/* Writes the curves that have points to PREFIX-loss.svg and so on. CRT_ERR_IO names the file. */
crt_status_t show_write(const show_t *show, const char *prefix);

void show_close(show_t *show);

/* On a terminal one line, which the next one replaces: `done` of `all`, how many in a second since
 * `began` (of CLOCK_MONOTONIC, in seconds), and the time that is left. */
void show_progress(double done, double all, double began);

/* Takes that line away, before something else is printed. */
void show_nothing(void);

#endif
