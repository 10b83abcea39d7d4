/* SPDX-License-Identifier: Apache-2.0 */
/* What the node daemon owes the head across broken links and lost answers
 * (docs/design/recovery.md), with a head that the test plays. */
#include "node_test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/rundir.h"

static pid_t pid_of(const crti_msg_actor_started_t *started)
{
    crti_msg_lease_granted_t granted = {.ipc = started->ipc};

    return scene_pid(&granted);
}

static crti_msg_actor_start_t actor_start(scene_t *s, uint64_t incarnation)
{
    crti_msg_actor_start_t start = node_test_actor_start(s, 1);

    start.actor_incarnation = incarnation;
    return start;
}

/* The links break, and the node has asked to be taken back when this returns. */
static void break_links(scene_t *s)
{
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    s->hesitates = true;
    scene_head_down(s);
    assert_false(scene_wait(s, CRTI_MSG_HEAD_LINK)->head_link.up);
    scene_head_up(s);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
}

/* ---------------------------------------------------------------- notices */

static void what_ends_after_the_report_is_told_behind_it(void **state)
{
    scene_t *s = *state;
    crti_msg_actor_start_t start;
    const crti_msg_actor_died_t *died;
    const crti_msg_job_end_t *end;
    crti_id_t job;
    pid_t pid;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    job = s->drivers[0].job;
    start = actor_start(s, 1);
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 31, &start);
    pid = pid_of(&scene_wait(s, CRTI_MSG_ACTOR_STARTED)->actor_started);
    break_links(s);
    kill(pid, SIGKILL); /* the report said that it runs */
    died = &scene_wait(s, CRTI_MSG_ACTOR_DIED)->actor_died;
    assert_true(crti_id_equal(died->actor, start.actor));
    assert_int_equal(died->actor_incarnation, 1);
    scene_detach(s, 0);
    end = &scene_wait(s, CRTI_MSG_JOB_END)->job_end;
    assert_true(crti_id_equal(end->job, job));
    scene_welcome(s, 0);
}

static void a_death_without_a_link_is_told_when_there_is_one(void **state)
{
    scene_t *s = *state;
    crti_id_t dead;
    const crti_msg_lease_granted_t *granted;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    granted = &scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted;
    dead = granted->process;
    scene_head_down(s);
    assert_false(scene_wait(s, CRTI_MSG_HEAD_LINK)->head_link.up);
    kill(scene_pid(granted), SIGKILL);
    scene_wait(s, CRTI_MSG_PEER_DIED); /* the driver hears of it at once */
    assert_false(scene_seen(s, CRTI_MSG_PEER_DIED));
    scene_head_up(s);
    assert_true(
        crti_id_equal(scene_wait(s, CRTI_MSG_PEER_DIED)->peer_died.process, dead));
}

/* The head asks for more than it reads, and would wait for what is missing in between. */
static void an_answer_that_the_link_does_not_hold_breaks_it(void **state)
{
    enum { SIZE = 1 << 20 };
    scene_t *s = *state;
    char *bytes = calloc(1, SIZE), path[200];
    crti_msg_log_read_t read = {.name = crti_str("head:9"), .limit = SIZE};
    FILE *file;

    snprintf(path, sizeof(path), "%s/head-9", s->dir);
    assert_int_equal(crti_dir_make(path), CRT_OK);
    strcat(path, "/head.log");
    file = fopen(path, "we");
    assert_int_equal(fwrite(bytes, 1, SIZE, file), SIZE);
    fclose(file);
    free(bytes);
    setenv("CRT_LINK_QUEUE", "16M", 1);
    scene_start_node(s, 0, NULL);
    unsetenv("CRT_LINK_QUEUE");
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    for (uint64_t i = 1; i <= 48; i++)
        scene_head_send(s, 0, CRTI_MSG_LOG_READ, i, &read);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    scene_head_send(s, 0, CRTI_MSG_LOG_READ, 49, &read);
    while (scene_wait(s, CRTI_MSG_LOG_DATA)->request != 49)
        ; /* those that had left before */
}

/* ---------------------------------------------------------------- questions */

static void what_a_process_asked_is_not_asked_again_after_its_end(void **state)
{
    scene_t *s = *state;
    crti_msg_actor_create_t create = {.actor = {6, 9}, .class_name = crti_str("Counter")};
    crti_msg_kv_get_t get = {.key = crti_str("k")};
    crti_msg_watch_t watch = {.incarnation = 1};

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_attach(s, 1, 0);
    create.job = s->drivers[0].job;
    create.owner = watch.process = s->drivers[0].process;
    create.owner_node = watch.node = s->nodes[0].id;
    break_links(s);
    crti_channel_send(s->drivers[1].channel, CRTI_MSG_WATCH, 0, &watch);
    crti_channel_send(s->drivers[1].channel, CRTI_MSG_KV_GET, 56, &get);
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_ACTOR_CREATE, 57, &create);
    scene_detach(s, 0);
    scene_wait(s, CRTI_MSG_PEER_DIED);
    scene_welcome(s, 0);
    scene_wait(s, CRTI_MSG_KV_GET);
    /* Questions go out in their order: this one is behind all that were kept. */
    crti_channel_send(s->drivers[1].channel, CRTI_MSG_KV_GET, 58, &get);
    scene_wait(s, CRTI_MSG_KV_GET);
    assert_false(scene_seen(s, CRTI_MSG_ACTOR_CREATE));
}

/* Its messages come one by one: a channel takes no more than the daemon has read. */
static void put_large(scene_t *s, crti_span_t value)
{
    crti_msg_kv_put_t put = {.value = value};
    char key[16];

    for (int i = 0; i < 3; i++) {
        crti_channel_t *channel = s->drivers[0].channel;

        snprintf(key, sizeof(key), "k%d", i);
        put.key = crti_str(key);
        assert_int_equal(
            crti_channel_send(channel, CRTI_MSG_KV_PUT, 60 + (uint64_t)i, &put), CRT_OK);
        TURN_UNTIL(s, crti_channel_queued(channel) == 0);
    }
}

static void questions_beyond_what_the_link_holds_are_asked_when_it_has_room(void **state)
{
    enum { SIZE = 15 << 20 };
    scene_t *s = *state;
    char *value = calloc(1, SIZE);
    crti_msg_actor_watch_t watch = {.actor = {6, 1}};
    const crti_message_t *m;
    char key[16];

    setenv("CRT_LINK_QUEUE", "16M", 1);
    scene_start_node(s, 0, NULL);
    unsetenv("CRT_LINK_QUEUE");
    scene_attach(s, 0, 0);
    break_links(s);
    put_large(s, crti_span(value, SIZE));
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_ACTOR_WATCH, 70, &watch);
    scene_lease(s, 0, 1);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED); /* the node has read all that is before it */
    scene_welcome(s, 0);
    for (int i = 0; i < 3; i++) {
        assert_false(scene_seen(s, CRTI_MSG_ACTOR_WATCH)); /* it is behind them */
        m = scene_wait(s, CRTI_MSG_KV_PUT);
        snprintf(key, sizeof(key), "k%d", i);
        assert_true(crti_str_equal(m->kv_put.key, key));
    }
    scene_wait(s, CRTI_MSG_ACTOR_WATCH);
    assert_false(scene_seen(s, CRTI_MSG_NODE_REGISTER)); /* all on one link */
    free(value);
}

/* ---------------------------------------------------------------- orders that come again */

static void an_incarnation_of_an_actor_runs_once(void **state)
{
    scene_t *s = *state;
    crti_msg_actor_start_t start;
    const crti_message_t *m;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    start = actor_start(s, 1);
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 31, &start);
    kill(pid_of(&scene_wait(s, CRTI_MSG_ACTOR_STARTED)->actor_started), SIGKILL);
    scene_wait(s, CRTI_MSG_ACTOR_DIED);
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 32, &start); /* the answer was lost */
    m = scene_wait(s, CRTI_MSG_ERROR);
    assert_int_equal(m->request, 32);
    assert_int_equal(m->error.status, CRT_ERR_WORKER_DIED);
    assert_true(node_test_contains(m->error.text, "killed by signal 9"));
    start.actor_incarnation = 2;
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 33, &start);
    assert_int_equal(
        scene_wait(s, CRTI_MSG_ACTOR_STARTED)->actor_started.actor_incarnation, 2);
    assert_false(scene_seen(s, CRTI_MSG_ACTOR_STARTED));
}

static void an_actor_whose_program_fails_is_answered_alike_each_time(void **state)
{
    scene_t *s = *state;
    crti_msg_actor_start_t start;
    const crti_message_t *m;
    crti_span_t text;

    s->mode = "early";
    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    start = actor_start(s, 1);
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 31, &start);
    m = scene_wait(s, CRTI_MSG_ERROR);
    text = m->error.text;
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 32, &start);
    m = scene_wait(s, CRTI_MSG_ERROR);
    assert_int_equal(m->request, 32);
    assert_int_equal(m->error.text.size, text.size);
    assert_memory_equal(m->error.text.data, text.data, text.size);
}

/* ---------------------------------------------------------------- submissions */

static void the_end_of_a_job_is_told_until_the_head_has_it(void **state)
{
    scene_t *s = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t argv = {0};
    crti_msg_job_start_t start = {.submission = crti_str("sub-1"),
                                  .job = {5, 1},
                                  .entrypoint = crti_str("/bin/true"),
                                  .sha = crti_str("")};
    char head_dir[128], path[200];

    snprintf(head_dir, sizeof(head_dir), "%s/head-1", s->dir);
    assert_int_equal(crti_dir_make(head_dir), CRT_OK);
    snprintf(path, sizeof(path), "%s/head.info", head_dir);
    assert_int_equal(
        crti_info_write(path, (const crti_info_entry_t[]){{"state_dir", head_dir}}, 1),
        CRT_OK);
    scene_start_node(s, 0, (const char *[]){"--head-dir", head_dir, NULL});
    crti_list_pack(&argv, "/bin/true", 9);
    start.argv = crti_span(argv.data, argv.size);
    s->exits_refused = 2;
    scene_head_send(s, 0, CRTI_MSG_JOB_START, 41, &start);
    for (int i = 0; i < 3; i++)
        assert_int_equal(scene_wait(s, CRTI_MSG_JOB_EXITED)->job_exited.wait_status, 0);
    assert_int_equal(scene_count(s, CRTI_MSG_JOB_EXITED, 1500, 1), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NODE_TEST(what_ends_after_the_report_is_told_behind_it),
        NODE_TEST(a_death_without_a_link_is_told_when_there_is_one),
        NODE_TEST(an_answer_that_the_link_does_not_hold_breaks_it),
        NODE_TEST(what_a_process_asked_is_not_asked_again_after_its_end),
        NODE_TEST(questions_beyond_what_the_link_holds_are_asked_when_it_has_room),
        NODE_TEST(an_incarnation_of_an_actor_runs_once),
        NODE_TEST(an_actor_whose_program_fails_is_answered_alike_each_time),
        NODE_TEST(the_end_of_a_job_is_told_until_the_head_has_it),
    };

    return node_test_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
