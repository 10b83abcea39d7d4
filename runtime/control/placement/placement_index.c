/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of nodes and its summaries. See placement_index.h. */
#include "runtime/control/placement/placement_index.h"

#include <string.h>

#include "runtime/base/scheduling.h"

#define MARKS (64 * CRTI_PLACEMENT_MARKS)

typedef crti_placement_slot_t slot_t;
typedef crti_placement_summary_t summary_t;
typedef struct crti_placement_bound bound_t;

/* ---------------------------------------------------------------- marks */

static uint64_t hash(uint64_t seed, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        seed = (seed ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return seed;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static void mark(uint64_t *marks, uint64_t hashed)
{
    uint64_t bit = mix(hashed) % MARKS;

    marks[bit / 64] |= UINT64_C(1) << bit % 64;
}

void crti_placement_mark_label(void *marks, const char *key, size_t key_size,
                               const char *value, size_t value_size)
{
    uint64_t hashed = hash(1, key, key_size);

    mark(marks, hash(hash(hashed, "=", 1), value, value_size));
}

void crti_placement_mark_name(uint64_t *marks, const char *name)
{
    mark(marks, hash(2, name, strlen(name)));
}

/* ---------------------------------------------------------------- names */

int crti_placement_index_name(const crti_placement_index_t *index, const char *name)
{
    for (unsigned i = 0; i < index->name_count; i++)
        if (strcmp(index->names[i], name) == 0)
            return (int)i;
    return -1;
}

/* "node:..." is a name that no two nodes share. */
static void note_names(crti_placement_index_t *index, const crti_resources_t *total)
{
    for (unsigned i = 0; i < total->count; i++) {
        const char *name = total->item[i].name;

        if (index->name_count < CRTI_PLACEMENT_NAMES &&
            strncmp(name, CRTI_RESOURCE_NODE, strlen(CRTI_RESOURCE_NODE)) != 0 &&
            crti_placement_index_name(index, name) < 0)
            memcpy(index->names[index->name_count++], name, CRTI_RESOURCE_NAME);
    }
}

/* ---------------------------------------------------------------- summaries */

int64_t crti_placement_idle_part(const crti_placement_node_t *node)
{
    int64_t cpus = crti_resources_get(node->total, "CPU");

    if (cpus < CRTI_RESOURCE_ONE)
        cpus = CRTI_RESOURCE_ONE;
    return (int64_t)(node->idle_actors + 1) * CRTI_RESOURCE_ONE * 1000 / cpus;
}

static void summarize(const crti_placement_index_t *index, slot_t *slot)
{
    const crti_placement_node_t *node = &slot->node;
    summary_t *own = &slot->own;

    *own = (summary_t){.least_idle = crti_placement_idle_part(node)};
    for (unsigned i = 0; i < index->name_count; i++) {
        int64_t total = crti_resources_get(node->total, index->names[i]);
        int64_t free_now = crti_resources_get(node->available, index->names[i]);

        own->of[i] = (bound_t){.most_free = free_now, .sum = total};
        if (total <= 0)
            continue;
        own->of[i].most = own->of[i].least = total;
        own->of[i].least_part = crti_resource_part_in_use(total, free_now, 0, 1000);
    }
    for (unsigned i = 0; i < node->total->count; i++)
        crti_placement_mark_name(own->marks, node->total->item[i].name);
    crti_labels_walk(node->labels, crti_placement_mark_label, own->marks);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void join_bound(bound_t *bound, const bound_t *other)
{
    if (bound->most == 0 || other->most == 0)
        bound->least = larger(bound->least, other->least);
    else
        bound->least = smaller(bound->least, other->least);
    bound->most = larger(bound->most, other->most);
    bound->most_free = larger(bound->most_free, other->most_free);
    bound->least_part = smaller(bound->least_part, other->least_part);
    if (__builtin_add_overflow(bound->sum, other->sum, &bound->sum))
        bound->sum = INT64_MAX;
}

static void join(const crti_placement_index_t *index, summary_t *all, const slot_t *below)
{
    if (below == NULL)
        return;
    for (unsigned i = 0; i < index->name_count; i++)
        join_bound(&all->of[i], &below->all.of[i]);
    all->least_idle = smaller(all->least_idle, below->all.least_idle);
    for (unsigned i = 0; i < CRTI_PLACEMENT_MARKS; i++)
        all->marks[i] |= below->all.marks[i];
}

static void sum_up(const crti_placement_index_t *index, slot_t *slot)
{
    slot->all = slot->own;
    join(index, &slot->all, slot->left);
    join(index, &slot->all, slot->right);
}

static void sum_up_to_root(const crti_placement_index_t *index, slot_t *slot)
{
    for (; slot; slot = slot->parent)
        sum_up(index, slot);
}

/* ---------------------------------------------------------------- the tree */

/* `by` takes the place of `slot` below its parent. */
static void replace(crti_placement_index_t *index, slot_t *slot, slot_t *by)
{
    if (slot->parent == NULL)
        index->root = by;
    else if (slot->parent->left == slot)
        slot->parent->left = by;
    else
        slot->parent->right = by;
    if (by)
        by->parent = slot->parent;
}

/* The slot changes places with its parent. */
static void rotate(crti_placement_index_t *index, slot_t *slot)
{
    slot_t *parent = slot->parent, *moved;

    replace(index, parent, slot);
    if (parent->left == slot) {
        moved = parent->left = slot->right;
        slot->right = parent;
    } else {
        moved = parent->right = slot->left;
        slot->left = parent;
    }
    if (moved)
        moved->parent = parent;
    parent->parent = slot;
    sum_up(index, parent);
    sum_up(index, slot);
}

static void insert(crti_placement_index_t *index, slot_t *slot)
{
    slot_t **at = &index->root, *parent = NULL;

    while (*at) {
        parent = *at;
        at = crti_id_less(slot->node.node, parent->node.node) ? &parent->left
                                                              : &parent->right;
    }
    *at = slot;
    slot->parent = parent;
    slot->left = slot->right = NULL;
    slot->priority = mix(mix(slot->node.node.high) ^ slot->node.node.low);
    slot->is_in = true;
    index->count++;
    sum_up(index, slot);
    while (slot->parent && slot->parent->priority < slot->priority)
        rotate(index, slot);
}

void crti_placement_index_set(crti_placement_index_t *index, slot_t *slot,
                              const crti_placement_node_t *node)
{
    slot->node = *node;
    note_names(index, node->total);
    summarize(index, slot);
    if (!slot->is_in)
        insert(index, slot);
    sum_up_to_root(index, slot);
}

void crti_placement_index_remove(crti_placement_index_t *index, slot_t *slot)
{
    if (!slot->is_in)
        return;
    while (slot->left && slot->right)
        rotate(index,
               slot->left->priority > slot->right->priority ? slot->left : slot->right);
    replace(index, slot, slot->left ? slot->left : slot->right);
    sum_up_to_root(index, slot->parent);
    index->count--;
    slot->is_in = false;
}

/* ---------------------------------------------------------------- questions */

static slot_t *leftmost(slot_t *slot)
{
    while (slot && slot->left)
        slot = slot->left;
    return slot;
}

slot_t *crti_placement_index_next(const crti_placement_index_t *index, const slot_t *slot)
{
    if (slot == NULL)
        return leftmost(index->root);
    if (slot->right)
        return leftmost(slot->right);
    while (slot->parent && slot->parent->right == slot)
        slot = slot->parent;
    return slot->parent;
}

slot_t *crti_placement_index_find(const crti_placement_index_t *index, crti_id_t node)
{
    slot_t *slot = index->root;

    while (slot && !crti_id_equal(slot->node.node, node))
        slot = crti_id_less(node, slot->node.node) ? slot->left : slot->right;
    return slot;
}

/* Of a name that summaries do not tell of. */
static crti_placement_survey_t walk(const crti_placement_index_t *index, const char *name)
{
    crti_placement_survey_t all = {0};
    slot_t *slot = NULL;

    while ((slot = crti_placement_index_next(index, slot)) != NULL) {
        int64_t total = crti_resources_get(slot->node.total, name);

        if (__builtin_add_overflow(all.sum, total, &all.sum))
            all.sum = INT64_MAX;
        all.largest = larger(all.largest, total);
        all.most_free =
            larger(all.most_free, crti_resources_get(slot->node.available, name));
    }
    return all;
}

crti_placement_survey_t crti_placement_index_survey(const crti_placement_index_t *index,
                                                    const char *name)
{
    int at = crti_placement_index_name(index, name);
    const bound_t *bound = at < 0 || !index->root ? NULL : &index->root->all.of[at];

    if (bound == NULL)
        return walk(index, name);
    return (crti_placement_survey_t){.sum = bound->sum,
                                     .largest = bound->most,
                                     .most_free = larger(bound->most_free, 0)};
}
