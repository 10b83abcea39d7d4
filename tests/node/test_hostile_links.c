/* SPDX-License-Identifier: Apache-2.0 */
/* Nonsense on every link of a node daemon costs nobody else anything. */
#include "node_test.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/store/store.h"

static void garbage_on_the_socket_costs_nobody_else_anything(void **state)
{
    scene_t *s = *state;
    crti_channel_handlers_t none = {0};
    crti_channel_t *stranger;
    char path[300];
    pid_t pid;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    pid = scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted);
    snprintf(path, sizeof(path), "%s/node.sock", s->nodes[0].run_dir);
    for (int i = 0; i < 2; i++) {
        crti_msg_attach_t attach = {.protocol = i ? 99 : CRTI_PROTOCOL_VERSION,
                                    .role = CRTI_ROLE_DRIVER,
                                    .process = {1, 1},
                                    .incarnation = 1,
                                    .pid = 1};
        CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
        crti_message_t answer;

        assert_int_equal(
            crti_channel_connect(path, crti_now_ns() + CRTI_S, &none, &stranger), CRT_OK);
        assert_int_equal(crti_channel_request(stranger, CRTI_MSG_ATTACH, &attach,
                                              crti_now_ns() + 5 * CRTI_S, &answer,
                                              &storage, NULL, NULL),
                         i ? CRT_ERR_PROTOCOL : CRT_ERR_PERMISSION);
        if (send(crti_channel_fd(stranger), "\xff\xff\xff\xffgarbage", 11, MSG_NOSIGNAL) <
            0)
            fail();
        crti_channel_free(stranger);
    }
    scene_lease(s, 0, 0.5);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
    assert_true(scene_is_alive(pid));
}

/* What the link takes; the rest would only close it, which the end of the round does. */
static void send_on_channel(void *user, crti_message_kind_t kind, uint64_t request,
                            const void *body)
{
    if (kind != CRTI_MSG_ATTACH && kind > CRTI_MSG_ATTACHED &&
        kind < CRTI_MSG_ZYGOTE_READY && kind != CRTI_MSG_LEASE_GRANTED &&
        kind != CRTI_MSG_LEASE_WAITING && kind != CRTI_MSG_PEER_DIED &&
        kind != CRTI_MSG_NODE_DIED && kind != CRTI_MSG_LOG &&
        kind != CRTI_MSG_ACTOR_STATE && kind != CRTI_MSG_KV_VALUE &&
        kind != CRTI_MSG_STATE_ANSWER && kind != CRTI_MSG_HEAD_LINK)
        crti_channel_send(user, kind, request, body);
}

static void send_on_stream(void *user, crti_message_kind_t kind, uint64_t request,
                           const void *body)
{
    static const crti_message_kind_t taken[] = {
        CRTI_MSG_LEASE_REQUEST, CRTI_MSG_LEASE_RETURN, CRTI_MSG_LEASE_CANCEL,
        CRTI_MSG_WATCH,         CRTI_MSG_UNWATCH,      CRTI_MSG_PEER_DIED,
        CRTI_MSG_FREE,          CRTI_MSG_LOG,          CRTI_MSG_OBJECT_GET,
        CRTI_MSG_PROGRAM_GET};

    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
        if (kind == taken[i])
            crti_stream_send(user, kind, request, body);
}

static void ignore_message(void *user, crti_stream_t *stream, const crti_message_t *m)
{
}

static void ignore_close(void *user, crti_stream_t *stream, crt_status_t status,
                         const char *text)
{
    *(bool *)user = true;
}

/* A process with the cluster key that talks nonsense to the node's port. */
static void talk_nonsense_as_a_node(scene_t *s, unsigned seed, bool with_hello)
{
    bool closed = false;
    crti_stream_handlers_t handlers = {
        .user = &closed, .on_message = ignore_message, .on_closed = ignore_close};
    crti_msg_node_hello_t hello = {.protocol = CRTI_PROTOCOL_VERSION, .node = {3, 3}};
    uint64_t end = crti_now_ns() + 100 * CRTI_MS;
    crti_stream_t *stream;

    assert_int_equal(crti_stream_connect(s->loop, s->context, s->nodes[0].endpoint, 5000,
                                         &handlers, &stream),
                     CRT_OK);
    if (with_hello)
        crti_stream_send(stream, CRTI_MSG_NODE_HELLO, 0, &hello);
    for (unsigned i = 0; i < 10; i++)
        scene_every_message(s, seed * 100 + i, send_on_stream, stream);
    crti_stream_send(stream, CRTI_MSG_JOB_END, 0, &(crti_msg_job_end_t){0});
    while (!closed && crti_now_ns() < end)
        scene_turn(s, 5);
    crti_stream_free(stream);
}

static void nonsense_of_every_kind_on_every_link_leaves_the_node_serving(void **state)
{
    scene_t *s = *state;
    crti_channel_handlers_t none = {0};
    char path[300];

    s->quiet = true;
    scene_start_node(s, 0, (const char *[]){"--num-cpus", "2", NULL});
    snprintf(path, sizeof(path), "%s/node.sock", s->nodes[0].run_dir);
    for (unsigned seed = 1; seed <= 8; seed++) {
        crti_channel_t *stranger;

        scene_attach(s, 0, 0);
        scene_lease(s, 0, 1);
        for (unsigned i = 0; i < 10; i++) {
            scene_every_message(s, seed * 100 + i, send_on_channel,
                                s->drivers[0].channel);
            scene_turn(s, i);
        }
        crti_channel_send(s->drivers[0].channel, CRTI_MSG_JOB_END, 0, NULL);
        assert_int_equal(
            crti_channel_connect(path, crti_now_ns() + CRTI_S, &none, &stranger), CRT_OK);
        scene_every_message(s, seed + 100, send_on_channel, stranger);
        talk_nonsense_as_a_node(s, seed, seed % 2);
        crti_channel_free(stranger);
        scene_turn(s, 20);
        scene_detach(s, 0);
    }
    s->quiet = false;
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
}

static void note_answer(void *user, crti_stream_t *stream, const crti_message_t *m)
{
    *(bool *)user |= m->kind == CRTI_MSG_ERROR;
}

static void end_without_word(void *user, crti_stream_t *stream, crt_status_t status,
                             const char *text)
{
}

static void no_other_node_says_that_a_process_of_this_one_died(void **state)
{
    scene_t *s = *state;
    bool is_answered = false;
    crti_stream_handlers_t handlers = {
        .user = &is_answered, .on_message = note_answer, .on_closed = end_without_word};
    crti_msg_node_hello_t hello = {.protocol = CRTI_PROTOCOL_VERSION, .node = {3, 3}};
    crti_msg_peer_died_t died = {.incarnation = 1};
    crti_object_id_t object = {.number = 1};
    crti_msg_object_get_t get = {.object = {.owner = {4, 4}, .number = 4}, .length = 1};
    crti_stream_t *stream;
    crti_store_t *store;
    void *data;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    died.process = object.owner = s->drivers[0].process;
    died.node = s->nodes[0].id;
    assert_int_equal(
        crti_store_attach(s->drivers[0].fds[0], s->drivers[0].slot, died.process, &store),
        CRT_OK);
    assert_int_equal(crti_store_create(store, object, 64, &data), CRT_OK);
    assert_int_equal(crti_store_seal(store, object, true), CRT_OK);
    assert_int_equal(crti_stream_connect(s->loop, s->context, s->nodes[0].endpoint, 5000,
                                         &handlers, &stream),
                     CRT_OK);
    crti_stream_send(stream, CRTI_MSG_NODE_HELLO, 0, &hello);
    crti_stream_send(stream, CRTI_MSG_PEER_DIED, 0, &died);
    for (int i = 1; i <= 2; i++) { /* the second answer is of a later tick */
        is_answered = false;
        crti_stream_send(stream, CRTI_MSG_OBJECT_GET, (uint64_t)i, &get);
        for (int k = 0; k < 1000 && !is_answered; k++)
            scene_turn(s, 10);
        assert_true(is_answered);
        scene_turn(s, 100);
    }
    assert_true(crti_store_contains(store, object));
    crti_store_detach(store);
    crti_stream_free(stream);
}

/* Their programs have no names: nothing is learned of their jobs. */
static void drivers_that_are_refused_leave_no_job_behind(void **state)
{
    scene_t *s = *state;
    crti_channel_handlers_t none = {0};
    const crti_msg_node_register_t *again;
    char path[300];

    scene_start_node(s, 0, NULL);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    snprintf(path, sizeof(path), "%s/node.sock", s->nodes[0].run_dir);
    for (uint64_t i = 0; i < 3; i++) {
        crti_msg_attach_t attach = {.protocol = CRTI_PROTOCOL_VERSION,
                                    .role = CRTI_ROLE_DRIVER,
                                    .process = {1, 1 + i},
                                    .incarnation = 1,
                                    .pid = getpid(),
                                    .sha = crti_str("none")};
        CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
        crti_channel_t *channel;
        crti_message_t answer;

        assert_int_equal(
            crti_channel_connect(path, crti_now_ns() + CRTI_S, &none, &channel), CRT_OK);
        assert_int_equal(crti_channel_request(channel, CRTI_MSG_ATTACH, &attach,
                                              crti_now_ns() + 5 * CRTI_S, &answer,
                                              &storage, NULL, NULL),
                         CRT_ERR_PROTOCOL);
        crti_channel_free(channel);
    }
    scene_head_down(s);
    scene_head_up(s);
    again = &scene_wait(s, CRTI_MSG_NODE_REGISTER)->node_register;
    assert_int_equal(again->jobs.size, 0);
}

static int connect_to(const char *path)
{
    struct sockaddr_un address;
    socklen_t size;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(crti_channel_address(path, &address, &size), CRT_OK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, size), 0);
    return fd;
}

static void those_for_whom_no_file_is_left_wait_and_cost_nothing(void **state)
{
    enum { CONNECTIONS = 120 };
    scene_t *s = *state;
    int fds[CONNECTIONS];
    char path[300];
    double since;

    s->file_limit = 80;
    scene_start_node(s, 0, NULL);
    snprintf(path, sizeof(path), "%s/node.sock", s->nodes[0].run_dir);
    for (int i = 0; i < CONNECTIONS; i++)
        fds[i] = connect_to(path);
    scene_turn(s, 200);
    since = node_test_cpu_seconds(s->nodes[0].pid);
    scene_turn(s, 2000);
    assert_true(node_test_cpu_seconds(s->nodes[0].pid) - since < 0.2);
    for (int i = 0; i < CONNECTIONS; i++)
        close(fds[i]);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
}

static void who_asks_for_less_than_nothing_is_cut_off_and_the_amounts_stay(void **state)
{
    scene_t *s = *state;

    scene_start_node(s, 0, (const char *[]){"--num-cpus", "2", NULL});
    scene_attach(s, 0, 0);
    scene_attach(s, 1, 0);
    scene_lease(s, 0, -100);
    TURN_UNTIL(s, s->drivers[0].closed);
    assert_true(s->drivers[0].closed);
    scene_lease(s, 1, 3); /* there are two */
    assert_non_null(scene_wait(s, CRTI_MSG_LEASE_WAITING));
    assert_int_equal(scene_count(s, CRTI_MSG_LEASE_GRANTED, 0, 1), 0);
    scene_lease(s, 1, 2);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
}

static size_t resident(pid_t pid)
{
    unsigned long pages = 0;
    char path[64];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %lu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Reads nothing behind the first answer until it is told to. */
typedef struct reader {
    int answers;
    bool reads;
} reader_t;

static void read_answer(void *user, crti_stream_t *stream, const crti_message_t *m)
{
    reader_t *reader = user;

    reader->answers += m->kind == CRTI_MSG_PROGRAM_DATA;
    if (reader->answers && !reader->reads)
        crti_stream_hold(stream);
}

static void
who_asks_for_a_program_again_and_again_and_reads_nothing_is_stopped(void **state)
{
    enum { QUESTIONS = 400 };
    scene_t *s = *state;
    reader_t reader = {0};
    crti_stream_handlers_t handlers = {
        .user = &reader, .on_message = read_answer, .on_closed = end_without_word};
    crti_msg_node_hello_t hello = {.protocol = CRTI_PROTOCOL_VERSION, .node = {3, 3}};
    crti_msg_program_get_t get = {.length = (uint64_t)1 << 20};
    size_t size, before;
    crti_stream_t *stream;
    char sha[65], *bytes;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    bytes = scene_read_program(&size);
    scene_sha(bytes, size, sha);
    free(bytes);
    get.sha = crti_str(sha);
    assert_int_equal(crti_stream_connect(s->loop, s->context, s->nodes[0].endpoint, 5000,
                                         &handlers, &stream),
                     CRT_OK);
    crti_stream_send(stream, CRTI_MSG_NODE_HELLO, 0, &hello);
    before = resident(s->nodes[0].pid);
    for (uint64_t i = 1; i <= QUESTIONS; i++)
        crti_stream_send(stream, CRTI_MSG_PROGRAM_GET, i, &get);
    TURN_UNTIL(s, reader.answers);
    scene_turn(s, 500);
    assert_in_range(resident(s->nodes[0].pid) - before, 0, (size_t)100 << 20);
    scene_lease(s, 0, 1); /* and the others are served */
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
    reader.reads = true;
    crti_stream_resume(stream);
    TURN_UNTIL(s, reader.answers == QUESTIONS);
    assert_int_equal(reader.answers, QUESTIONS);
    crti_stream_free(stream);
}

static void count_message(void *user, crti_channel_t *channel, const crti_message_t *m,
                          int *fds, int fd_count)
{
    *(int *)user += m->kind == CRTI_MSG_LOG_DATA;
}

static void of_too_many_readers_of_a_log_the_oldest_get_their_answer(void **state)
{
    enum { READERS = 9000, MAY_WAIT = 8192 };
    scene_t *s = *state;
    static int answers;
    crti_channel_handlers_t handlers = {.user = &answers, .on_message = count_message};
    crti_msg_log_read_t read = {.limit = 1000, .wait_ms = 60000};
    const crti_msg_lease_granted_t *granted;
    crti_channel_t *stranger;
    char path[300], hex[CRTI_ID_HEX];

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    granted = &scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted;
    read.name = crti_str(crti_id_hex(granted->process, hex));
    read.offset = 1 << 20; /* there is nothing yet */
    snprintf(path, sizeof(path), "%s/node.sock", s->nodes[0].run_dir);
    assert_int_equal(
        crti_channel_connect(path, crti_now_ns() + CRTI_S, &handlers, &stranger), CRT_OK);
    assert_int_equal(crti_channel_attach(stranger, s->loop), CRT_OK);
    for (uint64_t i = 1; i <= READERS; i++)
        crti_channel_send(stranger, CRTI_MSG_LOG_READ, i, &read);
    TURN_UNTIL(s, answers >= READERS - MAY_WAIT);
    assert_int_equal(answers, READERS - MAY_WAIT);
    crti_channel_free(stranger);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NODE_TEST(garbage_on_the_socket_costs_nobody_else_anything),
        NODE_TEST(who_asks_for_less_than_nothing_is_cut_off_and_the_amounts_stay),
        NODE_TEST(who_asks_for_a_program_again_and_again_and_reads_nothing_is_stopped),
        NODE_TEST(of_too_many_readers_of_a_log_the_oldest_get_their_answer),
        NODE_TEST(no_other_node_says_that_a_process_of_this_one_died),
        NODE_TEST(drivers_that_are_refused_leave_no_job_behind),
        NODE_TEST(those_for_whom_no_file_is_left_wait_and_cost_nothing),
        NODE_TEST(nonsense_of_every_kind_on_every_link_leaves_the_node_serving),
    };

    return node_test_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
