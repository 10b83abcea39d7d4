/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of links/, which its own files see. */
#ifndef CRTI_NODE_LINKS_INT_H
#define CRTI_NODE_LINKS_INT_H

#include "runtime/node/links/head.h"
#include "runtime/node/links/local.h"
#include "runtime/node/links/peer.h"
#include "runtime/node/process/context.h"

struct crti_head {
    crti_stream_t *stream;
    bool registering; /* NODE_REGISTER went out on this stream */
    bool open;        /* NODE_REGISTERED came on it */
    uint64_t requests;
    crti_map_t pending; /* request number -> question */
    crti_list_t order;  /* the same, oldest first: sent again in this order */
    crti_list_t
        *unsaid; /* of it: the first that is not said on this stream; `order`: none */
    crti_buffer_t untold; /* a list: deaths while there was no link, oldest first */
    size_t untold_count;
    /* What a stream that takes no more ends with, at the end of the turn. */
    crti_timer_t breaking;
    crt_status_t break_status;
    char why[256];
    void (*on_closed)(void *user, crti_stream_t *stream, crt_status_t status,
                      const char *text);
};

struct crti_locals {
    const crti_local_handlers_t *handlers;
    crti_list_t all;
    crti_map_t by_number;
    uint64_t last;
    int listen_fd;
    crti_watch_t listen_watch;
    crti_timer_t listen_pause; /* while there is no descriptor for those who connect */
};

struct crti_peers {
    const crti_peer_handlers_t *handlers;
    crti_map_t by_id;    /* node id -> peer */
    crti_list_t inbound; /* streams of other nodes */
    crti_stream_listener_t *listener;
    char endpoint[CRTI_STREAM_ADDRESS];
    bool encrypt;    /* streams that others make to this node */
    uint64_t naming; /* counts how often the head has begun to name all nodes */
};

#endif
