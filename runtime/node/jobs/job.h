/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of this node: who the driver is, what its program is, and who waits for it.
 *
 * Where it sits
 *     attach.c (drivers), spawn.c (JOB_INFO), job_end.c -> [ node/jobs/job.c ] -> head.c (JOB_ADD)
 * Ownership
 *     A job lives while a process of it lives, and until it ended. Its zygote is ended with its
 *     last process: its death would take its workers along.
 */
#ifndef CRTI_NODE_JOB_H
#define CRTI_NODE_JOB_H

#include "runtime/node/leases/job_shares.h"
#include "runtime/node/links/head.h"
#include "runtime/node/types.h"

/* The job's record, made when it is not known. NULL: out of memory. */
crti_job_t *crti_job_get(crti_node_t *node, crti_id_t id);
/* Walks all; `*cursor` starts at 0, NULL at the end. */
crti_job_t *crti_job_next(const crti_node_t *node, size_t *cursor);
/* A driver of this node brings all that is to know. */
crt_status_t crti_job_of_driver(crti_job_t *job, crti_process_t *driver,
                                const crti_msg_attach_t *attach);
/* JOB_ADD to the head; `on_answer` gets its answer. */
crt_status_t crti_job_announce(crti_job_t *job, crti_head_answer_t *on_answer,
                               crti_id_t id, uint64_t number);
/* JOB_ADD bodies of the drivers of this node, as a list. */
crt_status_t crti_job_list(crti_node_t *node, crti_buffer_t *list);
/* A process of the job, and its end. */
void crti_job_join(crti_job_t *job, crti_process_t *process);
crti_id_t crti_job_id(const crti_job_t *job);
const char *crti_job_directory(const crti_job_t *job);
/* Its weight and its cap; of a job of which nothing is known the default. */
crti_job_quota_t crti_job_quota(const crti_job_t *job);
/* Lines of a worker, for the driver here. */
void crti_job_log(crti_node_t *node, const crti_msg_log_t *log);
/* Its worker begins an actor. */
void crti_job_worker_born(crti_process_t *process);
bool crti_job_any_zygote(crti_node_t *node);
bool crti_job_has_zygote(crti_node_t *node, pid_t pid);

/* job_end.c */
/* The driver ended or the head said so. */
void crti_job_end(crti_node_t *node, crti_id_t id, const char *text);
/* Answers the driver's `request` when its job's workers on this node are gone, and those of its
 * actors that the head ends with the job. */
void crti_job_await_end(crti_process_t *driver, uint64_t request);
/* A driver leaves: what its workers have printed anywhere is told to it, then on_drained is called,
 * at once or within DRAIN_NS. */
void crti_job_drain(crti_process_t *driver, void (*on_drained)(crti_process_t *driver));
/* One of the other nodes has told its lines. */
void crti_job_drained(crti_node_t *node, crti_id_t job);
/* Its driver, a process of this node, is gone: its workers end, the head hears it. */
void crti_job_driver_gone(crti_process_t *driver, const char *text);
/* Jobs whose driver was on that node end. */
void crti_job_node_died(crti_node_t *node, crti_id_t dead);
void crti_job_stop_all(crti_node_t *node);
void crti_job_free_all(crti_node_t *node);

/* spawn.c */
/* Makes the process of a worker that the worker table wants. */
void crti_spawn_worker(crti_node_t *node, crti_worker_t *worker);
void crti_job_init(crti_node_t *node);
/* It can't be made, or the zygote said no. */
void crti_spawn_failed(crti_process_t *process, crt_status_t status, const char *text);
/* Its worker is given up, as is told each time that it is killed again. If the zygote has not
 * answered its FORK, those behind it wait for that no longer, nor does the end of the job. */
void crti_spawn_given_up(crti_process_t *process);
/* ATTACH of a worker was refused: its purpose fails with the reason. */
void crti_spawn_refused(crti_node_t *node, const crti_msg_attach_t *attach,
                        const char *text);
/* What workers of that job have printed here is told to its driver, on another node, which
 * leaves. */
void crti_spawn_drain(crti_node_t *node, crti_id_t driver_node, crti_id_t job);
/* LOG_FLUSH of a worker. */
void crti_spawn_flush(crti_process_t *process, uint64_t request);
void crti_process_free(crti_process_t *process);

/* package.c */
bool crti_package_has(crti_node_t *node, pid_t pid);

/* stack_reader.c: crt-stack is executed for these processes; on_done hears once what it printed
 * ("PID {json}" lines), unless the reader is closed before. CRT_ERR_UNSUPPORTED: this build has
 * none. */
typedef struct crti_stack_reader crti_stack_reader_t;
typedef void crti_stacks_read_t(void *user, crt_status_t status, crti_span_t text);
crt_status_t crti_stack_reader_new(crti_node_t *node, const pid_t *pids, size_t count,
                                   crti_stacks_read_t *on_done, void *user,
                                   crti_stack_reader_t **reader_out);
void crti_stack_reader_close(crti_stack_reader_t *reader);
bool crti_stack_reader_has(crti_node_t *node, pid_t pid);

/* program.c */
void crti_program_serve(crti_node_t *node, crti_stream_t *stream, uint64_t request,
                        const crti_msg_program_get_t *get);

/* ---------------------------------------------------------------- submission.c */

void crti_submission_init(crti_node_t *node);
void crti_submission_start(crti_node_t *node, uint64_t request,
                           const crti_msg_job_start_t *start);
/* JOB_FORGET: what a job left on this node goes. */
void crti_submission_forget(crti_node_t *node, crti_id_t job);
void crti_submission_stop(crti_node_t *node, uint64_t request, crti_id_t job);
void crti_submission_stop_all(crti_node_t *node);
void crti_submission_kill_all(crti_node_t *node);
/* Its requests have nobody any more to answer to; it makes them again. */
void crti_submission_head_lost(crti_node_t *node);
bool crti_submission_has(crti_node_t *node, pid_t pid);
/* That have not ended. */
size_t crti_submission_count(crti_node_t *node);
/* The log file of a submission. CRT_ERR_NOT_FOUND. */
crt_status_t crti_submission_log(crti_node_t *node, const char *name, char *path,
                                 size_t size, bool *ended_out);
void crti_submission_free_all(crti_node_t *node);

#endif
