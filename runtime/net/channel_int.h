/* SPDX-License-Identifier: Apache-2.0 */
/* What channel.c and channel_request.c share; private to them. */
#ifndef CRTI_NET_CHANNEL_INT_H
#define CRTI_NET_CHANNEL_INT_H

#include "runtime/base/buffer.h"
#include "runtime/net/channel.h"

#define CRTI_CHANNEL_FDS_WAITING 32 /* received, their frames not complete yet */

struct crti_channel {
    int fd;
    crti_channel_handlers_t handlers;
    crti_loop_t *loop; /* NULL: another epoll */
    crti_watch_t watch;
    uint32_t events;

    crti_buffer_t in;
    size_t in_done; /* bytes at the front of `in` that were delivered */
    int in_fds[CRTI_CHANNEL_FDS_WAITING];
    int in_fd_count;

    crti_buffer_t out;
    size_t out_done;
    size_t out_limit;
    crti_buffer_t marks; /* descriptors that wait in `out` */

    uint64_t requests;
    unsigned calling;
    bool freed;
    /* The answer that crti_channel_request waits for. */
    uint64_t awaited;
    crti_buffer_t *answer;
    int *answer_fds;
    int answer_fd_count;
    bool answered;
    crti_channel_late_t late;
};

/* A handler or a request has returned: false when the channel was freed meanwhile. */
bool crti_channel_leave(crti_channel_t *channel);

/* Sends what the socket takes now. */
void crti_channel_flush(crti_channel_t *channel);

/* Reads what is there and delivers the frames that are complete. */
crt_status_t crti_channel_receive(crti_channel_t *channel);

void crti_channel_close_fds(int *fds, int count);

#endif
