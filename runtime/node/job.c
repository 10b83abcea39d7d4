/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of this node: who the driver is, what its program is, and who waits for it.
 *
 * Where it sits
 *     local.c (drivers), spawn.c (workers), head.c (JOB_INFO, JOB_END) -> [ node/job.c ]
 *         -> program.c, zygote.c
 * Ownership
 *     A job lives while a process of it lives, and until it ended. Its zygote is ended with its
 *     last process: its death would take its workers along.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "runtime/node/job_int.h"

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
    return crti_map_get(&node->jobs, &id);
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
    job->exec_fd = job->zygote.pidfd = job->zygote.report = -1;
    job->zygote.output[0].fd = job->zygote.output[1].fd = -1;
    crti_log_file_init(&job->zygote.log, node->options.log_limit);
    crti_list_init(&job->wanted);
    crti_list_init(&job->forking);
    if (crti_map_put(&node->jobs, &id, job) == CRT_OK)
        return job;
    free(job);
    return NULL;
}

static void free_job(crti_job_t *job)
{
    crti_program_cancel(job);
    crti_zygote_fini(job);
    if (job->exec_fd >= 0)
        close(job->exec_fd);
    free(job->program);
    free(job->entrypoint);
    free(job->directory);
    free(job->submission);
    crti_buffer_fini(&job->argv);
    crti_buffer_fini(&job->environment);
    free(job);
}

void crti_job_release(crti_job_t *job)
{
    crti_node_t *node = job->node;
    /* Whoever wanted it was refused before anything was learned of it. */
    bool is_nothing = !job->known && job->state == CRTI_JOB_IDLE;

    if ((!job->ended && !is_nothing) || job->processes)
        return;
    if (job->zygote.pid) {
        crti_zygote_kill(job); /* comes back here when it is gone */
        return;
    }
    crti_map_remove(&node->jobs, &job->id);
    free_job(job);
    crti_node_check_stopped(node);
}

void crti_job_free_all(crti_node_t *node)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&node->jobs, &cursor, NULL, &value))
        free_job(value);
    crti_map_fini(&node->jobs);
    crti_program_free_all(node);
}

crti_id_t crti_job_id(const crti_job_t *job)
{
    return job ? job->id : (crti_id_t){0};
}

crti_id_t crti_job_driver_node(const crti_job_t *job)
{
    return job->driver_node;
}

crti_id_t crti_job_driver(const crti_job_t *job)
{
    return job->driver;
}

uint64_t *crti_job_newborn_bytes(crti_job_t *job)
{
    return &job->newborn_bytes;
}

const char *crti_job_directory(const crti_job_t *job)
{
    return job && job->directory ? job->directory : "";
}

bool crti_job_logs(const crti_job_t *job)
{
    return job->known && job->log_to_driver && !job->ended;
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

static const char *submission_of(crti_span_t environment, char *text, size_t size)
{
    static const char name[] = "CRT_SUBMISSION=";
    crti_span_t entry;

    text[0] = '\0';
    while (crti_list_unpack(&environment, &entry) == CRT_OK)
        if (entry.size >= sizeof(name) - 1 &&
            memcmp(entry.data, name, sizeof(name) - 1) == 0)
            crti_text(crti_span((const char *)entry.data + sizeof(name) - 1,
                                entry.size - (sizeof(name) - 1)),
                      text, size);
    return text;
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
        status = keep_text(
            &job->submission,
            crti_str(submission_of(facts->environment, submission, sizeof(submission))));
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
    job->known = true;
    return CRT_OK;
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
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&node->jobs, &cursor, NULL, &value)) {
        CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
        const crti_job_t *job = value;
        crti_msg_job_add_t add;
        crt_status_t status;

        if (job->ended)
            continue;
        /* Of a driver elsewhere, or not attached yet, the head only says whether it goes on. */
        add = job->driver_pid ? job_add(job) : (crti_msg_job_add_t){.job = job->id};
        status = crti_message_encode(CRTI_MSG_JOB_ADD, 0, &add, &bytes);
        if (status == CRT_OK)
            status = crti_list_pack(list, bytes.data, bytes.size);
        if (status != CRT_OK)
            return status;
    }
    return CRT_OK;
}

int crti_job_program_fd(crti_node_t *node, crti_span_t sha)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&node->jobs, &cursor, NULL, &value)) {
        const crti_job_t *job = value;

        if (job->known && job->exec_fd >= 0 && crti_str_equal(sha, job->sha))
            return job->exec_fd;
    }
    return -1;
}

/* ---------------------------------------------------------------- wishes */

static void on_job_info(crti_node_t *node, crti_id_t id, uint64_t number,
                        const crti_message_t *answer)
{
    crti_job_t *job = crti_job_find(node, id);
    facts_t facts;
    crt_status_t status;

    if (job == NULL || job->state != CRTI_JOB_ASKING || answer == NULL)
        return;
    if (answer->kind != CRTI_MSG_JOB_INFO) {
        status = answer->kind == CRTI_MSG_ERROR
                     ? crti_channel_raise(&answer->error)
                     : crt_raise(CRT_ERR_PROTOCOL, "JOB_GET answered by %s",
                                 crti_message_name(answer->kind));
        /* Its end was told before this node had a record of it, or nobody knows it. */
        if (status == CRT_ERR_NOT_FOUND)
            job->ended = true;
        crti_job_fail(job, status, crt_error_detail());
        return;
    }
    facts = (facts_t){answer->job_info.driver,    answer->job_info.driver_node,
                      answer->job_info.program,   answer->job_info.sha,
                      answer->job_info.argv,      answer->job_info.environment,
                      answer->job_info.directory, crti_str("")};
    status = learn(job, &facts);
    if (status != CRT_OK) {
        crti_job_fail(job, status, crt_error_detail());
        return;
    }
    crti_job_set_state(job, CRTI_JOB_FETCHING);
    crti_program_find(job);
}

static void begin(crti_job_t *job)
{
    crti_msg_job_get_t get = {.job = job->id};
    crt_status_t status;

    if (job->known) {
        crti_job_set_state(job, CRTI_JOB_FETCHING);
        if (job->exec_fd >= 0)
            crti_job_program_ready(job);
        else
            crti_program_find(job);
        return;
    }
    crti_job_set_state(job, CRTI_JOB_ASKING);
    status = crti_head_ask(job->node, CRTI_MSG_JOB_GET, &get, on_job_info, job->id, 0);
    if (status != CRT_OK)
        crti_job_fail(job, status, crt_error_detail());
}

void crti_job_want(crti_job_t *job, crti_process_t *process)
{
    if (job->ended && crti_id_is_zero(process->actor)) {
        crti_spawn_failed(process, CRT_ERR_CANCELLED, "the job has ended");
        return;
    }
    crti_list_append(&job->wanted, &process->link);
    if (job->state == CRTI_JOB_IDLE)
        begin(job);
    else
        crti_job_serve(job);
}

/* What waits longer in a pipe than here has files open. */
static bool is_forking_enough(const crti_job_t *job)
{
    int count = 0;

    CRTI_LIST_FOREACH (item, &job->forking) {
        if (++count >= CRTI_JOB_FORKING_MAX)
            return true;
    }
    return false;
}

void crti_job_serve(crti_job_t *job)
{
    crti_list_t *item;

    while ((job->state == CRTI_JOB_SERVING || job->state == CRTI_JOB_EXECUTING) &&
           !is_forking_enough(job) && (item = crti_list_pop(&job->wanted)) != NULL)
        crti_spawn_go(CRTI_CONTAINER(item, crti_process_t, link));
}

crt_status_t crti_job_start_worker(crti_job_t *job, crti_process_t *process,
                                   const int fds[2])
{
    return job->state == CRTI_JOB_SERVING ? crti_zygote_fork(job, process, fds)
                                          : crti_zygote_execute(job, process, fds);
}

void crti_job_program_ready(crti_job_t *job)
{
    crt_status_t status = crti_zygote_start(job);

    if (status != CRT_OK)
        crti_job_fail(job, status, crt_error_detail());
}

/* For tasks the end of their job is no failure of this node. */
static void fail_list(const crti_job_t *job, crti_list_t *list, crt_status_t status,
                      const char *text)
{
    crti_list_t *item;

    while ((item = crti_list_pop(list)) != NULL) {
        crti_process_t *process = CRTI_CONTAINER(item, crti_process_t, link);
        bool is_over = job->ended && crti_id_is_zero(process->actor);

        crti_spawn_failed(process, is_over ? CRT_ERR_CANCELLED : status, text);
    }
}

void crti_job_fail(crti_job_t *job, crt_status_t status, const char *text)
{
    char copy[1024];

    snprintf(copy, sizeof(copy), "no worker can be made on node %.8s: %s", job->node->hex,
             text);
    if (!crti_list_is_empty(&job->wanted) || !crti_list_is_empty(&job->forking))
        crti_log(CRTI_LOG_WARN, "job", "%016llx: %s", (unsigned long long)job->id.high,
                 copy);
    if (job->state != CRTI_JOB_IDLE)
        crti_job_set_state(job, CRTI_JOB_IDLE);
    job->processes++; /* the lists hold the last references */
    fail_list(job, &job->wanted, status, copy);
    fail_list(job, &job->forking, status, copy);
    job->processes--;
    crti_job_release(job);
}

/* ---------------------------------------------------------------- the end */

void crti_job_join(crti_job_t *job, crti_process_t *process)
{
    process->job = job;
    job->processes++;
}

/* To the driver, if it still waits for it. */
static void confirm_end(crti_process_t *driver)
{
    if (driver == NULL || driver->leave_request == 0)
        return;
    crti_local_send(driver, CRTI_MSG_DONE, driver->leave_request, NULL);
    driver->leave_request = 0;
}

/* What of the job was told to end: all but the detached actors. */
static void await_workers(crti_process_t *driver)
{
    crti_node_t *node = driver->node;
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&node->processes, &cursor, NULL, &value)) {
        crti_process_t *p = value;

        if (p->job != driver->job || p->role != CRTI_ROLE_WORKER || p->awaited ||
            (!crti_id_is_zero(p->actor) && !p->told_to_end))
            continue;
        p->awaited = true;
        p->job->awaited++;
    }
    if (driver->job->awaited == 0)
        confirm_end(driver);
}

/* The head has heard of the job's end, and what it told this node because of it came before. */
static void on_head_knows(crti_node_t *node, crti_id_t id, uint64_t number,
                          const crti_message_t *answer)
{
    crti_process_t *driver = crti_process_get(node, id);

    if (answer && driver && driver->job && driver->leave_request)
        await_workers(driver);
}

void crti_job_await_end(crti_process_t *driver)
{
    crti_msg_job_get_t get = {.job = crti_job_id(driver->job)};

    if (driver->job == NULL)
        confirm_end(driver);
    else if (!driver->node->head.open ||
             crti_head_ask(driver->node, CRTI_MSG_JOB_GET, &get, on_head_knows,
                           driver->id, 0) != CRT_OK)
        await_workers(driver);
}

void crti_job_process_gone(crti_process_t *process)
{
    crti_job_t *job = process->job;

    if (job == NULL)
        return;
    process->job = NULL;
    job->processes--;
    if (process->awaited && --job->awaited == 0)
        confirm_end(crti_process_get(job->node, job->driver));
    crti_job_release(job);
}

void crti_job_end(crti_node_t *node, crti_id_t id, const char *text)
{
    crti_job_t *job = crti_job_find(node, id);

    if (job == NULL || job->ended)
        return;
    crti_log(CRTI_LOG_INFO, "job", "%016llx ended: %s", (unsigned long long)id.high,
             text);
    job->ended = true;
    job->processes++;    /* not released in the middle of this */
    if (job->driver_pid) /* the head ended it: its driver must not wait for ever */
        crti_local_send(crti_process_get(node, job->driver), CRTI_MSG_SHUTDOWN, 0,
                        &(crti_msg_shutdown_t){.text = crti_str(text)});
    crti_worker_table_end_job(node->workers, id, false, false, crti_node_now(node));
    crti_lease_act(node);
    job->processes--;
    crti_job_release(job);
}

void crti_job_driver_gone(crti_process_t *driver, const char *text)
{
    crti_job_t *job = driver->job;
    crti_msg_job_end_t end = {.job = job->id,
                              .text = crti_str(text),
                              .has_exit = driver->reaped,
                              .wait_status = driver->wait_status};

    if (!crti_id_equal(job->driver, driver->id))
        return;
    job->driver_pid = 0;
    crti_head_send(job->node, CRTI_MSG_JOB_END, 0, &end);
    crti_job_end(job->node, job->id, text);
}

void crti_job_stop_all(crti_node_t *node)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&node->jobs, &cursor, NULL, &value))
        crti_zygote_kill(value);
}

bool crti_job_any_zygote(crti_node_t *node)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&node->jobs, &cursor, NULL, &value))
        if (((crti_job_t *)value)->zygote.pid)
            return true;
    return false;
}

void crti_job_node_died(crti_node_t *node, crti_id_t dead)
{
    size_t cursor = 0;
    void *value;

    /* Ending a job may take it out of the map: the walk begins anew after each. */
    while (crti_map_next(&node->jobs, &cursor, NULL, &value)) {
        crti_job_t *job = value;

        if (job->known && crti_id_equal(job->driver_node, dead) &&
            crti_program_driver_died(job)) {
            cursor = 0;
            continue;
        }
        if (!job->known || job->ended || !crti_id_equal(job->driver_node, dead))
            continue;
        crti_job_end(node, job->id, "the driver's node died");
        cursor = 0;
    }
}

bool crti_job_has_zygote(crti_node_t *node, pid_t pid)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&node->jobs, &cursor, NULL, &value))
        if (((crti_job_t *)value)->zygote.pid == pid)
            return true;
    return false;
}
