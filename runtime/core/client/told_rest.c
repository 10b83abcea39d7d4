/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this process is at rest: all of its threads that use the library wait in it without a
 * limit of time, or have no call to run, and nothing that it sent is on its way. See told.h.
 *
 * Where it sits
 *     crt-node (node/dispatch/rest.c) -> STATE_QUERY "rest" -> told_state.c -> [ told_rest.c ] ->
 *     STATE_ANSWER: JOB_REST
 * Why it can be believed
 *     Who is at rest goes on only when a message comes. What was sent is acknowledged, so that who
 *     got it has it before it is asked the second time; and `activity` says whether anything was
 *     done between two answers. In doubt a process is not at rest. A thread that never called the
 *     library is not seen (BLAS and the like have such), nor one of a worker that waits elsewhere.
 */
#include "runtime/core/calls/backlog.h"
#include "runtime/core/calls/calls.h"
#include "runtime/core/client/told.h"
#include "runtime/core/execution/execution.h"
#include "runtime/core/process/blocking.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/process/threads_inside.h"
#include "runtime/net/message.h"

#define AWAITED_MAX (16 * 256) /* bytes of ids */

typedef struct waits {
    unsigned in_calls, outside; /* threads that wait for as long as it takes */
    bool may_end;               /* one of them may go on by itself */
} waits_t;

/* It comes from somewhere else than from a call: it is fetched, looked for or made again. */
static bool is_under_way(const crt_ref_t *ref)
{
    if (ref->is_free || ref->content != CRTI_CONTENT_NONE || ref->is_pulling)
        return true;
    return ref->is_owned && (ref->is_locating || !crti_ref_has_call(ref));
}

/* It has a limit of time, or one of the refs is under way, which may be enough. */
static bool may_end(const crti_shown_wait_t *w)
{
    const crt_ref_t *ref;
    size_t at = 0;

    if (w->may_end_by_itself)
        return true;
    while ((ref = crti_told_ref(w, &at)))
        if (is_under_way(ref))
            return true;
    return false;
}

static waits_t count_waits(const crti_core_t *core)
{
    waits_t waits = {.in_calls = 0};

    CRTI_LIST_FOREACH (item, &core->blocked->waiters) {
        const crti_shown_wait_t *w = CRTI_CONTAINER(item, crti_shown_wait_t, link);

        waits.may_end |= may_end(w);
        waits.in_calls += w->is_of_call;
        waits.outside += !w->is_of_call;
    }
    return waits;
}

static bool has_sent(const crti_peer_t *peer)
{
    return peer && !crti_peer_is_lost(peer) && crti_peer_unacknowledged(peer) > 0;
}

/* Something is on its way to another process. */
static bool is_sending(const crti_core_t *core)
{
    CRTI_MAP_FOREACH (const crti_remote_t, remote, &core->remotes->table)
        if (has_sent(remote->peer))
            return true;
    CRTI_LIST_FOREACH (item, &core->remotes->clients) {
        const crti_client_t *client = CRTI_CONTAINER(item, crti_client_t, link);

        if (!client->is_lost && has_sent(client->peer))
            return true;
    }
    return false;
}

static bool is_at_rest(const crti_core_t *core, const crti_execution_rest_t *execution)
{
    waits_t waits = count_waits(core);
    unsigned threads = crti_inside_count();
    unsigned own = core->is_worker ? execution->threads : 0;

    return !waits.may_end && waits.in_calls == core->blocked->running &&
           waits.outside + own >= threads && !is_sending(core) &&
           (!execution->is_starting || core->blocked->running);
}

void crti_told_rest(crti_core_t *core, uint64_t round, crti_buffer_t *out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t awaits = {0};
    crti_execution_rest_t execution = crti_execution_rest(core);
    crti_msg_job_rest_t m = {.job = core->job,
                             .round = round,
                             .processes = 1,
                             .activity = core->blocked->all_waits + execution.begun,
                             .is_at_rest = is_at_rest(core, &execution)};

    if (crti_calls_awaited(core, &awaits) != CRT_OK || awaits.size > AWAITED_MAX)
        m.is_at_rest = false;
    else
        m.awaits = crti_span(awaits.data, awaits.size);
    (void)crti_message_encode(CRTI_MSG_JOB_REST, 0, &m,
                              out); /* else it has not answered */
}
