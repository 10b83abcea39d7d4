/* SPDX-License-Identifier: Apache-2.0 */
/* Remotes and clients: the processes that this one calls, borrows from or lends to, and those that
 * call it.
 *
 * Where it sits
 *     refs, calls, execution -> [ remotes.c ] -> net (sessions), node_link.c (WATCH)
 * Threads
 *     The core's lock.
 * Ownership
 *     A remote lives while it is used; a client while its session or one of its calls does.
 * States of a remote
 *     no session (peer NULL) -> session -> lost: no session, ... -> dead, which is final
 */
#ifndef CRTI_CORE_PROCESS_REMOTES_H
#define CRTI_CORE_PROCESS_REMOTES_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/buffer.h"
#include "runtime/base/list.h"
#include "runtime/base/map.h"
#include "runtime/core/types.h"
#include "runtime/core/values/numbers.h"
#include "runtime/net/net.h"

/* Another process that we call, borrow from or lend to. Lives while `uses` > 0. */
struct crti_remote {
    crti_address_t address;
    crti_peer_t *peer;     /* the session that we made; NULL: none */
    crti_list_t in_flight; /* crti_pending_t.link: calls that it has to answer */
    /* crti_owner_request_t: what it has to hear, and answer; those that more may join; */
    crti_list_t owner_requests, open_requests;
    crti_list_t gathers;     /* core->refs->gathering: it has some that are sent soon */
    crti_list_t watchers;    /* crti_process_watch_t.link */
    crti_numbers_t borrowed; /* number of an object of it -> crt_ref_t, */
    crti_numbers_t blocks;   /* and those that lie in blocks, refs/borrowed.h; */
    struct crti_ref_block *last_block; /* the last one that was looked for; may be NULL */
    /* crt_ref_t.unasked, and crti_ref_block_t.unasked: in the order in which they came; */
    crti_list_t unasked, unasked_blocks;
    uint32_t uses;
    uint32_t lost_sessions;
    int64_t pid;          /* when its death was told, 0 not known */
    uint64_t carried_out; /* the highest request about our objects, borrowers.c */
    uint64_t copy_query; /* the request of COPY_QUERY that it has not answered, 0: none */
    bool is_watched, is_borrower, is_dead, needs_resend; /* ... to be sent again */
    bool ran_no_call; /* dead, and told so: an actor's, before its create had ended */
    /* Dead: the first record of ours whose task had not begun there; 0: it is not known. */
    uint64_t unbegun;
};

/* Somebody who wants to know when a process ends. A member of the owner's struct. */
typedef struct crti_process_watch {
    crti_list_t link;      /* remote->watchers */
    crti_remote_t *remote; /* used; NULL: not watching, or it has ended */
    /* Called at most once, under the lock, not inside crti_process_watch. `status` is
     * CRT_ERR_ACTOR_DIED, or CRT_ERR_NODE_LOST when its whole node is gone. */
    void (*on_ended)(struct crti_process_watch *watch, crt_status_t status,
                     const char *text);
} crti_process_watch_t;

/* A session that another process made to us: it calls, we answer. */
struct crti_client {
    crti_list_t link; /* core->remotes->clients */
    crti_core_t *core;
    crti_peer_t *peer;
    crti_list_t calls;   /* crt_call_t.of_client: not answered yet, in order */
    crti_list_t blocked; /* crt_call_t.link: behind one whose arguments are not here */
    crti_map_t asked;    /* number of an object -> its question, locating.c */
    crti_list_t answers; /* of these, those that wait for room in its window */
    uint64_t copy_query; /* as of a remote */
    uint32_t refs;
    bool is_lost;
    bool knows_spent; /* was told that no more tasks begin here */
};

struct crti_remotes {
    crti_map_t table;       /* process id -> crti_remote_t; */
    crti_remote_t *last;    /* the last one that was looked for; may be NULL */
    crti_list_t clients;    /* crti_client_t.link */
    size_t next_sweep;      /* so many remotes are made before idle ones are looked for */
    crti_buffer_t draining; /* crti_id_t of nodes */
};

void crti_remotes_init(crti_remotes_t *remotes);
/* At shutdown: their memory. */
void crti_remotes_end(crti_core_t *core);
void crti_remotes_fini(crti_remotes_t *remotes);

/* NULL: there is none. */
crti_remote_t *crti_remote_find(crti_core_t *core, crti_id_t process);
/* Finds or makes; gives a use. The address's ipc is derived when it is empty. */
crt_status_t crti_remote_use(crti_core_t *core, const crti_address_t *address,
                             crti_remote_t **remote_out);
/* PEER fields of a message as an address. */
crti_address_t crti_peer_address(crti_id_t process, uint64_t incarnation, crti_id_t node,
                                 crti_span_t ipc, crti_span_t tcp);
void crti_remote_unuse(crti_core_t *core, crti_remote_t *remote);
/* The session to it, made when there is none. */
crt_status_t crti_remote_connect(crti_core_t *core, crti_remote_t *remote);
/* Asks the node daemon to tell its death. */
void crti_remote_watch(crti_core_t *core, crti_remote_t *remote);
/* Sends a control record (never waits); a failure is the session's loss, told later. */
void crti_remote_send(crti_core_t *core, crti_remote_t *remote,
                      const crti_buffer_t *record);
/* CRT_ERR_BACKPRESSURE with CRTI_SEND_TRY; another failure is the session's loss, too. */
crt_status_t crti_peer_reply(crti_core_t *core, crti_peer_t *peer,
                             const crti_buffer_t *record, unsigned flags);
/* Calls watch->on_ended when the process ends, soon if it has ended already. */
crt_status_t crti_process_watch(crti_core_t *core, const crti_address_t *address,
                                crti_process_watch_t *watch);
void crti_process_unwatch(crti_core_t *core, crti_process_watch_t *watch);
/* It has ended: those that watch it are called. */
void crti_remote_ended(crti_core_t *core, crti_remote_t *remote, crt_status_t status,
                       const char *text);
/* A node is drained, until it has died. False: that was known, or there is no memory for it. */
bool crti_remotes_drain(crti_core_t *core, crti_id_t node);
void crti_remotes_drain_end(crti_core_t *core, crti_id_t node);
bool crti_remotes_is_draining(const crti_core_t *core, crti_id_t node);
/* Who made the session, made when it is not known yet. NULL: out of memory. */
crti_client_t *crti_client_of(crti_core_t *core, crti_peer_t *peer);
crti_client_t *crti_client_ref(crti_client_t *client);
void crti_client_unref(crti_client_t *client);

#endif
