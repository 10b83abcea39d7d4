/* SPDX-License-Identifier: Apache-2.0 */
/* Links: connections of one member to members on other nodes, for the ring backend.
 *
 * Where it sits
 *     the ring backend -> [ links ] -> net/stream (TLS with the cluster's key) -> TCP
 * Threads
 *     Used by the thread that runs the group's operation; it has a loop of its own, which turns
 *     only inside these calls. Bytes that arrive between operations wait in the kernel.
 * Who is let in
 *     The stream proves that the peer has the cluster's key. Its first message names the group,
 *     incarnation and rank it is, with the nonce that this rank has in the roster: anything else
 *     is refused, closed and counted. Two members that dial each other at once keep the
 *     connection that the lower rank made.
 * Failure
 *     on_lost reports a broken link: its waiter knows whether it is needed. A
 *     dial that fails is tried again; a member that refuses connections for REFUSED_NS is lost.
 */
#ifndef CRTI_COLLECTIVE_LINKS_H
#define CRTI_COLLECTIVE_LINKS_H

#include "collective/group.h"
#include "runtime/core/types.h"

typedef struct crti_links crti_links_t;

typedef struct crti_links_handlers {
    void *user;
    /* GROUP_DATA, GROUP_OFFER, GROUP_TAKEN or GROUP_WAITS of a member; as
     * crti_stream_handlers_t. */
    void (*on_message)(void *user, int rank, crti_stream_t *stream,
                       const crti_message_t *message);
    void (*on_payload)(void *user, int rank, void *buffer, size_t size);
    void (*on_up)(void *user, int rank);
    /* Nothing comes from that member any more. `text` describes the event. */
    void (*on_lost)(void *user, int rank, const char *text);
} crti_links_handlers_t;

/* Listens on this node's address, on a free port (of the worker port range, if there is one).
 * `address` gets the address; "" when this process has no way to be reached from other nodes.
 * Called before the group is joined. Caller owns the result and frees it with crti_links_free. */
crt_status_t crti_links_new(crti_links_t **links_out, char address[CRTI_STREAM_ADDRESS]);
/* The same for a place that is not the runtime's. */
crt_status_t crti_links_new_at(const crti_stream_place_t *place, crti_links_t **links_out,
                               char address[CRTI_STREAM_ADDRESS]);
void crti_links_free(crti_links_t *links);

/* Serves this incarnation of the group from now on, until the last detach closes all links. Each
 * attach has its detach; all of one incarnation have the same handlers. */
crt_status_t crti_links_attach(crti_links_t *links, crt_group_t *group,
                               const crti_links_handlers_t *handlers);
void crti_links_detach(crti_links_t *links);

/* The user of the handlers that are attached, NULL when none are. */
void *crti_links_user(const crti_links_t *links);

/* Starts to connect, unless there is a link or one in the making. */
void crti_links_want(crti_links_t *links, int rank);

/* The link's stream; NULL while there is none. Borrowed: valid until the next turn. */
crti_stream_t *crti_links_stream(crti_links_t *links, int rank);

/* NULL, or what was seen when the link was lost. Borrowed: valid until detach. */
const char *crti_links_lost(crti_links_t *links, int rank);
/* It has left in good order. */
bool crti_links_has_left(const crti_links_t *links, int rank);
/* Why there is no link yet, "" when nothing is known. Borrowed likewise. */
const char *crti_links_doubt(crti_links_t *links, int rank);

/* Waits for something to happen, at most until `deadline_ns`, and handles it. Gives the group's
 * failure once it has failed. */
crt_status_t crti_links_turn(crti_links_t *links, uint64_t deadline_ns);

/* A member has given up what runs here. */
bool crti_links_is_aborted(const crti_links_t *links);

/* Everything queued was taken by the system. */
bool crti_links_is_flushed(crti_links_t *links);

/* The group has failed: sends the reason to all linked members, and drops queued messages. After it
 * no handler is called and no memory of the caller is used. Takes CRTI_LINKS_ABORT_NS at most. */
#define CRTI_LINKS_ABORT_NS (300 * CRTI_MS)
void crti_links_abort(crti_links_t *links);

/* Connections that were refused: no members, old incarnations, wrong nonces, no greeting. */
uint64_t crti_links_refused(const crti_links_t *links);

#endif
