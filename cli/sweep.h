/* SPDX-License-Identifier: Apache-2.0 */
/* A sweep: one job for each combination of values, as crt job submit --sweep makes them.
 *
 * Where it sits
 *     job_submit.c -> [ sweep.c ] (what to run) -> sweep_run.c (runs it) -> sweep_metrics.c (what
 *     runs report), sweep_need.c (how many fit), sweep_rule.c (which run is stopped),
 *     sweep_report.c (table, CSV, JSON, plot)
 * Rules
 *     The last parameter varies fastest. Job N of sweep S is the submission S-N. What is known of a
 *     run is in DIR/results.json, which is replaced as a whole at every change: an interrupted
 *     sweep goes on from it and from the cluster's list of jobs.
 */
#ifndef CRTI_CLI_SWEEP_H
#define CRTI_CLI_SWEEP_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/http_client.h"
#include "cli/job_submit.h"

#define SWEEP_PARAMETERS 16
#define SWEEP_RUNS_MAX   10000
#define SWEEP_ID_MAX     80

typedef struct sweep_parameter {
    const char *name; /* `name_size` bytes of an option */
    size_t name_size;
    const char **values; /* texts of one copy */
    size_t count;
    char *copy;
} sweep_parameter_t;

/* A value of the metric at a step. */
typedef struct sweep_point {
    double step, value;
} sweep_point_t;

/* A value that a gauge was set to, the `number`th from 0 on, when. */
typedef struct sweep_record {
    double number, set_ns, value;
} sweep_record_t;

typedef enum sweep_state {
    SWEEP_WAITING, /* not submitted yet */
    SWEEP_SUBMITTED,
    SWEEP_RUNNING,
    SWEEP_SUCCEEDED,
    SWEEP_FAILED,
    SWEEP_STOPPED, /* by somebody */
    SWEEP_EARLY    /* by the rule */
} sweep_state_t;

typedef struct sweep_run {
    sweep_state_t state;
    char job[33];    /* job id, "" until it is known */
    json_t *metrics; /* name -> number, the last of each */
    sweep_point_t *history;
    size_t points, room;
    unsigned rung; /* of ASHA: the next one */
    double seconds;
    json_t *
        needs; /* resource -> the most that it was seen to hold or wait for; NULL: not seen */
    bool is_gone; /* EARLY: its processes have ended, too */
} sweep_run_t;

typedef enum sweep_rule { SWEEP_NO_RULE, SWEEP_MEDIAN, SWEEP_ASHA } sweep_rule_t;

typedef struct sweep {
    char id[SWEEP_ID_MAX + 1];
    const char *directory; /* of the results */
    sweep_parameter_t parameters[SWEEP_PARAMETERS];
    size_t parameter_count;
    sweep_run_t *runs;
    size_t count;
    size_t parallel;    /* jobs submitted at a time; 0: as many as fit */
    json_t *entry;      /* resource -> what the program of a run holds itself */
    const char *metric; /* that is looked at; NULL: the first that a run reports */
    char found[128];    /* the same, found */
    bool larger_is_better;
    sweep_rule_t rule;
    double grace; /* steps before a run may be stopped */
} sweep_t;

/* ---- sweep.c */

/* Reads "NAME=V1,V2" options. CRT_ERR_INVALID says what is wrong. */
crt_status_t crti_sweep_init(sweep_t *sweep, const char *const *options);
void crti_sweep_fini(sweep_t *sweep);
/* The value of a parameter in run `run`. */
const char *crti_sweep_value(const sweep_t *sweep, size_t run, size_t parameter);
/* "lr=1e-5, model=mlp" */
void crti_sweep_label(const sweep_t *sweep, size_t run, char *text, size_t size);
/* `text` with {name} replaced and {{ as {; the caller frees it. NULL: a name that is no parameter,
 * raised. */
char *crti_sweep_fill(const sweep_t *sweep, size_t run, const char *text);
/* CRT_ERR_INVALID: a {name} that is none, or a parameter that no word has. */
crt_status_t crti_sweep_check(const sweep_t *sweep, int argc, char **argv,
                              const char *const *variables);
const char *crti_sweep_state_name(sweep_state_t state);
bool crti_sweep_has_ended(sweep_state_t state);

/* ---- sweep_metrics.c */

/* Appends to the history, and keeps only what is new. */
void crti_sweep_note(sweep_run_t *run, double step, double value);
/* Notes the values of a gauge at the steps that another one told when they were set, the oldest of
 * both first. No steps: the values are counted. One whose step may still come is left for the next
 * time, unless the run `has_ended`. */
void crti_sweep_note_records(sweep_run_t *run, const sweep_record_t *values, size_t count,
                             const sweep_record_t *steps, size_t step_count,
                             bool has_ended);
/* Takes the rows of /api/user_metrics?recent=1. True: there is something new. */
bool crti_sweep_take_metrics(sweep_t *sweep, const json_t *rows);
/* Of the first run that has something to report and lacks --metric: its number, `count` when there
 * is none. */
size_t crti_sweep_lacks_metric(const sweep_t *sweep);
/* "acc, loss", what runs report; "nothing". */
void crti_sweep_reported(const sweep_t *sweep, char *text, size_t size);

/* ---- sweep_rule.c */

/* The best value of a run up to a step, as far as it is known; false: nothing is. `at_most`: as
 * good as it can have been, when that step itself was not seen: the next one that was counts,
 * too. */
bool crti_sweep_best(const sweep_t *sweep, const sweep_run_t *run, double step,
                     bool at_most, double *best_out);
/* Whether the rule ends that run now. */
bool crti_sweep_should_stop(sweep_t *sweep, size_t run);

/* ---- sweep_need.c */

/* Notes what the programs, actors and placement groups of running runs hold and wait for. */
crt_status_t crti_sweep_see_needs(sweep_t *sweep, http_client_t *client);
/* How many runs fit into the cluster at a time, so that none holds what another one waits for, as
 * far as those that have ended show; 1 before that, and at least. */
size_t crti_sweep_fitting(const sweep_t *sweep, http_client_t *client);

/* ---- sweep_report.c */

/* results.json, results.csv and plot.svg, each replaced as a whole. */
crt_status_t crti_sweep_save(const sweep_t *sweep);
/* Of an earlier call. CRT_ERR_NOT_FOUND: there is none; CRT_ERR_INVALID: of another sweep. */
crt_status_t crti_sweep_load(sweep_t *sweep);
/* One line per run, for people. */
void crti_sweep_print(const sweep_t *sweep);

/* ---- sweep_run.c */

/* Runs all of it; what was uploaded is named in `runtime_env`. `resumes`: takes up what an earlier
 * call began. The exit status. */
int crti_sweep_run(sweep_t *sweep, http_client_t *client, const job_options_t *options,
                   const json_t *runtime_env, int argc, char **argv, bool resumes);

/* ---- sweep_stop.c */

/* Stops all runs of the sweep `id` that have not ended, and waits until they have unless `no_wait`.
 * False: there is no such sweep; else `*result_out` is the exit status. */
bool crti_sweep_stop(http_client_t *client, const char *command, const char *id,
                     bool no_wait, int *result_out);

#endif
