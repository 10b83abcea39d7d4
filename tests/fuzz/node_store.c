/* SPDX-License-Identifier: Apache-2.0 */
/* The store of the daemon in fuzz_node.c: small pages, and no thread beside it. */
#include "runtime/store/arena.h"

#include "node_world.h"

crt_status_t world_store(size_t bytes, unsigned slots, crti_store_t **store_out)
{
    crt_status_t status = crti_store_new_on(bytes, slots, false, store_out);

    if (status == CRT_OK)
        crti_store_stop_threads(*store_out);
    return status;
}
