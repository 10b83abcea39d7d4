/* SPDX-License-Identifier: Apache-2.0 */
/* Pack until half full, then spread. See placement.h. */
#include "runtime/control/placement/placement.h"

#include <stdio.h>

#define HALF 500 /* of 1000: up to there a node counts as empty */

/* What is looked for, and what was found. */
typedef struct search {
    const crti_placement_index_t *index;
    const crti_resources_t *need;
    const crti_scheduling_t *how;
    unsigned alternative;
    int64_t amount[CRTI_PLACEMENT_NAMES]; /* `need` of what summaries tell of */
    uint64_t marks[CRTI_PLACEMENT_MARKS]; /* that its node has */
    const crti_placement_node_t *best;    /* NULL: none yet */
    int64_t score;                        /* of it */
    bool is_preferred;                    /* it wins among those that are as full */
} search_t;

/* ---------------------------------------------------------------- one node */

/* How full the node is with the new actor, 0..1000; the fullest resource counts. */
static int64_t fullness(const crti_placement_node_t *node, const crti_resources_t *need)
{
    int64_t worst = 0;

    for (unsigned i = 0; i < node->total->count; i++) {
        const char *name = node->total->item[i].name;
        int64_t part;

        if (node->total->item[i].amount <= 0)
            continue;
        part = crti_resources_part_in_use(node->total, node->available, need, name, 1000);
        worst = part > worst ? part : worst;
    }
    if (need->count == 0) {
        int64_t part = crti_placement_idle_part(node);

        worst = part > worst ? part : worst;
    }
    return worst;
}

static int64_t score_of(const search_t *s, int64_t fullness)
{
    return fullness <= HALF && s->how->strategy != CRTI_STRATEGY_SPREAD ? 0 : fullness;
}

static void consider(search_t *s, const crti_placement_node_t *node, bool is_preferred)
{
    int64_t score;

    if (!crti_resources_fit(node->available, s->need) ||
        !crti_scheduling_allows(s->how, s->alternative, node->node, node->labels))
        return;
    score = score_of(s, fullness(node, s->need));
    if (s->best && (score > s->score ||
                    (score == s->score &&
                     (s->is_preferred || !crti_id_less(node->node, s->best->node)))))
        return;
    s->best = node;
    s->score = score;
    s->is_preferred = is_preferred;
}

/* ---------------------------------------------------------------- all nodes */

/* No node is less full in that resource: exact where all have as much of it. */
static int64_t least_part(const struct crti_placement_bound *bound, int64_t amount)
{
    int64_t a, b;

    if (amount == 0)
        return bound->least_part;
    a = crti_resource_part_in_use(bound->least, bound->most_free, amount, 1000);
    if (bound->least == bound->most)
        return a;
    b = bound->least_part +
        crti_resource_part_in_use(bound->most, bound->most, amount, 1000);
    a = (a > b ? a : b) - 1; /* what rounding may have added */
    return a > 0 ? a : 0;
}

/* No node of the summary has a smaller score; INT64_MAX: none will do. */
static int64_t least_score(const search_t *s, const crti_placement_summary_t *all)
{
    int64_t worst = s->need->count ? 0 : all->least_idle;

    for (unsigned i = 0; i < CRTI_PLACEMENT_MARKS; i++)
        if (s->marks[i] & ~all->marks[i])
            return INT64_MAX;
    for (unsigned i = 0; i < s->index->name_count; i++) {
        int64_t part;

        if (s->amount[i] > 0 && s->amount[i] > all->of[i].most_free)
            return INT64_MAX;
        part = all->of[i].most ? least_part(&all->of[i], s->amount[i]) : 0;
        worst = part > worst ? part : worst;
    }
    return score_of(s, worst);
}

/* Whether there may be a better one below the slot, where ids are larger than that of `before`. */
static bool may_win(const search_t *s, const crti_placement_slot_t *slot,
                    const crti_placement_slot_t *before)
{
    int64_t score = slot ? least_score(s, &slot->all) : INT64_MAX;

    if (score == INT64_MAX || s->best == NULL)
        return score != INT64_MAX;
    return score < s->score ||
           (score == s->score && !s->is_preferred &&
            (before == NULL || crti_id_less(before->node.node, s->best->node)));
}

static int64_t promise_of(const search_t *s, const crti_placement_slot_t *slot)
{
    return slot ? least_score(s, &slot->all) : INT64_MAX;
}

/* The side that promises more first, so that the other one is left out more often. */
static void look_below(search_t *s, const crti_placement_slot_t *slot,
                       const crti_placement_slot_t *before)
{
    bool is_right_first;

    if (!may_win(s, slot, before))
        return;
    is_right_first = promise_of(s, slot->right) < promise_of(s, slot->left);
    look_below(s, is_right_first ? slot->right : slot->left,
               is_right_first ? slot : before);
    consider(s, &slot->node, false);
    look_below(s, is_right_first ? slot->left : slot->right,
               is_right_first ? before : slot);
}

static search_t make_search(const crti_placement_index_t *index,
                            const crti_resources_t *need, const crti_scheduling_t *how,
                            unsigned alternative)
{
    search_t s = {.index = index, .need = need, .how = how, .alternative = alternative};

    for (unsigned i = 0; i < need->count; i++) {
        int at = crti_placement_index_name(index, need->item[i].name);

        if (at >= 0)
            s.amount[at] = need->item[i].amount;
        else if (need->item[i].amount > 0)
            crti_placement_mark_name(s.marks, need->item[i].name);
    }
    if (how->selector[0])
        crti_selector_walk(how->selector, alternative, crti_placement_mark_label,
                           s.marks);
    return s;
}

static const crti_placement_node_t *pick_by(search_t *s, crti_id_t prefer)
{
    const crti_placement_slot_t *slot;

    if (s->how->strategy == CRTI_STRATEGY_AFFINITY) {
        slot = crti_placement_index_find(s->index, s->how->node);
        if (slot)
            consider(s, &slot->node, true);
        return s->best;
    }
    slot = s->how->strategy == CRTI_STRATEGY_SPREAD
               ? NULL
               : crti_placement_index_find(s->index, prefer);
    if (slot)
        consider(s, &slot->node, true);
    look_below(s, s->index->root, NULL);
    return s->best;
}

/* Its node is gone, or lacks what is needed. */
static bool is_affinity_void(const crti_placement_index_t *index,
                             const crti_resources_t *need, const crti_scheduling_t *how)
{
    const crti_placement_slot_t *slot = crti_placement_index_find(index, how->node);

    return slot == NULL || !crti_resources_fit(slot->node.total, need);
}

const crti_placement_node_t *crti_placement_pick(const crti_placement_index_t *index,
                                                 const crti_resources_t *need,
                                                 crti_id_t prefer,
                                                 const crti_scheduling_t *how)
{
    crti_scheduling_t any;
    unsigned alternatives = crti_scheduling_alternatives(how);
    const crti_placement_node_t *best = NULL;

    if (how->strategy == CRTI_STRATEGY_AFFINITY && how->is_soft &&
        is_affinity_void(index, need, how)) {
        any = *how;
        any.strategy = CRTI_STRATEGY_DEFAULT;
        how = &any;
    }
    for (unsigned i = 0; best == NULL && i < alternatives; i++) {
        search_t s = make_search(index, need, how, i);

        best = pick_by(&s, prefer);
    }
    return best;
}

/* ---------------------------------------------------------------- why not */

/* "needs 3 CPU, the cluster has 2" for one name; false when that name is no obstacle. */
static bool scarce(const crti_placement_index_t *index, const struct crti_resource *need,
                   const crti_resource_names_t *names, char *text, size_t size)
{
    crti_placement_survey_t all = crti_placement_index_survey(index, need->name);
    double unit = CRTI_RESOURCE_ONE;
    char hint[120];

    if (all.most_free >= need->amount)
        return false;
    if (all.sum < need->amount)
        snprintf(text, size, "needs %.10g %s, the cluster has %.10g%s",
                 (double)need->amount / unit, need->name, (double)all.sum / unit,
                 crti_resource_names_hint(names, need->name, hint, sizeof(hint)));
    else if (all.largest < need->amount)
        snprintf(text, size, "needs %.10g %s on one node, the largest has %.10g",
                 (double)need->amount / unit, need->name, (double)all.largest / unit);
    else
        snprintf(text, size, "needs %.10g %s, at most %.10g of %.10g are free on a node",
                 (double)need->amount / unit, need->name,
                 (double)(all.most_free > 0 ? all.most_free : 0) / unit,
                 (double)all.largest / unit);
    return true;
}

const char *crti_placement_reason(const crti_placement_index_t *index,
                                  const crti_resources_t *need,
                                  const crti_scheduling_t *how,
                                  const crti_resource_names_t *names, char *text,
                                  size_t size)
{
    char what[200], where[100];

    if (index->count == 0) {
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
        if (scarce(index, &need->item[i], names, text, size))
            return text;
    crti_resources_format(need, what, sizeof(what));
    if (crti_scheduling_is_any(how))
        snprintf(text, size, "needs %s, no node has all of it free", what);
    else
        snprintf(text, size, "needs %s on %s, no such node has that free", what,
                 crti_scheduling_format(how, where, sizeof(where)));
    return text;
}
