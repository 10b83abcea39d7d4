/* SPDX-License-Identifier: Apache-2.0 */
/* Refs of another process that arrive and end by blocks, and one by one among them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include "alone.h"
#include "runtime/core/refs/borrowed.h"
#include "runtime/core/refs/peek.h"
#include "runtime/core/refs/value_of.h"

#include <cmocka.h>

#define OWNER  1u
#define FIRST  (UINT64_C(100) * CRTI_REF_BLOCK)
#define BLOCKS 40u
#define RANGE  (BLOCKS * CRTI_REF_BLOCK)

static int start(void **state)
{
    *state = alone_start();
    return 0;
}

static int finish(void **state)
{
    alone_stop();
    return 0;
}

static crti_ref_name_t name_of(uint64_t number)
{
    return (crti_ref_name_t){.id = {ALONE_PROCESS(OWNER), number},
                             .incarnation = 1,
                             .node = ALONE_NODE(OWNER),
                             .tcp = crti_str("")};
}

/* Each covered. Lock held. */
static bool block_arrives(crti_core_t *core, uint64_t first, crt_ref_t **refs)
{
    crti_ref_name_t name = name_of(first);
    crti_arrivals_t arrivals = {.name = NULL};
    crti_borrow_t borrow;

    crti_borrow_init(&borrow);
    crti_borrow_cover(&borrow);
    return crti_ref_arrive_block(core, &name, &arrivals, borrow, refs);
}

static crt_ref_t *one_arrives(crti_core_t *core, uint64_t number)
{
    crti_ref_name_t name = name_of(number);
    crt_ref_t *ref;

    assert_int_equal(crti_ref_arrive(core, &name, &ref), CRT_OK);
    assert_int_equal(ref->number, number);
    crti_ref_cover(ref);
    return ref;
}

static crt_ref_t *find(crti_core_t *core, uint64_t number)
{
    return crti_ref_borrowed(core, ALONE_PROCESS(OWNER), number);
}

static void a_block_arrives_and_ends_as_one(void **state)
{
    crti_core_t *core = *state;
    crt_ref_t *refs[CRTI_REF_BLOCK], *again[CRTI_REF_BLOCK];

    crti_net_lock(core->net);
    assert_true(block_arrives(core, FIRST, refs));
    assert_int_equal(core->refs->borrowed, CRTI_REF_BLOCK);
    assert_false(block_arrives(core, FIRST, again)); /* they are known */
    for (unsigned i = 0; i < CRTI_REF_BLOCK; i++)
        assert_ptr_equal(find(core, FIRST + i), refs[i]);
    assert_null(find(core, FIRST - 1));
    assert_null(find(core, FIRST + CRTI_REF_BLOCK));
    assert_true(crti_ref_uncover_block(refs));
    assert_int_equal(core->refs->borrowed, 0);
    assert_null(find(core, FIRST));
    assert_true(refs[3]->is_free); /* what the program still has of it is told so */
    crti_net_unlock(core->net);
}

static void one_that_is_known_or_held_makes_all_of_a_block_go_one_by_one(void **state)
{
    crti_core_t *core = *state;
    crt_ref_t *refs[CRTI_REF_BLOCK], *one;

    crti_net_lock(core->net);
    one = one_arrives(core, FIRST + 5);
    assert_false(block_arrives(core, FIRST, refs));
    crti_ref_uncover(one, NULL);
    assert_true(block_arrives(core, FIRST, refs));
    assert_ptr_equal(one_arrives(core, FIRST + 5), refs[5]);
    assert_false(crti_ref_uncover_block(refs));
    crti_ref_uncover(refs[5], NULL);
    crti_ref_set_inline(refs[5], "\0\5", 2);
    crti_ref_hold(refs[5]);
    assert_false(crti_ref_uncover_block(refs));
    crti_net_unlock(core->net);
    alone_forget();
    crti_net_lock(core->net);
    for (unsigned i = 0; i < CRTI_REF_BLOCK; i++)
        crti_ref_uncover(refs[i], NULL);
    crti_net_unlock(core->net);
    assert_int_equal(alone_sent_count(OWNER, CRTI_RECORD_BORROW), 1);
    assert_int_equal(core->refs->borrowed, 1);
    alone_borrowed(OWNER, core->refs->next_request - 1);
    alone_process_dies(OWNER);
    crti_net_lock(core->net);
    assert_ptr_equal(find(core, FIRST + 5), refs[5]);
    crti_ref_release(refs[5]);
    assert_int_equal(core->refs->borrowed, 0);
    crti_net_unlock(core->net);
}

static void count_one(crt_ref_t *ref, void *user)
{
    if (!ref->is_owned)
        ++*(size_t *)user;
}

/* Lock held. */
static void end_any(crti_core_t *core, unsigned *covers, uint64_t number)
{
    crt_ref_t *refs[CRTI_REF_BLOCK];
    uint64_t first = number - number % CRTI_REF_BLOCK;
    bool are_alone = true;

    for (unsigned i = 0; i < CRTI_REF_BLOCK; i++) {
        refs[i] = find(core, first + i);
        are_alone = are_alone && covers[first + i - FIRST] == 1;
    }
    if (are_alone && crti_ref_uncover_block(refs)) {
        for (unsigned i = 0; i < CRTI_REF_BLOCK; i++)
            covers[first + i - FIRST] = 0;
    } else if (covers[number - FIRST]) {
        crti_ref_uncover(find(core, number), NULL);
        covers[number - FIRST]--;
    }
}

static void random_arrivals_and_ends_agree_with_an_array(void **state)
{
    static unsigned covers[RANGE];
    crti_core_t *core = *state;
    crt_ref_t *refs[CRTI_REF_BLOCK];
    size_t seen = 0, here = 0;

    srandom(11);
    crti_net_lock(core->net);
    for (int step = 0; step < 100000; step++) {
        uint64_t number = FIRST + (uint64_t)random() % RANGE;
        uint64_t first = number - number % CRTI_REF_BLOCK;

        assert_int_equal(find(core, number) != NULL, covers[number - FIRST] > 0);
        if (random() % 3 == 0) {
            (void)one_arrives(core, number);
            covers[number - FIRST]++;
        } else if (random() % 8 == 0) {
            bool is_new = true;

            for (unsigned i = 0; i < CRTI_REF_BLOCK; i++)
                is_new = is_new && covers[first + i - FIRST] == 0;
            assert_int_equal(block_arrives(core, first, refs), is_new);
            for (unsigned i = 0; is_new && i < CRTI_REF_BLOCK; i++)
                covers[first + i - FIRST] = 1;
        } else {
            end_any(core, covers, number);
        }
    }
    for (size_t i = 0; i < RANGE; i++)
        here += covers[i] > 0;
    crti_refs_walk(core, count_one, &seen);
    assert_int_equal(seen, here);
    assert_int_equal(core->refs->borrowed, here);
    for (uint64_t i = 0; i < RANGE; i++)
        while (covers[i])
            end_any(core, covers, FIRST + i);
    assert_int_equal(core->refs->borrowed, 0);
    crti_net_unlock(core->net);
}

/* ---------------------------------------------------------------- answers */

typedef struct ender {
    crti_waiting_t waiting;
    crt_ref_t *other;
    bool is_told;
} ender_t;

static void end_the_other(crti_waiting_t *waiting, crt_ref_t *ref)
{
    ender_t *ender = CRTI_CONTAINER(waiting, ender_t, waiting);

    ender->is_told = true;
    crti_ref_uncover(ender->other, NULL);
}

static void who_waits_for_one_hears_of_it_when_the_whole_answer_was_taken(void **state)
{
    crti_core_t *core = *state;
    crti_buffer_t answer = {0};
    crt_ref_t *first, *last;
    ender_t ender = {.waiting.on_ready = end_the_other};

    assert_int_equal(crti_begin_peeked(&answer), CRT_OK);
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(crti_put_peeked_flat(&answer, FIRST + i, "\0\5", 2), CRT_OK);
    crti_net_lock(core->net);
    first = one_arrives(core, FIRST);
    last = ender.other = one_arrives(core, FIRST + 1);
    crti_ref_await(first, &ender.waiting, false);
    assert_int_equal(crti_peek_answered(core, first->owner, answer.data, answer.size),
                     CRT_OK);
    assert_int_equal(last->content, CRTI_CONTENT_INLINE);
    assert_false(ender.is_told);
    crti_refs_notify(core);
    assert_true(ender.is_told);
    assert_null(find(core, FIRST + 1));
    crti_ref_uncover(first, NULL);
    assert_int_equal(core->refs->borrowed, 0);
    crti_net_unlock(core->net);
    crti_buffer_fini(&answer);
}

#define LONG (8u * CRTI_PEEK_MAX)

/* The owner says what the refs of a question are: 7. */
static void tells(unsigned first, unsigned count)
{
    crti_buffer_t record = {0};

    assert_int_equal(crti_begin_peeked(&record), CRT_OK);
    for (unsigned i = first; i < first + count; i++)
        assert_int_equal(crti_put_peeked_flat(&record, FIRST + i, "\0\7", 2), CRT_OK);
    alone_answer(OWNER, &record);
}

/* How many of them are read without the lock, one after the other. */
static unsigned read_without_lock(crt_ref_t *const *refs, unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++) {
        crt_status_t status;
        int number = 0;

        if (!crti_ref_read_number(refs[i], CRT_OUT(&number), &status))
            return i - first;
        assert_int_equal(status, CRT_OK);
        assert_int_equal(number, 7);
    }
    return end - first;
}

static void a_mark_that_is_read_asks_for_more_and_others_need_no_lock(void **state)
{
    crti_core_t *core = *state;
    crt_ref_t **refs = calloc(LONG, sizeof(crt_ref_t *));
    unsigned second = 1 + CRTI_PEEK_FIRST, mark = second + CRTI_PEEK_FIRST;

    crti_net_lock(core->net);
    for (unsigned i = 0; i < LONG; i += CRTI_REF_BLOCK)
        assert_true(block_arrives(core, FIRST + i, &refs[i]));
    assert_false(crti_ref_fetch(refs[0]));
    crti_net_unlock(core->net);
    assert_int_equal(alone_sent_count(OWNER, CRTI_RECORD_LOCATE), 1);
    assert_int_equal(alone_sent_count(OWNER, CRTI_RECORD_PEEK), 1 + CRTI_PEEK_AHEAD);
    assert_int_equal(read_without_lock(refs, 0, 2), 0);
    tells(0, 1); /* LOCATE would say so */
    tells(1, CRTI_PEEK_FIRST);
    tells(second, CRTI_PEEK_MAX);
    assert_int_equal(read_without_lock(refs, 0, mark), mark);
    assert_int_equal(read_without_lock(refs, mark, LONG), 0);
    crti_net_lock(core->net);
    for (unsigned i = mark; i < second + CRTI_PEEK_MAX; i++)
        assert_true(crti_ref_fetch(refs[i]));
    crti_net_unlock(core->net);
    assert_int_equal(alone_sent_count(OWNER, CRTI_RECORD_PEEK), 2 + CRTI_PEEK_AHEAD);
    assert_int_equal(read_without_lock(refs, 0, LONG), second + CRTI_PEEK_MAX);
    crti_net_lock(core->net);
    for (unsigned i = 0; i < LONG; i++)
        crti_ref_uncover(refs[i], NULL);
    crti_net_unlock(core->net);
    free(refs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_block_arrives_and_ends_as_one, start, finish),
        cmocka_unit_test_setup_teardown(
            one_that_is_known_or_held_makes_all_of_a_block_go_one_by_one, start, finish),
        cmocka_unit_test_setup_teardown(
            a_mark_that_is_read_asks_for_more_and_others_need_no_lock, start, finish),
        cmocka_unit_test_setup_teardown(random_arrivals_and_ends_agree_with_an_array,
                                        start, finish),
        cmocka_unit_test_setup_teardown(
            who_waits_for_one_hears_of_it_when_the_whole_answer_was_taken, start, finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
