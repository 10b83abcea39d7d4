/* SPDX-License-Identifier: Apache-2.0 */
/* Spill threads: the saver, which writes cold objects to files before the store is full, and the
 * loaders, which read them again. No disk ever holds up the daemon's loop.
 *
 * Where it sits
 *     spill.c (the loop) -> [ objects/spill_threads.c ] -> store (choose, saved, restore, lose),
 *         spill_files.c
 * Threads
 *     All functions are the loop's. on_done runs in a loader: it may post to the loop, and nothing
 *     else.
 */
#ifndef CRTI_NODE_SPILL_THREADS_H
#define CRTI_NODE_SPILL_THREADS_H

#include "runtime/base/list.h"
#include "runtime/node/objects/spill_files.h"
#include "runtime/store/store.h"

/* What a loader is to do, and what came of it. */
typedef struct crti_spill_load {
    crti_list_t link;
    crti_object_id_t object;
    uint64_t offset, size;    /* the part that `bytes` is for */
    unsigned char *bytes;     /* NULL: the whole object, into the store */
    uint64_t until_ns, saved; /* of one that finds the store full; 0: not yet */
    crt_status_t status;
    char text[600];
} crti_spill_load_t;

typedef struct crti_spill_threads crti_spill_threads_t;

/* Begins to save what is cold. `files` and `store` live longer. */
crt_status_t crti_spill_threads_start(crti_store_t *store, crti_spill_files_t *files,
                                      void (*on_done)(void *user), void *user,
                                      crti_spill_threads_t **threads_out);

/* A loader takes it; it is the threads' until crti_spill_threads_done gives it back. */
void crti_spill_threads_load(crti_spill_threads_t *threads, crti_spill_load_t *load);

/* The next one that is done; NULL: none. */
crti_spill_load_t *crti_spill_threads_done(crti_spill_threads_t *threads);

/* For how long the saver has been in one write, in nanoseconds; 0: it is in none. */
uint64_t crti_spill_threads_stalled(const crti_spill_threads_t *threads, uint64_t now_ns);

/* True: all have ended and what is left of loads is freed. False: one hangs in its storage; then it
 * and `files` are left behind, and touch nothing of the store any more when they come back. */
bool crti_spill_threads_stop(crti_spill_threads_t *threads);

#endif
