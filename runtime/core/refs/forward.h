/* SPDX-License-Identifier: Apache-2.0 */
/* Results that are other refs: a call returned a ref, and its result is that ref's value.
 *
 * Where it sits
 *     notify.c (a result) -> [ forward.c ] -> the other ref, the target -> content of the result;
 *     notify.c (the target has changed) -> [ forward.c ]
 * Threads
 *     The core's lock.
 * Idea
 *     The content is copied once, when the target has it. Where the bytes of a stored one lie is
 *     the target's owner to say: it is asked when the places that were copied are gone (missing.c),
 *     and hears of every copy that was made of the result (copies.c).
 * Ownership
 *     The result holds its target.
 */
#ifndef CRTI_CORE_FORWARD_H
#define CRTI_CORE_FORWARD_H

#include "runtime/core/values/record.h"

/* The value of `ref`, which is pending, is the named one's. `has_tokens`: that was registered for
 * us. */
void crti_forward_begin(crt_ref_t *ref, const crti_ref_name_t *name, bool has_tokens);
/* What is known of the target's copies has changed, or it has failed. */
void crti_forward_moved(crt_ref_t *target);

#endif
