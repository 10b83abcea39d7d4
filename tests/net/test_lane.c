/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes, both sides in this process: how the one that sleeps is told, and who is let in. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/net/channel.h"
#include "runtime/net/lane.h"

#include "lane_setup.h"

#include <cmocka.h>

#define PATIENCE_MS 20000
#define FRAME_MAX   100000

typedef struct side {
    crti_lane_t *lane;
    int doorbell;
} side_t;

typedef struct pair {
    int listen_fd,
        epoll_fd; /* which tells of rings of the acceptor's doorbell as the net hears them */
    side_t dialer, acceptor;
} pair_t;

static void open_side(side_t *side)
{
    struct pollfd p = {.fd = crti_lane_fd(side->lane), .events = POLLIN};

    assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    assert_int_equal(crti_lane_take_socket(side->lane), CRT_OK);
}

static void pair_start(pair_t *p)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    char path[80];
    crti_lane_end_t end = {.path = path, .key = "the key of the test's two sides"};

    *p = (pair_t){.dialer.doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                  .acceptor.doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    snprintf(path, sizeof(path), "@crt-test-lane-%d", getpid());
    assert_int_equal(crti_channel_listen(path, &p->listen_fd), CRT_OK);
    assert_int_equal(crti_lane_dial(&end, FRAME_MAX, p->dialer.doorbell, &p->dialer.lane),
                     CRT_OK);
    assert_int_equal(crti_lane_accept(p->listen_fd, &end, FRAME_MAX, p->acceptor.doorbell,
                                      &p->acceptor.lane),
                     CRT_OK);
    open_side(&p->acceptor);
    open_side(&p->dialer);
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    assert_int_equal(epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, p->acceptor.doorbell, &event),
                     0);
}

static void pair_stop(pair_t *p)
{
    crti_lane_free(p->dialer.lane, 0);
    crti_lane_free(p->acceptor.lane, 0);
    close(p->dialer.doorbell);
    close(p->acceptor.doorbell);
    close(p->listen_fd);
    close(p->epoll_fd);
}

static bool rings(const pair_t *p, int patience_ms)
{
    struct epoll_event event;

    return epoll_wait(p->epoll_fd, &event, 1, patience_ms) == 1;
}

static void send_to_acceptor(pair_t *p)
{
    struct iovec part = {(void *)(uintptr_t) "frame", 5};
    crti_lane_message_t *message = crti_lane_message_new(&part, 1, part.iov_len);

    assert_true(crti_lane_send(p->dialer.lane, message));
    crti_lane_message_unref(message);
}

static void expect_frame(pair_t *p)
{
    crti_span_t frame;

    assert_int_equal(crti_lane_receive(p->acceptor.lane, &frame), CRT_OK);
    assert_int_equal(frame.size, 5);
    assert_memory_equal(frame.data, "frame", 5);
}

static void who_sleeps_is_rung_for_the_first_frame_and_who_is_awake_is_not(void **state)
{
    pair_t p;

    pair_start(&p);
    crti_lane_awake(p.acceptor.lane);
    while (rings(&p, 0))
        continue;
    send_to_acceptor(&p);
    assert_false(rings(&p, 0));
    expect_frame(&p);
    for (int i = 0; i < 3;
         i++) { /* nobody reads the doorbell: each ring is heard nevertheless */
        assert_true(crti_lane_sleep(p.acceptor.lane));
        send_to_acceptor(&p);
        assert_true(rings(&p, PATIENCE_MS));
        expect_frame(&p);
    }
    pair_stop(&p);
}

/* Whoever has a doorbell may write to it what he wants: a counter at its end takes no more. */
static void a_doorbell_that_somebody_has_filled_rings_all_the_same(void **state)
{
    uint64_t most = UINT64_MAX - 1;
    pair_t p;

    pair_start(&p);
    for (int i = 0; i < 3; i++) {
        uint64_t counted;

        assert_true(crti_lane_sleep(p.acceptor.lane));
        (void)!read(p.acceptor.doorbell, &counted, sizeof(counted));
        assert_int_equal(write(p.acceptor.doorbell, &most, sizeof(most)), sizeof(most));
        while (rings(&p, 0))
            continue;
        send_to_acceptor(&p);
        assert_true(rings(&p, PATIENCE_MS));
        expect_frame(&p);
    }
    pair_stop(&p);
}

/* ---------------------------------------------------------------- strangers */

/* The first message, and the memory that came with it. */
static int receive_first(int fd, lane_setup_t *setup_out)
{
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {setup_out, sizeof(*setup_out)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    int fds[2];

    assert_int_equal(recvmsg(fd, &message, MSG_CMSG_CLOEXEC), sizeof(*setup_out));
    assert_int_equal(CMSG_FIRSTHDR(&message)->cmsg_len, CMSG_LEN(sizeof(fds)));
    memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fds));
    close(fds[1]);
    return fds[0];
}

static void answer(int fd, const lane_setup_t *setup)
{
    int doorbell = eventfd(0, EFD_CLOEXEC);
    union {
        char bytes[CMSG_SPACE(sizeof(doorbell))];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {(void *)(uintptr_t)setup, sizeof(*setup)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(doorbell));
    memcpy(CMSG_DATA(c), &doorbell, sizeof(doorbell));
    assert_int_equal(sendmsg(fd, &message, 0), sizeof(*setup));
    close(doorbell);
}

static bool is_in(int memory, const char *text, size_t size)
{
    void *shared = mmap(NULL, LANE_MEMORY, PROT_READ, MAP_SHARED, memory, 0);
    bool found;

    assert_true(shared != MAP_FAILED);
    found = memmem(shared, LANE_MEMORY, text, size) != NULL;
    munmap(shared, LANE_MEMORY);
    return found;
}

/* The name of a process that died is free for everybody. `prove` is what who has it answers; with
 * the key it gets the frame. */
static void dial_who_answers(const char *key, char side, bool is_believed)
{
    char path[80];
    crti_lane_end_t end = {.path = path, .key = "the key of the test's two sides"},
                    theirs;
    pair_t p = {.dialer.doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    struct pollfd socket = {.events = POLLIN};
    crti_span_t frame;
    lane_setup_t setup;
    int fd, memory;

    snprintf(path, sizeof(path), "@crt-test-stranger-%d", getpid());
    assert_int_equal(crti_channel_listen(path, &p.listen_fd), CRT_OK);
    assert_int_equal(crti_lane_dial(&end, FRAME_MAX, p.dialer.doorbell, &p.dialer.lane),
                     CRT_OK);
    send_to_acceptor(&p);
    fd = accept(p.listen_fd, NULL, NULL);
    memory = receive_first(fd, &setup);
    assert_false(is_in(memory, "frame", 5));
    theirs = end;
    memcpy(theirs.key, key, strlen(key));
    setup = lane_setup(&theirs, side, setup.random);
    answer(fd, &setup);
    socket.fd = crti_lane_fd(p.dialer.lane);
    assert_int_equal(poll(&socket, 1, PATIENCE_MS), 1);
    assert_int_equal(crti_lane_take_socket(p.dialer.lane),
                     is_believed ? CRT_OK : CRT_ERR_PERMISSION);
    crti_lane_push(p.dialer.lane);
    assert_int_equal(is_in(memory, "frame", 5), is_believed);
    assert_int_equal(crti_lane_receive(p.dialer.lane, &frame), CRT_IN_PROGRESS);
    crti_lane_free(p.dialer.lane, 0);
    close(p.dialer.doorbell);
    close(p.listen_fd);
    close(memory);
    close(fd);
}

static void nothing_is_given_to_who_does_not_prove_the_key(void **state)
{
    dial_who_answers("the key", 'a', true); /* as the first bytes of the right one are */
    dial_who_answers("another", 'a', false);
    dial_who_answers("the key", 'd', false); /* our own message, sent back */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_sleeps_is_rung_for_the_first_frame_and_who_is_awake_is_not),
        cmocka_unit_test(a_doorbell_that_somebody_has_filled_rings_all_the_same),
        cmocka_unit_test(nothing_is_given_to_who_does_not_prove_the_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
