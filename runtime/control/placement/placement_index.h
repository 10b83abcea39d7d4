/* SPDX-License-Identifier: Apache-2.0 */
/* Placement index: the nodes that may be given work, so that the best one is found without a look
 * at each. Pure.
 *
 * Where it sits
 *     control/tables/node_table.c (what nodes have) -> [ control/placement/placement_index.c ] ->
 *     placement.c (policy)
 * How
 *     A tree in the order of ids (a treap: balanced by a number that follows from the id). Each
 *     slot has a summary of its node and one of all below it: for each resource the most that is
 *     free, the smallest part in use and so on, and marks of what few nodes have. A search leaves
 *     out what is below a slot when its summary says that nothing there is good enough. Summaries
 *     are bounds: what they let pass is looked at exactly, so that the result is that of a walk
 *     over all nodes.
 * Cost
 *     A change, and a search in a cluster whose nodes are alike: the depth of the tree. A search
 *     for two resources of which many nodes have one free, and few both, may look at many.
 * Ownership
 *     Slots are members of the users' structs, zero-initialised, and are removed before their
 *     memory goes; the index allocates nothing.
 */
#ifndef CRTI_CONTROL_PLACEMENT_INDEX_H
#define CRTI_CONTROL_PLACEMENT_INDEX_H

#include <stddef.h>

#include "runtime/base/id.h"
#include "runtime/base/resources.h"

#define CRTI_PLACEMENT_NAMES                                                             \
    8 /* resources that summaries tell of, of those that nodes share */
#define CRTI_PLACEMENT_MARKS 4 /* words of marks */

/* What placement knows of a node; borrows from its owner, who tells of each change. */
typedef struct crti_placement_node {
    crti_id_t node;
    const char *labels;
    const crti_resources_t *total, *available;
    unsigned idle_actors; /* actors there that hold nothing */
} crti_placement_node_t;

typedef struct crti_placement_summary {
    struct crti_placement_bound {
        int64_t most_free;
        int64_t most, least; /* in all, of nodes that have it; most 0: none has */
        int64_t least_part;  /* in use, 0..1000; 0 when a node has none */
        int64_t sum;         /* of all, at most INT64_MAX */
    } of[CRTI_PLACEMENT_NAMES];
    int64_t least_idle; /* part that idle actors and one more would count */
    uint64_t marks[CRTI_PLACEMENT_MARKS]; /* hashes of labels and names that a node has */
} crti_placement_summary_t;

typedef struct crti_placement_slot {
    crti_placement_node_t node;
    bool is_in;
    crti_placement_summary_t own, all; /* all: with what is below */
    struct crti_placement_slot *left, *right, *parent;
    uint64_t priority;
} crti_placement_slot_t;

typedef struct crti_placement_index {
    crti_placement_slot_t *root;
    size_t count;
    char names[CRTI_PLACEMENT_NAMES][CRTI_RESOURCE_NAME];
    unsigned name_count;
} crti_placement_index_t;

/* Puts the node in, or tells what has changed of one that is in. */
void crti_placement_index_set(crti_placement_index_t *index, crti_placement_slot_t *slot,
                              const crti_placement_node_t *node);
/* Nothing happens when it is not in. */
void crti_placement_index_remove(crti_placement_index_t *index,
                                 crti_placement_slot_t *slot);

/* In the order of ids; NULL: the first, and after the last. */
crti_placement_slot_t *crti_placement_index_next(const crti_placement_index_t *index,
                                                 const crti_placement_slot_t *slot);
crti_placement_slot_t *crti_placement_index_find(const crti_placement_index_t *index,
                                                 crti_id_t node);

/* Which of `names` it is; -1: summaries do not tell of it. */
int crti_placement_index_name(const crti_placement_index_t *index, const char *name);

/* What all nodes have of a resource; the sum at most INT64_MAX. */
typedef struct crti_placement_survey {
    int64_t sum, largest, most_free;
} crti_placement_survey_t;
crti_placement_survey_t crti_placement_index_survey(const crti_placement_index_t *index,
                                                    const char *name);

/* Marks that a node has for a label, or a resource that summaries do not tell of. */
void crti_placement_mark_label(void *marks, const char *key, size_t key_size,
                               const char *value, size_t value_size);
void crti_placement_mark_name(uint64_t *marks, const char *name);

/* How far idle actors fill a node with one more, 0..1000 and above. */
int64_t crti_placement_idle_part(const crti_placement_node_t *node);

#endif
