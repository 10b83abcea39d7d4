/* SPDX-License-Identifier: Apache-2.0 */
/* Why a request waits. See lease_reason.h. */
#include "runtime/node/leases/lease_reason.h"

#include <stdio.h>
#include <string.h>

#include "runtime/net/protocol.h"
#include "runtime/node/leases/bundle_table.h"
#include "runtime/node/leases/holdings.h"
#include "runtime/node/leases/lease_table_int.h"

#define HOLDERS 32 /* jobs that are counted */
#define SHOWN   3  /* of them */
#define HELD_BY ", held by"

typedef struct holders {
    unsigned count;
    struct {
        crti_id_t job;
        int64_t amount;
    } item[HOLDERS];
} holders_t;

static void count(holders_t *h, crti_id_t job, int64_t amount)
{
    unsigned at = 0;

    if (amount <= 0)
        return;
    while (at < h->count && !crti_id_equal(h->item[at].job, job))
        at++;
    if (at == HOLDERS)
        return;
    if (at == h->count) {
        h->item[at].job = job;
        h->item[at].amount = 0;
        h->count++;
    }
    h->item[at].amount += amount;
}

/* What each job holds of this node: its leases, without the CPUs of those that wait, its actors,
 * and the bundles of its placement groups. */
static void collect(const crti_lease_table_t *table, const char *name, holders_t *h)
{
    const crti_holding_t *holding;
    const crti_bundle_t *bundle;
    crti_list_t *at = NULL;
    size_t cursor = 0;

    h->count = 0;
    CRTI_MAP_FOREACH (const entry_t, e, &table->leases) {
        const crti_lease_t *lease = &e->lease;

        if (crti_id_is_zero(lease->how.group) &&
            (lease->state == CRTI_LEASE_STARTING || lease->state == CRTI_LEASE_GRANTED) &&
            !(lease->is_blocked && strcmp(name, "CPU") == 0))
            count(h, lease->job, crti_resources_get(&lease->resources, name));
    }
    while ((holding = crti_holdings_next(&table->room.holdings, &cursor)))
        if (holding->bundle == NULL)
            count(h, holding->job, crti_resources_get(&holding->resources, name));
    cursor = 0;
    while ((bundle = crti_bundle_table_next(&table->room.bundles, &cursor, &at)))
        count(h, bundle->job, crti_resources_get(&bundle->resources, name));
}

static unsigned find_largest(const holders_t *h)
{
    unsigned largest = 0;

    for (unsigned i = 1; i < h->count; i++)
        if (h->item[i].amount > h->item[largest].amount ||
            (h->item[i].amount == h->item[largest].amount &&
             crti_id_less(h->item[i].job, h->item[largest].job)))
            largest = i;
    return largest;
}

/* "needs 2 CPU, held by job 0123abcd: 2 CPU". False: nobody holds any. */
static bool tell_holders(const crti_lease_table_t *table,
                         const struct crti_resource *need, char *text, size_t size)
{
    char amount[64], hex[CRTI_ID_HEX];
    holders_t h;
    int used;

    collect(table, need->name, &h);
    if (h.count == 0)
        return false;
    used = snprintf(
        text, size, "needs %s" HELD_BY,
        crti_resources_format_one(need->name, need->amount, amount, sizeof(amount)));
    for (unsigned i = 0; i < SHOWN; i++) {
        unsigned at = find_largest(&h);

        if (h.item[at].amount == 0 || used < 0 || (size_t)used >= size)
            break;
        crti_resources_format_one(need->name, h.item[at].amount, amount, sizeof(amount));
        used += snprintf(text + used, size - (size_t)used, "%s job %.8s: %s",
                         i ? "," : "", crti_id_hex(h.item[at].job, hex), amount);
        h.item[at].amount = 0;
    }
    return true;
}

/* This node could serve it, were it not for those that hold what it needs. */
static bool tell_of_this_node(const crti_lease_table_t *table,
                              const crti_resources_t *need, char *text, size_t size)
{
    const crti_resources_t *available = &table->room.available;

    if (!crti_resources_fit(&table->room.resources, need))
        return false;
    for (unsigned i = 0; i < need->count; i++)
        if (crti_resources_get(available, need->item[i].name) < need->item[i].amount)
            return tell_holders(table, &need->item[i], text, size);
    return false;
}

/* No node has that much of one name. */
static bool tell_lack(const crti_lease_table_t *table, const struct crti_resource *item,
                      char *text, size_t size)
{
    const crti_node_views_t *views = &table->views;
    char need[64], have[64], hint[120] = "";
    int64_t largest, sum;

    largest = sum = crti_resources_get(&table->room.resources, item->name);
    crti_node_views_survey(views, item->name, &largest, &sum);
    if (largest >= item->amount)
        return false;
    crti_resources_format_one(item->name, item->amount, need, sizeof(need));
    if (sum < item->amount) {
        if (sum == 0)
            crti_resource_names_hint(&views->names, item->name, hint, sizeof(hint));
        snprintf(text, size, "needs %s, the cluster has %s%s", need,
                 crti_resources_format_one(item->name, sum, have, sizeof(have)), hint);
        return true;
    }
    snprintf(text, size, "needs %s on one node, the largest has %s", need,
             crti_resources_format_one(item->name, largest, have, sizeof(have)));
    return true;
}

/* "needs 2 CPU on a node with zone=eu, and there is none" */
static void tell_no_such_node(const crti_lease_t *lease, char *text, size_t size)
{
    char need[64], where[80];

    snprintf(text, size, "needs %s on %s, and there is none",
             crti_resources_format(&lease->resources, need, sizeof(need)),
             crti_scheduling_format(&lease->how, where, sizeof(where)));
}

/* "needs 1 CPU of bundle 0 of placement group 0123abcd, nothing is free" */
static void tell_bundle(const crti_lease_table_t *table, const crti_lease_t *lease,
                        char *text, size_t size)
{
    const crti_bundle_t *bundle = crti_bundle_table_get(
        &table->room.bundles, lease->how.group, lease->how.bundle, NULL);
    char need[64], where[80], has[64];

    crti_resources_format(&lease->resources, need, sizeof(need));
    crti_scheduling_format(&lease->how, where, sizeof(where));
    if (bundle)
        snprintf(text, size, "needs %s of %s, %s is free", need, where,
                 crti_resources_format(&bundle->available, has, sizeof(has)));
    else
        snprintf(text, size, "needs %s of %s", need, where);
}

void crti_lease_reason(const crti_lease_table_t *table, const crti_lease_t *lease,
                       char *text, size_t size)
{
    const crti_resources_t *need = &lease->resources;
    char all[120];

    if (!crti_id_is_zero(lease->how.group)) {
        tell_bundle(table, lease, text, size);
        return;
    }
    if (!crti_scheduling_is_any(&lease->how) && !crti_lease_feasible(table, lease)) {
        tell_no_such_node(lease, text, size);
        return;
    }

    for (unsigned i = 0; i < need->count; i++)
        if (tell_lack(table, &need->item[i], text, size))
            return;
    if (!crti_job_shares_allow(&table->shares, lease->job, crti_lease_weight(lease),
                               crti_resources_get(&table->room.resources, "CPU")))
        snprintf(text, size, "needs %s, the job has its %.10g %% of the node's CPUs",
                 crti_resources_format(need, all, sizeof(all)),
                 (double)lease->quota.max_share * 100 / CRTI_JOB_SHARE_ONE);
    else if (crti_resources_fit(&table->room.available, need))
        snprintf(text, size,
                 CRTI_LACKS_WORKER ", all %zu that the node may have are in use",
                 table->max_workers);
    else if (!tell_of_this_node(table, need, text, size))
        snprintf(text, size, "needs %s, all in use",
                 crti_resources_format(need, all, sizeof(all)));
}

/* Up to those who hold it: they change with every turn. */
static size_t lasting(const char *text)
{
    const char *held_by = strstr(text, HELD_BY);

    return held_by ? (size_t)(held_by - text) + strlen(HELD_BY) : strlen(text);
}

bool crti_lease_reason_is_new(const char *text, const char *told)
{
    size_t size = lasting(text);

    return size != lasting(told) || memcmp(text, told, size) != 0;
}
