/* SPDX-License-Identifier: Apache-2.0 */
/* Scheduling: on which nodes a task or an actor may run, by the node's id and its labels, or in
 * which bundle of a placement group. Pure.
 *
 * Labels
 *     "key=value,key=value": letters, digits and . _ - / in both, each key once.
 * Selectors
 *     "key=value,key=!value,key=in(a,b),key=!in(a,b)": all must hold; a key that a node lacks
 *     differs from every value. Alternatives are separated by ';' and tried in order; an empty one,
 *     or "*", is any node. The key CRTI_NODE_LABEL is the node's id, unless the node has a label of
 *     that name.
 */
#ifndef CRTI_BASE_SCHEDULING_H
#define CRTI_BASE_SCHEDULING_H

#include "runtime/base/crt_base.h"
#include "runtime/base/id.h"
#include "runtime/base/resources.h"

#define CRTI_LABELS_SIZE  512 /* bytes of labels or a selector with the final zero */
#define CRTI_ALTERNATIVES 8   /* of a selector, at most */

#define CRTI_NODE_LABEL "ray.io/node-id"

#define CRTI_STRATEGY_DEFAULT                                                            \
    0 /* where arguments are, then pack until half full, then spread */
#define CRTI_STRATEGY_SPREAD   1 /* one node after the other */
#define CRTI_STRATEGY_AFFINITY 2 /* on `node` */
#define CRTI_STRATEGIES        3

typedef struct crti_scheduling {
    uint64_t strategy;
    crti_id_t node;
    /* AFFINITY: anywhere when the node is gone, or has not what is needed */
    bool is_soft;
    crti_id_t group; /* placement group; zero: none */
    int64_t bundle;  /* of it, -1: any */
    char selector[CRTI_LABELS_SIZE];
} crti_scheduling_t;

/* The fields of a message, CRTI_SCHEDULING, and what they say but for the selector. */
#define CRTI_SCHEDULING_FIELDS(how)                                                      \
    .strategy = (how)->strategy, .affinity = (how)->node, .is_soft = (how)->is_soft,     \
    .group = (how)->group, .bundle = (how)->bundle,                                      \
    .selector = crti_str((how)->selector)
#define CRTI_SCHEDULING_SAID(m)                                                          \
    (&(crti_scheduling_t){.strategy = (m)->strategy,                                     \
                          .node = (m)->affinity,                                         \
                          .is_soft = (m)->is_soft,                                       \
                          .group = (m)->group,                                           \
                          .bundle = (m)->bundle})

extern const crti_scheduling_t crti_scheduling_default;

/* CRT_ERR_INVALID naming what is wrong. */
crt_status_t crti_labels_check(const char *labels);
crt_status_t crti_selector_check(const char *selector);
crt_status_t crti_scheduling_check(const crti_scheduling_t *how);
/* From the fields of a message, CRTI_SCHEDULING, which may be any. */
crt_status_t crti_scheduling_read(const crti_scheduling_t *said, const void *selector,
                                  size_t size, crti_scheduling_t *how_out);

bool crti_scheduling_equal(const crti_scheduling_t *a, const crti_scheduling_t *b);
/* Whether it says nothing: every node will do. */
bool crti_scheduling_is_any(const crti_scheduling_t *how);
/* Any node but that one comes first, by the same alternatives; then they as they are. False: it
 * says too much already, and is as it was. */
bool crti_scheduling_avoid(crti_scheduling_t *how, crti_id_t node);
/* How many alternatives there are, at least 1. */
unsigned crti_scheduling_alternatives(const crti_scheduling_t *how);
/* Whether it may run on that node, by one of its alternatives. */
bool crti_scheduling_allows(const crti_scheduling_t *how, unsigned alternative,
                            crti_id_t node, const char *labels);

/* A label; neither text is ended by a zero. */
typedef void crti_label_t(void *user, const char *key, size_t key_size, const char *value,
                          size_t value_size);
/* Every label of a node. */
void crti_labels_walk(const char *labels, crti_label_t *on_label, void *user);
/* The labels without which no node is allowed by that alternative. A condition that several labels
 * fulfil, or the lack of one, names none. */
void crti_selector_walk(const char *selector, unsigned alternative,
                        crti_label_t *on_label, void *user);

/* Whether a node that has so much in all could run it, by any alternative. */
bool crti_scheduling_feasible(const crti_resources_t *has, crti_id_t node,
                              const char *labels, const crti_resources_t *resources,
                              const crti_scheduling_t *how);

/* What it asks for: "node 0123abcd", "a node with zone=a", "bundle 1 of placement group 0123abcd".
 * Returns `text`. */
const char *crti_scheduling_format(const crti_scheduling_t *how, char *text, size_t size);

#endif
