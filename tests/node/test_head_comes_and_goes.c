/* SPDX-License-Identifier: Apache-2.0 */
/* A head that is away, silent or anew; what a node daemon tells it then. */
#include "node_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void requests_wait_for_the_head_and_running_things_are_told_again(void **state)
{
    scene_t *s = *state;
    crti_msg_actor_start_t start;
    crti_msg_kv_get_t get = {.key = crti_str("k")};
    crti_msg_kv_value_t value = {.found = true, .value = crti_str("v")};
    const crti_msg_node_register_t *r;
    const crti_message_t *m;
    uint64_t begin;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    start = node_test_actor_start(s, 1);
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 31, &start);
    scene_wait(s, CRTI_MSG_ACTOR_STARTED);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    scene_head_down(s);
    assert_false(scene_wait(s, CRTI_MSG_HEAD_LINK)->head_link.up);
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_KV_GET, 55, &get);
    scene_lease(s, 0, 1); /* needs no head */
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
    begin = crti_now_ns();
    scene_head_up(s);
    r = &scene_wait(s, CRTI_MSG_NODE_REGISTER)->node_register;
    print_message("registered again after %.0f ms\n",
                  (double)(crti_now_ns() - begin) / 1e6);
    assert_true(r->actors.size > 0 && r->jobs.size > 0);
    assert_true(scene_wait(s, CRTI_MSG_HEAD_LINK)->head_link.up);
    m = scene_wait(s, CRTI_MSG_KV_GET);
    scene_head_send(s, 0, CRTI_MSG_KV_VALUE, m->request, &value);
    m = scene_wait(s, CRTI_MSG_KV_VALUE);
    assert_int_equal(m->request, 55);
    assert_true(crti_str_equal(m->kv_value.value, "v"));
}

static void the_death_of_a_maker_of_actors_is_told_until_it_is_answered(void **state)
{
    scene_t *s = *state;
    crti_msg_actor_create_t create = {.actor = crti_id_random(),
                                      .class_name = crti_str("Counter")};
    crti_id_t maker;
    const crti_message_t *m;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_ACTOR_CREATE, 55, &create);
    scene_wait(s, CRTI_MSG_ACTOR_CREATE);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    scene_detach(s, 0);
    m = scene_wait(s, CRTI_MSG_PEER_DIED);
    assert_int_not_equal(m->request, 0);
    maker = m->peer_died.process;
    scene_head_down(s);
    scene_head_up(s);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    m = scene_wait(s, CRTI_MSG_PEER_DIED);
    assert_true(crti_id_equal(m->peer_died.process, maker));
    scene_head_send(s, 0, CRTI_MSG_DONE, m->request, NULL);
    scene_attach(s, 1, 0); /* which is answered behind that */
    scene_head_down(s);
    scene_head_up(s);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    assert_int_equal(scene_count(s, CRTI_MSG_PEER_DIED, 200, 1), 0);
}

static void a_node_taken_for_dead_ends_its_workers_and_joins_anew(void **state)
{
    scene_t *s = *state;
    crti_msg_node_died_t died = {.text = crti_str("silent")};
    uint64_t before;
    pid_t pid;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    pid = scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted);
    before = s->nodes[0].incarnation;
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    died.node = s->nodes[0].id;
    scene_head_send(s, 0, CRTI_MSG_NODE_DIED, 0, &died);
    scene_wait_gone(s, pid);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    assert_true(s->nodes[0].incarnation > before);
    before = s->nodes[0].incarnation;
    s->refuse = true; /* or it hears it when it registers */
    scene_head_down(s);
    scene_head_up(s);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    assert_true(s->nodes[0].incarnation > before);
    scene_lease(s, 0, 1);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
}

/* The id that came with the next NODE_REGISTER, and that the directory of node 0 has it now. */
static crti_id_t next_id(scene_t *s)
{
    crti_id_t id = scene_wait(s, CRTI_MSG_NODE_REGISTER)->node_register.node;

    crti_id_hex(id, s->nodes[0].hex);
    snprintf(s->nodes[0].run_dir, sizeof(s->nodes[0].run_dir), "%s/node-%.8s", s->dir,
             s->nodes[0].hex);
    return id;
}

static void a_node_whose_id_clashes_registers_with_another_one(void **state)
{
    scene_t *s = *state;
    crti_id_t first, second;
    char said[CRTI_ID_HEX];

    s->clashes = 2;
    scene_start_node(s, 0, NULL); /* and the parent hears of a node that serves */
    strcpy(said, s->nodes[0].hex);
    first = next_id(s);
    assert_int_not_equal(access(s->nodes[0].run_dir, F_OK), 0);
    second = next_id(s);
    assert_false(crti_id_equal(first, second));
    assert_int_not_equal(access(s->nodes[0].run_dir, F_OK), 0);
    next_id(s);
    assert_string_equal(s->nodes[0].hex, said);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
}

static void a_node_that_served_and_clashes_ends_its_workers_and_begins_anew(void **state)
{
    scene_t *s = *state;
    crti_id_t before;
    pid_t pid, daemon;

    scene_start_node(s, 0, NULL);
    before = next_id(s);
    daemon = s->nodes[0].pid;
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    pid = scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted);
    s->clashes = 1;
    scene_head_down(s);
    scene_head_up(s);
    assert_true(crti_id_equal(next_id(s), before));
    scene_wait_gone(s, pid);
    assert_false(crti_id_equal(next_id(s), before));
    assert_true(s->drivers[0].closed);
    scene_detach(s, 0);
    assert_int_equal(s->nodes[0].pid, daemon);
    scene_attach(s, 1, 0);
    scene_lease(s, 1, 1);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
}

static void a_head_that_takes_no_id_at_all_is_a_failed_start(void **state)
{
    scene_t *s = *state;
    char line[400];

    s->clashes = 1000;
    scene_start_fails(s, NULL, line, sizeof(line));
    assert_string_equal(line, "error clash\n");
}

static void a_node_without_a_head_ends_after_its_time(void **state)
{
    scene_t *s = *state;
    int status = -1;

    s->headless_ms = 300;
    scene_start_node(s, 0, NULL);
    scene_head_down(s);
    while (waitpid(s->nodes[0].pid, &status, WNOHANG) == 0)
        scene_turn(s, 5);
    assert_int_equal(status, 0);
    s->nodes[0].pid = 0;
    close(s->nodes[0].lifeline);
    scene_head_up(s);
}

/* A node that waits 2 s for the answer to NODE_REGISTER, and whose next one gets none. */
static void start_unanswered(scene_t *s)
{
    setenv("CRT_HEARTBEAT_TIMEOUT", "1s", 1);
    setenv("CRT_HEARTBEAT_INTERVAL", "200ms", 1);
    scene_start_node(s, 0, NULL);
    unsetenv("CRT_HEARTBEAT_INTERVAL");
    unsetenv("CRT_HEARTBEAT_TIMEOUT");
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    s->hesitates = true;
    scene_head_down(s);
    scene_head_up(s);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
}

static void a_head_that_answers_no_registration_is_joined_anew(void **state)
{
    scene_t *s = *state;
    uint64_t begin;

    start_unanswered(s);
    begin = crti_now_ns();
    s->hesitates = false;
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    assert_true(crti_now_ns() - begin > CRTI_S);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
}

static void a_node_that_no_head_answers_ends_after_its_time(void **state)
{
    scene_t *s = *state;
    int status = -1;

    s->headless_ms = 300;
    start_unanswered(s);
    TURN_UNTIL(s, waitpid(s->nodes[0].pid, &status, WNOHANG) != 0);
    assert_int_equal(status, 0);
    s->nodes[0].pid = 0;
    close(s->nodes[0].lifeline);
}

static bool log_says(const scene_t *s, const char *text)
{
    char path[300], line[1000];
    bool found = false;
    FILE *file;

    snprintf(path, sizeof(path), "%s/node-%.8s/node.log", s->dir, s->nodes[0].hex);
    file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof(line), file))
        found = strstr(line, text) != NULL;
    if (file)
        fclose(file);
    return found;
}

/* Its jobs are told with their arguments. */
static void a_node_whose_report_is_too_large_registers_once_it_fits(void **state)
{
    enum { SIZE = 9 << 20 };
    scene_t *s = *state;
    char *argument = malloc(SIZE);

    memset(argument, 'a', SIZE);
    argument[SIZE - 1] = '\0';
    scene_start_node(s, 0, NULL);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    s->mode = argument;
    scene_attach(s, 0, 0);
    scene_attach(s, 1, 0);
    scene_head_down(s);
    scene_wait(s, CRTI_MSG_HEAD_LINK);
    scene_wait(s, CRTI_MSG_HEAD_LINK);
    scene_head_up(s);
    TURN_UNTIL(s, log_says(s, ": message of 18")); /* and why it is not registered */
    assert_true(log_says(s, "at most 16777216 fit"));
    assert_false(scene_seen(s, CRTI_MSG_NODE_REGISTER));
    scene_detach(s, 1);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    assert_true(scene_wait(s, CRTI_MSG_HEAD_LINK)->head_link.up);
    free(argument);
}

static void a_silent_head_is_given_up_and_joined_anew(void **state)
{
    scene_t *s = *state;
    uint64_t begin;

    scene_start_node(s, 0, NULL);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    s->silent = true;
    begin = crti_now_ns();
    while (s->nodes[0].stream && crti_now_ns() - begin < 10 * CRTI_S)
        scene_turn(s, 20);
    assert_true(crti_now_ns() - begin > 4 * CRTI_S);
    assert_true(crti_now_ns() - begin < 8 * CRTI_S);
    s->silent = false;
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
}

static void actor_states_reach_the_processes_that_watch(void **state)
{
    scene_t *s = *state;
    crti_msg_actor_watch_t watch = {.actor = {6, 1}};
    crti_msg_actor_state_t alive = {.actor = {6, 1}, .state = CRTI_ACTOR_ALIVE};
    crti_msg_actor_unwatch_t unwatch = {.actor = {6, 1}};
    const crti_message_t *m;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_ACTOR_WATCH, 70, &watch);
    m = scene_wait(s, CRTI_MSG_ACTOR_WATCH);
    scene_head_send(s, 0, CRTI_MSG_ACTOR_STATE, m->request, &alive);
    assert_int_equal(scene_wait(s, CRTI_MSG_ACTOR_STATE)->request, 70);
    alive.restarts = 1;
    scene_head_send(s, 0, CRTI_MSG_ACTOR_STATE, 0, &alive);
    m = scene_wait(s, CRTI_MSG_ACTOR_STATE);
    assert_int_equal(m->request, 0);
    assert_int_equal(m->actor_state.restarts, 1);
    scene_head_down(s);
    scene_head_up(s);
    m = scene_wait(s, CRTI_MSG_ACTOR_WATCH); /* asked again by itself */
    scene_head_send(s, 0, CRTI_MSG_ACTOR_STATE, m->request, &alive);
    assert_int_equal(scene_wait(s, CRTI_MSG_ACTOR_STATE)->request, 0);
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_ACTOR_UNWATCH, 0, &unwatch);
    scene_wait(s, CRTI_MSG_ACTOR_UNWATCH);
}

/* After a reconnect all that is watched is asked for again: what is asked for no more was
 * forgotten. */
static void the_watch_of_an_actor_ends_with_its_death(void **state)
{
    scene_t *s = *state;
    crti_msg_actor_watch_t watch[] = {
        {.actor = {6, 1}}, {.actor = {6, 2}}, {.actor = {6, 3}}};
    crti_msg_actor_state_t states[] = {{.actor = {6, 1}, .state = CRTI_ACTOR_ALIVE},
                                       {.actor = {6, 2}, .state = CRTI_ACTOR_DEAD},
                                       {.actor = {6, 3}, .state = CRTI_ACTOR_ALIVE}};
    const crti_message_t *m;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    for (int i = 0; i < 3; i++) {
        crti_channel_send(s->drivers[0].channel, CRTI_MSG_ACTOR_WATCH, 70, &watch[i]);
        m = scene_wait(s, CRTI_MSG_ACTOR_WATCH);
        scene_head_send(s, 0, CRTI_MSG_ACTOR_STATE, m->request, &states[i]);
        while (scene_wait(s, CRTI_MSG_ACTOR_STATE)->request != 70)
            ; /* the notice to all who watch the dead one */
    }
    states[0].state = CRTI_ACTOR_DEAD;
    scene_head_send(s, 0, CRTI_MSG_ACTOR_STATE, 0, &states[0]);
    while ((m = scene_wait(s, CRTI_MSG_ACTOR_STATE))->actor_state.actor.low != 1)
        assert_int_equal(m->actor_state.actor.low, 2);
    assert_int_equal(m->actor_state.state, CRTI_ACTOR_DEAD);
    scene_head_down(s);
    scene_head_up(s);
    assert_int_equal(scene_wait(s, CRTI_MSG_ACTOR_WATCH)->actor_watch.actor.low, 3);
    scene_head_send(s, 0, CRTI_MSG_ACTOR_STATE, 0, &states[2]);
    assert_int_equal(scene_wait(s, CRTI_MSG_ACTOR_STATE)->actor_state.actor.low, 3);
    assert_int_equal(scene_count(s, CRTI_MSG_ACTOR_WATCH, 0, 1), 0);
}

/* More of them may have died while there was no link than the head remembers. */
static void
nodes_that_the_head_does_not_name_to_a_node_that_is_back_are_dead(void **state)
{
    scene_t *s = *state;
    crti_msg_node_view_t here = {.node = {3, 1}, .endpoint = crti_str("127.0.0.1:1")};
    crti_msg_node_view_t gone = {.node = {3, 2}, .endpoint = crti_str("127.0.0.1:2")};
    crti_msg_node_views_t first = {.begins = true}, last = {.ends = true};
    crti_msg_log_read_t read = {.name = crti_str("none")};
    const crti_msg_node_died_t *died;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_send_view(s, 0, &gone);
    scene_head_send(s, 0, CRTI_MSG_LOG_READ, 1, &read); /* answered behind the view */
    scene_wait(s, CRTI_MSG_ERROR);
    s->hides = true;
    scene_head_down(s);
    scene_head_up(s);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    scene_head_send(s, 0, CRTI_MSG_NODE_VIEWS, 0, &first);
    scene_send_view(s, 0, &here); /* this ends it, and is not complete */
    assert_int_equal(scene_count(s, CRTI_MSG_NODE_DIED, 200, 1), 0);
    scene_head_send(s, 0, CRTI_MSG_NODE_VIEWS, 0, &first);
    last.is_complete = true;
    scene_head_send(s, 0, CRTI_MSG_NODE_VIEWS, 0, &last);
    died = &scene_wait(s, CRTI_MSG_NODE_DIED)->node_died;
    if (!crti_id_equal(died->node, gone.node))
        assert_true(crti_id_equal(died->node, here.node));
    died = &scene_wait(s, CRTI_MSG_NODE_DIED)->node_died;
    assert_true(node_test_contains(died->text, "left the cluster"));
    assert_int_equal(scene_count(s, CRTI_MSG_NODE_DIED, 100, 1), 0);
}

/* One that has just joined knows of no other node, which may have what is asked for. */
static void nothing_is_infeasible_before_the_head_has_told_of_all_nodes(void **state)
{
    scene_t *s = *state;
    crti_msg_node_views_t all = {.begins = true, .ends = true, .is_complete = true};
    crti_msg_lease_request_t ask = {.lease = {4, 99},
                                    .function = crti_str("work"),
                                    .if_infeasible = CRTI_INFEASIBLE_FAILS};

    s->hides = true;
    scene_start_node(s, 0, (const char *[]){"--num-cpus", "1", NULL});
    scene_attach(s, 0, 0);
    ask.job = s->drivers[0].job;
    ask.owner = s->drivers[0].process;
    ask.owner_node = s->nodes[0].id;
    crti_resources_set(&ask.resources, "CPU", 64 * CRTI_RESOURCE_ONE);
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_LEASE_REQUEST, 7, &ask);
    assert_int_equal(scene_count(s, CRTI_MSG_ERROR, 300, 1), 0);
    scene_head_send(s, 0, CRTI_MSG_NODE_VIEWS, 0, &all);
    assert_int_equal(scene_wait(s, CRTI_MSG_ERROR)->error.status, CRT_ERR_UNSCHEDULABLE);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NODE_TEST(requests_wait_for_the_head_and_running_things_are_told_again),
        NODE_TEST(the_death_of_a_maker_of_actors_is_told_until_it_is_answered),
        NODE_TEST(a_node_taken_for_dead_ends_its_workers_and_joins_anew),
        NODE_TEST(a_node_whose_id_clashes_registers_with_another_one),
        NODE_TEST(a_node_that_served_and_clashes_ends_its_workers_and_begins_anew),
        NODE_TEST(a_head_that_takes_no_id_at_all_is_a_failed_start),
        NODE_TEST(a_node_without_a_head_ends_after_its_time),
        NODE_TEST(a_head_that_answers_no_registration_is_joined_anew),
        NODE_TEST(a_node_that_no_head_answers_ends_after_its_time),
        NODE_TEST(a_node_whose_report_is_too_large_registers_once_it_fits),
        NODE_TEST(a_silent_head_is_given_up_and_joined_anew),
        NODE_TEST(actor_states_reach_the_processes_that_watch),
        NODE_TEST(the_watch_of_an_actor_ends_with_its_death),
        NODE_TEST(nodes_that_the_head_does_not_name_to_a_node_that_is_back_are_dead),
        NODE_TEST(nothing_is_infeasible_before_the_head_has_told_of_all_nodes),
    };

    return node_test_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
