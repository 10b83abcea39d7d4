/* SPDX-License-Identifier: Apache-2.0 */
/* Transaction: a change of shared tables that happens wholly or not at all, even when its
 * process is killed at any instruction.
 *
 *     crti_tx_begin(store);
 *     status = crti_tx_lock(store, &bucket->lock);
 *     if (status == CRT_OK) ... crti_tx_set(store, &word, value) ...
 *     return crti_tx_end(store, status);
 *
 * How
 *     Every word changed is first written to the slot's undo log: offset and old value, then the
 *     count, then the word itself. Commit is one store: count = 0. A process that dies leaves
 *     its log and the list of its locks behind; no other process could change those words
 *     meanwhile, because their locks are still held, and the daemon writes the old values back
 *     (crti_tx_undo), then opens the locks. A killed process stops between two instructions, so
 *     program order is all that counts: a compiler barrier keeps log, count and word in order, no
 *     fence of the processor is needed.
 * Order of locks
 *     bucket, slot, heap. One of each at most. A process has one transaction at a time (its
 *     mutex), so a slot needs one log.
 * Waiting
 *     A lock is held for some 100 ns. A waiter spins, then sleeps on a futex, and gives up after
 *     the attachment's patience; a process that waits for long leaves a complaint in the header for
 *     the daemon. A lock held by a slot without a process can only be damage and is taken over.
 */
#ifndef CRTI_STORE_TRANSACTION_H
#define CRTI_STORE_TRANSACTION_H

#include "runtime/store/arena.h"

/* Takes the process's mutex. */
void crti_tx_begin(crti_store_t *store);

/* Takes a lock for this transaction; one that it has already is fine. CRT_ERR_TIMED_OUT. */
crt_status_t crti_tx_lock(crti_store_t *store, crti_lock_t *lock);

/* Commits when `status` is CRT_OK and nothing was damaged, else undoes; opens the locks and the
 * mutex; wakes the processes that wait for space when some came back. Returns the status. */
crt_status_t crti_tx_end(crti_store_t *store, crt_status_t status);

/* Daemon: the process of `slot` is dead. Undoes its transaction, opens its locks. */
void crti_tx_undo(crti_store_t *store, crti_arena_slot_t *slot);

/* The tables say something impossible: this transaction will fail with CRT_ERR_CORRUPT. */
crt_status_t crti_tx_damaged(crti_store_t *store, const char *what, uint64_t value);

/* Wakes creators that wait for space. */
void crti_tx_wake_creators(crti_store_t *store);

/* Changes a shared word. */
static inline void crti_tx_set(crti_store_t *store, crti_word_t *word, uint64_t value)
{
    unsigned n = store->log_count;
    crti_arena_slot_t *me = store->me;

    if (n >= CRTI_LOG_WORDS) {
        store->damaged = true;
        return;
    }
    crti_write(&me->log[n].offset, (uint64_t)((uint8_t *)word - store->base));
    crti_write(&me->log[n].old, crti_read(word));
    atomic_signal_fence(memory_order_seq_cst);
    store->log_count = n + 1;
    crti_write(&me->log_count, n + 1);
    atomic_signal_fence(memory_order_seq_cst);
    crti_write(word, value);
}

#endif
