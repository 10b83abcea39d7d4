/* SPDX-License-Identifier: Apache-2.0 */
/* What stands under a node daemon in fuzz_node.c: loop.h on a clock of its own, stream.h without
 * sockets, and the kernel's few words about processes. Nothing here touches a process that
 * exists. */
#ifndef CRTI_TESTS_FUZZ_NODE_WORLD_H
#define CRTI_TESTS_FUZZ_NODE_WORLD_H

#include "runtime/net/loop.h"
#include "runtime/net/stream.h"
#include "runtime/store/store.h"

struct crti_stream {
    crti_stream_t *next; /* of all */
    crti_stream_handlers_t handlers;
    bool is_ours; /* this daemon connected */
    bool is_open, is_freed;
    int depth;      /* handlers on the stack */
    uint64_t asked; /* the last request that was sent on it */
    void *place;    /* of a payload */
    bool may_receive;
};

void world_begin(void);
void world_end(void);
/* The clock goes on, and everything is served that is ready or due. */
void world_pass(uint64_t ns);

/* Another daemon connects; NULL: nobody listens. */
crti_stream_t *world_guest(void);
crti_stream_t *world_stream(unsigned index); /* NULL: there are not so many */
void world_say(crti_stream_t *stream, const crti_message_t *message);
void world_open(crti_stream_t *stream);
void world_break(crti_stream_t *stream);

/* A process that the daemon watches ends; false: it watches none. */
bool world_die(unsigned index);

crt_status_t world_store(size_t bytes, unsigned slots, crti_store_t **store_out);

#endif
