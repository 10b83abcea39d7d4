/* SPDX-License-Identifier: Apache-2.0 */
/* Copies. See copies.c; the core's lock covers all of it. */
#ifndef CRTI_CORE_REFS_COPIES_H
#define CRTI_CORE_REFS_COPIES_H

#include "runtime/core/refs/refs.h"

/* A node has a copy of one of ours. */
void crti_ref_add_copy(crt_ref_t *ref, crti_id_t node);
/* The copies of the target that a stored result is forwarded to are copies of the result. */
void crti_ref_take_places(crt_ref_t *ref);
/* Tells the owner that this node has a copy, so that others may pull from here; that word comes. */
void crti_ref_tell_copy(crt_ref_t *ref);
crt_status_t crti_copy_arrived(crti_core_t *core, const void *data, size_t size);

#endif
