/* SPDX-License-Identifier: Apache-2.0 */
/* One job, as crt-http tells of it. See job_view.h. */
#include "cli/job_view.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/answer.h"
#include "cli/patience.h"
#include "runtime/base/clock.h"
#include "runtime/base/limit.h"

#define WAIT_MS 10000 /* of one long poll */

const char *crti_cli_job_text(const json_t *job, const char *key)
{
    return crti_answer_text(job, key);
}

http_client_t *crti_cli_job_client(const char *command, const char *where)
{
    http_client_t *client;

    if (crti_client_new(where, &client) == CRT_OK)
        return client;
    crti_cli_fail_detail(command);
    return NULL;
}

void crti_cli_job_sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

void crti_cli_job_path(char *path, size_t size, const char *id, const char *rest)
{
    char *escaped = crti_client_escape(id);

    snprintf(path, size, "/api/jobs/%s%s", escaped ? escaped : "", rest);
    crti_client_escape_free(escaped);
}

json_t *crti_cli_job_get(http_client_t *client, const char *name, const char *id)
{
    char path[512];
    json_t *job;

    crti_cli_job_path(path, sizeof(path), id, "");
    job = crti_client_json(client, "GET", path, NULL, NULL);
    if (!job)
        crti_cli_fail_detail(name);
    return job;
}

bool crti_cli_job_has_ended(const json_t *job)
{
    const char *status = crti_cli_job_text(job, "status");

    return *status && strcmp(status, "PENDING") != 0 && strcmp(status, "RUNNING") != 0;
}

const char *crti_cli_job_exit_text(const json_t *job, char *text, size_t size)
{
    const json_t *code = json_object_get(job, "driver_exit_code");
    int value = (int)json_integer_value(code);

    text[0] = '\0';
    if (json_is_integer(code) && value < 0)
        snprintf(text, size, "signal %d (%s)", -value, strsignal(-value));
    else if (json_is_integer(code))
        snprintf(text, size, "status %d", value);
    return text;
}

static json_int_t attempt_of(const json_t *job)
{
    return json_integer_value(json_object_get(job, "attempt_number"));
}

/* As a shell says it. */
static int exit_status_of(const json_t *job)
{
    const json_t *code = json_object_get(job, "driver_exit_code");
    int value = (int)json_integer_value(code);

    if (!json_is_integer(code) || value == 0)
        return CLI_FAILED;
    return value < 0 ? 128 - value : value;
}

void crti_cli_job_print_box(const char *id, const char *what)
{
    char line[256];
    int length = snprintf(line, sizeof(line), "Job '%s' %s", id, what);

    for (int i = 0; i < length; i++)
        putchar('-');
    printf("\n%s\n", line);
    for (int i = 0; i < length; i++)
        putchar('-');
    printf("\n");
}

/* crt-http or the head starts again, a connection or the node's link is cut: it is asked again, for
 * a while. NULL: printed why. */
static json_t *ask_patiently(http_client_t *client, const char *name, const char *path)
{
    patience_t patience = {0};
    json_t *answer;
    long code;

    for (;;) {
        answer = crti_client_json(client, "GET", path, NULL, &code);
        if (answer) {
            crti_patience_over(&patience, name);
            return answer;
        }
        if ((code != 0 && code != 503) ||
            !crti_patience_wait(&patience, name, crti_client_is_ended(client))) {
            crti_cli_fail_detail(name);
            return NULL;
        }
    }
}

/* The message without the last lines of the log, which the user has just read. */
static void print_message(const json_t *job)
{
    const char *message = crti_cli_job_text(job, "message");
    const char *logs = strstr(message, ", last available logs");

    printf("Status message: %.*s\n",
           (int)(logs ? (size_t)(logs - message) : strlen(message)), message);
}

#define BEGUN_AGAIN (-1)

/* How it ended, and the exit status that says so; BEGUN_AGAIN: another attempt than `attempt` is
 * under way. */
static int tell_end(http_client_t *client, const char *name, const char *id,
                    json_int_t attempt)
{
    json_t *job = NULL;
    const char *status;
    int result = CLI_FAILED;
    char how[96], path[512];

    crti_cli_job_path(path, sizeof(path), id, "");
    /* The log may end a moment before the head knows the exit status. */
    for (int tries = 0; tries < 100; tries++) {
        json_decref(job);
        job = ask_patiently(client, name, path);
        if (!job || crti_cli_job_has_ended(job) || attempt_of(job) != attempt)
            break;
        crti_cli_job_sleep_ms(100);
    }
    if (!job)
        return CLI_FAILED;
    if (attempt_of(job) != attempt) {
        printf("\nAttempt %lld of job '%s' failed; it is run again\n",
               (long long)attempt + 1, id);
        json_decref(job);
        return BEGUN_AGAIN;
    }
    status = crti_cli_job_text(job, "status");
    if (strcmp(status, "SUCCEEDED") == 0) {
        printf("\n");
        crti_cli_job_print_box(id, "succeeded");
        result = 0;
    } else if (strcmp(status, "STOPPED") == 0) {
        printf("\n");
        crti_cli_job_print_box(id, "was stopped");
    } else if (strcmp(status, "FAILED") == 0) {
        printf("\n");
        crti_cli_job_print_box(id, "failed");
        print_message(job);
        if (*crti_cli_job_exit_text(job, how, sizeof(how)))
            printf("Driver ended with %s\n", how);
        result = exit_status_of(job);
    } else {
        crti_cli_fail(name, "the job's log ended, but its state is %s", status);
    }
    json_decref(job);
    return result;
}

/* When it is said why a job has not started; 0: never, or it is known that it has. False: printed
 * why the variables of limits are wrong, which drivers read, too. */
static bool read_tell_at(const char *name, int64_t *at_ms)
{
    crti_limits_t limits;

    if (crti_limits_environment(&limits) != CRT_OK) {
        crti_cli_fail_detail(name);
        return false;
    }
    *at_ms = limits.tell_waits > 0
                 ? crti_now_ms() + (int64_t)(limits.tell_waits / CRTI_MS)
                 : 0;
    return true;
}

/* Once; what goes wrong here is seen when the log is asked for. */
static void tell_a_late_start(http_client_t *client, const char *id)
{
    char path[512];
    json_t *job;
    long code;

    crti_cli_job_path(path, sizeof(path), id, "");
    job = crti_client_json(client, "GET", path, NULL, &code);
    if (job && strcmp(crti_cli_job_text(job, "status"), "PENDING") == 0)
        fprintf(stderr, "Job '%s' is still waiting to start: %s\n", id,
                crti_cli_job_text(job, "message"));
    json_decref(job);
}

/* Of the next poll: no longer than until something is to be told. */
static int wait_ms_until(int64_t tell_at_ms)
{
    int64_t left = tell_at_ms ? tell_at_ms - crti_now_ms() : WAIT_MS;

    return left < 1 ? 1 : left < WAIT_MS ? (int)left : WAIT_MS;
}

int crti_cli_follow_job(http_client_t *client, const char *name, const char *id,
                        const char *tail)
{
    json_int_t offset = 0, attempt = 0;
    int result = BEGUN_AGAIN;
    bool ended = false;
    int64_t tell_at_ms;

    if (!read_tell_at(name, &tell_at_ms))
        return CLI_FAILED;
    while (result == BEGUN_AGAIN) {
        char path[512], rest[96];
        json_t *part, *logs;
        size_t size;

        if (tail)
            snprintf(rest, sizeof(rest), "/logs?tail=%s", tail);
        else
            snprintf(rest, sizeof(rest), "/logs?offset=%lld&wait_ms=%d&attempt=%lld",
                     (long long)offset, wait_ms_until(tell_at_ms), (long long)attempt);
        crti_cli_job_path(path, sizeof(path), id, rest);
        part = ask_patiently(client, name, path);
        if (!part)
            return CLI_FAILED;
        tail = NULL; /* found */
        logs = json_object_get(part, "logs");
        size = json_string_length(logs);
        if (size)
            fwrite(json_string_value(logs), 1, size, stdout);
        fflush(stdout);
        ended = json_is_true(json_object_get(part, "ended"));
        offset = json_integer_value(json_object_get(part, "next"));
        attempt = json_integer_value(json_object_get(part, "attempt"));
        json_decref(part);
        if (tell_at_ms && !size && !ended && crti_now_ms() >= tell_at_ms) {
            tell_a_late_start(client, id);
            tell_at_ms = 0;
        }
        if (size)
            tell_at_ms = 0;
        if (!size && !ended)
            crti_cli_job_sleep_ms(
                50); /* a log that is not there yet must not be asked for without end */
        if (ended)
            result = tell_end(client, name, id, attempt);
    }
    return result;
}
