/* SPDX-License-Identifier: Apache-2.0 */
/* Net: a process's endpoint. It has the sockets, the sessions with other processes, and the
 * right to make progress.
 *
 * Where it sits
 *     core (calls, replies, references) -> [ net ] -> session -> zmq link -> other process
 * Threads
 *     One lock, crti_net_lock, covers the net AND all state of core: every function below is
 *     called with it held unless its comment says otherwise, and handlers run under it. It is
 *     not recursive. No libzmq call is made outside of it. A thread that waits (crti_net_wait)
 *     holds the progress token and receives for all; a progress thread does it while no thread
 *     waits (a user's long method runs, or the process idles outside of crt).
 * Sessions
 *     A session joins two processes and is made by one of them, the initiator; replies go back
 *     over the same session. Two processes that call each other have two sessions. Within one
 *     session records arrive in the order they were sent and exactly once, across reconnects
 *     of the transport; records of the two directions, or of two sessions, have no order
 *     between them. Nothing is delivered before both sides agreed on protocol version,
 *     process ids and incarnations.
 * Ownership
 *     A peer is one session. crti_net_connect gives a reference, handlers borrow; keep one
 *     with crti_peer_ref. A lost peer stays readable until its last reference goes, sends to
 *     it fail. Reconnecting after a loss is a new session and a new peer.
 * Failure
 *     on_peer_lost is called exactly once for each peer that core knows (connected, or seen in
 *     on_record), also after crti_net_close; it says which records certainly were not
 *     delivered. Bytes from a peer are never trusted: a malformed frame ends that session and
 *     is counted.
 * Fork
 *     A child calls nothing here: core notices the fork (pthread_atfork) and answers
 *     CRT_ERR_FORKED. crti_net_free in a child does nothing. All descriptors are CLOEXEC, all
 *     threads block all signals.
 */
#ifndef CRTI_NET_NET_H
#define CRTI_NET_NET_H

#include <sys/types.h>
#include <sys/uio.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/crt_base.h"
#include "runtime/base/id.h"

#define CRTI_NET_SESSIONS    16000 /* with processes of other nodes */
#define CRTI_NET_NO_DEADLINE UINT64_MAX

/* Where a process can be called. "Same node" means same node id: then a lane begins at `ipc`, else
 * `tcp`. Empty text: not reachable that way. The forms are those of PEER in protocol.h. */
typedef struct crti_address {
    crti_id_t process;
    uint64_t incarnation;
    crti_id_t node;
    char ipc[108]; /* name of a socket: "@/run/dir/p-<hex>.ipc", no file */
    char tcp[64];  /* "10.0.0.4:7001", always CURVE */
} crti_address_t;

typedef struct crti_net crti_net_t;
typedef struct crti_peer crti_peer_t;

/* Why a session ended, and what became of the records sent over it. */
typedef struct crti_net_loss {
    /* CRT_OK only after crti_net_close and with everything delivered. CRT_ERR_CLOSED: the peer
     * closed. CRT_ERR_UNREACHABLE: no sign for 30 s. CRT_ERR_PROTOCOL: wrong version, malformed
     * bytes, or nothing acknowledged for 30 s. CRT_ERR_WORKER_DIED: another incarnation lives at
     * that address. Else what the death notice said. */
    crt_status_t status;
    const char *detail; /* borrowed until the handler returns */
    uint64_t acked;     /* records 1..acked were delivered to the peer's on_record */
    uint64_t handed;    /* records above were never handed to the transport: did not run;
                          * acked+1..handed: may have run */
} crti_net_loss_t;

/* Called with the lock held, by the holder of the progress token or by the call that caused it.
 * They never block and never run user code. They may call every function here except crti_net_wait,
 * crti_net_free, lock and unlock; a crti_net_send from a handler never waits: use
 * CRTI_SEND_CONTROL, or be ready for CRT_ERR_BACKPRESSURE. */
typedef struct crti_net_handlers {
    void *user;
    /* One record, in order, exactly once. `data` is borrowed until return. */
    void (*on_record)(void *user, crti_peer_t *peer, const void *data, size_t size);
    /* The last thing that happens to a peer. Not called from inside crti_net_connect or
     * crti_net_send themselves, but later, by the holder of the progress token. */
    void (*on_peer_lost)(void *user, crti_peer_t *peer, const crti_net_loss_t *loss);
    /* A send to the peer that did not wait was refused with CRT_ERR_BACKPRESSURE, and now there is
     * room for it. Once for each time that something was refused. May be NULL. */
    void (*on_room)(void *user, crti_peer_t *peer);
    /* Other code of the process closed the net's descriptors: nothing is received or sent from now
     * on, and every wait returns CRT_ERR_CLOSED. At most once. May be NULL. */
    void (*on_broken)(void *user);
} crti_net_handlers_t;

typedef struct crti_net_config {
    /* mode 0700, of this cluster alone; short: the name of a socket has 107 bytes */
    const char *run_dir;
    crti_id_t node;
    crti_id_t process;
    uint64_t incarnation;
    const char *ip;               /* address for tcp; NULL: no tcp endpoint */
    uint16_t port_low, port_high; /* 0, 0: the system chooses */
    /* 32 bytes, copied; NULL: neither tcp endpoint nor tcp peers */
    const unsigned char *cluster_key;
    size_t window_bytes; /* 0: session_window */
    size_t record_bytes; /* largest record; 0: record_limit */
    /* With processes of other nodes that this process initiates at one time; 0:
     * CRTI_NET_SESSIONS. Each costs 12 bytes once libzmq has started, and two descriptors when it
     * exists. A session with a process of this node costs one descriptor. */
    int sessions_max;
    /* The progress thread comes when crti_net_busy tells that it is needed, and goes when it has
     * not been for a second: for a process that waits when it has nothing else to do. */
    bool late_thread;
    crti_net_handlers_t handlers;
} crti_net_config_t;

/* What a zygote can do once for all its workers; not needed. */
void crti_net_prepare(void);

/* Binds, starts the progress thread. Caller owns the result and frees it with crti_net_free.
 * Lock not held. CRT_ERR_EXISTS: another process has that process id's endpoint;
 * CRT_ERR_IO: no free port, the run directory can't be used, or too few files may be opened. */
crt_status_t crti_net_new(const crti_net_config_t *config, crti_net_t **net_out);

/* Stops the progress thread and closes everything; no handler runs afterwards, on_peer_lost is
 * not called for what is left. Open batches are sent first, and linger for at most 100 ms.
 * Peers that core still holds stay valid as memory. Lock not held, no thread waits. In a forked
 * child, and for NULL, it does nothing. */
void crti_net_free(crti_net_t *net);
CRTI_DEFINE_AUTO(crti_net_t *, crti_net_free)

/* Borrowed: valid until crti_net_free. Lock not needed. */
const crti_address_t *crti_net_address(const crti_net_t *net);

void crti_net_lock(crti_net_t *net);
void crti_net_unlock(crti_net_t *net);

/* Finds or makes the session that this process initiated to `to`, and returns at once; records
 * sent before both sides agreed are queued within the window. Gives a reference; release it
 * with crti_peer_unref. CRT_ERR_UNREACHABLE: no way there (another node, and no tcp). */
crt_status_t crti_net_connect(crti_net_t *net, const crti_address_t *to,
                              crti_peer_t **peer_out);

enum {
    /* outside the window: acks, references, deaths, errors; never waits */
    CRTI_SEND_CONTROL = 1,
    CRTI_SEND_TRY = 2, /* CRT_ERR_BACKPRESSURE instead of waiting for the window */
    CRTI_SEND_NOW = 4, /* do not gather: this record and what was gathered leave now, */
    CRTI_SEND_IF_IDLE =
        8, /* or if the peer is on this node and has taken all that left */
};

/* Sends one record of the bytes of all parts, at least one byte; they are copied. Sent at once when
 * nothing is in flight to the peer, else gathered until it is almost 8 KiB (2 KiB where the peer is
 * on this node and has taken all), until the peer has answered, crti_net_flush, a crti_net_wait of
 * this process, or a millisecond passed.
 *
 * A full window makes the call wait (with progress, as crti_net_wait: THE LOCK IS RELEASED
 * meanwhile), until `deadline_ns` (CRTI_NET_NO_DEADLINE: until there is room or the peer is
 * lost; CRT_ERR_TIMED_OUT: nothing was sent).
 * `*sequence_out` (may be NULL) gets the record's number in this session, 1, 2, 3, ..., to be
 * compared with crti_net_loss_t.
 * CRT_ERR_TOO_LARGE: above the largest record. On a lost peer: the status of its loss. */
crt_status_t crti_net_send(crti_net_t *net, crti_peer_t *peer, const struct iovec *parts,
                           int count, unsigned flags, uint64_t deadline_ns,
                           uint64_t *sequence_out);

/* Sends what was gathered for all peers. */
void crti_net_flush(crti_net_t *net);

/* Flow control by consumption. A record counts as consumed when on_record returns, which
 * makes room in the sender's window. A handler that queues work keeps the sender's window
 * occupied with crti_net_hold(peer, size of the record), called inside on_record, and gives
 * the same number of bytes back with crti_net_release when the work is done, so that the queue is
 * bounded by the window. Releasing to a lost peer is fine. */
void crti_net_hold(crti_net_t *net, crti_peer_t *peer, size_t size);
void crti_net_release(crti_net_t *net, crti_peer_t *peer, size_t size);

/* While the sum of deltas is above 0 (core counts the answers it waits for) a silent session is
 * probed, so that an unreachable peer is noticed after 30 s also when everything that was sent
 * has been acknowledged. */
void crti_net_watch(crti_net_t *net, crti_peer_t *peer, int delta);

/* Ends a session after all records sent so far were delivered; on_peer_lost follows. The peer
 * sees CRT_ERR_CLOSED. Sends fail with CRT_ERR_CLOSED from now on. */
void crti_net_close(crti_net_t *net, crti_peer_t *peer);

/* Ends a session now: what was not acknowledged yet is given up, and the peer gets RESET.
 * on_peer_lost is called before return, with CRT_ERR_PROTOCOL and this detail. */
void crti_net_abort(crti_net_t *net, crti_peer_t *peer, const char *detail);

/* Waits until done(user) is true, with the lock held at entry, during every done(), and at
 * exit; it is released while sleeping. Flushes before it sleeps. `done` is evaluated at entry,
 * after each batch of received records, and after crti_net_wake. deadline_ns is of crti_now_ns.
 * CRT_ERR_TIMED_OUT; CRT_ERR_CLOSED when the net is being freed. It goes on after a signal handler
 * has run in this thread; `done` is evaluated then, too. Any number of threads may wait. */
crt_status_t crti_net_wait(crti_net_t *net, bool (*done)(void *user), void *user,
                           uint64_t deadline_ns);

/* Who receives: the `user` of its crti_net_wait, if that has this `done`; else NULL. Lock held. */
void *crti_net_receiver(const crti_net_t *net, bool (*done)(void *user));

/* Code begins, or ends, that may take long without a crti_net_wait (a user's function): with
 * late_thread the progress thread receives meanwhile. Lock held. */
void crti_net_busy(crti_net_t *net, bool begins);

/* Something that a done() looks at was changed outside of a handler: evaluate them again. Cheap
 * when no thread waits. */
void crti_net_wake(crti_net_t *net);

/* Further descriptors served by the holder of the progress token. `on_ready` runs under the lock
 * like a handler, with epoll's event bits. Level-triggered. `events` as in epoll_ctl. An fd is
 * removed before it is closed; removing it inside any handler is fine. */
typedef void crti_net_fd_handler_t(void *user, int fd, uint32_t events);
crt_status_t crti_net_add_fd(crti_net_t *net, int fd, uint32_t events,
                             crti_net_fd_handler_t *on_ready, void *user);
crt_status_t crti_net_modify_fd(crti_net_t *net, int fd, uint32_t events);
void crti_net_remove_fd(crti_net_t *net, int fd);

/* Death notices: all sessions with that process incarnation, or with processes of that node,
 * are lost with this status and text. on_peer_lost is called before return. */
void crti_net_peer_died(crti_net_t *net, crti_id_t process, uint64_t incarnation,
                        crt_status_t status, const char *detail);
void crti_net_node_died(crti_net_t *net, crti_id_t node, crt_status_t status,
                        const char *detail);

/* ---------------------------------------------------------------- a peer */

crti_peer_t *crti_peer_ref(crti_peer_t *peer);
void crti_peer_unref(crti_peer_t *peer); /* NULL is fine; lock held, or the net is gone */

crti_id_t crti_peer_process(const crti_peer_t *peer);
uint64_t crti_peer_incarnation(const crti_peer_t *peer);
crti_id_t crti_peer_node(const crti_peer_t *peer);
bool crti_peer_is_lost(const crti_peer_t *peer);
bool crti_peer_is_initiator(const crti_peer_t *peer); /* true: made by crti_net_connect */
/* Records that were sent to it and it has not acknowledged. */
uint64_t crti_peer_unacknowledged(const crti_peer_t *peer);

/* Of records that it has sent: how many were given to on_record. Inside on_record the number of
 * that record, as its sender has it (`sequence_out` of crti_net_send). */
uint64_t crti_peer_received(const crti_peer_t *peer);

/* A place for core's own state of this peer; core frees it in on_peer_lost. */
void *crti_peer_user(const crti_peer_t *peer);
void crti_peer_set_user(crti_peer_t *peer, void *user);

/* ---------------------------------------------------------------- figures */

/* Counters since the start, for metrics and tests. */
typedef struct crti_net_stats {
    uint64_t records_sent, records_received;
    uint64_t frames_sent, frames_received;
    uint64_t frames_resent, frames_duplicate;
    uint64_t frames_malformed; /* malformed bytes; the session they came on was ended */
    /* HELLO with another version or incarnation, lanes and CURVE without the key */
    uint64_t handshakes_refused;
    uint64_t sessions_opened, sessions_lost;
    uint64_t spins; /* waits that watched for input before they slept */
} crti_net_stats_t;

void crti_net_stats(crti_net_t *net, crti_net_stats_t *stats_out);

#endif
