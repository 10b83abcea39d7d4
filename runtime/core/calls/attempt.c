/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a call. See attempt.h. */
#include "runtime/core/calls/attempt.h"

#include <assert.h>

#include "runtime/base/arrow.h"

#define TO(state) (1u << CRTI_ATTEMPT_##state)

static const crti_state_row_t states[CRTI_ATTEMPT_STATES] = {
    [CRTI_ATTEMPT_MADE] = {"made", TO(ARGUMENTS) | TO(QUEUED) | TO(SENT) | TO(SUSPECT) |
                                       TO(INLINE) | TO(ENDED)},
    [CRTI_ATTEMPT_ARGUMENTS] = {"waits for arguments", TO(MADE) | TO(QUEUED)},
    [CRTI_ATTEMPT_QUEUED] = {"queued", TO(MADE) | TO(SENT)},
    [CRTI_ATTEMPT_SENT] = {"sent", TO(MADE)},
    [CRTI_ATTEMPT_SUSPECT] = {"suspect", TO(MADE)},
    [CRTI_ATTEMPT_INLINE] = {"inline", TO(MADE)},
    [CRTI_ATTEMPT_ENDED] = {"ended", 0},
};

bool crti_attempt_may_follow(crti_attempt_state_t state, crti_attempt_state_t next)
{
    return states[state].next >> next & 1;
}

static void set_state(crti_attempt_t *attempt, crti_attempt_state_t next)
{
    assert(crti_attempt_may_follow(attempt->state, next));
    CRTI_ARROW("call", states, attempt->state, next);
    attempt->state = next;
}

void crti_attempt_await(crti_attempt_t *attempt)
{
    set_state(attempt, CRTI_ATTEMPT_ARGUMENTS);
}

void crti_attempt_queue(crti_attempt_t *attempt)
{
    set_state(attempt, CRTI_ATTEMPT_QUEUED);
}

void crti_attempt_send(crti_attempt_t *attempt, bool on_unconfirmed)
{
    set_state(attempt, CRTI_ATTEMPT_SENT);
    attempt->on_unconfirmed = on_unconfirmed;
}

void crti_attempt_run_inline(crti_attempt_t *attempt)
{
    set_state(attempt, CRTI_ATTEMPT_INLINE);
}

void crti_attempt_suspect(crti_attempt_t *attempt)
{
    set_state(attempt, CRTI_ATTEMPT_SUSPECT);
}

void crti_attempt_take_out(crti_attempt_t *attempt)
{
    set_state(attempt, CRTI_ATTEMPT_MADE);
}

void crti_attempt_end(crti_attempt_t *attempt)
{
    set_state(attempt, CRTI_ATTEMPT_ENDED);
}

void crti_attempt_give_up(crti_attempt_t *attempt)
{
    attempt->is_given_up = true;
}

void crti_attempt_learn(crti_attempt_t *attempt, bool may_have_run)
{
    attempt->may_have_run = may_have_run;
}

bool crti_attempt_is_waiting(const crti_attempt_t *attempt)
{
    return attempt->state == CRTI_ATTEMPT_ARGUMENTS ||
           attempt->state == CRTI_ATTEMPT_QUEUED ||
           attempt->state == CRTI_ATTEMPT_SUSPECT;
}

bool crti_attempt_may_repeat(const crti_attempt_t *attempt, int64_t max_retries)
{
    return !attempt->cancel && !attempt->is_expired && !attempt->is_given_up &&
           (max_retries < 0 || attempt->retries < max_retries);
}

void crti_attempt_repeat(crti_attempt_t *attempt)
{
    attempt->retries++;
    attempt->may_have_run = false;
}

void crti_attempt_follow(crti_attempt_t *attempt, int64_t retries)
{
    *attempt = (crti_attempt_t){.retries = retries};
    crti_attempt_repeat(attempt);
}

crti_attempt_action_t crti_attempt_answered(const crti_attempt_t *attempt, bool is_task,
                                            bool not_started, bool is_retried_for,
                                            int64_t max_retries)
{
    if (not_started && (attempt->cancel || attempt->is_given_up))
        return CRTI_ATTEMPT_DO_END_CANCELLED;
    if (not_started) /* a method's process that gives back is ending: its loss will tell */
        return is_task && (attempt->state == CRTI_ATTEMPT_SENT ||
                           attempt->state == CRTI_ATTEMPT_INLINE)
                   ? CRTI_ATTEMPT_DO_QUEUE
                   : CRTI_ATTEMPT_DO_NOTHING;
    return is_retried_for && crti_attempt_may_repeat(attempt, max_retries)
               ? CRTI_ATTEMPT_DO_REPEAT
               : CRTI_ATTEMPT_DO_END;
}

static crti_attempt_action_t lost_task(const crti_attempt_t *attempt,
                                       const crti_attempt_loss_t *loss)
{
    if (!attempt->may_have_run)
        return CRTI_ATTEMPT_DO_QUEUE;
    /* A process that lives may still run it. */
    return !loss->is_alive && crti_attempt_may_repeat(attempt, loss->max_retries)
               ? CRTI_ATTEMPT_DO_REPEAT
               : CRTI_ATTEMPT_DO_END;
}

/* It certainly did not run, and the actor may live elsewhere: its process died in `create`, or the
 * call did not leave for a place that was only heard of. */
static bool may_go_elsewhere(const crti_attempt_t *attempt,
                             const crti_attempt_loss_t *loss)
{
    if (attempt->may_have_run || !loss->has_record)
        return false;
    return loss->ran_no_call ? !loss->is_actor_gone
                             : attempt->on_unconfirmed && loss->may_be_placed;
}

crti_attempt_action_t crti_attempt_lost(crti_attempt_t *attempt,
                                        const crti_attempt_loss_t *loss)
{
    attempt->may_have_run = loss->may_have_begun && !loss->ran_no_call;
    if (attempt->cancel || attempt->is_given_up)
        return CRTI_ATTEMPT_DO_END;
    if (loss->is_task)
        return lost_task(attempt, loss);
    if (may_go_elsewhere(attempt, loss))
        return CRTI_ATTEMPT_DO_QUEUE;
    /* Nothing more is said of a place before its actor's. */
    return loss->is_suspect ? CRTI_ATTEMPT_DO_SUSPECT : CRTI_ATTEMPT_DO_END;
}

crti_attempt_action_t crti_attempt_settled(const crti_attempt_t *attempt, bool has_record,
                                           int64_t max_retries)
{
    if (attempt->cancel || !has_record)
        return CRTI_ATTEMPT_DO_END;
    if (!attempt->may_have_run)
        return CRTI_ATTEMPT_DO_QUEUE;
    return crti_attempt_may_repeat(attempt, max_retries) ? CRTI_ATTEMPT_DO_REPEAT
                                                         : CRTI_ATTEMPT_DO_END;
}

crti_attempt_action_t crti_attempt_cancelled(crti_attempt_t *attempt, bool is_forced)
{
    crti_attempt_cancel_t cancel =
        is_forced ? CRTI_ATTEMPT_FORCED : CRTI_ATTEMPT_CANCELLED;

    if (crti_attempt_is_waiting(attempt))
        return CRTI_ATTEMPT_DO_END;
    if (attempt->state == CRTI_ATTEMPT_INLINE) {
        attempt->cancel = CRTI_ATTEMPT_CANCELLED;
        return CRTI_ATTEMPT_DO_INTERRUPT;
    }
    if (attempt->state != CRTI_ATTEMPT_SENT || attempt->cancel >= cancel)
        return CRTI_ATTEMPT_DO_NOTHING;
    attempt->cancel = cancel;
    return CRTI_ATTEMPT_DO_ASK;
}

crti_attempt_action_t crti_attempt_expired(crti_attempt_t *attempt)
{
    if (crti_attempt_is_waiting(attempt))
        return CRTI_ATTEMPT_DO_END;
    attempt->is_expired = true;
    return CRTI_ATTEMPT_DO_EXPIRE;
}
