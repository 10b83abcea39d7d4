/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of tasks of placement groups that are removed. */
#include <setjmp.h>
#include <stdarg.h>

#include "alone.h"
#include "runtime/base/limit.h"
#include "runtime/core/process/timer.h"

#include "tests/fuzz/core_net.h"

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

static crt_ref_t *task_of(crt_placement_group_t *group)
{
    return alone_task(CRT_TASK_OPTIONS(CRT_IN_BUNDLE(group, 0), .num_cpus = 1));
}

/* Removed and dropped, with its task, while a lease is asked for. */
static void forsake(crt_placement_group_t *group, crt_ref_t *ref)
{
    assert_int_equal(crt_placement_group_remove(group), CRT_OK);
    crt_ref_drop(&ref);
    crt_placement_group_drop(&group);
    alone_tick(10 * CRTI_MS);
}

/* The daemon answers also what was cancelled. */
static void a_group_is_removed_and_the_task_that_waits_in_it_is_dropped(void **state)
{
    crti_core_t *core = *state;
    crt_placement_group_t *group = alone_group(1);
    crt_ref_t *ref = task_of(group);

    forsake(group, ref);
    assert_false(crti_list_is_empty(&core->calls->task_pools));
    assert_true(alone_refuse(CRT_ERR_CANCELLED));
    assert_true(core->timer->at_ns <= crti_now_ns());
    alone_tick(0);
    assert_true(crti_list_is_empty(&core->calls->task_pools));
}

static void a_worker_that_comes_too_late_for_a_removed_group_is_given_back(void **state)
{
    crti_core_t *core = *state;
    crt_placement_group_t *group = alone_group(1);
    crt_ref_t *ref = task_of(group);

    forsake(group, ref);
    assert_true(alone_grant(1));
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_CALL), 0);
    alone_tick(0);
    assert_true(crti_list_is_empty(&core->calls->task_pools));
}

static void a_removed_group_whose_worker_was_asked_for_ends_with_the_process(void **state)
{
    crti_core_t *core = *state;
    crt_placement_group_t *group = alone_group(1);
    crt_ref_t *ref = task_of(group);

    forsake(group, ref);
    assert_false(crti_list_is_empty(&core->calls->task_pools));
}

static crti_core_t *here;
static crt_placement_group_t *waits_in;
static bool is_kept;

/* While the program waits for room: the group is removed, and what waits in it fails. */
static void lose_group(crti_net_t *net)
{
    net->on_wait = NULL;
    crti_net_unlock(net);
    is_kept =
        crt_placement_group_remove(waits_in) == CRT_OK && alone_refuse(CRT_ERR_CANCELLED);
    alone_tick(10 * CRTI_MS);
    is_kept = is_kept && !crti_list_is_empty(&here->calls->task_pools);
    crti_net_lock(net);
}

static void who_waits_for_room_in_a_group_that_is_removed_hears_of_that(void **state)
{
    crti_core_t *core = *state;
    crti_limits_t usual = crti_limits_here, tight = usual;
    crt_ref_t *queued, *ref;

    here = core;
    tight.task_queue = 1;
    crti_limits_set(&tight);
    waits_in = alone_group(1);
    queued = task_of(waits_in);
    core->net->on_wait = lose_group;
    ref = task_of(waits_in);
    crti_limits_set(&usual);
    assert_true(is_kept);
    assert_int_equal(crt_get_for(queued, 0, NULL), CRT_ERR_CANCELLED);
    assert_int_equal(crt_get_for(ref, 0, NULL), CRT_ERR_UNSCHEDULABLE);
    crt_ref_drop(&queued);
    crt_ref_drop(&ref);
    crt_placement_group_drop(&waits_in);
    alone_tick(10 * CRTI_MS);
    assert_true(crti_list_is_empty(&core->calls->task_pools));
}

int main(void)
{
#define GROUP_TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)
    const struct CMUnitTest tests[] = {
        GROUP_TEST(a_group_is_removed_and_the_task_that_waits_in_it_is_dropped),
        GROUP_TEST(a_worker_that_comes_too_late_for_a_removed_group_is_given_back),
        GROUP_TEST(a_removed_group_whose_worker_was_asked_for_ends_with_the_process),
        GROUP_TEST(who_waits_for_room_in_a_group_that_is_removed_hears_of_that),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
