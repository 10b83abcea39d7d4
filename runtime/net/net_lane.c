/* SPDX-License-Identifier: Apache-2.0 */
/* Net, ports to processes of this node: lanes.
 *
 * Where it sits
 *     net_io (frames) -> [ net_lane ] -> lane -> the other process
 * Threads
 *     Everything under net's lock.
 * Waking
 *     A lane in net->active is awake: its peer rings no doorbell, the holder of the progress token
 *     looks itself and puts it to sleep before it sleeps. While another thread sleeps no lane
 *     may be woken by a sender: nobody would look. A doorbell is shared by up to LANES_PER_DOORBELL
 *     lanes, so that thousands of lanes need few descriptors; when it rings all of them are looked
 *     at.
 * Strangers
 *     Whoever has this uid can connect. A connection without a first message costs a descriptor, so
 *     there are UNPROVEN of them at most. One with a wrong proof is closed, counted, and told
 *     nothing.
 * Failure
 *     A process that ends says so on its lanes. If it can't, the node daemon's notice ends the
 *     session, or silence.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "runtime/base/log.h"
#include "runtime/net/channel.h"
#include "runtime/net/net_int.h"

#define LANES_PER_DOORBELL 16
#define IDLE_LOOKS         64 /* in vain, before a lane sleeps though its process does not */
#define ACCEPTS            64 /* of one event */
#define SWEEP_EVERY        16 /* lanes that are accepted */
#define UNPROVEN           64 /* connections that have not shown the key: the oldest gives way */

/* Lives as long as the net. */
struct crti_doorbell {
    crti_source_t source;
    crti_list_t link; /* net->doorbells */
    int count;
    crti_port_t *ports[LANES_PER_DOORBELL];
};

/* ---------------------------------------------------------------- doorbells */

static void look(crti_port_t *port)
{
    port->idle_looks = 0;
    crti_lane_awake(port->lane);
    crti_port_activate(port);
}

/* Which lane rang is not told. A doorbell may also come late, for a frame that was found without
 * it: then the ringer has taken the mark that we sleep, and we set it again. */
static void on_doorbell(crti_source_t *source, uint32_t events)
{
    crti_doorbell_t *doorbell = CRTI_CONTAINER(source, crti_doorbell_t, source);

    for (int i = 0; i < doorbell->count; i++) {
        crti_port_t *port = doorbell->ports[i];

        if (port->source.removed || !crti_list_is_empty(&port->active))
            continue;
        if (crti_lane_has_outbox(port->lane) || !crti_lane_sleep(port->lane))
            look(port);
    }
}

void crti_net_check_doorbells(crti_net_t *net)
{
    CRTI_LIST_FOREACH (item, &net->doorbells)
        on_doorbell(&CRTI_CONTAINER(item, crti_doorbell_t, link)->source, EPOLLIN);
}

static void on_doorbell_free(crti_source_t *source)
{
    crti_doorbell_t *doorbell = CRTI_CONTAINER(source, crti_doorbell_t, source);

    crti_list_remove(&doorbell->link);
    close(source->fd);
    free(doorbell);
}

static crt_status_t new_doorbell(crti_net_t *net, crti_doorbell_t **doorbell_out)
{
    CRTI_AUTO(free) crti_doorbell_t *doorbell = calloc(1, sizeof(*doorbell));
    CRTI_AUTO(crti_close) int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    crt_status_t status;

    if (!doorbell || fd < 0)
        return crt_raise(CRT_ERR_IO, "cannot make a doorbell: %s", strerror(errno));
    doorbell->source =
        (crti_source_t){.fd = fd, .on_ready = on_doorbell, .on_free = on_doorbell_free};
    /* Each ring is an edge, whatever was counted before: the counter is never read. */
    status = crti_progress_add(&net->progress, &doorbell->source, EPOLLIN | EPOLLET);
    if (status != CRT_OK)
        return status;
    crti_take_fd(&fd); /* the doorbell has it */
    crti_list_append(net->doorbells.next, &doorbell->link);
    *doorbell_out = CRTI_TAKE(doorbell);
    return CRT_OK;
}

/* Those with places left are in front. */
static crt_status_t find_doorbell(crti_net_t *net, crti_doorbell_t **doorbell_out)
{
    crti_doorbell_t *first = CRTI_CONTAINER(net->doorbells.next, crti_doorbell_t, link);

    if (crti_list_is_empty(&net->doorbells) || first->count == LANES_PER_DOORBELL)
        return new_doorbell(net, doorbell_out);
    *doorbell_out = first;
    return CRT_OK;
}

static void join_doorbell(crti_port_t *port)
{
    crti_doorbell_t *doorbell = port->doorbell;

    doorbell->ports[doorbell->count++] = port;
    if (doorbell->count < LANES_PER_DOORBELL)
        return;
    crti_list_remove(&doorbell->link);
    crti_list_append(&port->net->doorbells, &doorbell->link);
}

static void leave_doorbell(crti_port_t *port)
{
    crti_doorbell_t *doorbell = port->doorbell;

    for (int i = 0; i < doorbell->count; i++)
        if (doorbell->ports[i] == port) {
            doorbell->ports[i] = doorbell->ports[--doorbell->count];
            break;
        }
    crti_list_remove(&doorbell->link);
    crti_list_append(port->net->doorbells.next, &doorbell->link);
}

void crti_net_remove_doorbells(crti_net_t *net)
{
    crti_list_t *item;

    while ((item = crti_list_pop(&net->doorbells)))
        crti_progress_remove(&net->progress,
                             &CRTI_CONTAINER(item, crti_doorbell_t, link)->source);
}

static size_t frame_max(const crti_net_t *net)
{
    return net->config.record_bytes + 2 * CRTI_SESSION_GATHER;
}

/* ---------------------------------------------------------------- messages */

static bool make(const struct iovec *parts, int count, size_t size, void *message)
{
    crti_lane_message_t **slot = message;

    *slot = crti_lane_message_new(parts, count, size);
    return *slot != NULL;
}

static void drop(void *message)
{
    crti_lane_message_unref(*(crti_lane_message_t **)message);
}

/* An answer is expected: it needs no doorbell if it comes before we sleep. */
static void expect_answer(crti_port_t *port)
{
    crti_net_t *net = port->net;

    if (!crti_list_is_empty(&port->active))
        return;
    if (!net->progress.sleeping) {
        crti_lane_awake(port->lane);
        crti_port_activate(port);
    } else if (crti_list_is_empty(&port->expecting)) {
        crti_list_append(&net->expecting, &port->expecting);
    }
}

static bool send_message(crti_port_t *port, const unsigned char *route, void *message)
{
    expect_answer(port);
    return crti_lane_send(port->lane, *(crti_lane_message_t **)message);
}

static bool is_idle(crti_port_t *port)
{
    return crti_lane_is_idle(port->lane);
}

static void send_bytes(crti_port_t *port, const unsigned char *route, const void *data,
                       size_t size)
{
    struct iovec part = {(void *)(uintptr_t)data, size};
    crti_lane_message_t *message = crti_lane_message_new(&part, 1, size);

    if (!message)
        return; /* as if it had been lost on the way */
    crti_lane_send(port->lane, message);
    crti_lane_message_unref(message);
}

/* ---------------------------------------------------------------- receiving */

static void break_port(crti_port_t *port, crt_status_t status)
{
    crti_peer_t *peer = port->peer;
    char detail[256];

    snprintf(detail, sizeof(detail), "%s", crt_error_detail());
    crti_log(CRTI_LOG_WARN, "net", "a lane is given up: %s", detail);
    if (status == CRT_ERR_PROTOCOL)
        port->net->stats.frames_malformed++;
    if (!peer) {
        crti_port_remove(port, 0);
        return;
    }
    crti_peer_ref(peer);
    crti_session_fail(&peer->session, status, detail);
    crti_peer_unref(peer);
}

/* A lane is looked at without a doorbell for as long as it is busy. */
static void rest(crti_port_t *port)
{
    if (++port->idle_looks > IDLE_LOOKS && crti_lane_sleep(port->lane))
        crti_list_remove(&port->active);
}

/* A thread that sent something after the look of a spin has read a later time. */
static void set_time(crti_net_t *net, uint64_t now)
{
    if (now > net->now)
        net->now = now;
}

/* Stops when whoever makes progress has what it waits for: the rest is received by the next. */
static bool drain(crti_port_t *port)
{
    crti_net_t *net = port->net;
    bool any = crti_lane_push(port->lane);

    for (int i = 0; i < CRTI_NET_RECEIVE_MAX && !port->source.removed; i++) {
        crti_received_frame_t arrival = {.peer = port->peer, .is_single = true};
        crti_span_t frame;
        crt_status_t status = crti_lane_receive(port->lane, &frame);

        if (status == CRT_IN_PROGRESS) {
            crti_lane_received(port->lane);
            rest(port);
            return any;
        }
        if (status != CRT_OK) {
            break_port(port, status);
            return true;
        }
        if (!any)
            set_time(net, crti_progress_now(&net->progress));
        any = true;
        port->idle_looks = 0;
        arrival.data = frame.data;
        arrival.size = frame.size;
        crti_net_receive(port, &arrival);
        if (crti_progress_is_done(&net->progress))
            break;
    }
    if (!port->source.removed)
        crti_lane_received(port->lane);
    return any;
}

static bool may_sleep(crti_port_t *port)
{
    return crti_lane_sleep(port->lane);
}

static bool input_word(crti_port_t *port, crti_progress_word_t *word_out)
{
    crti_lane_awake(port->lane);
    return crti_lane_input_word(port->lane, word_out);
}

void crti_port_prove(crti_port_t *port)
{
    if (crti_list_is_empty(&port->unproven))
        return;
    crti_list_remove(&port->unproven);
    port->net->unproven_count--;
}

static void close_port(crti_port_t *port)
{
    leave_doorbell(port);
    crti_lane_free(port->lane, port->net->linger_until);
    free(port);
}

const crti_transport_t crti_net_lane = {
    .make = make,
    .drop = drop,
    .send = send_message,
    .send_bytes = send_bytes,
    .is_idle = is_idle,
    .drain = drain,
    .sleep = may_sleep,
    .input_word = input_word,
    .close = close_port,
};

/* ---------------------------------------------------------------- start */

/* The peer went away before the lane was open, or somebody without the key has its name now. A
 * session that did not open either dials again with its next HELLO, until the node tells that its
 * process is dead. */
static void forget_port(crti_port_t *port)
{
    if (port->peer)
        port->peer->port = NULL;
    crti_port_remove(port, 0);
}

static void on_socket(crti_source_t *source, uint32_t events)
{
    crti_port_t *port = CRTI_CONTAINER(source, crti_port_t, source);
    crt_status_t status;

    if (source->fd < 0) /* an event that was fetched before it was closed */
        return;
    status = crti_lane_take_socket(port->lane);
    if (status == CRT_IN_PROGRESS)
        return;
    if (status == CRT_ERR_PERMISSION)
        port->net->stats.handshakes_refused++;
    if (status == CRT_ERR_CLOSED || status == CRT_ERR_PERMISSION) {
        forget_port(port);
    } else if (status != CRT_OK) {
        break_port(port, status);
    } else {
        crti_port_prove(port);
        crti_progress_unwatch(&port->net->progress, source);
        crti_lane_close_socket(port->lane);
        look(port);
    }
}

/* A lane whose socket is closed already is open. */
static crt_status_t new_port(crti_net_t *net, crti_lane_t **lane_take,
                             crti_doorbell_t *doorbell, crti_peer_t *peer,
                             crti_port_t **port_out)
{
    CRTI_AUTO(free) crti_port_t *port = calloc(1, sizeof(*port));
    crt_status_t status = CRT_OK;

    if (!port)
        return crt_raise(CRT_ERR_NO_MEMORY, "net: a lane");
    *port = (crti_port_t){.transport = &crti_net_lane,
                          .peer = peer,
                          .lane = *lane_take,
                          .doorbell = doorbell};
    if (crti_lane_fd(port->lane) < 0)
        crti_port_add(net, port, -1, on_socket);
    else
        status = crti_port_watch(net, port, crti_lane_fd(port->lane), EPOLLIN, on_socket);
    if (status != CRT_OK)
        return status;
    *lane_take = NULL;
    join_doorbell(port);
    if (!net->progress.sleeping || !crti_lane_sleep(port->lane)) {
        crti_port_activate(port);
        if (net->progress.sleeping)
            crti_progress_kick(&net->progress);
    }
    *port_out = CRTI_TAKE(port);
    return CRT_OK;
}

crt_status_t crti_peer_dial_lane(crti_peer_t *peer)
{
    CRTI_AUTO(crti_lane_drop) crti_lane_t *lane = NULL;
    crti_lane_end_t end = peer->net->lane_end;
    crti_doorbell_t *doorbell;
    crt_status_t status = find_doorbell(peer->net, &doorbell);

    end.path = peer->path;
    if (status == CRT_OK)
        status = crti_lane_dial(&end, frame_max(peer->net), doorbell->source.fd, &lane);
    crti_key_wipe(end.key, sizeof(end.key));
    if (status == CRT_ERR_UNREACHABLE)
        return CRT_OK;
    if (status == CRT_OK)
        status = new_port(peer->net, &lane, doorbell, peer, &peer->port);
    return status;
}

static crti_port_t *find_orphan(crti_net_t *net)
{
    CRTI_LIST_FOREACH (item, &net->ports) {
        crti_port_t *port = CRTI_CONTAINER(item, crti_port_t, link);

        if (port->lane && crti_lane_is_orphan(port->lane))
            return port;
    }
    return NULL;
}

/* A process that was killed says no goodbye, and nobody tells those whom it had only called. */
static void sweep_orphans(crti_net_t *net)
{
    crti_port_t *port;

    while ((port = find_orphan(net))) {
        if (port->peer)
            crti_session_fail(&port->peer->session, CRT_ERR_UNREACHABLE,
                              "its process has ended");
        else
            crti_port_remove(port, 0);
    }
}

/* Who dials sends it at once: most often it is there. CRT_OK also when it is not. */
static crt_status_t take_first_message(crti_net_t *net, crti_lane_t *lane)
{
    crt_status_t status = crti_lane_take_socket(lane);

    if (status == CRT_IN_PROGRESS)
        return CRT_OK;
    if (status == CRT_OK)
        crti_lane_close_socket(lane);
    else if (status == CRT_ERR_PROTOCOL)
        net->stats.frames_malformed++;
    else if (status == CRT_ERR_PERMISSION)
        net->stats.handshakes_refused++;
    return status;
}

/* Its place is the newest. When there are too many, the oldest one's goes. */
static void await_proof(crti_port_t *port)
{
    crti_net_t *net = port->net;

    crti_list_append(&net->unproven, &port->unproven);
    if (++net->unproven_count > UNPROVEN)
        crti_port_remove(CRTI_CONTAINER(net->unproven.next, crti_port_t, unproven), 0);
}

static crt_status_t accept_lane(crti_net_t *net, int listen_fd)
{
    CRTI_AUTO(crti_lane_drop) crti_lane_t *lane = NULL;
    crti_doorbell_t *doorbell;
    crti_port_t *port;
    crt_status_t status = find_doorbell(net, &doorbell);

    if (status == CRT_OK)
        status = crti_lane_accept(listen_fd, &net->lane_end, frame_max(net),
                                  doorbell->source.fd, &lane);
    if (status == CRT_OK && (status = take_first_message(net, lane)) == CRT_ERR_CLOSED)
        return CRT_OK; /* it went away before the lane was open */
    if (status == CRT_OK)
        status = new_port(net, &lane, doorbell, NULL, &port);
    if (status == CRT_OK && crti_lane_fd(port->lane) >= 0)
        await_proof(port);
    if (status == CRT_OK && ++net->lanes_accepted % SWEEP_EVERY == 0)
        sweep_orphans(net);
    return status;
}

/* No descriptor is left: with the spare one the connection is taken and refused. Left alone it
 * would wake us for ever; whoever dialed tries again. */
void crti_net_refuse(crti_net_t *net, int listen_fd)
{
    int fd;

    close(net->spare);
    fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    net->spare = fcntl(listen_fd, F_DUPFD_CLOEXEC, 0);
}

static void on_dialed(crti_source_t *source, uint32_t events)
{
    crti_net_t *net = CRTI_CONTAINER(source, crti_port_t, source)->net;

    for (int i = 0; i < ACCEPTS; i++) {
        crt_status_t status = accept_lane(net, source->fd);

        if (status == CRT_IN_PROGRESS)
            return;
        /* Strangers are nothing that a user can mend, or should read of on the terminal. */
        if (status != CRT_OK)
            crti_log(status == CRT_ERR_PERMISSION ? CRTI_LOG_DEBUG : CRTI_LOG_WARN, "net",
                     "a lane is not taken: %s", crt_error_detail());
        if (status == CRT_ERR_IO)
            crti_net_refuse(net, source->fd);
    }
}

static void close_listener(crti_port_t *port)
{
    close(port->fd);
    close(port->net->spare);
    free(port);
}

static const crti_transport_t listener = {.close = close_listener};

crt_status_t crti_net_listen_local(crti_net_t *net, const char *path)
{
    CRTI_AUTO(free) crti_port_t *port = calloc(1, sizeof(*port));
    CRTI_AUTO(crti_close) int fd = -1, spare = -1;
    crt_status_t status;

    if (!port)
        return crt_raise(CRT_ERR_NO_MEMORY, "net: a socket");
    status = crti_channel_listen(path, &fd);
    if (status != CRT_OK)
        return status;
    spare = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (spare < 0)
        status = crt_raise(CRT_ERR_IO, "a spare descriptor: %s", strerror(errno));
    *port = (crti_port_t){.transport = &listener, .fd = fd};
    if (status == CRT_OK)
        status = crti_port_watch(net, port, fd, EPOLLIN, on_dialed);
    if (status != CRT_OK)
        return status;
    net->spare = crti_take_fd(&spare);
    fd = -1; /* the port has it, and the net the port */
    port = NULL;
    return CRT_OK;
}
