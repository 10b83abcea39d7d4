/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs from a program: submit, status, stop, logs (crt_job.h).
 *
 * Where it sits
 *     user code -> [ core/client/job_api.c ] -> JOB_SUBMIT, JOB_STOP, VIEW_QUERY, LOG_READ -> node
 *     daemon -> head
 * Threads
 *     Any; the core's lock is taken for the questions only.
 * Failure
 *     A submission that is sent again, because a link or the head was lost, is the same one: it
 *     bears a token.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/copy_struct.h"
#include "runtime/base/limit.h"
#include "runtime/base/scheduling.h"
#include "runtime/core/client/cluster_view.h"

#define LOG_WAIT_MAX  INT64_C(600000)
#define LOG_SLICE_MS  10000 /* what one question waits for more of a log */
#define LOG_PART      (1u << 20)
#define ATTEMPTS_MAX  1001
#define VARIABLES_MAX 1000

/* ------------------------------------------------------------------ submit */

static crt_status_t choose_id(const char *wanted, char *id, size_t size)
{
    crti_id_t random = crti_id_random();

    if (!id || size < CRT_JOB_ID_SIZE)
        return crt_raise(CRT_ERR_INVALID, "the id of a job has up to %d bytes, room %zu",
                         CRT_JOB_ID_SIZE, id ? size : (size_t)0);
    if (!wanted) {
        snprintf(id, size, "job_%016llx", (unsigned long long)random.high);
        return CRT_OK;
    }
    for (const char *at = wanted; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("_-.", *at))
            wanted = "";
    if (!*wanted || strlen(wanted) >= CRT_JOB_ID_SIZE)
        return crt_raise(CRT_ERR_INVALID,
                         "the id of a job is 1 to %d letters, digits and any of _-.",
                         CRT_JOB_ID_SIZE - 1);
    snprintf(id, size, "%s", wanted);
    return CRT_OK;
}

static crt_status_t pack_texts(const char *const *texts, size_t count,
                               crti_buffer_t *list)
{
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < count && status == CRT_OK; i++)
        status = crti_list_pack(list, texts[i], strlen(texts[i]));
    return status;
}

static crt_status_t pack_environment(const char *const *variables, crti_buffer_t *list)
{
    size_t count = 0;

    for (; variables && variables[count]; count++) {
        const char *equals = strchr(variables[count], '=');

        if (!equals || equals == variables[count] || count == VARIABLES_MAX)
            return crt_raise(CRT_ERR_INVALID,
                             "variable %zu of the job is not NAME=value, or one too many",
                             count + 1);
    }
    return pack_texts(variables, count, list);
}

static crt_status_t read_options(const crt_job_options_t *o, crti_msg_job_submit_t *body,
                                 crti_buffer_t *environment)
{
    crt_status_t status;

    if (o->max_attempts < 0 || o->max_attempts > ATTEMPTS_MAX)
        return crt_raise(CRT_ERR_INVALID, "max_attempts is %lld, not 0 to %d",
                         (long long)o->max_attempts, ATTEMPTS_MAX);
    status = pack_environment(o->environment, environment);
    if (status == CRT_OK && o->resources)
        status = crti_resources_parse(o->resources, &body->resources);
    if (status == CRT_OK && o->label_selector)
        status = crti_selector_check(o->label_selector);
    body->selector = crti_str(o->label_selector);
    body->retries = o->max_attempts ? (uint64_t)o->max_attempts - 1 : 0;
    return status;
}

crt_status_t crt_job_submit(const char *command, const crt_job_options_t *options,
                            char *id, size_t size)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t argv = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t environment = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    const char *const shell[] = {"/bin/sh", "-c", command};
    char token[CRTI_ID_HEX], metadata[CRTI_ID_HEX + sizeof(CRTI_JOB_TOKEN) + 4];
    crti_msg_job_submit_t body = {.entrypoint = crti_str(command),
                                  .runtime_env = crti_str("{}")};
    crti_message_t answer;
    crt_job_options_t mine;
    crt_status_t status = CRTI_COPY_STRUCT(&mine, options, "CRT_JOB_OPTIONS");

    if (status == CRT_OK && (!command || !*command))
        status = crt_raise(CRT_ERR_INVALID, "the command of the job is empty");
    if (status == CRT_OK)
        status = read_options(&mine, &body, &environment);
    if (status == CRT_OK)
        status = choose_id(mine.id, id, size);
    if (status == CRT_OK)
        status = pack_texts(shell, 3, &argv);
    if (status != CRT_OK)
        return status;
    snprintf(metadata, sizeof(metadata), CRTI_JOB_TOKEN "%s\"}",
             crti_id_hex(crti_id_random(), token));
    body.submission = crti_str(id);
    body.argv = crti_span(argv.data, argv.size);
    body.environment = crti_span(environment.data, environment.size);
    body.metadata = crti_str(metadata);
    return crti_head_question(CRTI_MSG_JOB_SUBMIT, &body, CRTI_MSG_DONE,
                              (int64_t)(CRTI_LIMIT(head_timeout) / CRTI_MS), &answer,
                              &storage);
}

/* ------------------------------------------------------------------ status */

static crt_status_t take_job(void *user, const crti_message_t *message)
{
    const crti_msg_view_job_t *row = &message->view_job;
    crt_job_info_t job = {.state = (crt_job_state_t)row->state,
                          .has_exit = row->has_exit,
                          .exit_code = row->exit_code,
                          .pid = row->pid,
                          .start_ms = row->start_ms,
                          .end_ms = row->end_ms};

    crti_id_hex(row->job, job.job_id);
    if (!crti_id_is_zero(row->node))
        crti_id_hex(row->node, job.node_id);
    crti_text(row->submission, job.id, sizeof(job.id));
    crti_text(row->entrypoint, job.command, sizeof(job.command));
    crti_text(row->text, job.message, sizeof(job.message));
    crti_view_add(user, &job, sizeof(job));
    return CRT_OK;
}

static crt_status_t check_id(const char *id)
{
    return id && *id ? CRT_OK : crt_raise(CRT_ERR_INVALID, "the id of the job is empty");
}

crt_status_t crt_job_status(const char *id, crt_job_info_t *info_out, size_t info_size)
{
    crti_view_list_t list;
    size_t count = 0;
    crt_status_t status = check_id(id);

    if (status == CRT_OK)
        status = crti_view_list(info_out, info_size, CRTI_SIZE_TO(crt_job_info_t, end_ms),
                                1, &count, &list);
    return status == CRT_OK
               ? crti_view_ask("jobs", id, CRTI_MSG_VIEW_JOB, take_job, &list)
               : status;
}

crt_status_t crt_jobs(crt_job_info_t *jobs, size_t element_size, size_t room,
                      size_t *count_out)
{
    crti_view_list_t list;
    crt_status_t status = crti_view_list(
        jobs, element_size, CRTI_SIZE_TO(crt_job_info_t, end_ms), room, count_out, &list);

    if (status == CRT_OK)
        status = crti_view_ask("jobs", "", CRTI_MSG_VIEW_JOB, take_job, &list);
    if (status == CRT_OK)
        *count_out = list.count;
    return status;
}

/* ------------------------------------------------------------------ stop */

static bool has_ended(const char *id)
{
    crt_job_info_t job;

    return crt_job_status(id, &job, sizeof(job)) == CRT_OK && job.end_ms;
}

crt_status_t crt_job_stop(const char *id)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_msg_job_stop_t body = {.submission = crti_str(id)};
    char text[600];
    crti_message_t answer;
    crt_status_t status = check_id(id);

    if (status != CRT_OK)
        return status;
    status = crti_head_question(CRTI_MSG_JOB_STOP, &body, CRTI_MSG_DONE,
                                (int64_t)(CRTI_LIMIT(head_timeout) / CRTI_MS), &answer,
                                &storage);
    if (status == CRT_OK)
        return CRT_OK;
    snprintf(text, sizeof(text), "%s", crt_error_detail());
    return has_ended(id) ? CRT_OK : crt_raise(status, "%s", text);
}

/* ------------------------------------------------------------------ logs */

static crt_status_t read_part(const char *id, uint64_t offset, int64_t wait_ms,
                              crti_message_t *answer, crti_buffer_t *storage)
{
    char name[CRT_JOB_ID_SIZE + 8];
    crti_msg_log_read_t read = {
        .offset = offset, .limit = LOG_PART, .wait_ms = (uint64_t)wait_ms};

    snprintf(name, sizeof(name), "job:%s", id);
    read.name = crti_str(name);
    crti_buffer_fini(storage);
    return crti_head_question(CRTI_MSG_LOG_READ, &read, CRTI_MSG_LOG_DATA,
                              (int64_t)(CRTI_LIMIT(head_timeout) / CRTI_MS) + wait_ms,
                              answer, storage);
}

static int64_t left_ms(uint64_t end_ns)
{
    uint64_t now = crti_now_ns();

    return now < end_ns ? (int64_t)((end_ns - now) / CRTI_MS) : 0;
}

crt_status_t crt_job_logs(const char *id, uint64_t offset, int64_t wait_ms,
                          char **data_out, size_t *size_out, uint64_t *next_out,
                          bool *ended_out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_message_t answer;
    uint64_t end;
    int64_t left;
    crt_status_t status = check_id(id);

    if (status == CRT_OK && (!data_out || !size_out || !next_out || !ended_out))
        status = crt_raise(CRT_ERR_INVALID, "there is no place for the log");
    if (status == CRT_OK && (wait_ms < 0 || wait_ms > LOG_WAIT_MAX))
        status = crt_raise(CRT_ERR_INVALID, "a wait of %lld ms, not 0 to %lld",
                           (long long)wait_ms, (long long)LOG_WAIT_MAX);
    if (status != CRT_OK)
        return status;
    end = crti_now_ns() + (uint64_t)wait_ms * CRTI_MS;
    do {
        left = left_ms(end);
        status = read_part(id, offset, left < LOG_SLICE_MS ? left : LOG_SLICE_MS, &answer,
                           &storage);
    } while (status == CRT_OK && answer.log_data.data.size == 0 &&
             !answer.log_data.ended && left > 0);
    if (status != CRT_OK)
        return status;
    *data_out = crti_str_dup(answer.log_data.data);
    *size_out = answer.log_data.data.size;
    *next_out = answer.log_data.next;
    *ended_out = answer.log_data.ended;
    return *data_out ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "a part of a log");
}
