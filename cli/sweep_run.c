/* SPDX-License-Identifier: Apache-2.0 */
/* Submits the jobs of a sweep, watches them, stops some early. See sweep.h. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/job_view.h"
#include "cli/sweep.h"
#include "runtime/base/clock.h"

#define LOOK_MS   300   /* between two looks at the cluster */
#define TRIES_MAX 100   /* in vain */
#define STOP_MS   5000  /* a run that is stopped has ended: the kill comes after 3 s */
#define LACKS_MS  10000 /* in which a metric may come behind others */

typedef struct runner {
    sweep_t *sweep;
    http_client_t *client;
    const job_options_t *options;
    const json_t *runtime_env;
    int argc;
    char **argv;
    bool is_live, is_changed;
    size_t at_a_time;   /* runs that may be under way */
    int lines;          /* of the table that is on the terminal */
    int64_t stopped_ms; /* when a run was seen that somebody stopped; 0: none lately */
    bool is_stopped;    /* all of it, by somebody */
    bool is_warned;     /* that nobody reports the metric */
    bool is_unsaved;    /* the results: that is told once */
    int64_t lacks_ms;   /* since when runs report something, but not the metric */
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

/* What a program holds itself, as the body of its job says. */
static json_t *entry_of(const json_t *body)
{
    static const char *const keys[][2] = {{"entrypoint_num_cpus", "CPU"},
                                          {"entrypoint_num_gpus", "GPU"},
                                          {"entrypoint_memory", "memory"}};
    const json_t *others = json_object_get(body, "entrypoint_resources");
    json_t *entry =
        json_is_object(others) ? json_copy((json_t *)(uintptr_t)others) : json_object();

    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        if (json_number_value(json_object_get(body, keys[i][0])) > 0)
            json_object_set(entry, keys[i][1], json_object_get(body, keys[i][0]));
    return entry;
}

static crt_status_t submit(runner_t *r, size_t run)
{
    json_t *body = body_of(r, run), *reply = NULL;
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

    if (!r->sweep->entry)
        r->sweep->entry = entry_of(body);
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

static size_t count_open(const sweep_t *sweep)
{
    size_t open = 0;

    for (size_t i = 0; i < sweep->count; i++)
        open += sweep->runs[i].state == SWEEP_SUBMITTED ||
                sweep->runs[i].state == SWEEP_RUNNING;
    return open;
}

/* After a stop: when all that were under way have ended, the sweep was meant (crt job stop
 * SWEEP). */
static bool may_begin(runner_t *r)
{
    if (!r->stopped_ms)
        return true;
    r->is_stopped = r->is_stopped || count_open(r->sweep) == 0;
    if (!r->is_stopped && crti_now_ms() - r->stopped_ms > STOP_MS)
        r->stopped_ms = 0;
    return !r->stopped_ms;
}

/* As many as may be under way. */
static crt_status_t submit_more(runner_t *r)
{
    sweep_t *sweep = r->sweep;
    size_t open = count_open(sweep);
    crt_status_t status = CRT_OK;

    if (!may_begin(r))
        return CRT_OK;
    for (size_t i = 0; i < sweep->count && open < r->at_a_time && status == CRT_OK; i++) {
        if (sweep->runs[i].state != SWEEP_WAITING)
            continue;
        status = submit(r, i);
        open++;
    }
    return status;
}

/* ---------------------------------------------------------------- looking */

static void note_seconds(sweep_run_t *run, const json_t *job)
{
    json_int_t start = json_integer_value(json_object_get(job, "start_time"));
    json_int_t end = json_integer_value(json_object_get(job, "end_time"));

    if (start && end)
        run->seconds = (double)(end - start) / 1000;
}

/* One that the rule stopped goes on until its processes have ended; it may have been faster. */
static void take_stopped_early(runner_t *r, size_t run, const json_t *job)
{
    sweep_run_t *s = &r->sweep->runs[run];
    double before = s->seconds;

    s->is_gone = crti_cli_job_has_ended(job);
    note_seconds(s, job);
    r->is_changed = r->is_changed || s->seconds != before;
    if (strcmp(crti_cli_job_text(job, "status"), "SUCCEEDED") == 0)
        set_state(r, run, SWEEP_SUCCEEDED);
}

static void take_job(runner_t *r, size_t run, const json_t *job)
{
    sweep_run_t *s = &r->sweep->runs[run];
    const char *status = crti_cli_job_text(job, "status");

    snprintf(s->job, sizeof(s->job), "%s", crti_cli_job_text(job, "job_id"));
    note_seconds(s, job);
    if (strcmp(status, "RUNNING") == 0)
        set_state(r, run, SWEEP_RUNNING);
    else if (strcmp(status, "SUCCEEDED") == 0)
        set_state(r, run, SWEEP_SUCCEEDED);
    else if (strcmp(status, "FAILED") == 0)
        set_state(r, run, SWEEP_FAILED);
    else if (strcmp(status, "STOPPED") == 0) {
        r->stopped_ms = crti_now_ms(); /* this run, or all: may_begin finds out */
        set_state(r, run, SWEEP_STOPPED);
    } else if (s->state == SWEEP_WAITING)
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

static crt_status_t look_at_metrics(runner_t *r)
{
    json_t *rows =
        crti_client_json(r->client, "GET", "/api/user_metrics?recent=1", NULL, NULL);

    if (!rows)
        return CRT_ERR_IO;
    r->is_changed = crti_sweep_take_metrics(r->sweep, rows) || r->is_changed;
    json_decref(rows);
    return CRT_OK;
}

/* Jobs first: what a run reported last is there when its end has been seen. */
static crt_status_t look(runner_t *r)
{
    json_t *jobs = crti_client_json(r->client, "GET", "/api/jobs/", NULL, NULL), *job;
    size_t i;

    if (!jobs)
        return CRT_ERR_IO;
    for (i = 0; i < r->sweep->count; i++) /* also one that is not in the list any more */
        r->sweep->runs[i].is_gone = r->sweep->runs[i].state == SWEEP_EARLY;
    json_array_foreach(jobs, i, job)
    {
        size_t run = run_of(r->sweep, crti_cli_job_text(job, "submission_id"));

        if (run == r->sweep->count)
            continue;
        if (r->sweep->runs[run].state == SWEEP_EARLY)
            take_stopped_early(r, run, job);
        else if (!crti_sweep_has_ended(r->sweep->runs[run].state))
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

static bool is_over(const runner_t *r)
{
    const sweep_t *sweep = r->sweep;

    for (size_t i = 0; i < sweep->count; i++) {
        const sweep_run_t *run = &sweep->runs[i];

        if (run->state == SWEEP_WAITING && r->is_stopped)
            continue;
        if (!crti_sweep_has_ended(run->state) ||
            (run->state == SWEEP_EARLY && !run->is_gone))
            return false;
    }
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

/* A sweep by a name that nobody reports would run to its end for nothing. */
static void warn_of_metric(runner_t *r)
{
    sweep_t *sweep = r->sweep;
    size_t run = crti_sweep_lacks_metric(sweep);
    char names[200];

    if (run == sweep->count || r->is_warned || !(sweep->metric || sweep->rule))
        return;
    if (!r->lacks_ms)
        r->lacks_ms = crti_now_ms();
    if (sweep->runs[run].state != SWEEP_SUCCEEDED &&
        crti_now_ms() - r->lacks_ms < LACKS_MS)
        return;
    r->is_warned = true;
    crti_sweep_reported(sweep, names, sizeof(names));
    fprintf(stderr,
            "%s: run %zu has not reported the metric %s%s; it is looked for by "
            "--metric and --early-stop. Runs have reported: %s\n",
            JOB_SUBMIT, run, sweep->metric ? sweep->metric : "that runs are compared by",
            sweep->runs[run].state == SWEEP_SUCCEEDED ? ", and has ended" : " so far",
            names);
    r->lines = 0; /* the table goes on below */
}

/* Without --parallel. */
static crt_status_t find_room(runner_t *r)
{
    crt_status_t status = crti_sweep_see_needs(r->sweep, r->client);

    if (status == CRT_OK && r->is_changed)
        r->at_a_time = crti_sweep_fitting(r->sweep, r->client);
    return status;
}

static crt_status_t turn(runner_t *r)
{
    crt_status_t status = submit_more(r);

    if (status == CRT_OK)
        status = look(r);
    if (status == CRT_OK && !r->sweep->parallel)
        status = find_room(r);
    if (status == CRT_OK)
        warn_of_metric(r);
    return status == CRT_OK ? stop_early(r) : status;
}

/* A disk that is full need not end the runs: the next time there may be room. */
static void save(runner_t *r)
{
    if (crti_sweep_save(r->sweep) == CRT_OK || r->is_unsaved)
        return;
    r->is_unsaved = true;
    fprintf(stderr, "%s: %s; it is tried again\n", JOB_SUBMIT, crt_error_detail());
    r->lines = 0;
}

static crt_status_t watch(runner_t *r)
{
    int failures = 0;

    while (!is_over(r)) {
        if (turn(r) == CRT_OK)
            failures = 0;
        else if (++failures > TRIES_MAX) /* the head, or its server, begins again */
            return CRT_ERR_IO;
        if (r->is_changed) {
            save(r);
            show(r);
        }
        r->is_changed = false;
        if (!is_over(r))
            crti_cli_job_sleep_ms(LOOK_MS);
    }
    return CRT_OK;
}

static int tell(const runner_t *r)
{
    const sweep_t *sweep = r->sweep;
    size_t good = 0, early = 0;
    char names[200];

    for (size_t i = 0; i < sweep->count; i++) {
        good += sweep->runs[i].state == SWEEP_SUCCEEDED;
        early += sweep->runs[i].state == SWEEP_EARLY;
    }
    printf("\nSweep %s: %zu of %zu runs succeeded, %zu were stopped early, %zu did not "
           "succeed.\nResults: %s/results.csv, results.json, plot.svg\n",
           sweep->id, good, sweep->count, early, sweep->count - good - early,
           sweep->directory);
    fflush(stdout);
    if (r->is_stopped)
        return crti_cli_fail(JOB_SUBMIT,
                             "the sweep was stopped: the runs that had not begun do not; "
                             "the same command with --resume goes on");
    if (sweep->metric && good && crti_sweep_lacks_metric(sweep) < sweep->count) {
        crti_sweep_reported(sweep, names, sizeof(names));
        return crti_cli_fail(JOB_SUBMIT,
                             "no run reported the metric %s (--metric); runs "
                             "reported: %s",
                             sweep->metric, names);
    }
    return good + early == sweep->count ? 0 : CLI_FAILED;
}

static void announce(runner_t *r)
{
    const sweep_t *sweep = r->sweep;
    char how_many[100] =
        "one at a time until one has shown what it needs (or by --parallel)";

    r->at_a_time = sweep->parallel ? sweep->parallel : 1;
    if (sweep->parallel)
        snprintf(how_many, sizeof(how_many), "%zu at a time",
                 sweep->parallel < sweep->count ? sweep->parallel : sweep->count);
    printf(
        "Sweep %s: %zu runs, %s. Ctrl-C leaves the jobs running; the same command with "
        "--resume goes on, \"crt job stop %s\" stops them.\n",
        sweep->id, sweep->count, how_many, sweep->id);
    fflush(stdout);
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
    announce(&r);
    if (status == CRT_OK)
        status = take_up(&r, resumes);
    if (status == CRT_OK) /* before anything runs: they may have no place */
        status = crti_sweep_save(sweep);
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
    return tell(&r);
}
