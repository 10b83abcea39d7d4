/* SPDX-License-Identifier: Apache-2.0 */
/* What a member does in the conformance tests. See conform.c. */
#ifndef CRTI_TESTS_COLLECTIVE_CONFORM_H
#define CRTI_TESTS_COLLECTIVE_CONFORM_H

#include <crt_collective.h>

/* Every operation, against a reference computed here; fails `call` with what is wrong. `large`:
 * also counts of one over a chunk. */
crt_status_t conform_all(crt_group_t *group, crt_call_t *call, bool large);
crt_status_t conform_posted(crt_group_t *group, crt_call_t *call);
/* Sends and receives between all pairs. */
crt_status_t conform_pairs(crt_group_t *group, crt_call_t *call, bool large);
/* Messages beside each other and beside operations; `is_shared`: from memory of crt_group_alloc. */
crt_status_t conform_messages(crt_group_t *group, crt_call_t *call, bool is_shared);

#endif
