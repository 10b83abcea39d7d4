/* SPDX-License-Identifier: Apache-2.0 */
/* A lot's thread. See park_lot.h. */
#include "runtime/node/park_lot.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/map.h"
#include "runtime/node/park.h"

#define EVENTS    64
#define DRAIN_MAX ((size_t)4 << 20) /* read of a dead process whose pipe is held open */
#define PIDFD     CRTI_PARK_PIPES

typedef struct spot {
    uint64_t number;
    int fds[CRTI_PARK_FILES];
} spot_t;

typedef struct lot {
    int fd, epoll_fd;
    bool is_over;
    crti_map_t spots; /* number -> spot_t */
    crti_lot_message_t message;
} lot_t;

/* ---------------------------------------------------------------- messages */

bool crti_lot_send(int fd, const crti_lot_order_t *order, const int *fds, unsigned count,
                   int flags)
{
    union {
        char bytes[CMSG_SPACE(CRTI_PARK_FILES * sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec part = {(void *)(uintptr_t)order, sizeof(*order)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct cmsghdr *c;

    if (count) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, count * sizeof(int));
    }
    return sendmsg(fd, &message, flags | MSG_NOSIGNAL) == (ssize_t)sizeof(*order);
}

/* Waits while the loop is busy. */
static void say(lot_t *lot, uint64_t number, int kind, unsigned which, size_t size)
{
    lot->message.number = number;
    lot->message.kind = kind;
    lot->message.which = which;
    while (send(lot->fd, &lot->message, CRTI_LOT_HEADER + size, MSG_NOSIGNAL) < 0 &&
           errno == EINTR)
        continue;
}

/* The descriptors that came; -1 in places that did not. */
static bool receive(lot_t *lot, crti_lot_order_t *order, int fds[CRTI_PARK_FILES])
{
    union {
        char bytes[CMSG_SPACE(CRTI_PARK_FILES * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {order, sizeof(*order)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c;
    size_t count = 0, next = 0;
    int came[CRTI_PARK_FILES];
    ssize_t got = recvmsg(lot->fd, &message, MSG_CMSG_CLOEXEC);

    if (got != (ssize_t)sizeof(*order)) {
        lot->is_over = got >= 0 || errno != EINTR; /* 0: the other end is closed */
        return false;
    }
    c = CMSG_FIRSTHDR(&message);
    if (c && c->cmsg_type == SCM_RIGHTS) {
        count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(came, CMSG_DATA(c), count * sizeof(int));
    }
    for (unsigned i = 0; i < CRTI_PARK_FILES; i++)
        fds[i] = order->places & 1u << i && next < count ? came[next++] : -1;
    return true;
}

/* ---------------------------------------------------------------- spots */

/* epoll's data: which spot and which of its places; a spot is aligned to more than PLACE_MASK. */
#define PLACE_MASK 3u

/* Said by itself: epoll forgets what is closed only when nobody else has it open, as a child has that
 * was forked while it was the daemon's. */
static void close_place(const lot_t *lot, spot_t *spot, unsigned place)
{
    if (spot->fds[place] >= 0) {
        epoll_ctl(lot->epoll_fd, EPOLL_CTL_DEL, spot->fds[place], NULL);
        close(spot->fds[place]);
    }
    spot->fds[place] = -1;
}

static bool watch(lot_t *lot, spot_t *spot, unsigned place, int fd)
{
    struct epoll_event e = {.events = EPOLLIN,
                            .data.u64 = (uint64_t)(uintptr_t)spot | place};

    spot->fds[place] = fd;
    return fd >= 0 && epoll_ctl(lot->epoll_fd, EPOLL_CTL_ADD, fd, &e) == 0;
}

static spot_t *spot_of(lot_t *lot, uint64_t number)
{
    spot_t *spot = crti_map_get(&lot->spots, &number);

    if (spot)
        return spot;
    spot = calloc(1, sizeof(*spot));
    if (spot && crti_map_put(&lot->spots, &number, spot) != CRT_OK) {
        free(spot);
        return NULL;
    }
    if (spot)
        *spot = (spot_t){.number = number, .fds = {-1, -1, -1}};
    return spot;
}

static void add(lot_t *lot, const crti_lot_order_t *order, int fds[CRTI_PARK_FILES])
{
    spot_t *spot = spot_of(lot, order->number);
    bool ok = spot != NULL;

    for (unsigned i = 0; i < CRTI_PARK_FILES; i++) {
        if (!(order->places & 1u << i))
            continue;
        if (spot)
            ok &= watch(lot, spot, i, fds[i]);
        else if (fds[i] >= 0)
            close(fds[i]);
    }
    if (!ok)
        say(lot, order->number, CRTI_LOT_LOST, 0, 0);
}

/* One read, sent on. Returns its size; 0: nothing more now, or ever. */
static size_t pass_on(lot_t *lot, spot_t *spot, unsigned place)
{
    ssize_t got;

    do
        got = read(spot->fds[place], lot->message.data, sizeof(lot->message.data));
    while (got < 0 && errno == EINTR);
    if (got > 0)
        say(lot, spot->number, CRTI_LOT_BYTES, place, (size_t)got);
    if (got == 0) /* all writers closed it; without this epoll spins */
        close_place(lot, spot, place);
    return got > 0 ? (size_t)got : 0;
}

static void end(lot_t *lot, uint64_t number)
{
    spot_t *spot = crti_map_get(&lot->spots, &number);

    for (unsigned i = 0; spot && i < CRTI_PARK_FILES; i++) {
        size_t total = 0, got = 1;

        while (i < CRTI_PARK_PIPES && spot->fds[i] >= 0 && got && total < DRAIN_MAX)
            total += got = pass_on(lot, spot, i);
        close_place(lot, spot, i);
    }
    crti_map_remove(&lot->spots, &number);
    free(spot);
    say(lot, number, CRTI_LOT_CLOSED, 0, 0);
}

static void kill_it(lot_t *lot, uint64_t number)
{
    const spot_t *spot = crti_map_get(&lot->spots, &number);

    if (spot && spot->fds[PIDFD] >= 0)
        syscall(SYS_pidfd_send_signal, spot->fds[PIDFD], SIGKILL, NULL, 0);
}

/* ---------------------------------------------------------------- the thread */

/* One order at a time, and no event that was fetched before it is looked at after it: it may have
 * freed the spot. */
static void obey(lot_t *lot)
{
    crti_lot_order_t order;
    int fds[CRTI_PARK_FILES];

    if (!receive(lot, &order, fds))
        return;
    switch (order.kind) {
    case CRTI_LOT_ADD: add(lot, &order, fds); return;
    case CRTI_LOT_KILL: kill_it(lot, order.number); return;
    case CRTI_LOT_CLOSE: end(lot, order.number); return;
    }
}

static void on_event(lot_t *lot, uint64_t data)
{
    spot_t *spot = (spot_t *)(uintptr_t)(data & ~(uint64_t)PLACE_MASK);
    unsigned place = (unsigned)(data & PLACE_MASK);

    if (place < CRTI_PARK_PIPES) {
        pass_on(lot, spot, place);
        return;
    }
    close_place(lot, spot, PIDFD);
    say(lot, spot->number, CRTI_LOT_ENDED, 0, 0);
}

static void serve(lot_t *lot)
{
    struct epoll_event events[EVENTS];
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = 0};

    epoll_ctl(lot->epoll_fd, EPOLL_CTL_ADD, lot->fd, &e);
    while (!lot->is_over) {
        int count = epoll_wait(lot->epoll_fd, events, EVENTS, -1);
        bool has_order = false;

        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == 0)
                has_order = true;
            else
                on_event(lot, events[i].data.u64);
        }
        if (has_order)
            obey(lot);
    }
}

/* The copy of the table has everything that the daemon has open: only ours stays. */
static bool take_table(int fd)
{
    return unshare(CLONE_FILES) == 0 && fd > STDERR_FILENO &&
           (fd == STDERR_FILENO + 1 ||
            syscall(SYS_close_range, STDERR_FILENO + 1, fd - 1, 0) == 0) &&
           syscall(SYS_close_range, fd + 1, ~0u, 0) == 0;
}

static void free_spots(lot_t *lot)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&lot->spots, &cursor, NULL, &value)) {
        spot_t *spot = value;

        for (unsigned i = 0; i < CRTI_PARK_FILES; i++)
            close_place(lot, spot, i);
        free(spot);
    }
    crti_map_fini(&lot->spots);
}

void *crti_lot_main(void *fd)
{
    lot_t *lot = calloc(1, sizeof(*lot));
    int own = (int)(intptr_t)fd;
    char answer = 0;

    prctl(PR_SET_NAME, "crt-park");
    if (lot && take_table(own)) {
        lot->fd = own;
        lot->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        answer = lot->epoll_fd >= 0;
    }
    if (send(own, &answer, 1, MSG_NOSIGNAL) == 1 && answer == 1) {
        crti_map_init(&lot->spots, sizeof(uint64_t));
        serve(lot);
        free_spots(lot);
    }
    if (answer == 1) {
        close(lot->epoll_fd);
        close(own);
    }
    free(lot);
    return NULL;
}
