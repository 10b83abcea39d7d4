/* SPDX-License-Identifier: Apache-2.0 */
/* What became of a sweep: files and a table. See sweep.h. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/sweep.h"
#include "cli/table.h"

#define COLUMNS_MAX 40
#define CELL        96

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The same names, sorted; `names_take` is dropped. */
static json_t *sort_names(json_t *names_take)
{
    size_t count = json_object_size(names_take), i = 0;
    const char **sorted = calloc(count + 1, sizeof(*sorted)), *name;
    json_t *names = json_object(), *value;

    json_object_foreach(names_take, name, value) if (sorted) sorted[i++] = name;
    if (i)
        qsort(sorted, i, sizeof(*sorted), by_name);
    for (size_t k = 0; k < i; k++)
        json_object_set_new(names, sorted[k], json_true());
    free(sorted);
    json_decref(names_take);
    return names;
}

/* Names of the metrics that any run reported, sorted; the caller drops it. */
static json_t *metric_names(const sweep_t *sweep)
{
    json_t *names = json_object(), *value;
    const char *name;

    for (size_t i = 0; i < sweep->count; i++)
        json_object_foreach(sweep->runs[i].metrics, name, value)
            json_object_set_new(names, name, json_true());
    return sort_names(names);
}

/* ---------------------------------------------------------------- files */

static FILE *open_new(const sweep_t *sweep, const char *name, char *path, size_t size)
{
    FILE *file;

    snprintf(path, size, "%s/.%s.new", sweep->directory, name);
    file = fopen(path, "we");
    if (!file)
        crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    return file;
}

/* Whole, or not at all. */
static crt_status_t put_in_place(const sweep_t *sweep, FILE *file, const char *written,
                                 const char *name)
{
    char path[4096];
    bool is_good = fflush(file) == 0 && !ferror(file);

    is_good = fclose(file) == 0 && is_good;
    snprintf(path, sizeof(path), "%s/%s", sweep->directory, name);
    if (is_good && rename(written, path) == 0)
        return CRT_OK;
    return crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
}

static json_t *parameters_json(const sweep_t *sweep, size_t run)
{
    json_t *object = json_object();
    char name[64];

    for (size_t i = 0; i < sweep->parameter_count; i++) {
        snprintf(name, sizeof(name), "%.*s", (int)sweep->parameters[i].name_size,
                 sweep->parameters[i].name);
        json_object_set_new(object, name, json_string(crti_sweep_value(sweep, run, i)));
    }
    return object;
}

static json_t *run_json(const sweep_t *sweep, size_t i)
{
    const sweep_run_t *run = &sweep->runs[i];
    json_t *history = json_array();
    char id[SWEEP_ID_MAX + 32];

    for (size_t k = 0; k < run->points; k++)
        json_array_append_new(
            history, json_pack("[f, f]", run->history[k].step, run->history[k].value));
    snprintf(id, sizeof(id), "%s-%zu", sweep->id, i);
    return json_pack("{s:s, s:s, s:o, s:s, s:f, s:o, s:o, s:o}", "submission_id", id,
                     "job_id", run->job, "parameters", parameters_json(sweep, i), "state",
                     crti_sweep_state_name(run->state), "seconds", run->seconds, "needs",
                     run->needs ? json_incref(run->needs) : json_object(), "metrics",
                     run->metrics ? json_incref(run->metrics) : json_object(), "history",
                     history);
}

static crt_status_t save_json(const sweep_t *sweep)
{
    json_t *runs = json_array(), *all;
    char path[4096];
    FILE *file = open_new(sweep, "results.json", path, sizeof(path));

    for (size_t i = 0; i < sweep->count; i++)
        json_array_append_new(runs, run_json(sweep, i));
    all = json_pack("{s:s, s:s, s:s, s:o}", "sweep", sweep->id, "metric", sweep->found,
                    "mode", sweep->larger_is_better ? "max" : "min", "runs", runs);
    if (file)
        json_dumpf(all, file, JSON_INDENT(1) | JSON_REAL_PRECISION(10));
    json_decref(all);
    return file ? put_in_place(sweep, file, path, "results.json") : CRT_ERR_IO;
}

/* A field, quoted where it has to be. */
static void put_field(FILE *file, const char *text, bool is_first)
{
    bool is_plain = strpbrk(text, ",\"\r\n") == NULL;

    fputs(is_first ? "" : ",", file);
    if (is_plain) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text; text++)
        fprintf(file, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', file);
}

static const char *number_text(const json_t *value, char *text)
{
    text[0] = '\0';
    if (json_is_number(value))
        snprintf(text, CELL, "%.10g", json_number_value(value));
    return text;
}

static crt_status_t save_csv(const sweep_t *sweep)
{
    json_t *names = metric_names(sweep), *value;
    char path[4096], text[CELL];
    FILE *file = open_new(sweep, "results.csv", path, sizeof(path));
    const char *name;

    fputs(file ? "submission_id" : "", file ? file : stderr);
    for (size_t p = 0; file && p < sweep->parameter_count; p++)
        fprintf(file, ",%.*s", (int)sweep->parameters[p].name_size,
                sweep->parameters[p].name);
    if (file)
        fputs(",state,seconds", file);
    json_object_foreach(names, name, value) if (file) put_field(file, name, false);
    for (size_t i = 0; file && i < sweep->count; i++) {
        fprintf(file, "\n%s-%zu", sweep->id, i);
        for (size_t p = 0; p < sweep->parameter_count; p++)
            put_field(file, crti_sweep_value(sweep, i, p), false);
        fprintf(file, ",%s,%.3f", crti_sweep_state_name(sweep->runs[i].state),
                sweep->runs[i].seconds);
        json_object_foreach(names, name, value) put_field(
            file, number_text(json_object_get(sweep->runs[i].metrics, name), text),
            false);
    }
    if (file)
        fputc('\n', file);
    json_decref(names);
    return file ? put_in_place(sweep, file, path, "results.csv") : CRT_ERR_IO;
}

/* ---------------------------------------------------------------- the plot */

#define PLOT_WIDTH  640.0
#define PLOT_HEIGHT 400.0
#define PLOT_EDGE   60.0

typedef struct frame {
    double left, right, low, high; /* of steps and values */
} frame_t;

static frame_t find_frame(const sweep_t *sweep)
{
    frame_t f = {DBL_MAX, -DBL_MAX, DBL_MAX, -DBL_MAX};

    for (size_t i = 0; i < sweep->count; i++)
        for (size_t k = 0; k < sweep->runs[i].points; k++) {
            const sweep_point_t *p = &sweep->runs[i].history[k];

            f.left = fmin(f.left, p->step);
            f.right = fmax(f.right, p->step);
            f.low = fmin(f.low, p->value);
            f.high = fmax(f.high, p->value);
        }
    if (f.left > f.right)
        f = (frame_t){0, 1, 0, 1};
    f.right += f.right == f.left;
    f.high += f.high == f.low;
    return f;
}

static double x_of(const frame_t *f, double step)
{
    return PLOT_EDGE + (step - f->left) / (f->right - f->left) * PLOT_WIDTH;
}

static double y_of(const frame_t *f, double value)
{
    return PLOT_EDGE + (f->high - value) / (f->high - f->low) * PLOT_HEIGHT;
}

static void put_text(FILE *file, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<': fputs("&lt;", file); break;
        case '>': fputs("&gt;", file); break;
        case '&': fputs("&amp;", file); break;
        default: fputc(*text, file);
        }
}

static void put_axes(FILE *file, const frame_t *f, const sweep_t *sweep)
{
    double bottom = PLOT_EDGE + PLOT_HEIGHT, right = PLOT_EDGE + PLOT_WIDTH;

    fprintf(file,
            "<path d=\"M%g %gV%gH%g\" fill=\"none\" stroke=\"#888\"/>\n"
            "<text x=\"%g\" y=\"%g\">%.6g</text>\n<text x=\"%g\" y=\"%g\" "
            "text-anchor=\"end\">%.6g</text>\n",
            PLOT_EDGE, PLOT_EDGE, bottom, right, PLOT_EDGE, bottom + 16, f->left, right,
            bottom + 16, f->right);
    fprintf(file,
            "<text x=\"%g\" y=\"%g\" text-anchor=\"end\">%.4g</text>\n"
            "<text x=\"%g\" y=\"%g\" text-anchor=\"end\">%.4g</text>\n"
            "<text x=\"%g\" y=\"%g\">",
            PLOT_EDGE - 4, PLOT_EDGE + 4, f->high, PLOT_EDGE - 4, bottom, f->low,
            PLOT_EDGE, PLOT_EDGE - 14);
    put_text(file, sweep->found);
    fputs(" by step</text>\n", file);
}

static void put_run(FILE *file, const frame_t *f, const sweep_t *sweep, size_t i)
{
    const sweep_run_t *run = &sweep->runs[i];
    double hue = 360.0 * (double)i / (double)sweep->count;
    double y = PLOT_EDGE + 16 * (double)i;
    char label[512];

    if (run->points > 1) {
        fprintf(file, "<polyline fill=\"none\" stroke=\"hsl(%.0f,70%%,45%%)\" points=\"",
                hue);
        for (size_t k = 0; k < run->points; k++)
            fprintf(file, "%.2f,%.2f ", x_of(f, run->history[k].step),
                    y_of(f, run->history[k].value));
        fputs("\"/>\n", file);
    }
    if (run->points)
        fprintf(
            file,
            "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"3\" fill=\"hsl(%.0f,70%%,45%%)\"/>\n",
            x_of(f, run->history[run->points - 1].step),
            y_of(f, run->history[run->points - 1].value), hue);
    crti_sweep_label(sweep, i, label, sizeof(label));
    fprintf(file, "<text x=\"%g\" y=\"%g\" fill=\"hsl(%.0f,70%%,35%%)\">",
            PLOT_EDGE + PLOT_WIDTH + 16, y, hue);
    put_text(file, label);
    if (run->state == SWEEP_EARLY)
        fputs(" (stopped early)", file);
    fputs("</text>\n", file);
}

static crt_status_t save_plot(const sweep_t *sweep)
{
    char path[4096];
    FILE *file = open_new(sweep, "plot.svg", path, sizeof(path));
    frame_t f = find_frame(sweep);
    double height =
        fmax(PLOT_HEIGHT + 2 * PLOT_EDGE, 2 * PLOT_EDGE + 16 * (double)sweep->count);

    if (!file)
        return CRT_ERR_IO;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1000 %g\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            height);
    put_axes(file, &f, sweep);
    for (size_t i = 0; i < sweep->count; i++)
        put_run(file, &f, sweep, i);
    fputs("</svg>\n", file);
    return put_in_place(sweep, file, path, "plot.svg");
}

crt_status_t crti_sweep_save(const sweep_t *sweep)
{
    crt_status_t status = CRT_OK;

    if (mkdir(sweep->directory, 0777) != 0 && errno != EEXIST)
        return crt_raise(CRT_ERR_IO, "%s: %s", sweep->directory, strerror(errno));
    status = save_json(sweep);
    if (status == CRT_OK)
        status = save_csv(sweep);
    return status == CRT_OK ? save_plot(sweep) : status;
}

/* ---------------------------------------------------------------- an earlier call */

static void load_run(sweep_run_t *run, const json_t *from)
{
    const char *state = json_string_value(json_object_get(from, "state"));
    const char *job = json_string_value(json_object_get(from, "job_id"));
    json_t *point;
    size_t i;

    for (int s = SWEEP_SUCCEEDED; state && s <= SWEEP_EARLY; s++)
        if (strcmp(state, crti_sweep_state_name((sweep_state_t)s)) == 0)
            run->state = (sweep_state_t)s;
    run->is_gone = run->state == SWEEP_EARLY;
    snprintf(run->job, sizeof(run->job), "%s", job ? job : "");
    run->seconds = json_number_value(json_object_get(from, "seconds"));
    run->metrics = json_incref(json_object_get(from, "metrics"));
    run->needs = json_incref(json_object_get(from, "needs"));
    json_array_foreach(json_object_get(from, "history"), i, point)
        crti_sweep_note(run, json_number_value(json_array_get(point, 0)),
                        json_number_value(json_array_get(point, 1)));
}

crt_status_t crti_sweep_load(sweep_t *sweep)
{
    char path[4096];
    json_error_t error;
    json_t *all, *runs;
    crt_status_t status = CRT_OK;

    snprintf(path, sizeof(path), "%s/results.json", sweep->directory);
    if (access(path, F_OK) != 0)
        return crt_raise(CRT_ERR_NOT_FOUND, "%s: %s", path, strerror(errno));
    all = json_load_file(path, 0, &error);
    runs = json_object_get(all, "runs");
    if (!all || json_array_size(runs) != sweep->count)
        status = crt_raise(CRT_ERR_INVALID, "%s is not that of this sweep%s%s", path,
                           all ? "" : ": ", all ? "" : error.text);
    for (size_t i = 0; status == CRT_OK && i < sweep->count; i++) {
        json_t *wanted = parameters_json(sweep, i);
        const json_t *run = json_array_get(runs, i);

        if (!json_equal(wanted, json_object_get(run, "parameters")))
            status = crt_raise(CRT_ERR_INVALID,
                               "%s is of a sweep with other parameters: give another "
                               "--sweep-name or --out",
                               path);
        else
            load_run(&sweep->runs[i], run);
        json_decref(wanted);
    }
    json_decref(all);
    return status;
}

/* ---------------------------------------------------------------- for people */

static size_t find_best(const sweep_t *sweep)
{
    size_t best = sweep->count;
    double least = 0;

    for (size_t i = 0; i < sweep->count; i++) {
        const json_t *value = json_object_get(sweep->runs[i].metrics, sweep->found);
        double number = json_number_value(value) * (sweep->larger_is_better ? -1 : 1);

        if (!json_is_number(value) || (best < sweep->count && number >= least))
            continue;
        best = i;
        least = number;
    }
    return best;
}

void crti_sweep_print(const sweep_t *sweep)
{
    json_t *names = metric_names(sweep), *value;
    table_column_t columns[COLUMNS_MAX] = {{"RUN", 1}};
    char heads[SWEEP_PARAMETERS][64], texts[COLUMNS_MAX][CELL];
    const char *cells[COLUMNS_MAX], *name;
    size_t count = 1, best = find_best(sweep);
    table_t *table;

    for (size_t p = 0; p < sweep->parameter_count; p++) {
        snprintf(heads[p], sizeof(heads[p]), "%.*s", (int)sweep->parameters[p].name_size,
                 sweep->parameters[p].name);
        columns[count++] = (table_column_t){heads[p], 0};
    }
    columns[count++] = (table_column_t){"STATE", 0};
    columns[count++] = (table_column_t){"SECONDS", 1};
    json_object_foreach(names, name, value) if (count < COLUMNS_MAX - 1)
        columns[count++] = (table_column_t){name, 1};
    columns[count++] = (table_column_t){"", 0};
    table = crti_table_new(columns, count);
    for (size_t i = 0; i < sweep->count; i++) {
        const sweep_run_t *run = &sweep->runs[i];
        size_t k = 1;

        snprintf(texts[0], CELL, "%zu", i);
        for (size_t p = 0; p < sweep->parameter_count; p++)
            snprintf(texts[k++], CELL, "%s", crti_sweep_value(sweep, i, p));
        snprintf(texts[k++], CELL, "%s", crti_sweep_state_name(run->state));
        snprintf(texts[k++], CELL, "%.1f", run->seconds);
        json_object_foreach(names, name, value) if (k < count - 1)
            number_text(json_object_get(run->metrics, name), texts[k++]);
        snprintf(texts[k++], CELL, "%s", i == best ? "<- best" : "");
        for (size_t c = 0; c < count; c++)
            cells[c] = texts[c];
        crti_table_row(table, cells);
    }
    crti_table_print(table);
    json_decref(names);
}
