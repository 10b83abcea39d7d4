/* SPDX-License-Identifier: Apache-2.0 */
/* Watches of actors: as events of a wait set, as refs, and as calls of another actor. Nodes:
 * test_node_ends.py. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <crt_watch.h>

#include "ok.h"

#define PATIENCE_MS 60000
#define UNKNOWN     "0123456789abcdef0123456789abcdef"

/* ---------------------------------------------------------------- in the workers */

struct victim {
    int64_t calls;
};

CRT_DEFINE_ACTOR(victim, struct victim)
{
    self->calls = 0;
    return CRT_OK;
}

CRT_DEFINE_METHOD(victim, touch)
{
    return crt_return(call, ++self->calls);
}

CRT_DEFINE_METHOD(victim, crash)
{
    raise(SIGKILL);
    return CRT_OK;
}

/* Counts what it hears, and looks after others itself. */
struct keeper {
    int64_t restarts, ends, others;
    char last[33], text[200];
};

CRT_DEFINE_ACTOR(keeper, struct keeper)
{
    *self = (struct keeper){.restarts = 0};
    return CRT_OK;
}

CRT_DEFINE_METHOD(keeper, hear, (crt_notice_t, notice, crt_notice_t_type))
{
    if (notice.kind == CRT_EVENT_ACTOR_RESTART)
        self->restarts += (int64_t)notice.count;
    else if (notice.kind == CRT_EVENT_ACTOR_END)
        self->ends++;
    else
        self->others++;
    snprintf(self->last, sizeof(self->last), "%s", notice.actor_id);
    snprintf(self->text, sizeof(self->text), "%s %s", crt_status_name(notice.status),
             notice.text);
    return CRT_OK;
}

CRT_DEFINE_METHOD(keeper, watch, (crt_actor_t *, whom))
{
    crt_actor_t *own;

    CRT_TRY(crt_actor_self(call, &own));
    CRT_TRY(crt_actor_watch(whom, own, &keeper_hear));
    crt_actor_drop(&own);
    return CRT_OK;
}

CRT_DEFINE_METHOD(keeper, say)
{
    char text[300];

    snprintf(text, sizeof(text), "%lld %lld %lld %s %s", (long long)self->restarts,
             (long long)self->ends, (long long)self->others, self->last, self->text);
    return crt_return(call, text);
}

CRT_DEFINE_METHOD(keeper, fall)
{
    raise(SIGKILL);
    return CRT_OK;
}

/* The status of a notice that it gets as the value of a ref. */
CRT_DEFINE_TASK(status_of, (crt_notice_t, notice, crt_notice_t_type))
{
    return crt_return(call, (int64_t)notice.status);
}

/* By a handle of which this process knows nothing but the place. */
CRT_DEFINE_TASK(restarts_of, (crt_actor_t *, whom), (int64_t, beyond))
{
    crt_ref_t *ref = crt_actor_restarted(whom, (uint64_t)beyond);
    crt_notice_t notice;

    CRT_TRY(crt_get_typed(ref, 60000, &crt_notice_t_type, &notice));
    crt_ref_drop(&ref);
    return crt_return(call, (int64_t)notice.restarts);
}

/* ---------------------------------------------------------------- in the tests */

static crt_waitset_t *new_set(void)
{
    crt_waitset_t *set = NULL;

    OK(crt_waitset_new(&set));
    return set;
}

static crt_actor_t *new_victim(int64_t max_restarts)
{
    crt_actor_t *actor = victim_new(CRT_ACTOR_OPTIONS(.max_restarts = max_restarts));

    OK(crt_actor_ready(actor, PATIENCE_MS));
    return actor;
}

static void touch(crt_actor_t *actor)
{
    crt_ref_t *ref = victim_touch_call(actor, NULL);

    OK(crt_get_for(ref, PATIENCE_MS, NULL));
    crt_ref_drop(&ref);
}

static void crash(crt_actor_t *actor)
{
    crt_ref_t *ref = victim_crash_call(actor, NULL);

    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_ACTOR_DIED);
    crt_ref_drop(&ref);
}

static void next_is(crt_waitset_t *set, crt_event_kind_t kind, uint64_t count,
                    uint64_t restarts, const char *text)
{
    crt_event_t event = CRT_EVENT_INIT;

    OK(crt_waitset_next(set, PATIENCE_MS, &event));
    assert_int_equal(event.kind, kind);
    assert_int_equal(event.status, CRT_ERR_ACTOR_DIED);
    assert_int_equal(event.count, count);
    assert_int_equal(event.restarts, restarts);
    assert_non_null(event.actor);
    if (!strstr(event.text, text))
        fail_msg("\"%s\" has no \"%s\"", event.text, text);
    crt_event_drop(&event);
}

static void nothing_comes(crt_waitset_t *set)
{
    crt_event_t event = CRT_EVENT_INIT;

    assert_int_equal(crt_waitset_next(set, 0, &event), CRT_ERR_TIMED_OUT);
}

static crt_notice_t notice_of(crt_ref_t *ref)
{
    crt_notice_t notice;

    OK(crt_get_typed(ref, PATIENCE_MS, &crt_notice_t_type, &notice));
    return notice;
}

/* Until what it says begins so. */
static void keeper_says(crt_actor_t *ear, const char *wanted)
{
    const char *said = "";

    for (int i = 0; i < 3000; i++) {
        crt_ref_t *ref = keeper_say_call(ear, NULL);
        bool is_it;

        OK(crt_get_for(ref, PATIENCE_MS, &said));
        is_it = strncmp(said, wanted, strlen(wanted)) == 0;
        if (!is_it && i == 2999)
            fail_msg("it says \"%s\", not \"%s\"", said, wanted);
        crt_ref_drop(&ref);
        if (is_it)
            return;
    }
}

/* ---------------------------------------------------------------- events */

static void each_restart_is_an_event_and_the_end_is_the_last(void **state)
{
    crt_waitset_t *set = new_set();
    crt_actor_t *actor = new_victim(2);

    OK(crt_waitset_add_actor_watch(set, actor, NULL));
    nothing_comes(set);
    for (uint64_t i = 1; i <= 2; i++) {
        crash(actor);
        next_is(set, CRT_EVENT_ACTOR_RESTART, 1, i, "signal 9");
        touch(actor);
        nothing_comes(set);
    }
    crash(actor);
    next_is(set, CRT_EVENT_ACTOR_END, 0, 2, "signal 9");
    assert_int_equal(crt_waitset_count(set), 0);
    crt_actor_drop(&actor);
    crt_waitset_drop(&set);
}

static void
restarts_that_were_not_looked_at_are_one_event_that_has_their_number(void **state)
{
    crt_waitset_t *set = new_set();
    crt_actor_t *actor = new_victim(CRT_UNLIMITED);
    int mine;

    OK(crt_waitset_add_actor_watch(set, actor, NULL));
    OK(crt_waitset_add_actor_watch(set, actor, &mine)); /* a watch of its own */
    for (uint64_t i = 0; i < 3; i++) {
        crt_ref_t *restarted = crt_actor_restarted(actor, i);

        OK(crt_actor_kill(actor, CRT_KILL_OPTIONS(.restart = true)));
        assert_int_equal(notice_of(restarted).restarts, i + 1);
        crt_ref_drop(&restarted);
        touch(actor);
    }
    OK(crt_actor_kill(actor, NULL));
    OK(crt_waitset_remove(set, &mine));
    next_is(set, CRT_EVENT_ACTOR_RESTART, 3, 3, "");
    next_is(set, CRT_EVENT_ACTOR_END, 0, 3, "killed by crt_actor_kill");
    crt_actor_drop(&actor);
    crt_waitset_drop(&set);
}

static void a_watch_of_a_dead_actor_fires_at_once(void **state)
{
    crt_waitset_t *set = new_set();
    crt_actor_t *actor = new_victim(0), *ear = keeper_new(NULL);
    crt_ref_t *ended, *restarted;
    char wanted[64];

    OK(crt_actor_kill(actor, NULL));
    ended = crt_actor_ended(actor);
    OK(crt_get_for(ended, PATIENCE_MS, NULL));
    OK(crt_waitset_add_actor_watch(set, actor, NULL));
    next_is(set, CRT_EVENT_ACTOR_END, 0, 0, "killed by crt_actor_kill");
    restarted = crt_actor_restarted(actor, 7);
    assert_int_equal(notice_of(restarted).kind, CRT_EVENT_ACTOR_END);
    OK(crt_actor_watch(actor, ear, &keeper_hear));
    snprintf(wanted, sizeof(wanted), "0 1 0 %s CRT_ERR_ACTOR_DIED", crt_actor_id(actor));
    keeper_says(ear, wanted);
    assert_int_equal(crt_unwatch(crt_actor_id(actor), ear), CRT_ERR_NOT_FOUND);
    crt_ref_drop(&ended);
    crt_ref_drop(&restarted);
    crt_actor_drop(&actor);
    crt_actor_drop(&ear);
    crt_waitset_drop(&set);
}

static void ten_thousand_watches_are_told_each(void **state)
{
    enum { MANY = 10000 };
    crt_waitset_t *set = new_set();
    crt_event_t event = CRT_EVENT_INIT;
    crt_actor_t *actor = new_victim(1);
    int restarts = 0, ends = 0;

    for (int i = 0; i < MANY; i++)
        OK(crt_waitset_add_actor_watch(set, actor, NULL));
    crash(actor);
    touch(actor);
    crash(actor);
    while (crt_waitset_next(set, PATIENCE_MS, &event) == CRT_OK) {
        restarts += event.kind == CRT_EVENT_ACTOR_RESTART;
        ends += event.kind == CRT_EVENT_ACTOR_END;
    }
    assert_int_equal(restarts, MANY);
    assert_int_equal(ends, MANY);
    crt_actor_drop(&actor);
    crt_waitset_drop(&set);
}

/* ---------------------------------------------------------------- refs */

static void the_end_of_an_actor_is_a_ref_that_calls_can_wait_for(void **state)
{
    crt_actor_t *actor = new_victim(0);
    crt_ref_t *ended = crt_actor_ended(actor), *same = crt_actor_ended(actor);
    crt_ref_t *status = crt_submit(&status_of, NULL, ended);
    crt_notice_t notice;
    int64_t number;

    assert_ptr_equal(ended, same);
    assert_int_equal(crt_get_for(ended, 0, NULL), CRT_ERR_TIMED_OUT);
    crash(actor);
    notice = notice_of(ended);
    assert_int_equal(notice.kind, CRT_EVENT_ACTOR_END);
    assert_int_equal(notice.status, CRT_ERR_ACTOR_DIED);
    assert_string_equal(notice.actor_id, crt_actor_id(actor));
    assert_string_equal(notice.node_id, "");
    assert_non_null(strstr(notice.text, "signal 9"));
    OK(crt_get_for(status, PATIENCE_MS, &number));
    assert_int_equal(number, CRT_ERR_ACTOR_DIED);
    crt_ref_drop(&ended);
    crt_ref_drop(&same);
    crt_ref_drop(&status);
    crt_actor_drop(&actor);
}

static void no_restart_is_missed_between_two_refs(void **state)
{
    crt_actor_t *actor = new_victim(3);
    uint64_t seen = 0;

    for (int i = 0; i < 3; i++) {
        crt_ref_t *ref = crt_actor_restarted(actor, seen);
        crt_notice_t notice;

        crash(actor);
        notice = notice_of(ref);
        assert_int_equal(notice.kind, CRT_EVENT_ACTOR_RESTART);
        assert_int_equal(notice.restarts, ++seen);
        crt_ref_drop(&ref);
    }
    touch(actor);
    crash(actor);
    for (int i = 0; i < 2; i++) { /* the second is of a dead one */
        crt_ref_t *ref = crt_actor_restarted(actor, seen);

        assert_int_equal(notice_of(ref).kind, CRT_EVENT_ACTOR_END);
        crt_ref_drop(&ref);
    }
    crt_actor_drop(&actor);
}

static void
restarts_of_before_are_told_at_once_also_to_who_has_just_heard_of_the_actor(void **state)
{
    crt_actor_t *actor = new_victim(3);
    crt_ref_t *ref;
    int64_t restarts;

    for (uint64_t i = 0; i < 2; i++) {
        ref = crt_actor_restarted(actor, i);
        crash(actor);
        OK(crt_get_for(ref, PATIENCE_MS, NULL));
        crt_ref_drop(&ref);
        touch(actor);
    }
    for (uint64_t i = 0; i < 2; i++) {
        ref = crt_actor_restarted(actor, i);
        assert_int_equal(notice_of(ref).restarts, 2);
        assert_int_equal(notice_of(ref).count, 2 - i);
        crt_ref_drop(&ref);
    }
    ref = crt_submit(&restarts_of, NULL, actor, 1);
    OK(crt_get_for(ref, PATIENCE_MS, &restarts));
    assert_int_equal(restarts, 2);
    crt_ref_drop(&ref);
    crt_actor_drop(&actor);
}

static void refs_that_were_dropped_leave_the_others_as_they_are(void **state)
{
    crt_actor_t *actor = new_victim(0);
    crt_ref_t *kept = crt_actor_ended(actor);

    for (uint64_t i = 0; i < 5000; i++) {
        crt_ref_t *ref = crt_actor_restarted(actor, i);

        crt_ref_drop(&ref);
    }
    OK(crt_actor_kill(actor, NULL));
    assert_int_equal(notice_of(kept).kind, CRT_EVENT_ACTOR_END);
    crt_ref_drop(&kept);
    crt_actor_drop(&actor);
}

/* ---------------------------------------------------------------- calls */

static void an_actor_hears_of_restarts_and_of_the_end_by_calls(void **state)
{
    crt_actor_t *actor = new_victim(1), *ear = keeper_new(NULL);
    crt_ref_t *ref = keeper_watch_call(ear, NULL, actor);
    char wanted[64];

    OK(crt_get_for(ref, PATIENCE_MS, NULL));
    crt_ref_drop(&ref);
    OK(crt_actor_watch(actor, ear, &keeper_hear)); /* this process tells it, too */
    crash(actor);
    keeper_says(ear, "2 0 0");
    touch(actor);
    crash(actor);
    snprintf(wanted, sizeof(wanted), "2 2 0 %s CRT_ERR_ACTOR_DIED", crt_actor_id(actor));
    keeper_says(ear, wanted);
    crt_actor_drop(&actor);
    crt_actor_drop(&ear);
}

static void a_watch_that_was_ended_tells_nothing(void **state)
{
    crt_actor_t *actor = new_victim(0), *other = new_victim(0);
    crt_actor_t *ear = keeper_new(NULL);

    for (int i = 0; i < 2; i++)
        OK(crt_actor_watch(actor, ear, &keeper_hear));
    OK(crt_actor_watch(other, ear, &keeper_hear));
    OK(crt_unwatch(crt_actor_id(actor), ear));
    assert_int_equal(crt_unwatch(crt_actor_id(actor), ear), CRT_ERR_NOT_FOUND);
    OK(crt_actor_kill(actor, NULL));
    OK(crt_actor_kill(other, NULL));
    keeper_says(ear, "0 1 0");
    crt_actor_drop(&actor);
    crt_actor_drop(&other);
    crt_actor_drop(&ear);
}

static void a_watch_ends_with_who_hears(void **state)
{
    crt_actor_t *actor = new_victim(0), *ear = keeper_new(NULL);
    crt_ref_t *fall, *ended;

    OK(crt_actor_watch(actor, ear, &keeper_hear));
    fall = keeper_fall_call(ear, NULL);
    assert_int_equal(crt_get_for(fall, PATIENCE_MS, NULL), CRT_ERR_ACTOR_DIED);
    crt_ref_drop(&fall);
    ended = crt_actor_ended(ear);
    OK(crt_get_for(ended, PATIENCE_MS, NULL));
    crt_ref_drop(&ended);
    assert_int_equal(crt_unwatch(crt_actor_id(actor), ear), CRT_ERR_NOT_FOUND);
    OK(crt_actor_watch(actor, ear, &keeper_hear)); /* and so does a new one */
    OK(crt_actor_kill(actor, NULL));
    crt_actor_drop(&actor);
    crt_actor_drop(&ear);
}

/* ---------------------------------------------------------------- what is wrong */

static void what_can_not_be_watched_is_refused(void **state)
{
    crt_waitset_t *set = new_set();
    crt_actor_t *actor = new_victim(0), *ear = keeper_new(NULL);
    crt_ref_t *refs[3] = {crt_actor_ended(NULL), crt_actor_restarted(NULL, 1),
                          crt_node_ended("node")};
    crt_ref_t *number = crt_put(1);
    const crt_value_t *value;
    crt_notice_t notice;

    for (int i = 0; i < 3; i++)
        assert_int_equal(crt_get_for(refs[i], 0, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_waitset_add_actor_watch(set, NULL, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_waitset_add_node_watch(set, "node", NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_actor_watch(actor, NULL, &keeper_hear), CRT_ERR_INVALID);
    assert_int_equal(crt_actor_watch(NULL, ear, &keeper_hear), CRT_ERR_INVALID);
    assert_int_equal(crt_actor_watch(actor, ear, &victim_touch), CRT_ERR_INVALID);
    assert_int_equal(crt_node_watch("node", ear, &keeper_hear), CRT_ERR_INVALID);
    assert_int_equal(crt_unwatch("node", ear), CRT_ERR_INVALID);
    OK(crt_get_for(number, PATIENCE_MS, &value));
    assert_int_equal(crt_notice_read(value, sizeof(notice), &notice), CRT_ERR_INVALID);
    assert_int_equal(crt_notice_read(NULL, sizeof(notice), &notice), CRT_ERR_INVALID);
    assert_int_equal(crt_notice_read(value, 8, &notice), CRT_ERR_INVALID);
    crt_refs_drop(refs, 3);
    crt_ref_drop(&number);
    crt_actor_drop(&actor);
    crt_actor_drop(&ear);
    crt_waitset_drop(&set);
}

static void a_node_that_nobody_knows_has_ended(void **state)
{
    crt_ref_t *ended = crt_node_ended(UNKNOWN), *here = crt_node_ended(crt_node_id());
    crt_notice_t notice = notice_of(ended);

    assert_int_equal(notice.kind, CRT_EVENT_NODE_END);
    assert_int_equal(notice.status, CRT_ERR_NOT_FOUND);
    assert_string_equal(notice.node_id, UNKNOWN);
    assert_int_equal(crt_get_for(here, 0, NULL), CRT_ERR_TIMED_OUT);
    crt_ref_drop(&ended);
    crt_ref_drop(&here);
}

/* The last test: watches of all kinds go on. */
static void a_shutdown_ends_all_watches(void **state)
{
    crt_waitset_t *set = new_set();
    crt_actor_t *actor = new_victim(1), *ear = keeper_new(NULL);
    crt_ref_t *ended = crt_actor_ended(actor);

    OK(crt_waitset_add_actor_watch(set, actor, NULL));
    OK(crt_waitset_add_node_watch(set, crt_node_id(), NULL));
    OK(crt_actor_watch(actor, ear, &keeper_hear));
    OK(crt_node_watch(crt_node_id(), ear, &keeper_hear));
    OK(crt_shutdown());
    assert_int_equal(crt_get_for(ended, 0, NULL), CRT_ERR_CLOSED);
    crt_ref_drop(&ended);
    crt_actor_drop(&actor);
    crt_actor_drop(&ear);
    crt_waitset_drop(&set);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_restart_is_an_event_and_the_end_is_the_last),
        cmocka_unit_test(
            restarts_that_were_not_looked_at_are_one_event_that_has_their_number),
        cmocka_unit_test(a_watch_of_a_dead_actor_fires_at_once),
        cmocka_unit_test(ten_thousand_watches_are_told_each),
        cmocka_unit_test(the_end_of_an_actor_is_a_ref_that_calls_can_wait_for),
        cmocka_unit_test(no_restart_is_missed_between_two_refs),
        cmocka_unit_test(
            restarts_of_before_are_told_at_once_also_to_who_has_just_heard_of_the_actor),
        cmocka_unit_test(refs_that_were_dropped_leave_the_others_as_they_are),
        cmocka_unit_test(an_actor_hears_of_restarts_and_of_the_end_by_calls),
        cmocka_unit_test(a_watch_that_was_ended_tells_nothing),
        cmocka_unit_test(a_watch_ends_with_who_hears),
        cmocka_unit_test(what_can_not_be_watched_is_refused),
        cmocka_unit_test(a_node_that_nobody_knows_has_ended),
        cmocka_unit_test(a_shutdown_ends_all_watches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

CRT_MAIN(driver)
