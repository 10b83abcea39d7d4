/* SPDX-License-Identifier: Apache-2.0 */
/* What the owner of an object does with what it hears, in any order. ownership.h says the rules. */
#include <setjmp.h>
#include <stdarg.h>

#include "alone.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/copies.h"
#include "runtime/core/refs/missing.h"
#include "runtime/core/refs/owner_requests.h"
#include "runtime/core/refs/value_of.h"

#include <cmocka.h>

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

/* The status of what was located for process `i`; the nodes. */
static crt_status_t located(unsigned i, crti_id_t *node_out)
{
    crti_span_t record = alone_sent(i, CRTI_RECORD_LOCATED);
    crti_result_t result;
    uint64_t number;

    assert_non_null(record.data);
    assert_int_equal(crti_get_result(record.data, record.size, &number, &result), CRT_OK);
    if (result.form == CRTI_RESULT_ERROR)
        return result.failure.status;
    assert_int_equal(result.form, CRTI_RESULT_STORED);
    assert_int_equal(result.location.node_count, 1);
    *node_out = crti_location_node(&result.location, 0);
    return CRT_OK;
}

/* ---------------------------------------------------------------- missing */

static void a_copy_that_is_told_of_after_the_last_node_died_saves_the_object(void **state)
{
    crt_ref_t *ref = alone_stored(1);
    crti_id_t node;

    alone_locate(2, ref->number);
    alone_node_dies(1);
    alone_locate(3, ref->number); /* waits */
    assert_int_equal(alone_sent_count(3, CRTI_RECORD_LOCATED), 0);
    alone_tick(CRTI_S);
    assert_int_equal(alone_sent_count(3, CRTI_RECORD_LOCATED), 0);
    alone_copy(2, ref->number, ref->more->object.number, ALONE_NODE(2));
    assert_int_equal(located(3, &node), CRT_OK);
    assert_true(crti_id_equal(node, ALONE_NODE(2)));
    alone_tick(60 * CRTI_S);
    assert_int_equal(ref->content, CRTI_CONTENT_STORED);
    alone_drop(ref);
}

static void a_lost_object_stays_lost_for_everybody(void **state)
{
    crt_ref_t *ref = alone_stored(1);
    crti_object_id_t object = ref->more->object;
    crti_id_t node;

    alone_locate(2, ref->number);
    alone_node_dies(1);
    alone_locate(3, ref->number);
    alone_tick(60 * CRTI_S);
    assert_int_equal(located(3, &node), CRT_ERR_OBJECT_LOST);
    alone_copy(2, ref->number, ref->more->object.number, ALONE_NODE(2));
    alone_locate(4, ref->number);
    assert_int_equal(located(4, &node), CRT_ERR_OBJECT_LOST);
    alone_drop(ref);
    assert_int_equal(alone_freed(object, ALONE_NODE(2)), 1); /* the copy is not left */
}

static void as_long_as_nobody_wants_it_a_missing_object_is_not_lost(void **state)
{
    crt_ref_t *ref = alone_stored(1);
    crti_id_t node;

    alone_locate(2, ref->number);
    alone_node_dies(1);
    alone_tick(1000 * CRTI_S);
    alone_copy(2, ref->number, ref->more->object.number, ALONE_NODE(2));
    alone_locate(3, ref->number);
    assert_int_equal(located(3, &node), CRT_OK);
    alone_drop(ref);
}

static void an_object_that_nobody_was_told_of_is_lost_at_once(void **state)
{
    crt_ref_t *ref = alone_stored(1);
    crti_id_t node;

    alone_node_dies(1);
    alone_locate(3, ref->number);
    assert_int_equal(located(3, &node), CRT_ERR_OBJECT_LOST);
    alone_drop(ref);
}

static void a_missing_object_is_freed_with_its_last_holder(void **state)
{
    const crti_core_t *core = *state;
    crt_ref_t *ref = alone_stored(1);

    alone_locate(2, ref->number);
    alone_node_dies(1);
    alone_drop(ref);
    assert_int_equal(core->refs->owned.count, 0);
    alone_tick(60 * CRTI_S);
}

static void a_program_that_waits_for_a_missing_object_hears_that_it_is_lost(void **state)
{
    crt_ref_t *ref = alone_stored(1);

    ref->handles++;
    alone_locate(2, ref->number);
    alone_node_dies(1);
    assert_int_equal(crt_wait(&ref, 1, 1, 0, NULL, NULL), CRT_ERR_TIMED_OUT);
    alone_tick(60 * CRTI_S);
    assert_int_equal(crt_get_for(ref, 0, NULL), CRT_ERR_OBJECT_LOST);
    crt_ref_drop(&ref);
}

/* Without a lineage it is lost, and is told so instead of the same place once more. */
static void
an_object_that_a_borrower_finds_nowhere_is_made_again_if_that_can_be(void **state)
{
    crt_ref_t *ref = alone_stored(1);
    uint64_t object = ref->more->object.number;
    crti_id_t node;

    alone_locate_missed(2, ref->number, object);
    assert_int_equal(located(2, &node), CRT_OK);
    crti_owned_set_repeatable(&ref->owned, true);
    alone_locate_missed(2, ref->number, object + 1); /* of before it was made again */
    assert_int_equal(located(2, &node), CRT_OK);
    assert_int_equal(ref->owned.state, CRTI_OWNED_STORED);
    alone_locate_missed(2, ref->number, object);
    alone_tick(0);
    assert_int_equal(located(2, &node), CRT_ERR_OBJECT_LOST);
    alone_drop(ref);
}

/* The first error is what its readers were told. */
static void an_object_that_has_failed_is_not_lost_once_more(void **state)
{
    crti_core_t *core = *state;
    crt_ref_t *ref = alone_stored(1);

    crti_net_lock(core->net);
    crti_ref_lose(ref, crt_raise(CRT_ERR_STORE_FULL, "no room for it here"));
    crti_net_unlock(core->net);
    alone_node_dies(1);
    assert_int_equal(ref->error->user.status, CRT_ERR_STORE_FULL);
    alone_drop(ref);
}

/* ---------------------------------------------------------------- registrations */

/* Process 2 gives a result with our ref to process 1, whose death we were told of before. We still
 * know process 1, since we have a ref of its own. */
static void a_process_that_is_known_to_be_dead_is_not_registered(void **state)
{
    const crti_core_t *core = *state;
    crt_ref_t *ref = alone_stored(3), *its = alone_arrived(1, 8);

    alone_hold(its);
    alone_borrow(1, 1, ref->number, NULL);
    alone_process_dies(1);
    alone_borrow(2, 1, ref->number, &ALONE_PROCESS(1));
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_BORROWED), 1);
    assert_int_equal(ref->owned.borrower_count, 0);
    alone_drop(ref);
    assert_int_equal(core->refs->owned.count, 0);
    alone_drop(its);
}

/* Process 1 is about to give us a result that is our own ref. */
static void what_is_registered_for_us_ends_when_it_arrives(void **state)
{
    const crti_core_t *core = *state;
    crt_ref_t *ref = alone_stored(3), *result = alone_submit(1);

    alone_borrow(1, 1, ref->number, &ALONE_US);
    assert_int_equal(ref->owned.borrower_count, 1);
    alone_drop(ref);
    alone_forwarded(1, result, 0, ref->number);
    assert_int_equal(ref->owned.borrower_count, 0);
    crt_ref_drop(&result);
    assert_int_equal(core->refs->owned.count, 0);
}

static void what_is_registered_for_us_ends_with_who_was_to_give_it(void **state)
{
    const crti_core_t *core = *state;
    crt_ref_t *ref = alone_stored(3);

    alone_borrow(1, 1, ref->number, &ALONE_US);
    alone_drop(ref);
    assert_int_equal(core->refs->owned.count, 1);
    alone_process_dies(1);
    assert_int_equal(core->refs->owned.count, 0);
}

static void what_is_registered_for_us_is_taken_back_by_who_was_to_give_it(void **state)
{
    const crti_core_t *core = *state;
    crt_ref_t *ref = alone_stored(3);

    alone_borrow(1, 1, ref->number, &ALONE_US);
    alone_take_back(1, 2, ref->number, ALONE_US);
    assert_int_equal(ref->owned.borrower_count, 0);
    alone_drop(ref);
    assert_int_equal(core->refs->owned.count, 0);
}

/* A session was lost, and the process that made it can't know what arrived. */
static void what_is_asked_again_is_carried_out_once(void **state)
{
    const crti_core_t *core = *state;
    crt_ref_t *ref = alone_stored(3);
    uint64_t number = ref->number;

    alone_borrow(1, 1, number, NULL);
    alone_lose(1);
    alone_borrow(1, 1, number, NULL);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_BORROWED), 2);
    assert_int_equal(ref->owned.borrowers[0].tokens, 1);
    alone_borrow(1, 2, number, NULL);
    alone_release(1, 3, number, 1);
    alone_lose(1);
    alone_release(1, 3, number, 1);
    assert_int_equal(ref->owned.borrower_count, 1);
    alone_borrow(2, 7, number, &ALONE_PROCESS(1));
    alone_take_back(2, 8, number, ALONE_PROCESS(1));
    alone_lose(2);
    alone_take_back(2, 8, number, ALONE_PROCESS(1));
    assert_int_equal(ref->owned.borrowers[0].tokens, 1);
    alone_drop(ref);
    assert_int_equal(core->refs->owned.count, 1);
    alone_release(1, 4, number, 1);
    assert_int_equal(core->refs->owned.count, 0);
}

/* The number of a BORROW, RELEASE or TAKE_BACK to process `i`. */
static uint64_t request_of(unsigned i, crti_record_kind_t kind)
{
    crti_span_t record = alone_sent(i, kind);
    crti_reader_t r = crti_reader(record.data, record.size);

    assert_non_null(record.data);
    crti_read_u8(&r);
    return crti_read_u64(&r);
}

/* A ref that is kept longer than what it came in. */
static crt_ref_t *keep(unsigned owner, uint64_t number)
{
    crt_ref_t *ref = alone_arrived(owner, number);

    crti_net_lock(ref->core->net);
    crti_ref_cover(ref);
    crti_ref_hold(ref);
    crti_ref_uncover(ref, NULL);
    crti_net_unlock(ref->core->net);
    return ref;
}

static void a_registration_in_doubt_is_asked_for_again(void **state)
{
    crt_ref_t *ref = keep(1, 8);
    uint64_t request = request_of(1, CRTI_RECORD_BORROW);

    alone_forget();
    alone_lose(1);
    assert_int_equal(ref->borrow.state, CRTI_BORROW_REGISTERING);
    alone_tick(2 * CRTI_S);
    assert_int_equal(request_of(1, CRTI_RECORD_BORROW), request);
    alone_borrowed(1, request);
    assert_int_equal(ref->borrow.state, CRTI_BORROW_HELD);
    alone_drop(ref);
}

/* The runtime has one timer, and the time before the pause is over may be another module's. */
static void a_registration_in_doubt_is_asked_for_again_whatever_else_ticks(void **state)
{
    crti_core_t *core = *state;
    crt_ref_t *ref = keep(1, 8);
    uint64_t request = request_of(1, CRTI_RECORD_BORROW);

    alone_forget();
    alone_lose(1);
    alone_tick(10 * CRTI_MS);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_BORROW), 0);
    assert_true(core->refs->resend_ns > 0);
    assert_true(core->timer->at_ns <= core->refs->resend_ns);
    alone_tick(CRTI_S);
    assert_int_equal(request_of(1, CRTI_RECORD_BORROW), request);
    alone_borrowed(1, request);
    alone_drop(ref);
}

static void a_session_that_is_lost_later_does_not_hold_up_what_waits(void **state)
{
    crti_core_t *core = *state;
    crt_ref_t *first = keep(1, 8), *second = keep(2, 8);
    uint64_t at_ns;

    alone_lose(1);
    at_ns = core->refs->resend_ns;
    alone_lose(2);
    assert_int_equal(core->refs->resend_ns, at_ns);
    alone_forget();
    alone_tick(2 * CRTI_S);
    alone_borrowed(1, request_of(1, CRTI_RECORD_BORROW));
    alone_borrowed(2, request_of(2, CRTI_RECORD_BORROW));
    alone_drop(first);
    alone_drop(second);
}

static void a_release_in_doubt_is_said_again_until_it_is_answered(void **state)
{
    crt_ref_t *ref = keep(1, 8);
    uint64_t request;

    alone_borrowed(1, request_of(1, CRTI_RECORD_BORROW));
    alone_drop(ref);
    request = request_of(1, CRTI_RECORD_RELEASE);
    alone_forget();
    alone_lose(1);
    ref = keep(1, 9); /* does not overtake it */
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_BORROW), 0);
    alone_tick(2 * CRTI_S);
    assert_int_equal(request_of(1, CRTI_RECORD_RELEASE), request);
    assert_true(request_of(1, CRTI_RECORD_BORROW) > request);
    alone_borrowed(1, request);
    alone_borrowed(1, request_of(1, CRTI_RECORD_BORROW));
    alone_forget();
    alone_lose(1);
    alone_tick(2 * CRTI_S);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_RELEASE), 0);
    alone_drop(ref);
}

static void dues_end_with_the_owner(void **state)
{
    const crti_core_t *core = *state;
    crt_ref_t *ref = keep(1, 8);

    alone_lose(1);
    alone_process_dies(1);
    alone_tick(2 * CRTI_S);
    assert_int_equal(ref->borrow.state, CRTI_BORROW_ORPHANED);
    alone_drop(ref);
    assert_int_equal(core->refs->borrowed, 0);
    assert_int_equal(core->remotes->table.count, 0);
}

static void who_asked_an_owner_that_is_cut_off_hears_that_and_not_of_a_death(void **state)
{
    crt_ref_t *ref = keep(1, 8);

    crti_net_lock(ref->core->net);
    crti_ref_locate(ref);
    crti_net_unlock(ref->core->net);
    alone_lose(1);
    assert_int_equal(ref->content, CRTI_CONTENT_FAILED);
    assert_int_equal(ref->error->user.status, CRT_ERR_UNREACHABLE);
    alone_drop(ref);
}

/* ---------------------------------------------------------------- batches */

#define FEW 5

/* Refs 8, 9, ... of that owner came in one value, are kept, and the value ends; `ending` waits for
 * what it has to wait for. */
static void keep_several(unsigned owner, crt_ref_t **refs, unsigned count,
                         crti_completion_t *ending)
{
    crti_core_t *core = NULL;

    for (unsigned i = 0; i < count; i++) {
        refs[i] = alone_arrived(owner, 8 + i);
        core = refs[i]->core;
        crti_net_lock(core->net);
        crti_ref_cover(refs[i]);
        crti_ref_hold(refs[i]);
        crti_net_unlock(core->net);
    }
    crti_net_lock(core->net);
    crti_owner_requests_gather(core);
    for (unsigned i = 0; i < count; i++)
        crti_ref_uncover(refs[i], ending);
    crti_owner_requests_send(core);
    crti_net_unlock(core->net);
}

static void drop_several(crt_ref_t **refs, unsigned count)
{
    crti_core_t *core = refs[0]->core;

    crti_net_lock(core->net);
    crti_owner_requests_gather(core);
    for (unsigned i = 0; i < count; i++)
        crti_ref_release(refs[i]);
    crti_owner_requests_send(core);
    crti_net_unlock(core->net);
}

static crti_borrow_record_t borrow_to(unsigned i)
{
    crti_span_t record = alone_sent(i, CRTI_RECORD_BORROW);
    crti_borrow_record_t borrow;

    assert_int_equal(crti_get_borrow(record.data, record.size, &borrow), CRT_OK);
    return borrow;
}

static crti_release_record_t release_to(unsigned i)
{
    crti_span_t record = alone_sent(i, CRTI_RECORD_RELEASE);
    crti_release_record_t release;

    assert_int_equal(crti_get_release(record.data, record.size, &release), CRT_OK);
    return release;
}

static void refs_of_one_owner_are_registered_and_released_by_one_record_each(void **state)
{
    const crti_core_t *core = *state;
    crti_completion_t ending = {.waits = 1};
    crt_ref_t *refs[FEW];

    keep_several(1, refs, FEW, &ending);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_BORROW), 1);
    assert_int_equal(borrow_to(1).count, FEW);
    assert_int_equal(crti_number_at(borrow_to(1).numbers, FEW - 1), 8 + FEW - 1);
    assert_int_equal(ending.waits, 2); /* once for all of them */
    alone_borrowed(1, borrow_to(1).request);
    assert_int_equal(ending.waits, 1);
    for (unsigned i = 0; i < FEW; i++)
        assert_int_equal(refs[i]->borrow.state, CRTI_BORROW_HELD);
    drop_several(refs, FEW);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_RELEASE), 1);
    assert_int_equal(release_to(1).count, FEW);
    assert_true(release_to(1).request > borrow_to(1).request);
    alone_borrowed(1, release_to(1).request);
    assert_int_equal(core->refs->borrowed, 0);
}

static void of_a_batch_those_that_are_gone_are_lost_and_no_others(void **state)
{
    crti_completion_t ending = {.waits = 1};
    const uint64_t gone[] = {9, 11};
    crt_ref_t *refs[FEW];

    keep_several(1, refs, FEW, &ending);
    alone_borrowed_but(1, borrow_to(1).request, gone, 2);
    assert_int_equal(ending.waits, 1);
    for (unsigned i = 0; i < FEW; i++)
        assert_int_equal(refs[i]->borrow.state,
                         i % 2 ? CRTI_BORROW_ORPHANED : CRTI_BORROW_HELD);
    assert_int_equal(crt_get_for(refs[1], 0, NULL), CRT_ERR_OBJECT_LOST);
    drop_several(refs, FEW);
    assert_int_equal(release_to(1).count, FEW - 2);
    alone_borrowed(1, release_to(1).request);
}

/* Whose answer names what was not asked for, or in another order, harms nobody but itself. */
static void an_answer_that_lies_about_a_batch_breaks_nothing(void **state)
{
    const crti_core_t *core = *state;
    const uint64_t lies[] = {11, 8, 8, 77, 0};
    crti_completion_t ending = {.waits = 1};
    crt_ref_t *refs[FEW];

    keep_several(1, refs, FEW, &ending);
    alone_borrowed_but(1, borrow_to(1).request + 5, lies, 5);
    assert_int_equal(ending.waits, 2);
    alone_borrowed_but(1, borrow_to(1).request, lies, 5);
    assert_int_equal(ending.waits, 1);
    alone_borrowed_but(1, borrow_to(1).request, lies, 5); /* it is over */
    drop_several(refs, FEW);
    alone_borrowed(1, release_to(1).request);
    assert_int_equal(core->refs->borrowed, 0);
}

static void a_batch_in_doubt_is_sent_again_as_it_was(void **state)
{
    crti_completion_t ending = {.waits = 1};
    crt_ref_t *refs[FEW];
    uint64_t request;

    keep_several(1, refs, FEW, &ending);
    request = borrow_to(1).request;
    alone_forget();
    alone_lose(1);
    assert_int_equal(ending.waits, 2);
    alone_tick(2 * CRTI_S);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_BORROW), 1);
    assert_int_equal(borrow_to(1).request, request);
    assert_int_equal(borrow_to(1).count, FEW);
    alone_lose(1); /* nobody waits longer than for two sessions */
    assert_int_equal(ending.waits, 1);
    alone_tick(4 * CRTI_S);
    alone_borrowed(1, request);
    for (unsigned i = 0; i < FEW; i++)
        assert_int_equal(refs[i]->borrow.state, CRTI_BORROW_HELD);
    drop_several(refs, FEW);
    alone_borrowed(1, release_to(1).request);
}

static void a_batch_ends_with_its_owner(void **state)
{
    const crti_core_t *core = *state;
    crti_completion_t ending = {.waits = 1};
    crt_ref_t *refs[FEW];

    keep_several(1, refs, FEW, &ending);
    alone_process_dies(1);
    assert_int_equal(ending.waits, 1);
    for (unsigned i = 0; i < FEW; i++)
        assert_int_equal(refs[i]->borrow.state, CRTI_BORROW_ORPHANED);
    drop_several(refs, FEW);
    assert_int_equal(core->refs->borrowed, 0);
    assert_int_equal(core->remotes->table.count, 0);
}

/* And when it dies with releases that were not sent yet. */
static void releases_that_wait_for_an_answer_end_with_the_owner(void **state)
{
    const crti_core_t *core = *state;
    crt_ref_t *first = keep(1, 8), *second = keep(1, 9);

    alone_borrowed(1, request_of(1, CRTI_RECORD_BORROW) - 1);
    alone_borrowed(1, request_of(1, CRTI_RECORD_BORROW));
    keep(1, 10);
    alone_drop(first);
    alone_drop(second);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_RELEASE), 0);
    alone_process_dies(1);
    alone_drop(crti_ref_borrowed(*state, ALONE_PROCESS(1), 10));
    assert_int_equal(core->refs->borrowed, 0);
    assert_int_equal(core->remotes->table.count, 0);
}

/* A program that drops one ref after the other: a record for each answer, not for each ref. */
static void releases_join_while_an_earlier_request_is_not_answered(void **state)
{
    const crti_core_t *core = *state;
    crt_ref_t *refs[FEW];

    keep_several(1, refs, FEW, NULL);
    alone_borrowed(1, borrow_to(1).request);
    for (unsigned i = 0; i < FEW; i++)
        alone_drop(refs[i]);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_RELEASE), 1);
    assert_int_equal(release_to(1).count, 1);
    alone_borrowed(1, release_to(1).request);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_RELEASE), 2);
    assert_int_equal(release_to(1).count, FEW - 1);
    alone_borrowed(1, release_to(1).request);
    assert_int_equal(core->refs->borrowed, 0);
}

/* What is registered then is not freed by a release of what was registered before. */
static void a_borrow_leaves_before_releases_that_wait(void **state)
{
    crt_ref_t *first = keep(1, 8), *second;

    alone_borrowed(1, request_of(1, CRTI_RECORD_BORROW));
    second = keep(1, 9);
    alone_drop(first); /* joins what comes */
    first = keep(1, 8);
    assert_true(alone_sent_before(1, CRTI_RECORD_BORROW, CRTI_RECORD_RELEASE));
    assert_true(release_to(1).request > request_of(1, CRTI_RECORD_BORROW));
    alone_borrowed(1, request_of(1, CRTI_RECORD_BORROW) - 1);
    alone_borrowed(1, request_of(1, CRTI_RECORD_BORROW));
    alone_borrowed(1, release_to(1).request);
    alone_drop(first);
    alone_borrowed(1, release_to(1).request);
    alone_drop(second);
}

/* The owner's side: a batch that comes twice, and one of a process that is dead by then. */
static void a_batch_is_carried_out_once_and_names_what_is_gone(void **state)
{
    const crti_core_t *core = *state;
    crt_ref_t *first = alone_stored(3), *second = alone_stored(3),
              *its = alone_arrived(1, 8);
    const uint64_t numbers[] = {first->number, 4711, second->number};
    const crti_release_t all[] = {{first->number, 1}, {4711, 9}, {second->number, 1}};
    crti_borrow_record_t answer;
    crti_span_t record;

    alone_hold(its); /* so that process 1 is known after its death */
    for (int time = 0; time < 2; time++) {
        alone_borrow_all(1, 1, numbers, 3, NULL);
        record = alone_sent(1, CRTI_RECORD_BORROWED);
        assert_int_equal(crti_get_borrow(record.data, record.size, &answer), CRT_OK);
        assert_int_equal(answer.count, 1);
        assert_int_equal(crti_number_at(answer.numbers, 0), 4711);
        assert_int_equal(first->owned.borrowers[0].tokens, 1);
        assert_int_equal(second->owned.borrowers[0].tokens, 1);
        alone_lose(1);
    }
    alone_borrow_all(2, 1, numbers, 3, &ALONE_PROCESS(1));
    for (int time = 0; time < 2; time++)
        alone_release_all(1, 2, all, 3);
    assert_int_equal(first->owned.borrowers[0].tokens, 1);
    alone_process_dies(1);
    assert_int_equal(first->owned.borrower_count, 0);
    alone_borrow_all(2, 2, numbers, 3, &ALONE_PROCESS(1));
    assert_int_equal(first->owned.borrower_count, 0);
    assert_int_equal(second->owned.borrower_count, 0);
    alone_drop(first);
    alone_drop(second);
    alone_drop(its);
    assert_int_equal(core->refs->owned.count, 0);
}

/* ---------------------------------------------------------------- waits that do not fetch */

static void a_wait_that_does_not_fetch_leaves_a_value_where_it_is(void **state)
{
    crt_ref_t *ref = alone_stored(3);
    unsigned pulls = alone_pulls();
    size_t failed, ready;

    assert_int_equal(
        crt_refs_wait(&ref, 1, CRT_REFS_WAIT_OPTIONS(.no_fetch = true), 0, &failed),
        CRT_OK);
    assert_int_equal(crt_wait(&ref, 1, 1, 0, NULL, &ready), CRT_OK);
    assert_int_equal(alone_pulls(), pulls);
    assert_int_equal(crt_refs_wait(&ref, 1, NULL, 0, &failed), CRT_ERR_TIMED_OUT);
    assert_int_equal(alone_pulls(), pulls + 1);
    alone_pulled(false);
    alone_drop(ref);
}

/* ---------------------------------------------------------------- results with refs */

/* Process 1 calls; the result has a ref of ours and one of process 2. */
static void what_was_registered_for_a_caller_that_is_lost_is_taken_back(void **state)
{
    crt_ref_t *ours = alone_stored(3), *its = keep(2, 8);

    alone_borrowed(2, request_of(2, CRTI_RECORD_BORROW));
    alone_gives(ours, its);
    alone_call(1, 77);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_REPLY), 0); /* registers */
    assert_int_equal(ours->owned.borrower_count, 1);
    alone_lose(1);
    alone_borrowed(2, request_of(2, CRTI_RECORD_BORROW));
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_REPLY), 0);
    assert_int_equal(ours->owned.borrower_count, 0);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_TAKE_BACK), 1);
    alone_drop(ours);
    alone_drop(its);
}

static void a_result_waits_until_the_owner_of_a_ref_in_it_has_answered(void **state)
{
    crt_ref_t *ours = alone_stored(3), *its = keep(2, 8);
    uint64_t request;

    alone_borrowed(2, request_of(2, CRTI_RECORD_BORROW));
    alone_gives(ours, its);
    alone_call(1, 77);
    request = request_of(2, CRTI_RECORD_BORROW);
    alone_lose(2);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_REPLY), 0);
    alone_tick(2 * CRTI_S);
    alone_borrowed(2, request);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_REPLY), 1);
    assert_int_equal(ours->owned.borrower_count, 1);
    alone_process_dies(1);
    assert_int_equal(ours->owned.borrower_count, 0);
    alone_drop(ours);
    alone_drop(its);
}

static void a_result_does_not_wait_for_ever_for_an_owner_that_is_cut_off(void **state)
{
    crt_ref_t *ours = alone_stored(3), *its = keep(2, 8);
    crti_result_t result;
    crti_span_t reply;
    uint64_t number;

    alone_borrowed(2, request_of(2, CRTI_RECORD_BORROW));
    alone_gives(ours, its);
    alone_call(1, 77);
    alone_lose(2);
    alone_tick(2 * CRTI_S);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_REPLY), 0);
    alone_lose(2);
    reply = alone_sent(1, CRTI_RECORD_REPLY);
    assert_non_null(reply.data);
    assert_int_equal(crti_get_result(reply.data, reply.size, &number, &result), CRT_OK);
    assert_int_equal(result.form, CRTI_RESULT_ERROR);
    assert_int_equal(result.failure.status, CRT_ERR_UNREACHABLE);
    assert_true(result.failure.may_have_run);
    assert_int_equal(ours->owned.borrower_count, 0);
    alone_tick(4 * CRTI_S); /* and when it can be reached again, it is told */
    alone_borrowed(2, request_of(2, CRTI_RECORD_BORROW));
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_TAKE_BACK), 1);
    alone_borrowed(2, request_of(2, CRTI_RECORD_TAKE_BACK));
    alone_drop(ours);
    alone_drop(its);
}

static void a_cover_does_not_wait_for_ever_for_an_owner_that_is_cut_off(void **state)
{
    crt_ref_t *ref = alone_arrived(2, 8);
    crti_completion_t ending = {.waits = 1};

    crti_net_lock(ref->core->net);
    crti_ref_cover(ref);
    crti_ref_hold(ref);
    crti_ref_uncover(ref, &ending);
    crti_net_unlock(ref->core->net);
    assert_int_equal(ending.waits, 2);
    alone_lose(2);
    alone_tick(2 * CRTI_S);
    assert_int_equal(ending.waits, 2);
    alone_lose(2);
    assert_int_equal(ending.waits, 1);
    alone_tick(4 * CRTI_S);
    alone_borrowed(2, request_of(2, CRTI_RECORD_BORROW));
    assert_int_equal(ref->borrow.state, CRTI_BORROW_HELD);
    alone_drop(ref);
}

/* The answer, which would say where the result is, was lost with the session. */
static void what_a_call_stored_that_nobody_heard_of_is_freed(void **state)
{
    crt_ref_t *ref = alone_submit(1);
    crti_object_id_t parts = {ALONE_US, ref->number | CRTI_EVERY_PART};

    alone_lose(1);
    assert_int_equal(crt_get_for(ref, 0, NULL), CRT_ERR_UNREACHABLE);
    assert_int_equal(alone_freed(parts, ALONE_NODE(1)), 1);
    crt_ref_drop(&ref);
}

/* ---------------------------------------------------------------- copies */

/* What lies at the node is another process's, with a number that one of our objects has, too. */
static void
word_of_a_copy_of_a_forwarded_value_frees_no_object_of_the_same_number(void **state)
{
    crti_core_t *core = *state;
    crt_ref_t *ref = alone_stored(1), *forwarded = alone_arrived(2, 50);
    crti_location_t location = {.object = {ALONE_PROCESS(3), ref->number}};
    crti_span_t word;
    crti_buffer_t copy = {0};

    /* as the reader, of a ref of process 2 whose value is an object of process 3 */
    alone_hold(forwarded);
    location.size = 100;
    location.nodes = (unsigned char[16]){1};
    location.node_count = 1;
    crti_net_lock(core->net);
    crti_ref_set_stored(forwarded, &location, (crti_span_t){"", 0}, false);
    crti_ref_tell_copy(forwarded);
    crti_net_unlock(core->net);
    word = alone_sent(2, CRTI_RECORD_COPY);
    assert_non_null(word.data);
    assert_int_equal(crti_buffer_append(&copy, word.data, word.size), CRT_OK);
    /* as the owner, which has freed the ref */
    alone_from(1, &copy);
    assert_int_equal(alone_freed(ref->more->object, ALONE_OUR_NODE), 0);
    alone_drop(forwarded);
    alone_drop(ref);
}

int main(void)
{
#define OWNER_TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)
    const struct CMUnitTest tests[] = {
        OWNER_TEST(a_copy_that_is_told_of_after_the_last_node_died_saves_the_object),
        OWNER_TEST(a_lost_object_stays_lost_for_everybody),
        OWNER_TEST(as_long_as_nobody_wants_it_a_missing_object_is_not_lost),
        OWNER_TEST(an_object_that_nobody_was_told_of_is_lost_at_once),
        OWNER_TEST(a_missing_object_is_freed_with_its_last_holder),
        OWNER_TEST(a_program_that_waits_for_a_missing_object_hears_that_it_is_lost),
        OWNER_TEST(an_object_that_a_borrower_finds_nowhere_is_made_again_if_that_can_be),
        OWNER_TEST(an_object_that_has_failed_is_not_lost_once_more),
        OWNER_TEST(a_process_that_is_known_to_be_dead_is_not_registered),
        OWNER_TEST(what_is_registered_for_us_ends_when_it_arrives),
        OWNER_TEST(what_is_registered_for_us_ends_with_who_was_to_give_it),
        OWNER_TEST(what_is_registered_for_us_is_taken_back_by_who_was_to_give_it),
        OWNER_TEST(what_is_asked_again_is_carried_out_once),
        OWNER_TEST(a_registration_in_doubt_is_asked_for_again),
        OWNER_TEST(a_registration_in_doubt_is_asked_for_again_whatever_else_ticks),
        OWNER_TEST(a_session_that_is_lost_later_does_not_hold_up_what_waits),
        OWNER_TEST(a_release_in_doubt_is_said_again_until_it_is_answered),
        OWNER_TEST(dues_end_with_the_owner),
        OWNER_TEST(a_wait_that_does_not_fetch_leaves_a_value_where_it_is),
        OWNER_TEST(refs_of_one_owner_are_registered_and_released_by_one_record_each),
        OWNER_TEST(of_a_batch_those_that_are_gone_are_lost_and_no_others),
        OWNER_TEST(an_answer_that_lies_about_a_batch_breaks_nothing),
        OWNER_TEST(a_batch_in_doubt_is_sent_again_as_it_was),
        OWNER_TEST(a_batch_ends_with_its_owner),
        OWNER_TEST(releases_that_wait_for_an_answer_end_with_the_owner),
        OWNER_TEST(releases_join_while_an_earlier_request_is_not_answered),
        OWNER_TEST(a_borrow_leaves_before_releases_that_wait),
        OWNER_TEST(a_batch_is_carried_out_once_and_names_what_is_gone),
        OWNER_TEST(who_asked_an_owner_that_is_cut_off_hears_that_and_not_of_a_death),
        OWNER_TEST(what_was_registered_for_a_caller_that_is_lost_is_taken_back),
        OWNER_TEST(a_result_waits_until_the_owner_of_a_ref_in_it_has_answered),
        OWNER_TEST(a_result_does_not_wait_for_ever_for_an_owner_that_is_cut_off),
        OWNER_TEST(a_cover_does_not_wait_for_ever_for_an_owner_that_is_cut_off),
        OWNER_TEST(what_a_call_stored_that_nobody_heard_of_is_freed),
        OWNER_TEST(
            word_of_a_copy_of_a_forwarded_value_frees_no_object_of_the_same_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
