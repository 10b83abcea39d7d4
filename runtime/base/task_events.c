/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of task events. See task_events.h. */
#include "runtime/base/task_events.h"

#include <string.h>

#include "runtime/base/clock.h"

#define WINDOW_NS (100 * CRTI_MS)
#define PASSED_BY 8 /* attempts that have not ended which a new entry leaves alone */
#define TRIES     4 /* to read an entry that is being written */

/* ------------------------------------------------------------------ writing */

void crti_task_writer_init(crti_task_writer_t *writer, void *memory, size_t bytes)
{
    *writer = (crti_task_writer_t){.budget = CRTI_TASK_BUDGET};
    if (bytes < crti_task_ring_bytes(1))
        return;
    writer->ring = memory;
    writer->slots = (bytes - sizeof(crti_task_ring_t)) / sizeof(crti_task_slot_t);
}

static void spend(crti_task_writer_t *writer, uint64_t now_ns)
{
    if (now_ns - writer->window_ns >= WINDOW_NS) {
        writer->window_ns = now_ns;
        writer->budget = CRTI_TASK_BUDGET;
    }
    if (writer->budget)
        writer->budget--;
}

static void begin(crti_task_slot_t *slot)
{
    uint64_t sequence = atomic_load_explicit(&slot->sequence, memory_order_relaxed);

    atomic_store_explicit(&slot->sequence, sequence + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
}

crti_task_event_t *crti_task_write(crti_task_writer_t *writer, uint64_t now_ns,
                                   uint64_t *ticket_out)
{
    crti_task_ring_t *ring = writer->ring;
    crti_task_slot_t *slot;

    spend(writer, now_ns);
    for (int i = 0;; i++) {
        slot = &ring->slot[++writer->tickets % writer->slots];
        if (i == PASSED_BY || slot->event.state == CRTI_TASK_NONE ||
            crti_task_has_ended(&slot->event))
            break;
    }
    if (slot->event.state != CRTI_TASK_NONE)
        atomic_fetch_add_explicit(&ring->overwritten, 1, memory_order_relaxed);
    begin(slot);
    memset(&slot->event, 0, sizeof(slot->event));
    atomic_store_explicit(&slot->ticket, writer->tickets, memory_order_relaxed);
    atomic_store_explicit(&ring->tickets, writer->tickets, memory_order_relaxed);
    *ticket_out = writer->tickets;
    return &slot->event;
}

crti_task_event_t *crti_task_rewrite(crti_task_writer_t *writer, uint64_t ticket)
{
    crti_task_slot_t *slot;

    if (!writer->ring)
        return NULL;
    slot = &writer->ring->slot[ticket % writer->slots];
    if (atomic_load_explicit(&slot->ticket, memory_order_relaxed) != ticket)
        return NULL;
    begin(slot);
    return &slot->event;
}

void crti_task_written(crti_task_writer_t *writer, crti_task_event_t *event)
{
    crti_task_slot_t *slot =
        (crti_task_slot_t *)(void *)((char *)event - offsetof(crti_task_slot_t, event));
    uint64_t sequence = atomic_load_explicit(&slot->sequence, memory_order_relaxed);

    atomic_store_explicit(&slot->sequence, sequence + 1, memory_order_release);
}

void crti_task_set_state(crti_task_event_t *event, crti_task_state_t state,
                         uint64_t now_ns)
{
    event->state = (uint8_t)state;
    event->at_ns[state] = now_ns;
}

void crti_task_set_text(char *to, size_t room, const char *text, size_t size)
{
    size = size < room - 1 ? size : room - 1;
    memcpy(to, text, size);
    to[size] = '\0';
}

/* ------------------------------------------------------------------ reading */

static void make_printable(char *text, size_t room)
{
    text[room - 1] = '\0';
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

bool crti_task_make_sound(crti_task_event_t *event)
{
    unsigned char is_run;

    memcpy(&is_run, &event->is_run, 1); /* a bool of strangers may be any byte */
    event->is_run = is_run != 0;
    make_printable(event->name, sizeof(event->name));
    make_printable(event->text, sizeof(event->text));
    return event->state > CRTI_TASK_NONE && event->state < CRTI_TASK_STATES &&
           event->kind < CRTI_TASK_KINDS;
}

static bool copy_entry(const crti_task_slot_t *slot, bool is_dead, crti_task_event_t *out)
{
    for (int i = 0; i < TRIES; i++) {
        uint64_t before = atomic_load_explicit(&slot->sequence, memory_order_acquire);

        if (before % 2 && !is_dead)
            continue;
        memcpy(out, &slot->event, sizeof(*out));
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&slot->sequence, memory_order_relaxed) == before)
            return true;
    }
    return false;
}

bool crti_task_read(const crti_task_ring_t *ring, size_t slots, bool is_dead,
                    size_t *cursor, crti_task_event_t *event_out)
{
    uint64_t tickets = atomic_load_explicit(&ring->tickets, memory_order_relaxed);
    size_t used = tickets < slots ? (size_t)tickets + 1 : slots;

    /* Slots that were never used are not touched: they take no memory. */
    used = used < slots ? used : slots;
    while (*cursor < used)
        if (copy_entry(&ring->slot[(*cursor)++], is_dead, event_out) &&
            crti_task_make_sound(event_out))
            return true;
    return false;
}

const char *crti_task_state_name(crti_task_state_t state)
{
    static const char *const names[CRTI_TASK_STATES] = {
        [CRTI_TASK_NONE] = "NIL",
        [CRTI_TASK_ARGUMENTS] = "PENDING_ARGS_AVAIL",
        [CRTI_TASK_QUEUED] = "PENDING_NODE_ASSIGNMENT",
        [CRTI_TASK_SENT] = "SUBMITTED_TO_WORKER",
        [CRTI_TASK_RUNNING] = "RUNNING",
        [CRTI_TASK_FINISHED] = "FINISHED",
        [CRTI_TASK_FAILED] = "FAILED"};

    return names[state];
}

const char *crti_task_kind_name(crti_task_kind_t kind)
{
    static const char *const names[CRTI_TASK_KINDS] = {
        [CRTI_TASK_NORMAL] = "NORMAL_TASK",
        [CRTI_TASK_METHOD] = "ACTOR_TASK",
        [CRTI_TASK_CREATION] = "ACTOR_CREATION_TASK",
        [CRTI_TASK_COLLECTIVE] = "COLLECTIVE"};

    return names[kind];
}
