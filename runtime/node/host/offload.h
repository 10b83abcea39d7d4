/* SPDX-License-Identifier: Apache-2.0 */
/* Offload: descriptors of workers beyond what one table of open files can hold.
 *
 * Where it sits
 *     spawn.c -> [ node/host/offload.c ] <- pipes, pidfd;  bytes and ends -> output.c, death.c
 * Why
 *     A worker costs this daemon four files: link, pidfd, two pipes. The limit of open files is one
 *     of a table, and a thread can have a table of its own: it keeps what is only waited for, reads
 *     the pipes, and sends the bytes on. Where the limit is high nothing is ever offloaded.
 * Threads
 *     The loop's. An offload thread shares no memory with it: they talk over a socket pair.
 * Order
 *     What a thread sends about an item comes in order: bytes, then its end.
 * Failure
 *     Without threads, or on a kernel that can't split the table, offloading is refused with
 *     CRT_ERR_UNSUPPORTED; the caller keeps its descriptors.
 */
#ifndef CRTI_NODE_OFFLOAD_H
#define CRTI_NODE_OFFLOAD_H

#include "runtime/base/list.h"
#include "runtime/net/loop.h"

#define CRTI_OFFLOAD_PIPES 2 /* places 0 and 1; the pidfd is behind them */
#define CRTI_OFFLOAD_FILES (CRTI_OFFLOAD_PIPES + 1)

typedef struct crti_offload crti_offload_t;
typedef struct crti_offload_thread crti_offload_thread_t;

/* A member of its owner, zero before it is used. */
typedef struct crti_offloaded {
    crti_offload_thread_t *shard; /* NULL: not offloaded */
    uint64_t number;
    crti_list_t ended; /* in offload->ended */
    /* What pipe `which` had. */
    void (*on_bytes)(void *user, unsigned which, const char *data, size_t size);
    /* The pidfd became readable, or it was lost for lack of files. */
    void (*on_end)(void *user, bool lost);
    void *user;
} crti_offloaded_t;

/* `files`: how many a table may hold. Caller owns the result and frees it with crti_offload_free,
 * when nothing is offloaded any more. */
crt_status_t crti_offload_new(crti_loop_t *loop, size_t files,
                              crti_offload_t **offload_out);
void crti_offload_free(crti_offload_t *offload);

/* Parks those of the descriptors that are not -1; may be called again for the same item with
 * others. On CRT_OK they are -1. */
crt_status_t crti_offload_put(crti_offload_t *offload, crti_offloaded_t *item,
                              int fds_take[CRTI_OFFLOAD_FILES]);

/* SIGKILL by its pidfd. Fine when it is not offloaded. */
void crti_offload_kill(crti_offloaded_t *item);

/* What its pipes hold is told, then everything of it is closed: no handler is called after that.
 * Fine when it is not offloaded. */
void crti_offload_take_out(crti_offloaded_t *item);

#endif
