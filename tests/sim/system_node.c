/* SPDX-License-Identifier: Apache-2.0 */
/* A node daemon: what runtime/node/node.c does at its start, and nothing of files,
 * programs and logs, which are not simulated. See system.h. */
#include "runtime/node/node.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/rundir.h"
#include "runtime/node/dispatch/dispatch_int.h"
#include "runtime/node/host/exec.h"
#include "runtime/node/host/host.h"
#include "runtime/node/host/log_quota.h"
#include "runtime/node/jobs/job_int.h"
#include "runtime/node/jobs/submission_int.h"
#include "runtime/node/lifecycle/lifecycle.h"
#include "runtime/node/logs/logs.h"
#include "runtime/node/process/process_int.h"
#include "tests/sim/system.h"

#define STORE_BYTES (4u << 20)

/* ---------------------------------------------------------------- node.c */

/* None: a simulated process that ends is gone. */
void crti_node_reap_orphans(crti_node_t *node)
{
}

void crti_node_registered(crti_node_t *node, const crti_msg_node_registered_t *m)
{
    node->ready = true;
    crti_node_schedule_tick(node, crti_node_now(node));
}

void crti_node_fail_start(crti_node_t *node, const char *text)
{
    sim_note(sys->world, "node on %u can't start: %s", sys->self->host, text);
    sys_exit(1);
}

void crti_node_clash(crti_node_t *node, const char *why)
{
    sim_note(sys->world, "node on %u ends: %s", sys->self->host, why);
    sys_exit(0);
}

void crti_node_tell_leaving(crti_node_t *node)
{
}

void crti_node_stop(crti_node_t *node, const char *why)
{
    sim_note(sys->world, "node on %u stops: %s", sys->self->host, why);
    sys_exit(0);
}

void crti_node_check_stopped(crti_node_t *node)
{
}

static void serve(sys_process_t *self)
{
    crti_node_t *node = crti_node_make();
    int64_t cpus = (int64_t)sim_between(sys->world, 1, 4);
    crt_status_t status;

    if (!node)
        abort();
    self->node = node;
    node->options.given.head_dir = "";
    crti_resources_set(&node->options.resources, "CPU", cpus * CRTI_RESOURCE_ONE);
    node->id = crti_id_random();
    crti_id_hex(node->id, node->hex);
    snprintf(node->head_address, sizeof(node->head_address), "10.0.0.51:6380");
    snprintf(node->run_dir, sizeof(node->run_dir), "/n%u", self->host);
    snprintf(node->own_state, sizeof(node->own_state), "/s%u", self->host);
    node->store_bytes = STORE_BYTES;
    status = crti_loop_new(&node->loop);
    if (status == CRT_OK)
        status = crti_store_new(STORE_BYTES, CRTI_NODE_SLOTS, &node->store);
    if (status == CRT_OK)
        status = crti_node_init_parts(node);
    if (status == CRT_OK)
        status = crti_local_listen(node);
    if (status != CRT_OK)
        abort();
    node->incarnation = sys->world->now / CRTI_MS;
    crti_node_start_ticks(node);
    crti_registration_start(node);
}

/* What would be in node.info. */
crt_status_t crti_info_read(const char *path, char **text_out)
{
    const sys_process_t *p = sys->node[sys->self->host];

    if (!p || !p->node || asprintf(text_out, "node %s\n", p->node->hex) < 0)
        return CRT_ERR_NOT_FOUND;
    return CRT_OK;
}

void sys_node_start(unsigned host)
{
    if (!sys->node[host])
        sys->node[host] = sys_process_new(SYS_NODE, host, NULL, serve);
}

/* ---------------------------------------------------------------- the zygote's side */

static crti_worker_identity_t identity_of(const sys_process_t *zygote, crti_id_t process)
{
    crti_worker_identity_t identity = {.process = process};

    snprintf(identity.node_socket, sizeof(identity.node_socket), "/n%u/node.sock",
             zygote->host);
    return identity;
}

typedef struct forking {
    sys_process_t *zygote;
    uint64_t request;
    crti_id_t process;
} forking_t;

static void kill_young(void *user, uint64_t number)
{
    sys_kill(user, SIGKILL);
}

static void fork_worker(void *user, uint64_t number)
{
    const forking_t *f = user;
    sys_process_t *worker =
        sys_process_new(SYS_WORKER, f->zygote->host, f->zygote, sys_program_worker);
    crti_msg_forked_t forked = {.process = f->process, .pid = worker->pid};

    worker->identity = identity_of(f->zygote, f->process);
    if (sys->kills_young && sim_chance(sys->world, 300))
        sim_after(sys->world, sim_below(sys->world, 200000), kill_young, worker, 0);
    if (f->zygote->link)
        crti_channel_send(f->zygote->link, CRTI_MSG_FORKED, f->request, &forked);
}

static void on_fork(void *user, uint64_t number)
{
    sys_run(((forking_t *)user)->zygote, fork_worker, user, 0);
}

static void on_zygote_message(void *user, crti_channel_t *channel,
                              const crti_message_t *m, int *fds, int fd_count)
{
    forking_t *f = calloc(1, sizeof(*f));

    if (!f)
        abort();
    *f = (forking_t){sys->self, m->request, m->fork.process};
    sim_after(sys->world, sim_between(sys->world, 100000, 5 * CRTI_MS), on_fork, f, 0);
}

static void on_zygote_closed(void *user, crti_channel_t *channel, crt_status_t status,
                             const char *detail)
{
    sys_exit(0);
}

static void begin_zygote(sys_process_t *self)
{
    static const crti_channel_handlers_t handlers = {.on_message = on_zygote_message,
                                                     .on_closed = on_zygote_closed};
    crti_msg_zygote_ready_t ready = {.problem = crti_str("")};
    int fd = crti_channel_fd(self->link);

    crti_loop_new(&self->loop);
    crti_channel_new(&fd, &handlers, 0, &self->link);
    crti_channel_attach(self->link, self->loop);
    crti_channel_send(self->link, CRTI_MSG_ZYGOTE_READY, 0, &ready);
}

crt_status_t crti_exec_start(const crti_exec_t *exec, pid_t *pid_out, int *report_out)
{
    sys_process_t *p =
        sys_process_new(SYS_ZYGOTE, sys->self->host, sys->self, begin_zygote);

    p->link = sys_channel_inherit(exec->keep_fd, p);
    *pid_out = p->pid;
    return CRT_OK;
}

crt_status_t crti_exec_result(int *report_take, const char *path)
{
    return CRT_OK;
}

/* ---------------------------------------------------------------- what is not simulated */

void crti_python_move(const crti_package_t *python, crti_span_t environment,
                      crti_arguments_t *v)
{
}

void crti_entered_fini_auto(crti_entered_t *entered)
{
}

crt_status_t crti_image_enter(crti_node_t *node, const crti_package_t *image,
                              crti_exec_t *exec, crti_entered_t *entered)
{
    return CRT_ERR_UNSUPPORTED;
}

void crti_package_close(crti_package_t *package)
{
}

void crti_job_find_program(crti_job_t *job, crti_program_found_t *on_found)
{
    job->exec_fd = SYS_FD; /* it is everywhere */
    on_found(job, CRT_OK, "");
}

void crti_program_cancel(crti_job_t *job)
{
}

void crti_program_free_all(crti_node_t *node)
{
}

bool crti_program_driver_died(crti_job_t *job)
{
    return false;
}

void crti_program_serve(crti_node_t *node, crti_stream_t *stream, uint64_t request,
                        const crti_msg_program_get_t *get)
{
}

void crti_memory_began(crti_process_t *process)
{
}

uint64_t crti_memory_born(crti_process_t *process, uint64_t bytes)
{
    return bytes;
}

void crti_memory_gone(const crti_process_t *process)
{
}

bool crti_memory_kernel_killed(crti_node_t *node)
{
    return false;
}

crt_status_t crti_host_check(size_t open_files, uint64_t now_ns, uint64_t *fresh_ns)
{
    return CRT_OK;
}

crt_status_t crti_output_open(crti_output_t *output, bool is_stderr,
                              crti_log_file_t *file, crti_output_lines_t *on_lines,
                              void *user, int *write_fd_out)
{
    *write_fd_out = sys_fd_new(SYS_FD_OTHER, NULL);
    return CRT_OK;
}

crt_status_t crti_output_start(crti_output_t *output, crti_loop_t *loop)
{
    return CRT_OK;
}

/* Nothing is offloaded here: the limits of open files are those of this machine. */
crt_status_t crti_offload_new(crti_loop_t *loop, size_t files,
                              crti_offload_t **offload_out)
{
    return CRT_ERR_UNSUPPORTED;
}

crt_status_t crti_offload_put(crti_offload_t *offload, crti_offloaded_t *item,
                              int fds_take[CRTI_OFFLOAD_FILES])
{
    return CRT_ERR_UNSUPPORTED;
}

void crti_output_take(crti_output_t *output, const char *data, size_t size)
{
}

void crti_offload_free(crti_offload_t *offload)
{
}

void crti_offload_take_out(crti_offloaded_t *item)
{
}

void crti_offload_kill(crti_offloaded_t *item)
{
}

void crti_output_flush(crti_output_t *output)
{
}

void crti_output_close(crti_output_t *output)
{
}

void crti_log_file_init(crti_log_file_t *file, uint64_t limit)
{
}

void crti_log_file_forget(crti_log_file_t *file)
{
}

uint64_t crti_log_file_end(const crti_log_file_t *file)
{
    return 0;
}

const char *crti_log_file_last(const crti_log_file_t *file, char *text, size_t size)
{
    text[0] = '\0';
    return text;
}

void crti_log_quota_init(crti_log_quota_t *quota, uint64_t total)
{
}

void crti_log_quota_ended(crti_log_quota_t *quota, crti_log_file_t *file)
{
}

void crti_logs_init(crti_node_t *node, crti_job_log_t *find_job_log)
{
}

void crti_logs_grown(crti_node_t *node, const char *path)
{
}

void crti_logs_wake(crti_node_t *node)
{
}

bool crti_logs_are_here(crti_node_t *node, crti_span_t name)
{
    return false;
}

void crti_logs_read(crti_node_t *node, uint64_t local, uint64_t request,
                    const crti_msg_log_read_t *read)
{
}

void crti_logs_local_closed(crti_node_t *node, uint64_t local)
{
}

void crti_submission_init(crti_node_t *node)
{
}

crt_status_t crti_submission_log(crti_node_t *node, const char *name, char *path,
                                 size_t size, bool *ended_out)
{
    return CRT_ERR_NOT_FOUND;
}

void crti_submission_start(crti_node_t *node, uint64_t request,
                           const crti_msg_job_start_t *start)
{
}

void crti_submission_stop(crti_node_t *node, uint64_t request, crti_id_t job)
{
}

size_t crti_submission_count(crti_node_t *node)
{
    return 0;
}

void crti_submission_forget(crti_node_t *node, crti_id_t job)
{
}

void crti_submission_stop_all(crti_node_t *node)
{
}

void crti_submission_head_lost(crti_node_t *node)
{
}

/* Its memory is not read. */
void crti_memory_figures(const crti_node_t *node, uint64_t *used_out, uint64_t *total_out,
                         uint64_t *ended_out)
{
    *used_out = *total_out = *ended_out = 0;
}

/* No worker here has a ring of task events. */
size_t crti_task_slots(const crti_process_t *process)
{
    return 0;
}

void crti_task_archive_take(crti_process_t *process)
{
}

void crti_task_archive_fini(crti_task_archive_t *archive)
{
}

void crti_metric_totals_init(crti_metric_totals_t *totals)
{
}

void crti_metric_totals_take(crti_process_t *process)
{
}

crti_lineage_figures_t crti_metric_lineage(const crti_node_t *node)
{
    return (crti_lineage_figures_t){0};
}

void crti_metric_totals_fini(crti_metric_totals_t *totals)
{
}

void crti_state_asked(crti_node_t *node, uint64_t request,
                      const crti_msg_state_query_t *query)
{
}

void crti_questions_init(crti_node_t *node)
{
}

void crti_question_said(crti_process_t *process, crti_span_t json)
{
}
