/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of results that wait for other processes' results, one step at a time. result_wait.h says
 * the rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include "alone.h"

#include <cmocka.h>

#define FIRST  (200 * CRTI_MS) /* the first probe has left */
#define OBJECT 50              /* of process 2: what our results wait for */
#define NONCE  4711            /* of other processes' probes */

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

/* A task's result is the object of process 2, of which nothing is known. */
static crt_ref_t *waiting(void)
{
    crt_ref_t *ref = alone_submit(1);

    alone_forwarded(1, ref, 2, OBJECT);
    assert_int_equal(ref->content, CRTI_CONTENT_NONE);
    alone_forget();
    return ref;
}

static crti_probe_step_t step_at(unsigned process, uint64_t number)
{
    return (crti_probe_step_t){process ? ALONE_PROCESS(process) : ALONE_US, true, number,
                               crti_str("its")};
}

/* The last probe that was sent to process `i`. Its names are valid until they are forgotten. */
static crti_probe_t probe_to(unsigned i)
{
    crti_span_t record = alone_sent(i, CRTI_RECORD_PROBE);
    crti_probe_t probe;

    assert_non_null(record.data);
    assert_int_equal(crti_get_probe(record.data, record.size, &probe), CRT_OK);
    return probe;
}

static void probe_from(unsigned i, const crti_probe_t *probe)
{
    crti_buffer_t record = {0};

    assert_int_equal(crti_put_probe(&record, probe), CRT_OK);
    alone_from(i, &record);
}

/* As process `i` sends it on: to `number` of ours. */
static void came_back(unsigned i, crti_probe_t *probe, uint64_t number)
{
    probe->step[probe->at].name = crti_str("its");
    probe->at = probe->count++;
    probe->step[probe->at] = step_at(0, number);
    probe_from(i, probe);
}

static bool is_at(const crti_probe_t *probe, unsigned process, uint64_t number)
{
    const crti_probe_step_t *step = &probe->step[probe->at];

    return crti_id_equal(step->process, ALONE_PROCESS(process)) && step->is_object &&
           step->number == number;
}

/* ---------------------------------------------------------------- of ours */

static void a_result_that_waits_is_probed_at_growing_intervals(void **state)
{
    crt_ref_t *ref = waiting();
    crti_probe_t probe;
    uint64_t nonce;

    alone_tick(50 * CRTI_MS);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_PROBE), 0);
    alone_tick(FIRST);
    probe = probe_to(2);
    assert_true(!probe.is_confirming && probe.count == 2 && is_at(&probe, 2, OBJECT));
    assert_true(crti_id_equal(probe.step[0].process, ALONE_US));
    assert_int_equal(probe.step[0].number, ref->number);
    assert_memory_equal(probe.step[0].name.data, "nothing", probe.step[0].name.size);
    nonce = probe.nonce;
    alone_tick(300 * CRTI_MS);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_PROBE), 2);
    assert_int_not_equal(probe_to(2).nonce, nonce);
    alone_tick(300 * CRTI_MS);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_PROBE), 2);
    alone_located(2, OBJECT, NULL, 0);
    alone_tick(60 * CRTI_S);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_PROBE), 2);
    crt_ref_drop(&ref);
}

static void a_result_that_comes_soon_is_not_probed(void **state)
{
    crt_ref_t *ref = waiting(), *dropped = waiting();

    alone_located(2, OBJECT, &ALONE_NODE(3), 1);
    crt_ref_drop(&dropped);
    alone_forget();
    alone_tick(60 * CRTI_S);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_PROBE), 0);
    crt_ref_drop(&ref);
}

/* Once round, and once more along the same way. */
static void a_probe_that_comes_back_twice_is_a_deadlock(void **state)
{
    crt_ref_t *ref = waiting();
    crti_probe_t probe;

    alone_tick(FIRST);
    probe = probe_to(2);
    came_back(2, &probe, ref->number);
    assert_int_equal(ref->content, CRTI_CONTENT_NONE);
    probe = probe_to(2);
    assert_true(probe.is_confirming && probe.count == 3 && is_at(&probe, 2, OBJECT));
    probe.at = 2;
    probe_from(2, &probe);
    assert_int_equal(ref->content, CRTI_CONTENT_FAILED);
    assert_int_equal(ref->error->user.status, CRT_ERR_DEADLOCK);
    assert_string_equal(
        ref->error->user.text,
        "a result that waits for itself: nothing (process 00000000) -> its (process "
        "00000000) -> nothing (process 00000000): each is the result of the next, or "
        "waits for it");
    alone_located(2, OBJECT, &ALONE_NODE(3), 1); /* too late */
    assert_int_equal(ref->content, CRTI_CONTENT_FAILED);
    crt_ref_drop(&ref);
}

/* Another ref of ours waits for the first one, by the argument of its call. */
static void a_cycle_may_come_back_to_another_of_our_refs(void **state)
{
    crt_ref_t *ref = waiting(), *behind = alone_waiting(ref);
    crti_probe_t probe;

    alone_tick(FIRST);
    probe = probe_to(2);
    came_back(2, &probe, behind->number);
    probe = probe_to(2);
    assert_true(probe.is_confirming);
    probe.at = 2;
    probe_from(2, &probe);
    assert_int_equal(ref->error->user.status, CRT_ERR_DEADLOCK);
    assert_int_equal(behind->error->user.status, CRT_ERR_DEADLOCK);
    crt_ref_drop(&ref);
    crt_ref_drop(&behind);
}

static void a_value_between_the_rounds_is_no_deadlock(void **state)
{
    crt_ref_t *ref = waiting();
    crti_probe_t probe;

    alone_tick(FIRST);
    probe = probe_to(2);
    came_back(2, &probe, ref->number);
    probe = probe_to(2);
    alone_located(2, OBJECT, &ALONE_NODE(3), 1);
    probe.at = 2;
    probe_from(2, &probe);
    assert_int_equal(ref->content, CRTI_CONTENT_STORED);
    crt_ref_drop(&ref);
}

static void a_probe_that_is_not_the_last_one_of_ours_means_nothing(void **state)
{
    crt_ref_t *ref = waiting();
    crti_probe_t probe, old;

    alone_tick(FIRST);
    old = probe_to(2);
    alone_tick(300 * CRTI_MS);
    probe = probe_to(2);
    came_back(2, &old, ref->number);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_PROBE), 2);
    old.is_confirming = true;
    probe_from(2, &old);
    assert_int_equal(ref->content, CRTI_CONTENT_NONE);
    probe.step[1].number++; /* not what it waits for */
    came_back(2, &probe, ref->number);
    probe.is_confirming = true;
    probe_from(2, &probe);
    assert_int_equal(ref->content, CRTI_CONTENT_NONE);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_PROBE), 2);
    crt_ref_drop(&ref);
}

/* ---------------------------------------------------------------- of others */

/* Process 3 asks for its object 9, behind which is our `number`. */
static crti_probe_t others(uint64_t number)
{
    return (crti_probe_t){
        .nonce = NONCE, .at = 1, .count = 2, .step = {step_at(3, 9), step_at(0, number)}};
}

static void a_probe_of_another_process_goes_on_once(void **state)
{
    crt_ref_t *ref = waiting();
    crti_probe_t probe = others(ref->number);

    probe_from(3, &probe);
    probe = probe_to(2);
    assert_true(probe.count == 3 && is_at(&probe, 2, OBJECT) && probe.nonce == NONCE);
    assert_memory_equal(probe.step[1].name.data, "nothing", probe.step[1].name.size);
    probe = others(ref->number);
    probe_from(4, &probe); /* by another way */
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_PROBE), 1);
    probe.nonce++;
    probe_from(4, &probe);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_PROBE), 2);
    crt_ref_drop(&ref);
}

static void a_probe_ends_where_nothing_waits(void **state)
{
    crt_ref_t *ref = waiting(), *stored = alone_stored(3);
    crti_probe_t probe = others(stored->number);

    probe_from(3, &probe);
    probe = others(UINT64_C(1) << 40);
    probe_from(3, &probe);
    probe = others(ref->number);
    alone_located(2, OBJECT, NULL, 0);
    probe_from(3, &probe);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_PROBE), 0);
    crt_ref_drop(&ref);
    alone_drop(stored);
}

/* What fills it may be calls that wait for each other. */
static void a_full_window_stops_no_probe_whose_like_has_arrived(void **state)
{
    crt_ref_t *ref = waiting();
    crti_probe_t probe;

    alone_fill_ours(2);
    alone_unacknowledged_ours(2, 1);
    alone_tick(FIRST);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_PROBE), 0);
    alone_unacknowledged_ours(2, 0);
    probe = others(ref->number);
    for (unsigned i = 0; i < 10; i++, probe.nonce++)
        probe_from(3, &probe);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_PROBE), 1);
    crt_ref_drop(&ref);
}

static void a_probe_that_is_too_long_goes_nowhere(void **state)
{
    crt_ref_t *ref = waiting();
    crti_probe_t probe = others(ref->number);

    for (unsigned i = 1; i < CRTI_CHAIN_MAX; i++)
        probe.step[i] = step_at(0, ref->number);
    probe.count = CRTI_CHAIN_MAX;
    probe.at = probe.count - 1;
    probe_from(3, &probe);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_PROBE), 0);
    probe.nonce++;
    probe.at = --probe.count - 1;
    probe_from(3, &probe);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_PROBE), 1);
    crt_ref_drop(&ref);
}

static void the_second_round_goes_along_the_way_of_the_first_only(void **state)
{
    crt_ref_t *ref = waiting();
    crti_probe_t probe = others(ref->number);

    probe.is_confirming = true;
    probe.step[probe.count++] = step_at(2, OBJECT + 1);
    probe_from(3, &probe);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_PROBE), 0);
    probe.step[2].number = OBJECT;
    probe_from(3, &probe);
    assert_true(probe_to(2).is_confirming && probe_to(2).at == 2);
    crt_ref_drop(&ref);
}

/* Process 1 calls us with the object of process 2, and then without. */
static void a_call_waits_for_its_arguments_and_for_those_before_it(void **state)
{
    crti_call_head_t head = {.call = 7, .name = crti_str("give"), .arg_count = 1};
    crti_ref_name_t name = {.id = {ALONE_PROCESS(2), OBJECT},
                            .incarnation = 7,
                            .node = ALONE_NODE(2),
                            .tcp = crti_str("10.0.0.1:5")};
    crti_probe_t probe = others(7);
    crti_buffer_t record = {0};

    alone_gives(NULL, NULL);
    assert_int_equal(crti_put_call(&record, &head), CRT_OK);
    assert_int_equal(crti_put_arg_ref(&record, &name), CRT_OK);
    alone_from(1, &record);
    head = (crti_call_head_t){.call = 8, .name = crti_str("give")};
    assert_int_equal(crti_put_call(&record, &head), CRT_OK);
    alone_from(1, &record);
    for (uint64_t call = 7; call <= 9; call++) {
        probe.step[1].is_object = false;
        probe.step[1].number = call;
        probe_from(1, &probe);
        assert_int_equal(alone_sent_count(2, CRTI_RECORD_PROBE), call < 9 ? call - 6 : 2);
    }
    probe = probe_to(2);
    assert_true(is_at(&probe, 2, OBJECT));
    assert_memory_equal(probe.step[1].name.data, "Giver.give", probe.step[1].name.size);
    probe_from(3, &(crti_probe_t){.nonce = NONCE, /* it is not process 3's call */
                                  .at = 1,
                                  .count = 2,
                                  .step = {step_at(3, 9), {ALONE_US, false, 7}}});
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_PROBE), 2);
}

int main(void)
{
#define WAIT_TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)
    const struct CMUnitTest tests[] = {
        WAIT_TEST(a_result_that_waits_is_probed_at_growing_intervals),
        WAIT_TEST(a_result_that_comes_soon_is_not_probed),
        WAIT_TEST(a_probe_that_comes_back_twice_is_a_deadlock),
        WAIT_TEST(a_cycle_may_come_back_to_another_of_our_refs),
        WAIT_TEST(a_value_between_the_rounds_is_no_deadlock),
        WAIT_TEST(a_probe_that_is_not_the_last_one_of_ours_means_nothing),
        WAIT_TEST(a_probe_of_another_process_goes_on_once),
        WAIT_TEST(a_probe_ends_where_nothing_waits),
        WAIT_TEST(a_full_window_stops_no_probe_whose_like_has_arrived),
        WAIT_TEST(a_probe_that_is_too_long_goes_nowhere),
        WAIT_TEST(the_second_round_goes_along_the_way_of_the_first_only),
        WAIT_TEST(a_call_waits_for_its_arguments_and_for_those_before_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
