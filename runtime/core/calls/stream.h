/* SPDX-License-Identifier: Apache-2.0 */
/* Streams at their caller: the items of a call that yields them one by one, from their arrival
 * until the program takes them.
 *
 * Where it sits
 *     crt_submit_stream, crt_call_stream -> outgoing.c -> [ stream.c ] -> CALL (with numbers for
 *     items), CONSUMED
 *     ITEM -> client/dispatch.c -> [ stream.c ] -> crt_stream_next (client/stream_api.c)
 * Threads
 *     The core's lock.
 * Ownership
 *     The program's handle and the pending call hold a stream. It holds its items until they are
 *     taken, and the result of the call. An item is an object of this process, whoever stored its
 *     bytes.
 * Invariants
 *     Items arrive and are given in order, each once: a call that is made again leaves out those
 *     that have arrived. At most `window` items were produced and not taken.
 */
#ifndef CRTI_CORE_CALLS_STREAM_H
#define CRTI_CORE_CALLS_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/core/calls/calls.h"
#include "runtime/core/values/item_numbers.h"

struct crt_stream {
    crti_core_t *core; /* NULL after a shutdown */
    unsigned holds;
    bool is_dropped;              /* by the program */
    bool is_ended;                /* no item follows those that are here */
    crt_ref_t *completed;         /* held: the result of the call */
    crti_pending_t *call;         /* NULL: it has ended, or was never made */
    struct crti_lineage *lineage; /* of its items; NULL: there is none */
    crt_ref_t **items;            /* a ring of `room`, a power of two: held, not taken */
    size_t first, count, room;
    uint64_t window;
    uint64_t received;           /* items so far, */
    uint64_t limit;              /* and how many may be produced so far */
    crti_item_numbers_t numbers; /* of those between */
    /* An item has come, or the end, or the program gives it up; NULL: nobody is told. It may not
     * take anything. */
    void (*on_change)(void *user);
    void *on_change_user;
};

/* Held once, with an entry in core->calls->streams, which says that it is one. NULL: out of
 * memory. */
crt_stream_t *crti_call_stream_new(crti_core_t *core);
/* Of a call that makes items again, from number `first` on: nobody has a handle of it, and each
 * counts as taken when it comes. */
crt_stream_t *crti_call_stream_unread(crti_core_t *core, uint64_t first);
/* Without a runtime: one that says why. The objects among the arguments end. */
crt_stream_t *crti_call_stream_refused(const crt_arg_t *args, size_t count);
/* How many items may be out, from the option of that name. */
crt_status_t crti_call_stream_window(int64_t wanted, uint64_t *window_out);
void crti_call_stream_release(crt_stream_t *stream);
/* The program gives it up: what is here, and what still comes, is let go. Its call goes on. */
void crti_call_stream_drop(crt_stream_t *stream);
/* At shutdown: the program may still drop them. */
void crti_call_streams_orphan(crti_core_t *core);

/* `pending` makes its items; what goes into the CALL. */
void crti_call_stream_begin(crt_stream_t *stream, crti_pending_t *pending);
crti_stream_start_t crti_call_stream_start(crt_stream_t *stream);
/* The call is sent once more: its record says from which item on. */
void crti_call_stream_restart(crti_pending_t *pending);
/* The process that made them has died: whatever it has stored and not told of is freed there. */
void crti_call_stream_abandon(const crti_pending_t *pending);
void crti_call_stream_ended(crt_stream_t *stream);

/* ITEM came. CRT_ERR_PROTOCOL: it is not the next one. Another error: it is lost, and the call is
 * to fail. */
crt_status_t crti_call_stream_arrived(crti_pending_t *pending, uint64_t index,
                                      const crti_result_t *result);
/* The next item, held for the caller; NULL: none is here. */
crt_ref_t *crti_call_stream_take(crt_stream_t *stream);

#endif
