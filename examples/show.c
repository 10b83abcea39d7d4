/* SPDX-License-Identifier: Apache-2.0 */
#include "show.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BAR 30

static const char *const names[SHOW_KINDS] = {"loss", "accuracy", "throughput"};
static const char *const titles[SHOW_KINDS] = {"loss by step", "accuracy by step",
                                               "throughput (1/s) by step"};

crt_status_t show_open(show_t *s, const char *units)
{
    char throughput[64];

    *s = (show_t){.step = NULL};
    for (int i = 0; i < SHOW_KINDS; i++)
        s->curves[i].title = titles[i];
    snprintf(throughput, sizeof(throughput), "train_%s_per_second", units);
    CRT_TRY(
        crt_gauge("train_loss", "Loss of the last steps.", NULL, &s->gauges[SHOW_LOSS]));
    CRT_TRY(crt_gauge("train_accuracy", "Accuracy, or F, of the last evaluation.", NULL,
                      &s->gauges[SHOW_ACCURACY]));
    CRT_TRY(crt_gauge(throughput, "What all members together get through.", NULL,
                      &s->gauges[SHOW_THROUGHPUT]));
    CRT_TRY(crt_gauge("train_step", "Updates that were made.", NULL, &s->step));
    return crt_gauge("step", "Updates that were made, for sweeps.", NULL, &s->sweep_step);
}

crt_status_t show_staleness(crt_histogram_t **histogram_out)
{
    static const double late[] = {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64};

    return crt_histogram(
        "train_staleness_updates",
        "Updates between the weights of a gradient and those it came to.", NULL, late,
        sizeof(late) / sizeof(late[0]), histogram_out);
}

crt_status_t show_row(show_t *s, double step, double loss, double accuracy,
                      double per_second)
{
    const double values[SHOW_KINDS] = {loss, accuracy, per_second};

    crt_gauge_set(s->step, step);
    crt_gauge_set(s->sweep_step, step);
    for (int i = 0; i < SHOW_KINDS; i++) {
        if (isnan(values[i]))
            continue;
        crt_gauge_set(s->gauges[i], values[i]);
        if (!curve_add(&s->curves[i], step, values[i]))
            return crt_raise(CRT_ERR_NO_MEMORY, "a curve");
    }
    return CRT_OK;
}

crt_status_t show_write(const show_t *s, const char *prefix)
{
    char path[PATH_MAX];

    for (int i = 0; i < SHOW_KINDS; i++) {
        snprintf(path, sizeof(path), "%s-%s.svg", prefix, names[i]);
        if (s->curves[i].count > 0 && !curve_write(&s->curves[i], path))
            return crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    }
    return CRT_OK;
}

void show_close(show_t *s)
{
    for (int i = 0; i < SHOW_KINDS; i++)
        curve_free(&s->curves[i]);
}

void show_nothing(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

void show_progress(double done, double all, double began)
{
    char bar[BAR + 1];
    struct timespec now;
    double seconds, left;
    int filled;

    if (done <= 0 || all <= 0 || !isatty(STDERR_FILENO))
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    seconds = (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - began;
    left = seconds / done * (all - done);
    filled = (int)(BAR * done / all);
    memset(bar, '.', BAR);
    memset(bar, '#', (size_t)(filled < BAR ? filled : BAR));
    bar[BAR] = 0;
    fprintf(stderr, "\r[%s] %.0f of %.0f, %.1f/s, %d:%02d left \033[K%s", bar, done, all,
            done / seconds, (int)left / 60, (int)left % 60, done >= all ? "\n" : "");
}
