/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that another node was asked to serve: they end where room comes first, once. */
#include "node_test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void tell_cpus(scene_t *s, int to, crti_id_t of, const char *endpoint,
                      double available)
{
    crti_msg_node_view_t view = {.node = of, .endpoint = crti_str(endpoint)};

    crti_resources_set(&view.resources, "CPU", CRTI_RESOURCE_ONE);
    crti_resources_set(&view.available, "CPU", (int64_t)(available * CRTI_RESOURCE_ONE));
    scene_send_view(s, to, &view);
}

/* Node `to` hears what node `of` has left. */
static void tell(scene_t *s, int to, int of, double available)
{
    tell_cpus(s, to, s->nodes[of].id, s->nodes[of].endpoint, available);
}

static void start_small_node(scene_t *s, int n)
{
    scene_start_node(s, n, (const char *[]){"--num-cpus", "1", NULL});
}

/* Driver d has the one CPU of its node. */
static crti_id_t take_cpu(scene_t *s, int d)
{
    crti_id_t lease = scene_lease(s, d, 1);

    assert_true(
        crti_id_equal(scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted.lease, lease));
    return lease;
}

static void expect_grant(scene_t *s, crti_id_t lease, int node)
{
    const crti_msg_lease_granted_t *granted =
        &scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted;

    assert_true(crti_id_equal(granted->lease, lease));
    assert_true(crti_id_equal(granted->node, s->nodes[node].id));
}

/* Nodes 0 and 1 are taken; a request of driver 0 waits at node 1, which seemed to have room. The
 * lease that driver 0 has. */
static crti_id_t let_one_wait_at_node_1(scene_t *s, crti_id_t *waits_out)
{
    crti_id_t first;

    start_small_node(s, 0);
    start_small_node(s, 1);
    scene_attach(s, 0, 0);
    scene_attach(s, 1, 1);
    first = take_cpu(s, 0);
    take_cpu(s, 1);
    tell(s, 1, 0, 0);
    tell(s, 0, 1, 1);
    *waits_out = scene_lease(s, 0, 1);
    assert_true(crti_id_equal(scene_wait(s, CRTI_MSG_LEASE_WAITING)->lease_waiting.lease,
                              *waits_out));
    tell(s, 0, 1, 0);
    return first;
}

static void what_waits_at_a_busy_node_runs_where_it_came_from(void **state)
{
    scene_t *s = *state;
    crti_id_t waits, first = let_one_wait_at_node_1(s, &waits);

    node_test_return_lease(s, 0, first, s->nodes[0].id);
    tell(s, 1, 0, 1); /* node 1 stays taken */
    expect_grant(s, waits, 0);
    node_test_return_lease(s, 0, waits, s->nodes[0].id);
    expect_grant(s, scene_lease(s, 0, 1), 0); /* nothing of it is left */
}

static void what_waits_at_a_busy_node_goes_on_to_a_third(void **state)
{
    scene_t *s = *state;
    crti_id_t waits, first = let_one_wait_at_node_1(s, &waits);
    crti_msg_node_died_t died = {.text = crti_str("silent")};
    const crti_message_t *m;

    start_small_node(s, 2);
    tell(s, 0, 2, 1);
    tell(s, 1, 2, 1);
    m = scene_wait(s, CRTI_MSG_JOB_GET); /* it is there, and would be served */
    assert_true(crti_id_equal(m->job_get.job, s->drivers[0].job));
    died.node = s->nodes[2].id;
    scene_stop_node(s, 2, SIGKILL);
    scene_head_send(s, 0, CRTI_MSG_NODE_DIED, 0, &died);
    scene_head_send(s, 1, CRTI_MSG_NODE_DIED, 0, &died);
    node_test_return_lease(s, 0, first, s->nodes[0].id);
    expect_grant(s, waits, 0);
}

/* Room comes there as its workers end. */
static void what_waits_at_a_node_that_stops_comes_back(void **state)
{
    scene_t *s = *state;
    crti_id_t waits, first = let_one_wait_at_node_1(s, &waits);

    assert_int_equal(scene_stop_node(s, 1, SIGTERM), 0);
    assert_false(scene_seen(s, CRTI_MSG_JOB_GET));
    node_test_return_lease(s, 0, first, s->nodes[0].id);
    expect_grant(s, waits, 0);
}

/* ---------------------------------------------------------------- a node that the test plays */

typedef struct played {
    scene_t *scene;
    crti_stream_listener_t *listener;
    crti_stream_t *stream; /* the newest of node 0 */
    crti_id_t id, lease;   /* the last that was asked for */
    uint64_t request;
    int asked, cancelled, returned, refused;
    char endpoint[64];
} played_t;

static void on_played_message(void *user, crti_stream_t *stream, const crti_message_t *m)
{
    played_t *p = user;
    crti_msg_node_hello_t hello = {.protocol = CRTI_PROTOCOL_VERSION, .node = p->id};

    if (m->kind == CRTI_MSG_NODE_HELLO) {
        crti_stream_send(stream, CRTI_MSG_NODE_HELLO, 0, &hello);
    } else if (m->kind == CRTI_MSG_LEASE_REQUEST) {
        p->asked++;
        p->request = m->request;
        p->lease = m->lease_request.lease;
    } else if (m->kind == CRTI_MSG_LEASE_CANCEL || m->kind == CRTI_MSG_LEASE_RETURN) {
        *(m->kind == CRTI_MSG_LEASE_CANCEL ? &p->cancelled : &p->returned) += 1;
        crti_stream_send(stream, CRTI_MSG_DONE, m->request, NULL);
    }
}

static void on_played_closed(void *user, crti_stream_t *stream, crt_status_t status,
                             const char *text)
{
    played_t *p = user;

    if (p->stream == stream)
        p->stream = NULL;
    crti_stream_free(stream);
}

static void on_played_accept(void *user, crti_stream_t *stream)
{
    played_t *p = user;
    crti_stream_handlers_t handlers = {
        .user = p, .on_message = on_played_message, .on_closed = on_played_closed};

    crti_stream_free(p->stream);
    p->stream = stream;
    crti_stream_set_handlers(stream, &handlers);
}

static void await(played_t *p, const int *count, int wanted)
{
    uint64_t end = crti_now_ns() + 40 * CRTI_S;

    while (*count < wanted) {
        assert_true(crti_now_ns() < end);
        scene_turn(p->scene, 5);
    }
}

static void begin_played(played_t *p, scene_t *s, crti_id_t id)
{
    *p = (played_t){.scene = s, .id = id};
    assert_int_equal(crti_stream_listen(s->loop, s->context, "127.0.0.1", 0,
                                        on_played_accept, p, &p->listener),
                     CRT_OK);
    snprintf(p->endpoint, sizeof(p->endpoint), "127.0.0.1:%u",
             (unsigned)crti_stream_listener_port(p->listener));
}

/* Driver 0 has node 0's CPU; it asked for another one, and node 0 asks the played node. */
static crti_id_t let_one_go_to(played_t *p, scene_t *s, crti_id_t *first_out)
{
    crti_id_t lease;

    begin_played(p, s, (crti_id_t){5, 5});
    start_small_node(s, 0);
    scene_attach(s, 0, 0);
    *first_out = take_cpu(s, 0);
    tell_cpus(s, 0, p->id, p->endpoint, 1);
    lease = scene_lease(s, 0, 1);
    await(p, &p->asked, 1);
    assert_true(crti_id_equal(p->lease, lease));
    tell_cpus(s, 0, p->id, p->endpoint, 0);
    return lease;
}

static void end_played(played_t *p)
{
    crti_stream_free(p->stream);
    crti_stream_listener_free(p->listener);
}

static void give_back(played_t *p, uint64_t request)
{
    crti_msg_error_t error = {.status = CRT_ERR_BACKPRESSURE,
                              .text = crti_str("another node has room")};

    crti_stream_send(p->stream, CRTI_MSG_ERROR, request, &error);
}

static void grant(played_t *p, uint64_t request)
{
    crti_msg_lease_granted_t granted = {.lease = p->lease,
                                        .process = {5, 6},
                                        .incarnation = 1,
                                        .node = p->id,
                                        .ipc = crti_str(""),
                                        .tcp = crti_str("127.0.0.1:1")};

    crti_stream_send(p->stream, CRTI_MSG_LEASE_GRANTED, request, &granted);
}

static void a_request_that_is_given_back_twice_is_served_once(void **state)
{
    scene_t *s = *state;
    crti_id_t first, lease;
    played_t p;

    lease = let_one_go_to(&p, s, &first);
    give_back(&p, p.request);
    give_back(&p, p.request);
    grant(&p, p.request); /* it may not change its mind */
    node_test_return_lease(s, 0, first, s->nodes[0].id);
    expect_grant(s, lease, 0);
    node_test_return_lease(s, 0, lease, s->nodes[0].id);
    expect_grant(s, scene_lease(s, 0, 1), 0);
    assert_int_equal(p.asked, 1);
    end_played(&p);
}

static void a_request_that_is_given_back_may_go_to_the_same_node_again(void **state)
{
    scene_t *s = *state;
    crti_id_t first, lease;
    uint64_t before;
    played_t p;

    lease = let_one_go_to(&p, s, &first);
    before = p.request;
    give_back(&p, p.request);
    tell_cpus(s, 0, p.id, p.endpoint, 1);
    await(&p, &p.asked, 2);
    assert_true(crti_id_equal(p.lease, lease));
    give_back(&p, before); /* the old answer once more */
    grant(&p, p.request);
    assert_true(
        crti_id_equal(scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted.node, p.id));
    end_played(&p);
}

static void what_is_given_back_after_its_owner_cancelled_it_is_nothing(void **state)
{
    scene_t *s = *state;
    crti_msg_lease_cancel_t cancel;
    crti_id_t first;
    played_t p;

    cancel.lease = let_one_go_to(&p, s, &first);
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_LEASE_CANCEL, 0, &cancel);
    assert_int_equal(scene_wait(s, CRTI_MSG_ERROR)->error.status, CRT_ERR_CANCELLED);
    await(&p, &p.cancelled, 1);
    give_back(&p, p.request);
    node_test_return_lease(s, 0, first, s->nodes[0].id);
    expect_grant(s, scene_lease(s, 0, 1), 0);
    assert_int_equal(p.asked, 1);
    end_played(&p);
}

static void a_grant_of_what_its_owner_cancelled_is_returned(void **state)
{
    scene_t *s = *state;
    crti_msg_lease_cancel_t cancel;
    crti_id_t first;
    played_t p;

    cancel.lease = let_one_go_to(&p, s, &first);
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_LEASE_CANCEL, 0, &cancel);
    assert_int_equal(scene_wait(s, CRTI_MSG_ERROR)->error.status, CRT_ERR_CANCELLED);
    grant(&p, p.request);
    await(&p, &p.returned, 1);
    end_played(&p);
}

static void a_request_at_a_node_whose_link_breaks_ends_there_and_runs_here(void **state)
{
    scene_t *s = *state;
    crti_id_t first, lease;
    uint64_t request;
    played_t p;

    lease = let_one_go_to(&p, s, &first);
    request = p.request;
    crti_stream_free(p.stream);
    p.stream = NULL;
    await(&p, &p.cancelled, 1);
    grant(&p, request); /* on its way when the link broke: too late */
    node_test_return_lease(s, 0, first, s->nodes[0].id);
    expect_grant(s, lease, 0);
    end_played(&p);
}

/* What the dead node was asked fails when its links are given up: the request is on its way to
 * another node by then, and is nothing to that failure. */
static void a_request_at_a_node_that_dies_goes_on_to_another_once(void **state)
{
    scene_t *s = *state;
    crti_msg_node_died_t died = {.text = crti_str("silent")};
    const crti_msg_lease_granted_t *granted;
    crti_id_t first, lease;
    played_t p, next, other;

    lease = let_one_go_to(&p, s, &first);
    begin_played(&next, s, (crti_id_t){5, 7});
    begin_played(&other, s, (crti_id_t){5, 8});
    tell_cpus(s, 0, next.id, next.endpoint, 1);
    tell_cpus(s, 0, other.id, other.endpoint, 1);
    died.node = p.id;
    scene_head_send(s, 0, CRTI_MSG_NODE_DIED, 0, &died);
    await(&next, &next.asked, 1);
    assert_true(crti_id_equal(next.lease, lease));
    scene_count(s, CRTI_MSG_ERROR, 300, 1); /* what is wrong would have come */
    assert_int_equal(next.cancelled, 0);
    assert_int_equal(other.asked, 0);
    grant(&next, next.request);
    granted = &scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted;
    assert_true(crti_id_equal(granted->lease, lease));
    assert_true(crti_id_equal(granted->node, next.id));
    assert_int_equal(next.asked, 1);
    assert_int_equal(next.returned, 0);
    end_played(&p);
    end_played(&next);
    end_played(&other);
}

static void on_refused(void *user, crti_stream_t *stream, const crti_message_t *m)
{
    played_t *p = user;

    if (m->kind != CRTI_MSG_ERROR)
        return;
    assert_int_equal(m->error.status, CRT_ERR_BACKPRESSURE);
    p->refused++;
}

static void a_node_that_asks_for_what_it_was_asked_for_is_refused(void **state)
{
    scene_t *s = *state;
    crti_id_t first;
    played_t p;
    crti_stream_handlers_t handlers = {
        .user = &p, .on_message = on_refused, .on_closed = on_played_closed};
    crti_msg_node_hello_t hello = {.protocol = CRTI_PROTOCOL_VERSION};
    crti_msg_lease_request_t ask = {.function = crti_str("work")};
    crti_stream_t *stream;

    ask.lease = let_one_go_to(&p, s, &first);
    ask.job = s->drivers[0].job;
    ask.owner = s->drivers[0].process;
    hello.node = p.id;
    assert_int_equal(crti_stream_connect(s->loop, s->context, s->nodes[0].endpoint, 10000,
                                         &handlers, &stream),
                     CRT_OK);
    crti_stream_send(stream, CRTI_MSG_NODE_HELLO, 0, &hello);
    crti_stream_send(stream, CRTI_MSG_LEASE_REQUEST, 1, &ask);
    await(&p, &p.refused, 1);
    give_back(&p, p.request); /* the answer that counts */
    node_test_return_lease(s, 0, first, s->nodes[0].id);
    expect_grant(s, ask.lease, 0);
    crti_stream_free(stream);
    end_played(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NODE_TEST(what_waits_at_a_busy_node_runs_where_it_came_from),
        NODE_TEST(what_waits_at_a_busy_node_goes_on_to_a_third),
        NODE_TEST(what_waits_at_a_node_that_stops_comes_back),
        NODE_TEST(a_request_that_is_given_back_twice_is_served_once),
        NODE_TEST(a_request_that_is_given_back_may_go_to_the_same_node_again),
        NODE_TEST(what_is_given_back_after_its_owner_cancelled_it_is_nothing),
        NODE_TEST(a_grant_of_what_its_owner_cancelled_is_returned),
        NODE_TEST(a_request_at_a_node_whose_link_breaks_ends_there_and_runs_here),
        NODE_TEST(a_request_at_a_node_that_dies_goes_on_to_another_once),
        NODE_TEST(a_node_that_asks_for_what_it_was_asked_for_is_refused),
    };

    return node_test_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
