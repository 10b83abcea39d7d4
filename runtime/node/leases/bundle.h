/* SPDX-License-Identifier: Apache-2.0 */
/* Bundles of placement groups on this node, as the head orders them.
 *
 * Where it sits
 *     head_dispatch.c (BUNDLE_RESERVE, BUNDLE_RETURN) -> [ node/leases/bundle.c ] ->
 *     lease_holders.c, lease.c
 * Failure
 *     Orders may come again after a reconnect: incarnations tell which one counts. The head learns
 *     from NODE_REGISTER what is reserved here, and has returned what it does not want.
 */
#ifndef CRTI_NODE_BUNDLE_H
#define CRTI_NODE_BUNDLE_H

#include "runtime/base/buffer.h"
#include "runtime/node/types.h"

void crti_bundle_reserve(crti_node_t *node, uint64_t request,
                         const crti_msg_bundle_reserve_t *m);
/* What runs in it ends. */
void crti_bundle_return(crti_node_t *node, const crti_msg_bundle_return_t *m);
/* The node was taken for dead. */
void crti_bundle_return_all(crti_node_t *node, const char *text);
/* Of BUNDLE_HELD, for NODE_REGISTER. */
crt_status_t crti_bundle_list(crti_node_t *node, crti_buffer_t *list);

#endif
