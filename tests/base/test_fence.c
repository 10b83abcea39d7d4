/* SPDX-License-Identifier: Apache-2.0 */
/* When a fenced actor starts no calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/fence.h"

#include <cmocka.h>

static void
a_fence_shuts_four_seconds_after_the_last_heartbeat_that_was_answered(void **state)
{
    const uint64_t sent = 1000 * CRTI_S;

    assert_false(crti_fence_is_shut(sent, sent));
    assert_false(crti_fence_is_shut(sent, sent + 4 * CRTI_S - 1));
    assert_true(crti_fence_is_shut(sent, sent + 4 * CRTI_S));
    assert_true(crti_fence_is_shut(sent, UINT64_MAX));
}

static void a_fence_is_shut_before_the_head_has_answered_at_all(void **state)
{
    assert_true(crti_fence_is_shut(0, 0));
    assert_true(crti_fence_is_shut(0, CRTI_S));
}

static void
a_clock_read_before_the_heartbeat_was_sent_opens_nothing_for_ever(void **state)
{
    /* Two threads read it: the later value may be seen first. */
    assert_false(crti_fence_is_shut(10 * CRTI_S, 10 * CRTI_S - 1));
}

static void the_head_waits_longer_than_the_node(void **state)
{
    assert_true(CRTI_FENCE_OVER_NS >= CRTI_FENCE_NS + CRTI_S);
}

static void the_node_reads_a_clock_that_goes_on_in_sleep(void **state)
{
    struct timespec t;
    uint64_t before, after;

    assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &t), 0);
    before = (uint64_t)t.tv_sec * CRTI_S + (uint64_t)t.tv_nsec;
    after = crti_boot_ns();
    assert_true(after >= before && after - before < 60 * CRTI_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_fence_shuts_four_seconds_after_the_last_heartbeat_that_was_answered),
        cmocka_unit_test(a_fence_is_shut_before_the_head_has_answered_at_all),
        cmocka_unit_test(
            a_clock_read_before_the_heartbeat_was_sent_opens_nothing_for_ever),
        cmocka_unit_test(the_head_waits_longer_than_the_node),
        cmocka_unit_test(the_node_reads_a_clock_that_goes_on_in_sleep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
