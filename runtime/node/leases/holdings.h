/* SPDX-License-Identifier: Apache-2.0 */
/* Holdings: resources of this node that no lease has: those of actors, and the GPUs of workers
 * whose lease has ended and whose process has not. Pure; a part of the lease table.
 *
 * Ownership
 *     A holding is its map's; a pointer is valid until it is removed.
 */
#ifndef CRTI_NODE_HOLDINGS_H
#define CRTI_NODE_HOLDINGS_H

#include "runtime/base/crt_base.h"
#include "runtime/base/id.h"
#include "runtime/base/map.h"
#include "runtime/base/resources.h"
#include "runtime/node/leases/gpu_table.h"

typedef struct crti_holding {
    crti_id_t job;
    crti_resources_t resources;
    crti_gpu_share_t gpus;
    struct crti_bundle *bundle; /* whose they are; NULL: the node's */
} crti_holding_t;

typedef struct crti_holdings {
    crti_map_t by_id; /* of an actor or a worker -> crti_holding_t */
} crti_holdings_t;

void crti_holdings_init(crti_holdings_t *holdings);
void crti_holdings_fini(crti_holdings_t *holdings);
/* A copy is kept under that id, which is new. */
crt_status_t crti_holdings_add(crti_holdings_t *holdings, crti_id_t id,
                               const crti_holding_t *holding);
/* NULL: none. */
const crti_holding_t *crti_holdings_get(const crti_holdings_t *holdings, crti_id_t id);
/* Takes it out. False: there is none. */
bool crti_holdings_remove(crti_holdings_t *holdings, crti_id_t id,
                          crti_holding_t *holding_out);
/* Walks them; `*cursor` starts at 0, NULL at the end. */
const crti_holding_t *crti_holdings_next(const crti_holdings_t *holdings, size_t *cursor);

#endif
