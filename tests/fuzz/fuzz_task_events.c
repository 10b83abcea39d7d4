/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a ring of task events as a process may leave it (base/task_events.c), and what nodes tell of
 * calls (control/task_rows.c). */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/task_events.h"
#include "runtime/control/control_int.h"
#include "runtime/net/message.h"

#define SLOTS 6

static void check_text(const char *text, size_t room)
{
    size_t length = strnlen(text, room);

    if (length == room)
        abort();
    for (size_t i = 0; i < length; i++)
        if (text[i] < ' ' || text[i] > '~')
            abort();
}

static void read_ring(const uint8_t *data, size_t size)
{
    size_t bytes = crti_task_ring_bytes(SLOTS);
    crti_task_ring_t *ring = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    crti_task_event_t event;

    if (!ring)
        abort();
    memset(ring, 0, bytes);
    memcpy(ring, data, size < bytes ? size : bytes);
    for (int is_dead = 0; is_dead < 2; is_dead++) {
        size_t cursor = 0, count = 0;

        while (crti_task_read(ring, SLOTS, is_dead, &cursor, &event)) {
            check_text(event.name, sizeof(event.name));
            check_text(event.text, sizeof(event.text));
            if (!*crti_task_state_name(event.state) ||
                !*crti_task_kind_name(event.kind) || ++count > SLOTS)
                abort();
        }
    }
    free(ring);
}

/* The bytes are the answers of two nodes. */
static void join(const uint8_t *data, size_t size)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t answers = {0};
    size_t half = size / 2;

    if (crti_list_pack(&answers, data, half) != CRT_OK ||
        crti_list_pack(&answers, data + half, size - half) != CRT_OK)
        abort();
    free(crti_task_rows_join(crti_span(answers.data, answers.size), "", 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_ring(data, size);
    join(data, size);
    return 0;
}

static size_t ring_seed(uint8_t *out, size_t room)
{
    size_t bytes = crti_task_ring_bytes(SLOTS);
    crti_task_ring_t *ring = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    crti_task_writer_t writer;
    uint64_t ticket;

    if (!ring || bytes > room)
        abort();
    memset(ring, 0, bytes);
    crti_task_writer_init(&writer, ring, bytes);
    for (uint64_t i = 1; i <= SLOTS + 2; i++) {
        crti_task_event_t *event = crti_task_write(&writer, i, &ticket);

        event->number = event->attempt = i;
        crti_task_set_text(event->name, sizeof(event->name), "Counter.add", 11);
        crti_task_set_state(event, 1 + i % CRTI_TASK_FAILED, i);
        crti_task_written(&writer, event);
    }
    memcpy(out, ring, bytes);
    free(ring);
    return bytes;
}

/* What the caller's node tells, and what the worker's. */
static size_t rows_seed(uint8_t *out, size_t room)
{
    static const char caller[] =
        "{\"tasks\":[{\"task_id\":\"a\",\"attempt_id\":\"b\",\"is_run\":false,"
        "\"state\":\"SUBMITTED_TO_WORKER\",\"events\":{\"PENDING_ARGS_AVAIL\":1.5}}],"
        "\"dropped\":3}";
    static const char worker[] =
        "{\"tasks\":[{\"task_id\":\"b\",\"attempt_id\":\"b\",\"is_run\":true,"
        "\"worker_id\":\"c\",\"worker_pid\":7,\"state\":\"FAILED\",\"error_type\":\"d\","
        "\"events\":{\"RUNNING\":2.5,\"FAILED\":3}}],\"dropped\":1}";
    size_t half = sizeof(worker) > sizeof(caller) ? sizeof(worker) : sizeof(caller);

    if (2 * half > room)
        abort();
    memset(out, ' ', 2 * half);
    memcpy(out, caller, sizeof(caller) - 1);
    memcpy(out + half, worker, sizeof(worker) - 1);
    return 2 * half;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    return index == 0 ? ring_seed(out, room) : index == 1 ? rows_seed(out, room) : 0;
}
