/* SPDX-License-Identifier: Apache-2.0 */
/* Bundle placement. See bundle_placement.h. */
#include "runtime/control/placement/bundle_placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/cleanup.h"

typedef struct search {
    const crti_placement_node_t *nodes;
    size_t node_count;
    crti_bundle_choice_t *bundles;
    size_t *order; /* of the bundles that are not fixed: the largest first */
    size_t count;  /* of these */
    uint64_t strategy;
    crti_resources_t *room; /* of each node */
    unsigned *used;         /* bundles of the group on each node */
    size_t fixed;
    unsigned steps;
} search_t;

static bool is_packed(uint64_t strategy)
{
    return strategy == CRTI_PLACEMENT_PACK || strategy == CRTI_PLACEMENT_STRICT_PACK;
}

/* ---------------------------------------------------------------- one bundle */

static bool allows(const crti_placement_node_t *node, const crti_scheduling_t *how)
{
    unsigned alternatives = crti_scheduling_alternatives(how);

    for (unsigned i = 0; i < alternatives; i++)
        if (crti_scheduling_allows(how, i, node->node, node->labels))
            return true;
    return false;
}

/* How full a node would be, 0..1000; the fullest resource counts. */
static int64_t fullness(const search_t *s, size_t node, const crti_resources_t *need)
{
    const crti_resources_t *total = s->nodes[node].total;
    int64_t worst = 0;

    for (unsigned i = 0; i < total->count; i++) {
        int64_t part = total->item[i].amount <= 0
                           ? 0
                           : crti_resources_part_in_use(total, &s->room[node], need,
                                                        total->item[i].name, 1000);

        worst = part > worst ? part : worst;
    }
    return worst;
}

static bool may_take(const search_t *s, size_t node, const crti_bundle_choice_t *bundle,
                     size_t placed)
{
    if (s->strategy == CRTI_PLACEMENT_STRICT_SPREAD && s->used[node])
        return false;
    if (s->strategy == CRTI_PLACEMENT_STRICT_PACK && placed && s->used[node] == 0)
        return false;
    return crti_resources_fit(&s->room[node], bundle->need) &&
           allows(&s->nodes[node], bundle->how);
}

/* The smaller, the better. */
typedef struct rank {
    int64_t group, fullness;
} rank_t;

static rank_t rank_of(const search_t *s, size_t node, const crti_bundle_choice_t *bundle)
{
    int64_t used = s->used[node], full = fullness(s, node, bundle->need);

    return (rank_t){.group = is_packed(s->strategy) ? -used : used,
                    .fullness = s->strategy == CRTI_PLACEMENT_STRICT_PACK ? -full : full};
}

static bool is_better(const search_t *s, rank_t a, size_t at_a, rank_t b, size_t at_b)
{
    if (a.group != b.group)
        return a.group < b.group;
    if (a.fullness != b.fullness)
        return a.fullness < b.fullness;
    return crti_id_less(s->nodes[at_a].node, s->nodes[at_b].node);
}

/* What failed there fails here. */
static bool is_alike(const search_t *s, size_t a, size_t b)
{
    return s->used[a] == s->used[b] && crti_resources_equal(&s->room[a], &s->room[b]) &&
           strcmp(s->nodes[a].labels, s->nodes[b].labels) == 0;
}

/* The best node that was not tried, nor one like it; -1: none. */
static int next_node(const search_t *s, const crti_bundle_choice_t *bundle,
                     const bool *is_tried, size_t placed)
{
    rank_t best_rank = {0};
    int best = -1;

    for (size_t i = 0; i < s->node_count; i++) {
        rank_t rank;
        bool skip = is_tried[i] || !may_take(s, i, bundle, placed);

        for (size_t j = 0; !skip && j < s->node_count; j++)
            skip = is_tried[j] && is_alike(s, i, j);
        if (skip)
            continue;
        rank = rank_of(s, i, bundle);
        if (best >= 0 && !is_better(s, rank, i, best_rank, (size_t)best))
            continue;
        best = (int)i;
        best_rank = rank;
    }
    return best;
}

/* ---------------------------------------------------------------- all of them */

static crti_bundle_search_t place_from(search_t *s, size_t at)
{
    crti_bundle_choice_t *bundle = at < s->count ? &s->bundles[s->order[at]] : NULL;
    crti_bundle_search_t result = CRTI_BUNDLES_IMPOSSIBLE;
    CRTI_AUTO(free) bool *is_tried = NULL;
    int node;

    if (bundle == NULL)
        return CRTI_BUNDLES_FOUND;
    is_tried = calloc(s->node_count, sizeof(*is_tried));
    if (is_tried == NULL)
        return CRTI_BUNDLES_UNKNOWN;
    while ((node = next_node(s, bundle, is_tried, s->fixed + at)) >= 0) {
        if (++s->steps > CRTI_BUNDLE_STEPS)
            return CRTI_BUNDLES_UNKNOWN;
        crti_resources_take(&s->room[node], bundle->need);
        s->used[node]++;
        result = place_from(s, at + 1);
        crti_resources_give(&s->room[node], bundle->need);
        s->used[node]--;
        bundle->node = result == CRTI_BUNDLES_FOUND ? node : -1;
        if (result != CRTI_BUNDLES_IMPOSSIBLE)
            return result;
        is_tried[node] = true;
    }
    return CRTI_BUNDLES_IMPOSSIBLE;
}

/* GPUs are the scarcest, then CPUs, then the rest. */
static bool is_larger(const crti_resources_t *a, const crti_resources_t *b)
{
    static const char *const first[] = {"GPU", "CPU"};
    int64_t of_a = 0, of_b = 0;

    for (size_t i = 0; i < sizeof(first) / sizeof(*first); i++)
        if (crti_resources_get(a, first[i]) != crti_resources_get(b, first[i]))
            return crti_resources_get(a, first[i]) > crti_resources_get(b, first[i]);
    for (unsigned i = 0; i < a->count; i++)
        of_a += a->item[i].amount / 2;
    for (unsigned i = 0; i < b->count; i++)
        of_b += b->item[i].amount / 2;
    return of_a > of_b;
}

static void sort_bundles(search_t *s, size_t bundle_count)
{
    for (size_t i = 0; i < bundle_count; i++) {
        size_t at = s->count;

        if (s->bundles[i].is_fixed)
            continue;
        for (; at && is_larger(s->bundles[i].need, s->bundles[s->order[at - 1]].need);
             at--)
            s->order[at] = s->order[at - 1];
        s->order[at] = i;
        s->count++;
    }
}

crti_bundle_search_t crti_bundle_placement(const crti_placement_node_t *nodes,
                                           size_t node_count,
                                           crti_bundle_choice_t *bundles,
                                           size_t bundle_count, uint64_t strategy,
                                           bool were_idle)
{
    CRTI_AUTO(free) size_t *order = malloc(bundle_count * sizeof(*order));
    CRTI_AUTO(free) crti_resources_t *room = malloc((node_count + 1) * sizeof(*room));
    CRTI_AUTO(free) unsigned *used = calloc(node_count + 1, sizeof(*used));
    search_t s = {.nodes = nodes,
                  .node_count = node_count,
                  .bundles = bundles,
                  .order = order,
                  .strategy = strategy,
                  .room = room,
                  .used = used};

    if (!order || !room || !used)
        return CRTI_BUNDLES_UNKNOWN;
    for (size_t i = 0; i < node_count; i++)
        room[i] = were_idle ? *nodes[i].total : *nodes[i].available;
    for (size_t i = 0; i < bundle_count; i++) {
        if (!bundles[i].is_fixed) {
            bundles[i].node = -1;
            continue;
        }
        s.fixed++;
        if (bundles[i].node < 0)
            continue;
        used[bundles[i].node]++;
        if (were_idle)
            crti_resources_take(&room[bundles[i].node], bundles[i].need);
    }
    sort_bundles(&s, bundle_count);
    return place_from(&s, 0);
}

/* ---------------------------------------------------------------- why not */

static const char *const names_of[CRTI_PLACEMENT_STRATEGIES] = {
    [CRTI_PLACEMENT_PACK] = "PACK",
    [CRTI_PLACEMENT_SPREAD] = "SPREAD",
    [CRTI_PLACEMENT_STRICT_PACK] = "STRICT_PACK",
    [CRTI_PLACEMENT_STRICT_SPREAD] = "STRICT_SPREAD",
};

const char *crti_placement_strategy_name(uint64_t strategy)
{
    return strategy < CRTI_PLACEMENT_STRATEGIES ? names_of[strategy] : "unknown";
}

static int64_t sum_of(const crti_bundle_choice_t *bundles, size_t count, const char *name)
{
    int64_t sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += crti_resources_get(bundles[i].need, name);
    return sum;
}

/* One bundle that no node could serve, were it alone there. */
static const crti_bundle_choice_t *find_misfit(const crti_placement_index_t *index,
                                               const crti_bundle_choice_t *bundles,
                                               size_t bundle_count)
{
    for (size_t i = 0; i < bundle_count; i++) {
        const crti_placement_slot_t *slot = NULL;
        bool fits = false;

        while (!fits && (slot = crti_placement_index_next(index, slot)) != NULL)
            fits = crti_resources_fit(slot->node.total, bundles[i].need) &&
                   allows(&slot->node, bundles[i].how);
        if (!fits)
            return &bundles[i];
    }
    return NULL;
}

/* "its 3 bundles need 3 CPU, the cluster has 2", of all nodes or, on_one, of the largest. False:
 * that is no obstacle. */
static bool tell_sum(const crti_placement_index_t *index,
                     const crti_bundle_choice_t *bundles, size_t bundle_count,
                     const char *name, bool on_one, char *text, size_t size)
{
    crti_placement_survey_t all = crti_placement_index_survey(index, name);
    int64_t need = sum_of(bundles, bundle_count, name),
            has = on_one ? all.largest : all.sum;
    char wants[64], amount[64];

    if (need <= has)
        return false;
    snprintf(text, size, "its %zu bundles need %s%s, %s has %s", bundle_count,
             crti_resources_format_one(name, need, wants, sizeof(wants)),
             on_one ? " on one node" : "", on_one ? "the largest" : "the cluster",
             crti_resources_format_one(name, has, amount, sizeof(amount)));
    return true;
}

const char *crti_bundle_placement_reason(const crti_placement_index_t *index,
                                         const crti_bundle_choice_t *bundles,
                                         size_t bundle_count, uint64_t strategy,
                                         const crti_resource_names_t *names, char *text,
                                         size_t size)
{
    const crti_bundle_choice_t *misfit = find_misfit(index, bundles, bundle_count);
    bool on_one = strategy == CRTI_PLACEMENT_STRICT_PACK;

    if (misfit)
        return crti_placement_reason(index, misfit->need, misfit->how, names, text, size);
    for (size_t i = 0; i < bundle_count; i++)
        for (unsigned j = 0; j < bundles[i].need->count; j++)
            if (tell_sum(index, bundles, bundle_count, bundles[i].need->item[j].name,
                         on_one, text, size))
                return text;
    if (strategy == CRTI_PLACEMENT_STRICT_SPREAD && bundle_count > index->count)
        snprintf(text, size, "its %zu bundles need a node each, the cluster has %zu",
                 bundle_count, index->count);
    else
        snprintf(text, size, "its %zu bundles do not fit on the nodes together (%s)",
                 bundle_count, crti_placement_strategy_name(strategy));
    return text;
}
