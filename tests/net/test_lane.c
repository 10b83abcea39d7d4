/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes, both sides in this process: how the one that sleeps is told. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/net/channel.h"
#include "runtime/net/lane.h"

#include <cmocka.h>

#define PATIENCE_MS 20000
#define FRAME_MAX   100000

typedef struct side {
    crti_lane_t *lane;
    int bell;
} side_t;

typedef struct pair {
    int listen_fd,
        epoll_fd; /* which tells of rings of the acceptor's bell as the net hears them */
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

    *p = (pair_t){.dialer.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                  .acceptor.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    snprintf(path, sizeof(path), "@crt-test-lane-%d", getpid());
    assert_int_equal(crti_channel_listen(path, &p->listen_fd), CRT_OK);
    assert_int_equal(crti_lane_dial(path, FRAME_MAX, p->dialer.bell, &p->dialer.lane),
                     CRT_OK);
    assert_int_equal(
        crti_lane_accept(p->listen_fd, FRAME_MAX, p->acceptor.bell, &p->acceptor.lane),
        CRT_OK);
    open_side(&p->acceptor);
    open_side(&p->dialer);
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    assert_int_equal(epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, p->acceptor.bell, &event), 0);
}

static void pair_stop(pair_t *p)
{
    crti_lane_free(p->dialer.lane, 0);
    crti_lane_free(p->acceptor.lane, 0);
    close(p->dialer.bell);
    close(p->acceptor.bell);
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
         i++) { /* nobody reads the bell: each ring is heard nevertheless */
        assert_true(crti_lane_sleep(p.acceptor.lane));
        send_to_acceptor(&p);
        assert_true(rings(&p, PATIENCE_MS));
        expect_frame(&p);
    }
    pair_stop(&p);
}

/* Whoever has a bell may write to it what he wants: a counter at its end takes no more. */
static void a_bell_that_somebody_has_filled_rings_all_the_same(void **state)
{
    uint64_t most = UINT64_MAX - 1;
    pair_t p;

    pair_start(&p);
    for (int i = 0; i < 3; i++) {
        uint64_t counted;

        assert_true(crti_lane_sleep(p.acceptor.lane));
        (void)!read(p.acceptor.bell, &counted, sizeof(counted));
        assert_int_equal(write(p.acceptor.bell, &most, sizeof(most)), sizeof(most));
        while (rings(&p, 0))
            continue;
        send_to_acceptor(&p);
        assert_true(rings(&p, PATIENCE_MS));
        expect_frame(&p);
    }
    pair_stop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_sleeps_is_rung_for_the_first_frame_and_who_is_awake_is_not),
        cmocka_unit_test(a_bell_that_somebody_has_filled_rings_all_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
