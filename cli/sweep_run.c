/* SPDX-License-Identifier: Apache-2.0 */
/* Submits the jobs of a sweep, watches them, stops some early. See sweep.h. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/job_view.h"
#include "cli/sweep.h"

#define LOOK_MS   300 /* between two looks at the cluster */
#define TRIES_MAX 100 /* in vain */

typedef struct runner {
    sweep_t *sweep;
    http_client_t *client;
    const job_options_t *options;
    const json_t *runtime_env;
    int argc;
    char **argv;
    bool is_live, is_changed;
    int lines; /* of the table that is on the terminal */
} runner_t;

static void name_job(const sweep_t *sweep, size_t run, char *id, size_t size)
{
    snprintf(id, size, "%s-%zu", sweep->id, run);
}

static void set_state(runner_t *r, size_t run, sweep_state_t state)
{
    char label[512];

    if (r->sweep->runs[run].state == state)
        return;
    r->sweep->runs[run].state = state;
    r->is_changed = true;
    if (r->is_live)
        return;
    crti_sweep_label(r->sweep, run, label, sizeof(label));
    printf("run %zu (%s): %s\n", run, label, crti_sweep_state_name(state));
    fflush(stdout);
}

/* ---------------------------------------------------------------- submitting */

/* Variables with their values, as one run has them. NULL: no memory. */
static json_t *environment_of(const runner_t *r, size_t run)
{
    json_t *environment = json_deep_copy(r->runtime_env), *value;
    json_t *variables = json_object_get(environment, "env_vars");
    json_t *filled = json_object();
    const char *name;

    json_object_foreach(variables, name, value)
    {
        bool is_given = false;
        char *text = NULL;

        for (size_t i = 0; r->options->variables[i]; i++)
            is_given =
                is_given || (strncmp(r->options->variables[i], name, strlen(name)) == 0 &&
                             r->options->variables[i][strlen(name)] == '=');
        if (is_given)
            text = crti_sweep_fill(r->sweep, run, json_string_value(value));
        json_object_set_new(filled, name, text ? json_string(text) : json_incref(value));
        free(text);
    }
    json_object_set_new(environment, "env_vars", filled);
    return environment;
}

static json_t *body_of(const runner_t *r, size_t run)
{
    char **words = calloc((size_t)r->argc + 1, sizeof(*words));
    json_t *environment = environment_of(r, run), *body = NULL, *metadata;
    job_options_t options = *r->options;
    char id[SWEEP_ID_MAX + 32], label[512], number[24];
    bool is_good = words != NULL;

    name_job(r->sweep, run, id, sizeof(id));
    options.submission = id;
    for (int i = 0; i < r->argc && is_good; i++)
        is_good = (words[i] = crti_sweep_fill(r->sweep, run, r->argv[i])) != NULL;
    if (is_good)
        body = crti_job_body(&options, environment, r->argc, words);
    for (int i = 0; words && i < r->argc; i++)
        free(words[i]);
    free(words);
    json_decref(environment);
    if (!body)
        return NULL;
    metadata = json_object_get(body, "metadata");
    if (!metadata) {
        metadata = json_object();
        json_object_set_new(body, "metadata", metadata);
    }
    crti_sweep_label(r->sweep, run, label, sizeof(label));
    snprintf(number, sizeof(number), "%zu", run);
    json_object_set_new(metadata, "sweep", json_string(r->sweep->id));
    json_object_set_new(metadata, "sweep_run", json_string(number));
    json_object_set_new(metadata, "sweep_values", json_string(label));
    return body;
}

static crt_status_t submit(runner_t *r, size_t run)
{
    json_t *body = body_of(r, run), *reply = NULL;
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

    json_decref(body);
    if (!text)
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    reply = crti_client_json(r->client, "POST", "/api/jobs/", text, NULL);
    free(text);
    if (!reply)
        return CRT_ERR_IO;
    json_decref(reply);
    set_state(r, run, SWEEP_SUBMITTED);
    return CRT_OK;
}

/* As many as may be under way. */
static crt_status_t submit_more(runner_t *r)
{
    sweep_t *sweep = r->sweep;
    size_t open = 0;
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < sweep->count; i++)
        open += sweep->runs[i].state == SWEEP_SUBMITTED ||
                sweep->runs[i].state == SWEEP_RUNNING;
    for (size_t i = 0; i < sweep->count && open < sweep->parallel && status == CRT_OK;
         i++) {
        if (sweep->runs[i].state != SWEEP_WAITING)
            continue;
        status = submit(r, i);
        open++;
    }
    return status;
}

/* ---------------------------------------------------------------- looking */

static void take_job(runner_t *r, size_t run, const json_t *job)
{
    sweep_run_t *s = &r->sweep->runs[run];
    const char *status = crti_cli_job_text(job, "status");
    json_int_t start = json_integer_value(json_object_get(job, "start_time"));
    json_int_t end = json_integer_value(json_object_get(job, "end_time"));

    snprintf(s->job, sizeof(s->job), "%s", crti_cli_job_text(job, "job_id"));
    if (start && end)
        s->seconds = (double)(end - start) / 1000;
    if (strcmp(status, "RUNNING") == 0)
        set_state(r, run, SWEEP_RUNNING);
    else if (strcmp(status, "SUCCEEDED") == 0)
        set_state(r, run, SWEEP_SUCCEEDED);
    else if (strcmp(status, "FAILED") == 0)
        set_state(r, run, SWEEP_FAILED);
    else if (strcmp(status, "STOPPED") == 0)
        set_state(r, run, SWEEP_STOPPED);
    else if (s->state == SWEEP_WAITING)
        set_state(r, run, SWEEP_SUBMITTED);
}

/* The number of a run from the name of its job; `count` when it is none of this sweep. */
static size_t run_of(const sweep_t *sweep, const char *id)
{
    size_t length = strlen(sweep->id);
    char *end;
    unsigned long run;

    if (strncmp(id, sweep->id, length) != 0 || id[length] != '-' ||
        id[length + 1] < '0' || id[length + 1] > '9')
        return sweep->count;
    run = strtoul(id + length + 1, &end, 10);
    return *end || run >= sweep->count ? sweep->count : run;
}

static void take_metric(sweep_t *sweep, sweep_run_t *run, const json_t *row)
{
    const char *name = crti_cli_job_text(row, "name");
    const json_t *value = json_object_get(row, "value");

    if (!json_is_number(value) ||
        strcmp(crti_cli_job_text(row, "kind"), "histogram") == 0 ||
        strncmp(name, "crt_", 4) == 0)
        return;
    if (!run->metrics)
        run->metrics = json_object();
    json_object_set_new(run->metrics, name, json_real(json_number_value(value)));
    if (!sweep->found[0] && strcmp(name, "step") != 0 && strcmp(name, "epoch") != 0)
        snprintf(sweep->found, sizeof(sweep->found), "%s", name);
}

/* The step is what the program says it is, else the point's number. */
static void note_point(const sweep_t *sweep, sweep_run_t *run)
{
    const json_t *value = json_object_get(run->metrics, sweep->found);
    const json_t *step = json_object_get(run->metrics, "step");

    if (!json_is_number(step))
        step = json_object_get(run->metrics, "epoch");
    if (!json_is_number(value))
        return;
    if (json_is_number(step))
        crti_sweep_note(run, json_number_value(step), json_number_value(value));
    else if (!run->points ||
             run->history[run->points - 1].value != json_number_value(value))
        crti_sweep_note(run, (double)run->points + 1, json_number_value(value));
}

static crt_status_t look_at_metrics(runner_t *r)
{
    json_t *rows = crti_client_json(r->client, "GET", "/api/user_metrics", NULL, NULL);
    sweep_t *sweep = r->sweep;
    json_t *row;
    size_t k;

    if (!rows)
        return CRT_ERR_IO;
    json_array_foreach(rows, k, row)
    {
        const char *job = crti_cli_job_text(row, "job_id");

        for (size_t i = 0; i < sweep->count; i++)
            if (sweep->runs[i].job[0] && strcmp(sweep->runs[i].job, job) == 0)
                take_metric(sweep, &sweep->runs[i], row);
    }
    json_decref(rows);
    for (size_t i = 0; i < sweep->count; i++) {
        size_t before = sweep->runs[i].points;

        note_point(sweep, &sweep->runs[i]);
        r->is_changed = r->is_changed || sweep->runs[i].points != before;
    }
    return CRT_OK;
}

/* Jobs first: what a run reported last is there when its end has been seen. */
static crt_status_t look(runner_t *r)
{
    json_t *jobs = crti_client_json(r->client, "GET", "/api/jobs/", NULL, NULL), *job;
    size_t i;

    if (!jobs)
        return CRT_ERR_IO;
    json_array_foreach(jobs, i, job)
    {
        size_t run = run_of(r->sweep, crti_cli_job_text(job, "submission_id"));

        if (run < r->sweep->count && !crti_sweep_has_ended(r->sweep->runs[run].state))
            take_job(r, run, job);
    }
    json_decref(jobs);
    return look_at_metrics(r);
}

static crt_status_t stop_early(runner_t *r)
{
    sweep_t *sweep = r->sweep;
    char id[SWEEP_ID_MAX + 32], path[512];

    for (size_t i = 0; i < sweep->count; i++) {
        json_t *reply;

        if (sweep->runs[i].state != SWEEP_RUNNING || !crti_sweep_should_stop(sweep, i))
            continue;
        name_job(sweep, i, id, sizeof(id));
        crti_cli_job_path(path, sizeof(path), id, "/stop");
        reply = crti_client_json(r->client, "POST", path, NULL, NULL);
        if (!reply)
            return CRT_ERR_IO;
        json_decref(reply);
        set_state(r, i, SWEEP_EARLY);
    }
    return CRT_OK;
}

/* ---------------------------------------------------------------- resuming */

/* What is there of an earlier call: what goes on is watched, what failed is run again. */
static crt_status_t take_up(runner_t *r, bool resumes)
{
    json_t *jobs = crti_client_json(r->client, "GET", "/api/jobs/", NULL, NULL), *job;
    crt_status_t status = CRT_OK;
    char path[512];
    size_t i;

    if (!jobs)
        return CRT_ERR_IO;
    json_array_foreach(jobs, i, job)
    {
        const char *id = crti_cli_job_text(job, "submission_id");
        size_t run = run_of(r->sweep, id);
        json_t *reply;

        if (run == r->sweep->count || status != CRT_OK)
            continue;
        if (!resumes) {
            status =
                crt_raise(CRT_ERR_EXISTS,
                          "there is a sweep %s already: go on with it by --resume, or "
                          "give another --sweep-name",
                          r->sweep->id);
            continue;
        }
        if (crti_sweep_has_ended(r->sweep->runs[run].state) &&
            r->sweep->runs[run].state != SWEEP_FAILED &&
            r->sweep->runs[run].state != SWEEP_STOPPED)
            continue; /* it has a result */
        r->sweep->runs[run].state = SWEEP_WAITING;
        if (!crti_cli_job_has_ended(job) ||
            strcmp(crti_cli_job_text(job, "status"), "SUCCEEDED") == 0) {
            take_job(r, run, job);
            continue;
        }
        crti_cli_job_path(path, sizeof(path), id, "");
        reply = crti_client_json(r->client, "DELETE", path, NULL, NULL);
        status = reply ? CRT_OK : CRT_ERR_IO;
        json_decref(reply);
    }
    json_decref(jobs);
    for (i = 0; i < r->sweep->count; i++) /* those that the cluster has forgotten */
        if (r->sweep->runs[i].state == SWEEP_FAILED ||
            r->sweep->runs[i].state == SWEEP_STOPPED)
            r->sweep->runs[i].state = SWEEP_WAITING;
    return status;
}

/* ---------------------------------------------------------------- all of it */

static bool is_over(const sweep_t *sweep)
{
    for (size_t i = 0; i < sweep->count; i++)
        if (!crti_sweep_has_ended(sweep->runs[i].state))
            return false;
    return true;
}

static void show(runner_t *r)
{
    if (!r->is_live)
        return;
    if (r->lines)
        printf("\033[%dA\033[J", r->lines);
    crti_sweep_print(r->sweep);
    r->lines = (int)r->sweep->count + 1;
    fflush(stdout);
}

static crt_status_t turn(runner_t *r)
{
    crt_status_t status = submit_more(r);

    if (status == CRT_OK)
        status = look(r);
    return status == CRT_OK ? stop_early(r) : status;
}

static crt_status_t watch(runner_t *r)
{
    int failures = 0;
    crt_status_t status = CRT_OK;

    while (status == CRT_OK && !is_over(r->sweep)) {
        if (turn(r) == CRT_OK)
            failures = 0;
        else if (++failures > TRIES_MAX) /* the head, or its server, begins again */
            return CRT_ERR_IO;
        if (r->is_changed) {
            status = crti_sweep_save(r->sweep);
            show(r);
        }
        r->is_changed = false;
        if (!is_over(r->sweep))
            crti_cli_job_sleep_ms(LOOK_MS);
    }
    return status;
}

static int tell(const sweep_t *sweep)
{
    size_t good = 0, early = 0;

    for (size_t i = 0; i < sweep->count; i++) {
        good += sweep->runs[i].state == SWEEP_SUCCEEDED;
        early += sweep->runs[i].state == SWEEP_EARLY;
    }
    printf("\nSweep %s: %zu of %zu runs succeeded, %zu were stopped early, %zu did not "
           "succeed.\nResults: %s/results.csv, results.json, plot.svg\n",
           sweep->id, good, sweep->count, early, sweep->count - good - early,
           sweep->directory);
    return good + early == sweep->count ? 0 : CLI_FAILED;
}

int crti_sweep_run(sweep_t *sweep, http_client_t *client, const job_options_t *options,
                   const json_t *runtime_env, int argc, char **argv, bool resumes)
{
    runner_t r = {.sweep = sweep,
                  .client = client,
                  .options = options,
                  .runtime_env = runtime_env,
                  .argc = argc,
                  .argv = argv,
                  .is_live = isatty(STDOUT_FILENO) && sweep->count < 40,
                  .is_changed = true};
    crt_status_t status = resumes ? crti_sweep_load(sweep) : CRT_OK;

    if (status == CRT_ERR_NOT_FOUND) /* interrupted before anything was known */
        status = CRT_OK;
    if (sweep->metric)
        snprintf(sweep->found, sizeof(sweep->found), "%s", sweep->metric);
    printf("Sweep %s: %zu runs. Ctrl-C leaves the jobs running; the same command with "
           "--resume goes on.\n",
           sweep->id, sweep->count);
    fflush(stdout);
    if (status == CRT_OK)
        status = take_up(&r, resumes);
    if (status == CRT_OK)
        status = watch(&r);
    if (status == CRT_OK)
        status = crti_sweep_save(sweep);
    if (status != CRT_OK)
        return crti_cli_fail_detail(JOB_SUBMIT);
    if (r.is_live)
        show(&r);
    else
        crti_sweep_print(sweep);
    return tell(sweep);
}
