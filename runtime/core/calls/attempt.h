/* SPDX-License-Identifier: Apache-2.0 */
/* Attempt: where a call of this process is, from its arguments to its end, and what an event means
 * for it.
 *
 * Where it sits
 *     outgoing.c, actor.c, submit.c, execution/cancel.c (events) -> [ attempt ] -> what to do now
 * Threads
 *     None; pure: no I/O, no globals. The caller's lock covers it.
 * Ownership
 *     A member of the pending call, which keeps the lists that the states name. Its fields are
 *     written here only.
 * Invariants
 *     A call ends exactly once. A call that may have run is sent again only as another attempt, and
 *     not more often than its maximum.
 */
#ifndef CRTI_CORE_ATTEMPT_H
#define CRTI_CORE_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>

/*                     has its arguments            sent
 *        +---> MADE --------------------> QUEUED -------> SENT ---> ENDED
 *        |      |  ^                       ^ |  ^           |
 *        |      v  | have come             | |  +-----------+ came back
 *        |   ARGUMENTS ------------------->+ |              |
 *        |                                 | +-> MADE       v the process is gone
 *        +---- taken out of a list --------+------------ SUSPECT
 *
 *  MADE goes to SENT where no queue is before it, and to INLINE, when the thread that waits for the
 *  call runs it; it comes back from there when that wait ends before it has begun. Every state may
 *  end; a call in a list is taken out, to MADE, before.
 */
typedef enum crti_attempt_state {
    CRTI_ATTEMPT_MADE,      /* in no list */
    CRTI_ATTEMPT_ARGUMENTS, /* waits for refs among its arguments */
    CRTI_ATTEMPT_QUEUED,    /* in the queue of its actor or pool */
    CRTI_ATTEMPT_SENT,      /* in flight to a process */
    CRTI_ATTEMPT_SUSPECT, /* was sent; its process is gone, and the head has not said why */
    CRTI_ATTEMPT_INLINE, /* runs, or is to run, in a thread of this process */
    CRTI_ATTEMPT_ENDED,
    CRTI_ATTEMPT_STATES
} crti_attempt_state_t;

/* In the order of strength. */
typedef enum crti_attempt_cancel {
    CRTI_ATTEMPT_NOT_CANCELLED,
    CRTI_ATTEMPT_CANCELLED, /* its worker is asked to end it */
    CRTI_ATTEMPT_FORCED     /* its worker is to end with it */
} crti_attempt_cancel_t;

typedef struct crti_attempt {
    crti_attempt_state_t state;
    crti_attempt_cancel_t cancel;
    /* its results have failed by its timeout; the call has not ended yet */
    bool is_expired;
    bool may_have_run;   /* of one whose process was lost */
    bool on_unconfirmed; /* sent to a place that the head had not confirmed */
    bool
        is_given_up; /* another attempt of the same call counts: nothing follows this one */
    int64_t retries; /* attempts before this one */
} crti_attempt_t;

typedef enum crti_attempt_action {
    CRTI_ATTEMPT_DO_NOTHING,
    CRTI_ATTEMPT_DO_END,           /* with what the event brought */
    CRTI_ATTEMPT_DO_END_CANCELLED, /* it did not run */
    CRTI_ATTEMPT_DO_QUEUE,         /* the same attempt, elsewhere or later */
    CRTI_ATTEMPT_DO_REPEAT,        /* another attempt; where none can be made: END */
    CRTI_ATTEMPT_DO_SUSPECT,   /* until the head has said what became of the process */
    CRTI_ATTEMPT_DO_ASK,       /* its worker to cancel the call */
    CRTI_ATTEMPT_DO_INTERRUPT, /* the thread that runs it */
    CRTI_ATTEMPT_DO_EXPIRE     /* fail its results; then cancel */
} crti_attempt_action_t;

bool crti_attempt_may_follow(crti_attempt_state_t state, crti_attempt_state_t next);

/* Where it goes: its arguments are waited for; it is in a queue; it was handed to the transport; a
 * thread of this process runs it; its process is gone; it is out of the list it was in; it is over.
 * The lists are the caller's (pending.c). */
void crti_attempt_await(crti_attempt_t *attempt);
void crti_attempt_queue(crti_attempt_t *attempt);
void crti_attempt_send(crti_attempt_t *attempt, bool on_unconfirmed);
void crti_attempt_run_inline(crti_attempt_t *attempt);
void crti_attempt_suspect(crti_attempt_t *attempt);
void crti_attempt_take_out(crti_attempt_t *attempt);
void crti_attempt_end(crti_attempt_t *attempt);
/* Another attempt of the same call, which runs beside it, counts. */
void crti_attempt_give_up(crti_attempt_t *attempt);
static inline bool crti_attempt_is_given_up(const crti_attempt_t *attempt)
{
    return attempt->is_given_up;
}
/* What is known of the process that it was sent to has changed. */
void crti_attempt_learn(crti_attempt_t *attempt, bool may_have_run);

/* Whether it is certain, as far as this process knows, that no process runs it now. */
bool crti_attempt_is_waiting(const crti_attempt_t *attempt);

/* `max_retries` here and below: how many attempts may follow the first; -1: without limit. */
bool crti_attempt_may_repeat(const crti_attempt_t *attempt, int64_t max_retries);
/* Another attempt begins. */
void crti_attempt_repeat(crti_attempt_t *attempt);
/* The first attempt since the call had ended, after so many retries: its results were lost. */
void crti_attempt_follow(crti_attempt_t *attempt, int64_t retries);

/* An answer has come. `not_started`: the worker gives the call back; `is_retried_for`: the answer
 * is an error for which the program wants another attempt. */
crti_attempt_action_t crti_attempt_answered(const crti_attempt_t *attempt, bool is_task,
                                            bool not_started, bool is_retried_for,
                                            int64_t max_retries);

/* What is known when the process is lost that a call was sent to. */
typedef struct crti_attempt_loss {
    bool is_task;
    bool
        may_have_begun; /* it was handed to the process, which is not known to have left it */
    bool ran_no_call;   /* it died before it ran any */
    bool is_alive;      /* it only can't be reached */
    bool has_record;    /* the call can be sent again */
    bool is_actor_gone; /* for good */
    /* the actor may live elsewhere: it waits for a place, or is suspect */
    bool may_be_placed;
    /* it was the actor's process, and the head will say what became of it */
    bool is_suspect;
    int64_t max_retries;
} crti_attempt_loss_t;

/* Sets may_have_run. END means: with the loss. */
crti_attempt_action_t crti_attempt_lost(crti_attempt_t *attempt,
                                        const crti_attempt_loss_t *loss);

/* The head says that the actor of a SUSPECT call lives anew. */
crti_attempt_action_t crti_attempt_settled(const crti_attempt_t *attempt, bool has_record,
                                           int64_t max_retries);

/* Cancelled by the program. END: it has not begun. */
crti_attempt_action_t crti_attempt_cancelled(crti_attempt_t *attempt, bool is_forced);
/* Its timeout is over. END: it has not begun. */
crti_attempt_action_t crti_attempt_expired(crti_attempt_t *attempt);

#endif
