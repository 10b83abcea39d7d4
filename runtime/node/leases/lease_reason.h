/* SPDX-License-Identifier: Apache-2.0 */
/* Why a request waits, in words for its owner. Pure. */
#ifndef CRTI_NODE_LEASE_REASON_H
#define CRTI_NODE_LEASE_REASON_H

#include "runtime/node/leases/lease_table.h"

/* "needs 3 CPU, the cluster has 2 CPU"; "needs 2 CPU, held by job 0123abcd: 2 CPU" (of this
 * node). */
void crti_lease_reason(const crti_lease_table_t *table, const crti_lease_t *lease,
                       char *text, size_t size);

/* Whether it says more than the owner was told before: not when others hold the same meanwhile. */
bool crti_lease_reason_is_new(const char *text, const char *told);

#endif
