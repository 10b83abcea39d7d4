/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: a number for each step, computed from the step alone. */
#include <math.h>

#include "runtime/base/copy_struct.h"
#include <crt_ml.h>

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

crt_status_t crt_schedule_at(const crt_schedule_t *schedule, uint64_t step,
                             double *value_out)
{
    crt_schedule_t mine, *s = &mine;
    crt_status_t status =
        CRTI_COPY_STRUCT(s, schedule, "crt_schedule_constant and its like");
    uint64_t every, drops;

    if (status != CRT_OK)
        return status;
    every = s->steps > 0 ? s->steps : 1;
    drops = step / every;
    switch (s->kind) {
    case CRT_SCHEDULE_KIND_CONSTANT: *value_out = s->start; return CRT_OK;
    case CRT_SCHEDULE_KIND_COMPOUNDING:
        *value_out = compounding(s, (double)step);
        return CRT_OK;
    case CRT_SCHEDULE_KIND_WARMUP_LINEAR:
        *value_out = warmup_linear(s, step);
        return CRT_OK;
    case CRT_SCHEDULE_KIND_COSINE: *value_out = cosine(s, step); return CRT_OK;
    case CRT_SCHEDULE_KIND_STEP:
        *value_out = s->start * pow(s->factor, (double)drops);
        return CRT_OK;
    }
    return crt_raise(CRT_ERR_UNSUPPORTED, "no schedule has the number %d", (int)s->kind);
}
