/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of task events: what is written can be read, what makes room is counted, and any bytes
 * may be there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/clock.h"
#include "runtime/base/task_events.h"

#define SLOTS 16

typedef struct bed {
    crti_task_ring_t *ring;
    crti_task_writer_t writer;
} bed_t;

static void open_bed(bed_t *bed)
{
    size_t bytes = crti_task_ring_bytes(SLOTS);

    assert_int_equal(posix_memalign((void **)&bed->ring, 64, bytes), 0);
    memset(bed->ring, 0, bytes);
    crti_task_writer_init(&bed->writer, bed->ring, bytes);
}

static void close_bed(bed_t *bed)
{
    free(bed->ring);
}

static uint64_t add(bed_t *bed, uint64_t number, crti_task_state_t state)
{
    uint64_t ticket;
    crti_task_event_t *event = crti_task_write(&bed->writer, number, &ticket);

    event->number = number;
    crti_task_set_state(event, state, number);
    crti_task_written(&bed->writer, event);
    return ticket;
}

static size_t count(const bed_t *bed, bool is_dead)
{
    crti_task_event_t event;
    size_t cursor = 0, count = 0;

    while (crti_task_read(bed->ring, SLOTS, is_dead, &cursor, &event))
        count++;
    return count;
}

static bool has(const bed_t *bed, uint64_t number, crti_task_event_t *event)
{
    size_t cursor = 0;

    while (crti_task_read(bed->ring, SLOTS, false, &cursor, event))
        if (event->number == number)
            return true;
    return false;
}

static void an_entry_is_read_as_it_was_written_last(void **state)
{
    crti_task_event_t *event, read;
    uint64_t ticket;
    bed_t bed;

    open_bed(&bed);
    ticket = add(&bed, 7, CRTI_TASK_ARGUMENTS);
    event = crti_task_rewrite(&bed.writer, ticket);
    crti_task_set_text(event->name, sizeof(event->name), "Counter.add", 11);
    crti_task_set_state(event, CRTI_TASK_SENT, 99);
    crti_task_written(&bed.writer, event);
    assert_true(has(&bed, 7, &read));
    assert_string_equal(read.name, "Counter.add");
    assert_int_equal(read.state, CRTI_TASK_SENT);
    assert_int_equal(read.at_ns[CRTI_TASK_ARGUMENTS], 7);
    assert_int_equal(read.at_ns[CRTI_TASK_SENT], 99);
    assert_int_equal(count(&bed, false), 1);
    close_bed(&bed);
}

static void a_full_ring_forgets_what_has_ended_first_and_counts_it(void **state)
{
    crti_task_event_t event;
    bed_t bed;

    open_bed(&bed);
    add(&bed, 1, CRTI_TASK_RUNNING);
    for (uint64_t i = 2; i < 2 + 3 * SLOTS; i++)
        add(&bed, i, CRTI_TASK_FINISHED);
    assert_true(has(&bed, 1, &event)); /* it has not ended */
    assert_false(has(&bed, 2, &event));
    assert_true(has(&bed, 1 + 3 * SLOTS, &event));
    assert_int_equal(count(&bed, false), SLOTS);
    assert_int_equal(atomic_load(&bed.ring->overwritten), 1 + 3 * SLOTS - SLOTS);
    close_bed(&bed);
}

static void
when_nothing_has_ended_the_oldest_goes_and_is_not_changed_any_more(void **state)
{
    crti_task_event_t event;
    uint64_t first = 0, ticket;
    bed_t bed;

    open_bed(&bed);
    for (uint64_t i = 1; i <= 3 * SLOTS; i++) {
        ticket = add(&bed, i, CRTI_TASK_QUEUED);
        first = first ? first : ticket;
    }
    assert_true(has(&bed, 3 * SLOTS, &event));
    assert_null(crti_task_rewrite(&bed.writer, first));
    assert_int_equal(count(&bed, false) + atomic_load(&bed.ring->overwritten), 3 * SLOTS);
    close_bed(&bed);
}

static void a_burst_is_sampled_by_number_and_the_rest_counted(void **state)
{
    uint64_t chosen = 0, ticket, now = CRTI_S;
    const uint64_t calls = 100000;
    bed_t bed, other;

    open_bed(&bed);
    open_bed(&other);
    other.writer.budget = 0;
    for (uint64_t i = 1; i <= calls; i++) {
        if (!crti_task_is_chosen(&bed.writer, i))
            continue;
        /* Who runs it chooses the same ones. */
        if (bed.writer.budget == 0)
            assert_true(crti_task_is_chosen(&other.writer, i));
        chosen++;
        crti_task_written(&bed.writer, crti_task_write(&bed.writer, now, &ticket));
    }
    assert_in_range(chosen, CRTI_TASK_BUDGET + calls / 320,
                    CRTI_TASK_BUDGET + calls / 200);
    assert_int_equal(chosen + atomic_load(&bed.ring->skipped), calls);
    /* The next entry, later, fills the budget again. */
    now += CRTI_S;
    crti_task_written(&bed.writer, crti_task_write(&bed.writer, now, &ticket));
    assert_int_equal(bed.writer.budget, CRTI_TASK_BUDGET - 1);
    close_bed(&bed);
    close_bed(&other);
}

static void an_entry_that_is_being_written_is_read_of_the_dead_only(void **state)
{
    crti_task_event_t *event;
    uint64_t ticket;
    bed_t bed;

    open_bed(&bed);
    event = crti_task_write(&bed.writer, 1, &ticket);
    crti_task_set_state(event, CRTI_TASK_RUNNING, 1);
    assert_int_equal(count(&bed, false), 0);
    assert_int_equal(count(&bed, true), 1);
    close_bed(&bed);
}

static void bytes_of_a_stranger_are_made_printable_or_left_out(void **state)
{
    crti_task_event_t event;
    bed_t bed;

    open_bed(&bed);
    add(&bed, 1, CRTI_TASK_RUNNING);
    memset(bed.ring->slot[1].event.name, 0xff, CRTI_TASK_NAME);
    assert_true(has(&bed, 1, &event));
    assert_int_equal(strlen(event.name), CRTI_TASK_NAME - 1);
    assert_int_equal(strspn(event.name, "?"), CRTI_TASK_NAME - 1);
    bed.ring->slot[1].event.state = 200;
    assert_false(has(&bed, 1, &event));
    atomic_store(&bed.ring->tickets, UINT64_MAX);
    assert_int_equal(count(&bed, true), 0);
    close_bed(&bed);
}

static void without_memory_nothing_is_recorded(void **state)
{
    crti_task_writer_t writer;

    crti_task_writer_init(&writer, NULL, 0);
    assert_false(crti_task_is_chosen(&writer, 1));
    assert_null(crti_task_rewrite(&writer, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_is_read_as_it_was_written_last),
        cmocka_unit_test(a_full_ring_forgets_what_has_ended_first_and_counts_it),
        cmocka_unit_test(
            when_nothing_has_ended_the_oldest_goes_and_is_not_changed_any_more),
        cmocka_unit_test(a_burst_is_sampled_by_number_and_the_rest_counted),
        cmocka_unit_test(an_entry_that_is_being_written_is_read_of_the_dead_only),
        cmocka_unit_test(bytes_of_a_stranger_are_made_printable_or_left_out),
        cmocka_unit_test(without_memory_nothing_is_recorded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
