/* SPDX-License-Identifier: Apache-2.0 */
/* Views: what each node has heard of the others, and when it hears the rest.
 *
 * Where it sits
 *     control_node.c, control_drain.c, placement (what changes) -> [ control/control_views.c ]
 *         -> NODE_VIEWS to the nodes (node/dispatch/node_news.c)
 * How
 *     Every change of a node has a version, counted up, and moves the node to the end of the list
 *     of changes. A listener knows up to which version it was told. So what it lacks is the end of
 *     the list, the same bytes for all that were told as much, whether that is one change, all of a
 *     storm, or (told nothing yet: it has just registered) the whole cluster. What a link loses is
 *     told again behind the next registration; a listener that reads slowly is passed over and
 *     misses nothing.
 * Cost
 *     Everyone hears of everyone: n * n rows in a cluster of n that starts. The head gives that a
 *     part of its time, counted in what messages, rows and bytes cost about: it tells in slices,
 *     with pauses of a multiple of their cost. A small cluster never notices; in a large one more
 *     changes are gathered in a message.
 */
#ifndef CRTI_CONTROL_VIEWS_H
#define CRTI_CONTROL_VIEWS_H

#include <stdint.h>

#include "runtime/base/buffer.h"
#include "runtime/base/list.h"

/* Of one node. */
typedef struct crti_news {
    uint64_t whole,
        room;      /* versions in which all of it, and what it has free, changed last */
    uint64_t told; /* the node itself has heard of all changes up to that */
    crti_list_t in_changes, in_listeners;
    /* the NODE_VIEW as a list entry, made when it is needed; else empty */
    crti_buffer_t row;
} crti_news_t;

typedef struct crti_views {
    uint64_t version;
    crti_list_t changes;   /* nodes that others may hear of, the latest change last */
    crti_list_t listeners; /* nodes with a link, those whose turn is next first */
    size_t listener_count;
    uint64_t due_ns;  /* of the next slice; UINT64_MAX: all have heard everything */
    uint64_t paid_ns; /* until when the slices so far take the share of time they have */
} crti_views_t;

void crti_views_init(crti_views_t *views);
void crti_news_init(crti_news_t *news);
void crti_news_fini(crti_news_t *news);

#endif
