/* SPDX-License-Identifier: Apache-2.0 */
/* Caller: crt-http as a driver of the cluster, so that its clients can call actors.
 *
 * Where it sits
 *     http/actor_call.c -> [ http/caller.c ] -> core/client/outside.c -> actors
 * Threads
 *     Everything here is the loop's but for one helper, which does what may wait or takes long: it
 *     joins the cluster (with the first call) and leaves it, parses large arguments and calls with
 *     them, and writes large results. Results come in a thread of the core; they are put into a
 *     list, and an eventfd wakes the loop.
 * Ownership
 *     An order is its maker's memory until it is let go; while the helper has it, the helper's.
 * Invariants
 *     An order is answered, or let go, whatever becomes of the cluster. No actor lives longer
 *     because it is called.
 * Failure
 *     No node on this host, or it has gone: orders fail with a sentence, and the next one joins
 *     again.
 */
#ifndef CRTI_HTTP_CALLER_H
#define CRTI_HTTP_CALLER_H

#include "runtime/base/cleanup.h"
#include "runtime/base/list.h"
#include "runtime/core/client/outside.h"

#include <libwebsockets.h>

typedef struct crti_caller crti_caller_t;
typedef struct crti_caller_actor crti_caller_actor_t;

#define CRTI_CALLER_NAME 128 /* of a namespace, an actor, a method; with the final zero */

/*                          actor           arguments
 *  crti_caller_order  WAITING ------> FOUND ---------> OUT <--> HELPED (its result is written)
 *                        |              |  is_large     ^
 *                        +--> FAILED <--+----> HELPED --+
 */
typedef enum crti_order_state {
    CRTI_ORDER_WAITING, /* for the cluster, or for the actor */
    CRTI_ORDER_FOUND,   /* the actor is there, the arguments are not */
    CRTI_ORDER_HELPED,  /* the helper has it */
    CRTI_ORDER_OUT,     /* it was called */
    CRTI_ORDER_FAILED   /* it was not */
} crti_order_state_t;

/* One call, from its names to its result. */
typedef struct crti_order {
    /* Set by its maker; all of it is borrowed until the order is let go, or (is_abandoned) freed by
     * on_free. */
    char name_space[CRTI_CALLER_NAME], actor[CRTI_CALLER_NAME], method[CRTI_CALLER_NAME];
    bool has_token, is_stream;
    bool is_large; /* set before crti_order_begin: the helper begins it */
    int64_t timeout_ms;
    /* By the helper, or the loop: makes args and count; they are not needed any more; writes the
     * result (crti_order_write). */
    crt_status_t (*prepare)(struct crti_order *order);
    void (*release)(struct crti_order *order);
    void (*write)(struct crti_order *order);
    const crt_arg_t *args;
    size_t count;
    void (*on_change)(struct crti_order *order); /* in the loop: look again */
    void (*on_free)(struct crti_order *order);   /* it was let go */
    /* Of caller.c. */
    crti_caller_t *caller;
    crti_order_state_t state;
    crti_outside_call_t call;
    crt_actor_t *kept;   /* from FOUND until it is called */
    crt_status_t status; /* FAILED */
    char text[512];
    bool has_args, was_found, is_counted;
    bool is_writing;         /* HELPED: with its result */
    bool is_told, is_helped; /* under its mutex */
    bool is_abandoned;
    crti_list_t link; /* what it waits for */
    crti_list_t told; /* caller->told: under its mutex */
} crti_order_t;

/* `head_dir` is borrowed. Caller owns the result and ends it with crti_caller_stop and
 * crti_caller_free. */
crt_status_t crti_caller_new(struct lws_vhost *vhost, const char *head_dir,
                             crti_caller_t **caller_out);
/* Lets go of the loop, which ends now. NULL is fine. */
void crti_caller_stop(crti_caller_t *caller);
/* Leaves the cluster; no order is left. NULL is fine. */
void crti_caller_free(crti_caller_t *caller);

/* Takes an order, and looks for its actor; on_change follows when it fails. */
void crti_caller_order(crti_caller_t *caller, crti_order_t *order);
/* Its arguments are there: calls, when the actor is known. on_change follows. */
void crti_order_begin(crti_order_t *order);
/* The helper calls order->write while what was looked at is kept; on_change follows. */
void crti_order_write(crti_order_t *order);
/* A stranger's call of this actor has been answered before: that it is there is no secret. */
bool crti_order_is_of_open_actor(const crti_order_t *order);
/* As crti_outside_look, and why it could not be called. */
crt_status_t crti_order_look(crti_order_t *order, const crt_value_t **value_out,
                             bool *may_have_run_out);
/* Of a stream: the next one. */
void crti_order_next(crti_order_t *order);
/* Lets it go, at once or when the helper is done with it: on_free is called then. */
void crti_order_end(crti_order_t *order);

#endif
