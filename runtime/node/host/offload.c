/* SPDX-License-Identifier: Apache-2.0 */
/* Offload: the loop's side. See offload.h; offload_thread.c is what the threads do. */
#include "runtime/node/host/offload.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/map.h"
#include "runtime/base/thread.h"
#include "runtime/node/host/offload_thread.h"

#define LOTS_MAX     16
#define SPARE_FILES  64 /* of a shard: its own, and those in passing */
#define MESSAGES_MAX 64 /* of one event: others have a turn too */

struct crti_offload_thread {
    crti_offload_t *offload;
    pthread_t thread;
    int fd;
    size_t used; /* items */
    crti_watch_t watch;
};

struct crti_offload {
    crti_loop_t *loop;
    size_t items_max; /* of a shard */
    crti_offload_thread_t *shards[LOTS_MAX];
    size_t lot_count;
    uint64_t last_number;
    crti_map_t items;    /* number -> crti_offloaded_t */
    crti_list_t ended;   /* crti_offloaded_t.ended, to be told by the timer */
    crti_timer_t teller; /* items may end while another is taken out */
    crti_offload_thread_message_t message;
};

/* ---------------------------------------------------------------- what the threads say */

static void tell_ended(void *user)
{
    crti_offload_t *offload = user;
    crti_list_t *item;

    while ((item = crti_list_pop(&offload->ended)) != NULL) {
        crti_offloaded_t *offloaded = CRTI_CONTAINER(item, crti_offloaded_t, ended);

        offloaded->on_end(offloaded->user, false);
    }
}

static void ended(crti_offload_t *offload, crti_offloaded_t *item)
{
    if (!crti_list_is_empty(&item->ended))
        return;
    crti_list_append(&offload->ended, &item->ended);
    if (!crti_timer_is_started(&offload->teller) &&
        crti_loop_start(offload->loop, &offload->teller, crti_loop_now(offload->loop)) !=
            CRT_OK)
        tell_ended(offload);
}

/* One message of the shard; false when there is none. `closed_out` is the item whose end it
 * says. */
static bool take(crti_offload_thread_t *shard, uint64_t *closed_out)
{
    crti_offload_t *offload = shard->offload;
    crti_offload_thread_message_t *m = &offload->message;
    ssize_t got = recv(shard->fd, m, sizeof(*m), MSG_DONTWAIT);
    crti_offloaded_t *item;

    if (got < (ssize_t)CRTI_OFFLOAD_THREAD_HEADER)
        return false;
    item = crti_map_get(&offload->items, &m->number);
    if (m->kind == CRTI_OFFLOAD_THREAD_CLOSED)
        *closed_out = m->number;
    else if (item && m->kind == CRTI_OFFLOAD_THREAD_BYTES)
        item->on_bytes(item->user, m->which, m->data,
                       (size_t)got - CRTI_OFFLOAD_THREAD_HEADER);
    else if (item && m->kind == CRTI_OFFLOAD_THREAD_ENDED)
        ended(offload, item);
    else if (item && m->kind == CRTI_OFFLOAD_THREAD_LOST)
        item->on_end(item->user, true);
    return true;
}

static void on_ready(void *user, uint32_t events)
{
    crti_offload_thread_t *shard = user;
    uint64_t closed = 0;

    for (int i = 0; i < MESSAGES_MAX && take(shard, &closed); i++)
        continue;
}

/* The thread may wait until we take what it says: while there is no room for ours we do. False: it
 * can't be said, errno says why (too many descriptors are under way between processes of this
 * user). */
static bool say(crti_offload_thread_t *shard, const crti_offload_thread_order_t *order,
                const int *fds, unsigned count)
{
    uint64_t closed = 0;

    while (!crti_offload_thread_send(shard->fd, order, fds, count, MSG_DONTWAIT)) {
        struct pollfd p = {.fd = shard->fd, .events = POLLIN | POLLOUT};

        if (errno != EAGAIN && errno != EINTR)
            return false;
        poll(&p, 1, -1);
        while (take(shard, &closed))
            continue;
    }
    return true;
}

/* ---------------------------------------------------------------- shards */

static void free_lot(crti_offload_thread_t *shard)
{
    crti_loop_remove(shard->offload->loop, &shard->watch);
    close(shard->fd); /* ends the thread */
    pthread_join(shard->thread, NULL);
    free(shard);
}

static crt_status_t start_thread(crti_offload_thread_t *shard, int theirs)
{
    char answer = 0;
    int error = crti_thread_start(&shard->thread, NULL, crti_offload_thread_main,
                                  (void *)(intptr_t)theirs);

    if (error)
        return crt_raise(CRT_ERR_UNSUPPORTED, "offload: no thread: %s", strerror(error));
    /* It has a table of its own, with its end of the pair, when it answers. */
    if (recv(shard->fd, &answer, 1, 0) == 1 && answer == 1)
        return CRT_OK;
    pthread_join(shard->thread, NULL);
    return crt_raise(CRT_ERR_UNSUPPORTED, "offload: no table of files for a thread");
}

static crt_status_t new_lot(crti_offload_t *offload, crti_offload_thread_t **shard_out)
{
    CRTI_AUTO(free) crti_offload_thread_t *shard = calloc(1, sizeof(*shard));
    int fds[2];
    crt_status_t status;

    if (!shard)
        return crt_raise(CRT_ERR_NO_MEMORY, "offload");
    if (offload->lot_count == LOTS_MAX)
        return crt_raise(CRT_ERR_BACKPRESSURE, "offload: %d shards are full", LOTS_MAX);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        return crt_raise(CRT_ERR_IO, "offload: socketpair: %s", strerror(errno));
    shard->offload = offload;
    shard->fd = fds[0];
    status = start_thread(shard, fds[1]);
    close(fds[1]);
    if (status != CRT_OK) {
        close(shard->fd);
        return status;
    }
    shard->watch = (crti_watch_t){.on_ready = on_ready, .user = shard};
    status = crti_loop_add(offload->loop, &shard->watch, shard->fd, EPOLLIN);
    if (status != CRT_OK) {
        free_lot(CRTI_TAKE(shard));
        return status;
    }
    *shard_out = offload->shards[offload->lot_count++] = CRTI_TAKE(shard);
    return CRT_OK;
}

static crt_status_t find_lot(crti_offload_t *offload, crti_offload_thread_t **shard_out)
{
    for (size_t i = 0; i < offload->lot_count; i++)
        if (offload->shards[i]->used < offload->items_max) {
            *shard_out = offload->shards[i];
            return CRT_OK;
        }
    return new_lot(offload, shard_out);
}

crt_status_t crti_offload_new(crti_loop_t *loop, size_t files,
                              crti_offload_t **offload_out)
{
    crti_offload_t *offload = calloc(1, sizeof(*offload));

    if (!offload)
        return crt_raise(CRT_ERR_NO_MEMORY, "offload");
    offload->loop = loop;
    offload->items_max =
        files > 2 * SPARE_FILES ? (files - SPARE_FILES) / CRTI_OFFLOAD_FILES : 0;
    offload->teller = (crti_timer_t){.on_expired = tell_ended, .user = offload};
    crti_map_init(&offload->items, sizeof(uint64_t));
    crti_list_init(&offload->ended);
    *offload_out = offload;
    return CRT_OK;
}

void crti_offload_free(crti_offload_t *offload)
{
    if (!offload)
        return;
    crti_loop_cancel(offload->loop, &offload->teller);
    for (size_t i = 0; i < offload->lot_count; i++)
        free_lot(offload->shards[i]);
    crti_map_fini(&offload->items);
    free(offload);
}

/* ---------------------------------------------------------------- items */

static crt_status_t enter(crti_offload_t *offload, crti_offloaded_t *item)
{
    crti_offload_thread_t *shard;
    crt_status_t status = find_lot(offload, &shard);

    if (status != CRT_OK)
        return status;
    item->number = ++offload->last_number;
    status = crti_map_put(&offload->items, &item->number, item);
    if (status != CRT_OK)
        return status;
    crti_list_init(&item->ended);
    item->shard = shard;
    shard->used++;
    return CRT_OK;
}

crt_status_t crti_offload_put(crti_offload_t *offload, crti_offloaded_t *item,
                              int fds_take[CRTI_OFFLOAD_FILES])
{
    crti_offload_thread_order_t order = {.kind = CRTI_OFFLOAD_THREAD_ADD};
    int fds[CRTI_OFFLOAD_FILES];
    unsigned count = 0;
    crt_status_t status = item->shard ? CRT_OK : enter(offload, item);

    if (status != CRT_OK)
        return status;
    for (unsigned i = 0; i < CRTI_OFFLOAD_FILES; i++)
        if (fds_take[i] >= 0) {
            order.places |= 1u << i;
            fds[count++] = fds_take[i];
        }
    order.number = item->number;
    if (!say(item->shard, &order, fds, count))
        return crt_raise(CRT_ERR_BACKPRESSURE, "offload: %s", strerror(errno));
    for (unsigned i = 0; i < CRTI_OFFLOAD_FILES; i++) {
        if (fds_take[i] >= 0)
            close(fds_take[i]);
        fds_take[i] = -1;
    }
    return CRT_OK;
}

void crti_offload_kill(crti_offloaded_t *item)
{
    crti_offload_thread_order_t order = {.kind = CRTI_OFFLOAD_THREAD_KILL,
                                         .number = item->number};

    if (item->shard)
        say(item->shard, &order, NULL, 0);
}

void crti_offload_take_out(crti_offloaded_t *item)
{
    crti_offload_thread_t *shard = item->shard;
    crti_offload_thread_order_t order = {.kind = CRTI_OFFLOAD_THREAD_CLOSE,
                                         .number = item->number};
    uint64_t closed = 0;

    if (!shard)
        return;
    if (!say(shard, &order, NULL, 0))
        closed = item->number; /* what it says of it later is nobody's */
    while (closed != item->number) {
        struct pollfd p = {.fd = shard->fd, .events = POLLIN};

        if (!take(shard, &closed) && poll(&p, 1, -1) == 1 && (p.revents & POLLIN) == 0)
            break; /* the thread is gone, which only the end of this process brings about */
    }
    crti_list_remove(&item->ended);
    crti_map_remove(&shard->offload->items, &item->number);
    shard->used--;
    item->shard = NULL;
}
