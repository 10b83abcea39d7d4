/* SPDX-License-Identifier: Apache-2.0 */
/* Links: connections of one member to members on other nodes, for the ring backend.
 *
 * Where it sits
 *     the ring backend -> [ links ] -> net/stream (TLS with the cluster's key) -> TCP
 * Threads
 *     Used by the thread that runs the group's operation; it has a loop of its own, which turns
 *     only inside these calls. Bytes that arrive between operations wait in the kernel.
 */
#ifndef CRTI_COLLECTIVE_LINKS_H
#define CRTI_COLLECTIVE_LINKS_H

#include "collective/group.h"

typedef struct crti_links crti_links_t;

/* Listens on this node's address, on a free port (of the worker port range, if there is one).
 * `address` says where; "" when this process has no way to be reached from other nodes. Called
 * before the group is joined. Caller owns the result and frees it with crti_links_free. */
crt_status_t crti_links_new(crti_links_t **links_out, char address[CRTI_STREAM_ADDRESS]);
void crti_links_free(crti_links_t *links);

#endif
