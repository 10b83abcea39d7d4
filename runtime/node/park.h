/* SPDX-License-Identifier: Apache-2.0 */
/* Park: descriptors of workers beyond what one table of open files can hold.
 *
 * Where it sits
 *     spawn.c -> [ node/park.c ] <- pipes, pidfd;  bytes and ends -> output.c, death.c
 * Why
 *     A worker costs this daemon four files: link, pidfd, two pipes. The limit of open files is one
 *     of a table, and a thread can have a table of its own: it keeps what is only waited for, reads
 *     the pipes, and sends the bytes on. Where the limit is high nothing is ever parked.
 * Threads
 *     The loop's. A lot's thread shares no memory with it: they talk over a socket pair.
 * Order
 *     What a thread sends about an item comes in order: bytes, then its end.
 * Failure
 *     Without threads, or on a kernel that can't split the table, parking is refused with
 *     CRT_ERR_UNSUPPORTED; the caller keeps its descriptors.
 */
#ifndef CRTI_NODE_PARK_H
#define CRTI_NODE_PARK_H

#include "runtime/base/list.h"
#include "runtime/net/loop.h"

#define CRTI_PARK_PIPES 2 /* places 0 and 1; the pidfd is behind them */
#define CRTI_PARK_FILES (CRTI_PARK_PIPES + 1)

typedef struct crti_park crti_park_t;
typedef struct crti_lot crti_lot_t;

/* A member of its owner, zero before it is used. */
typedef struct crti_parked {
    crti_lot_t *lot; /* NULL: not parked */
    uint64_t number;
    crti_list_t ended; /* in park->ended */
    /* What pipe `which` had. */
    void (*on_bytes)(void *user, unsigned which, const char *data, size_t size);
    /* The pidfd became readable, or it was lost for lack of files. */
    void (*on_end)(void *user, bool lost);
    void *user;
} crti_parked_t;

/* `files`: how many a table may hold. Caller owns the result and frees it with crti_park_free,
 * when nothing is parked any more. */
crt_status_t crti_park_new(crti_loop_t *loop, size_t files, crti_park_t **park_out);
void crti_park_free(crti_park_t *park);

/* Parks those of the descriptors that are not -1; may be called again for the same item with
 * others. On CRT_OK they are -1. */
crt_status_t crti_park_put(crti_park_t *park, crti_parked_t *item,
                           int fds_take[CRTI_PARK_FILES]);

/* SIGKILL by its pidfd. Fine when it is not parked. */
void crti_park_kill(crti_parked_t *item);

/* What its pipes hold is told, then everything of it is closed: no handler is called after that.
 * Fine when it is not parked. */
void crti_park_take_out(crti_parked_t *item);

#endif
