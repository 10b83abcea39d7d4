/* SPDX-License-Identifier: Apache-2.0 */
/* Spill shares: how much of the disk each job has, and how much more it may have.
 *
 * Where it sits
 *     spill_files.c (append, drop) -> [ objects/spill_shares.h ]
 * Rule
 *     A job has at most CRTI_SPILL_SHARE times what is left free then. Alone it may have three
 *     quarters; the next one three quarters of the rest, and so on: whatever others have taken,
 *     something is left for one more, and nobody has to count jobs or to give anything back.
 * Threads
 *     The caller's lock covers it.
 */
#ifndef CRTI_NODE_SPILL_SHARES_H
#define CRTI_NODE_SPILL_SHARES_H

#include <stdbool.h>
#include <stdint.h>

#define CRTI_SPILL_SHARE  3u
#define CRTI_SPILL_GROUPS 65536u

typedef struct crti_spill_shares {
    uint64_t taken[CRTI_SPILL_GROUPS]; /* bytes, by group (crti_store_set_group) */
} crti_spill_shares_t;

/* Whether a group may have `size` bytes more when `left` are free. */
static inline bool crti_spill_may_take(const crti_spill_shares_t *shares, uint16_t group,
                                       uint64_t size, uint64_t left)
{
    return size <= left &&
           (shares->taken[group] + size) / CRTI_SPILL_SHARE <= left - size;
}

static inline void crti_spill_take(crti_spill_shares_t *shares, uint16_t group,
                                   uint64_t size)
{
    shares->taken[group] += size;
}

static inline void crti_spill_give(crti_spill_shares_t *shares, uint16_t group,
                                   uint64_t size)
{
    shares->taken[group] -= size;
}

#endif
