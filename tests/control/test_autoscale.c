/* SPDX-License-Identifier: Apache-2.0 */
/* The autoscaler at the head: what it sees of the tables, what becomes of its orders, and what is
 * told. Which nodes it wants: test_autoscaler.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/control/autoscale/autoscaler.h"
#include "tests/control/control_test.h"

#define IDLE_NS  (10 * CRTI_S)
#define START_NS (60 * CRTI_S)
#define LINK     30 /* of a node that was asked for */

static crti_node_type_t type = {.name = "small", .max = 3};
static const crti_scale_config_t config = {.types = &type,
                                           .type_count = 1,
                                           .idle_ns = IDLE_NS,
                                           .start_ns = START_NS,
                                           .up = 1,
                                           .down = 1};

/* A bed whose head scales; node 1 has joined it, and what the provider has is known. */
static int begin(void **state)
{
    bed_t *bed = bed_new();
    crti_provider_answer_t listed = {
        .verb = CRTI_PROVIDER_LIST, .is_done = true, .text = ""};

    type.resources.count = 0;
    crti_resources_set(&type.resources, "CPU", 2 * CRTI_RESOURCE_ONE);
    bed->autoscale = &config;
    bed_restart(bed, true);
    bed_join(bed, NODE_A, 1, 1, 0, NULL, NULL);
    bed_add_job(bed, NODE_A, 1, 5);
    crti_control_opened(bed->control, ADMIN, true, bed->now);
    bed_pass(bed, CRTI_S);
    assert_int_equal(bed->order_count, 1);
    assert_int_equal(bed->orders[0].verb, CRTI_PROVIDER_LIST);
    crti_control_scaled(bed->control, &listed, bed->now);
    bed->order_count = 0;
    bed_forget(bed);
    *state = bed;
    return 0;
}

static void beat(bed_t *bed, uint64_t link, double cpus, bool is_busy)
{
    crti_msg_heartbeat_t m = {.sequence = 1, .is_busy = is_busy};

    crti_resources_set(&m.available, "CPU", (int64_t)(cpus * CRTI_RESOURCE_ONE));
    bed_say(bed, link, CRTI_MSG_HEARTBEAT, 0, &m);
}

/* Both nodes live on. */
static void pass(bed_t *bed, uint64_t ns, double cpus, bool is_busy)
{
    for (uint64_t end = bed->now + ns; bed->now < end;) {
        beat(bed, NODE_A, 0, false);
        beat(bed, LINK, cpus, is_busy);
        bed_pass(bed, CRTI_S / 2);
    }
}

static void want_actor(bed_t *bed, uint64_t actor, int64_t cpus)
{
    crti_msg_actor_create_t m = bed_actor(actor, 5, "");

    m.max_restarts = 1;
    crti_resources_set(&m.resources, "CPU", cpus * CRTI_RESOURCE_ONE);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
}

static void join_as(bed_t *bed, uint64_t node, const char *labels, const char *hostname)
{
    crti_msg_node_register_t m = {.protocol = CRTI_PROTOCOL_VERSION,
                                  .version = crti_str("test"),
                                  .node = bed_id(node),
                                  .incarnation = 1,
                                  .ip = crti_str("10.0.0.2"),
                                  .hostname = crti_str(hostname),
                                  .endpoint = crti_str("10.0.0.2:7000"),
                                  .pid = 18};

    m.labels = crti_str(labels);
    crti_resources_set(&m.resources, "CPU", 2 * CRTI_RESOURCE_ONE);
    m.available = m.resources;
    crti_control_opened(bed->control, LINK, false, bed->now);
    bed_say(bed, LINK, CRTI_MSG_NODE_REGISTER, 1, &m);
}

/* The node that the order has become. */
static void join(bed_t *bed, const bed_order_t *order, uint64_t node)
{
    char labels[300];

    snprintf(labels, sizeof(labels), "crt/instance=%s,crt/node-type=small",
             order->instance);
    join_as(bed, node, labels, "other");
}

/* What becomes of the order, and what its provider calls it. */
static void answer(bed_t *bed, const bed_order_t *order, bool is_done,
                   const char *machine)
{
    char name[200];
    const char *names[] = {name};

    snprintf(name, sizeof(name), "%s=%s", order->instance, machine);
    crti_control_scaled(bed->control,
                        &(crti_provider_answer_t){.verb = order->verb,
                                                  .instance = order->instance,
                                                  .is_done = is_done,
                                                  .text = "later",
                                                  .names = names,
                                                  .count = 1},
                        bed->now);
}

/* The JSON of "cluster"; freed by the caller. */
static char *status(bed_t *bed)
{
    const crti_message_t *m;

    bed_say(bed, ADMIN, CRTI_MSG_STATE_QUERY, 77,
            &(crti_msg_state_query_t){.what = crti_str("cluster")});
    m = bed_next(bed, ADMIN, CRTI_MSG_STATE_ANSWER);
    assert_non_null(m);
    return crti_str_dup(m->state_answer.json);
}

static void assert_told(bed_t *bed, const char *what)
{
    char *text = status(bed);

    if (!strstr(text, what))
        fail_msg("\"%s\" is not in %s", what, text);
    free(text);
}

static void an_actor_that_waits_gets_a_node_that_ends_when_it_is_idle(void **state)
{
    bed_t *bed = *state;
    bed_order_t ask;

    want_actor(bed, 50, 2);
    bed_pass(bed, CRTI_S / 100);
    assert_int_equal(bed->order_count, 0); /* it may be going to be placed */
    bed_pass(bed, CRTI_S);
    assert_int_equal(bed->order_count, 1);
    ask = bed->orders[0];
    assert_int_equal(ask.verb, CRTI_PROVIDER_ASK);
    assert_told(bed, "asks for 1 node of type small: no room for 1 x actor");
    join(bed, &ask, 2);
    assert_true(bed_start_actor(bed, LINK, 500));
    pass(bed, 3 * IDLE_NS, 0, true);
    assert_int_equal(bed_count(bed, LINK, CRTI_MSG_NODE_DRAIN), 0);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_KILL, 2,
            &(crti_msg_actor_kill_t){.actor = bed_id(50), .no_restart = true});
    pass(bed, IDLE_NS - CRTI_S, 2, false);
    assert_int_equal(bed_count(bed, LINK, CRTI_MSG_NODE_DRAIN), 0);
    pass(bed, 2 * CRTI_S, 2, false);
    assert_int_equal(bed_count(bed, LINK, CRTI_MSG_NODE_DRAIN), 1);
    assert_told(bed, "is drained and ends: idle for 10 s");
    bed->order_count = 0;
    bed_say(bed, LINK, CRTI_MSG_NODE_LEAVE, 0,
            &(crti_msg_node_leave_t){.text = crti_str("it was drained")});
    bed_pass(bed, CRTI_S);
    assert_int_equal(bed->order_count, 1);
    assert_int_equal(bed->orders[0].verb, CRTI_PROVIDER_END);
    assert_string_equal(bed->orders[0].instance, ask.instance);
    assert_true(crti_id_equal(bed->orders[0].node, bed_id(2)));
    crti_control_scaled(bed->control,
                        &(crti_provider_answer_t){.verb = CRTI_PROVIDER_END,
                                                  .instance = ask.instance,
                                                  .is_done = true,
                                                  .text = ""},
                        bed->now);
    assert_told(bed, "\"ENDING\":0");
}

static void what_a_provider_says_is_told_and_it_is_asked_again(void **state)
{
    bed_t *bed = *state;
    bed_order_t ask;

    want_actor(bed, 50, 1);
    bed_pass(bed, CRTI_S);
    ask = bed->orders[0];
    bed->order_count = 0;
    crti_control_scaled(bed->control,
                        &(crti_provider_answer_t){.verb = CRTI_PROVIDER_ASK,
                                                  .instance = ask.instance,
                                                  .text = "no quota is left"},
                        bed->now);
    assert_told(bed, "no quota is left");
    beat(bed, NODE_A, 0, false);
    bed_pass(bed, CRTI_SCALE_FIRST_NS + CRTI_S);
    assert_int_equal(bed->orders[bed->order_count - 1].verb, CRTI_PROVIDER_ASK);
    assert_string_not_equal(bed->orders[bed->order_count - 1].instance, ask.instance);
}

static void a_provider_that_answers_again_is_asked_at_once_what_there_is(void **state)
{
    bed_t *bed = *state;
    bed_order_t list = {.verb = CRTI_PROVIDER_LIST}, ask;

    for (uint64_t end = bed->now + CRTI_SCALE_LIST_NS + CRTI_S; bed->now < end;) {
        beat(bed, NODE_A, 0, false);
        bed_pass(bed, CRTI_S / 2);
    }
    assert_int_equal(bed->order_count, 1);
    assert_int_equal(bed->orders[0].verb, CRTI_PROVIDER_LIST);
    answer(bed, &list, false, "");
    assert_told(bed, "\"later\"");
    bed->order_count = 0;
    want_actor(bed, 50, 1);
    bed_pass(bed, CRTI_S);
    ask = bed->orders[0];
    assert_int_equal(ask.verb, CRTI_PROVIDER_ASK);
    assert_int_equal(bed->order_count, 1);
    answer(bed, &ask, true, "");
    beat(bed, NODE_A, 0, false);
    bed_pass(bed, CRTI_S);
    assert_int_equal(bed->order_count, 2);
    assert_int_equal(bed->orders[1].verb, CRTI_PROVIDER_LIST);
}

/* Room for one bundle of so many CPUs; of no job: by command. 0: nothing. */
static void ask_room(bed_t *bed, uint64_t link, crti_id_t job, int64_t cpus)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bundle = {0}, bundles = {0};
    crti_msg_bundle_t one = {.selector = crti_str("")};

    crti_resources_set(&one.resources, "CPU", cpus * CRTI_RESOURCE_ONE);
    crti_message_encode(CRTI_MSG_BUNDLE, 0, &one, &bundle);
    if (cpus)
        crti_list_pack(&bundles, bundle.data, bundle.size);
    bed_say(bed, link, CRTI_MSG_RESOURCE_REQUEST, 3,
            &(crti_msg_resource_request_t){
                .job = job, .bundles = crti_span(bundles.data, bundles.size)});
}

static void jobs_and_requests_are_demand_and_requests_end_with_their_job(void **state)
{
    bed_t *bed = *state;
    bed_order_t ask;

    ask_room(bed, NODE_A, bed_id(5), 2);
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_DONE));
    bed_pass(bed, CRTI_S);
    assert_int_equal(bed->order_count, 1);
    ask = bed->orders[0];
    assert_told(bed, "\"requested\":[{\"count\":1,\"resources\":\"2 CPU\"");
    assert_told(bed, "\"demand\":[]"); /* it waits for nothing */
    join(bed, &ask, 2);
    pass(bed, 2 * IDLE_NS, 2, false);
    assert_int_equal(bed_count(bed, LINK, CRTI_MSG_NODE_DRAIN), 0);
    bed_say(bed, NODE_A, CRTI_MSG_JOB_END, 0, &(crti_msg_job_end_t){.job = bed_id(5)});
    pass(bed, 2 * CRTI_S, 2, false);
    assert_int_equal(bed_count(bed, LINK, CRTI_MSG_NODE_DRAIN), 1);
    bed_say(bed, ADMIN, CRTI_MSG_RESOURCE_REQUEST, 4,
            &(crti_msg_resource_request_t){.bundles = crti_str("no list of bundles")});
    assert_int_equal(control_error_of(bed_next(bed, ADMIN, CRTI_MSG_ERROR)) != CRT_OK,
                     true);
    ask_room(bed, NODE_A, bed_id(5), 2);
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)),
                     CRT_ERR_CLOSED);
}

/* The head is killed and started again; node 1 comes back with its driver, or without. */
static void start_again(bed_t *bed, bool with_driver)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t one = {0}, jobs = {0};
    crti_msg_job_add_t job = {
        .job = bed_id(5), .driver = bed_id(1005), .node = bed_id(1)};

    crti_message_encode(CRTI_MSG_JOB_ADD, 0, &job, &one);
    crti_list_pack(&jobs, one.data, one.size);
    bed_restart(bed, true);
    crti_control_opened(bed->control, ADMIN, true, bed->now);
    bed_join(bed, NODE_A, 1, 1, 0, NULL, with_driver ? &jobs : NULL);
}

static bool has_request_row(const bed_t *bed, uint64_t job)
{
    return bed_has_row(bed, CRTI_STORE_RESOURCE_REQUESTS, bed_id(job));
}

static void what_was_asked_for_is_there_when_the_head_is_started_again(void **state)
{
    bed_t *bed = *state;

    bed->scans_twice = true;
    ask_room(bed, NODE_A, bed_id(5), 2);
    ask_room(bed, ADMIN, bed_id(0), 1);
    start_again(bed, true);
    assert_told(bed, "\"requested\":[{\"count\":1,\"resources\":\"2 CPU\"");
    assert_told(bed, "\"resources\":\"1 CPU\"");
    ask_room(bed, ADMIN, bed_id(0), 0);
    assert_false(has_request_row(bed, 0));
    start_again(bed, true);
    assert_told(bed, "\"requested\":[{\"count\":1,\"resources\":\"2 CPU\"");
    start_again(bed, false); /* the driver ended while the head was away */
    bed_pass(bed, CRTI_S);
    assert_told(bed, "\"requested\":[]");
    assert_false(has_request_row(bed, 5));
}

static void the_row_of_a_request_goes_with_the_job(void **state)
{
    bed_t *bed = *state;

    ask_room(bed, NODE_A, bed_id(5), 2);
    assert_true(has_request_row(bed, 5));
    bed_say(bed, NODE_A, CRTI_MSG_JOB_END, 0, &(crti_msg_job_end_t){.job = bed_id(5)});
    assert_false(has_request_row(bed, 5));
}

static void
a_request_that_can_not_be_stored_is_told_and_its_row_is_tried_again(void **state)
{
    bed_t *bed = *state;

    bed->failing = CRT_ERR_IO;
    ask_room(bed, ADMIN, bed_id(0), 1);
    assert_int_equal(control_error_of(bed_next(bed, ADMIN, CRTI_MSG_ERROR)), CRT_ERR_IO);
    assert_told(bed, "\"resources\":\"1 CPU\"");
    assert_false(has_request_row(bed, 0));
    bed->failing = CRT_OK;
    bed_pass(bed, 2 * CRTI_S);
    assert_true(has_request_row(bed, 0));
}

static void assert_is_a_node(bed_t *bed, const bed_order_t *order)
{
    bed_pass(bed, CRTI_S);
    assert_told(bed, "\"RUNNING\":1,\"DRAINING\"");
    assert_told(bed, order->instance);
}

static void a_node_that_says_which_pod_it_is_in_is_the_instance_of_the_pod(void **state)
{
    bed_t *bed = *state;
    bed_order_t ask;

    want_actor(bed, 50, 2);
    bed_pass(bed, CRTI_S);
    ask = bed->orders[0];
    assert_int_equal(strlen(ask.cluster), 8);
    join_as(bed, 2, "zone=a,crt/pod=pod-1", "other");
    assert_true(bed_start_actor(bed, LINK, 500));
    pass(bed, CRTI_S, 0, true); /* it is there before its provider has said which it is */
    assert_told(bed, "\"RUNNING\":0,\"DRAINING\"");
    answer(bed, &ask, true, "pod-1");
    assert_is_a_node(bed, &ask);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_KILL, 2,
            &(crti_msg_actor_kill_t){.actor = bed_id(50), .no_restart = true});
    pass(bed, IDLE_NS + CRTI_S, 2, false);
    assert_int_equal(bed_count(bed, LINK, CRTI_MSG_NODE_DRAIN), 1);
    bed->order_count = 0;
    bed_say(bed, LINK, CRTI_MSG_NODE_LEAVE, 0,
            &(crti_msg_node_leave_t){.text = crti_str("it was drained")});
    bed_pass(bed, CRTI_S);
    assert_int_equal(bed->orders[0].verb, CRTI_PROVIDER_END);
    assert_string_equal(bed->orders[0].machine, "pod-1");
}

static void the_host_of_a_pod_has_its_name_and_a_list_says_it_again(void **state)
{
    bed_t *bed = *state;
    bed_order_t ask;

    want_actor(bed, 50, 2);
    bed_pass(bed, CRTI_S);
    ask = bed->orders[0];
    answer(bed, &ask, true, "pod-1");
    join_as(bed, 2, "", "pod-1");
    assert_true(bed_start_actor(bed, LINK, 500));
    assert_is_a_node(bed, &ask);
    bed_restart(bed, true);
    crti_control_opened(bed->control, ADMIN, true, bed->now);
    join_as(bed, 2, "", "pod-1");
    bed->order_count = 0;
    bed_pass(bed, CRTI_S);
    assert_told(bed, "\"RUNNING\":0,\"DRAINING\"");
    assert_int_equal(bed->orders[0].verb, CRTI_PROVIDER_LIST);
    ask.verb = CRTI_PROVIDER_LIST;
    answer(bed, &ask, true, "pod-1");
    bed_pass(bed, CRTI_S);
    assert_told(bed, "\"RUNNING\":1,\"DRAINING\"");
}

static void
a_pod_that_nobody_asked_for_and_is_a_node_stays_as_long_as_it_is_needed(void **state)
{
    bed_t *bed = *state;
    bed_order_t list = {.verb = CRTI_PROVIDER_LIST};

    join_as(bed, 2, "", "pod-9");
    want_actor(bed, 50, 2);
    assert_true(bed_start_actor(bed, LINK, 500));
    for (int i = 0; i < 70; i++)
        pass(bed, CRTI_S / 2, 0, true);
    assert_int_equal(bed->orders[bed->order_count - 1].verb, CRTI_PROVIDER_LIST);
    assert_told(bed, "\"RUNNING\":0,\"DRAINING\"");
    snprintf(list.instance, sizeof(list.instance), "small-%s-0000000a",
             bed->orders[bed->order_count - 1].cluster);
    answer(bed, &list, true, "pod-9");
    pass(bed, 2 * IDLE_NS, 0, true);
    assert_told(bed, "\"RUNNING\":1,\"DRAINING\"");
    assert_int_equal(bed_count(bed, LINK, CRTI_MSG_NODE_DRAIN), 0);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_KILL, 2,
            &(crti_msg_actor_kill_t){.actor = bed_id(50), .no_restart = true});
    pass(bed, IDLE_NS + CRTI_S, 2, false);
    assert_int_equal(bed_count(bed, LINK, CRTI_MSG_NODE_DRAIN), 1);
}

static void
a_pod_whose_start_was_said_to_have_failed_is_drained_when_it_is_a_node(void **state)
{
    bed_t *bed = *state;
    bed_order_t ask, end;

    want_actor(bed, 50, 2);
    bed_pass(bed, CRTI_S);
    ask = bed->orders[0];
    join_as(bed, 2, "", "pod-1");
    bed->order_count = 0;
    crti_control_scaled(bed->control,
                        &(crti_provider_answer_t){.verb = CRTI_PROVIDER_ASK,
                                                  .instance = ask.instance,
                                                  .text = "crt-scaler ended"},
                        bed->now);
    pass(bed, CRTI_S, 0, true);
    end = bed->orders[0];
    assert_int_equal(end.verb, CRTI_PROVIDER_END);
    assert_string_equal(end.machine, "");
    answer(bed, &end, false, "pod-1"); /* it ends none of which this is not known */
    pass(bed, CRTI_S, 0, true);
    assert_int_equal(bed_count(bed, LINK, CRTI_MSG_NODE_DRAIN), 1);
    assert_told(bed, "it has come after it was given up");
}

static void what_a_node_type_has_is_not_infeasible_and_what_none_has_fails(void **state)
{
    bed_t *bed = *state;

    for (int64_t cpus = 2; cpus <= 3; cpus++) {
        crti_msg_actor_create_t m = bed_actor((uint64_t)(50 + cpus), 5, "");

        m.if_infeasible = CRTI_INFEASIBLE_FAILS;
        crti_resources_set(&m.resources, "CPU", cpus * CRTI_RESOURCE_ONE);
        bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
        bed_pass(bed, CRTI_S / 100);
        assert_told(bed, cpus == 2 ? "\"actors\":{\"PENDING\":1}"
                                   : "\"actors\":{\"PENDING\":1,\"DEAD\":1}");
    }
}

static void a_head_that_is_started_again_has_the_nodes_of_the_one_before(void **state)
{
    bed_t *bed = *state;
    bed_order_t ask;

    want_actor(bed, 50, 2);
    bed_pass(bed, CRTI_S);
    ask = bed->orders[0];
    join(bed, &ask, 2);
    assert_true(bed_start_actor(bed, LINK, 500));
    bed_restart(bed, true);
    crti_control_opened(bed->control, ADMIN, true, bed->now);
    bed->order_count = 0;
    bed_pass(bed, CRTI_S);
    assert_told(bed, "\"RUNNING\":1");
    assert_told(bed, ask.instance);
    for (size_t i = 0; i < bed->order_count; i++)
        assert_int_equal(bed->orders[i].verb, CRTI_PROVIDER_LIST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            an_actor_that_waits_gets_a_node_that_ends_when_it_is_idle, begin,
            control_test_end),
        cmocka_unit_test_setup_teardown(
            what_a_provider_says_is_told_and_it_is_asked_again, begin, control_test_end),
        cmocka_unit_test_setup_teardown(
            a_provider_that_answers_again_is_asked_at_once_what_there_is, begin,
            control_test_end),
        cmocka_unit_test_setup_teardown(
            jobs_and_requests_are_demand_and_requests_end_with_their_job, begin,
            control_test_end),
        cmocka_unit_test_setup_teardown(
            what_was_asked_for_is_there_when_the_head_is_started_again, begin,
            control_test_end),
        cmocka_unit_test_setup_teardown(the_row_of_a_request_goes_with_the_job, begin,
                                        control_test_end),
        cmocka_unit_test_setup_teardown(
            a_request_that_can_not_be_stored_is_told_and_its_row_is_tried_again, begin,
            control_test_end),
        cmocka_unit_test_setup_teardown(
            a_node_that_says_which_pod_it_is_in_is_the_instance_of_the_pod, begin,
            control_test_end),
        cmocka_unit_test_setup_teardown(
            the_host_of_a_pod_has_its_name_and_a_list_says_it_again, begin,
            control_test_end),
        cmocka_unit_test_setup_teardown(
            a_pod_that_nobody_asked_for_and_is_a_node_stays_as_long_as_it_is_needed,
            begin, control_test_end),
        cmocka_unit_test_setup_teardown(
            a_pod_whose_start_was_said_to_have_failed_is_drained_when_it_is_a_node, begin,
            control_test_end),
        cmocka_unit_test_setup_teardown(
            what_a_node_type_has_is_not_infeasible_and_what_none_has_fails, begin,
            control_test_end),
        cmocka_unit_test_setup_teardown(
            a_head_that_is_started_again_has_the_nodes_of_the_one_before, begin,
            control_test_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
