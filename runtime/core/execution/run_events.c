/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that run here. See run_events.h. */
#include "runtime/core/execution/run_events.h"

#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/core/execution/execution.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/printed.h"
#include "runtime/core/process/remotes.h"

static bool is_creation(const crt_call_t *call)
{
    return !call->client && !call->pending;
}

/* A creation is named by its actor: the head asks for it, and no process has a ref of it. */
void crti_call_id(const crt_call_t *call, crti_id_t *owner, uint64_t *number)
{
    const crti_core_t *core = call->core;

    *owner = is_creation(call) ? core->actor_id
             : call->client    ? crti_peer_process(call->client->peer)
                               : core->process;
    *number = is_creation(call)   ? CRTI_TASK_CREATION_NUMBER
              : call->again.first ? call->again.first
                                  : call->number;
}

void crti_run_event_name(crti_core_t *core, crti_id_t *owner_out, uint64_t *number_out)
{
    const crt_call_t *call = crti_running();

    if (call)
        crti_call_id(call, owner_out, number_out);
}

static uint64_t begin(crt_call_t *call)
{
    crti_core_t *core = call->core;
    const char *name = call->given_name ? call->given_name : call->function->display;
    uint64_t now = crti_now_ns(), ticket;
    crti_task_event_t *event = crti_task_write(&core->task_events, now, &ticket);

    crti_call_id(call, &event->owner, &event->number);
    event->attempt = is_creation(call) ? event->number : call->number;
    event->attempts = call->again.tries;
    event->is_run = true;
    event->kind = is_creation(call)                ? CRTI_TASK_CREATION
                  : (call->flags & CRTI_CALL_TASK) ? CRTI_TASK_NORMAL
                                                   : CRTI_TASK_METHOD;
    if (event->kind != CRTI_TASK_NORMAL)
        event->actor = core->actor_id;
    event->worker = core->process;
    event->node = core->node;
    event->pid = getpid();
    crti_task_set_text(event->name, sizeof(event->name), name, strlen(name));
    event->log_from = core->printed->log_end;
    crti_task_set_state(event, CRTI_TASK_RUNNING, now);
    crti_task_written(&core->task_events, event);
    return ticket;
}

void crti_run_event_begun(crt_call_t *call)
{
    call->event_ticket =
        crti_task_is_chosen(&call->core->task_events, call->number) ? begin(call) : 0;
}

void crti_run_event_back(crt_call_t *call)
{
    if (call->event_ticket)
        call->back_ns = crti_now_ns();
}

void crti_run_event_ended(crt_call_t *call)
{
    crti_task_writer_t *writer = &call->core->task_events;
    crti_task_event_t *event =
        call->event_ticket ? crti_task_rewrite(writer, call->event_ticket) : NULL;
    bool is_failed = call->status < 0;

    if (!event)
        return;
    event->status = call->status;
    if (is_failed && call->text)
        crti_task_set_text(event->text, sizeof(event->text), call->text,
                           strlen(call->text));
    event->log_to = call->core->printed->log_end;
    crti_task_set_state(event, is_failed ? CRTI_TASK_FAILED : CRTI_TASK_FINISHED,
                        call->back_ns);
    crti_task_written(writer, event);
}

static void write_collective(crti_core_t *core, const char *name, uint64_t begun_ns,
                             uint64_t now_ns, crt_status_t status)
{
    uint64_t number = crti_new_number(core), ticket;
    crti_task_event_t *event;

    if (!crti_task_is_chosen(&core->task_events, number))
        return;
    event = crti_task_write(&core->task_events, now_ns, &ticket);
    event->owner = core->process;
    event->number = event->attempt = number;
    event->is_run = true;
    event->kind = CRTI_TASK_COLLECTIVE;
    event->actor = core->actor_id;
    event->worker = core->process;
    event->node = core->node;
    event->pid = getpid();
    event->status = status;
    crti_run_event_name(core, &event->parent_owner, &event->parent);
    crti_task_set_text(event->name, sizeof(event->name), name, strlen(name));
    crti_task_set_state(event, CRTI_TASK_RUNNING, begun_ns);
    crti_task_set_state(event, status < 0 ? CRTI_TASK_FAILED : CRTI_TASK_FINISHED,
                        now_ns);
    crti_task_written(&core->task_events, event);
}

void crti_collective_event(const char *name, uint64_t begun_ns, crt_status_t status)
{
    crti_core_t *core = crti_enter_quiet();

    if (!core)
        return;
    write_collective(core, name, begun_ns, crti_now_ns(), status);
    crti_leave(core);
}
