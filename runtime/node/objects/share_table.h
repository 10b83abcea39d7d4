/* SPDX-License-Identifier: Apache-2.0 */
/* Share table: who is given objects of this node, so that a node that many want something from is
 * not asked by all of them. Pure: events in, actions out.
 *
 * Where it sits
 *     node/objects/transfer.c (OBJECT_GET of other nodes, parts that came here)
 *         -> [ node/objects/share_table.c ] -> actions
 * Rules
 *     Nodes that want an object at the same time form a line: the first is given it from here, each
 *     further one is sent on to the one before it, which gives away what it has received, part by
 *     part as it comes. So each link carries the object once, and the last node has it a few parts
 *     later than the first. A line longer than the object has parts would be slower than a tree:
 *     from then on each node of it is asked by a second one. A node that was sent here takes
 *     CRTI_SHARE_CHILDREN askers and sends others on to them. Who asks `direct` (it was sent on,
 *     and that node failed) is given what is here, at once. A question for a part that is still on
 *     its way waits for it. Objects of less than CRTI_SHARE_PARTS parts go to everybody from here.
 * Ownership
 *     The table owns what it knows. Actions must be carried out in order.
 * Invariants
 *     Every question gets exactly one action, unless its link closed. No node is sent on to itself.
 *     Nothing is kept of an object that nobody is given and nobody waits for.
 */
#ifndef CRTI_NODE_SHARE_TABLE_H
#define CRTI_NODE_SHARE_TABLE_H

#include "runtime/base/cleanup.h"
#include "runtime/base/crt_base.h"
#include "runtime/base/id.h"

#define CRTI_SHARE_PARTS    4u    /* an object of less is not worth a line */
#define CRTI_SHARE_CHILDREN 2u    /* of a node that others were sent on to */
#define CRTI_SHARE_HOPS     16u   /* who was sent on so often is taken */
#define CRTI_SHARE_WAITS    1024u /* questions of one node that wait for parts */

/* What this node has of the part that is asked for. */
typedef enum crti_share_have {
    CRTI_SHARE_LACKS,  /* nothing, and it does not come here */
    CRTI_SHARE_COMING, /* not yet */
    CRTI_SHARE_HAS
} crti_share_have_t;

typedef enum crti_share_verb {
    CRTI_SHARE_SEND,      /* `length` bytes at `offset` */
    CRTI_SHARE_ELSEWHERE, /* tell it to ask `node` */
    CRTI_SHARE_REFUSE     /* tell it `text` */
} crti_share_verb_t;

/* `link` names the connection that it came by, `request` its number there. */
typedef struct crti_share_question {
    crti_object_id_t object;
    crti_id_t node;
    uint64_t link, request;
    uint64_t offset, length;
    uint64_t hops; /* how often it was sent on */
    bool direct;
} crti_share_question_t;

typedef struct crti_share_action {
    crti_share_verb_t verb;
    crti_share_question_t question;
    crti_id_t node;   /* ELSEWHERE */
    const char *text; /* REFUSE; lives as long as the program */
} crti_share_action_t;

typedef struct crti_share_table crti_share_table_t;

/* Caller owns the result and frees it with crti_share_table_free. */
crt_status_t crti_share_table_new(crti_share_table_t **table_out);
void crti_share_table_free(crti_share_table_t *table);
CRTI_DEFINE_AUTO(crti_share_table_t *, crti_share_table_free)

bool crti_share_table_action(crti_share_table_t *table, crti_share_action_t *action_out);

size_t crti_share_table_count(const crti_share_table_t *table); /* objects */
size_t crti_share_table_waits(const crti_share_table_t *table); /* questions */

/* ---------------------------------------------------------------- events */

/* `parts`: of the whole object. */
void crti_share_table_asked(crti_share_table_t *table,
                            const crti_share_question_t *question, crti_share_have_t have,
                            uint64_t parts);

/* A part of an object on its way here came. */
void crti_share_table_part(crti_share_table_t *table, crti_object_id_t object,
                           uint64_t offset);

/* The object will not come here. */
void crti_share_table_gone(crti_share_table_t *table, crti_object_id_t object);

/* The node asks here for the object no more: it has it, or asks another. */
void crti_share_table_left(crti_share_table_t *table, crti_object_id_t object,
                           crti_id_t node);

void crti_share_table_link_closed(crti_share_table_t *table, uint64_t link);
void crti_share_table_node_lost(crti_share_table_t *table, crti_id_t node);

#endif
