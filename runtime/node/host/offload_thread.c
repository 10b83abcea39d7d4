/* SPDX-License-Identifier: Apache-2.0 */
/* An offload thread. See offload_thread.h. */
#include "runtime/node/host/offload_thread.h"

#include <errno.h>
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
#include "runtime/node/host/offload.h"

#define EVENTS    64
#define DRAIN_MAX ((size_t)4 << 20) /* read of a dead process whose pipe is held open */
#define PIDFD     CRTI_OFFLOAD_PIPES

typedef struct spot {
    uint64_t number;
    int fds[CRTI_OFFLOAD_FILES];
} spot_t;

typedef struct shard {
    int fd, epoll_fd;
    bool is_over;
    crti_map_t spots; /* number -> spot_t */
    crti_offload_thread_message_t message;
} thread_t;

/* ---------------------------------------------------------------- messages */

bool crti_offload_thread_send(int fd, const crti_offload_thread_order_t *order,
                              const int *fds, unsigned count, int flags)
{
    union {
        char bytes[CMSG_SPACE(CRTI_OFFLOAD_FILES * sizeof(int))];
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
static void say(thread_t *shard, uint64_t number, int kind, unsigned which, size_t size)
{
    shard->message.number = number;
    shard->message.kind = kind;
    shard->message.which = which;
    while (send(shard->fd, &shard->message, CRTI_OFFLOAD_THREAD_HEADER + size,
                MSG_NOSIGNAL) < 0 &&
           errno == EINTR)
        continue;
}

/* The descriptors that came; -1 in places that did not. */
static bool receive(thread_t *shard, crti_offload_thread_order_t *order,
                    int fds[CRTI_OFFLOAD_FILES])
{
    union {
        char bytes[CMSG_SPACE(CRTI_OFFLOAD_FILES * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {order, sizeof(*order)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c;
    size_t count = 0, next = 0;
    int came[CRTI_OFFLOAD_FILES];
    ssize_t got = recvmsg(shard->fd, &message, MSG_CMSG_CLOEXEC);

    if (got != (ssize_t)sizeof(*order)) {
        shard->is_over = got >= 0 || errno != EINTR; /* 0: the other end is closed */
        return false;
    }
    c = CMSG_FIRSTHDR(&message);
    if (c && c->cmsg_type == SCM_RIGHTS) {
        count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(came, CMSG_DATA(c), count * sizeof(int));
    }
    for (unsigned i = 0; i < CRTI_OFFLOAD_FILES; i++)
        fds[i] = order->places & 1u << i && next < count ? came[next++] : -1;
    return true;
}

/* ---------------------------------------------------------------- spots */

/* epoll's data: which spot and which of its places; a spot is aligned to more than PLACE_MASK. */
#define PLACE_MASK 3u

/* Said by itself: epoll forgets what is closed only when nobody else has it open, as a child has
 * that was forked while it was the daemon's. */
static void close_place(const thread_t *shard, spot_t *spot, unsigned place)
{
    if (spot->fds[place] >= 0) {
        epoll_ctl(shard->epoll_fd, EPOLL_CTL_DEL, spot->fds[place], NULL);
        close(spot->fds[place]);
    }
    spot->fds[place] = -1;
}

static bool watch(thread_t *shard, spot_t *spot, unsigned place, int fd)
{
    struct epoll_event e = {.events = EPOLLIN,
                            .data.u64 = (uint64_t)(uintptr_t)spot | place};

    spot->fds[place] = fd;
    return fd >= 0 && epoll_ctl(shard->epoll_fd, EPOLL_CTL_ADD, fd, &e) == 0;
}

static spot_t *spot_of(thread_t *shard, uint64_t number)
{
    spot_t *spot = crti_map_get(&shard->spots, &number);

    if (spot)
        return spot;
    spot = calloc(1, sizeof(*spot));
    if (spot && crti_map_put(&shard->spots, &number, spot) != CRT_OK) {
        free(spot);
        return NULL;
    }
    if (spot)
        *spot = (spot_t){.number = number, .fds = {-1, -1, -1}};
    return spot;
}

static void add(thread_t *shard, const crti_offload_thread_order_t *order,
                int fds[CRTI_OFFLOAD_FILES])
{
    spot_t *spot = spot_of(shard, order->number);
    bool ok = spot != NULL;

    for (unsigned i = 0; i < CRTI_OFFLOAD_FILES; i++) {
        if (!(order->places & 1u << i))
            continue;
        if (spot)
            ok &= watch(shard, spot, i, fds[i]);
        else if (fds[i] >= 0)
            close(fds[i]);
    }
    if (!ok)
        say(shard, order->number, CRTI_OFFLOAD_THREAD_LOST, 0, 0);
}

/* One read, sent on. Returns its size; 0: nothing more now, or ever. */
static size_t pass_on(thread_t *shard, spot_t *spot, unsigned place)
{
    ssize_t got;

    do
        got = read(spot->fds[place], shard->message.data, sizeof(shard->message.data));
    while (got < 0 && errno == EINTR);
    if (got > 0)
        say(shard, spot->number, CRTI_OFFLOAD_THREAD_BYTES, place, (size_t)got);
    if (got == 0) /* all writers closed it; without this epoll spins */
        close_place(shard, spot, place);
    return got > 0 ? (size_t)got : 0;
}

static void end(thread_t *shard, uint64_t number)
{
    spot_t *spot = crti_map_get(&shard->spots, &number);

    for (unsigned i = 0; spot && i < CRTI_OFFLOAD_FILES; i++) {
        size_t total = 0, got = 1;

        while (i < CRTI_OFFLOAD_PIPES && spot->fds[i] >= 0 && got && total < DRAIN_MAX)
            total += got = pass_on(shard, spot, i);
        close_place(shard, spot, i);
    }
    crti_map_remove(&shard->spots, &number);
    free(spot);
    say(shard, number, CRTI_OFFLOAD_THREAD_CLOSED, 0, 0);
}

static void kill_it(thread_t *shard, uint64_t number)
{
    const spot_t *spot = crti_map_get(&shard->spots, &number);

    if (spot && spot->fds[PIDFD] >= 0)
        syscall(SYS_pidfd_send_signal, spot->fds[PIDFD], SIGKILL, NULL, 0);
}

/* ---------------------------------------------------------------- the thread */

/* One order at a time, and no event that was fetched before it is looked at after it: it may have
 * freed the spot. */
static void obey(thread_t *shard)
{
    crti_offload_thread_order_t order;
    int fds[CRTI_OFFLOAD_FILES];

    if (!receive(shard, &order, fds))
        return;
    switch (order.kind) {
    case CRTI_OFFLOAD_THREAD_ADD: add(shard, &order, fds); return;
    case CRTI_OFFLOAD_THREAD_KILL: kill_it(shard, order.number); return;
    case CRTI_OFFLOAD_THREAD_CLOSE: end(shard, order.number); return;
    }
}

static void on_event(thread_t *shard, uint64_t data)
{
    spot_t *spot = (spot_t *)(uintptr_t)(data & ~(uint64_t)PLACE_MASK);
    unsigned place = (unsigned)(data & PLACE_MASK);

    if (place < CRTI_OFFLOAD_PIPES) {
        pass_on(shard, spot, place);
        return;
    }
    close_place(shard, spot, PIDFD);
    say(shard, spot->number, CRTI_OFFLOAD_THREAD_ENDED, 0, 0);
}

static void serve(thread_t *shard)
{
    struct epoll_event events[EVENTS];
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = 0};

    epoll_ctl(shard->epoll_fd, EPOLL_CTL_ADD, shard->fd, &e);
    while (!shard->is_over) {
        int count = epoll_wait(shard->epoll_fd, events, EVENTS, -1);
        bool has_order = false;

        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == 0)
                has_order = true;
            else
                on_event(shard, events[i].data.u64);
        }
        if (has_order)
            obey(shard);
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

static void free_spots(thread_t *shard)
{
    CRTI_MAP_FOREACH (spot_t, spot, &shard->spots) {
        for (unsigned i = 0; i < CRTI_OFFLOAD_FILES; i++)
            close_place(shard, spot, i);
        free(spot);
    }
    crti_map_fini(&shard->spots);
}

void *crti_offload_thread_main(void *fd)
{
    thread_t *shard = calloc(1, sizeof(*shard));
    int own = (int)(intptr_t)fd;
    char answer = 0;

    prctl(PR_SET_NAME, "crt-offload");
    if (shard && take_table(own)) {
        shard->fd = own;
        shard->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        answer = shard->epoll_fd >= 0;
    }
    if (send(own, &answer, 1, MSG_NOSIGNAL) == 1 && answer == 1) {
        crti_map_init(&shard->spots, sizeof(uint64_t));
        serve(shard);
        free_spots(shard);
    }
    if (answer == 1) {
        close(shard->epoll_fd);
        close(own);
    }
    free(shard);
    return NULL;
}
