/* SPDX-License-Identifier: Apache-2.0 */
/* Shm: operations between members of one node, over shared memory.
 *
 * Where it sits
 *     operation.c -> crti_backend_shm (shm.c) -> shm_team.c (barriers, looking at each other),
 *         shm_region.c (what a member shows), shm_memory.c (where its tensors are),
 *         shm_share.c (all members reduce in place), shm_pull.c (everybody takes from
 *         everybody), shm_stage.c (through slots), shm_pair.c (send and receive)
 *         -> memory.c (segments)
 * A region
 *     Each member makes one when it joins, and maps those of the others: a flag that counts its
 *     barriers, two slots that describe its operations and hold small data, channels to the other
 *     members, all of which the others see read only; staging buffers for ordinary memory, into
 *     which they write results.
 * A barrier
 *     Everyone counts its flag up and waits until all others' have. Who waits spins a while that
 *     adapts to success, then sleeps on the other's flag (a futex on memory that is mapped read
 *     only), at most CRTI_GROUP_LOOK_NS; then it looks whether the others live.
 * Invariants
 *     Slot k % 2 of operation k is written after all have finished operation k - 2: a member's
 *     flag shows that it has finished everything before. Staging buffers likewise.
 *     Nothing a peer wrote is used before it is copied and checked against our own operation.
 */
#ifndef CRTI_COLLECTIVE_SHM_H
#define CRTI_COLLECTIVE_SHM_H

#include "collective/backend.h"

typedef struct crti_region crti_region_t;

/* The region of a member of a group of `size`. CRT_ERR_NO_MEMORY, CRT_ERR_IO. Caller owns the
 * result and frees it with crti_region_free. */
crt_status_t crti_region_new(int size, uint64_t nonce, crti_region_t **region_out);
void crti_region_free(crti_region_t *region);
int crti_region_fd(const crti_region_t *region);

#endif
