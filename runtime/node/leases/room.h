/* SPDX-License-Identifier: Apache-2.0 */
/* Room: what this node has, and what leases, actors and bundles of placement groups have of it.
 * Pure; a part of the lease table.
 *
 * Where it sits
 *     lease_table.c -> [ node/leases/room.c ] -> bundle_table.c, gpu_table.c, holdings.c
 * Who has what
 *     Leases and actors take from the node, or from a bundle, which took what it is from the node
 *     before. A bundle that is returned gives back what it is when its last holder has given back.
 * Invariants
 *     available = resources - what granted and starting leases hold (CPUs of blocked ones excepted)
 *     - what actors hold - GPUs of workers that end - bundles. What is in a bundle does not count
 *     here.
 */
#ifndef CRTI_NODE_ROOM_H
#define CRTI_NODE_ROOM_H

#include "runtime/node/leases/bundle_table.h"
#include "runtime/node/leases/gpu_table.h"
#include "runtime/node/leases/holdings.h"

typedef struct crti_room {
    crti_resources_t resources, available;
    crti_gpu_table_t gpus;
    crti_holdings_t holdings; /* of actors, and GPUs of workers that end */
    crti_bundle_table_t bundles;
} crti_room_t;

void crti_room_init(crti_room_t *room, const crti_resources_t *resources);
void crti_room_fini(crti_room_t *room);
/* The node has that, too, unless it was said how much of it. */
void crti_room_add(crti_room_t *room, const char *name, int64_t amount);

/* `bundle` NULL: of the node itself, in all of these. GPUs that are free in part may add up to the
 * amount, and be too small each. */
bool crti_room_fits(const crti_room_t *room, const crti_bundle_t *bundle,
                    const crti_resources_t *need);
/* A lease begins and ends; `gpus_out` are those that it has. */
void crti_room_take(crti_room_t *room, crti_bundle_t *bundle,
                    const crti_resources_t *need, crti_gpu_share_t *gpus_out);
void crti_room_give(crti_room_t *room, crti_bundle_t *bundle,
                    const crti_resources_t *back, crti_gpu_share_t *gpus);
/* A worker waits, or goes on: its CPUs are free meanwhile. */
void crti_room_lend(crti_room_t *room, crti_bundle_t *bundle,
                    const crti_resources_t *cpus, bool is_lent);

/* An actor's process takes what it needs, until crti_room_release. CRT_ERR_BACKPRESSURE: there is
 * no room; CRT_ERR_EXISTS: it has it. */
crt_status_t crti_room_hold(crti_room_t *room, crti_id_t actor, crti_id_t job,
                            crti_bundle_t *bundle, const crti_resources_t *need);
/* The worker of a lease that ends keeps its GPUs until its process is gone; they are taken out of
 * `back` and `gpus`. */
void crti_room_keep_gpus(crti_room_t *room, crti_id_t worker, crti_id_t job,
                         crti_bundle_t *bundle, crti_resources_t *back,
                         crti_gpu_share_t *gpus);
/* That process is gone. False: it held nothing. */
bool crti_room_release(crti_room_t *room, crti_id_t holder);

/* A bundle takes from the node; its first five fields are read. CRT_ERR_BACKPRESSURE: there is no
 * room. */
crt_status_t crti_room_reserve(crti_room_t *room, const crti_bundle_t *bundle);
/* It is found no more, and goes with its last holder. */
void crti_room_return(crti_room_t *room, crti_bundle_t *bundle);

#endif
