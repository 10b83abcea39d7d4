/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: a number for each step, computed from the step alone. */
#include <math.h>

#include "crt_ml.h"

crt_schedule_t crt_schedule_constant(double value)
{
    return (crt_schedule_t){.kind = CRT_SCHEDULE_CONSTANT, .start = value};
}

crt_schedule_t crt_schedule_compounding(double start, double stop, double factor)
{
    return (crt_schedule_t){
        .kind = CRT_SCHEDULE_COMPOUNDING, .start = start, .stop = stop, .factor = factor};
}

crt_schedule_t crt_schedule_warmup_linear(double value, uint64_t warmup_steps,
                                          uint64_t total_steps)
{
    return (crt_schedule_t){.kind = CRT_SCHEDULE_WARMUP_LINEAR,
                            .start = value,
                            .warmup_steps = warmup_steps,
                            .steps = total_steps};
}

crt_schedule_t crt_schedule_cosine(double start, double stop, uint64_t steps)
{
    return (crt_schedule_t){
        .kind = CRT_SCHEDULE_COSINE, .start = start, .stop = stop, .steps = steps};
}

crt_schedule_t crt_schedule_step(double start, double factor, uint64_t every)
{
    return (crt_schedule_t){
        .kind = CRT_SCHEDULE_STEP, .start = start, .factor = factor, .steps = every};
}

static double compounding(const crt_schedule_t *s, double step)
{
    double value = s->start * pow(s->factor, step);

    return s->start > s->stop ? fmax(value, s->stop) : fmin(value, s->stop);
}

static double warmup_linear(const crt_schedule_t *s, uint64_t step)
{
    uint64_t warmup = s->warmup_steps, total = s->steps;

    if (step < warmup)
        return s->start * (double)step / (double)warmup;
    if (step >= total)
        return 0;
    return s->start * (double)(total - step) / (double)(total - warmup);
}

static double cosine(const crt_schedule_t *s, uint64_t step)
{
    if (step >= s->steps)
        return s->stop;
    return s->stop +
           (s->start - s->stop) * (1 + cos(M_PI * (double)step / (double)s->steps)) / 2;
}

double crt_schedule_at(const crt_schedule_t *s, uint64_t step)
{
    uint64_t every = s->steps > 0 ? s->steps : 1;

    switch (s->kind) {
    case CRT_SCHEDULE_COMPOUNDING: return compounding(s, (double)step);
    case CRT_SCHEDULE_WARMUP_LINEAR: return warmup_linear(s, step);
    case CRT_SCHEDULE_COSINE: return cosine(s, step);
    case CRT_SCHEDULE_STEP: return s->start * pow(s->factor, (double)(step / every));
    case CRT_SCHEDULE_CONSTANT: break;
    }
    return s->start;
}
