/* SPDX-License-Identifier: Apache-2.0 */
/* crt job: list, status, logs, stop and delete. Submit is in job_submit.c.
 *
 * Where it sits
 *     user -> [ cli/job.c ] -> job_submit.c -> job_view.c -> http_client.c -> crt-http (/api/jobs/)
 */
#include "cli/job_view.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/json_print.h"
#include "cli/options.h"
#include "cli/sweep.h"
#include "cli/table.h"

#define LIST_SHOWN 20

static const char *address; /* of --address, one command per process */
static const char *limit, *tail, *format;
static bool follows, no_wait, as_json, all;

#define ADDRESS_OPTION                                                                   \
    {                                                                                    \
        "address", 'a', "HOST:PORT", OPTION_SERVER, &address,                            \
            "the cluster's head, or URL of its dashboard; default: the only cluster "    \
            "here"                                                                       \
    }
#define FORMAT_OPTION                                                                    \
    {                                                                                    \
        "format", 0, "FORMAT", OPTION_TEXT, &format, "table (default), json or yaml"     \
    }

static bool format_is(const char *name)
{
    return format && strcmp(format, name) == 0;
}

/* False: it is for people to read. */
static bool print_for_programs(const json_t *json)
{
    if (as_json || format_is("json")) {
        crti_json_print(json, stdout);
    } else if (format_is("yaml")) {
        crti_yaml_print(json, stdout);
    } else {
        return false;
    }
    return true;
}

/* ---------------------------------------------------------------- list */

static void format_time(const json_t *job, const char *key, char *text, size_t size)
{
    json_int_t ms = json_integer_value(json_object_get(job, key));
    time_t seconds = (time_t)(ms / 1000);
    struct tm local;

    text[0] = '\0';
    if (ms > 0 && localtime_r(&seconds, &local))
        strftime(text, size, "%F %T", &local);
}

static int by_start(const void *a, const void *b)
{
    json_int_t x = json_integer_value(json_object_get(*(json_t *const *)a, "start_time"));
    json_int_t y = json_integer_value(json_object_get(*(json_t *const *)b, "start_time"));

    return (x < y) - (x > y);
}

/* The `count` newest, the newest first; NULL: no memory. */
static json_t *newest(const json_t *jobs, size_t count)
{
    size_t size = json_array_size(jobs);
    json_t **sorted = calloc(size + 1, sizeof(*sorted)), *list = json_array();

    if (!sorted)
        return list;
    for (size_t i = 0; i < size; i++)
        sorted[i] = json_array_get(jobs, i);
    qsort(sorted, size, sizeof(*sorted), by_start);
    for (size_t i = 0; i < size && i < count; i++)
        json_array_append(list, sorted[i]);
    free(sorted);
    return list;
}

static void print_list(const json_t *jobs, size_t older)
{
    static const table_column_t columns[] = {{"JOB", 0},       {"TYPE", 0},  {"STATE", 0},
                                             {"STARTED", 0},   {"ENDED", 0}, {"EXIT", 0},
                                             {"ENTRYPOINT", 0}};
    table_t *table = crti_table_new(columns, 7);

    if (json_array_size(jobs) == 0 && older == 0)
        printf("No jobs.\n");
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        const json_t *job = json_array_get(jobs, i);
        const char *id = crti_cli_job_text(job, "submission_id");
        char started[32], ended[32], how[96];

        format_time(job, "start_time", started, sizeof(started));
        format_time(job, "end_time", ended, sizeof(ended));
        crti_table_row(
            table, (const char *const[]){*id ? id : crti_cli_job_text(job, "job_id"),
                                         crti_cli_job_text(job, "type"),
                                         crti_cli_job_text(job, "status"), started, ended,
                                         crti_cli_job_exit_text(job, how, sizeof(how)),
                                         crti_cli_job_text(job, "entrypoint")});
    }
    crti_table_print(table);
    if (older)
        printf("and %zu older (--all shows all, --limit N the newest N)\n", older);
}

/* Programs that read JSON get all, unless they say how many. */
static int run_list(http_client_t *client, const char *name, const char *id)
{
    json_t *jobs = crti_client_json(client, "GET", "/api/jobs/", NULL, NULL), *shown;
    size_t count =
        all || as_json || (format && !format_is("table")) ? SIZE_MAX : LIST_SHOWN;

    if (limit)
        count = strtoul(limit, NULL, 10);
    if (!jobs)
        return crti_cli_fail_detail(name);
    shown = newest(jobs, count);
    if (!print_for_programs(shown))
        print_list(shown, json_array_size(jobs) - json_array_size(shown));
    json_decref(shown);
    json_decref(jobs);
    return 0;
}

/* ---------------------------------------------------------------- status */

static int run_status(http_client_t *client, const char *name, const char *id)
{
    json_t *job = crti_cli_job_get(client, name, id);
    char how[96];

    if (!job)
        return CLI_FAILED;
    if (!print_for_programs(job)) {
        printf("Status for job '%s': %s\nStatus message: %s\n", id,
               crti_cli_job_text(job, "status"), crti_cli_job_text(job, "message"));
        if (*crti_cli_job_exit_text(job, how, sizeof(how)))
            printf("Driver ended with %s\n", how);
    }
    json_decref(job);
    return 0;
}

/* ---------------------------------------------------------------- logs */

/* Beside the log, which stays as the job wrote it. */
static void tell_failure(http_client_t *client, const char *id)
{
    char path[512], how[96];
    json_t *job;

    crti_cli_job_path(path, sizeof(path), id, "");
    job = crti_client_json(client, "GET", path, NULL, NULL);
    fflush(stdout);
    if (job && strcmp(crti_cli_job_text(job, "status"), "FAILED") == 0)
        fprintf(stderr, "Job '%s' failed%s%s\n", id,
                *crti_cli_job_exit_text(job, how, sizeof(how))
                    ? ": its driver ended with "
                    : "",
                how);
    json_decref(job);
}

/* Its last lines. */
static int print_tail(http_client_t *client, const char *name, const char *id)
{
    char path[512];
    char *escaped = crti_client_escape(id);
    http_reply_t reply = {0};
    crt_status_t status;

    snprintf(path, sizeof(path), "/api/v0/logs/file?submission_id=%s&lines=%s",
             escaped ? escaped : "", tail);
    crti_client_escape_free(escaped);
    status = crti_client_send(client, "GET", path, NULL, &reply);
    if (status == CRT_OK && reply.code != 200)
        status = crti_client_refused(client, &reply);
    if (status == CRT_OK)
        fwrite(reply.text, 1, reply.size, stdout);
    crti_reply_fini(&reply);
    if (status != CRT_OK)
        return crti_cli_fail_detail(name);
    tell_failure(client, id);
    return 0;
}

static int run_logs(http_client_t *client, const char *name, const char *id)
{
    char path[512];
    json_t *reply, *logs;

    if (follows)
        return crti_cli_follow_job(client, name, id, tail);
    if (tail && strcmp(tail, "0") != 0)
        return print_tail(client, name, id);
    if (tail)
        return 0;
    crti_cli_job_path(path, sizeof(path), id, "/logs");
    reply = crti_client_json(client, "GET", path, NULL, NULL);
    if (!reply)
        return crti_cli_fail_detail(name);
    logs = json_object_get(reply, "logs");
    if (json_string_length(logs))
        fwrite(json_string_value(logs), 1, json_string_length(logs), stdout);
    json_decref(reply);
    tell_failure(client, id);
    return 0;
}

/* ---------------------------------------------------------------- stop */

static int run_stop(http_client_t *client, const char *name, const char *id)
{
    char path[512];
    json_t *reply, *job = NULL;
    bool ended = false, was_running;
    long code = 0;
    int result;

    crti_cli_job_path(path, sizeof(path), id, "/stop");
    reply = crti_client_json(client, "POST", path, NULL, &code);
    if (code == 404) {
        if (crti_sweep_stop(client, name, id, no_wait, &result))
            return result;
        return crti_cli_fail(name, "Job %s does not exist, nor a sweep of that name", id);
    }
    if (!reply)
        return crti_cli_fail_detail(name);
    printf("Attempting to stop job '%s'\n", id);
    was_running = json_is_true(json_object_get(reply, "stopped"));
    json_decref(reply);
    if (no_wait && was_running)
        return 0;
    if (was_running)
        printf("Waiting for job '%s' to exit (disable with --no-wait):\n", id);
    for (int tries = 0; tries < 300 && !ended;
         tries++) { /* 30 s; the kill comes after 3 s */
        if (tries)
            crti_cli_job_sleep_ms(100);
        job = crti_cli_job_get(client, name, id);
        if (!job)
            return CLI_FAILED;
        ended = crti_cli_job_has_ended(job);
        if (!ended)
            json_decref(job);
    }
    if (!ended)
        return crti_cli_fail(name, "job %s still runs after 30 s", id);
    if (was_running && strcmp(crti_cli_job_text(job, "status"), "STOPPED") == 0)
        printf("Job '%s' was stopped\n", id);
    else
        printf("Job '%s' had ended: %s\n", id, crti_cli_job_text(job, "status"));
    json_decref(job);
    return 0;
}

/* ---------------------------------------------------------------- delete */

static int run_delete(http_client_t *client, const char *name, const char *id)
{
    char path[512];
    json_t *reply;

    crti_cli_job_path(path, sizeof(path), id, "");
    reply = crti_client_json(client, "DELETE", path, NULL, NULL);
    if (!reply)
        return crti_cli_fail_detail(name);
    json_decref(reply);
    printf("Job '%s' deleted successfully\n", id);
    return 0;
}

/* ---------------------------------------------------------------- which of them */

static const option_spec_t list_options[] = {
    ADDRESS_OPTION,
    {"limit", 'n', "N", OPTION_COUNT, &limit,
     "the newest N; default 20, with --json or --format json|yaml all"},
    {"all", 0, NULL, OPTION_FLAG, &all, "all of them"},
    FORMAT_OPTION,
    {"json", 'j', NULL, OPTION_FLAG, &as_json, "as JSON, as the REST API gives it"}};
static const option_spec_t status_options[] = {
    ADDRESS_OPTION,
    FORMAT_OPTION,
    {"json", 'j', NULL, OPTION_FLAG, &as_json, "as JSON, as the REST API gives it"}};
static const option_spec_t logs_options[] = {
    ADDRESS_OPTION,
    {"tail", 'n', "N", OPTION_COUNT, &tail, "only the last N lines, and what follows"},
    {"follow", 'f', NULL, OPTION_FLAG, &follows,
     "go on until the job ends; the exit status is then that of its driver"}};
static const option_spec_t delete_options[] = {ADDRESS_OPTION};
static const option_spec_t stop_options[] = {
    ADDRESS_OPTION,
    {"no-wait", 0, NULL, OPTION_FLAG, &no_wait, "do not wait until it has ended"}};

static const struct {
    command_spec_t spec;
    int (*run)(http_client_t *client, const char *name, const char *id);
} commands[] = {
    {{.name = "crt job list",
      .summary = "Lists submitted jobs and other drivers, the newest first.",
      .options = list_options,
      .count = 5},
     run_list},
    {{.name = "crt job status",
      .operands = "JOB",
      .summary = "Shows the state of a job.",
      .options = status_options,
      .count = 3},
     run_status},
    {{.name = "crt job logs",
      .operands = "JOB",
      .summary = "Prints the output of a job.",
      .options = logs_options,
      .count = 3},
     run_logs},
    {{.name = "crt job stop",
      .operands = "JOB|SWEEP",
      .summary = "Stops a job, or all runs of a sweep: SIGTERM to its processes, SIGKILL "
                 "after 3 s.",
      .options = stop_options,
      .count = 2},
     run_stop},
    {{.name = "crt job delete",
      .operands = "JOB",
      .summary = "Forgets a job that has ended, and removes its folder and log.",
      .options = delete_options,
      .count = 1},
     run_delete},
};

static int run_one(size_t which, int argc, char **argv)
{
    const command_spec_t *spec = &commands[which].spec;
    http_client_t *client;
    int first = crti_cli_parse(argc, argv, spec);
    int result;

    if (first <= 0)
        return -first;
    if (spec->operands && argc - first != 1)
        return crti_cli_misused(spec->name, "give one JOB, as crt job list shows it");
    if (all && limit)
        return crti_cli_misused(spec->name, "give --all or --limit");
    if (format && !format_is("table") && !format_is("json") && !format_is("yaml"))
        return crti_cli_misused(spec->name, "--format is table, json or yaml");
    if (tail && (strlen(tail) > 6 || strchr(tail, '.')))
        return crti_cli_misused(spec->name, "--tail is a whole number up to 999999");
    client = crti_cli_job_client(spec->name, address);
    if (!client)
        return CLI_FAILED;
    result = commands[which].run(client, spec->name, argv[first]);
    crti_client_free(client);
    return result;
}

static void print_help(void)
{
    printf(
        "Usage: crt job COMMAND [OPTIONS]\n\nRuns programs on the head's node as "
        "supervised "
        "jobs.\n\nCommands:\n  submit   upload a program and run it: crt job submit -- "
        "./program ARGUMENTS\n  list     list jobs\n  status   show the state of a job\n "
        " "
        "logs     print the output of a job\n  stop     stop a job\n  delete   forget a "
        "job that has ended\n\ncrt job COMMAND "
        "--help "
        "shows the options of a command.\n");
    crti_cli_print_environment();
}

int crti_cli_job(int argc, char **argv)
{
    char name[64];

    if (argc < 2)
        return crti_cli_misused("crt job",
                                "which of submit, list, status, logs, stop and delete?");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help();
        return 0;
    }
    if (strcmp(argv[1], "submit") == 0)
        return crti_cli_job_submit(argc - 1, argv + 1);
    snprintf(name, sizeof(name), "crt job %.40s", argv[1]);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(commands[i].spec.name, name) == 0)
            return run_one(i, argc - 1, argv + 1);
    return crti_cli_misused("crt job", "unknown command \"%s\"", argv[1]);
}
