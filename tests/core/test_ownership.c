/* SPDX-License-Identifier: Apache-2.0 */
/* Ownership and borrowing, each alone. tests/sim runs them together. */
#include "runtime/core/refs/ownership.h"

#include <setjmp.h>
#include <stdarg.h>

#include "runtime/core/refs/borrow.h"

#include <cmocka.h>

static const crti_id_t a = {1, 1}, b = {2, 2}, node1 = {7, 1}, node2 = {7, 2};

static void make_stored(crti_owned_t *o)
{
    crti_owned_init(o);
    crti_owned_resolve(o, CRTI_OWNED_STORED, node1);
    assert_int_equal(o->state, CRTI_OWNED_STORED);
}

static void nothing_follows_freed(void **state)
{
    for (unsigned next = 0; next < CRTI_OWNED_STATES; next++)
        assert_false(crti_owned_may_follow(CRTI_OWNED_FREED, next));
    for (unsigned next = 0; next < CRTI_BORROW_STATES; next++)
        assert_false(crti_borrow_may_follow(CRTI_BORROW_ENDED, next));
}

static void the_last_hold_frees_and_only_the_last(void **state)
{
    crti_owned_t o;

    make_stored(&o);
    crti_owned_hold(&o);
    crti_owned_pin(&o);
    assert_int_equal(crti_owned_borrow(&o, a), CRT_OK);
    assert_int_equal(crti_owned_drop(&o), 0);
    assert_int_equal(crti_owned_drop(&o), 0);
    assert_int_equal(crti_owned_unpin(&o), 0);
    assert_int_equal(crti_owned_release(&o, a, 1), CRTI_OWNED_FREE);
    assert_int_equal(o.state, CRTI_OWNED_FREED);
    assert_int_equal(crti_owned_borrow(&o, b), CRT_ERR_NOT_FOUND);
    crti_owned_fini(&o);
}

static void a_pending_object_outlives_its_holders_until_its_value_comes(void **state)
{
    crti_owned_t o;

    crti_owned_init(&o);
    assert_int_equal(crti_owned_drop(&o), 0);
    crti_owned_hold(&o); /* of those who are told */
    crti_owned_resolve(&o, CRTI_OWNED_STORED, node1);
    assert_int_equal(crti_owned_drop(&o), CRTI_OWNED_FREE);
    assert_int_equal(o.node_count, 1); /* the bytes are there to be freed */
    crti_owned_fini(&o);
}

static void what_can_not_be_read_has_failed_and_is_not_missing_later(void **state)
{
    crti_owned_t o;

    make_stored(&o);
    crti_owned_tell(&o);
    crti_owned_resolve(&o, CRTI_OWNED_INLINE, node1); /* comes late */
    assert_int_equal(o.state, CRTI_OWNED_STORED);
    crti_owned_resolve(&o, CRTI_OWNED_FAILED, node1);
    assert_int_equal(o.state, CRTI_OWNED_FAILED);
    assert_int_equal(crti_owned_node_died(&o, node1), 0);
    assert_int_equal(crti_owned_copy(&o, node2), 0);
    assert_int_equal(crti_owned_drop(&o), CRTI_OWNED_FREE);
    assert_int_equal(o.node_count, 1); /* the copy is freed, too */
    crti_owned_fini(&o);
}

static void tokens_are_counted_so_that_a_release_may_cross_a_new_ref(void **state)
{
    crti_owned_t o;

    make_stored(&o);
    assert_int_equal(crti_owned_borrow(&o, a), CRT_OK);
    assert_int_equal(crti_owned_borrow(&o, a), CRT_OK); /* sent again ... */
    assert_int_equal(crti_owned_drop(&o), 0);
    assert_int_equal(crti_owned_release(&o, a, 1), 0); /* ... while a let the first go */
    assert_int_equal(crti_owned_release(&o, b, 5), 0);
    assert_int_equal(crti_owned_release(&o, a, 1), CRTI_OWNED_FREE);
    crti_owned_fini(&o);
}

static void a_dead_borrower_holds_nothing(void **state)
{
    crti_owned_t o;

    make_stored(&o);
    assert_int_equal(crti_owned_borrow(&o, a), CRT_OK);
    assert_int_equal(crti_owned_borrow(&o, b), CRT_OK);
    assert_int_equal(crti_owned_drop(&o), 0);
    assert_int_equal(crti_owned_process_died(&o, a), 0);
    assert_int_equal(crti_owned_process_died(&o, a), 0);
    assert_int_equal(crti_owned_process_died(&o, b), CRTI_OWNED_FREE);
    crti_owned_fini(&o);
}

static void the_object_is_lost_with_its_last_copy(void **state)
{
    crti_owned_t o;

    make_stored(&o);
    assert_int_equal(crti_owned_copy(&o, node2), 0);
    assert_int_equal(crti_owned_copy(&o, node2), 0);
    assert_int_equal(crti_owned_node_died(&o, node1), 0);
    assert_int_equal(crti_owned_node_died(&o, node1), 0);
    assert_int_equal(crti_owned_node_died(&o, node2), CRTI_OWNED_LOST);
    assert_int_equal(o.state, CRTI_OWNED_FAILED);
    assert_int_equal(crti_owned_drop(&o), CRTI_OWNED_FREE);
    crti_owned_fini(&o);
}

static void word_of_a_copy_that_comes_after_the_last_death_saves_the_object(void **state)
{
    crti_owned_t o;

    make_stored(&o);
    crti_owned_tell(&o);
    assert_int_equal(crti_owned_node_died(&o, node1), CRTI_OWNED_MISSED);
    assert_int_equal(crti_owned_node_died(&o, node1), 0);
    assert_int_equal(crti_owned_copy(&o, node2), CRTI_OWNED_FOUND);
    assert_int_equal(crti_owned_give_up(&o), 0);
    assert_int_equal(crti_owned_node_died(&o, node2), CRTI_OWNED_MISSED);
    assert_int_equal(crti_owned_drop(&o), CRTI_OWNED_FREE);
    crti_owned_fini(&o);
}

static void what_the_next_attempt_brings_is_missing_until_then(void **state)
{
    crti_owned_t o;

    make_stored(&o);
    assert_int_equal(crti_owned_abandon(&o, node2), 0);
    assert_int_equal(crti_owned_copy(&o, node2), 0);
    assert_int_equal(crti_owned_abandon(&o, node1), 0); /* there is another copy */
    assert_int_equal(crti_owned_abandon(&o, node2), CRTI_OWNED_MISSED);
    assert_int_equal(crti_owned_abandon(&o, node2), 0);
    assert_int_equal(o.state, CRTI_OWNED_MISSING);
    crti_owned_repeat(&o);
    crti_owned_resolve(&o, CRTI_OWNED_STORED, node1);
    assert_int_equal(o.state, CRTI_OWNED_STORED);
    assert_int_equal(crti_owned_drop(&o), CRTI_OWNED_FREE);
    crti_owned_fini(&o);
}

static void what_its_task_can_make_again_is_not_lost_but_pending(void **state)
{
    crti_owned_t o;

    make_stored(&o);
    crti_owned_set_repeatable(&o, true);
    assert_int_equal(crti_owned_node_died(&o, node1),
                     CRTI_OWNED_MISSED); /* nobody knew */
    assert_true(crti_id_equal(crti_owned_lost_with(&o), node1));
    crti_owned_repeat(&o);
    assert_int_equal(o.state, CRTI_OWNED_PENDING);
    assert_int_equal(crti_owned_copy(&o, node1), 0); /* of the old one */
    crti_owned_resolve(&o, CRTI_OWNED_STORED, node2);
    assert_int_equal(o.state, CRTI_OWNED_STORED);
    assert_int_equal(o.node_count, 1);
    assert_true(crti_id_equal(o.nodes[0], node2));
    assert_int_equal(crti_owned_drop(&o), CRTI_OWNED_FREE);
    crti_owned_fini(&o);
}

static void an_object_that_others_were_made_from_is_spare_and_not_freed(void **state)
{
    crti_owned_t o;

    make_stored(&o);
    crti_owned_keep(&o);
    assert_int_equal(crti_owned_drop(&o), CRTI_OWNED_SPARE);
    crti_owned_vacate(&o);
    assert_int_equal(o.state, CRTI_OWNED_MISSING);
    assert_true(crti_id_is_zero(crti_owned_lost_with(&o)));
    crti_owned_hold(&o); /* it is wanted, and in vain */
    assert_int_equal(crti_owned_give_up(&o), CRTI_OWNED_LOST);
    assert_int_equal(crti_owned_drop(&o), 0);
    assert_int_equal(crti_owned_unkeep(&o), CRTI_OWNED_FREE);
    crti_owned_fini(&o);
}

static void word_that_comes_after_the_loss_was_told_changes_nothing(void **state)
{
    crti_owned_t o;

    make_stored(&o);
    crti_owned_tell(&o);
    crti_owned_node_died(&o, node1);
    assert_int_equal(crti_owned_give_up(&o), CRTI_OWNED_LOST);
    assert_int_equal(crti_owned_copy(&o, node2), 0);
    assert_int_equal(o.state, CRTI_OWNED_FAILED);
    assert_int_equal(crti_owned_drop(&o), CRTI_OWNED_FREE);
    assert_int_equal(o.node_count, 1); /* that copy is freed, too */
    crti_owned_fini(&o);
}

static void a_copy_of_what_was_never_stored_is_not_believed(void **state)
{
    crti_owned_t o;

    crti_owned_init(&o);
    assert_int_equal(crti_owned_copy(&o, node2), 0);
    crti_owned_resolve(&o, CRTI_OWNED_INLINE, node1);
    assert_int_equal(crti_owned_copy(&o, node2), 0);
    assert_int_equal(o.node_count, 0);
    crti_owned_fini(&o);
}

static void a_ref_that_is_not_kept_is_never_registered(void **state)
{
    crti_borrow_t r;

    crti_borrow_init(&r);
    crti_borrow_cover(&r);
    crti_borrow_hold(&r);
    assert_int_equal(crti_borrow_drop(&r), 0);
    assert_int_equal(crti_borrow_uncover(&r), CRTI_BORROW_FORGET);
    assert_int_equal(r.state, CRTI_BORROW_ENDED);
}

static void a_kept_ref_is_registered_before_its_cover_ends(void **state)
{
    crti_borrow_t r;

    crti_borrow_init(&r);
    crti_borrow_cover(&r);
    crti_borrow_hold(&r);
    assert_int_equal(crti_borrow_uncover(&r), CRTI_BORROW_REGISTER | CRTI_BORROW_WAIT);
    crti_borrow_cover(&r); /* arrives in another call meanwhile */
    assert_int_equal(crti_borrow_uncover(&r), CRTI_BORROW_WAIT);
    assert_int_equal(crti_borrow_answered(&r, false), CRTI_BORROW_UNCOVER);
    assert_int_equal(r.state, CRTI_BORROW_HELD);
    assert_int_equal(crti_borrow_drop(&r), CRTI_BORROW_RELEASE | CRTI_BORROW_FORGET);
    assert_int_equal(r.tokens, 1);
}

static void a_ref_dropped_while_it_registers_is_released_after_the_answer(void **state)
{
    crti_borrow_t r;

    crti_borrow_init(&r);
    crti_borrow_cover(&r);
    crti_borrow_hold(&r);
    crti_borrow_uncover(&r);
    assert_int_equal(crti_borrow_drop(&r), 0);
    assert_int_equal(crti_borrow_answered(&r, false),
                     CRTI_BORROW_UNCOVER | CRTI_BORROW_RELEASE | CRTI_BORROW_FORGET);
}

static void tokens_of_results_are_all_given_back(void **state)
{
    crti_borrow_t r;

    crti_borrow_init(&r);
    crti_borrow_hold(&r);
    crti_borrow_token(&r);
    crti_borrow_token(&r);
    assert_int_equal(crti_borrow_drop(&r), CRTI_BORROW_RELEASE | CRTI_BORROW_FORGET);
    assert_int_equal(r.tokens, 2);
}

static void a_dead_owner_orphans_and_lets_covers_end(void **state)
{
    crti_borrow_t r;

    crti_borrow_init(&r);
    crti_borrow_cover(&r);
    crti_borrow_hold(&r);
    crti_borrow_uncover(&r);
    assert_int_equal(crti_borrow_owner_died(&r), CRTI_BORROW_UNCOVER);
    assert_int_equal(crti_borrow_answered(&r, false), 0); /* an answer that crossed */
    assert_int_equal(r.state, CRTI_BORROW_ORPHANED);
    assert_int_equal(crti_borrow_drop(&r), CRTI_BORROW_FORGET);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_follows_freed),
        cmocka_unit_test(the_last_hold_frees_and_only_the_last),
        cmocka_unit_test(a_pending_object_outlives_its_holders_until_its_value_comes),
        cmocka_unit_test(what_can_not_be_read_has_failed_and_is_not_missing_later),
        cmocka_unit_test(tokens_are_counted_so_that_a_release_may_cross_a_new_ref),
        cmocka_unit_test(a_dead_borrower_holds_nothing),
        cmocka_unit_test(the_object_is_lost_with_its_last_copy),
        cmocka_unit_test(word_of_a_copy_that_comes_after_the_last_death_saves_the_object),
        cmocka_unit_test(what_the_next_attempt_brings_is_missing_until_then),
        cmocka_unit_test(what_its_task_can_make_again_is_not_lost_but_pending),
        cmocka_unit_test(an_object_that_others_were_made_from_is_spare_and_not_freed),
        cmocka_unit_test(word_that_comes_after_the_loss_was_told_changes_nothing),
        cmocka_unit_test(a_copy_of_what_was_never_stored_is_not_believed),
        cmocka_unit_test(a_ref_that_is_not_kept_is_never_registered),
        cmocka_unit_test(a_kept_ref_is_registered_before_its_cover_ends),
        cmocka_unit_test(a_ref_dropped_while_it_registers_is_released_after_the_answer),
        cmocka_unit_test(tokens_of_results_are_all_given_back),
        cmocka_unit_test(a_dead_owner_orphans_and_lets_covers_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
