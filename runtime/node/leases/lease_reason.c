/* SPDX-License-Identifier: Apache-2.0 */
/* Why a request waits. See lease_reason.h. */
#include "runtime/node/leases/lease_reason.h"

#include <stdio.h>

void crti_lease_reason(const crti_lease_table_t *table, const crti_lease_t *lease,
                       size_t max_workers, char *text, size_t size)
{
    char need[64], have[64], all[120];

    for (unsigned i = 0; i < lease->resources.count; i++) {
        const struct crti_resource *item = &lease->resources.item[i];
        int64_t largest, sum;

        crti_lease_table_survey(table, item->name, &largest, &sum);
        if (largest >= item->amount)
            continue;
        crti_resources_format_one(item->name, item->amount, need, sizeof(need));
        if (sum < item->amount)
            snprintf(text, size, "needs %s, the cluster has %s", need,
                     crti_resources_format_one(item->name, sum, have, sizeof(have)));
        else
            snprintf(text, size, "needs %s on one node, the largest has %s", need,
                     crti_resources_format_one(item->name, largest, have, sizeof(have)));
        return;
    }
    if (crti_resources_fit(crti_lease_table_available(table), &lease->resources))
        snprintf(text, size, "needs a worker, all %zu that the node may have are in use",
                 max_workers);
    else
        snprintf(text, size, "needs %s, all in use",
                 crti_resources_format(&lease->resources, all, sizeof(all)));
}
