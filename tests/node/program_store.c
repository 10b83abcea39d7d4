/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that stops with a lock of the store (mode "holds" of program.c). Apart, because the
 * store's own headers and those of the loop both have a list. */
#include <signal.h>
#include <stdlib.h>

#include "runtime/store/transaction.h"

void program_stop_inside(int fd, unsigned slot, crti_id_t process);

/* With the lock that every large object needs. */
void program_stop_inside(int fd, unsigned slot, crti_id_t process)
{
    crti_store_t *store;

    if (crti_store_attach(fd, slot, process, &store) != CRT_OK)
        abort();
    crti_tx_begin(store);
    if (crti_tx_lock(store, &store->header->heap.lock) != CRT_OK)
        abort();
    for (;;)
        raise(SIGSTOP);
}
