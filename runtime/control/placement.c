/* SPDX-License-Identifier: Apache-2.0 */
/* Pack until half full, then spread. See placement.h. */
#include "runtime/control/placement.h"

#include <stdio.h>

/* How full the node is with the new actor, 0..1000; the fullest resource counts. */
static int64_t fullness(const crti_placement_node_t *node, const crti_resources_t *need)
{
    int64_t cpus = crti_resources_get(node->total, "CPU");
    int64_t worst = 0;

    if (cpus < CRTI_RESOURCE_ONE)
        cpus = CRTI_RESOURCE_ONE;
    for (unsigned i = 0; i < node->total->count; i++) {
        const char *name = node->total->item[i].name;
        int64_t part;

        if (node->total->item[i].amount <= 0)
            continue;
        part = crti_resources_part_in_use(node->total, node->available, need, name, 1000);
        worst = part > worst ? part : worst;
    }
    if (need->count == 0) {
        int64_t part = (int64_t)(node->idle_actors + 1) * CRTI_RESOURCE_ONE * 1000 / cpus;

        worst = part > worst ? part : worst;
    }
    return worst;
}

/* It wins among those that are as full. */
static bool is_first(const crti_placement_node_t *node,
                     const crti_placement_node_t *other, crti_id_t prefer)
{
    if (crti_id_equal(node->node, prefer) || crti_id_equal(other->node, prefer))
        return crti_id_equal(node->node, prefer);
    return crti_id_less(node->node, other->node);
}

static int pick_by(const crti_placement_node_t *nodes, size_t count,
                   const crti_resources_t *need, crti_id_t prefer,
                   const crti_scheduling_t *how, unsigned alternative)
{
    bool spreads = how->strategy == CRTI_STRATEGY_SPREAD;
    int64_t best_score = 0;
    int best = -1;

    if (spreads)
        prefer = (crti_id_t){0};
    for (size_t i = 0; i < count; i++) {
        int64_t score;

        if (!crti_resources_fit(nodes[i].available, need) ||
            !crti_scheduling_allows(how, alternative, nodes[i].node, nodes[i].labels))
            continue;
        score = fullness(&nodes[i], need);
        score = score <= 500 && !spreads ? 0 : score;
        if (best >= 0 &&
            (score > best_score ||
             (score == best_score && !is_first(&nodes[i], &nodes[best], prefer))))
            continue;
        best = (int)i;
        best_score = score;
    }
    return best;
}

/* Its node is gone, or lacks what is needed. */
static bool is_affinity_void(const crti_placement_node_t *nodes, size_t count,
                             const crti_resources_t *need, const crti_scheduling_t *how)
{
    for (size_t i = 0; i < count; i++)
        if (crti_id_equal(nodes[i].node, how->node) &&
            crti_resources_fit(nodes[i].total, need))
            return false;
    return true;
}

int crti_placement_pick(const crti_placement_node_t *nodes, size_t count,
                        const crti_resources_t *need, crti_id_t prefer,
                        const crti_scheduling_t *how)
{
    crti_scheduling_t any;
    unsigned alternatives = crti_scheduling_alternatives(how);
    int best = -1;

    if (how->strategy == CRTI_STRATEGY_AFFINITY && how->is_soft &&
        is_affinity_void(nodes, count, need, how)) {
        any = *how;
        any.strategy = CRTI_STRATEGY_DEFAULT;
        how = &any;
    }
    for (unsigned i = 0; best < 0 && i < alternatives; i++)
        best = pick_by(nodes, count, need, prefer, how, i);
    return best;
}

/* "needs 3 CPU, the cluster has 2" for one name; false when that name is no obstacle. */
static bool scarce(const crti_placement_node_t *nodes, size_t count,
                   const struct crti_resource *need, const crti_resource_names_t *names,
                   char *text, size_t size)
{
    char hint[120];
    int64_t sum = 0, largest = 0, free_most = 0;
    double unit = CRTI_RESOURCE_ONE;

    for (size_t i = 0; i < count; i++) {
        int64_t total = crti_resources_get(nodes[i].total, need->name);
        int64_t available = crti_resources_get(nodes[i].available, need->name);

        if (__builtin_add_overflow(sum, total, &sum))
            sum = INT64_MAX;
        largest = total > largest ? total : largest;
        free_most = available > free_most ? available : free_most;
    }
    if (free_most >= need->amount)
        return false;
    if (sum < need->amount)
        snprintf(text, size, "needs %.10g %s, the cluster has %.10g%s",
                 (double)need->amount / unit, need->name, (double)sum / unit,
                 crti_resource_names_hint(names, need->name, hint, sizeof(hint)));
    else if (largest < need->amount)
        snprintf(text, size, "needs %.10g %s on one node, the largest has %.10g",
                 (double)need->amount / unit, need->name, (double)largest / unit);
    else
        snprintf(text, size, "needs %.10g %s, at most %.10g of %.10g are free on a node",
                 (double)need->amount / unit, need->name,
                 (double)(free_most > 0 ? free_most : 0) / unit, (double)largest / unit);
    return true;
}

const char *crti_placement_reason(const crti_placement_node_t *nodes, size_t count,
                                  const crti_resources_t *need,
                                  const crti_scheduling_t *how,
                                  const crti_resource_names_t *names, char *text,
                                  size_t size)
{
    char what[200], where[100];

    if (count == 0) {
        snprintf(text, size, "the cluster has no node");
        return text;
    }
    if (!crti_id_is_zero(how->group)) {
        crti_resources_format(need, what, sizeof(what));
        snprintf(text, size, "needs %s of %s, in which that is not free", what,
                 crti_scheduling_format(how, where, sizeof(where)));
        return text;
    }
    for (unsigned i = 0; i < need->count; i++)
        if (scarce(nodes, count, &need->item[i], names, text, size))
            return text;
    crti_resources_format(need, what, sizeof(what));
    if (crti_scheduling_is_any(how))
        snprintf(text, size, "needs %s, no node has all of it free", what);
    else
        snprintf(text, size, "needs %s on %s, no such node has that free", what,
                 crti_scheduling_format(how, where, sizeof(where)));
    return text;
}
