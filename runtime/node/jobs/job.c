/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of this node: records. See job.h. */
#include "runtime/node/jobs/job.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>

#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/node/jobs/job_int.h"
#include "runtime/node/links/local.h"
#include "runtime/node/links/peer.h"
#include "runtime/node/process/process.h"

#define TO(state) (1u << CRTI_JOB_##state)
static const struct {
    const char *name;
    unsigned next;
} states[CRTI_JOB_STATES] = {
    [CRTI_JOB_IDLE] = {"idle", TO(ASKING) | TO(FETCHING)},
    [CRTI_JOB_ASKING] = {"asking", TO(FETCHING) | TO(IDLE)},
    [CRTI_JOB_FETCHING] = {"fetching", TO(STARTING) | TO(IDLE)},
    [CRTI_JOB_STARTING] = {"starting", TO(SERVING) | TO(EXECUTING) | TO(IDLE)},
    [CRTI_JOB_SERVING] = {"serving", TO(IDLE)},
    [CRTI_JOB_EXECUTING] = {"executing", TO(IDLE)},
};

void crti_job_set_state(crti_job_t *job, crti_job_state_t state)
{
    assert(states[job->state].next & 1u << state);
    crti_log(CRTI_LOG_DEBUG, "job", "%016llx %s -> %s", (unsigned long long)job->id.high,
             states[job->state].name, states[state].name);
    job->state = state;
}

/* ---------------------------------------------------------------- records */

crti_job_t *crti_job_find(crti_node_t *node, crti_id_t id)
{
    return crti_map_get(&node->jobs->by_id, &id);
}

crti_job_t *crti_job_next(const crti_node_t *node, size_t *cursor)
{
    void *job = NULL;

    crti_map_next(&node->jobs->by_id, cursor, NULL, &job);
    return job;
}

crti_job_t *crti_job_get(crti_node_t *node, crti_id_t id)
{
    crti_job_t *job = crti_job_find(node, id);

    if (job)
        return job;
    job = calloc(1, sizeof(*job));
    if (job == NULL) {
        crt_raise(CRT_ERR_NO_MEMORY, "job");
        return NULL;
    }
    job->node = node;
    job->id = id;
    job->exec_fd = job->zip_fd = job->zygote.pidfd = job->zygote.report = -1;
    job->zygote.output[0].fd = job->zygote.output[1].fd = -1;
    crti_log_file_init(&job->zygote.log, CRTI_LIMIT(log_limit));
    crti_list_init(&job->wanted);
    crti_list_init(&job->forking);
    if (crti_map_put(&node->jobs->by_id, &id, job) == CRT_OK)
        return job;
    free(job);
    return NULL;
}

crti_id_t crti_job_id(const crti_job_t *job)
{
    return job ? job->id : (crti_id_t){0};
}

void crti_job_worker_born(crti_process_t *process)
{
    crti_job_t *job = process->job;

    job->newborn_bytes = crti_memory_born(process, job->newborn_bytes);
}

const char *crti_job_directory(const crti_job_t *job)
{
    return job && job->directory ? job->directory : "";
}

bool crti_job_logs(const crti_job_t *job)
{
    return job->known && job->log_to_driver && !job->ended;
}

void crti_job_tell_driver(crti_job_t *job, const crti_msg_log_t *log)
{
    if (crti_id_equal(job->driver_node, job->node->id))
        crti_local_send(crti_process_get(job->node, job->driver), CRTI_MSG_LOG, 0, log);
    else
        crti_node_send(job->node, job->driver_node, CRTI_MSG_LOG, log);
}

void crti_job_log(crti_node_t *node, const crti_msg_log_t *log)
{
    const crti_job_t *job = crti_job_find(node, log->job);

    if (job && crti_job_logs(job))
        crti_local_send(crti_process_get(node, job->driver), CRTI_MSG_LOG, 0, log);
}

/* ---------------------------------------------------------------- what is known of it */

typedef struct facts {
    crti_id_t driver, driver_node;
    crti_span_t program, sha, argv, environment, directory, entrypoint;
} facts_t;

static crt_status_t keep_text(char **slot, crti_span_t text)
{
    char *copy = crti_str_dup(text);

    if (copy == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "job");
    free(*slot);
    *slot = copy;
    return CRT_OK;
}

static crt_status_t check_list(crti_span_t list, const char *what, size_t *count_out)
{
    crti_span_t entry;
    crt_status_t status;

    *count_out = 0;
    while ((status = crti_list_unpack(&list, &entry)) == CRT_OK) {
        if (memchr(entry.data, 0, entry.size))
            return crt_raise(CRT_ERR_PROTOCOL, "a zero byte in the %s", what);
        ++*count_out;
    }
    return status == CRT_ERR_NOT_FOUND ? CRT_OK : status;
}

static crt_status_t check_facts(const facts_t *facts)
{
    size_t arguments, variables;
    crt_status_t status = check_list(facts->argv, "arguments", &arguments);

    if (status == CRT_OK)
        status = check_list(facts->environment, "environment", &variables);
    if (status != CRT_OK)
        return status;
    if (arguments == 0)
        return crt_raise(CRT_ERR_PROTOCOL, "a program without arguments");
    if (facts->sha.size != CRTI_SHA_TEXT - 1 ||
        strspn(facts->sha.data, "0123456789abcdef") < CRTI_SHA_TEXT - 1)
        return crt_raise(CRT_ERR_PROTOCOL, "the program's SHA-256 is not one");
    return CRT_OK;
}

const char *crti_job_variable(crti_span_t environment, const char *name, char *text,
                              size_t size)
{
    size_t length = strlen(name);
    crti_span_t entry;

    text[0] = '\0';
    while (crti_list_unpack(&environment, &entry) == CRT_OK) {
        const char *at = entry.data;

        if (entry.size > length && memcmp(at, name, length) == 0 && at[length] == '=')
            crti_text(crti_span(at + length + 1, entry.size - length - 1), text, size);
    }
    return text;
}

/* The driver has checked them; what is none all the same is the default. */
static crti_job_quota_t read_quota(crti_span_t environment)
{
    char text[64];
    double weight = strtod(
        crti_job_variable(environment, CRTI_JOB_PRIORITY, text, sizeof(text)), NULL);
    double share = strtod(
        crti_job_variable(environment, CRTI_JOB_MAX_SHARE, text, sizeof(text)), NULL);

    return (crti_job_quota_t){
        .weight = weight >= 1 && weight <= CRTI_JOB_WEIGHT_MAX ? (uint64_t)weight : 1,
        .max_share =
            share > 0 && share < 1 ? (uint64_t)(share * CRTI_JOB_SHARE_ONE + 0.5) : 0};
}

crti_job_quota_t crti_job_quota(const crti_job_t *job)
{
    return job ? job->quota : (crti_job_quota_t){.weight = 1};
}

static crt_status_t learn(crti_job_t *job, const facts_t *facts)
{
    char submission[256];
    crt_status_t status = check_facts(facts);

    if (status != CRT_OK || job->known)
        return status;
    status = keep_text(&job->program, facts->program);
    if (status == CRT_OK)
        status = keep_text(&job->directory, facts->directory);
    if (status == CRT_OK)
        status = keep_text(&job->entrypoint, facts->entrypoint);
    if (status == CRT_OK)
        status =
            keep_text(&job->submission,
                      crti_str(crti_job_variable(facts->environment, "CRT_SUBMISSION",
                                                 submission, sizeof(submission))));
    if (status == CRT_OK)
        status = crti_buffer_append(&job->argv, facts->argv.data, facts->argv.size);
    if (status == CRT_OK)
        status = crti_buffer_append(&job->environment, facts->environment.data,
                                    facts->environment.size);
    if (status != CRT_OK)
        return status;
    crti_text(facts->sha, job->sha, sizeof(job->sha));
    job->driver = facts->driver;
    job->driver_node = facts->driver_node;
    job->log_to_driver = true;
    job->quota = read_quota(facts->environment);
    job->known = true;
    return CRT_OK;
}

crt_status_t crti_job_learn(crti_job_t *job, const crti_msg_job_info_t *info)
{
    facts_t facts = {info->driver, info->driver_node, info->program,   info->sha,
                     info->argv,   info->environment, info->directory, crti_str("")};

    return learn(job, &facts);
}

crt_status_t crti_job_of_driver(crti_job_t *job, crti_process_t *driver,
                                const crti_msg_attach_t *attach)
{
    facts_t facts = {driver->id,        job->node->id,     attach->program,
                     attach->sha,       attach->argv,      attach->environment,
                     attach->directory, attach->entrypoint};
    bool is_elsewhere = job->known && !job->ended && !crti_id_is_zero(job->driver) &&
                        !crti_id_equal(job->driver_node, job->node->id);
    char path[64];
    crt_status_t status;

    if (is_elsewhere)
        return crt_raise(CRT_ERR_EXISTS, "job %.8s has a driver already, on another node",
                         crti_id_hex(job->id, path));
    if (job->driver_pid)
        return crt_raise(CRT_ERR_EXISTS, "job %.8s has a driver already, pid %lld",
                         crti_id_hex(job->id, path), (long long)job->driver_pid);
    status = learn(job, &facts);
    if (status != CRT_OK)
        return status;
    job->driver = driver->id;
    job->driver_node = job->node->id;
    job->driver_pid = driver->pid;
    job->log_to_driver = attach->log_to_driver;
    job->ended = false;
    /* The very file that runs, whatever becomes of its path. */
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)driver->pid);
    if (job->exec_fd < 0)
        job->exec_fd = open(path, O_RDONLY | O_CLOEXEC);
    return CRT_OK;
}

static crti_msg_job_add_t job_add(const crti_job_t *job)
{
    return (crti_msg_job_add_t){
        .job = job->id,
        .driver = job->driver,
        .node = job->driver_node,
        .pid = job->driver_pid,
        .submission = crti_str(job->submission),
        .entrypoint = crti_str(job->entrypoint),
        .program = crti_str(job->program),
        .sha = crti_str(job->sha),
        .argv = crti_span(job->argv.data, job->argv.size),
        .environment = crti_span(job->environment.data, job->environment.size),
        .directory = crti_str(job->directory)};
}

crt_status_t crti_job_announce(crti_job_t *job, crti_head_answer_t *on_answer,
                               crti_id_t id, uint64_t number)
{
    crti_msg_job_add_t add = job_add(job);

    return crti_head_ask(job->node, CRTI_MSG_JOB_ADD, &add, on_answer, id, number);
}

crt_status_t crti_job_list(crti_node_t *node, crti_buffer_t *list)
{
    CRTI_MAP_FOREACH (const crti_job_t, job, &node->jobs->by_id) {
        crti_msg_job_add_t add;
        crt_status_t status;

        if (job->ended)
            continue;
        /* Of a driver elsewhere, or not attached yet, the head only says whether it goes on. */
        add = job->driver_pid ? job_add(job) : (crti_msg_job_add_t){.job = job->id};
        status = crti_head_pack(list, CRTI_MSG_JOB_ADD, &add);
        if (status != CRT_OK)
            return status;
    }
    return CRT_OK;
}

int crti_job_program_fd(crti_node_t *node, crti_span_t sha)
{
    CRTI_MAP_FOREACH (const crti_job_t, job, &node->jobs->by_id) {
        if (job->known && job->exec_fd >= 0 && crti_str_equal(sha, job->sha))
            return job->exec_fd;
    }
    return -1;
}

void crti_job_join(crti_job_t *job, crti_process_t *process)
{
    process->job = job;
    process->job_id = job->id;
    job->processes++;
}

bool crti_job_any_zygote(crti_node_t *node)
{
    CRTI_MAP_FOREACH (crti_job_t, job, &node->jobs->by_id)
        if (job->zygote.pid)
            return true;
    return false;
}

bool crti_job_has_zygote(crti_node_t *node, pid_t pid)
{
    CRTI_MAP_FOREACH (crti_job_t, job, &node->jobs->by_id)
        if (job->zygote.pid == pid)
            return true;
    return false;
}
