/* SPDX-License-Identifier: Apache-2.0 */
/* Inline group: crt_collective.h among the threads of one process, and deaths at any operation.
 *
 * Each member is a thread. The last to come to an operation carries it out for all. Operations that
 * were posted run when they are waited for. Stands in for collective/ in the tests that link it.
 */
#ifndef CRTI_TESTS_INLINE_GROUP_H
#define CRTI_TESTS_INLINE_GROUP_H

#include <crt_collective.h>

/* Before its operation number `operation` (from 0, counted since it joined) that rank dies. `torn`:
 * the others have come to it, and those with an odd rank see it fail while the rest see it done. */
void inline_group_kill(int rank, int operation, bool torn);
bool inline_group_is_dead(const crt_group_t *group);
/* Operations that this member has come to. */
int inline_group_operations(const crt_group_t *group);
/* Forgets the deaths that were planned. All members have left. */
void inline_group_reset(void);

#endif
