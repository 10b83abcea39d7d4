/* SPDX-License-Identifier: Apache-2.0 */
/* Holder: refs, calls and borrowing of one simulated process. What runtime/core's refs.c,
 * contained.c, dispatch.c, deaths.c and the replies of calls do around ownership.h and borrow.h,
 * with the same rules in a few lines, over the sessions of process.h.
 *
 * Where it sits
 *     test_objects.c (what programs do, what must hold) -> [ holder ] -> ownership, borrow
 *         -> process -> session -> network
 * Rules taken from core
 *     An argument is pinned by the caller until the reply, and covered at the callee. A ref that is
 *     kept longer is registered with its owner before the cover ends. A ref in a result was
 *     registered for the caller by the callee: it comes with a token. A value's refs are held by
 *     its owner, and covered at those who read it. What is asked of an owner at a time goes in one
 *     record, here of few refs, so that what is gathered, full and alone are all common.
 * Ownership
 *     A holder's refs, calls and remotes die with its process. `ops` are the scenario's.
 */
#ifndef TESTS_SIM_HOLDER_H
#define TESTS_SIM_HOLDER_H

#include "runtime/core/refs/borrow.h"
#include "runtime/core/refs/ownership.h"
#include "tests/sim/process.h"

#define SIM_REFS    3          /* most refs in a value, a call, a result */
#define SIM_BATCH   2          /* most objects that a BORROW or RELEASE names */
#define SIM_NOWHERE UINT32_MAX /* a process that nobody has to find */

typedef struct sim_holder sim_holder_t;
typedef struct sim_ref sim_ref_t;
typedef struct sim_call sim_call_t;

/* A ref on its way. `is_void`: nobody registered the receiver, since the owner is dead or the
 * giver's own ref was not backed any more; programs don't see it, the checks do. */
typedef struct sim_name {
    crti_object_id_t id;
    uint64_t incarnation, place, is_void;
} sim_name_t;

/* What a process becomes here: somebody to call, to borrow from, to lend to. */
typedef struct sim_remote {
    crti_list_t link;
    crti_id_t id;
    uint64_t incarnation;
    unsigned place;
    sim_peer_t *peer;      /* the session that we made */
    crti_list_t in_flight; /* sim_pending_t */
    crti_list_t borrowing; /* BORROWs that it has to answer; */
    crti_list_t open;      /* and what may be asked with more of it */
    bool is_dead;          /* it was told */
} sim_remote_t;

/* Something that goes on when registrations were answered. */
typedef struct sim_ending {
    unsigned waits;
    void (*on_end)(struct sim_ending *ending);
} sim_ending_t;

typedef enum sim_content { SIM_NONE, SIM_VALUE, SIM_FAILED } sim_content_t;

struct sim_ref {
    crti_list_t link;
    sim_holder_t *holder;
    crti_object_id_t id;
    bool is_owned;
    bool is_void; /* HELD, but nobody registered us */
    union {
        crti_owned_t owned;
        crti_borrow_t borrow;
    };
    sim_remote_t *owner; /* borrowed */
    sim_content_t content;
    crt_status_t status; /* FAILED: why */
    bool is_stored, is_locating, is_pulling;
    uint64_t missed_at, wanted; /* owned, MISSING: since when; names it in an event */
    unsigned gets;              /* of the program, that wait for content; each holds */
    sim_ref_t *inner[SIM_REFS]; /* refs in its value */
    unsigned inner_count;
    bool inner_is_held;
    crti_id_t nodes[4]; /* borrowed: where the owner said copies are */
    unsigned node_count;
    sim_name_t names[SIM_REFS]; /* borrowed: what is in the bytes, once they are here */
    unsigned name_count;
    crti_list_t uncovering; /* endings that wait for its registration */
    sim_ending_t late;      /* its own, while inner refs are being registered */
};

/* A call of this process that was not answered. */
typedef struct sim_pending {
    crti_list_t link;
    uint64_t number;
    sim_ref_t *result; /* held */
    sim_ref_t *pins[SIM_REFS];
    unsigned pin_count;
} sim_pending_t;

/* A call that this process runs. */
struct sim_call {
    crti_list_t link;
    sim_ending_t ending;
    sim_holder_t *holder;
    uint64_t serial; /* names it in events */
    uint64_t number; /* of the caller's result */
    crti_id_t caller;
    unsigned caller_place;
    sim_peer_t *peer; /* NULL: the caller's session is lost */
    sim_ref_t *args[SIM_REFS];
    crti_object_id_t arg_ids[SIM_REFS];
    unsigned arg_count;
    sim_ref_t *results[SIM_REFS]; /* held until the reply */
    bool is_void[SIM_REFS];
    unsigned result_count;
    bool is_ending, is_failed, is_stored;
};

typedef struct sim_holder_ops {
    void (*on_call)(sim_holder_t *h, sim_call_t *call);
    /* Content came, or failed; gets are counted down after it. */
    void (*on_content)(sim_holder_t *h, sim_ref_t *ref, crt_status_t status);
    void (*on_free)(sim_holder_t *h, sim_ref_t *ref);
    /* Tell `h` when that process dies; at once when it is dead. */
    void (*watch)(sim_holder_t *h, crti_id_t process);
    /* A registration for another one was made at the owner; the token has arrived there. */
    void (*on_grant)(sim_holder_t *owner, sim_ref_t *ref, crti_id_t to, crti_id_t via);
    void (*on_token)(sim_holder_t *h, sim_ref_t *ref, crti_id_t via);
    /* Bytes: is it here; bring it here, then sim_holder_pulled; it is here now; free it there. */
    bool (*has)(sim_holder_t *h, crti_object_id_t object);
    void (*pull)(sim_holder_t *h, sim_ref_t *ref);
    void (*store)(sim_holder_t *h, crti_object_id_t object);
    void (*unstore)(sim_holder_t *h, crti_object_id_t object, crti_id_t node);
    crti_id_t (*node_id)(sim_holder_t *h);
    /* The owner is told of a copy here; an owner gives an object up. */
    void (*on_copy)(sim_holder_t *h, crti_object_id_t object);
    void (*on_lost)(sim_holder_t *h, sim_ref_t *ref);
    /* Somebody has died: refs may be that nothing backs. */
    bool (*may_lose)(sim_holder_t *h);
    uint64_t (*serial)(sim_holder_t *h);
} sim_holder_ops_t;

struct sim_holder {
    sim_process_t process; /* first: a process is its holder */
    const sim_holder_ops_t *ops;
    crti_list_t refs;    /* sim_ref_t, the oldest first */
    crti_map_t by_id;    /* object id -> sim_ref_t */
    crti_list_t remotes; /* sim_remote_t */
    crti_map_t by_process;
    crti_list_t calls;            /* sim_call_t */
    crti_list_t locators;         /* who asked for content that is not here yet */
    crti_list_t asked, questions; /* for copies: of ours, and by others (holder_seek.c) */
    uint64_t next_number, next_request;
    unsigned gathers; /* so many wait until all was requested */
};

#define SIM_REF_OF(item)  CRTI_CONTAINER(item, sim_ref_t, link)
#define SIM_CALL_OF(item) CRTI_CONTAINER(item, sim_call_t, link)

void sim_holder_init(sim_holder_t *h, sim_network_t *net, unsigned place,
                     const sim_holder_ops_t *ops, void *user);
void sim_holder_fini(sim_holder_t *h); /* also: dies at once, nobody is told */

sim_ref_t *sim_holder_ref(const sim_holder_t *h, crti_object_id_t id);
sim_remote_t *sim_holder_remote(sim_holder_t *h, crti_id_t id, unsigned place);
sim_call_t *sim_holder_call(const sim_holder_t *h, uint64_t serial);

/* Handles of the program: a hold each. */
void sim_ref_hold(sim_ref_t *ref);
void sim_ref_release(sim_ref_t *ref);

/* A new object with a value that holds `inner`; one hold is the caller's. */
sim_ref_t *sim_holder_put(sim_holder_t *h, sim_ref_t *const *inner, unsigned count,
                          bool is_stored);
/* Calls the process with refs as arguments; the result, one hold is the caller's. */
sim_ref_t *sim_holder_send_call(sim_holder_t *h, sim_remote_t *to, sim_ref_t *const *args,
                                unsigned count);
/* The program wants the content. */
void sim_holder_get(sim_ref_t *ref);
/* The call has run: its result holds these refs, or it failed. */
void sim_call_finish(sim_call_t *call, sim_ref_t *const *results, unsigned count,
                     bool is_stored, bool is_failed);

/* The pull of a ref's bytes ended. */
void sim_holder_pulled(sim_holder_t *h, crti_object_id_t object, crt_status_t status);

/* Notices. */
void sim_holder_process_died(sim_holder_t *h, crti_id_t process);
void sim_holder_node_died(sim_holder_t *h, crti_id_t node);

#endif
