/* SPDX-License-Identifier: Apache-2.0 */
/* ATTACH: a driver or worker says who it is, and is told where it is.
 *
 * Where it sits
 *     local_dispatch.c -> [ node/dispatch/attach.c ] -> process.c, job.c, worker_table.c ->
 *     ATTACHED
 */
#include "runtime/base/environment.h"
#include "runtime/base/limit.h"
#include "runtime/node/actors/actor.h"
#include "runtime/node/dispatch/dispatch_int.h"
#include "runtime/node/jobs/job.h"
#include "runtime/node/leases/worker_table.h"
#include "runtime/node/lifecycle/drain.h"
#include "runtime/node/links/head.h"

static crt_status_t check_attach(crti_local_t *local, const crti_msg_attach_t *attach)
{
    struct ucred peer;
    crt_status_t status = crti_channel_peer(local->channel, &peer);

    if (status != CRT_OK)
        return status;
    if (attach->protocol != CRTI_PROTOCOL_VERSION)
        return crt_raise(CRT_ERR_PROTOCOL,
                         "the program speaks protocol %llu, this node %d: build both "
                         "with the same version of crt",
                         (unsigned long long)attach->protocol, CRTI_PROTOCOL_VERSION);
    /* 0: a process of another pid namespace, which we could not watch. */
    if (peer.pid <= 0 || attach->pid != peer.pid)
        return crt_raise(CRT_ERR_PERMISSION, "pid %lld attaches as pid %lld",
                         (long long)peer.pid, (long long)attach->pid);
    if (crti_id_is_zero(attach->process) || attach->incarnation == 0)
        return crt_raise(CRT_ERR_PROTOCOL, "a process without an id");
    if (local->node->stopping)
        return crt_raise(CRT_ERR_CLOSED, "the node is stopping");
    return CRT_OK;
}

static void tell_of_head(crti_process_t *process)
{
    static const crti_msg_head_link_t away = {.up = false, .text = {"not connected", 13}};

    if (!crti_head_is_open(process->node))
        crti_local_send(process, CRTI_MSG_HEAD_LINK, 0, &away);
}

static void send_attached(crti_local_t *local, uint64_t request)
{
    crti_node_t *node = local->node;
    crti_process_t *p = local->process;
    int fds[2] = {crti_store_fd(node->store), p->board_fd};
    crti_msg_attached_t attached = {.node = node->id,
                                    .cluster = node->registration->cluster,
                                    .job = crti_job_id(p->job),
                                    .slot = p->slot,
                                    .key = crti_span(node->key.bytes, CRTI_KEY_SIZE),
                                    .run_dir = crti_str(node->run_dir),
                                    .ip = crti_str(node->ip),
                                    .port_low = node->options.given.worker_port_range.low,
                                    .port_high =
                                        node->options.given.worker_port_range.high,
                                    .encrypt_streams = crti_peer_encrypts(node)};
    char gpus[CRTI_GPU_TEXT], limits[CRTI_LIMITS_PACKED];
    bool is_sent;

    crti_limits_pack(limits);
    attached.limits = crti_str(limits);
    if (p->worker) {
        attached.cpus = p->worker->cpus;
        attached.environment = crti_environment_bytes(p->worker->environment);
        attached.gpus =
            crti_str(crti_gpus_format(&node->options.gpus, p->worker->gpus, gpus));
        if (!crti_id_is_zero(p->actor))
            crti_actor_fill(node, p->actor, &attached);
        if (attached.fenced && !p->told_to_end)
            crti_fence_add(p);
    }
    local->attaching = false;
    is_sent = crti_channel_send_fds(local->channel, CRTI_MSG_ATTACHED, request, &attached,
                                    fds, 2) == CRT_OK;
    crti_process_close_board(p); /* thousands of workers need their files */
    if (!is_sent)
        crti_process_cut(p, crt_error_detail());
    else {
        tell_of_head(p);
        crti_drain_tell(p);
    }
}

/* The head recorded the driver's job, or why not. */
static void on_job_added(crti_node_t *node, crti_id_t process_id, uint64_t request,
                         const crti_message_t *answer)
{
    crti_process_t *process = crti_process_get(node, process_id);
    crti_local_t *local = process ? process->local : NULL;

    if (local == NULL || !local->attaching)
        return;
    if (answer && answer->kind != CRTI_MSG_ERROR) {
        send_attached(local, request);
        return;
    }
    local->attaching = false;
    crti_local_answer_error(local, request,
                            answer ? crti_channel_raise(&answer->error)
                                   : crt_raise(CRT_ERR_CLOSED, "the node is stopping"));
    crti_death_driver_closed(process);
}

static crt_status_t join(crti_local_t *local, crti_process_t *process)
{
    crt_status_t status = crti_slot_take(local->node, &process->slot);

    if (status == CRT_OK)
        status = crti_process_make_board(process);
    if (status == CRT_OK)
        status = crti_process_watch(process);
    if (status != CRT_OK)
        return status;
    /* A job, by the end of its id: what is spilled is shared out by it (spill_shares.h). */
    crti_store_set_group(local->node->store, process->slot,
                         (uint16_t)process->job_id.low);
    crti_local_bind(local, process);
    return CRT_OK;
}

static crt_status_t attach_driver(crti_local_t *local, uint64_t request,
                                  const crti_msg_attach_t *attach)
{
    crti_node_t *node = local->node;
    crti_id_t job_id = crti_id_is_zero(attach->job) ? crti_id_random() : attach->job;
    crti_process_t *process;
    crti_job_t *job;
    crt_status_t status;

    if (crti_process_get(node, attach->process))
        return crt_raise(CRT_ERR_EXISTS, "a process with that id is attached");
    status = crti_process_new(node, attach->process, CRTI_ROLE_DRIVER, &process);
    if (status != CRT_OK)
        return status;
    crti_process_attached(process, attach);
    job = crti_job_get(node, job_id);
    if (job)
        crti_job_join(job, process);
    status = job ? join(local, process) : CRT_ERR_NO_MEMORY;
    if (status == CRT_OK)
        status = crti_job_of_driver(process->job, process, attach);
    if (status == CRT_OK) {
        local->attaching = true;
        status = crti_job_announce(process->job, on_job_added, process->id, request);
    }
    if (status != CRT_OK) {
        crti_local_answer_error(local, request, status);
        crti_death_driver_closed(process);
        return CRT_OK;
    }
    tell_of_head(process); /* it waits for the head, and tells its user */
    return CRT_OK;
}

static crt_status_t attach_worker(crti_local_t *local, uint64_t request,
                                  const crti_msg_attach_t *attach)
{
    crti_node_t *node = local->node;
    crti_process_t *process = crti_process_get(node, attach->process);
    crt_status_t status;

    if (process == NULL || process->worker == NULL)
        return crt_raise(CRT_ERR_NOT_FOUND, "no worker with that id is expected");
    if (process->pid && process->pid != attach->pid)
        return crt_raise(CRT_ERR_PERMISSION, "pid %lld attaches as the worker of pid %d",
                         (long long)attach->pid, (int)process->pid);
    if (!crti_worker_table_attached(node->workers, process->worker, crti_node_now(node)))
        return crt_raise(CRT_ERR_CANCELLED, "the worker is needed no more");
    crti_process_attached(process, attach);
    status = join(local, process);
    if (status != CRT_OK)
        return status;
    send_attached(local, request);
    return CRT_OK;
}

void crti_attach(crti_local_t *local, const crti_message_t *message)
{
    const crti_msg_attach_t *attach = &message->attach;
    crt_status_t status = check_attach(local, attach);

    if (status == CRT_OK && attach->role == CRTI_ROLE_DRIVER)
        status = attach_driver(local, message->request, attach);
    else if (status == CRT_OK && attach->role == CRTI_ROLE_WORKER)
        status = attach_worker(local, message->request, attach);
    else if (status == CRT_OK)
        status =
            crt_raise(CRT_ERR_PROTOCOL, "role %llu", (unsigned long long)attach->role);
    if (status == CRT_OK)
        return;
    crti_local_answer_error(local, message->request, status);
    if (attach->role == CRTI_ROLE_WORKER)
        crti_spawn_refused(local->node, attach, crt_error_detail());
}
