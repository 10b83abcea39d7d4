/* SPDX-License-Identifier: Apache-2.0 */
/* What the runs of a sweep report: which metrics, and which value at which step. See sweep.h.
 *
 * Gauges keep the last times that they were set (base/metrics.h), so that steps between two looks
 * are seen. A value belongs to the step that was told nearest in time: programs set the step before
 * the others or behind them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/sweep.h"

#define RECORDS_MAX 64
#define CLEARLY     3 /* so much nearer in time to one step than to the other */

void crti_sweep_note(sweep_run_t *run, double step, double value)
{
    sweep_point_t *larger;

    if (!isfinite(value) || !isfinite(step))
        return;
    if (run->points && run->history[run->points - 1].step >= step) {
        if (run->history[run->points - 1].step == step) /* it was seen in between */
            run->history[run->points - 1].value = value;
        return;
    }
    if (run->points == run->room) {
        larger = realloc(run->history, (2 * run->room + 16) * sizeof(*larger));
        if (!larger)
            return;
        run->history = larger;
        run->room = 2 * run->room + 16;
    }
    run->history[run->points++] = (sweep_point_t){step, value};
}

/* ---------------------------------------------------------------- values and steps */

/* The step with the same number, where both gauges are set once in a step. */
static const sweep_record_t *counted(const sweep_record_t *value,
                                     const sweep_record_t *steps, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (steps[i].number == value->number)
            return &steps[i];
    return NULL;
}

/* NULL: nobody knows, or it may still come. */
static const sweep_record_t *step_of(const sweep_record_t *value,
                                     const sweep_record_t *steps, size_t count,
                                     bool has_ended)
{
    const sweep_record_t *before = NULL, *after = NULL, *same;
    double since, until;

    for (size_t i = 0; i < count && !after; i++)
        if (steps[i].set_ns <= value->set_ns)
            before = &steps[i];
        else
            after = &steps[i];
    if (!before) /* the first of all, or the one before is forgotten */
        return after && after->number == 0 ? after : counted(value, steps, count);
    if (!after)
        return has_ended ? before : NULL;
    since = value->set_ns - before->set_ns;
    until = after->set_ns - value->set_ns;
    if (since * CLEARLY < until || until * CLEARLY < since)
        return since < until ? before : after;
    same = counted(value, steps, count);
    return same ? same : after;
}

void crti_sweep_note_records(sweep_run_t *run, const sweep_record_t *values, size_t count,
                             const sweep_record_t *steps, size_t step_count,
                             bool has_ended)
{
    for (size_t i = 0; i < count; i++) {
        const sweep_record_t *step;

        if (!step_count) {
            crti_sweep_note(run, values[i].number + 1, values[i].value);
            continue;
        }
        step = step_of(&values[i], steps, step_count, has_ended);
        if (step)
            crti_sweep_note(run, step->value, values[i].value);
    }
}

/* ---------------------------------------------------------------- rows */

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));

    return text ? text : "";
}

static size_t read_records(const json_t *row, sweep_record_t records[RECORDS_MAX])
{
    const json_t *recent = json_object_get(row, "recent");
    size_t count = 0;

    for (size_t i = 0; i < json_array_size(recent) && count < RECORDS_MAX; i++) {
        const json_t *entry = json_array_get(recent, i);
        const json_t *value = json_array_get(entry, 2);

        if (json_is_number(value))
            records[count++] = (sweep_record_t){
                json_number_value(json_array_get(entry, 0)),
                json_number_value(json_array_get(entry, 1)), json_number_value(value)};
    }
    return count;
}

static bool is_equal(const json_t *a, const json_t *b, const char *key)
{
    return strcmp(text_of(a, key), text_of(b, key)) == 0;
}

/* That of the same process or, where it has none, of the same run. NULL: there is none. */
static const json_t *step_row(const json_t *rows, const json_t *of, const char *name)
{
    const json_t *row, *found = NULL;
    size_t i;

    json_array_foreach((json_t *)rows, i, row)
    {
        if (strcmp(text_of(row, "name"), name) != 0 || !is_equal(row, of, "job_id") ||
            !is_equal(row, of, "node_id"))
            continue;
        if (is_equal(row, of, "actor_id"))
            return row;
        found = row;
    }
    return found;
}

static void take_row(sweep_t *sweep, sweep_run_t *run, const json_t *rows,
                     const json_t *row)
{
    sweep_record_t values[RECORDS_MAX], steps[RECORDS_MAX];
    const json_t *step = step_row(rows, row, "step");
    size_t count = read_records(row, values);

    step = step ? step : step_row(rows, row, "epoch");
    if (count) {
        size_t step_count = step ? read_records(step, steps) : 0;

        crti_sweep_note_records(run, values, count, steps, step_count,
                                crti_sweep_has_ended(run->state));
    } else if (step) { /* a counter has its value of now only */
        crti_sweep_note(run, json_number_value(json_object_get(step, "value")),
                        json_number_value(json_object_get(row, "value")));
    } else {
        double value = json_number_value(json_object_get(row, "value"));

        if (!run->points || run->history[run->points - 1].value != value)
            crti_sweep_note(run, (double)run->points + 1, value);
    }
}

static sweep_run_t *run_of(sweep_t *sweep, const json_t *row)
{
    const char *job = text_of(row, "job_id");

    for (size_t i = 0; i < sweep->count; i++)
        if (sweep->runs[i].job[0] && strcmp(sweep->runs[i].job, job) == 0)
            return &sweep->runs[i];
    return NULL;
}

static bool is_counted(const json_t *row)
{
    return json_is_number(json_object_get(row, "value")) &&
           strcmp(text_of(row, "kind"), "histogram") != 0 &&
           strncmp(text_of(row, "name"), "crt_", 4) != 0;
}

bool crti_sweep_take_metrics(sweep_t *sweep, const json_t *rows)
{
    bool is_new = false;
    const json_t *row;
    size_t i;

    json_array_foreach((json_t *)rows, i, row)
    {
        const char *name = text_of(row, "name");
        sweep_run_t *run = is_counted(row) ? run_of(sweep, row) : NULL;
        size_t before;

        if (!run)
            continue;
        if (!run->metrics)
            run->metrics = json_object();
        json_object_set(run->metrics, name, json_object_get(row, "value"));
        if (!sweep->found[0] && strcmp(name, "step") != 0 && strcmp(name, "epoch") != 0)
            snprintf(sweep->found, sizeof(sweep->found), "%s", name);
        if (strcmp(name, sweep->found) != 0)
            continue;
        before = run->points;
        take_row(sweep, run, rows, row);
        is_new = is_new || run->points != before;
    }
    return is_new;
}

/* ---------------------------------------------------------------- a metric that nobody reports */

size_t crti_sweep_lacks_metric(const sweep_t *sweep)
{
    size_t found = sweep->count;

    for (size_t i = 0; i < sweep->count; i++) {
        const sweep_run_t *run = &sweep->runs[i];

        if (json_object_get(run->metrics, sweep->found))
            return sweep->count;
        if (found == sweep->count &&
            (json_object_size(run->metrics) || run->state == SWEEP_SUCCEEDED))
            found = i;
    }
    return found;
}

void crti_sweep_reported(const sweep_t *sweep, char *text, size_t size)
{
    json_t *names = json_object(), *value;
    const char *name;
    size_t used = 0;

    snprintf(text, size, "nothing");
    for (size_t i = 0; i < sweep->count; i++)
        json_object_update(names, sweep->runs[i].metrics);
    json_object_foreach(names, name, value) if (used < size) used +=
        (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
    json_decref(names);
}
