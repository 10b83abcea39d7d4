/* SPDX-License-Identifier: Apache-2.0 */
/* GPU table. See gpu_table.h. */
#include "runtime/node/leases/gpu_table.h"

#include "runtime/base/resources.h"

void crti_gpu_table_init(crti_gpu_table_t *table, unsigned count)
{
    *table = (crti_gpu_table_t){.count = count < CRTI_GPUS_MAX ? count : CRTI_GPUS_MAX};
    for (unsigned i = 0; i < table->count; i++)
        table->room[i] = CRTI_RESOURCE_ONE;
}

/* The fullest GPU that has so much room; -1: none. */
static int find(const crti_gpu_table_t *table, int64_t amount, uint64_t except)
{
    int best = -1;

    for (unsigned i = 0; i < table->count; i++)
        if (table->room[i] >= amount && !(except >> i & 1) &&
            (best < 0 || table->room[i] < table->room[best]))
            best = (int)i;
    return best;
}

/* What is to be taken; none: there is no room. */
static crti_gpu_share_t plan(const crti_gpu_table_t *table, int64_t amount)
{
    crti_gpu_share_t share = {.each = amount < CRTI_RESOURCE_ONE ? amount
                                                                 : CRTI_RESOURCE_ONE};

    for (; amount > 0; amount -= share.each) {
        int at = find(table, share.each, share.gpus);

        if (at < 0)
            return (crti_gpu_share_t){0};
        share.gpus |= UINT64_C(1) << at;
    }
    return share;
}

bool crti_gpu_table_fits(const crti_gpu_table_t *table, int64_t amount)
{
    return amount <= 0 || plan(table, amount).gpus != 0;
}

bool crti_gpu_table_take(crti_gpu_table_t *table, int64_t amount,
                         crti_gpu_share_t *share_out)
{
    *share_out = plan(table, amount);
    for (unsigned i = 0; i < table->count; i++)
        if (share_out->gpus >> i & 1)
            table->room[i] -= share_out->each;
    return amount <= 0 || share_out->gpus != 0;
}

void crti_gpu_table_give(crti_gpu_table_t *table, crti_gpu_share_t *share)
{
    for (unsigned i = 0; i < table->count; i++)
        if (share->gpus >> i & 1)
            table->room[i] += share->each;
    *share = (crti_gpu_share_t){0};
}
