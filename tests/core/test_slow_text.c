/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of calls and actors that are waited for for long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/core/client/slow_text.h"

static char text[512];

static const char *call(const char *json)
{
    crti_slow_text_call(json, 1763700003200, text, sizeof(text));
    return text;
}

static const char *actor(const char *json)
{
    crti_slow_text_actor(json, text, sizeof(text));
    return text;
}

static void a_call_that_runs_is_told_with_its_time_and_its_process(void **state)
{
    assert_string_equal(
        call("{\"tasks\":[{\"state\":\"RUNNING\",\"node_id\":\"0123456789abcdef\","
             "\"worker_pid\":17,\"events\":{\"RUNNING\":1763700000000.125}}]}"),
        "it has run for 3.2 s in process 17 of node 01234567");
}

static void a_call_that_waits_in_its_process_is_told_with_that(void **state)
{
    assert_string_equal(call("{\"tasks\":[{\"state\":\"SUBMITTED_TO_WORKER\",\"node_id\":"
                             "\"0123456789abcdef\",\"worker_pid\":17}]}"),
                        "it waits for its turn in process 17 of node 01234567");
}

static void a_call_of_which_the_head_knows_nothing_is_told_so(void **state)
{
    assert_string_equal(call("{\"tasks\":[],\"total\":0}"),
                        "it was sent to a worker, which has not told of it");
    assert_string_equal(call(""), "it was sent to a worker, which has not told of it");
    assert_string_equal(call("{\"state\":\"RUNNING\",\"RUNNING\":"),
                        "it was sent to a worker, which has not told of it");
}

static void an_actor_is_told_with_its_state_and_reason(void **state)
{
    assert_string_equal(actor("[{\"class_name\":\"Co\\\"unter\",\"state\":\"PENDING\","
                              "\"message\":\"needs 3 CPU, the cluster has 2\"}]"),
                        "actor Co\"unter is PENDING: needs 3 CPU, the cluster has 2");
    assert_string_equal(
        actor("[{\"class_name\":\"C\",\"state\":\"ALIVE\",\"message\":\"\"}]"),
        "actor C is ALIVE");
    assert_string_equal(actor("[]"), "the head does not know its actor");
}

static void a_text_that_is_too_long_is_cut(void **state)
{
    char small[12];

    crti_slow_text_actor("[{\"class_name\":\"Counter\",\"state\":\"ALIVE\"}]", small,
                         sizeof(small));
    assert_string_equal(small, "actor Count");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_that_runs_is_told_with_its_time_and_its_process),
        cmocka_unit_test(a_call_that_waits_in_its_process_is_told_with_that),
        cmocka_unit_test(a_call_of_which_the_head_knows_nothing_is_told_so),
        cmocka_unit_test(an_actor_is_told_with_its_state_and_reason),
        cmocka_unit_test(a_text_that_is_too_long_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
