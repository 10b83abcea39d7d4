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

static const char *transfer(const char *json)
{
    crti_slow_text_transfer(json, 8 << 20, text, sizeof(text));
    return text;
}

static void a_transfer_is_told_with_how_far_it_is_and_its_rate(void **state)
{
    assert_string_equal(transfer("{\"how\":\"node\",\"came\":1572864,\"for_ms\":12000,"
                                 "\"from\":\"0123456789abcdef\"}"),
                        "1.5 of its 8.0 MiB have come from node 01234567 in 12.0 s, "
                        "0.12 MiB/s");
    assert_string_equal(transfer("{\"how\":\"room\",\"came\":0,\"for_ms\":12000}"),
                        "its 8388608 bytes are to be fetched, and the store has no room");
    assert_string_equal(transfer("{\"how\":\"disk\"}"),
                        "its 8388608 bytes are read from disk");
}

static void a_transfer_of_which_nothing_is_known_is_told_with_its_size(void **state)
{
    const char *plain = "its 8388608 bytes are fetched from another node";

    assert_string_equal(transfer("{}"), plain);
    assert_string_equal(transfer(NULL), plain);
    assert_string_equal(transfer("{\"how\":\"node\",\"came\":"), plain);
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
        cmocka_unit_test(a_transfer_is_told_with_how_far_it_is_and_its_rate),
        cmocka_unit_test(a_transfer_of_which_nothing_is_known_is_told_with_its_size),
        cmocka_unit_test(a_text_that_is_too_long_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
