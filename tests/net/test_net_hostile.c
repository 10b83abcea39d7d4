/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers and broken connections: wrong keys, garbage on every socket, malformed and oversized
 * messages. Each costs its sender something, and nobody else.
 */
#include "net_fixture.h"

#include "lane_setup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zmq.h>

#include "runtime/base/limit.h"
#include "runtime/net/channel.h"
#include "runtime/net/frame.h"
#include "runtime/net/key.h"
#include "runtime/net/lane.h"
#include "runtime/net/protocol.h"
#include "runtime/net/session.h"

/* A victim in this process, and a good child that must go on being served by it: the child's
 * echo proves it. */
typedef struct scene {
    fixture_t f;
    child_t child;
    party_t party;
    crti_peer_t *peer;
} scene_t;

static void scene_init(scene_t *s, bool tcp)
{
    fixture_init(&s->f);
    child_start(&s->f, tcp, &s->child);
    party_start(&s->f, tcp, 0, &s->party);
    s->peer = party_connect(&s->party, &s->child.address);
    party_stream(&s->party, s->peer, 10, 0);
}

/* The good session still works, in order. */
static void scene_fini(scene_t *s)
{
    party_stream(&s->party, s->peer, 100, 50);
    assert_int_equal(s->party.lost, 0);
    crti_peer_unref(s->peer);
    party_stop(&s->party);
    child_stop(&s->child);
    fixture_fini(&s->f);
}

typedef struct until {
    scene_t *scene;
    uint64_t malformed, refused;
} until_t;

static bool has_counted(void *user)
{
    const until_t *u = user;
    crti_net_stats_t stats;

    crti_net_stats(u->scene->party.net, &stats);
    return stats.frames_malformed >= u->malformed &&
           stats.handshakes_refused >= u->refused;
}

/* A count does not wake anybody: look again every few milliseconds. */
static void wait_counted(scene_t *s, uint64_t malformed, uint64_t refused)
{
    until_t u = {s, malformed, refused};
    uint64_t deadline = DEADLINE;

    while (!has_counted(&u) && crti_now_ns() < deadline)
        crti_net_wait(s->party.net, has_counted, &u, crti_now_ns() + 5 * CRTI_MS);
    assert_true(has_counted(&u));
}

/* ---------------------------------------------------------------- a raw ZeroMQ peer */

typedef struct stranger {
    void *context, *socket;
} stranger_t;

static void stranger_open(stranger_t *x, const char *route)
{
    int linger = 0;

    x->context = zmq_ctx_new();
    x->socket = zmq_socket(x->context, ZMQ_DEALER);
    zmq_setsockopt(x->socket, ZMQ_LINGER, &linger, sizeof(linger));
    if (route)
        zmq_setsockopt(x->socket, ZMQ_ROUTING_ID, route, 9);
}

static void stranger_close(stranger_t *x)
{
    zmq_close(x->socket);
    zmq_ctx_term(x->context);
}

static crti_frame_t hello_to(const scene_t *s, uint64_t nonce)
{
    const crti_address_t *to = crti_net_address(s->party.net);
    crti_frame_t frame = {.type = CRTI_FRAME_HELLO, .session = nonce};

    frame.greeting = (crti_greeting_t){.protocol = CRTI_PROTOCOL_VERSION,
                                       .window = 1000,
                                       .from = {9, 9},
                                       .from_incarnation = 1,
                                       .to = to->process,
                                       .to_incarnation = to->incarnation};
    return frame;
}

static void stranger_send(stranger_t *x, const crti_frame_t *frame)
{
    unsigned char bytes[CRTI_FRAME_SMALL];
    size_t size = crti_frame_encode(frame, bytes);

    assert_int_equal(zmq_send(x->socket, bytes, size, 0), size);
}

/* Receives while the party makes progress. */
static crti_frame_type_t stranger_receive(stranger_t *x, crti_frame_t *frame)
{
    static unsigned char bytes[CRTI_FRAME_SMALL];
    int timeout = 10000, n;

    zmq_setsockopt(x->socket, ZMQ_RCVTIMEO, &timeout, sizeof(timeout));
    n = zmq_recv(x->socket, bytes, sizeof(bytes), 0);
    assert_true(n > 0);
    assert_int_equal(crti_frame_decode(bytes, (size_t)n, frame), CRT_OK);
    return frame->type;
}

/* Like stranger_receive, with the lock free so that the progress thread serves. */
static crti_frame_type_t answer_to(scene_t *s, stranger_t *x, crti_frame_t *frame)
{
    crti_frame_type_t type;

    crti_net_unlock(s->party.net);
    type = stranger_receive(x, frame);
    crti_net_lock(s->party.net);
    return type;
}

/* ---------------------------------------------------------------- keys */

static void stranger_dial_with(stranger_t *x, const scene_t *s,
                               const unsigned char *public_key,
                               const unsigned char *secret_key, size_t key_size)
{
    crti_key_pair_t server;
    crti_key_t key;
    char endpoint[128];

    memcpy(key.bytes, s->f.key, sizeof(key.bytes));
    crti_key_curve(&key, CRTI_KEY_SERVER, &server);
    zmq_setsockopt(x->socket, ZMQ_CURVE_SERVERKEY, server.public_key, 32);
    zmq_setsockopt(x->socket, ZMQ_CURVE_PUBLICKEY, public_key, key_size);
    zmq_setsockopt(x->socket, ZMQ_CURVE_SECRETKEY, secret_key, key_size);
    snprintf(endpoint, sizeof(endpoint), "tcp://%s", crti_net_address(s->party.net)->tcp);
    assert_int_equal(zmq_connect(x->socket, endpoint), 0);
}

/* As a member of the cluster would. */
static void stranger_dial(stranger_t *x, const scene_t *s)
{
    crti_key_pair_t client;
    crti_key_t key;

    memcpy(key.bytes, s->f.key, sizeof(key.bytes));
    crti_key_curve(&key, CRTI_KEY_CLIENT, &client);
    stranger_dial_with(x, s, client.public_key, client.secret_key, 32);
}

static void a_stranger_with_the_server_s_public_key_is_refused(void **state)
{
    char public_key[41], secret_key[41];
    crti_net_stats_t before, after;
    crti_frame_t hello;
    stranger_t x;
    scene_t s;

    scene_init(&s, true);
    crti_net_stats(s.party.net, &before);
    zmq_curve_keypair(public_key, secret_key);
    stranger_open(&x, "c12345678");
    stranger_dial_with(&x, &s, (unsigned char *)public_key, (unsigned char *)secret_key,
                       41);
    hello = hello_to(&s, 0x3837363534333231);
    stranger_send(&x, &hello);
    wait_counted(&s, 0, 1);
    crti_net_stats(s.party.net, &after);
    assert_int_equal(after.sessions_opened, before.sessions_opened);
    assert_int_equal(after.frames_malformed, before.frames_malformed);
    stranger_close(&x);
    scene_fini(&s);
}

static void a_plain_connection_to_the_tcp_port_is_refused(void **state)
{
    crti_net_stats_t before, after;
    crti_frame_t hello;
    char endpoint[128];
    stranger_t x;
    scene_t s;

    scene_init(&s, true);
    crti_net_stats(s.party.net, &before);
    stranger_open(&x, "c12345678");
    snprintf(endpoint, sizeof(endpoint), "tcp://%s", crti_net_address(s.party.net)->tcp);
    assert_int_equal(zmq_connect(x.socket, endpoint), 0);
    hello = hello_to(&s, 0x3837363534333231);
    stranger_send(&x, &hello);
    party_stream(&s.party, s.peer, 200, 100);
    crti_net_stats(s.party.net, &after);
    assert_int_equal(after.frames_malformed, before.frames_malformed);
    assert_int_equal(after.sessions_opened, before.sessions_opened);
    stranger_close(&x);
    scene_fini(&s);
}

/* ---------------------------------------------------------------- raw bytes */

static int connect_unix(const char *path)
{
    struct sockaddr_un address;
    socklen_t size;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    assert_int_equal(crti_channel_address(path, &address, &size), CRT_OK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, size), 0);
    return fd;
}

static int connect_port(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static uint16_t port_of(const crti_address_t *address)
{
    return (uint16_t)atoi(strrchr(address->tcp, ':') + 1);
}

static void write_garbage(int fd)
{
    unsigned char bytes[4096];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i * 31 + 7);
    /* The other side may have hung up already: that is a fine answer. */
    if (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) < 0)
        assert_true(errno == EPIPE || errno == ECONNRESET);
    close(fd);
}

static void garbage_on_the_sockets_is_dropped(void **state)
{
    scene_t s;
    int idle;

    scene_init(&s, true);
    for (int i = 0; i < 20; i++) {
        write_garbage(connect_unix(crti_net_address(s.party.net)->ipc));
        write_garbage(connect_port(port_of(crti_net_address(s.party.net))));
    }
    idle = connect_port(port_of(crti_net_address(s.party.net))); /* says nothing */
    party_stream(&s.party, s.peer, 200, 100);
    close(idle);
    scene_fini(&s);
}

/* ---------------------------------------------------------------- lanes */

/* The victim as who has the key dials it. */
static crti_lane_end_t victim(const scene_t *s)
{
    crti_lane_end_t end = {.path = crti_net_address(s->party.net)->ipc};
    crti_key_t key;

    memcpy(key.bytes, s->f.key, sizeof(key.bytes));
    crti_key_lane(&key, end.key);
    return end;
}

static void send_with(int fd, const void *data, size_t size, int memory, int doorbell)
{
    int fds[2] = {memory, doorbell};
    union {
        char bytes[CMSG_SPACE(sizeof(fds))];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {(void *)(uintptr_t)data, size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(c), fds, sizeof(fds));
    assert_int_equal(sendmsg(fd, &message, 0), size);
}

/* It hangs up and has said nothing. */
static void expect_silent_end(scene_t *s, int fd)
{
    char byte;

    crti_net_unlock(s->party.net);
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    crti_net_lock(s->party.net);
}

/* A first message with these descriptors costs its sender, who has the key, the connection, and is
 * counted. */
static void expect_refusal(int memory, int doorbell)
{
    unsigned char number[16] = "a random number";
    crti_net_stats_t before;
    crti_lane_end_t end;
    lane_setup_t setup;
    scene_t s;
    int fd;

    scene_init(&s, false);
    crti_net_stats(s.party.net, &before);
    end = victim(&s);
    setup = lane_setup(&end, 'd', number);
    assert_int_equal(ftruncate(memory, (off_t)setup.size), 0);
    fd = connect_unix(end.path);
    send_with(fd, &setup, sizeof(setup), memory, doorbell);
    wait_counted(&s, before.frames_malformed + 1, 0);
    expect_silent_end(&s, fd);
    close(fd);
    close(memory);
    close(doorbell);
    scene_fini(&s);
}

/* Memory whose size can still change would kill us when it shrinks. */
static void a_lane_whose_memory_is_not_sealed_is_refused(void **state)
{
    expect_refusal(memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING),
                   eventfd(0, EFD_CLOEXEC));
}

static int sealed_memory(void)
{
    int memory = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_int_equal(ftruncate(memory, LANE_MEMORY), 0);
    assert_int_equal(
        fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    return memory;
}

/* We would write into it for ever, or end by a signal when its other side is closed. */
static void a_doorbell_that_is_no_eventfd_is_refused(void **state)
{
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    expect_refusal(sealed_memory(), fds[1]);
    close(fds[0]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    expect_refusal(sealed_memory(), fds[1]);
    close(fds[0]);
    expect_refusal(sealed_memory(), memfd_create("file", MFD_CLOEXEC));
}

static void expect_stranger(scene_t *s, const lane_setup_t *setup)
{
    int memory = sealed_memory(), doorbell = eventfd(0, EFD_CLOEXEC);
    int fd = connect_unix(crti_net_address(s->party.net)->ipc);
    crti_net_stats_t before;
    uint64_t rung;

    crti_net_stats(s->party.net, &before);
    send_with(fd, setup, sizeof(*setup), memory, doorbell);
    wait_counted(s, 0, before.handshakes_refused + 1);
    expect_silent_end(s, fd);
    assert_true(fcntl(doorbell, F_SETFL, O_NONBLOCK) == 0 &&
                read(doorbell, &rung, sizeof(rung)) < 0);
    close(fd);
    close(doorbell);
    close(memory);
}

/* The name of the socket is no secret, and a process of another container may have the same uid. */
static void a_process_without_the_key_opens_no_lane_and_is_told_nothing(void **state)
{
    unsigned char number[16] = "a random number";
    crti_lane_end_t end, other;
    lane_setup_t setup;
    scene_t s;

    scene_init(&s, false);
    end = victim(&s);
    setup = lane_setup(&end, 'd', number);
    setup.proof[15] ^= 1;
    expect_stranger(&s, &setup);
    setup = lane_setup(&end, 'd', number);
    setup.random[0] ^= 1; /* another number than the one that is proved */
    expect_stranger(&s, &setup);
    setup = lane_setup(&end, 'a', number); /* what it answers to others */
    expect_stranger(&s, &setup);
    setup = lane_setup(&end, 'd', number);
    setup.magic ^= 1; /* nobody who has the key sends it */
    expect_stranger(&s, &setup);
    other = end; /* what was recorded at another process's name */
    other.path = "@/run/p-0123456789abcdef.ipc";
    setup = lane_setup(&other, 'd', number);
    expect_stranger(&s, &setup);
    scene_fini(&s);
}

static void send_on_lane(crti_lane_t *lane, const void *data, size_t size)
{
    struct iovec part = {(void *)(uintptr_t)data, size};
    crti_lane_message_t *message = crti_lane_message_new(&part, 1, size);

    assert_true(crti_lane_send(lane, message));
    crti_lane_message_unref(message);
}

/* Takes part in the handshake while the party makes progress, as far as the doorbell. */
static crti_lane_t *open_lane(scene_t *s, int doorbell)
{
    crti_lane_end_t end = victim(s);
    crti_lane_t *lane = NULL;
    struct pollfd p = {.events = POLLIN};

    assert_int_equal(crti_lane_dial(&end, 100000, doorbell, &lane), CRT_OK);
    p.fd = crti_lane_fd(lane);
    crti_net_unlock(s->party.net);
    assert_int_equal(poll(&p, 1, 10000), 1);
    crti_net_lock(s->party.net);
    assert_int_equal(crti_lane_take_socket(lane), CRT_OK);
    crti_lane_close_socket(lane);
    return lane;
}

static void connections_that_say_nothing_are_bounded_and_keep_nobody_out(void **state)
{
    int files, silent[300], doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    crti_lane_t *lane;
    scene_t s;

    scene_init(&s, false);
    files = open_files();
    for (int i = 0; i < 300; i++) {
        silent[i] = connect_unix(crti_net_address(s.party.net)->ipc);
        party_stream(&s.party, s.peer, 1, 0);
    }
    lane = open_lane(&s, doorbell);
    assert_true(open_files() <= files + 300 + 64 + 2 * 16);
    crti_lane_free(lane, 0);
    for (int i = 0; i < 300; i++)
        close(silent[i]);
    close(doorbell);
    scene_fini(&s);
}

static void garbage_on_a_lane_is_counted_and_costs_its_session_alone(void **state)
{
    unsigned char bytes[CRTI_FRAME_SMALL];
    int doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    crti_net_stats_t before;
    crti_lane_t *lane;
    crti_frame_t hello;
    scene_t s;

    scene_init(&s, false);
    crti_net_stats(s.party.net, &before);
    lane = open_lane(&s, doorbell);
    send_on_lane(lane, "garbage", 7);
    wait_counted(&s, before.frames_malformed + 1, 0);
    hello = hello_to(&s, 77);
    send_on_lane(lane, bytes, crti_frame_encode(&hello, bytes));
    send_on_lane(lane, "garbage", 7); /* now there is a session, and it ends */
    wait_counted(&s, before.frames_malformed + 2, 0);
    crti_lane_free(lane, 0);
    close(doorbell);
    scene_fini(&s);
}

/* Killed between any two of its instructions it says no goodbye. */
static void processes_that_die_while_they_open_a_lane_leave_nothing(void **state)
{
    int doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), files;
    crti_lane_t *lane = NULL;
    crti_lane_end_t end;
    scene_t s;
    pid_t pid;

    scene_init(&s, false);
    end = victim(&s);
    files = open_files();
    for (int i = 0; i < 100; i++) {
        fflush(NULL);
        pid = fork();
        if (pid == 0) {
            if (i % 2)
                connect_unix(crti_net_address(s.party.net)->ipc);
            else
                crti_lane_dial(&end, 1000, doorbell, &lane);
            raise(SIGKILL);
        }
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        party_stream(&s.party, s.peer, 1, 0);
    }
    assert_true(open_files() <= files + 2 * 16);
    close(doorbell);
    scene_fini(&s);
}

/* ---------------------------------------------------------------- frames */

static void frames_that_are_none_are_counted_and_dropped(void **state)
{
    crti_net_stats_t before;
    stranger_t x;
    scene_t s;

    scene_init(&s, true);
    crti_net_stats(s.party.net, &before);
    stranger_open(&x, "c12345678");
    stranger_dial(&x, &s);
    zmq_send(x.socket, "", 0, 0);
    zmq_send(x.socket, "garbage", 7, 0);
    zmq_send(x.socket, "two", 3, ZMQ_SNDMORE);
    zmq_send(x.socket, "parts", 5, 0);
    wait_counted(&s, before.frames_malformed + 3, 0);
    stranger_close(&x);
    stranger_open(&x, NULL); /* a routing id that is not of our form */
    stranger_dial(&x, &s);
    zmq_send(x.socket, "garbage", 7, 0);
    wait_counted(&s, before.frames_malformed + 4, 0);
    stranger_close(&x);
    scene_fini(&s);
}

static void another_version_and_another_incarnation_are_told_so(void **state)
{
    unsigned char bytes[CRTI_FRAME_SMALL];
    crti_frame_t hello, frame;
    stranger_t x;
    scene_t s;
    size_t size;

    scene_init(&s, true);
    stranger_open(&x, "c12345678");
    stranger_dial(&x, &s);

    hello = hello_to(&s, 0x3837363534333231);
    hello.greeting.protocol++;
    stranger_send(&x, &hello);
    assert_int_equal(answer_to(&s, &x, &frame), CRTI_FRAME_REFUSED);
    assert_int_equal(frame.status, CRT_ERR_PROTOCOL);

    hello = hello_to(&s, 0x3837363534333231);
    hello.greeting.to_incarnation++;
    stranger_send(&x, &hello);
    assert_int_equal(answer_to(&s, &x, &frame), CRTI_FRAME_REFUSED);
    assert_int_equal(frame.status, CRT_ERR_WORKER_DIED);

    hello = hello_to(&s, 0x3837363534333231);
    size = crti_frame_encode(&hello, bytes);
    bytes[1]++; /* version of the frame itself */
    zmq_send(x.socket, bytes, size, 0);
    assert_int_equal(answer_to(&s, &x, &frame), CRTI_FRAME_REFUSED);
    assert_int_equal(frame.session, 0x3837363534333231);
    stranger_close(&x);
    scene_fini(&s);
}

static void data_without_a_session_is_reset(void **state)
{
    unsigned char bytes[CRTI_FRAME_HEADER + CRTI_FRAME_RECORD + 1];
    crti_frame_t data = {.type = CRTI_FRAME_DATA, .session = 77, .first = 1, .count = 1},
                 frame;
    stranger_t x;
    scene_t s;
    size_t count;

    scene_init(&s, true);
    count = s.party.count;
    stranger_open(&x, "c12345678");
    stranger_dial(&x, &s);
    crti_frame_encode_header(&data, bytes);
    crti_frame_encode_size(1, false, bytes + CRTI_FRAME_HEADER);
    bytes[sizeof(bytes) - 1] = 'x';
    zmq_send(x.socket, bytes, sizeof(bytes), 0);
    assert_int_equal(answer_to(&s, &x, &frame), CRTI_FRAME_RESET);
    assert_int_equal(frame.session, 77);
    assert_int_equal(s.party.count, count);
    stranger_close(&x);
    scene_fini(&s);
}

/* A member of the cluster goes mad in the middle of its session. */
static void a_malformed_frame_ends_its_session_alone(void **state)
{
    crti_frame_t hello, frame, ack = {.type = CRTI_FRAME_ACK};
    crti_net_stats_t before;
    stranger_t x;
    scene_t s;

    scene_init(&s, true);
    crti_net_stats(s.party.net, &before);
    stranger_open(&x, "c12345678");
    stranger_dial(&x, &s);
    hello = hello_to(&s, 0x3837363534333231);
    stranger_send(&x, &hello);
    assert_int_equal(answer_to(&s, &x, &frame), CRTI_FRAME_WELCOME);
    ack.session = frame.greeting.session;
    ack.ack = 5; /* of records that were never sent */
    stranger_send(&x, &ack);
    assert_int_equal(answer_to(&s, &x, &frame), CRTI_FRAME_RESET);
    wait_counted(&s, before.frames_malformed + 1, 0);
    stranger_close(&x);
    scene_fini(&s);
}

static void an_oversized_message_ends_its_connection_alone(void **state)
{
    size_t size = CRTI_LIMIT(record_limit) + ((size_t)1 << 20);
    crti_net_stats_t before, after;
    void *big = calloc(1, size);
    stranger_t x;
    scene_t s;

    scene_init(&s, true);
    crti_net_stats(s.party.net, &before);
    stranger_open(&x, "c12345678");
    stranger_dial(&x, &s);
    zmq_send(x.socket, big, size, 0);
    party_stream(&s.party, s.peer, 500, 1000);
    crti_net_stats(s.party.net, &after);
    assert_int_equal(after.sessions_opened, before.sessions_opened);
    assert_int_equal(after.sessions_lost, before.sessions_lost);
    assert_int_equal(after.frames_malformed,
                     before.frames_malformed); /* it never got in */
    stranger_close(&x);
    free(big);
    scene_fini(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stranger_with_the_server_s_public_key_is_refused),
        cmocka_unit_test(a_plain_connection_to_the_tcp_port_is_refused),
        cmocka_unit_test(garbage_on_the_sockets_is_dropped),
        cmocka_unit_test(a_lane_whose_memory_is_not_sealed_is_refused),
        cmocka_unit_test(a_doorbell_that_is_no_eventfd_is_refused),
        cmocka_unit_test(a_process_without_the_key_opens_no_lane_and_is_told_nothing),
        cmocka_unit_test(connections_that_say_nothing_are_bounded_and_keep_nobody_out),
        cmocka_unit_test(garbage_on_a_lane_is_counted_and_costs_its_session_alone),
        cmocka_unit_test(processes_that_die_while_they_open_a_lane_leave_nothing),
        cmocka_unit_test(frames_that_are_none_are_counted_and_dropped),
        cmocka_unit_test(another_version_and_another_incarnation_are_told_so),
        cmocka_unit_test(data_without_a_session_is_reset),
        cmocka_unit_test(a_malformed_frame_ends_its_session_alone),
        cmocka_unit_test(an_oversized_message_ends_its_connection_alone),
    };

    return fixture_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
