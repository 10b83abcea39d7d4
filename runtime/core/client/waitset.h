/* SPDX-License-Identifier: Apache-2.0 */
/* Wait sets: refs, streams and ends of actors and nodes that a program waits for together.
 *
 * Where it sits
 *     waitset_api.c (crt_waitset_*), on_ready.c -> [ waitset.c ] -> crti_ref_await,
 *     stream->on_change, actor->end_waiters; deaths.c (ends of nodes) -> [ waitset.c ]
 * Threads
 *     The core's lock. After a shutdown a set is its owner's alone.
 * Ownership
 *     An entry holds what it waits for: a ref as a handle of the program does, a stream's memory,
 *     an actor weakly.
 * Invariants
 *     The descriptor, where there is one, is readable while an entry is ready.
 */
#ifndef CRTI_CORE_CLIENT_WAITSET_H
#define CRTI_CORE_CLIENT_WAITSET_H

#include "runtime/core/client/wait_memory.h"
#include "runtime/core/client/wait_table.h"
#include "runtime/core/types.h"
#include "runtime/crt.h"

struct crt_waitset {
    crti_core_t *core; /* NULL after a shutdown */
    unsigned holds;    /* the program's, and of threads that wait in it */
    bool is_dropped;   /* by the program */
    int fd;            /* an eventfd; -1: nobody has asked for it */
    bool is_shown;     /* it is readable */
    bool is_ticked;    /* no thread waits in it: the timer takes its events (watch.c) */
    crti_wait_table_t table;
};

/* A part of crti_core_t. */
struct crti_waits {
    crti_numbers_t sets; /* those of the program, handles.h */
    crti_list_t nodes;   /* entries, in all sets, of those that have not ended */
    crti_wait_memory_t memory;
    struct crti_callbacks *callbacks; /* on_ready.c; NULL: none was asked for */
    crt_waitset_t *callback_set;      /* theirs */
    struct crti_notices *watches;     /* watch.c; likewise */
};

/* ------------------------------------------------------------------ waitset.c */

void crti_waits_init(crti_waits_t *waits);
void crti_waits_fini(crti_waits_t *waits);

/* Held once; no handle of the program's. NULL: no memory, which was raised. */
crt_waitset_t *crti_waitset_new(crti_core_t *core);
void crti_waitset_release(crt_waitset_t *set);
/* Nothing is in it any more. `core` is NULL after a shutdown. */
void crti_waitset_clear(crti_core_t *core, crt_waitset_t *set);
crt_status_t crti_waitset_add_ref(crt_waitset_t *set, crt_ref_t *ref, void *user);
crt_status_t crti_waitset_add_stream(crt_waitset_t *set, crt_stream_t *stream,
                                     void *user);
/* `wants_all`: its restarts and drain, too; else its end alone. */
crt_status_t crti_waitset_add_actor(crt_waitset_t *set, crt_actor_t *actor,
                                    bool wants_all, void *user);
crt_status_t crti_waitset_add_node(crt_waitset_t *set, crti_id_t node, bool wants_all,
                                   void *user);
/* All with this pointer; false: there is none. */
bool crti_waitset_remove(crt_waitset_t *set, const void *user);
/* The next event, which holds nothing before. False: none is ready. */
bool crti_waitset_take(crt_waitset_t *set, crt_event_t *event);
crt_status_t crti_waitset_open_fd(crt_waitset_t *set);
/* The first that was added and is not ready; NULL: no ref. */
crt_ref_t *crti_waitset_first_ref(const crt_waitset_t *set);

/* A node has ended: NODE_DIED; or the cluster does not know it. */
void crti_waits_node_gone(crti_core_t *core, crti_id_t node, crt_status_t status,
                          const char *text);
/* It is drained; once. */
void crti_waits_node_drains(crti_core_t *core, crti_id_t node);
/* This process is in no cluster any more, and hears of no node. */
void crti_waits_break(crti_core_t *core, crt_status_t status, const char *text);
/* At shutdown: what becomes ready now is told by nobody. */
void crti_waits_orphan(crti_core_t *core);

/* ------------------------------------------------------------------ watch.c */

/* What has happened is told to refs and by calls. Lock held. */
void crti_watches_tick(crti_core_t *core);
/* At shutdown. */
void crti_watches_end(crti_core_t *core);

/* ------------------------------------------------------------------ waitset_api.c */

/* What it holds goes. Lock held, or `core` is NULL after a shutdown. */
void crti_event_empty(crti_core_t *core, crt_event_t *event);
/* CRT_OK for a ref that can be waited for, also for a submission that failed without a runtime. */
crt_status_t crti_wait_check_ref(const crt_ref_t *ref);

/* ------------------------------------------------------------------ on_ready.c */

/* After a shutdown: the callbacks that are left run, and their thread ends. NULL is fine. */
void crti_callbacks_end(struct crti_callbacks *callbacks);
/* This thread runs callbacks. */
bool crti_is_callback_thread(void);

/* ------------------------------------------------------------------ wait.c */

/* The program has one handle of a ref more, or gives one up (false: it had none). `core` with its
 * lock held; NULL after a shutdown. */
void crti_ref_keep_handle(crt_ref_t *ref);
bool crti_ref_drop_handle(crti_core_t *core, crt_ref_t *ref);

#endif
