/* SPDX-License-Identifier: Apache-2.0 */
/* Channel: control messages over one unix stream socket (local, zygote and admin link).
 *
 * Where it sits
 *     core, node, control, http, cli -> [ net/channel.c ] -> unix socket -> peer's channel
 * Format of a frame
 *     32-bit little-endian word: bits 0..27 length (1..CRTI_MESSAGE_MAX), bits 28..31 number
 *     of descriptors; then `length` bytes, one encoded message. The descriptors travel with
 *     the frame's first byte (SCM_RIGHTS).
 * Driving it
 *     In a loop: crti_channel_attach. In another epoll (core): wait for crti_channel_fd with
 *     crti_channel_events, call crti_channel_process; handlers.on_events says when the wanted
 *     events change. Blocking, before either: crti_channel_request.
 * Threads
 *     None of its own; one caller at a time (core's lock, or the loop's thread).
 * Ownership
 *     The channel owns its descriptor. Messages and descriptors handed to on_message are
 *     borrowed: a handler that keeps a descriptor takes it (crti_take_fd), the rest are closed
 *     after it returns. crti_channel_free is allowed inside handlers.
 * Failure
 *     A malformed or oversized frame, a missing descriptor, a broken socket, a queue above its
 *     limit: the channel closes and on_closed is called exactly once, with the reason; what
 *     was received completely before is delivered first. crti_channel_close and
 *     crti_channel_free call nothing.
 */
#ifndef CRTI_NET_CHANNEL_H
#define CRTI_NET_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/crt_base.h"
#include "runtime/net/loop.h"
#include "runtime/net/message.h"

#define CRTI_CHANNEL_FDS 4 /* most descriptors of one frame */
/* Bytes that may wait for a peer that does not read; above it the channel is closed. */

typedef struct crti_channel crti_channel_t;

typedef struct crti_channel_handlers {
    void *user;
    /* `fds` has `fd_count` descriptors (CLOEXEC). */
    void (*on_message)(void *user, crti_channel_t *channel, const crti_message_t *message,
                       int *fds, int fd_count);
    /* The last call. CRT_ERR_CLOSED: the peer closed in an orderly way. */
    void (*on_closed)(void *user, crti_channel_t *channel, crt_status_t status,
                      const char *detail);
    /* May be NULL: the events to wait for (EPOLLIN, EPOLLOUT) changed. Not used in a loop. */
    void (*on_events)(void *user, crti_channel_t *channel, uint32_t events);
} crti_channel_handlers_t;

/* Makes a channel of a connected stream socket; on CRT_OK `*fd_take` is -1. `queue_bytes` 0:
 * link_queue. Caller owns the result and frees it with crti_channel_free. */
crt_status_t crti_channel_new(int *fd_take, const crti_channel_handlers_t *handlers,
                              size_t queue_bytes, crti_channel_t **channel_out);

/* Connects to the socket at `path` and checks that its owner is this user. CRT_ERR_NOT_FOUND:
 * no process listens there; CRT_ERR_TIMED_OUT; CRT_ERR_PERMISSION: another user's process. */
crt_status_t crti_channel_connect(const char *path, uint64_t deadline_ns,
                                  const crti_channel_handlers_t *handlers,
                                  crti_channel_t **channel_out);

/* Closes at once; frames not yet written are lost. Inside a handler the memory is released
 * when the handler has returned. NULL is fine. */
void crti_channel_free(crti_channel_t *channel);
CRTI_DEFINE_AUTO(crti_channel_t *, crti_channel_free)

/* Closes the socket; sends fail with CRT_ERR_CLOSED from now on, nothing is called any more. */
void crti_channel_close(crti_channel_t *channel);
bool crti_channel_is_closed(const crti_channel_t *channel);

/* The channel serves itself in `loop` until it is closed or freed. */
crt_status_t crti_channel_attach(crti_channel_t *channel, crti_loop_t *loop);

/* For another epoll: -1 when closed. */
int crti_channel_fd(const crti_channel_t *channel);
uint32_t crti_channel_events(const crti_channel_t *channel);
/* Reads what is there (at most about 1 MiB a call) and delivers it, writes what fits. */
void crti_channel_process(crti_channel_t *channel, uint32_t events);

/* Queues one message and writes what fits. The descriptors are duplicated, the caller keeps his.
 * CRT_ERR_CLOSED; CRT_ERR_TOO_LARGE; CRT_ERR_BACKPRESSURE: the queue is at its limit (nothing
 * was queued, the channel stays open: the caller decides). Never calls a handler. */
crt_status_t crti_channel_send(crti_channel_t *channel, crti_message_kind_t kind,
                               uint64_t request, const void *body);
crt_status_t crti_channel_send_fds(crti_channel_t *channel, crti_message_kind_t kind,
                                   uint64_t request, const void *body, const int *fds,
                                   int fd_count);
/* The answer ERROR with this thread's crt_error_detail(). */
crt_status_t crti_channel_send_error(crti_channel_t *channel, uint64_t request,
                                     crt_status_t status);
/* An already encoded message, copied. */
crt_status_t crti_channel_send_bytes(crti_channel_t *channel, const void *data,
                                     size_t size);

/* Bytes that wait to be written. */
size_t crti_channel_queued(const crti_channel_t *channel);

/* Numbers for requests: 1, 2, 3, ... */
uint64_t crti_channel_next_request(crti_channel_t *channel);

/* Waits until everything queued is written. CRT_ERR_TIMED_OUT, or why it closed. */
crt_status_t crti_channel_drain(crti_channel_t *channel, uint64_t deadline_ns);

/* Blocking, for the time before an epoll serves the channel: sends the request and waits for its
 * answer. Messages that come before the answer go to on_message. An ERROR answer is raised here
 * with its status and text. `answer_out` borrows from `storage`, which the caller frees; `fds`
 * has room for CRTI_CHANNEL_FDS (NULL: none wanted). On failure of the link on_closed is not
 * called: the return value says it. */
crt_status_t crti_channel_request(crti_channel_t *channel, crti_message_kind_t kind,
                                  const void *body, uint64_t deadline_ns,
                                  crti_message_t *answer_out, crti_buffer_t *storage,
                                  int *fds, int *fd_count_out);

/* Who wants to know that the answer of the next crti_channel_request is late: called once, when it
 * has not come until then. */
typedef struct crti_channel_late {
    uint64_t at_ns; /* 0: none */
    void (*on_late)(void *user);
    void *user;
} crti_channel_late_t;
void crti_channel_tell_late(crti_channel_t *channel, const crti_channel_late_t *late);

/* Who is at the other end, as of connect (SO_PEERCRED). */
crt_status_t crti_channel_peer(const crti_channel_t *channel, struct ucred *peer_out);

/* The address of the socket `path`: a file, or with '@' in front a name without one, which others
 * of the host can see, but crti_channel_accept does not let them in. CRT_ERR_TOO_LARGE: does not
 * fit (names CRT_RUN_DIR). */
crt_status_t crti_channel_address(const char *path, struct sockaddr_un *address_out,
                                  socklen_t *size_out);

/* Binds and listens at `path` with mode 0600. CRT_ERR_TOO_LARGE: the path does not fit in a
 * socket address (names CRT_RUN_DIR). CRT_ERR_EXISTS: something lies there. */
crt_status_t crti_channel_listen(const char *path, int *fd_out);

/* The next connection, checked to be of this user (others are closed and CRT_ERR_PERMISSION is
 * returned). CRT_IN_PROGRESS: none waits. CRT_ERR_IO: e.g. no descriptor left. */
crt_status_t crti_channel_accept(int listen_fd, int *fd_out);

/* Two connected descriptors, CLOEXEC; the channel of each side makes its own non-blocking. */
crt_status_t crti_channel_pair(int fds_out[2]);

/* "error ANSWER" raised as a status of this thread: for a decoded ERROR message. */
crt_status_t crti_channel_raise(const crti_msg_error_t *error);

#endif
