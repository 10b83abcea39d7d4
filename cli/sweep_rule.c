/* SPDX-License-Identifier: Apache-2.0 */
/* When a run of a sweep is stopped early. See sweep.h.
 *
 * Median rule: a run whose best value so far is worse than the median of what the others had
 * reached by the same step, of at least three others that came so far. A run that is ahead of them
 * is compared with what they had at the last step that three of them have reached, or it would
 * never be judged once they have ended.
 * ASHA (successive halving without waiting): at the steps grace * 3^k a run goes on only when it is
 * among the best third of those that came there before it, itself included; the first two of a rung
 * always go on. Values are compared at equal steps. What a run had at a step that nobody saw lies
 * between the steps around it: the run that is judged gets the benefit of that, so that none is
 * stopped for having been looked at earlier than another one.
 */
#include <math.h>
#include <stdlib.h>

#include "cli/sweep.h"

#define OTHERS_LEAST 3
#define FACTOR       3

static bool is_better(const sweep_t *sweep, double a, double b)
{
    return sweep->larger_is_better ? a > b : a < b;
}

bool crti_sweep_best(const sweep_t *sweep, const sweep_run_t *run, double step,
                     bool at_most, double *best_out)
{
    bool is_found = false, is_exact = false;

    for (size_t i = 0; i < run->points; i++) {
        const sweep_point_t *p = &run->history[i];

        if (p->step > step && (!at_most || is_exact))
            break;
        is_exact = p->step >= step; /* nothing behind it counts */
        if (!is_found || is_better(sweep, p->value, *best_out))
            *best_out = p->value;
        is_found = true;
    }
    return is_found;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double last_step(const sweep_run_t *run)
{
    return run->points ? run->history[run->points - 1].step : -INFINITY;
}

/* What the others that reached that step are known to have had by then. The caller frees it. */
static double *others_at(const sweep_t *sweep, size_t run, double step, size_t *count_out)
{
    double *values = calloc(sweep->count + 1, sizeof(*values));

    *count_out = 0;
    for (size_t i = 0; values && i < sweep->count; i++)
        if (i != run && last_step(&sweep->runs[i]) >= step &&
            crti_sweep_best(sweep, &sweep->runs[i], step, false, &values[*count_out]))
            ++*count_out;
    return values;
}

/* The last step, up to the run's own, that enough of the others have reached; -INFINITY: none. */
static double common_step(const sweep_t *sweep, size_t run)
{
    double own = last_step(&sweep->runs[run]), farthest[OTHERS_LEAST];

    for (size_t k = 0; k < OTHERS_LEAST; k++)
        farthest[k] = -INFINITY;
    for (size_t i = 0; i < sweep->count; i++) {
        double step = i == run ? -INFINITY : fmin(last_step(&sweep->runs[i]), own);

        for (size_t k = 0; k < OTHERS_LEAST; k++)
            if (step > farthest[k]) {
                double less = farthest[k];

                farthest[k] = step;
                step = less;
            }
    }
    return farthest[OTHERS_LEAST - 1];
}

static bool is_below_median(const sweep_t *sweep, size_t run)
{
    const sweep_run_t *r = &sweep->runs[run];
    double best, median, step = common_step(sweep, run), *values;
    size_t count;
    bool is_worse;

    if (step < sweep->grace || !crti_sweep_best(sweep, r, last_step(r), true, &best))
        return false;
    values = others_at(sweep, run, step, &count);
    if (!values || count < OTHERS_LEAST) {
        free(values);
        return false;
    }
    qsort(values, count, sizeof(*values), ascending);
    median =
        count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
    is_worse = is_better(sweep, median, best);
    free(values);
    return is_worse;
}

/* Those that came to the rung before count as they were then. */
static bool falls_out(sweep_t *sweep, size_t run)
{
    sweep_run_t *r = &sweep->runs[run];
    double step = sweep->grace * pow(FACTOR, r->rung), best, *values;
    size_t count, better = 0;

    if (last_step(r) < step || !crti_sweep_best(sweep, r, step, true, &best))
        return false;
    r->rung++;
    values = others_at(sweep, run, step, &count);
    for (size_t i = 0; values && i < count; i++)
        better += is_better(sweep, values[i], best);
    free(values);
    return count + 1 >= FACTOR && better >= (count + 1) / FACTOR;
}

bool crti_sweep_should_stop(sweep_t *sweep, size_t run)
{
    bool stops = false;
    unsigned rung;

    if (sweep->rule == SWEEP_MEDIAN)
        return is_below_median(sweep, run);
    if (sweep->rule == SWEEP_ASHA)
        do { /* it may have passed several */
            rung = sweep->runs[run].rung;
            stops = falls_out(sweep, run);
        } while (!stops && sweep->runs[run].rung != rung);
    return stops;
}
