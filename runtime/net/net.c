/* SPDX-License-Identifier: Apache-2.0 */
/* Net: the interface. See net.h for threads, ownership and failure, net_io.c for what happens
 * between sockets and sessions, progress.c for who waits.
 */
#include "runtime/net/net.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "runtime/base/limit.h"
#include "runtime/net/net_int.h"

#define LAST_ROUNDS 256 /* rounds of CRTI_NET_RECEIVE_MAX frames */
#define HEAP_ROOM                                                                        \
    ((size_t)100 << 10) /* less than what malloc maps by itself, or gives back */

/* A descriptor of core. */
typedef struct watch {
    crti_source_t source;
    crti_list_t link; /* net->watches */
    crti_net_t *net;
    crti_net_fd_handler_t *on_ready;
    void *user;
} watch_t;

/* ---------------------------------------------------------------- start and end */

/* Any number of processes may share a directory, the names differ by the process id. */
static crt_status_t make_ipc_path(crti_net_t *net, const char *run_dir)
{
    size_t length = strlen(run_dir);
    char *to = net->address.ipc;

    if (length + sizeof("@/p-.ipc") + CRTI_ID_HEX - 1 > sizeof(net->address.ipc))
        return crt_raise(
            CRT_ERR_INVALID,
            "%s is too long for the name of a socket (%zu bytes): set CRT_RUN_DIR",
            run_dir, sizeof(net->address.ipc) - 1);
    *to++ = '@';
    to = mempcpy(to, run_dir, length);
    to = mempcpy(to, "/p-", 3);
    crti_id_hex(net->config.process, to);
    memcpy(to + CRTI_ID_HEX - 1, ".ipc", sizeof(".ipc"));
    return CRT_OK;
}

static crt_status_t listen_to_all(crti_net_t *net, const crti_net_config_t *config)
{
    crt_status_t status = make_ipc_path(net, config->run_dir);

    if (config->cluster_key) {
        memcpy(net->key.bytes, config->cluster_key, sizeof(net->key.bytes));
        net->has_key = true;
        crti_key_lane(&net->key, net->lane_end.key);
    }
    net->lane_end.path = net->address.ipc;
    if (status == CRT_OK)
        status = crti_net_listen_local(net, net->address.ipc);
    if (status == CRT_OK && config->ip && config->ip[0] && config->cluster_key)
        status = crti_net_listen_tcp(net, config);
    return status;
}

static void init(crti_net_t *net, const crti_net_config_t *config)
{
    net->config = *config;
    net->config.cluster_key = NULL;
    net->config.run_dir = net->config.ip = NULL;
    if (net->config.window_bytes == 0)
        net->config.window_bytes = CRTI_LIMIT(session_window);
    if (net->config.record_bytes == 0)
        net->config.record_bytes = CRTI_LIMIT(record_limit);
    if (net->config.sessions_max <= 0)
        net->config.sessions_max = CRTI_NET_SESSIONS;
    if (net->config.record_bytes > CRTI_FRAME_RECORD_LIMIT)
        net->config.record_bytes = CRTI_FRAME_RECORD_LIMIT;
    net->address.process = config->process;
    net->address.incarnation = config->incarnation;
    net->address.node = config->node;
    net->pid = getpid();
    crti_list_init(&net->peers);
    crti_list_init(&net->ports);
    crti_list_init(&net->doorbells);
    crti_list_init(&net->active);
    crti_list_init(&net->expecting);
    crti_list_init(&net->unproven);
    crti_list_init(&net->gathering);
    crti_list_init(&net->watches);
    crti_map_init(&net->dialed, sizeof(crti_peer_key_t));
    crti_map_init(&net->accepted, sizeof(uint64_t));
}

/* Once: it takes a lock of its own each time, with which a forked process would copy two pages. */
static crt_status_t start_sodium(void)
{
    static atomic_bool is_started;

    if (!atomic_load(&is_started) && sodium_init() < 0)
        return crt_raise(CRT_ERR_IO, "libsodium cannot start: no source of random bytes");
    atomic_store(&is_started, true);
    return CRT_OK;
}

void crti_net_prepare(void)
{
    crti_progress_prepare();
    (void)start_sodium(); /* who needs it asks again */
    /* Room on the heap that nobody has written to: else each worker asks the system for it. */
    free(malloc(HEAP_ROOM));
    crti_net_read_port_range();
}

crt_status_t crti_net_new(const crti_net_config_t *config, crti_net_t **net_out)
{
    crti_net_t *net;
    crt_status_t status;

    status = start_sodium();
    if (status != CRT_OK)
        return status;
    net = calloc(1, sizeof(*net));
    if (!net)
        return crt_raise(CRT_ERR_NO_MEMORY, "net");
    init(net, config);
    status = crti_progress_init(&net->progress, &crti_net_progress_ops, net);
    if (status != CRT_OK) {
        free(net);
        return status;
    }
    status = listen_to_all(net, config);
    if (status == CRT_OK)
        status = crti_progress_start(&net->progress, config->late_thread);
    if (status != CRT_OK) {
        crti_net_free(net);
        return status;
    }
    *net_out = net;
    return CRT_OK;
}

/* Says goodbye to all: BYE where everything was delivered, else RESET behind the last data. */
static void end_sessions(crti_net_t *net)
{
    while (!crti_list_is_empty(&net->peers)) {
        crti_peer_t *peer = CRTI_CONTAINER(net->peers.next, crti_peer_t, link);

        crti_peer_hold(peer);
        peer->is_known = false; /* no handler from now on */
        crti_session_close(&peer->session, crti_now_ns());
        crti_session_fail(&peer->session, CRT_ERR_CLOSED, "the process ended");
        crti_peer_release(peer);
    }
}

static void free_watch(crti_source_t *source)
{
    free(CRTI_CONTAINER(source, watch_t, source));
}

void crti_net_free(crti_net_t *net)
{
    crti_list_t *item;

    if (!net || net->pid != getpid())
        return;
    crti_progress_stop(&net->progress);
    end_sessions(net);
    while ((item = crti_list_pop(&net->watches)))
        crti_progress_remove(&net->progress,
                             &CRTI_CONTAINER(item, watch_t, link)->source);
    while (!crti_list_is_empty(&net->ports))
        crti_port_remove(CRTI_CONTAINER(net->ports.next, crti_port_t, link),
                         CRTI_NET_LINGER_MS);
    crti_net_remove_doorbells(net);
    net->linger_until = crti_now_ns() + CRTI_NET_LINGER_MS * CRTI_MS;
    crti_progress_fini(&net->progress);
    crti_zmq_free(net->zmq);
    crti_key_wipe(&net->key, sizeof(net->key));
    crti_key_wipe(net->lane_end.key, sizeof(net->lane_end.key));
    crti_map_fini(&net->dialed);
    crti_map_fini(&net->accepted);
    crti_deadlines_fini(&net->deadlines);
    free(net);
}

const crti_address_t *crti_net_address(const crti_net_t *net)
{
    return &net->address;
}

void crti_net_lock(crti_net_t *net)
{
    pthread_mutex_lock(&net->progress.lock);
}

void crti_net_unlock(crti_net_t *net)
{
    pthread_mutex_unlock(&net->progress.lock);
}

/* ---------------------------------------------------------------- sessions */

static bool is_local(const crti_net_t *net, const crti_address_t *to)
{
    return to->ipc[0] && crti_id_equal(to->node, net->config.node);
}

static crt_status_t open_way(crti_peer_t *peer, const crti_address_t *to)
{
    if (!is_local(peer->net, to)) {
        peer->transport = &crti_net_zmq;
        return crti_peer_dial_zmq(peer, to->tcp);
    }
    peer->transport = &crti_net_lane;
    peer->path = strdup(to->ipc);
    if (!peer->path)
        return crt_raise(CRT_ERR_NO_MEMORY, "net: a peer");
    return crti_peer_dial_lane(peer);
}

/* Opens a way to the process and says HELLO. On failure the peer is gone. */
static crt_status_t dial(crti_net_t *net, const crti_address_t *to, uint64_t nonce,
                         crti_peer_t *peer, const crti_session_config_t *config)
{
    crti_peer_key_t key = {to->process, to->incarnation};
    crt_status_t status;

    peer->route[0] = 'c';
    memcpy(peer->route + 1, &nonce, sizeof(nonce));
    status = open_way(peer, to);
    if (status == CRT_OK)
        status = crti_map_put(&net->dialed, &key, peer);
    if (status != CRT_OK) {
        crti_port_remove(peer->port, 0);
        crti_peer_forget(peer);
        return status;
    }
    peer->is_known = peer->is_dialed = true;
    crti_session_start(&peer->session, config, crti_now_ns());
    crti_peer_touch(peer);
    return CRT_OK;
}

crt_status_t crti_net_connect(crti_net_t *net, const crti_address_t *to,
                              crti_peer_t **peer_out)
{
    crti_peer_key_t key = {to->process, to->incarnation};
    crti_peer_t *peer = crti_map_get(&net->dialed, &key);
    crti_session_config_t config;
    crt_status_t status;
    char id[CRTI_ID_HEX];
    uint64_t nonce;

    if (peer) {
        *peer_out = crti_peer_ref(peer);
        return CRT_OK;
    }
    if (!to->tcp[0] && !is_local(net, to))
        return crt_raise(CRT_ERR_UNREACHABLE,
                         "process %s is on another node and has no tcp endpoint",
                         crti_id_hex(to->process, id));
    nonce = crti_net_random();
    status =
        crti_peer_new(net, to->process, to->incarnation, to->node, nonce, &peer, &config);
    config.is_steady = is_local(net, to);
    if (status == CRT_OK)
        status = dial(net, to, nonce, peer, &config);
    if (status != CRT_OK)
        return status;
    *peer_out = crti_peer_ref(peer);
    return CRT_OK;
}

typedef struct room {
    crti_session_t *session;
    size_t size;
} room_t;

static bool has_room(void *user)
{
    const room_t *room = user;

    return crti_session_has_ended(room->session) ||
           crti_session_has_room(room->session, room->size);
}

/* While the window is full silence of the peer must be noticed, whatever was acknowledged. */
static crt_status_t wait_for_room(crti_net_t *net, crti_peer_t *peer, size_t size,
                                  uint64_t deadline_ns)
{
    room_t room = {&peer->session, size};
    crt_status_t status;

    crti_peer_hold(peer);
    crti_net_watch(net, peer, 1);
    status = crti_progress_wait(&net->progress, has_room, &room, deadline_ns);
    crti_net_watch(net, peer, -1);
    crti_peer_release(peer);
    return status;
}

/* The time is needed to set the session's timer. Where that runs, a frame leaves first, and the
 * clock is read while it is on its way. */
static crt_status_t send_record(crti_net_t *net, crti_peer_t *peer,
                                const struct iovec *parts, int count, bool control)
{
    crti_session_t *session = &peer->session;
    bool was_idle = session->acked == session->queued;
    bool runs = session->probe_at != CRTI_SESSION_NEVER;
    crt_status_t status = crti_session_send(session, parts, count, control,
                                            runs ? net->now : crti_net_now(net, peer));

    if (runs && was_idle)
        net->now = crti_now_ns();
    return status;
}

crt_status_t crti_net_send(crti_net_t *net, crti_peer_t *peer, const struct iovec *parts,
                           int count, unsigned flags, uint64_t deadline_ns,
                           uint64_t *sequence_out)
{
    bool control = (flags & CRTI_SEND_CONTROL) != 0;
    bool may_wait = (flags & CRTI_SEND_TRY) == 0 && net->in_handler == 0;
    crt_status_t status;
    size_t size = 0;

    for (;;) {
        status = send_record(net, peer, parts, count, control);
        if (status != CRT_ERR_BACKPRESSURE)
            break;
        size = 0;
        for (int i = 0; i < count; i++)
            size += parts[i].iov_len;
        if (!may_wait)
            break;
        status = wait_for_room(net, peer, size, deadline_ns);
        if (status != CRT_OK)
            return status;
    }
    if (status == CRT_ERR_BACKPRESSURE) {
        peer->refused = size;
        crti_peer_touch(peer); /* it asks for room from now on */
    }
    if (status != CRT_OK)
        return status;
    if (sequence_out)
        *sequence_out = peer->session.queued;
    if (flags & CRTI_SEND_NOW ||
        (flags & CRTI_SEND_IF_IDLE && crti_session_peer_is_idle(&peer->session)))
        crti_session_flush(&peer->session, net->now);
    crti_peer_touch(peer);
    return CRT_OK;
}

void crti_net_flush(crti_net_t *net)
{
    crti_net_progress_ops.flush(net);
}

void crti_net_hold(crti_net_t *net, crti_peer_t *peer, size_t size)
{
    crti_session_hold(&peer->session, size);
}

void crti_net_release(crti_net_t *net, crti_peer_t *peer, size_t size)
{
    crti_session_release(&peer->session, size, crti_net_now(net, peer));
    crti_peer_touch(peer);
}

void crti_net_watch(crti_net_t *net, crti_peer_t *peer, int delta)
{
    uint64_t before = crti_session_deadline(&peer->session);

    /* What is watched no longer needs no new time. */
    crti_session_watch(&peer->session, delta,
                       delta > 0 ? crti_net_now(net, peer) : net->now);
    if (crti_session_deadline(&peer->session) != before)
        crti_peer_touch(peer);
}

void crti_net_close(crti_net_t *net, crti_peer_t *peer)
{
    crti_peer_key_t key = {peer->session.config.peer,
                           peer->session.config.peer_incarnation};

    /* Whoever connects from now on begins a new session. */
    if (peer->is_dialed && crti_map_get(&net->dialed, &key) == peer)
        crti_map_remove(&net->dialed, &key);
    crti_peer_hold(peer);
    crti_session_close(&peer->session, crti_now_ns());
    crti_peer_touch(peer);
    crti_peer_release(peer);
}

void crti_net_abort(crti_net_t *net, crti_peer_t *peer, const char *detail)
{
    char text[sizeof(peer->session.detail)];

    snprintf(text, sizeof(text), "%s", detail); /* it may be this thread's last error */
    crti_peer_hold(peer);
    crti_session_fail(&peer->session, CRT_ERR_PROTOCOL, text);
    crti_peer_release(peer);
}

static void fail_all(crti_list_t *failing, crt_status_t status, const char *detail)
{
    crti_list_t *item;

    while ((item = crti_list_pop(failing))) {
        crti_peer_t *peer = CRTI_CONTAINER(item, crti_peer_t, in_failing);

        crti_session_fail(&peer->session, status, detail);
        crti_peer_unref(peer);
    }
}

static void add_failing(crti_list_t *failing, crti_peer_t *peer)
{
    if (crti_list_is_empty(
            &peer->in_failing)) /* else a notice further up the stack has it */
        crti_list_append(failing, &crti_peer_ref(peer)->in_failing);
}

/* What a process had written into its lane before it died counts: a notice of the death that comes
 * by another way may not overtake it. Bounded, since the notice may be wrong. */
static void receive_the_rest(crti_list_t *failing)
{
    CRTI_LIST_FOREACH (item, failing) {
        crti_peer_t *peer = CRTI_CONTAINER(item, crti_peer_t, in_failing);

        for (int i = 0; i < LAST_ROUNDS && peer->port && peer->port->peer == peer; i++)
            if (!peer->transport->drain(peer->port))
                break;
    }
}

void crti_net_peer_died(crti_net_t *net, crti_id_t process, uint64_t incarnation,
                        crt_status_t status, const char *detail)
{
    crti_list_t failing;

    crti_list_init(&failing);
    CRTI_LIST_FOREACH (item, &net->peers) {
        crti_peer_t *peer = CRTI_CONTAINER(item, crti_peer_t, link);

        if (crti_id_equal(crti_peer_process(peer), process) &&
            crti_peer_incarnation(peer) == incarnation)
            add_failing(&failing, peer);
    }
    receive_the_rest(&failing);
    fail_all(&failing, status, detail);
}

void crti_net_node_died(crti_net_t *net, crti_id_t node, crt_status_t status,
                        const char *detail)
{
    crti_list_t failing;

    crti_list_init(&failing);
    CRTI_LIST_FOREACH (item, &net->peers) {
        crti_peer_t *peer = CRTI_CONTAINER(item, crti_peer_t, link);

        if (crti_id_equal(peer->node, node))
            add_failing(&failing, peer);
    }
    fail_all(&failing, status, detail);
}

/* ---------------------------------------------------------------- waiting */

crt_status_t crti_net_wait(crti_net_t *net, bool (*done)(void *user), void *user,
                           uint64_t deadline_ns)
{
    assert(net->in_handler == 0);
    return crti_progress_wait(&net->progress, done, user, deadline_ns);
}

void *crti_net_receiver(const crti_net_t *net, bool (*done)(void *user))
{
    const crti_progress_waiter_t *holder = net->progress.token;

    return holder && holder->done == done ? holder->user : NULL;
}

void crti_net_busy(crti_net_t *net, bool begins)
{
    crti_progress_busy(&net->progress, begins);
}

void crti_net_wake(crti_net_t *net)
{
    if (!crti_list_is_empty(&net->progress.waiters))
        crti_progress_wake(&net->progress);
}

static void watch_is_ready(crti_source_t *source, uint32_t events)
{
    watch_t *w = CRTI_CONTAINER(source, watch_t, source);

    w->net->in_handler++;
    w->on_ready(w->user, source->fd, events);
    w->net->in_handler--;
}

crt_status_t crti_net_add_fd(crti_net_t *net, int fd, uint32_t events,
                             crti_net_fd_handler_t *on_ready, void *user)
{
    CRTI_AUTO(free) watch_t *w = calloc(1, sizeof(*w));
    crt_status_t status;

    if (!w)
        return crt_raise(CRT_ERR_NO_MEMORY, "net: a descriptor");
    *w = (watch_t){.net = net, .on_ready = on_ready, .user = user};
    w->source =
        (crti_source_t){.fd = fd, .on_ready = watch_is_ready, .on_free = free_watch};
    status = crti_progress_add(&net->progress, &w->source, events);
    if (status != CRT_OK)
        return status;
    crti_list_append(&net->watches, &w->link);
    w = NULL; /* net->watches has it */
    return CRT_OK;
}

static watch_t *find_watch(crti_net_t *net, int fd)
{
    CRTI_LIST_FOREACH (item, &net->watches) {
        watch_t *w = CRTI_CONTAINER(item, watch_t, link);

        if (w->source.fd == fd)
            return w;
    }
    return NULL;
}

crt_status_t crti_net_modify_fd(crti_net_t *net, int fd, uint32_t events)
{
    watch_t *w = find_watch(net, fd);

    if (!w)
        return crt_raise(CRT_ERR_NOT_FOUND, "descriptor %d is not watched", fd);
    return crti_progress_modify(&net->progress, &w->source, events);
}

void crti_net_remove_fd(crti_net_t *net, int fd)
{
    watch_t *w = find_watch(net, fd);

    if (!w)
        return;
    crti_list_remove(&w->link);
    crti_progress_remove(&net->progress, &w->source);
}

void crti_net_stats(crti_net_t *net, crti_net_stats_t *stats_out)
{
    *stats_out = net->stats;
    stats_out->spins = net->progress.spin.count;
    stats_out->records_sent = net->counts.records_sent;
    stats_out->records_received = net->counts.records_received;
    stats_out->frames_resent = net->counts.frames_resent;
    stats_out->frames_duplicate = net->counts.frames_duplicate;
}
