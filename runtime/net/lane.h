/* SPDX-License-Identifier: Apache-2.0 */
/* Lane: frames between two processes of one node, through shared memory: a ring in each
 * direction, and for each side a doorbell (an eventfd) by which the other wakes it.
 *
 * Where it sits
 *     net_lane -> [ lane ] -> lane_ring -> the other process
 * How it begins
 *     The dialing process connects to the other's socket, makes the memory (a sealed memfd: its
 *     size can't change any more), and sends it with its doorbell. The other answers with its
 *     doorbell. Then both close the socket: an open lane costs each process one descriptor.
 * Security
 *     Every process with this uid in this network namespace can see the socket's name, and bind it
 *     once its process is gone: a container outside of the cluster can, too. So both first messages
 *     prove the cluster's key: a MAC of the dialer's random number, of the name and of the side.
 *     Before the other side's proof nothing of it is mapped, rung or read, and no frame is sent to
 *     it; a refusal gives no reason.
 * Sending
 *     A message that does not fit into the ring waits in the outbox, and goes on when the peer
 *     rings because there is room. The outbox is bounded by the sessions' windows.
 * Sleeping
 *     A process polls its lanes that are awake; their peers do not ring. Before the process sleeps
 *     it puts its lanes to sleep; from then on the peer rings with its next frame. The doorbell is
 *     an eventfd, not a socket: a socket's wake tells the scheduler that the waker is about to
 *     sleep, which puts both processes on one core, where spinning can't help.
 * Threads
 *     None of its own; all calls under net's lock. The word of crti_lane_input_word may be read
 *     without.
 * Ownership
 *     The lane owns socket, memory, the peer's doorbell, outbox; its own doorbell is borrowed,
 *     several lanes may share one. Messages are counted: the session keeps its own.
 * Failure
 *     An open lane does not report the peer's death: the node daemon does. A peer that breaks
 *     the format shows as CRT_ERR_PROTOCOL; nothing is received from it afterwards.
 */
#ifndef CRTI_NET_LANE_H
#define CRTI_NET_LANE_H

#include <sys/uio.h>

#include "runtime/base/buffer.h"
#include "runtime/base/cleanup.h"
#include "runtime/net/key.h"
#include "runtime/net/spin.h"

#define CRTI_LANE_MAGIC 0x334c545243ull /* "CRTL3", how both first messages begin */
#define CRTI_LANE_PROOF 16              /* bytes of the random number, and of the MAC */

typedef struct crti_lane crti_lane_t;
typedef struct crti_lane_message crti_lane_message_t;

/* The name of a listening process, and what both sides of its lanes prove to have. */
typedef struct crti_lane_end {
    const char *path;
    unsigned char key[CRTI_KEY_SIZE]; /* crti_key_lane */
} crti_lane_end_t;

/* Connects to the process that listens at `end`; does not wait. `doorbell` is rung by the peer.
 * CRT_ERR_UNREACHABLE: no process listens there, or its backlog is full;
 * CRT_ERR_PERMISSION: another user's process; CRT_ERR_IO: no memory file or descriptor. */
crt_status_t crti_lane_dial(const crti_lane_end_t *end, size_t frame_max, int doorbell,
                            crti_lane_t **lane_out);

/* The next lane that a peer dialed to `end`, which is borrowed until the lane is open.
 * CRT_IN_PROGRESS: none waits. CRT_ERR_PERMISSION: another user's process was refused. */
crt_status_t crti_lane_accept(int listen_fd, const crti_lane_end_t *end, size_t frame_max,
                              int doorbell, crti_lane_t **lane_out);

/* Whether the process that dialed a lane which was accepted is known to be dead. */
bool crti_lane_is_orphan(const crti_lane_t *lane);

/* What is in the outbox may go on to leave until `deadline_ns` (0: does not). NULL is fine. */
void crti_lane_free(crti_lane_t *lane, uint64_t deadline_ns);

static inline void crti_lane_drop(crti_lane_t *lane)
{
    crti_lane_free(lane, 0);
}
CRTI_DEFINE_AUTO(crti_lane_t *, crti_lane_drop)

/* The socket of a lane that is not open yet: on EPOLLIN call crti_lane_take_socket. */
int crti_lane_fd(const crti_lane_t *lane);

/* CRT_OK: the lane is open, watch the socket no longer and call crti_lane_close_socket.
 * CRT_IN_PROGRESS: not yet. CRT_ERR_CLOSED: the peer went away before; CRT_ERR_PERMISSION: it does
 * not have the key; CRT_ERR_PROTOCOL. */
crt_status_t crti_lane_take_socket(crti_lane_t *lane);
void crti_lane_close_socket(crti_lane_t *lane);

/* One frame, valid until the next call. CRT_IN_PROGRESS: none. CRT_ERR_PROTOCOL,
 * CRT_ERR_NO_MEMORY: nothing follows. */
crt_status_t crti_lane_receive(crti_lane_t *lane, crti_span_t *frame_out);

/* After some receives: a peer that waits for room is rung. */
void crti_lane_received(crti_lane_t *lane);

/* A message that may be sent; counted, begins with one reference. NULL: no memory. */
crti_lane_message_t *crti_lane_message_new(const struct iovec *parts, int count,
                                           size_t size);
void crti_lane_message_unref(crti_lane_message_t *message);

/* Sends it, or as much as there is room for, the rest later. False: there is no way to the
 * peer, nothing of the message left. */
bool crti_lane_send(crti_lane_t *lane, crti_lane_message_t *message);

/* Whether the peer has taken all that was sent. */
bool crti_lane_is_idle(crti_lane_t *lane);

/* Goes on with the outbox. True when something left. */
bool crti_lane_push(crti_lane_t *lane);

/* Messages wait for room: a doorbell may mean that there is some. */
bool crti_lane_has_outbox(const crti_lane_t *lane);

/* Before the process sleeps. False: there is input, the lane stays awake. */
bool crti_lane_sleep(crti_lane_t *lane);
void crti_lane_awake(crti_lane_t *lane);

/* The word that changes when input comes. False: none can come. */
bool crti_lane_input_word(const crti_lane_t *lane, crti_progress_word_t *word_out);

#endif
