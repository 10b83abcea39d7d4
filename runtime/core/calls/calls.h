/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of this process: from the program's arguments to a pending call, and from an answer to its
 * result.
 *
 * Where it sits
 *     crt_call, crt_submit -> [ calls/: outgoing.c -> actor.c or submit.c ] -> process/remotes.c ->
 *     net
 *     REPLY, losses -> [ outgoing.c -> pending.c ] -> refs/notify.c
 * Threads
 *     The core's lock.
 * Ownership
 *     A pending call holds its results, until it has ended; its spec what is called and what the
 *     arguments need.
 * States
 *     attempt.h: what an event means for a call.
 * Invariants
 *     Every pending call ends exactly once: answered, failed, or lost.
 */
#ifndef CRTI_CORE_CALLS_CALLS_H
#define CRTI_CORE_CALLS_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/buffer.h"
#include "runtime/base/list.h"
#include "runtime/base/map.h"
#include "runtime/core/calls/attempt.h"
#include "runtime/core/calls/call_spec.h"
#include "runtime/core/calls/object.h"
#include "runtime/core/process/program.h"
#include "runtime/core/refs/refs.h"
#include "runtime/core/types.h"
#include "runtime/core/values/numbers.h"
#include "runtime/core/values/pool.h"
#include "runtime/core/values/signature.h"
#include "runtime/net/deadlines.h"
#include "runtime/net/net.h"

typedef struct crti_task_lease crti_task_lease_t;       /* tasks.h */
typedef struct crti_call_deadline crti_call_deadline_t; /* call_options.h */

/* An argument of a call that is not encoded into its record yet. */
typedef struct crti_slot {
    crt_ref_t *ref;         /* its value is passed; NULL: the bytes at `offset` */
    size_t offset, size;    /* in pending->values */
    crti_waiting_t waiting; /* linked while the ref is pending */
    crti_pending_t *pending;
} crti_slot_t;

/* Of a pending call that has the option. */
typedef struct crti_backup {
    crti_list_t link; /* crti_backups_t.watched (backup.h) while it is sent */
    crti_pending_t *pending;
    struct crti_task_times *times; /* of its function */
    double factor;
    crti_pending_t *other; /* the same call, elsewhere; NULL: none */
    uint64_t
        first; /* it has results of its own: number of the program's; 0: it has those */
    unsigned lost;    /* attempts beside this one that came to nothing */
    bool was_started; /* a second run of this attempt */
} crti_backup_t;

/* A call of this process that was not answered: what is called (spec), and the attempt that is
 * under way: its number, where it runs, its deadline. */
struct crti_pending {
    crti_list_t link; /* in a queue, or in remote->in_flight */
    crti_core_t *core;
    crti_attempt_t attempt;
    crt_ref_t *result;      /* held; */
    crt_ref_t **more;       /* likewise: its other results */
    crti_task_pool_t *pool; /* of a task: where it waits for a worker */
    crti_task_lease_t *lease;
    crti_remote_t *remote; /* SENT, SUSPECT */
    uint64_t sequence;     /* of its record in the session */
    uint64_t number;       /* of this try: its result's, or one in core->calls->retried */
    crti_call_spec_t spec;
    unsigned missing;   /* slots whose refs are pending */
    unsigned looked_at; /* slots that had a value when one was looked for that has none */
    crti_slot_t *slots; /* NULL once the record is built */
    unsigned slot_count;
    uint32_t lost_sessions; /* of `remote` before the one that it was sent by */
    uint64_t parent;        /* the call that made it, crti_running_serial; 0: none */
    uint64_t event;         /* call_events.h; 0: it is not recorded */
    crti_call_deadline_t *deadline; /* NULL: none */
    crti_backup_t *backup;          /* NULL: it is not run a second time */
    crt_stream_t *stream;           /* held: what it yields; NULL: no stream */
    struct crti_lineage
        *lineage;         /* of results that it makes again; NULL: it is the first */
    bool is_counted;      /* in actor->pending_calls */
    crti_buffer_t values; /* bytes of slots */
};

void crti_calls_init(crti_calls_t *calls);
/* The bytes of the environment that this worker was made with; none: the job's. */
crt_status_t crti_calls_in_environment(crti_calls_t *calls, crti_span_t bytes);
/* At shutdown: handles that the user may still drop; tasks and their leases end. */
void crti_calls_orphan(crti_core_t *core);
void crti_calls_fini(crti_calls_t *calls);
/* Whether the program has that handle of an actor or a group, or that stream. */
bool crti_calls_have_handle(const crti_core_t *core, const void *handle);
/* Appends the ids (16 bytes each) of actors that other processes made and have calls of
 * ours to answer, and of processes whose objects are held here. */
crt_status_t crti_calls_awaited(const crti_core_t *core, crti_buffer_t *ids);
bool crti_calls_have_stream(const crti_core_t *core, const crt_stream_t *stream);

/* What is called, and how. */
typedef struct crti_target {
    crt_actor_t *actor; /* or */
    crti_task_pool_t *pool;
    const crti_function_t *function;
    int64_t max_retries; /* -1: without limit, or CRTI_RETRIES_OF_ACTOR */
    unsigned group;      /* of a method: its concurrency group, 0: none */
    size_t returns;      /* results */
    const char *name;    /* the program's; NULL: none */
    int64_t timeout_ms;  /* 0: none */
    double backup_after; /* 0: never */
    int64_t copies;      /* of each result; 0: one */
    const crt_status_t *retry_exceptions; /* the program's; NULL: none */
    crt_stream_t *stream;                 /* whose items it yields; NULL: none */
    bool try_only, is_tell;
    bool past_limits; /* it never waits for room, and is not refused for it */
} crti_target_t;

/* ------------------------------------------------------------------ outgoing.c */

/* Makes a pending call and sends or queues it. `refs` has room for its results, each held for the
 * caller, and none NULL while memory lasts. */
void crti_call_out(crti_core_t *core, const crti_target_t *target,
                   const crti_given_t *given, crt_ref_t **refs);
/* The results of a call that can't even be made, with this thread's detail. */
void crti_call_refused(crti_core_t *core, crt_status_t status, crt_ref_t **refs,
                       size_t returns);
/* The same when there is no runtime: the objects among the arguments end. */
void crti_call_without_core(const crt_arg_t *args, size_t count, crt_ref_t **refs,
                            size_t returns);
#define CRTI_READY_QUESTION "crt_actor_ready" /* as errors name it */
#define CRTI_STOP_REQUEST   "crt_actor_stop"
/* The same, without waiting for room: has create of the actor ended? Its error, or no value. */
crt_ref_t *crti_ready_out(crti_core_t *core, crt_actor_t *actor);
/* Likewise, in its turn: the actor shall end itself. The answer comes when it takes no more
 * calls. */
crt_ref_t *crti_stop_out(crti_core_t *core, crt_actor_t *actor);
/* Its answer has come. */
void crti_pending_answer(crti_pending_t *pending, const crti_result_t *result);
/* One of its results has come, but not the first, which ends it. */
void crti_pending_part(crti_pending_t *pending, unsigned index,
                       const crti_result_t *result);
/* Its process is lost. */
void crti_pending_lost(crti_pending_t *pending, const crti_net_loss_t *loss);

/* ------------------------------------------------------------------ pending.c */

/* A call in no list, all zero but for its buffers; NULL: out of memory. */
crti_pending_t *crti_pending_blank(crti_core_t *core);
/* Gives one its results, spec.returns, each held by it. False: no memory. */
bool crti_pending_make_results(crti_pending_t *pending);
/* The same as a blank one, with results that the caller holds, too. */
crti_pending_t *crti_pending_new(crti_core_t *core, const crti_target_t *target);
/* Gives back the struct of a call that goes on without it (backlog.c), or of one that is over: what
 * the call holds stays held. And such a call again, QUEUED and in no list; NULL: no memory. */
void crti_pending_free(crti_pending_t *pending);
crti_pending_t *crti_pending_restore(crti_task_pool_t *pool, crt_ref_t *result,
                                     const crti_function_t *function,
                                     crt_ref_t *const *pins, uint32_t pin_count,
                                     crti_span_t record);
/* It waits in the queue of its actor or pool; the caller puts it there. */
void crti_pending_queue(crti_pending_t *pending);
/* Sends `record`, by which it leaves that queue, if it is in one, and is in flight. A failure
 * changes nothing. */
crt_status_t crti_pending_send(crti_pending_t *pending, crti_remote_t *remote,
                               const crti_buffer_t *record);
/* Out of its list, if it is in one, with the counts of that list: MADE afterwards. */
void crti_pending_unlink(crti_pending_t *pending);
/* It ended: with a result (unlinked before), with an error, with the failure of an argument. The
 * pending is gone afterwards. */
void crti_pending_finish(crti_pending_t *pending, const crti_result_t *result);
void crti_pending_fail_by(crti_pending_t *pending, const crt_ref_t *failed);
void crti_pending_fail(crti_pending_t *pending, crt_status_t status, const char *text,
                       bool may_have_run);
/* Another attempt, under another number; false: none can be made, and nothing has changed. */
bool crti_pending_again(crti_pending_t *pending, const char *text);
/* How often a call may be made again; -1: without limit. */
int64_t crti_pending_most(const crti_pending_t *pending);
/* Its time is over while it runs elsewhere: its results fail now. It ends as any other, and what it
 * returns then is given up. */
void crti_pending_expire(crti_pending_t *pending, const char *text);
/* What the answer `number` is about; NULL: nothing (any more). */
crti_pending_t *crti_pending_get(crti_core_t *core, uint64_t number);
/* It was sent, and its actor's process is gone: what that means is told later. */
void crti_pending_suspect(crti_pending_t *pending);
/* What crti_core_t.pendings does with the buffers of one it drops. */
void crti_pending_fini(void *pending);

/* ------------------------------------------------------------------ encode_call.c */

/* Appends the arguments to `record` (which begins at 0), checked against the signature, and pins
 * the refs they need. `*failed_out`: an argument that has failed, or NULL. */
crt_status_t crti_put_args(crti_core_t *core, crti_call_spec_t *spec,
                           crti_buffer_t *record, const crt_arg_t *args, size_t count,
                           crt_ref_t **failed_out);
/* The same into slots, when a ref that we own is pending. */
crt_status_t crti_slot_args(crti_pending_t *pending, const crt_arg_t *args, size_t count);
/* All slots are ready: into the record. */
crt_status_t crti_put_slots(crti_pending_t *pending, crt_ref_t **failed_out);
void crti_drop_slots(crti_pending_t *pending);
/* A record that was built becomes slots once more, and spec.record its head: what its refs stand
 * for may have changed. Its pins stay. */
crt_status_t crti_slot_record(crti_pending_t *pending, crti_span_t record);
/* Whether its record has the place of a ref of ours whose content is not known any more. */
bool crti_call_is_stale(const crti_pending_t *pending);
/* Also tells the number of arguments (a spread counts its refs), and whether one is a pending ref
 * of ours. */
crt_status_t crti_args_check(const crti_function_t *function, const crt_arg_t *args,
                             size_t count, size_t *total_out, bool *is_pending_out);

/* ------------------------------------------------------------------ backup.c */

struct crti_backups;                                  /* backup.h */
void crti_backups_fini(struct crti_backups *backups); /* NULL is fine */

/* CRT_ERR_INVALID: a factor that is none, or a task that may not run twice. */
crt_status_t crti_backup_check(const crti_target_t *target);
/* A call with the option was made; it ends. */
crt_status_t crti_backup_begin(crti_pending_t *pending, double factor);
void crti_backup_end(crti_pending_t *pending);
/* It was sent; it is no longer. */
void crti_backup_sent(crti_pending_t *pending);
void crti_backup_taken_out(crti_pending_t *pending);
/* Its answer, or a part of it, has come, and will be taken: a value wins, a failure leaves the call
 * to the other one. */
void crti_backup_answered(crti_pending_t *pending, const crti_result_t *result);
/* It ends without a result: the other one, if there is one, goes on with the program's. */
void crti_backup_leave(crti_pending_t *pending);
/* The pair is parted: which one of it is of no use; NULL: there is none. The caller cancels it. */
crti_pending_t *crti_backup_part(crti_pending_t *pending);
/* The same, and it is cancelled. */
void crti_backup_drop(crti_pending_t *pending);

/* second_run.c: starts those that are due. */
void crti_second_runs_tick(crti_core_t *core, uint64_t now_ns);

/* The number by which the program knows the call. */
static inline uint64_t crti_call_number(const crti_pending_t *p)
{
    return p->backup && p->backup->first ? p->backup->first : p->result->number;
}
/* Attempts that are not counted in attempt.retries. */
static inline unsigned crti_backup_lost(const crti_pending_t *p)
{
    return p->backup ? p->backup->lost : 0;
}

/* ------------------------------------------------------------------ slots.c */

/* Goes on when the refs in its slots are ready; a method has its place in the order meanwhile. */
void crti_call_await_slots(crti_pending_t *pending);

/* ------------------------------------------------------------------ naming.c */

extern const crti_naming_t crti_core_naming;
/* Gives a ref of ours this small value, or the error of encoding it; `what` names it in that. */
void crti_ref_set_made(crt_ref_t *ref, const crt_arg_t *value, const char *what);

#endif
