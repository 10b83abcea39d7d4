/* SPDX-License-Identifier: Apache-2.0 */
/* Locality: which other node has most of a task's arguments.
 *
 * Where it sits
 *     submit.c (a task is ready to be sent) -> [ locality.c ] -> `prefer` of LEASE_REQUEST
 * Threads
 *     The core's lock.
 */
#ifndef CRTI_CORE_CALLS_LOCALITY_H
#define CRTI_CORE_CALLS_LOCALITY_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/id.h"
#include "runtime/core/types.h"

/* Less than that is fetched as fast as a worker elsewhere is asked for. */

/* True: another node has at least locality_limit more of what `refs` hold than this one. */
bool crti_locality(const crti_core_t *core, crt_ref_t *const *refs, size_t count,
                   crti_id_t *node_out);

#endif
