/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/node/leases/worker_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/environment.h"

#include <cmocka.h>

typedef struct scene {
    crti_worker_table_t *table;
    uint64_t now;
    crti_worker_action_t action; /* the last one taken */
} scene_t;

static const crti_id_t job = {5, 5};

static int setup(void **state)
{
    scene_t *s = calloc(1, sizeof(*s));

    s->now = 100 * CRTI_S;
    assert_int_equal(crti_worker_table_new(2, &s->table), CRT_OK);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    scene_t *s = *state;

    crti_worker_table_free(s->table);
    free(s);
    return 0;
}

static crti_id_t id(uint64_t n)
{
    return (crti_id_t){9, n};
}

static crti_worker_t *expect(scene_t *s, crti_worker_verb_t verb)
{
    assert_true(crti_worker_table_action(s->table, &s->action));
    assert_int_equal(s->action.verb, verb);
    return s->action.worker;
}

static void expect_nothing(scene_t *s)
{
    assert_false(crti_worker_table_action(s->table, &s->action));
}

static crti_worker_t *want(scene_t *s, uint64_t n, bool actor)
{
    assert_int_equal(crti_worker_table_want(s->table, id(n), job, actor, id(100 + n), 1,
                                            0, NULL, s->now),
                     CRT_OK);
    return crti_worker_table_of(s->table, id(100 + n));
}

/* A worker for lease 100 + n that has come as far as `state`. */
static crti_worker_t *bring_to(scene_t *s, uint64_t n, crti_worker_state_t state)
{
    crti_worker_t *w = want(s, n, state == CRTI_WORKER_ACTOR);

    expect(s, CRTI_WORKER_SPAWN);
    if (state >= CRTI_WORKER_FORKING)
        crti_worker_table_forking(s->table, w, s->now);
    if (state >= CRTI_WORKER_ATTACHED)
        assert_true(crti_worker_table_attached(s->table, w, s->now));
    if (state >= CRTI_WORKER_IDLE) {
        assert_true(crti_worker_table_ready(s->table, w, s->now));
        assert_ptr_equal(expect(s, CRTI_WORKER_ASSIGN), w);
    }
    if (state == CRTI_WORKER_IDLE)
        crti_worker_table_released(s->table, w, false, s->now);
    if (state == CRTI_WORKER_ENDING) {
        crti_worker_table_end(s->table, w, false, s->now);
        expect(s, CRTI_WORKER_SHUTDOWN);
    }
    assert_int_equal(w->state, state);
    return w;
}

static void a_worker_is_spawned_attached_ready_and_assigned(void **state)
{
    scene_t *s = *state;
    crti_worker_t *w = bring_to(s, 1, CRTI_WORKER_LEASED);

    assert_true(crti_id_equal(s->action.purpose, id(101)));
    assert_false(s->action.is_actor);
    assert_ptr_equal(crti_worker_table_get(s->table, id(1)), w);
    assert_int_equal(
        crti_worker_table_want(s->table, id(2), job, false, id(101), 1, 0, NULL, s->now),
        CRT_ERR_EXISTS);
}

static void a_returned_worker_takes_the_next_lease_of_its_job_and_shape_only(void **state)
{
    scene_t *s = *state;
    crti_worker_t *w = bring_to(s, 1, CRTI_WORKER_IDLE);

    crti_worker_table_want(s->table, id(2), (crti_id_t){6, 6}, false, id(102), 1, 0, NULL,
                           s->now);
    assert_ptr_not_equal(expect(s, CRTI_WORKER_SPAWN), w); /* another job */
    crti_worker_table_want(s->table, id(3), job, false, id(103), 2, 0, NULL, s->now);
    assert_ptr_not_equal(expect(s, CRTI_WORKER_SPAWN), w); /* more CPUs */
    want(s, 4, true);
    assert_ptr_not_equal(expect(s, CRTI_WORKER_SPAWN), w); /* actors get their own */
    want(s, 5, false);
    assert_ptr_equal(expect(s, CRTI_WORKER_ASSIGN), w);
    assert_null(crti_worker_table_get(s->table, id(5)));
}

static crti_environment_t *environment(const char *bytes, size_t size)
{
    crti_environment_t *made;

    assert_int_equal(crti_environment_read(crti_span(bytes, size), &made), CRT_OK);
    return made;
}

static void a_worker_serves_leases_with_its_own_environment_only(void **state)
{
    scene_t *s = *state;
    crti_worker_t *plain = bring_to(s, 1, CRTI_WORKER_IDLE), *w;
    crti_environment_t *a = environment("\0A=1", 5), *same = environment("\0A=1", 5),
                       *other = environment("\0A=2", 5);

    crti_worker_table_want(s->table, id(2), job, false, id(102), 1, 0, a, s->now);
    w = expect(s, CRTI_WORKER_SPAWN);
    assert_ptr_not_equal(w, plain);
    assert_true(crti_environment_equal(w->environment, a));
    crti_environment_drop(a); /* it keeps it */
    crti_worker_table_forking(s->table, w, s->now);
    assert_true(crti_worker_table_attached(s->table, w, s->now));
    assert_true(crti_worker_table_ready(s->table, w, s->now));
    assert_ptr_equal(expect(s, CRTI_WORKER_ASSIGN), w);
    crti_worker_table_released(s->table, w, false, s->now);
    crti_worker_table_want(s->table, id(3), job, false, id(103), 1, 0, other, s->now);
    assert_ptr_not_equal(expect(s, CRTI_WORKER_SPAWN), w);
    want(s, 4, false);
    assert_ptr_equal(expect(s, CRTI_WORKER_ASSIGN), plain);
    crti_worker_table_want(s->table, id(5), job, false, id(105), 1, 0, same, s->now);
    assert_ptr_equal(expect(s, CRTI_WORKER_ASSIGN), w);
    crti_environment_drop(same);
    crti_environment_drop(other);
}

static void a_worker_with_gpus_serves_one_lease_and_ends(void **state)
{
    scene_t *s = *state;
    crti_worker_t *w = bring_to(s, 1, CRTI_WORKER_IDLE);

    crti_worker_table_want(s->table, id(2), job, false, id(102), 1, 5, NULL, s->now);
    assert_ptr_not_equal(expect(s, CRTI_WORKER_SPAWN), w); /* CUDA may see others there */
    w = crti_worker_table_of(s->table, id(102));
    assert_int_equal(w->gpus, 5);
    crti_worker_table_forking(s->table, w, s->now);
    assert_true(crti_worker_table_attached(s->table, w, s->now));
    assert_true(crti_worker_table_ready(s->table, w, s->now));
    expect(s, CRTI_WORKER_ASSIGN);
    crti_worker_table_released(s->table, w, false, s->now);
    assert_ptr_equal(expect(s, CRTI_WORKER_SHUTDOWN), w);
    crti_worker_table_want(s->table, id(3), job, false, id(103), 1, 1, NULL, s->now);
    w = expect(s, CRTI_WORKER_SPAWN);
    crti_worker_table_forking(s->table, w, s->now);
    crti_worker_table_unwanted(s->table, id(103), s->now); /* cancelled meanwhile */
    assert_ptr_equal(expect(s, CRTI_WORKER_KILL), w);
}

static void a_broken_worker_is_not_used_again(void **state)
{
    scene_t *s = *state;
    crti_worker_t *w = bring_to(s, 1, CRTI_WORKER_LEASED);

    crti_worker_table_released(s->table, w, true, s->now);
    assert_ptr_equal(expect(s, CRTI_WORKER_SHUTDOWN), w);
    want(s, 2, false);
    expect(s, CRTI_WORKER_SPAWN);
}

static void a_worker_of_tasks_retires_when_it_has_answered(void **state)
{
    scene_t *s = *state;
    crti_worker_t *w = bring_to(s, 1, CRTI_WORKER_LEASED);

    crti_worker_table_retire(s->table, w, s->now);
    assert_ptr_equal(expect(s, CRTI_WORKER_RETIRE), w);
    assert_int_equal(w->state, CRTI_WORKER_RETIRING);
    assert_null(crti_worker_table_of(s->table, id(101)));
    want(s, 2, false);
    expect(s, CRTI_WORKER_SPAWN);
}

static void a_purpose_fails_once_when_its_worker_dies_before_it_was_assigned(void **state)
{
    static const crti_worker_state_t before[] = {CRTI_WORKER_WANTED, CRTI_WORKER_FORKING,
                                                 CRTI_WORKER_ATTACHED};
    scene_t *s = *state;

    for (uint64_t i = 0; i < 3; i++) {
        crti_worker_t *w = bring_to(s, i, before[i]);

        crti_worker_table_died(s->table, w, CRT_ERR_WORKER_DIED, "no library");
        expect(s, CRTI_WORKER_FAIL);
        assert_true(crti_id_equal(s->action.purpose, id(100 + i)));
        assert_int_equal(s->action.status, CRT_ERR_WORKER_DIED);
        assert_string_equal(s->action.text, "no library");
        expect_nothing(s);
    }
    assert_int_equal(crti_worker_table_count(s->table), 0);
}

static void a_purpose_that_was_assigned_does_not_fail_later(void **state)
{
    scene_t *s = *state;

    for (uint64_t i = 0; i < 2; i++) {
        crti_worker_t *w = bring_to(s, i, i ? CRTI_WORKER_ACTOR : CRTI_WORKER_LEASED);

        crti_worker_table_died(s->table, w, CRT_ERR_WORKER_DIED, "");
        expect_nothing(s);
        assert_null(crti_worker_table_of(s->table, id(100 + i)));
    }
}

static void a_worker_that_nobody_wants_any_more_idles_and_an_actors_ends(void **state)
{
    scene_t *s = *state;
    crti_worker_t *w = bring_to(s, 1, CRTI_WORKER_FORKING);

    crti_worker_table_unwanted(s->table, id(101), s->now);
    crti_worker_table_attached(s->table, w, s->now);
    assert_true(crti_worker_table_ready(s->table, w, s->now));
    expect_nothing(s);
    assert_int_equal(w->state, CRTI_WORKER_IDLE);
    w = want(s, 2, true);
    expect(s, CRTI_WORKER_SPAWN);
    crti_worker_table_forking(s->table, w, s->now);
    crti_worker_table_unwanted(s->table, id(102), s->now);
    expect(s, CRTI_WORKER_KILL);
    assert_false(crti_worker_table_attached(s->table, w, s->now));
    crti_worker_table_unwanted(s->table, id(999), s->now);
}

static void a_worker_that_is_being_made_for_nobody_serves_the_next_lease(void **state)
{
    static const crti_worker_state_t before[] = {CRTI_WORKER_FORKING,
                                                 CRTI_WORKER_ATTACHED};
    scene_t *s = *state;

    for (uint64_t i = 0; i < 2; i++) {
        crti_worker_t *w = bring_to(s, 10 * i, before[i]);

        crti_worker_table_unwanted(s->table, id(100 + 10 * i), s->now);
        want(s, 10 * i + 1, false);
        expect_nothing(s);
        if (w->state == CRTI_WORKER_FORKING)
            assert_true(crti_worker_table_attached(s->table, w, s->now));
        assert_true(crti_worker_table_ready(s->table, w, s->now));
        assert_ptr_equal(expect(s, CRTI_WORKER_ASSIGN), w);
        assert_true(crti_id_equal(s->action.purpose, id(100 + 10 * i + 1)));
        assert_int_equal(w->state, CRTI_WORKER_LEASED);
    }
    assert_int_equal(crti_worker_table_count(s->table), 2);
}

static void a_worker_that_is_not_made_yet_is_not_made_when_nobody_wants_it(void **state)
{
    scene_t *s = *state;
    crti_worker_t *w = want(s, 1, false);

    expect(s, CRTI_WORKER_SPAWN);
    w->io = s;
    crti_worker_table_unwanted(s->table, id(101), s->now);
    assert_ptr_equal(expect(s, CRTI_WORKER_DISCARD), w);
    want(s, 2, false);
    assert_ptr_not_equal(expect(s, CRTI_WORKER_SPAWN), w);
}

static void every_state_can_be_ended_and_then_dies(void **state)
{
    static const crti_worker_state_t all[] = {CRTI_WORKER_FORKING, CRTI_WORKER_ATTACHED,
                                              CRTI_WORKER_IDLE,    CRTI_WORKER_LEASED,
                                              CRTI_WORKER_ACTOR,   CRTI_WORKER_ENDING};
    scene_t *s = *state;

    for (uint64_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        crti_worker_t *w = bring_to(s, i, all[i]);

        crti_worker_table_end(s->table, w, false, s->now);
        if (all[i] == CRTI_WORKER_FORKING)
            expect(s, CRTI_WORKER_KILL); /* it has no link to hear SHUTDOWN on */
        else if (all[i] != CRTI_WORKER_ENDING)
            expect(s, CRTI_WORKER_SHUTDOWN);
        assert_int_equal(w->state, CRTI_WORKER_ENDING);
        crti_worker_table_died(s->table, w, CRT_OK, "");
        while (crti_worker_table_action(s->table, &s->action))
            assert_int_equal(s->action.verb, CRTI_WORKER_FAIL);
    }
    assert_int_equal(crti_worker_table_count(s->table), 0);
}

static void a_worker_that_was_not_begun_is_ended_without_a_process(void **state)
{
    scene_t *s = *state;
    crti_worker_t *w = want(s, 1, false);

    /* SPAWN was not carried out yet: it must not be, afterwards. */
    crti_worker_table_end(s->table, w, false, s->now);
    expect(s, CRTI_WORKER_FAIL);
    assert_int_equal(s->action.status, CRT_ERR_CANCELLED);
    expect_nothing(s);
}

static void a_worker_that_waits_for_its_program_is_discarded(void **state)
{
    scene_t *s = *state;
    crti_worker_t *w = bring_to(s, 1, CRTI_WORKER_WANTED);

    w->io = s; /* SPAWN was carried out */
    crti_worker_table_end(s->table, w, true, s->now);
    assert_ptr_equal(expect(s, CRTI_WORKER_DISCARD), w);
    crti_worker_table_end(s->table, w, true, s->now);
    expect_nothing(s);
    crti_worker_table_died(s->table, w, CRT_ERR_CANCELLED, "");
    expect(s, CRTI_WORKER_FAIL);
    expect_nothing(s);
}

static void too_many_idle_workers_end_after_their_time_oldest_first(void **state)
{
    scene_t *s = *state;
    crti_worker_t *w[4];
    uint64_t due;

    for (uint64_t i = 0; i < 4; i++)
        w[i] = bring_to(s, i, CRTI_WORKER_LEASED);
    for (uint64_t i = 0; i < 4; i++) {
        s->now += 10 * CRTI_MS;
        crti_worker_table_released(s->table, w[i], false, s->now);
    }
    due = crti_worker_table_tick(s->table, s->now);
    expect_nothing(s);
    assert_true(due > s->now && due < s->now + 120 * CRTI_S);
    s->now = due + CRTI_S;
    crti_worker_table_tick(s->table, s->now);
    assert_ptr_equal(expect(s, CRTI_WORKER_SHUTDOWN), w[0]);
    assert_ptr_equal(expect(s, CRTI_WORKER_SHUTDOWN), w[1]);
    expect_nothing(s); /* two are kept, however long */
}

static void a_worker_that_does_not_attach_or_end_in_time_is_killed(void **state)
{
    scene_t *s = *state;
    crti_worker_t *w = bring_to(s, 1, CRTI_WORKER_FORKING);
    uint64_t due = crti_worker_table_tick(s->table, s->now);

    expect_nothing(s);
    s->now = due;
    due = crti_worker_table_tick(s->table, s->now);
    assert_ptr_equal(expect(s, CRTI_WORKER_KILL), w);
    assert_true(due <= s->now + CRTI_S);
    s->now = due;
    crti_worker_table_tick(s->table, s->now);
    assert_ptr_equal(expect(s, CRTI_WORKER_KILL), w); /* again, as long as it is there */
    expect(s, CRTI_WORKER_FAIL);
    w = bring_to(s, 2, CRTI_WORKER_ENDING);
    s->now += CRTI_S;
    crti_worker_table_tick(s->table, s->now);
    expect(s, CRTI_WORKER_KILL);
}

static void a_purpose_fails_when_its_worker_can_not_be_ended(void **state)
{
    scene_t *s = *state;

    for (uint64_t i = 0; i < 2; i++) {
        bool is_actor = i == 1;
        crti_worker_t *w = want(s, i, is_actor), *next;

        expect(s, CRTI_WORKER_SPAWN);
        crti_worker_table_forking(s->table, w, s->now);
        s->now += 30 * CRTI_S;
        crti_worker_table_tick(s->table, s->now);
        assert_ptr_equal(expect(s, CRTI_WORKER_KILL), w);
        crti_worker_table_end(s->table, w, true, s->now); /* it was: no reason to hurry */
        crti_worker_table_tick(s->table, s->now);
        expect_nothing(s);
        s->now += CRTI_S;
        crti_worker_table_tick(s->table, s->now);
        assert_ptr_equal(expect(s, CRTI_WORKER_KILL), w);
        assert_null(expect(s, CRTI_WORKER_FAIL));
        assert_true(crti_id_equal(s->action.purpose, id(100 + i)));
        assert_int_equal(s->action.is_actor, is_actor);
        assert_int_equal(s->action.status, CRT_ERR_WORKER_DIED);
        expect_nothing(s);
        s->now += CRTI_S;
        crti_worker_table_tick(s->table, s->now);
        assert_ptr_equal(expect(s, CRTI_WORKER_KILL), w);
        expect_nothing(s);
        assert_false(crti_worker_table_attached(s->table, w, s->now)); /* too late */
        assert_int_equal(crti_worker_table_want(s->table, id(50 + i), job, is_actor,
                                                id(100 + i), 1, 0, NULL, s->now),
                         CRT_OK); /* tried again */
        next = expect(s, CRTI_WORKER_SPAWN);
        crti_worker_table_died(s->table, w, CRT_OK, "");
        expect_nothing(s);
        assert_ptr_equal(crti_worker_table_of(s->table, id(100 + i)), next);
        crti_worker_table_died(s->table, next, CRT_OK, "");
        expect(s, CRTI_WORKER_FAIL);
    }
}

static void ending_at_once_after_a_request_kills_at_the_next_tick(void **state)
{
    scene_t *s = *state;
    crti_worker_t *w = bring_to(s, 1, CRTI_WORKER_ENDING);

    crti_worker_table_end(s->table, w, true, s->now);
    crti_worker_table_tick(s->table, s->now);
    assert_ptr_equal(expect(s, CRTI_WORKER_KILL), w);
}

static void a_jobs_end_ends_its_workers_and_spares_actors_and_other_jobs(void **state)
{
    scene_t *s = *state;
    crti_worker_t *other;

    bring_to(s, 1, CRTI_WORKER_LEASED);
    bring_to(s, 2, CRTI_WORKER_ATTACHED);
    bring_to(s, 3, CRTI_WORKER_ACTOR);
    crti_worker_table_want(s->table, id(4), (crti_id_t){6, 6}, false, id(104), 1, 0, NULL,
                           s->now);
    other = expect(s, CRTI_WORKER_SPAWN);
    crti_worker_table_end_job(s->table, job, false, false, s->now);
    expect(s, CRTI_WORKER_SHUTDOWN);
    expect(s, CRTI_WORKER_SHUTDOWN);
    expect_nothing(s);
    crti_worker_table_end_job(s->table, job, true, true, s->now);
    assert_true(crti_id_equal(expect(s, CRTI_WORKER_KILL)->id, id(3)));
    assert_int_equal(other->state, CRTI_WORKER_WANTED);
}

static void an_actor_that_nobody_needs_has_30_s_to_answer_its_calls(void **state)
{
    scene_t *s = *state;
    crti_worker_t *w = bring_to(s, 1, CRTI_WORKER_ACTOR),
                  *young = bring_to(s, 2, CRTI_WORKER_ATTACHED);

    crti_worker_table_retire(s->table, young, s->now); /* it has no calls */
    assert_ptr_equal(expect(s, CRTI_WORKER_SHUTDOWN), young);
    crti_worker_table_died(s->table, young, CRT_ERR_CANCELLED, "");
    expect(s, CRTI_WORKER_FAIL);
    crti_worker_table_retire(s->table, w, s->now);
    assert_ptr_equal(expect(s, CRTI_WORKER_RETIRE), w);
    crti_worker_table_retire(s->table, w, s->now); /* told twice */
    expect_nothing(s);
    s->now += 29 * CRTI_S;
    crti_worker_table_tick(s->table, s->now);
    expect_nothing(s);
    s->now += 1 * CRTI_S;
    crti_worker_table_tick(s->table, s->now);
    assert_ptr_equal(expect(s, CRTI_WORKER_SHUTDOWN), w);
    s->now += 2 * CRTI_S;
    crti_worker_table_tick(s->table, s->now);
    assert_ptr_equal(expect(s, CRTI_WORKER_KILL), w);
}

static void messages_out_of_order_are_refused(void **state)
{
    scene_t *s = *state;
    crti_worker_t *w = bring_to(s, 1, CRTI_WORKER_FORKING);

    assert_false(crti_worker_table_ready(s->table, w, s->now));
    assert_true(crti_worker_table_attached(s->table, w, s->now));
    assert_false(crti_worker_table_attached(s->table, w, s->now));
    assert_true(crti_worker_table_ready(s->table, w, s->now));
    assert_false(crti_worker_table_ready(s->table, w, s->now));
    crti_worker_table_released(s->table, w, false, s->now);
    crti_worker_table_released(s->table, w, false, s->now);
    assert_int_equal(w->state, CRTI_WORKER_IDLE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_worker_is_spawned_attached_ready_and_assigned),
        TEST(a_returned_worker_takes_the_next_lease_of_its_job_and_shape_only),
        TEST(a_worker_serves_leases_with_its_own_environment_only),
        TEST(a_worker_with_gpus_serves_one_lease_and_ends),
        TEST(a_broken_worker_is_not_used_again),
        TEST(a_worker_of_tasks_retires_when_it_has_answered),
        TEST(a_purpose_fails_once_when_its_worker_dies_before_it_was_assigned),
        TEST(a_purpose_that_was_assigned_does_not_fail_later),
        TEST(a_worker_that_nobody_wants_any_more_idles_and_an_actors_ends),
        TEST(a_worker_that_is_being_made_for_nobody_serves_the_next_lease),
        TEST(a_worker_that_is_not_made_yet_is_not_made_when_nobody_wants_it),
        TEST(every_state_can_be_ended_and_then_dies),
        TEST(a_worker_that_was_not_begun_is_ended_without_a_process),
        TEST(a_worker_that_waits_for_its_program_is_discarded),
        TEST(too_many_idle_workers_end_after_their_time_oldest_first),
        TEST(a_worker_that_does_not_attach_or_end_in_time_is_killed),
        TEST(a_purpose_fails_when_its_worker_can_not_be_ended),
        TEST(ending_at_once_after_a_request_kills_at_the_next_tick),
        TEST(a_jobs_end_ends_its_workers_and_spares_actors_and_other_jobs),
        TEST(an_actor_that_nobody_needs_has_30_s_to_answer_its_calls),
        TEST(messages_out_of_order_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
