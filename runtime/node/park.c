/* SPDX-License-Identifier: Apache-2.0 */
/* Park: the loop's side. See park.h; park_lot.c is what the threads do. */
#include "runtime/node/park.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/map.h"
#include "runtime/node/park_lot.h"

#define LOTS_MAX     16
#define SPARE_FILES  64 /* of a lot: its own, and those in passing */
#define MESSAGES_MAX 64 /* of one event: others have a turn too */

struct crti_lot {
    crti_park_t *park;
    pthread_t thread;
    int fd;
    size_t used; /* items */
    crti_watch_t watch;
};

struct crti_park {
    crti_loop_t *loop;
    size_t items_max; /* of a lot */
    crti_lot_t *lots[LOTS_MAX];
    size_t lot_count;
    uint64_t last_number;
    crti_map_t items;    /* number -> crti_parked_t */
    crti_list_t ended;   /* crti_parked_t.ended, to be told by the timer */
    crti_timer_t teller; /* items may end while another is taken out */
    crti_lot_message_t message;
};

/* ---------------------------------------------------------------- what the threads say */

static void tell_ended(void *user)
{
    crti_park_t *park = user;
    crti_list_t *item;

    while ((item = crti_list_pop(&park->ended)) != NULL) {
        crti_parked_t *parked = CRTI_CONTAINER(item, crti_parked_t, ended);

        parked->on_end(parked->user, false);
    }
}

static void ended(crti_park_t *park, crti_parked_t *item)
{
    if (!crti_list_is_empty(&item->ended))
        return;
    crti_list_append(&park->ended, &item->ended);
    if (park->teller.place == 0 &&
        crti_loop_start(park->loop, &park->teller, crti_loop_now(park->loop)) != CRT_OK)
        tell_ended(park);
}

/* One message of the lot; false when there is none. `closed_out` is the item whose end it says. */
static bool take(crti_lot_t *lot, uint64_t *closed_out)
{
    crti_park_t *park = lot->park;
    crti_lot_message_t *m = &park->message;
    ssize_t got = recv(lot->fd, m, sizeof(*m), MSG_DONTWAIT);
    crti_parked_t *item;

    if (got < (ssize_t)CRTI_LOT_HEADER)
        return false;
    item = crti_map_get(&park->items, &m->number);
    if (m->kind == CRTI_LOT_CLOSED)
        *closed_out = m->number;
    else if (item && m->kind == CRTI_LOT_BYTES)
        item->on_bytes(item->user, m->which, m->data, (size_t)got - CRTI_LOT_HEADER);
    else if (item && m->kind == CRTI_LOT_ENDED)
        ended(park, item);
    else if (item && m->kind == CRTI_LOT_LOST)
        item->on_end(item->user, true);
    return true;
}

static void on_ready(void *user, uint32_t events)
{
    crti_lot_t *lot = user;
    uint64_t closed = 0;

    for (int i = 0; i < MESSAGES_MAX && take(lot, &closed); i++)
        continue;
}

/* The thread may wait until we take what it says: while there is no room for ours we do. False: it can't
 * be said, errno says why (too many descriptors are under way between processes of this user). */
static bool say(crti_lot_t *lot, const crti_lot_order_t *order, const int *fds,
                unsigned count)
{
    uint64_t closed = 0;

    while (!crti_lot_send(lot->fd, order, fds, count, MSG_DONTWAIT)) {
        struct pollfd p = {.fd = lot->fd, .events = POLLIN | POLLOUT};

        if (errno != EAGAIN && errno != EINTR)
            return false;
        poll(&p, 1, -1);
        while (take(lot, &closed))
            continue;
    }
    return true;
}

/* ---------------------------------------------------------------- lots */

static void free_lot(crti_lot_t *lot)
{
    crti_loop_remove(lot->park->loop, &lot->watch);
    close(lot->fd); /* ends the thread */
    pthread_join(lot->thread, NULL);
    free(lot);
}

static crt_status_t start_thread(crti_lot_t *lot, int theirs)
{
    sigset_t all, before;
    char answer = 0;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&lot->thread, NULL, crti_lot_main, (void *)(intptr_t)theirs);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return crt_raise(CRT_ERR_UNSUPPORTED, "park: no thread: %s", strerror(error));
    /* It has a table of its own, with its end of the pair, when it answers. */
    if (recv(lot->fd, &answer, 1, 0) == 1 && answer == 1)
        return CRT_OK;
    pthread_join(lot->thread, NULL);
    return crt_raise(CRT_ERR_UNSUPPORTED, "park: no table of files for a thread");
}

static crt_status_t new_lot(crti_park_t *park, crti_lot_t **lot_out)
{
    CRTI_AUTO(free) crti_lot_t *lot = calloc(1, sizeof(*lot));
    int fds[2];
    crt_status_t status;

    if (!lot)
        return crt_raise(CRT_ERR_NO_MEMORY, "park");
    if (park->lot_count == LOTS_MAX)
        return crt_raise(CRT_ERR_BACKPRESSURE, "park: %d lots are full", LOTS_MAX);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        return crt_raise(CRT_ERR_IO, "park: socketpair: %s", strerror(errno));
    lot->park = park;
    lot->fd = fds[0];
    status = start_thread(lot, fds[1]);
    close(fds[1]);
    if (status != CRT_OK) {
        close(lot->fd);
        return status;
    }
    lot->watch = (crti_watch_t){.on_ready = on_ready, .user = lot};
    status = crti_loop_add(park->loop, &lot->watch, lot->fd, EPOLLIN);
    if (status != CRT_OK) {
        free_lot(CRTI_TAKE(lot));
        return status;
    }
    *lot_out = park->lots[park->lot_count++] = CRTI_TAKE(lot);
    return CRT_OK;
}

static crt_status_t find_lot(crti_park_t *park, crti_lot_t **lot_out)
{
    for (size_t i = 0; i < park->lot_count; i++)
        if (park->lots[i]->used < park->items_max) {
            *lot_out = park->lots[i];
            return CRT_OK;
        }
    return new_lot(park, lot_out);
}

crt_status_t crti_park_new(crti_loop_t *loop, size_t files, crti_park_t **park_out)
{
    crti_park_t *park = calloc(1, sizeof(*park));

    if (!park)
        return crt_raise(CRT_ERR_NO_MEMORY, "park");
    park->loop = loop;
    park->items_max =
        files > 2 * SPARE_FILES ? (files - SPARE_FILES) / CRTI_PARK_FILES : 0;
    park->teller = (crti_timer_t){.on_expired = tell_ended, .user = park};
    crti_map_init(&park->items, sizeof(uint64_t));
    crti_list_init(&park->ended);
    *park_out = park;
    return CRT_OK;
}

void crti_park_free(crti_park_t *park)
{
    if (!park)
        return;
    crti_loop_cancel(park->loop, &park->teller);
    for (size_t i = 0; i < park->lot_count; i++)
        free_lot(park->lots[i]);
    crti_map_fini(&park->items);
    free(park);
}

/* ---------------------------------------------------------------- items */

static crt_status_t enter(crti_park_t *park, crti_parked_t *item)
{
    crti_lot_t *lot;
    crt_status_t status = find_lot(park, &lot);

    if (status != CRT_OK)
        return status;
    item->number = ++park->last_number;
    status = crti_map_put(&park->items, &item->number, item);
    if (status != CRT_OK)
        return status;
    crti_list_init(&item->ended);
    item->lot = lot;
    lot->used++;
    return CRT_OK;
}

crt_status_t crti_park_put(crti_park_t *park, crti_parked_t *item,
                           int fds_take[CRTI_PARK_FILES])
{
    crti_lot_order_t order = {.kind = CRTI_LOT_ADD};
    int fds[CRTI_PARK_FILES];
    unsigned count = 0;
    crt_status_t status = item->lot ? CRT_OK : enter(park, item);

    if (status != CRT_OK)
        return status;
    for (unsigned i = 0; i < CRTI_PARK_FILES; i++)
        if (fds_take[i] >= 0) {
            order.places |= 1u << i;
            fds[count++] = fds_take[i];
        }
    order.number = item->number;
    if (!say(item->lot, &order, fds, count))
        return crt_raise(CRT_ERR_BACKPRESSURE, "park: %s", strerror(errno));
    for (unsigned i = 0; i < CRTI_PARK_FILES; i++) {
        if (fds_take[i] >= 0)
            close(fds_take[i]);
        fds_take[i] = -1;
    }
    return CRT_OK;
}

void crti_park_kill(crti_parked_t *item)
{
    crti_lot_order_t order = {.kind = CRTI_LOT_KILL, .number = item->number};

    if (item->lot)
        say(item->lot, &order, NULL, 0);
}

void crti_park_take_out(crti_parked_t *item)
{
    crti_lot_t *lot = item->lot;
    crti_lot_order_t order = {.kind = CRTI_LOT_CLOSE, .number = item->number};
    uint64_t closed = 0;

    if (!lot)
        return;
    if (!say(lot, &order, NULL, 0))
        closed = item->number; /* what it says of it later is nobody's */
    while (closed != item->number) {
        struct pollfd p = {.fd = lot->fd, .events = POLLIN};

        if (!take(lot, &closed) && poll(&p, 1, -1) == 1 && (p.revents & POLLIN) == 0)
            break; /* the thread is gone, which only the end of this process brings about */
    }
    crti_list_remove(&item->ended);
    crti_map_remove(&lot->park->items, &item->number);
    lot->used--;
    item->lot = NULL;
}
