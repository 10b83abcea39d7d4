/* SPDX-License-Identifier: Apache-2.0 */
/* Lineage: how results of calls of this process can be made again when every copy is lost.
 *
 * Where it sits
 *     pending.c (a call has ended) -> [ lineage.c ] keeps what was called
 *     refs/missing.c, refs/forward.c (no copy is left) -> [ lineage.c ] -> another attempt of the
 *     call
 *     refs.c (nobody holds an object but what was made from it) -> [ lineage.c ]
 * Threads
 *     The core's lock.
 * Ownership
 *     A lineage lives as long as one of the results of its call does. It keeps the refs that the
 *     arguments need: ours by name only, so that their bytes can be given up when they can be made
 *     again, too; those of others are held.
 * Failure
 *     Lineages take CRT_LINEAGE_LIMIT bytes at most; the oldest go first. Whoever wants a lost
 *     object then hears why it is not made again.
 */
#ifndef CRTI_CORE_CALLS_LINEAGE_H
#define CRTI_CORE_CALLS_LINEAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/list.h"
#include "runtime/core/types.h"
#include "runtime/core/values/record.h"

typedef struct crti_lineage crti_lineage_t;

/* Why an object can't be made again. */
typedef enum crti_not_again {
    CRTI_NOT_AGAIN_PUT,        /* no call has made it */
    CRTI_NOT_AGAIN_ONCE,       /* its task may run once */
    CRTI_NOT_AGAIN_ACTOR,      /* so may calls of its actor */
    CRTI_NOT_AGAIN_ACTOR_GONE, /* which has ended */
    CRTI_NOT_AGAIN_BOUND,      /* its lineage had no room, or lost it to a later one */
    CRTI_NOT_AGAIN_USED_UP,    /* the call has run as often as it may */
    CRTI_NOT_AGAIN_MEMORY
} crti_not_again_t;

/* Those of a process. */
typedef struct crti_lineages {
    crti_list_t all;       /* the oldest first */
    crti_list_t under_way; /* attempts that make something again */
    crti_list_t ending;    /* while one ends that kept the last result of another */
    bool is_ending;
    size_t bytes;       /* of them, and */
    size_t spare_bytes; /* of spare objects that can't be made again */
    size_t limit;       /* of both */
    uint64_t forgotten; /* lineages and spare objects for which there was no room */
} crti_lineages_t;

void crti_lineages_init(crti_lineages_t *lineages);
void crti_lineages_fini(crti_lineages_t *lineages);

/* The call has its results, or has failed, and ends next: what it takes to make them again is
 * kept. `result`: the first one. */
void crti_lineage_keep(crti_pending_t *pending, const crti_result_t *result);
/* An item that a call has yielded, of which it is number `index`: likewise. */
void crti_lineage_keep_item(crti_pending_t *pending, uint64_t index, crt_ref_t *ref);
/* One has come from a run that makes some again: taken, or given up. */
void crti_lineage_item_again(crti_pending_t *pending, uint64_t index,
                             const crti_result_t *result);
/* The first run of a stream with `lineage` has ended; its call is still there. */
void crti_lineage_stream_ended(crt_stream_t *stream);
void crti_lineage_tick(crti_core_t *core, uint64_t now_ns);

/* Handlers of refs (crti_ref_handlers_t). */
bool crti_lineage_make_again(crt_ref_t *ref);
crt_status_t crti_lineage_raise_lost(const crt_ref_t *ref, const char *text);
void crti_lineage_spare(crt_ref_t *ref);
void crti_lineage_forgotten(crt_ref_t *ref);

#endif
