/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of the calls of this process. See call_events.h. */
#include "runtime/core/calls/call_events.h"

#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/call_options.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/remotes.h"

static void make(crti_pending_t *p)
{
    crti_core_t *core = p->core;
    const char *name = crti_call_name(p);
    uint64_t now = crti_now_ns();
    crti_task_event_t *event = crti_task_write(&core->task_events, now, &p->event);

    event->owner = core->process;
    event->number = crti_call_number(p);
    event->attempt = p->number;
    event->attempts = (uint32_t)p->attempt.retries;
    event->kind = p->spec.actor ? CRTI_TASK_METHOD : CRTI_TASK_NORMAL;
    if (p->spec.actor)
        event->actor = p->spec.actor->id;
    if (p->parent)
        core->name_running(core, &event->parent_owner, &event->parent);
    crti_task_set_text(event->name, sizeof(event->name), name, strlen(name));
    crti_task_set_state(event, CRTI_TASK_ARGUMENTS, now);
    crti_task_written(&core->task_events, event);
}

static void begin(crti_pending_t *p)
{
    if (crti_task_is_chosen(&p->core->task_events, p->number))
        make(p);
}

void crti_call_event_made(crti_pending_t *p)
{
    if (p->core->task_events.ring)
        crti_task_count(&p->core->task_events.ring->made);
    begin(p);
}

/* Its entry, while it may be changed; NULL when it has made room for another one. */
static crti_task_event_t *change(crti_pending_t *p)
{
    crti_task_event_t *event = crti_task_rewrite(&p->core->task_events, p->event);

    if (!event)
        p->event = 0;
    return event;
}

void crti_call_event_is_queued(crti_pending_t *p)
{
    crti_task_event_t *event = change(p);

    if (!event)
        return;
    crti_task_set_state(event, CRTI_TASK_QUEUED, crti_now_ns());
    crti_task_written(&p->core->task_events, event);
}

void crti_call_event_is_sent(crti_pending_t *p)
{
    crti_task_event_t *event = change(p);

    if (!event)
        return;
    event->worker = p->remote->address.process;
    event->node = p->remote->address.node;
    event->pid = (int32_t)p->remote->pid;
    crti_task_set_state(event, CRTI_TASK_SENT, crti_now_ns());
    crti_task_written(&p->core->task_events, event);
}

static void end(crti_pending_t *p, crt_status_t status, crti_span_t text)
{
    crti_task_event_t *event = change(p);

    if (!event)
        return;
    event->status = status;
    crti_task_set_text(event->text, sizeof(event->text), text.data, text.size);
    crti_task_set_state(event, status < 0 ? CRTI_TASK_FAILED : CRTI_TASK_FINISHED,
                        crti_now_ns());
    crti_task_written(&p->core->task_events, event);
    p->event = 0;
}

void crti_call_event_ended(crti_pending_t *p, const crti_result_t *result)
{
    if (result->form == CRTI_RESULT_ERROR && p->core->task_events.ring &&
        !crti_attempt_is_given_up(&p->attempt))
        crti_task_count(&p->core->task_events.ring->failed);
    if (!p->event)
        return;
    if (result->form == CRTI_RESULT_ERROR)
        end(p, result->failure.status, result->failure.text);
    else
        end(p, CRT_OK, crti_span("", 0));
}

void crti_call_event_begun_again(crti_pending_t *p)
{
    begin(p);
}

void crti_call_event_again(crti_pending_t *p, const char *text)
{
    if (p->event)
        end(p, p->spec.actor ? CRT_ERR_ACTOR_DIED : CRT_ERR_WORKER_DIED,
            crti_span(text, strlen(text)));
    begin(p);
    crti_call_event_queued(p);
}
