/* SPDX-License-Identifier: Apache-2.0 */
/* Queue: the actor that holds refs in order, and what its users call.
 *
 * Where it sits
 *     crt_queue_put, crt_queue_get ... -> [ runtime/util/queue.c ] -> methods of the actor, below
 * Waiting
 *     No method waits: the actor would answer nobody else meanwhile. Who finds the queue full or
 *     empty asks again, after 1 ms at first and 20 ms later.
 * Ownership
 *     The actor has a hold on each ref, the values stay where they are.
 * Failure
 *     An answer may hold items: it is waited for 1 s longer than the timeout, after which the call
 *     is cancelled, so that it never runs where the actor has not begun. The end of the actor ends
 *     all waits.
 */
#include <poll.h>
#include <stdlib.h>

#include "runtime/crt_define.h"
#include "runtime/crt_util.h"
#include "runtime/util/deadline.h"

#define PAUSE_MAX_MS 20
#define BATCH_MAX    10000
#define ANSWER_MS    1000

typedef struct queue {
    crt_ref_t **items; /* a ring of `room` */
    size_t room, first, count;
    size_t capacity; /* 0: without limit */
} queue_t;

/* ---------------------------------------------------------------- in the actor */

static crt_status_t create(void *self, crt_call_t *call)
{
    queue_t *q = self;

    return crt_args(call, &q->capacity);
}

static void destroy(void *self)
{
    queue_t *q = self;

    for (size_t i = 0; i < q->count; i++)
        crt_ref_drop(&q->items[(q->first + i) % q->room]);
    free(q->items);
}

static crt_status_t make_room(queue_t *q, size_t wanted)
{
    size_t room = q->room ? q->room : 16;
    crt_ref_t **items;

    while (room < wanted)
        room *= 2;
    if (room == q->room)
        return CRT_OK;
    items = calloc(room, sizeof(crt_ref_t *));
    if (!items)
        return crt_raise(CRT_ERR_NO_MEMORY, "a queue of %zu items", wanted);
    for (size_t i = 0; i < q->count; i++)
        items[i] = q->items[(q->first + i) % q->room];
    free(q->items);
    q->items = items;
    q->room = room;
    q->first = 0;
    return CRT_OK;
}

static crt_status_t put(void *self, crt_call_t *call)
{
    queue_t *q = self;
    size_t count = crt_arg_count(call);

    if (q->capacity && count > q->capacity)
        return crt_fail(call, CRT_ERR_INVALID, "%zu items at once, the queue holds %zu",
                        count, q->capacity);
    if (q->capacity && q->count + count > q->capacity)
        return crt_return(call, false);
    CRT_TRY(make_room(q, q->count + count));
    for (size_t i = 0; i < count; i++) {
        crt_ref_t *item;

        CRT_TRY(crt_arg_at(call, i, &item));
        q->items[(q->first + q->count + i) % q->room] = crt_ref_keep(item);
    }
    q->count += count;
    return crt_return(call, true);
}

static crt_status_t get(void *self, crt_call_t *call)
{
    queue_t *q = self;
    size_t most, count;
    crt_arg_t *list;
    crt_status_t status = crt_args(call, &most);

    if (status != CRT_OK)
        return status;
    count = most < q->count ? most : q->count;
    list = calloc(count + 1, sizeof(*list));
    if (!list)
        return crt_raise(CRT_ERR_NO_MEMORY, "%zu items", count);
    for (size_t i = 0; i < count; i++)
        list[i] = crt_arg_ref(q->items[(q->first + i) % q->room]);
    status = crt_return(call, crt_list(list, count));
    free(list);
    for (size_t i = 0; status == CRT_OK && i < count; i++) {
        crt_ref_drop(&q->items[q->first]);
        q->first = (q->first + 1) % q->room;
        q->count--;
    }
    return status;
}

static crt_status_t size(void *self, crt_call_t *call)
{
    return crt_return(call, ((queue_t *)self)->count);
}

static const crt_method_t queue_put =
    CRT_METHOD(.name = "put", .run = put, .signature = "ref...");
static const crt_method_t queue_get =
    CRT_METHOD(.name = "get", .run = get, .signature = "int");
static const crt_method_t queue_size =
    CRT_METHOD(.name = "size", .run = size, .signature = "");

static const crt_actor_class_t queue_class =
    CRT_ACTOR_CLASS(.name = "crt.Queue", .size = sizeof(queue_t), .create = create,
                    .signature = "int", .destroy = destroy,
                    .methods = CRT_METHODS(&queue_put, &queue_get, &queue_size));

/* Every program has it. */
__attribute__((constructor)) static void define_queue(void)
{
    static crt_definition_t definition = {.struct_size = sizeof(definition),
                                          .actor_class = &queue_class};

    crt_define(&definition);
}

/* ---------------------------------------------------------------- its users */

crt_actor_t *crt_queue_new(const crt_actor_options_t *options, size_t capacity)
{
    return crt_actor_new(&queue_class, options, capacity);
}

/* Until the actor has answered, whatever interrupts: an item may have been taken. One that has not
 * begun, or does not answer for ANSWER_MS beyond the deadline, is told to leave it. */
static crt_status_t await(crt_ref_t *answer, int64_t deadline, crt_out_t out,
                          bool *is_interrupted)
{
    int64_t left = crti_deadline_left(deadline);
    int64_t end = crti_deadline_after(left < 0 ? -1 : left + ANSWER_MS);
    crt_status_t status;

    while ((status = crt_get_v(answer, crti_deadline_left(end), out)) ==
           CRT_ERR_INTERRUPTED)
        *is_interrupted = true;
    if (status != CRT_ERR_TIMED_OUT)
        return status;
    crt_cancel(answer, NULL);
    while ((status = crt_get_v(answer, -1, out)) == CRT_ERR_INTERRUPTED)
        *is_interrupted = true;
    return status == CRT_ERR_CANCELLED
               ? crt_raise(CRT_ERR_TIMED_OUT, "the queue's actor has not answered")
               : status;
}

/* Until the queue may have changed. */
static crt_status_t pause_for(int *pause_ms, int64_t deadline, const char *what,
                              bool is_interrupted)
{
    int64_t left = crti_deadline_left(deadline);
    int pause = *pause_ms;

    if (is_interrupted)
        return crt_raise(CRT_ERR_INTERRUPTED,
                         "crt_interrupt was called while the queue was %s", what);
    if (left == 0)
        return crt_raise(CRT_ERR_TIMED_OUT, "the queue is still %s", what);
    if (left > 0 && left < pause)
        pause = (int)left;
    *pause_ms = 2 * *pause_ms < PAUSE_MAX_MS ? 2 * *pause_ms : PAUSE_MAX_MS;
    (void)poll(NULL, 0, pause); /* a signal handler may end it early */
    return CRT_OK;
}

crt_status_t crt_queue_put_batch(crt_actor_t *queue, crt_ref_t *const *items,
                                 size_t count, int64_t timeout_ms)
{
    int64_t deadline = crti_deadline_after(timeout_ms);
    crt_arg_t spread = crt_arg_each(items, count);
    bool is_interrupted = false;
    int pause_ms = 1;

    if (!items || count < 1 || count > BATCH_MAX)
        return crt_raise(CRT_ERR_INVALID, "%zu items, 1 to %d can be put at once", count,
                         BATCH_MAX);
    for (;;) {
        crt_ref_t *answer = crt_call_v(queue, &queue_put, NULL, &spread, 1);
        bool was_taken = false;
        crt_status_t status =
            await(answer, deadline, CRT_OUT(&was_taken), &is_interrupted);

        crt_ref_drop(&answer);
        if (status != CRT_OK || was_taken)
            return status;
        CRT_TRY(pause_for(&pause_ms, deadline, "full", is_interrupted));
    }
}

crt_status_t crt_queue_put(crt_actor_t *queue, crt_ref_t *item, int64_t timeout_ms)
{
    return crt_queue_put_batch(queue, &item, 1, timeout_ms);
}

static crt_status_t read_items(const crt_value_t *list, crt_ref_t **items, size_t *count)
{
    for (*count = 0; *count < crt_value_count(list); ++*count) {
        crt_ref_t *item;
        crt_status_t status = crt_value_read(crt_value_at(list, *count), &item);

        if (status != CRT_OK) {
            crt_refs_drop(items, *count);
            return status;
        }
        items[*count] = crt_ref_keep(item);
    }
    return CRT_OK;
}

crt_status_t crt_queue_get_batch(crt_actor_t *queue, size_t most, int64_t timeout_ms,
                                 crt_ref_t **items_out, size_t *count_out)
{
    int64_t deadline = crti_deadline_after(timeout_ms);
    bool is_interrupted = false;
    int pause_ms = 1;

    if (!items_out || !count_out || most < 1 || most > BATCH_MAX)
        return crt_raise(CRT_ERR_INVALID, "%zu items, 1 to %d can be got at once", most,
                         BATCH_MAX);
    *count_out = 0;
    for (;;) {
        crt_ref_t *answer = crt_call(queue, &queue_get, most);
        const crt_value_t *list;
        crt_status_t status = await(answer, deadline, CRT_OUT(&list), &is_interrupted);

        if (status == CRT_OK)
            status = read_items(list, items_out, count_out);
        crt_ref_drop(&answer);
        if (status != CRT_OK || *count_out)
            return status;
        CRT_TRY(pause_for(&pause_ms, deadline, "empty", is_interrupted));
    }
}

crt_status_t crt_queue_get(crt_actor_t *queue, int64_t timeout_ms, crt_ref_t **item_out)
{
    size_t count;

    return crt_queue_get_batch(queue, 1, timeout_ms, item_out, &count);
}

crt_status_t crt_queue_size(crt_actor_t *queue, size_t *size_out)
{
    crt_ref_t *answer = crt_call(queue, &queue_size);
    bool is_interrupted = false;
    crt_status_t status =
        await(answer, crti_deadline_after(-1), CRT_OUT(size_out), &is_interrupted);

    crt_ref_drop(&answer);
    return status;
}
