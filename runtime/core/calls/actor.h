/* SPDX-License-Identifier: Apache-2.0 */
/* Actors as their callers see them. See actor_handle.c (handles, where they live) and actor.c
 * (calls, what the head says of them). */
#ifndef CRTI_CORE_CALLS_ACTOR_H
#define CRTI_CORE_CALLS_ACTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/actor_terms.h"
#include "runtime/base/list.h"
#include "runtime/core/calls/calls.h"
#include "runtime/net/channel.h"

typedef enum crti_actor_phase {
    CRTI_ACTOR_WAITING, /* not known, placed, started or restarted: calls queue */
    CRTI_ACTOR_CALLABLE,
    CRTI_ACTOR_SUSPECT, /* its process is gone, its state not told yet: calls queue */
    CRTI_ACTOR_GONE     /* nothing follows */
} crti_actor_phase_t;

/* What becomes of an actor. */
typedef enum crti_actor_news {
    CRTI_ACTOR_RESTARTS, /* its process has ended, and another one follows, or has */
    CRTI_ACTOR_DRAINED,  /* the node where it lives is drained */
    CRTI_ACTOR_LEARNT,   /* it is known how often it was restarted before */
    CRTI_ACTOR_ENDED     /* it is GONE: who watched it is unlinked */
} crti_actor_news_t;

/* Somebody watches an actor. A member of the watcher's struct. `count`: so many restarts. It may
 * unlink itself, and no other one. */
typedef struct crti_actor_watcher {
    crti_list_t link;
    void (*on_news)(struct crti_actor_watcher *watcher, crti_actor_news_t news,
                    uint64_t count);
} crti_actor_watcher_t;

struct crt_actor {
    crti_core_t *core; /* NULL after a shutdown */
    crti_id_t id;
    char hex[CRTI_ID_HEX];
    char *class_name;
    const crti_class_t *class_; /* NULL: not in this program */
    uint32_t handles;           /* the user's */
    uint32_t holds;             /* handles, values and calls; and */
    uint32_t weak_holds;        /* questions, and what it was made with: it may end */
    crt_ref_t *lifetime; /* actor_lifetime.c: held while `holds` are not only weak ones */
    crti_actor_phase_t phase;
    uint64_t incarnation;
    uint64_t suspect_deadline;
    crti_remote_t *remote; /* CALLABLE, SUSPECT */
    crti_list_t queue;     /* crti_pending_t.link: not sent, in order */
    crti_list_t in_due;    /* core->calls->due_actors: the tick looks at it */
    /* crti_pending_t.link, SUSPECT: their process is gone, and the head has not said why */
    crti_list_t suspects;
    crti_list_t watchers;        /* crti_actor_watcher_t */
    uint64_t restarts;           /* as the head told: so often; */
    bool is_told;                /* it has told something; */
    bool is_restarting;          /* the next process is not there yet; */
    crt_status_t restart_status; /* and why its last process has ended, */
    char *restart_text;          /* NULL: nothing was told of that */
    size_t queue_bytes;
    crti_actor_terms_t terms;
    int64_t pending_calls; /* crti_pending_t of crti_call_out */
    bool is_watched, is_creating;
    /* CALLABLE, SUSPECT: its place came with the handle, the head has not confirmed it */
    bool is_unconfirmed;
    bool has_answered; /* its process, a call: create had ended */
    bool is_final; /* GONE, and a head that is killed and started again can't forget it */
    bool is_none;  /* GONE: it could not be made */
    crt_status_t status; /* why it is GONE; */
    char *text;
    char *report; /* of its process's death, while SUSPECT */
    /* pinned while create may run; then the actor is held, too */
    crt_ref_t **creation_refs;
    size_t creation_count;
    bool may_restart;        /* create may run again for as long as it is not GONE */
    crt_ref_t *create_ended; /* the answer to whether it has; held */
    void (*on_callable)(crt_actor_t *actor); /* of who made it; may be NULL */
    crti_waiting_t waits_for_create;
};

/* How often a call may be made again; -1: without limit. `actor` NULL: a task. */
static inline int64_t crti_most_retries(const crt_actor_t *actor, int64_t max_retries)
{
    return max_retries == CRTI_RETRIES_OF_ACTOR ? actor->terms.max_task_retries
                                                : max_retries;
}

/* ------------------------------------------------------------------ actor_handle.c */

/* CRT_OK, or why a handle that the program gives can't be used: NULL, none, of before a
 * shutdown. */
crt_status_t crti_actor_check(const crti_core_t *core, const crt_actor_t *actor);
void crti_actor_set_phase(crt_actor_t *actor, crti_actor_phase_t phase);
/* The tick looks at it then. */
void crti_actor_check_at(crt_actor_t *actor, uint64_t at_ns);
/* The process where it lives; takes the caller's use of it. */
void crti_actor_set_remote(crt_actor_t *actor, crti_remote_t *remote);
crt_status_t
crti_actor_get(crti_core_t *core, crti_id_t id, crti_span_t class_name,
               crt_actor_t **actor_out); /* found or made; held; class "": not known */
static inline void crti_actor_hold(crt_actor_t *actor)
{
    actor->holds++;
}
/* None but weak holds are left. */
void crti_actor_let_go(crt_actor_t *actor);
static inline void crti_actor_release(crt_actor_t *actor)
{
    if (--actor->holds <= actor->weak_holds)
        crti_actor_let_go(actor);
}
/* By who does not need the actor itself. */
void crti_actor_hold_weakly(crt_actor_t *actor);
void crti_actor_release_weakly(crt_actor_t *actor);
/* Where the actor lives, for a name that is given to another process, and as such a name says. */
void crti_actor_export_location(const crt_actor_t *actor, crti_actor_name_t *name);
crt_status_t crti_actor_open(crti_core_t *core, const crti_actor_name_t *name,
                             crt_ref_t *lifetime, crt_actor_t **actor_out);
/* At shutdown: the user may still drop it. */
void crti_actor_orphan(crt_actor_t *actor);

/* ------------------------------------------------------------------ actor_lifetime.c */

/* Of an actor that this process makes. */
crt_status_t crti_actor_lifetime_new(crt_actor_t *actor);
/* Nobody holds it any more: a handler of refs.c. */
void crti_actor_lifetime_ended(crt_ref_t *lifetime);
void crti_actor_lifetime_hold(crt_actor_t *actor, crt_ref_t *lifetime); /* may be NULL */
void crti_actor_lifetime_drop(crt_actor_t *actor);
/* The actor is gone: nobody has to be told. */
void crti_actor_lifetime_spent(crt_actor_t *actor);

/* ------------------------------------------------------------------ actor_find.c */

/* A living actor of that name, held, as crt_actor_find gives it. Waits for the head. */
/* `name_space` NULL: that of the job. */
crt_status_t crti_actor_find(crti_core_t *core, const char *name_space, const char *name,
                             const crt_actor_class_t *user, crt_actor_t **actor_out);

/* The actor of this process, held as one that was found. Waits for the head the first time. */
crt_status_t crti_actor_find_own(crti_core_t *core, crt_actor_t **actor_out);

/* ------------------------------------------------------------------ actor.c */

/* What it was made with is needed no more. */
void crti_actor_drop_creation(crt_actor_t *actor);
/* A call that certainly did not run, in no list: it waits for the head, in its order. */
void crti_actor_take_back(crti_pending_t *pending);
/* Sends the record at once when nothing is before it, else queues. */
void crti_actor_submit(crti_pending_t *pending, const crti_buffer_t *record);
/* Its arguments are being waited for: keeps its place, where calls have one. When they are there it
 * waits for those before it, or is submitted. */
void crti_actor_reserve(crti_pending_t *pending);
void crti_actor_complete(crti_pending_t *pending);
void crti_actor_drain(crt_actor_t *actor);
/* Waits until the queue has room; with try_only CRT_ERR_BACKPRESSURE. */
crt_status_t crti_actor_room(crt_actor_t *actor, bool try_only);
void crti_actor_lost(crt_actor_t *actor, crti_remote_t *remote,
                     const crti_net_loss_t *loss);
/* The same of all that live there. */
void crti_actors_lost(crti_core_t *core, crti_remote_t *remote,
                      const crti_net_loss_t *loss);
void crti_actor_state(crti_core_t *core, const crti_msg_actor_state_t *message);
void crti_actor_process_died(crti_core_t *core, crti_remote_t *remote, const char *text);
void crti_actor_tick(crti_core_t *core, uint64_t now_ns);
void crti_actor_observe(crt_actor_t *actor); /* its state is told from now on */
void crti_actors_end(crti_core_t *core, crt_status_t status, const char *text);
void crti_actor_end(crt_actor_t *actor, crt_status_t status, const char *text);
/* Calls back for all that becomes of it, and at once for what is so now. Who watches holds it,
 * weakly perhaps. */
void crti_actor_follow(crt_actor_t *actor, crti_actor_watcher_t *watcher);
/* The node is drained: who watches an actor that lives there is told. */
void crti_actors_drained(crti_core_t *core, crti_id_t node);

#endif
