/* SPDX-License-Identifier: Apache-2.0 */
/* Pull table: which objects are being brought here, from where, part by part. Pure: events in,
 * actions out.
 *
 * Where it sits
 *     node/objects/transfer.c (PULL of local processes, parts from node links, room in the store)
 *         -> [ node/objects/pull_table.c ] -> actions
 * Rules
 *     One pull per object, however many ask for it. Parts of CRTI_PULL_PART bytes are asked for
 *     in order, at most transfer_parts at once for one object and transfer_window for
 *     all. A source that fails or lacks the object is left out; parts that were under way are
 *     asked for again from the next one. With no source left the pull fails with
 *     CRT_ERR_OBJECT_LOST and says what each source said last.
 *     A source may send this node on to another one that is receiving the object (share_table.h):
 *     that is a source then, too. When one of those fails, the others are asked `direct`: they
 *     give what they have, and send nobody on.
 *     A source of which nothing is heard, or an object that does not come forward for
 *     transfer_timeout (nodes that were sent on might wait for each other), makes the pull go to
 *     another source, if there is one; that one is asked again only when there is no better. While
 *     nothing comes from any source, asked directly, what is under way from there takes nothing of
 *     transfer_window. A full store makes the pull wait for room until ROOM_NS have passed.
 * Ownership
 *     The table owns its pulls. Actions name an object and must be carried out in order.
 * Invariants
 *     Every requester gets exactly one answer. Nothing is asked of a source after it failed.
 *     A source that lives and was asked for an object of CRTI_SHARE_PARTS parts or more is told
 *     when it is asked no more.
 */
#ifndef CRTI_NODE_PULL_TABLE_H
#define CRTI_NODE_PULL_TABLE_H

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/crt_base.h"
#include "runtime/base/id.h"

#define CRTI_PULL_PART    ((uint64_t)1 << 20)
#define CRTI_PULL_SOURCES 16u /* that a request names; more are left out */

/*             room in the store          last part
 *   NEEDS_ROOM ---------------> RUNNING -----------> DONE
 *       |                          |
 *       +--- no room in time ------+--- no source left, owner died, not asked for ---> FAILED
 *
 *  DONE and FAILED are forgotten at once.
 */
typedef enum crti_pull_state {
    CRTI_PULL_NEEDS_ROOM,
    CRTI_PULL_RUNNING,
    CRTI_PULL_DONE,
    CRTI_PULL_FAILED,
    CRTI_PULL_STATES
} crti_pull_state_t;

typedef enum crti_pull_verb {
    CRTI_PULL_MAKE_ROOM, /* create the object: then _room or _no_room */
    CRTI_PULL_ASK,       /* ask `node` for `length` bytes at `offset` */
    CRTI_PULL_LEAVE,     /* tell `node` that it is asked no more */
    CRTI_PULL_SEAL,      /* all is there */
    CRTI_PULL_ABORT,     /* give the room back */
    CRTI_PULL_ANSWER,    /* tell `requester`: status, text */
} crti_pull_verb_t;

/* Who asked: a process of this node and its request number. */
typedef struct crti_pull_requester {
    crti_id_t process;
    uint64_t request;
} crti_pull_requester_t;

typedef struct crti_pull_action {
    crti_pull_verb_t verb;
    crti_object_id_t object;
    uint64_t size;
    crti_id_t node;
    uint64_t offset, length;
    uint64_t hops; /* ASK: how often this node was sent on to get there */
    bool direct;
    uint32_t attempt; /* ASK: of that part; comes back with what becomes of it */
    crti_pull_requester_t requester;
    crt_status_t status;
    char text[256];
} crti_pull_action_t;

typedef struct crti_pull_table crti_pull_table_t;

/* Caller owns the result and frees it with crti_pull_table_free. */
crt_status_t crti_pull_table_new(crti_pull_table_t **table_out);
void crti_pull_table_free(crti_pull_table_t *table);
CRTI_DEFINE_AUTO(crti_pull_table_t *, crti_pull_table_free)

bool crti_pull_table_action(crti_pull_table_t *table, crti_pull_action_t *action_out);

size_t crti_pull_table_count(const crti_pull_table_t *table);
/* Every process that waits for a pull, once for each. */
void crti_pull_table_visit(const crti_pull_table_t *table,
                           void (*on_requester)(void *user, crti_id_t process),
                           void *user);
/* Under way, as transfer_window bounds them: without pulls that hang. */
uint64_t crti_pull_table_bytes(const crti_pull_table_t *table);

/* How far the pull of an object is. */
typedef struct crti_pull_progress {
    uint64_t came;   /* bytes */
    bool needs_room; /* it waits for it */
    crti_id_t from;  /* who is asked */
} crti_pull_progress_t;
/* False: there is none. */
bool crti_pull_table_progress(const crti_pull_table_t *table, crti_object_id_t object,
                              crti_pull_progress_t *progress_out);

/* ---------------------------------------------------------------- events */

/* `nodes` are the sources; they are added to what an older request for the object named.
 * CRT_ERR_INVALID: another size than before. */
crt_status_t crti_pull_table_request(crti_pull_table_t *table, crti_object_id_t object,
                                     uint64_t size, const crti_id_t *nodes,
                                     size_t node_count, crti_pull_requester_t requester,
                                     uint64_t now_ns);

void crti_pull_table_room(crti_pull_table_t *table, crti_object_id_t object);
/* `status` CRT_ERR_STORE_FULL: asked again until ROOM_NS have passed. Others end the pull;
 * CRT_ERR_EXISTS: it came here by another way, which is success. */
void crti_pull_table_no_room(crti_pull_table_t *table, crti_object_id_t object,
                             crt_status_t status, const char *text, uint64_t now_ns);

/* A part is in place, whichever attempt brought it. Unknown objects and parts are ignored. */
void crti_pull_table_part(crti_pull_table_t *table, crti_object_id_t object,
                          uint64_t offset);

/* What `node` said to an attempt for a part; ignored when that part was asked anew meanwhile. */
typedef struct crti_pull_attempt {
    crti_object_id_t object;
    crti_id_t node;
    uint64_t offset;
    uint32_t attempt;
} crti_pull_attempt_t;

/* It can't give the object: it lacks it, or its link broke for this object's parts. */
void crti_pull_table_refused(crti_pull_table_t *table, const crti_pull_attempt_t *attempt,
                             const char *text);

/* It says that `to` is to be asked. Zero: one that can't be; `node` itself is asked again. */
void crti_pull_table_elsewhere(crti_pull_table_t *table,
                               const crti_pull_attempt_t *attempt, crti_id_t to);

/* Nothing was heard of the node for a while, although it was asked. */
void crti_pull_table_silent(crti_pull_table_t *table, crti_id_t node);

/* Is it being brought here, with its memory there? */
bool crti_pull_table_is_coming(const crti_pull_table_t *table, crti_object_id_t object);

/* Can that part be read here? For objects that are being brought here. */
bool crti_pull_table_has(const crti_pull_table_t *table, crti_object_id_t object,
                         uint64_t offset);

/* It can't be received: the host has no memory for it. */
void crti_pull_table_failed(crti_pull_table_t *table, crti_object_id_t object,
                            crt_status_t status, const char *text);

/* Nothing comes from that node any more. */
void crti_pull_table_node_lost(crti_pull_table_t *table, crti_id_t node,
                               const char *text);

/* Pulls of a dead owner's objects fail. */
void crti_pull_table_owner_died(crti_pull_table_t *table, crti_id_t owner);

/* The asking process is gone: it gets no answers; what only it wanted is given up. */
void crti_pull_table_requester_died(crti_pull_table_t *table, crti_id_t process);

/* Time passed: room is asked for again, pulls that stall go on elsewhere. The next tick, UINT64_MAX
 * for none. */
uint64_t crti_pull_table_tick(crti_pull_table_t *table, uint64_t now_ns);

#endif
