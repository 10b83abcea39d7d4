/* SPDX-License-Identifier: Apache-2.0 */
/* Task events as bytes. See task_records.h. */
#include "runtime/base/task_records.h"

#include <string.h>

#include "runtime/base/pack.h"

/* What is there; the times follow, a bit for each state. */
enum {
    HAS_PARENT = 1 << 0,
    HAS_ACTOR = 1 << 1,
    HAS_WORKER = 1 << 2,
    HAS_NODE = 1 << 3,
    HAS_JOB = 1 << 4,
    IS_RUN = 1 << 5,
    FIRST_TIME = 6,
    HAS_LOG = 1 << (FIRST_TIME + CRTI_TASK_STATES)
};

#define RECORD_MAX                                                                       \
    (2 + 2 + 16 + 8 + 8 + 3 * 4 + 24 + 4 * 16 + CRTI_TASK_STATES * 8 + 16 + 1 +          \
     CRTI_TASK_NAME + 1 + CRTI_TASK_TEXT)

/* ---------------------------------------------------------------- writing */

static unsigned char *put_text(unsigned char *at, const char *text, size_t room)
{
    size_t size = strnlen(text, room - 1);

    *at++ = (unsigned char)size;
    memcpy(at, text, size);
    return at + size;
}

static unsigned what_is_there(const crti_task_record_t *record)
{
    const crti_task_event_t *e = &record->event;
    unsigned there = 0;

    there |= e->parent ? HAS_PARENT : 0;
    there |= crti_id_is_zero(e->actor) ? 0 : HAS_ACTOR;
    there |= crti_id_is_zero(e->worker) ? 0 : HAS_WORKER;
    there |= crti_id_is_zero(e->node) ? 0 : HAS_NODE;
    there |= crti_id_is_zero(record->job) ? 0 : HAS_JOB;
    there |= e->is_run ? IS_RUN : 0;
    there |= e->log_from || e->log_to ? HAS_LOG : 0;
    for (unsigned i = 0; i < CRTI_TASK_STATES; i++)
        there |= e->at_ns[i] ? 1u << (FIRST_TIME + i) : 0;
    return there;
}

crt_status_t crti_task_records_begin(uint64_t dropped, crti_buffer_t *out)
{
    unsigned char bytes[8];

    crti_put_number(bytes, dropped, 8);
    return crti_buffer_append(out, bytes, sizeof(bytes));
}

crt_status_t crti_task_records_add(const crti_task_record_t *record, crti_buffer_t *out)
{
    const crti_task_event_t *e = &record->event;
    unsigned there = what_is_there(record);
    unsigned char bytes[RECORD_MAX], *at = bytes;

    at = crti_put_number(at, there, 2);
    *at++ = e->state;
    *at++ = e->kind;
    at = crti_put_id(at, e->owner);
    at = crti_put_number(at, e->number, 8);
    at = crti_put_number(at, e->attempt, 8);
    at = crti_put_number(at, e->attempts, 4);
    at = crti_put_number(at, (uint32_t)e->pid, 4);
    at = crti_put_number(at, (uint32_t)e->status, 4);
    if (there & HAS_PARENT)
        at = crti_put_number(crti_put_id(at, e->parent_owner), e->parent, 8);
    if (there & HAS_ACTOR)
        at = crti_put_id(at, e->actor);
    if (there & HAS_WORKER)
        at = crti_put_id(at, e->worker);
    if (there & HAS_NODE)
        at = crti_put_id(at, e->node);
    if (there & HAS_JOB)
        at = crti_put_id(at, record->job);
    for (unsigned i = 0; i < CRTI_TASK_STATES; i++)
        if (e->at_ns[i])
            at = crti_put_number(at, e->at_ns[i], 8);
    if (there & HAS_LOG)
        at = crti_put_number(crti_put_number(at, e->log_from, 8), e->log_to, 8);
    at = put_text(at, e->name, sizeof(e->name));
    at = put_text(at, e->text, sizeof(e->text));
    return crti_buffer_append(out, bytes, (size_t)(at - bytes));
}

/* ---------------------------------------------------------------- reading */

static bool take_text(crti_span_t *rest, char *text, size_t room)
{
    const unsigned char *at;
    uint64_t size;

    if (!crti_take_number(rest, 1, &size) || size >= room ||
        !(at = crti_take(rest, size)))
        return false;
    memcpy(text, at, size);
    text[size] = '\0';
    return true;
}

static bool take_fixed(crti_span_t *rest, crti_task_event_t *e, unsigned *there_out)
{
    uint64_t there, state, kind, attempts, pid, status;

    if (!crti_take_number(rest, 2, &there) || !crti_take_number(rest, 1, &state) ||
        !crti_take_number(rest, 1, &kind) || !crti_take_id(rest, true, &e->owner) ||
        !crti_take_number(rest, 8, &e->number) ||
        !crti_take_number(rest, 8, &e->attempt) ||
        !crti_take_number(rest, 4, &attempts) || !crti_take_number(rest, 4, &pid) ||
        !crti_take_number(rest, 4, &status))
        return false;
    e->state = (uint8_t)state;
    e->kind = (uint8_t)kind;
    e->attempts = (uint32_t)attempts;
    e->pid = (int32_t)pid;
    e->status = (int32_t)status;
    e->is_run = there & IS_RUN;
    *there_out = (unsigned)there;
    return there < 2 * HAS_LOG;
}

static bool take_rest(crti_span_t *rest, crti_task_record_t *record, unsigned there)
{
    crti_task_event_t *e = &record->event;

    if (!crti_take_id(rest, there & HAS_PARENT, &e->parent_owner) ||
        (there & HAS_PARENT && !crti_take_number(rest, 8, &e->parent)) ||
        !crti_take_id(rest, there & HAS_ACTOR, &e->actor) ||
        !crti_take_id(rest, there & HAS_WORKER, &e->worker) ||
        !crti_take_id(rest, there & HAS_NODE, &e->node) ||
        !crti_take_id(rest, there & HAS_JOB, &record->job))
        return false;
    for (unsigned i = 0; i < CRTI_TASK_STATES; i++)
        if (there >> (FIRST_TIME + i) & 1 && !crti_take_number(rest, 8, &e->at_ns[i]))
            return false;
    if (there & HAS_LOG && (!crti_take_number(rest, 8, &e->log_from) ||
                            !crti_take_number(rest, 8, &e->log_to)))
        return false;
    return take_text(rest, e->name, sizeof(e->name)) &&
           take_text(rest, e->text, sizeof(e->text));
}

crt_status_t crti_task_records_open(crti_span_t bytes, uint64_t *dropped_out,
                                    crti_span_t *rest)
{
    *rest = bytes;
    return crti_take_number(rest, 8, dropped_out)
               ? CRT_OK
               : crt_raise(CRT_ERR_PROTOCOL, "task records without a beginning");
}

crt_status_t crti_task_records_next(crti_span_t *rest, crti_task_record_t *record_out)
{
    unsigned there;

    *record_out = (crti_task_record_t){0};
    if (rest->size == 0)
        return CRT_ERR_NOT_FOUND;
    if (!take_fixed(rest, &record_out->event, &there) ||
        !take_rest(rest, record_out, there) || !crti_task_make_sound(&record_out->event))
        return crt_raise(CRT_ERR_PROTOCOL, "a task record that is none");
    return CRT_OK;
}
