/* SPDX-License-Identifier: Apache-2.0 */
/* One ring, both sides in this process: every size, wrapped at every place, in pieces, a reader
 * that sleeps at the worst moment, and a writer or reader that has gone mad. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/net/lane_ring.h"

#include <cmocka.h>

#define FRAME_MAX ((size_t)1 << 20)

typedef struct rig {
    crti_ring_control_t *control;
    unsigned char *bytes;
    crti_ring_writer_t writer;
    crti_ring_reader_t reader;
} rig_t;

static void rig_init(rig_t *rig)
{
    rig->control = aligned_alloc(64, sizeof(*rig->control));
    rig->bytes = malloc(CRTI_RING_BYTES);
    memset(rig->control, 0, sizeof(*rig->control));
    crti_ring_writer_init(&rig->writer, rig->control, rig->bytes, 0);
    crti_ring_reader_init(&rig->reader, rig->control, rig->bytes, 0, FRAME_MAX);
}

static void rig_fini(rig_t *rig)
{
    crti_ring_reader_fini(&rig->reader);
    free(rig->bytes);
    free(rig->control);
}

/* Byte i of a frame that begins with `seed`. */
static unsigned char byte_of(size_t seed, size_t i)
{
    return (unsigned char)(seed * 31 + i * 7 + (i >> 8));
}

static unsigned char *frame_of(size_t seed, size_t size)
{
    unsigned char *data = malloc(size);

    for (size_t i = 0; i < size; i++)
        data[i] = byte_of(seed, i);
    return data;
}

static void expect_frame(const crti_ring_reader_t *r, size_t seed, size_t size)
{
    assert_int_equal(r->frame.size, size);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(r->frame.data[i], byte_of(seed, i));
}

static void frames_of_all_sizes_pass_wherever_they_wrap(void **state)
{
    static const size_t sizes[] = {1, 3, 4, 5, 63, 64, 1000, 8191, 65537};
    rig_t rig;

    rig_init(&rig);
    for (size_t round = 0; round < 2000; round++) {
        size_t size = sizes[round % (sizeof(sizes) / sizeof(sizes[0]))];
        unsigned char *data = frame_of(round, size);

        assert_int_equal(crti_ring_put(&rig.writer, data, size, 0),
                         CRTI_RING_LENGTH + size);
        assert_int_equal(crti_ring_take(&rig.reader), CRT_IN_PROGRESS);
        assert_false(crti_ring_publish(&rig.writer));
        assert_int_equal(crti_ring_take(&rig.reader), CRT_OK);
        expect_frame(&rig.reader, round, size);
        free(data);
    }
    rig_fini(&rig);
}

static void a_frame_longer_than_the_ring_goes_in_pieces(void **state)
{
    size_t size = 3 * CRTI_RING_BYTES + 12345, done = 0;
    unsigned char *data = frame_of(5, size);
    int pieces = 0;
    rig_t rig;

    rig_init(&rig);
    for (; done < CRTI_RING_LENGTH + size; pieces++) {
        done = crti_ring_put(&rig.writer, data, size, done);
        crti_ring_publish(&rig.writer);
        if (done < CRTI_RING_LENGTH + size) {
            assert_true(crti_ring_await_room(&rig.writer));
            assert_int_equal(crti_ring_take(&rig.reader), CRT_IN_PROGRESS);
            assert_true(crti_ring_is_awaited(&rig.reader));
            assert_false(crti_ring_is_awaited(&rig.reader));
        }
    }
    assert_int_equal(pieces, 4);
    assert_int_equal(crti_ring_take(&rig.reader), CRT_OK);
    expect_frame(&rig.reader, 5, size);
    free(data);
    rig_fini(&rig);
}

/* It looks only after a quarter of the ring, and had looked when the writer did not wait yet. */
static void a_writer_that_waits_is_rung_before_the_ring_is_empty(void **state)
{
    for (size_t taken = 0; taken < CRTI_RING_BYTES / 4; taken += CRTI_RING_BYTES / 64) {
        unsigned char *first = frame_of(1, taken + 1), *frame = frame_of(2, 1000);
        unsigned rings = 0, count = 0;
        rig_t rig;

        rig_init(&rig);
        crti_ring_put(&rig.writer, first, taken + 1, 0);
        crti_ring_publish(&rig.writer);
        assert_int_equal(crti_ring_take(&rig.reader), CRT_OK);
        assert_false(crti_ring_is_awaited(&rig.reader));
        do {
            assert_int_equal(crti_ring_put(&rig.writer, frame, 1000, 0),
                             CRTI_RING_LENGTH + 1000);
            crti_ring_publish(&rig.writer);
            count++;
        } while (!crti_ring_await_room(&rig.writer));
        for (; count; count--) {
            assert_int_equal(crti_ring_take(&rig.reader), CRT_OK);
            rings += crti_ring_is_awaited(&rig.reader);
        }
        assert_int_equal(rings, 1);
        free(first);
        free(frame);
        rig_fini(&rig);
    }
}

static void only_a_reader_that_sleeps_is_rung_and_only_once(void **state)
{
    rig_t rig;

    rig_init(&rig);
    crti_ring_put(&rig.writer, "a", 1, 0);
    assert_false(crti_ring_publish(&rig.writer));
    assert_false(crti_ring_sleep(&rig.reader)); /* there is input */
    assert_int_equal(crti_ring_take(&rig.reader), CRT_OK);
    assert_true(crti_ring_sleep(&rig.reader));
    crti_ring_put(&rig.writer, "b", 1, 0);
    assert_true(crti_ring_publish(&rig.writer));
    crti_ring_put(&rig.writer, "c", 1, 0);
    assert_false(crti_ring_publish(&rig.writer));
    crti_ring_awake(&rig.reader);
    assert_int_equal(crti_ring_take(&rig.reader), CRT_OK);
    assert_int_equal(crti_ring_take(&rig.reader), CRT_OK);
    assert_int_equal(crti_ring_take(&rig.reader), CRT_IN_PROGRESS);
    rig_fini(&rig);
}

static void a_ring_is_empty_once_the_reader_has_taken_all(void **state)
{
    rig_t rig;

    rig_init(&rig);
    assert_true(crti_ring_is_empty(&rig.writer));
    for (int i = 0; i < 2; i++) {
        crti_ring_put(&rig.writer, "a", 1, 0);
        crti_ring_publish(&rig.writer);
    }
    assert_int_equal(crti_ring_take(&rig.reader), CRT_OK);
    assert_false(crti_ring_is_empty(&rig.writer));
    assert_int_equal(crti_ring_take(&rig.reader), CRT_OK);
    assert_true(crti_ring_is_empty(&rig.writer));
    rig_fini(&rig);
}

static void a_writer_that_has_gone_mad_is_found_out(void **state)
{
    static const uint32_t lengths[] = {0, FRAME_MAX + 1, UINT32_MAX};
    rig_t rig;

    for (size_t i = 0; i < 3; i++) {
        rig_init(&rig);
        memcpy(rig.bytes, &lengths[i], sizeof(lengths[i]));
        rig.control->written = 100;
        assert_int_equal(crti_ring_take(&rig.reader), CRT_ERR_PROTOCOL);
        rig_fini(&rig);
    }
    rig_init(&rig);
    rig.control->written = CRTI_RING_BYTES + 1;
    assert_int_equal(crti_ring_take(&rig.reader), CRT_ERR_PROTOCOL);
    rig.control->written = 3; /* an honest one shows a length as a whole */
    assert_int_equal(crti_ring_take(&rig.reader), CRT_ERR_PROTOCOL);
    rig_fini(&rig);
}

static void a_reader_that_has_gone_mad_gets_nothing_more(void **state)
{
    static unsigned char data[CRTI_RING_BYTES / 2];
    rig_t rig;

    rig_init(&rig);
    crti_ring_put(&rig.writer, data, sizeof(data), 0);
    crti_ring_publish(&rig.writer);
    rig.control->read = UINT64_MAX;
    assert_int_equal(crti_ring_put(&rig.writer, data, sizeof(data), 0), 0);
    assert_true(crti_ring_await_room(&rig.writer));
    rig.control->read = sizeof(data); /* it is not believed any more */
    assert_int_equal(crti_ring_put(&rig.writer, data, sizeof(data), 0), 0);
    assert_false(crti_ring_is_empty(&rig.writer));
    rig_fini(&rig);
}

/* ---------------------------------------------------------------- two threads */

#define FRAMES 300000

typedef struct race {
    rig_t rig;
    uint32_t doorbell, room_doorbell; /* counted, like an eventfd */
} race_t;

/* Sleeps until it is rung, as an event loop does: without that, a lost wake would not show. */
static void await(uint32_t *doorbell)
{
    while (__atomic_exchange_n(doorbell, 0, __ATOMIC_SEQ_CST) == 0)
        sched_yield();
}

static void ring(uint32_t *doorbell)
{
    __atomic_fetch_add(doorbell, 1, __ATOMIC_SEQ_CST);
}

static void *write_all(void *argument)
{
    race_t *race = argument;
    crti_ring_writer_t *w = &race->rig.writer;

    for (uint32_t i = 0; i < FRAMES; i++) {
        size_t size = sizeof(i) + i % 700, done = 0;
        unsigned char data[1000] = {0};

        memcpy(data, &i, sizeof(i));
        while (done < CRTI_RING_LENGTH + size) {
            done = crti_ring_put(w, data, size, done);
            if (crti_ring_publish(w))
                ring(&race->doorbell);
            if (done < CRTI_RING_LENGTH + size && crti_ring_await_room(w))
                await(&race->room_doorbell);
        }
    }
    return NULL;
}

static void no_wake_is_lost_between_two_that_sleep_whenever_they_can(void **state)
{
    pthread_t thread;
    race_t race = {0};

    rig_init(&race.rig);
    assert_int_equal(pthread_create(&thread, NULL, write_all, &race), 0);
    for (uint32_t i = 0, number; i < FRAMES;) {
        if (crti_ring_take(&race.rig.reader) == CRT_OK) {
            memcpy(&number, race.rig.reader.frame.data, sizeof(number));
            assert_int_equal(number, i);
            assert_int_equal(race.rig.reader.frame.size, sizeof(i) + i % 700);
            i++;
            continue;
        }
        if (crti_ring_is_awaited(&race.rig.reader))
            ring(&race.room_doorbell);
        /* Rung in vain by a doorbell that comes late, it says again that it sleeps. */
        while (crti_ring_sleep(&race.rig.reader))
            await(&race.doorbell);
    }
    pthread_join(thread, NULL);
    rig_fini(&race.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_of_all_sizes_pass_wherever_they_wrap),
        cmocka_unit_test(a_frame_longer_than_the_ring_goes_in_pieces),
        cmocka_unit_test(a_writer_that_waits_is_rung_before_the_ring_is_empty),
        cmocka_unit_test(only_a_reader_that_sleeps_is_rung_and_only_once),
        cmocka_unit_test(a_ring_is_empty_once_the_reader_has_taken_all),
        cmocka_unit_test(a_writer_that_has_gone_mad_is_found_out),
        cmocka_unit_test(a_reader_that_has_gone_mad_gets_nothing_more),
        cmocka_unit_test(no_wake_is_lost_between_two_that_sleep_whenever_they_can),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
