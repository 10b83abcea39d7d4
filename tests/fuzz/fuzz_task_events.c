/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a ring of task events as a process may leave it (base/task_events.c), and what nodes
 * tell of calls (base/task_records.c, control/rows/task_rows.c). */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "runtime/base/task_records.h"
#include "runtime/control/rows/state_rows.h"
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

/* What is decoded is sound, and comes back as it was. */
static void read_records(const uint8_t *data, size_t size)
{
    crti_task_record_t record, again;
    crti_span_t rest, once;
    uint64_t dropped;

    if (crti_task_records_open(crti_span(data, size), &dropped, &rest) != CRT_OK)
        return;
    while (crti_task_records_next(&rest, &record) == CRT_OK) {
        CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};

        check_text(record.event.name, sizeof(record.event.name));
        check_text(record.event.text, sizeof(record.event.text));
        if (crti_task_records_add(&record, &bytes) != CRT_OK)
            abort();
        once = crti_span(bytes.data, bytes.size);
        if (crti_task_records_next(&once, &again) != CRT_OK || once.size ||
            again.event.attempt != record.event.attempt ||
            strcmp(again.event.name, record.event.name) != 0)
            abort();
    }
}

/* The bytes are the answers of two nodes. */
static void join(const uint8_t *data, size_t size)
{
    static const char *const queries[] = {
        "", "{\"limit\":2,\"filters\":[[\"name\",false,[\"f\"]]]}",
        "{\"count_by\":[\"name\",\"state\"]}"};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t answers = {0};
    size_t half = size / 2;

    if (crti_list_pack(&answers, data, half) != CRT_OK ||
        crti_list_pack(&answers, data + half, size - half) != CRT_OK)
        abort();
    for (size_t i = 0; i < 3; i++) {
        char *text = crti_task_rows_join(crti_span(answers.data, answers.size),
                                         crti_str(queries[i]), 0);
        json_t *json = text ? json_loads(text, 0, NULL) : NULL;

        if (!json)
            abort();
        json_decref(json);
        free(text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_ring(data, size);
    read_records(data, size);
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

static size_t answer_seed(bool is_run, uint8_t *out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t records = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t answer = {0};
    crti_task_record_t record = {.job = {1, 2},
                                 .event = {.owner = {3, 4},
                                           .number = 5,
                                           .attempt = 5,
                                           .parent = 6,
                                           .worker = {7, 8},
                                           .is_run = is_run,
                                           .name = "f"}};
    static const char transfers[] = "[{\"object_id\":\"o\"}]";

    crti_task_set_state(&record.event, is_run ? CRTI_TASK_RUNNING : CRTI_TASK_SENT, 9);
    if (crti_task_records_begin(3, &records) != CRT_OK ||
        crti_task_records_add(&record, &records) != CRT_OK ||
        crti_list_pack(&answer, records.data, records.size) != CRT_OK ||
        crti_list_pack(&answer, transfers, sizeof(transfers) - 1) != CRT_OK)
        abort();
    memcpy(out, answer.data, answer.size);
    return answer.size;
}

/* What the caller's node tells, and what the worker's. */
static size_t answers_seed(uint8_t *out, size_t room)
{
    size_t size = answer_seed(false, out);

    return size + answer_seed(true, out + size);
}

static size_t records_seed(uint8_t *out, size_t room)
{
    size_t size = answer_seed(false, out);

    memmove(out, out + 4, size - 4);
    return size - 4;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    return index == 0   ? ring_seed(out, room)
           : index == 1 ? answers_seed(out, room)
           : index == 2 ? records_seed(out, room)
                        : 0;
}
