/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/channel.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "runtime/base/clock.h"
#include "tests/net/loop_until.h"

#include <cmocka.h>

typedef struct end {
    crti_channel_t *channel;
    int messages;
    int fds;
    int kept_fd;
    uint64_t sequence; /* of the last HEARTBEAT */
    int closed;
    crt_status_t status;
    char detail[256];
    bool free_in_handler;
    uint32_t events;
} end_t;

typedef struct scene {
    crti_loop_t *loop;
    end_t a, b;
    int raw; /* instead of a, for garbage */
    int open_fds;
} scene_t;

static int count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void on_message(void *user, crti_channel_t *channel, const crti_message_t *message,
                       int *fds, int fd_count)
{
    end_t *end = user;

    end->messages++;
    end->fds += fd_count;
    if (fd_count && end->kept_fd < 0)
        end->kept_fd = crti_take_fd(&fds[0]);
    if (message->kind == CRTI_MSG_HEARTBEAT)
        end->sequence = message->heartbeat.sequence;
    if (message->request && message->kind == CRTI_MSG_KV_GET) {
        crti_msg_kv_value_t value = {.found = true, .value = message->kv_get.key};

        crti_channel_send(channel, CRTI_MSG_KV_VALUE, message->request, &value);
    }
    if (end->free_in_handler) {
        end->channel = NULL;
        crti_channel_free(channel);
    }
}

static void on_closed(void *user, crti_channel_t *channel, crt_status_t status,
                      const char *detail)
{
    end_t *end = user;

    end->closed++;
    end->status = status;
    snprintf(end->detail, sizeof(end->detail), "%s", detail);
    if (end->free_in_handler) {
        end->channel = NULL;
        crti_channel_free(channel);
    }
}

static void on_events(void *user, crti_channel_t *channel, uint32_t events)
{
    ((end_t *)user)->events = events;
}

static void make_end(scene_t *s, end_t *end, int *fd, size_t limit)
{
    crti_channel_handlers_t handlers = {end, on_message, on_closed, on_events};

    end->kept_fd = -1;
    assert_int_equal(crti_channel_new(fd, &handlers, limit, &end->channel), CRT_OK);
    assert_int_equal(*fd, -1);
    assert_int_equal(crti_channel_attach(end->channel, s->loop), CRT_OK);
}

static int setup_with(void **state, bool raw)
{
    scene_t *s = calloc(1, sizeof(*s));
    int fds[2];

    s->open_fds = count_fds();
    s->raw = -1;
    assert_int_equal(crti_loop_new(&s->loop), CRT_OK);
    assert_int_equal(crti_channel_pair(fds), CRT_OK);
    if (raw)
        s->raw = fds[0];
    else
        make_end(s, &s->a, &fds[0], 0);
    make_end(s, &s->b, &fds[1], 0);
    *state = s;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, false);
}

static int setup_raw(void **state)
{
    return setup_with(state, true);
}

static int teardown(void **state)
{
    scene_t *s = *state;
    int leaked;

    crti_channel_free(s->a.channel);
    crti_channel_free(s->b.channel);
    if (s->raw >= 0)
        close(s->raw);
    if (s->b.kept_fd >= 0)
        close(s->b.kept_fd);
    crti_loop_free(s->loop);
    leaked = count_fds() - s->open_fds;
    free(s);
    return leaked;
}

static void turn(scene_t *s)
{
    for (int i = 0; i < 4; i++)
        assert_int_equal(crti_loop_turn(s->loop, 0), CRT_OK);
}

static bool b_closed(void *user)
{
    return ((scene_t *)user)->b.closed > 0;
}

static void wait_closed(scene_t *s)
{
    assert_int_equal(loop_until(s->loop, b_closed, s, crti_now_ns() + 10 * CRTI_S),
                     CRT_OK);
}

static void heartbeat(end_t *end, uint64_t number)
{
    crti_msg_heartbeat_t beat = {.sequence = number};

    assert_int_equal(crti_channel_send(end->channel, CRTI_MSG_HEARTBEAT, 0, &beat),
                     CRT_OK);
}

/* A frame's bytes as a channel would write them. */
static void frame_of(uint64_t number, unsigned fds, crti_buffer_t *frame)
{
    crti_msg_heartbeat_t beat = {.sequence = number};
    uint32_t word;

    assert_int_equal(crti_buffer_append(frame, "....", 4), CRT_OK);
    assert_int_equal(crti_message_encode(CRTI_MSG_HEARTBEAT, 0, &beat, frame), CRT_OK);
    word = (uint32_t)(frame->size - 4) | fds << 28;
    memcpy(frame->data, &word, 4);
}

static void messages_arrive_in_order(void **state)
{
    scene_t *s = *state;

    for (uint64_t i = 1; i <= 1000; i++) {
        heartbeat(&s->a, i);
        if (i % 100 == 0) {
            turn(s);
            assert_int_equal(s->b.sequence, i);
        }
    }
    assert_int_equal(s->b.messages, 1000);
    assert_int_equal(crti_channel_queued(s->a.channel), 0);
}

static void
a_message_that_arrives_byte_by_byte_is_delivered_once_it_is_complete(void **state)
{
    scene_t *s = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t frame = {0};

    frame_of(7, 0, &frame);
    for (size_t i = 0; i < frame.size; i++) {
        assert_int_equal(s->b.messages, 0);
        assert_int_equal(write(s->raw, frame.data + i, 1), 1);
        turn(s);
    }
    assert_int_equal(s->b.messages, 1);
    assert_int_equal(s->b.sequence, 7);
}

static void
a_message_larger_than_a_socket_buffer_passes_and_one_above_the_limit_is_refused(
    void **state)
{
    scene_t *s = *state;
    size_t size = CRTI_MESSAGE_MAX;
    char *bytes = calloc(1, size);
    crti_msg_kv_value_t value = {.value = crti_span(bytes, size - 100)};
    uint64_t deadline = crti_now_ns() + 20 * CRTI_S;

    assert_int_equal(crti_channel_send(s->a.channel, CRTI_MSG_KV_VALUE, 0, &value),
                     CRT_OK);
    while (s->b.messages == 0 && crti_now_ns() < deadline)
        assert_int_equal(crti_loop_turn(s->loop, deadline), CRT_OK);
    assert_int_equal(s->b.messages, 1);
    value.value.size = size;
    assert_int_equal(crti_channel_send(s->a.channel, CRTI_MSG_KV_VALUE, 0, &value),
                     CRT_ERR_TOO_LARGE);
    heartbeat(&s->a, 3); /* the channel is not hurt */
    turn(s);
    assert_int_equal(s->b.sequence, 3);
    free(bytes);
}

static void garbage_of_every_kind_closes_the_channel_with_a_reason(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *reason;
    } cases[] = {
        {"\0\0\0\0", 4, "frame of 0 bytes"},
        {"\x01\0\0\x01", 4, "frame of 16777217 bytes"},
        {"\x05\0\0\x50hello", 9, "5 descriptors"},
        {"\x05\0\0\x10hello", 9, "lacks 1"},
        {"\x05\0\0\0hello", 9, ""},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        void *inner = NULL;
        scene_t *s;

        setup_raw(&inner);
        s = inner;
        assert_int_equal(write(s->raw, cases[i].bytes, cases[i].size), cases[i].size);
        wait_closed(s);
        assert_int_equal(s->b.status, CRT_ERR_PROTOCOL);
        assert_non_null(strstr(s->b.detail, cases[i].reason));
        assert_int_equal(s->b.closed, 1);
        assert_int_equal(s->b.messages, 0);
        assert_int_equal(crti_channel_send(s->b.channel, CRTI_MSG_BLOCKED, 0, NULL),
                         CRT_ERR_CLOSED);
        assert_int_equal(teardown(&inner), 0);
    }
}

static void
a_peer_that_dies_inside_a_message_is_told_apart_from_one_that_closes(void **state)
{
    scene_t *s = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t frame = {0};

    frame_of(1, 0, &frame);
    assert_int_equal(write(s->raw, frame.data, frame.size), frame.size);
    assert_int_equal(write(s->raw, frame.data, frame.size - 1), frame.size - 1);
    close(s->raw);
    s->raw = -1;
    wait_closed(s);
    assert_int_equal(s->b.messages, 1); /* what was complete is delivered first */
    assert_int_equal(s->b.status, CRT_ERR_CLOSED);
    assert_string_equal(s->b.detail, "channel: the peer ended inside a message");
}

static void a_closed_peer_is_reported_once_and_sends_fail(void **state)
{
    scene_t *s = *state;

    heartbeat(&s->a, 9);
    crti_channel_free(s->a.channel);
    s->a.channel = NULL;
    wait_closed(s);
    turn(s);
    assert_int_equal(s->b.sequence, 9);
    assert_int_equal(s->b.closed, 1);
    assert_int_equal(s->b.status, CRT_ERR_CLOSED);
    assert_int_equal(crti_channel_fd(s->b.channel), -1);
}

static void
descriptors_travel_with_their_message_and_unwanted_ones_are_closed(void **state)
{
    scene_t *s = *state;
    int file = open("/dev/null", O_RDWR | O_CLOEXEC), pair[2] = {file, file};
    crti_msg_forked_t forked = {.pid = 4};
    struct stat mine, theirs;

    for (int i = 0; i < 50; i++) {
        heartbeat(&s->a, 1);
        assert_int_equal(
            crti_channel_send_fds(s->a.channel, CRTI_MSG_FORKED, 0, &forked, pair, 2),
            CRT_OK);
        heartbeat(&s->a, 2);
        if (i % 10 == 9)
            turn(s);
    }
    assert_int_equal(s->b.messages, 150);
    assert_int_equal(s->b.fds, 100);
    fstat(file, &mine);
    fstat(s->b.kept_fd, &theirs);
    assert_true(mine.st_rdev == theirs.st_rdev);
    assert_true(fcntl(s->b.kept_fd, F_GETFD) & FD_CLOEXEC);
    close(file);
}

static void descriptors_queued_behind_a_full_socket_are_not_leaked(void **state)
{
    scene_t *s = *state;
    int file = open("/dev/null", O_RDWR | O_CLOEXEC);
    char *bytes = calloc(1, 1 << 20);
    crti_msg_kv_value_t value = {.value = crti_span(bytes, 1 << 20)};

    for (int i = 0; i < 8; i++)
        assert_int_equal(
            crti_channel_send_fds(s->a.channel, CRTI_MSG_KV_VALUE, 0, &value, &file, 1),
            CRT_OK);
    assert_true(crti_channel_queued(s->a.channel) > 0);
    free(bytes);
    close(file); /* teardown counts the descriptors */
}

static void too_many_descriptors_and_bad_ones_are_refused_without_harm(void **state)
{
    scene_t *s = *state;
    int fds[CRTI_CHANNEL_FDS + 1] = {0};

    assert_int_equal(crti_channel_send_fds(s->a.channel, CRTI_MSG_BLOCKED, 0, NULL, fds,
                                           CRTI_CHANNEL_FDS + 1),
                     CRT_ERR_INVALID);
    fds[1] = -1;
    assert_int_equal(
        crti_channel_send_fds(s->a.channel, CRTI_MSG_BLOCKED, 0, NULL, fds, 2),
        CRT_ERR_IO);
    heartbeat(&s->a, 3);
    turn(s);
    assert_int_equal(s->b.sequence, 3);
}

/* What waits would be moved with each write. */
static void a_long_queue_leaves_without_being_moved_for_ever(void **state)
{
    enum { COUNT = 96 };
    const size_t limit = (size_t)128 << 20;
    crti_channel_t *channel;
    crti_channel_handlers_t handlers = {0};
    size_t size = (size_t)1 << 20, got = 0;
    char *bytes = calloc(1, size);
    crti_msg_kv_value_t value = {.found = true, .value = crti_span(bytes, size)};
    clock_t since;
    int fds[2];

    assert_int_equal(crti_channel_pair(fds), CRT_OK);
    assert_int_equal(crti_channel_new(&fds[0], &handlers, limit, &channel), CRT_OK);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(crti_channel_send(channel, CRTI_MSG_KV_VALUE, 1, &value),
                         CRT_OK);
    since = clock();
    while (crti_channel_queued(channel)) {
        ssize_t part = recv(fds[1], bytes, 60000, 0);

        assert_true(part > 0);
        got += (size_t)part;
        crti_channel_process(channel, EPOLLOUT);
    }
    assert_true(got < COUNT * (size + 100));
    assert_true((double)(clock() - since) / CLOCKS_PER_SEC < 2);
    crti_channel_free(channel);
    close(fds[1]);
    free(bytes);
}

static void a_reader_that_does_not_read_costs_a_bounded_queue(void **state)
{
    scene_t *s = *state;
    size_t limit = 1 << 20;
    char *bytes = calloc(1, 1 << 16);
    crti_msg_kv_value_t value = {.value = crti_span(bytes, 1 << 16)};
    end_t slow = {.kept_fd = -1};
    crt_status_t status = CRT_OK;
    int fds[2], sent = 0;

    assert_int_equal(crti_channel_pair(fds), CRT_OK);
    make_end(s, &slow, &fds[0], limit);
    while (status == CRT_OK && sent < 1000) {
        status = crti_channel_send(slow.channel, CRTI_MSG_KV_VALUE, 0, &value);
        sent += status == CRT_OK;
    }
    assert_int_equal(status, CRT_ERR_BACKPRESSURE);
    assert_true(crti_channel_queued(slow.channel) < limit + (1 << 17));
    assert_int_equal(slow.closed, 0);
    make_end(s, &s->b, &fds[1], 0); /* replaces the idle end of the pair */
    turn(s);
    while (crti_channel_queued(slow.channel))
        turn(s);
    turn(s);
    assert_int_equal(s->b.messages, sent);
    crti_channel_free(slow.channel);
    free(bytes);
}

static int setup_slow(void **state)
{
    scene_t *s;

    setup(state);
    s = *state;
    crti_channel_free(s->b.channel);
    s->b.channel = NULL;
    crti_channel_free(s->a.channel);
    s->a.channel = NULL;
    return 0;
}

static void the_wanted_events_are_told_to_a_foreign_epoll(void **state)
{
    end_t mine = {.kept_fd = -1};
    crti_channel_handlers_t handlers = {&mine, on_message, on_closed, on_events};
    char *bytes = calloc(1, 4 << 20);
    crti_msg_kv_value_t value = {.value = crti_span(bytes, 4 << 20)};
    char drain[1 << 16];
    int fds[2];

    assert_int_equal(crti_channel_pair(fds), CRT_OK);
    assert_int_equal(crti_channel_new(&fds[0], &handlers, 0, &mine.channel), CRT_OK);
    assert_int_equal(crti_channel_events(mine.channel), EPOLLIN);
    assert_int_equal(crti_channel_send(mine.channel, CRTI_MSG_KV_VALUE, 0, &value),
                     CRT_OK);
    assert_int_equal(mine.events, EPOLLIN | EPOLLOUT);
    while (crti_channel_queued(mine.channel)) {
        assert_true(read(fds[1], drain, sizeof(drain)) > 0);
        crti_channel_process(mine.channel, EPOLLOUT);
    }
    assert_int_equal(mine.events, EPOLLIN);
    crti_channel_free(mine.channel);
    close(fds[1]);
    free(bytes);
}

static void a_handler_may_free_its_channel(void **state)
{
    scene_t *s = *state;

    s->b.free_in_handler = true;
    heartbeat(&s->a, 1);
    heartbeat(&s->a, 2);
    turn(s);
    assert_int_equal(s->b.messages, 1);
    assert_int_equal(s->b.closed, 0);
    s->a.free_in_handler = true;
    turn(s);
    assert_int_equal(s->a.closed, 1);
}

/* ---------------------------------------------------------------- requests and sockets */

typedef struct server {
    char path[64];
    char dir[32];
    int listen_fd;
    end_t end;
    int notices_before; /* sent before each answer */
    bool silent;
    pthread_t thread;
} server_t;

static void *serve(void *user)
{
    server_t *server = user;
    crti_channel_handlers_t handlers = {&server->end, on_message, on_closed, NULL};
    crti_loop_t *loop;
    int fd = -1;

    fcntl(server->listen_fd, F_SETFL, 0);
    if (crti_channel_accept(server->listen_fd, &fd) != CRT_OK ||
        crti_loop_new(&loop) != CRT_OK ||
        crti_channel_new(&fd, &handlers, 0, &server->end.channel) != CRT_OK)
        abort();
    if (!server->silent)
        crti_channel_attach(server->end.channel, loop);
    for (int i = 0; i < server->notices_before; i++) {
        crti_msg_heartbeat_t beat = {.sequence = (uint64_t)i + 1};

        crti_channel_send(server->end.channel, CRTI_MSG_HEARTBEAT, 0, &beat);
    }
    while (!server->silent && !server->end.closed)
        crti_loop_turn(loop, UINT64_MAX);
    if (!server->silent)
        crti_channel_free(server->end.channel);
    crti_loop_free(loop);
    return NULL;
}

static void start_server(server_t *server)
{
    strcpy(server->dir, "/tmp/crt-test-XXXXXX");
    assert_non_null(mkdtemp(server->dir));
    snprintf(server->path, sizeof(server->path), "%s/s.sock", server->dir);
    assert_int_equal(crti_channel_listen(server->path, &server->listen_fd), CRT_OK);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void end_server(server_t *server)
{
    pthread_join(server->thread, NULL);
    if (server->silent)
        crti_channel_free(server->end.channel);
    close(server->listen_fd);
    unlink(server->path);
    rmdir(server->dir);
}

static void a_blocking_request_gets_its_answer_and_passes_notices_on(void **state)
{
    server_t server = {.notices_before = 3};
    end_t mine = {.kept_fd = -1};
    crti_channel_handlers_t handlers = {&mine, on_message, on_closed, NULL};
    crti_msg_kv_get_t get = {.key = crti_str("colour")};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    uint64_t deadline = crti_now_ns() + 10 * CRTI_S;
    crti_message_t answer;
    struct stat info;
    struct ucred peer;

    start_server(&server);
    stat(server.path, &info);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(
        crti_channel_connect(server.path, deadline, &handlers, &mine.channel), CRT_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(crti_channel_request(mine.channel, CRTI_MSG_KV_GET, &get,
                                              deadline, &answer, &storage, NULL, NULL),
                         CRT_OK);
        assert_int_equal(answer.kind, CRTI_MSG_KV_VALUE);
        assert_true(crti_str_equal(answer.kv_value.value, "colour"));
    }
    assert_int_equal(mine.sequence, 3);
    assert_int_equal(crti_channel_peer(mine.channel, &peer), CRT_OK);
    assert_int_equal(peer.pid, getpid());
    assert_int_equal(mine.closed, 0);
    crti_channel_free(mine.channel);
    end_server(&server);
}

static void a_request_to_a_silent_peer_times_out_and_to_a_dead_one_fails(void **state)
{
    server_t server = {.silent = true};
    end_t mine = {.kept_fd = -1};
    crti_channel_handlers_t handlers = {&mine, on_message, on_closed, NULL};
    crti_msg_kv_get_t get = {.key = crti_str("colour")};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_message_t answer;

    start_server(&server);
    assert_int_equal(crti_channel_connect(server.path, crti_now_ns() + 10 * CRTI_S,
                                          &handlers, &mine.channel),
                     CRT_OK);
    assert_int_equal(crti_channel_request(mine.channel, CRTI_MSG_KV_GET, &get,
                                          crti_now_ns() + 20 * CRTI_MS, &answer, &storage,
                                          NULL, NULL),
                     CRT_ERR_TIMED_OUT);
    end_server(&server);
    assert_int_equal(crti_channel_request(mine.channel, CRTI_MSG_KV_GET, &get,
                                          crti_now_ns() + 10 * CRTI_S, &answer, &storage,
                                          NULL, NULL),
                     CRT_ERR_CLOSED);
    assert_int_equal(mine.closed, 0);
    crti_channel_free(mine.channel);
    assert_int_equal(crti_channel_connect(server.path, crti_now_ns() + CRTI_S, &handlers,
                                          &mine.channel),
                     CRT_ERR_NOT_FOUND);
}

static void an_error_answer_is_raised_with_its_status_and_text(void **state)
{
    crti_msg_error_t error = {.status = CRT_ERR_EXISTS, .text = crti_str("name taken")};

    assert_int_equal(crti_channel_raise(&error), CRT_ERR_EXISTS);
    assert_string_equal(crt_error_detail(), "name taken");
    error.status = 5; /* no failure: a peer's nonsense */
    assert_int_equal(crti_channel_raise(&error), CRT_ERR_PROTOCOL);
}

static void an_answer_is_not_lost_when_the_peer_closes_behind_it(void **state)
{
    end_t mine = {.kept_fd = -1};
    crti_channel_handlers_t handlers = {&mine, on_message, on_closed, NULL}, none = {0};
    crti_msg_kv_get_t get = {.key = crti_str("colour")};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_channel_t *peer;
    crti_message_t answer;
    int fds[2];

    assert_int_equal(crti_channel_pair(fds), CRT_OK);
    assert_int_equal(crti_channel_new(&fds[0], &handlers, 0, &mine.channel), CRT_OK);
    assert_int_equal(crti_channel_new(&fds[1], &none, 0, &peer), CRT_OK);
    crti_channel_send_error(peer, 1, crt_raise(CRT_ERR_EXISTS, "name taken"));
    crti_channel_free(peer);
    crt_raise(CRT_ERR_IO, "something else");
    assert_int_equal(crti_channel_request(mine.channel, CRTI_MSG_KV_GET, &get,
                                          crti_now_ns() + 10 * CRTI_S, &answer, &storage,
                                          NULL, NULL),
                     CRT_ERR_EXISTS);
    assert_string_equal(crt_error_detail(), "name taken");
    crti_channel_free(mine.channel);
}

static void a_path_too_long_for_a_socket_names_the_variable_to_set(void **state)
{
    char path[200];
    int fd = -1;

    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(crti_channel_listen(path, &fd), CRT_ERR_TOO_LARGE);
    assert_non_null(strstr(crt_error_detail(), "CRT_RUN_DIR"));
    assert_int_equal(fd, -1);
}

#define TEST(name)     cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_RAW(name) cmocka_unit_test_setup_teardown(name, setup_raw, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(messages_arrive_in_order),
        TEST_RAW(a_message_that_arrives_byte_by_byte_is_delivered_once_it_is_complete),
        TEST(
            a_message_larger_than_a_socket_buffer_passes_and_one_above_the_limit_is_refused),
        cmocka_unit_test(garbage_of_every_kind_closes_the_channel_with_a_reason),
        TEST_RAW(a_peer_that_dies_inside_a_message_is_told_apart_from_one_that_closes),
        TEST(a_closed_peer_is_reported_once_and_sends_fail),
        TEST(descriptors_travel_with_their_message_and_unwanted_ones_are_closed),
        TEST(descriptors_queued_behind_a_full_socket_are_not_leaked),
        TEST(too_many_descriptors_and_bad_ones_are_refused_without_harm),
        cmocka_unit_test(a_long_queue_leaves_without_being_moved_for_ever),
        cmocka_unit_test_setup_teardown(a_reader_that_does_not_read_costs_a_bounded_queue,
                                        setup_slow, teardown),
        cmocka_unit_test(the_wanted_events_are_told_to_a_foreign_epoll),
        TEST(a_handler_may_free_its_channel),
        cmocka_unit_test(a_blocking_request_gets_its_answer_and_passes_notices_on),
        cmocka_unit_test(a_request_to_a_silent_peer_times_out_and_to_a_dead_one_fails),
        cmocka_unit_test(an_error_answer_is_raised_with_its_status_and_text),
        cmocka_unit_test(an_answer_is_not_lost_when_the_peer_closes_behind_it),
        cmocka_unit_test(a_path_too_long_for_a_socket_names_the_variable_to_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
