/* SPDX-License-Identifier: Apache-2.0 */
/* Who is ended when the node runs out of memory: readings in, verdicts out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/clock.h"
#include "runtime/node/process/memory_watch.h"

#define MIB     ((uint64_t)1 << 20)
#define TOTAL   (10000 * MIB)
#define WORKERS 3

struct scene {
    crti_memory_watch_t watch;
    crti_memory_record_t records[WORKERS];
    crti_memory_worker_t workers[WORKERS];
    uint64_t now;
};

/* Three workers of 100 MiB that have just begun. */
static void begin(struct scene *s)
{
    *s = (struct scene){.now = CRTI_S};
    crti_memory_watch_init(&s->watch, 95);
    for (unsigned i = 0; i < WORKERS; i++) {
        s->workers[i] = (crti_memory_worker_t){&s->records[i], 100 * MIB, 1, true};
        crti_memory_watch_began(&s->watch, &s->workers[i]);
    }
}

static crti_memory_verdict_t read_at(struct scene *s, unsigned percent)
{
    s->now += CRTI_S;
    return crti_memory_watch_read(&s->watch, s->now, TOTAL / 100 * percent, TOTAL,
                                  s->workers, WORKERS);
}

static void below_the_limit_nobody_is_ended(void **state)
{
    struct scene s;

    begin(&s);
    s.workers[1].bytes = 9000 * MIB;
    assert_int_equal(read_at(&s, 60).verb, CRTI_MEMORY_NOTHING);
    assert_int_equal(s.watch.state, CRTI_MEMORY_CALM);
    assert_int_equal(read_at(&s, 94).verb, CRTI_MEMORY_NOTHING);
    assert_int_equal(s.watch.state, CRTI_MEMORY_WATCHING);
    assert_int_equal(read_at(&s, 60).verb, CRTI_MEMORY_NOTHING);
    assert_int_equal(s.watch.state, CRTI_MEMORY_CALM);
}

static void workers_are_read_only_when_it_gets_tight(void **state)
{
    struct scene s;

    begin(&s);
    assert_false(crti_memory_watch_wants(&s.watch, TOTAL / 100 * 69, TOTAL));
    assert_true(crti_memory_watch_wants(&s.watch, TOTAL / 100 * 70, TOTAL));
    read_at(&s, 70); /* once it was tight, not at every swing */
    assert_true(crti_memory_watch_wants(&s.watch, TOTAL / 100 * 66, TOTAL));
    assert_false(crti_memory_watch_wants(&s.watch, TOTAL / 100 * 64, TOTAL));
    assert_false(crti_memory_watch_wants(&s.watch, 0, 0)); /* nothing is known */
}

static void who_grew_in_its_call_is_ended_not_the_largest_or_newest(void **state)
{
    struct scene s;
    crti_memory_verdict_t v;

    begin(&s);
    s.workers[0].bytes = 5000 * MIB; /* a model, loaded long ago */
    assert_int_equal(read_at(&s, 72).verb, CRTI_MEMORY_NOTHING);
    s.workers[1].bytes = 2000 * MIB;
    crti_memory_watch_began(&s.watch, &s.workers[2]); /* the newest */
    v = read_at(&s, 95);
    assert_int_equal(v.verb, CRTI_MEMORY_END);
    assert_int_equal(v.worker, 1);
    assert_true(v.in_call);
    assert_int_equal(v.grown, 1900 * MIB);
}

static void growth_is_counted_from_the_call_that_runs(void **state)
{
    struct scene s;
    crti_memory_verdict_t v;

    begin(&s);
    read_at(&s, 72);
    s.workers[0].bytes = 3000 * MIB; /* in a call that ends */
    read_at(&s, 80);
    s.workers[0].call = 2;
    s.workers[1].bytes = 1000 * MIB;
    v = read_at(&s, 96);
    assert_int_equal(v.verb, CRTI_MEMORY_END);
    assert_int_equal(v.worker, 1);
    assert_int_equal(v.grown, 900 * MIB);
}

static void who_leaks_a_little_in_every_call_is_found(void **state)
{
    struct scene s;
    crti_memory_verdict_t v;

    begin(&s);
    for (unsigned i = 0; i < 80; i++) {
        s.workers[2].bytes += 50 * MIB;
        s.workers[2].call++;
        v = read_at(&s, 70 + i / 4);
        assert_int_equal(v.verb, CRTI_MEMORY_NOTHING);
    }
    v = read_at(&s, 97);
    assert_int_equal(v.verb, CRTI_MEMORY_END);
    assert_int_equal(v.worker, 2);
    assert_false(v.in_call);
    assert_int_equal(v.grown, 4000 * MIB);
}

static void who_grew_before_anybody_looked_is_found(void **state)
{
    struct scene s;
    crti_memory_verdict_t v;

    begin(&s);
    s.workers[1].bytes = 9000 * MIB; /* between two readings */
    v = read_at(&s, 99);
    assert_int_equal(v.verb, CRTI_MEMORY_END);
    assert_int_equal(v.worker, 1);
    assert_int_equal(v.grown, 8900 * MIB);
}

static void a_worker_that_begins_anew_is_not_blamed_for_what_it_had(void **state)
{
    struct scene s;

    begin(&s);
    s.workers[0].bytes = 4000 * MIB; /* kept by malloc from an earlier task */
    crti_memory_watch_began(&s.watch, &s.workers[0]);
    s.workers[1].bytes = 1000 * MIB;
    assert_int_equal(read_at(&s, 96).worker, 1);
}

static void of_two_that_grew_alike_the_larger_is_ended(void **state)
{
    struct scene s;

    begin(&s);
    s.workers[1].bytes = 600 * MIB;
    crti_memory_watch_began(&s.watch, &s.workers[1]);
    s.workers[0].bytes += 500 * MIB;
    s.workers[1].bytes += 500 * MIB;
    assert_int_equal(read_at(&s, 96).worker, 1);
}

static void without_growth_nobody_is_ended_and_it_is_said_once(void **state)
{
    struct scene s;

    begin(&s);
    assert_int_equal(read_at(&s, 98).verb, CRTI_MEMORY_WARN);
    assert_int_equal(read_at(&s, 98).verb, CRTI_MEMORY_NOTHING);
    assert_int_equal(read_at(&s, 90).verb, CRTI_MEMORY_NOTHING);
    assert_int_equal(read_at(&s, 98).verb, CRTI_MEMORY_WARN); /* again: a new time */
    s.workers[0].bytes += 1000 * MIB;
    assert_int_equal(read_at(&s, 98).verb, CRTI_MEMORY_END);
    begin(&s);
    s.now += CRTI_S;
    assert_int_equal(crti_memory_watch_read(&s.watch, s.now, TOTAL, TOTAL, NULL, 0).verb,
                     CRTI_MEMORY_WARN); /* there are no workers */
}

static void the_next_one_waits_until_the_first_is_gone(void **state)
{
    struct scene s;
    crti_memory_verdict_t v;

    begin(&s);
    s.workers[0].bytes = 4000 * MIB;
    s.workers[1].bytes = 5000 * MIB;
    v = read_at(&s, 97);
    assert_int_equal(v.verb, CRTI_MEMORY_END);
    assert_int_equal(v.worker, 1);
    assert_int_equal(read_at(&s, 97).verb, CRTI_MEMORY_NOTHING);
    s.workers[1].bytes = 0;
    crti_memory_watch_gone(&s.watch);
    assert_int_equal(read_at(&s, 80).verb, CRTI_MEMORY_NOTHING); /* that was enough */
    v = read_at(&s, 97);
    assert_int_equal(v.verb, CRTI_MEMORY_END);
    assert_int_equal(v.worker, 0);
}

/* The kernel killed it, and what it had is still counted. */
static void while_one_is_dying_no_other_is_ended(void **state)
{
    struct scene s;
    crti_memory_verdict_t v;

    begin(&s);
    s.workers[0].bytes = 4000 * MIB;
    s.workers[1].bytes = 5000 * MIB;
    assert_int_equal(read_at(&s, 80).verb, CRTI_MEMORY_NOTHING);
    s.workers[0].bytes = 4800 * MIB;
    s.workers[1].bytes = 0;
    v = read_at(&s, 100);
    assert_int_equal(v.verb, CRTI_MEMORY_AWAIT);
    assert_int_equal(v.worker, 1);
    assert_int_equal(read_at(&s, 100).verb, CRTI_MEMORY_NOTHING);
    crti_memory_watch_gone(&s.watch);
    assert_int_equal(read_at(&s, 60).verb, CRTI_MEMORY_NOTHING);
}

/* Who never showed any memory (/proc is hidden) is not taken for one that dies, and who dies for
 * ever is waited for once. */
static void the_dying_are_waited_for_once(void **state)
{
    struct scene s;
    unsigned turns = 0;

    begin(&s);
    s.workers[2].bytes = 0;
    crti_memory_watch_began(&s.watch, &s.workers[2]);
    s.workers[0].bytes = 4000 * MIB;
    s.workers[1].bytes = 0;
    assert_int_equal(read_at(&s, 97).verb, CRTI_MEMORY_AWAIT);
    while (read_at(&s, 97).verb != CRTI_MEMORY_END)
        assert_in_range(++turns, 1, 10);
}

static void a_worker_that_does_not_go_does_not_save_the_others(void **state)
{
    struct scene s;
    unsigned turns = 0;

    begin(&s);
    s.workers[0].bytes = 4000 * MIB;
    assert_int_equal(read_at(&s, 97).verb, CRTI_MEMORY_END);
    while (read_at(&s, 97).verb == CRTI_MEMORY_NOTHING)
        turns++;
    assert_int_equal(turns, 4); /* 5 s */
    crti_memory_watch_gone(&s.watch);
    crti_memory_watch_gone(&s.watch); /* late: nothing more */
    assert_int_equal(s.watch.state, CRTI_MEMORY_WATCHING);
}

static void the_less_is_left_the_sooner_it_is_read_again(void **state)
{
    struct scene s;
    crti_memory_verdict_t v;

    begin(&s);
    v = read_at(&s, 10);
    assert_int_equal(v.next_ns - s.now, CRTI_S);
    v = read_at(&s, 80); /* 1.5 of 10 GB are left */
    assert_in_range(v.next_ns - s.now, 300 * CRTI_MS, 500 * CRTI_MS);
    v = read_at(&s, 94);
    assert_int_equal(v.next_ns - s.now, 100 * CRTI_MS);
    v = read_at(&s, 99);
    assert_int_equal(v.next_ns - s.now, 100 * CRTI_MS);
}

static void a_limit_of_zero_ends_nobody(void **state)
{
    struct scene s;

    begin(&s);
    crti_memory_watch_init(&s.watch, 0);
    s.workers[0].bytes = 9000 * MIB;
    assert_int_equal(read_at(&s, 100).verb, CRTI_MEMORY_NOTHING);
    assert_false(crti_memory_watch_wants(&s.watch, TOTAL, TOTAL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(below_the_limit_nobody_is_ended),
        cmocka_unit_test(workers_are_read_only_when_it_gets_tight),
        cmocka_unit_test(who_grew_in_its_call_is_ended_not_the_largest_or_newest),
        cmocka_unit_test(growth_is_counted_from_the_call_that_runs),
        cmocka_unit_test(who_leaks_a_little_in_every_call_is_found),
        cmocka_unit_test(who_grew_before_anybody_looked_is_found),
        cmocka_unit_test(a_worker_that_begins_anew_is_not_blamed_for_what_it_had),
        cmocka_unit_test(of_two_that_grew_alike_the_larger_is_ended),
        cmocka_unit_test(without_growth_nobody_is_ended_and_it_is_said_once),
        cmocka_unit_test(the_next_one_waits_until_the_first_is_gone),
        cmocka_unit_test(while_one_is_dying_no_other_is_ended),
        cmocka_unit_test(the_dying_are_waited_for_once),
        cmocka_unit_test(a_worker_that_does_not_go_does_not_save_the_others),
        cmocka_unit_test(the_less_is_left_the_sooner_it_is_read_again),
        cmocka_unit_test(a_limit_of_zero_ends_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
