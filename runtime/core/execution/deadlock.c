/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlocks: who waits for whom is told along the calls, and comes back when it is a cycle.
 *
 * Where it sits
 *     wait.c (a worker waits for 10 ms) -> [ deadlock.c ] -> WAITING -> the process it waits for
 * How
 *     A chain is the list of processes that wait, each for the next. A process that gets a chain
 *     about a call it runs (or can't start, because it waits) adds itself and sends it on to
 *     what it waits for itself. Who finds itself in a chain, in the same wait, is in a cycle:
 *     its wait ends with CRT_ERR_DEADLOCK and the names of all.
 *     Cycles of results, which no process waits for in a get, are found by result_wait.c.
 * Cost
 *     Nothing for waits under 10 ms.
 */
#include "runtime/core/execution/deadlock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/backlog.h"
#include "runtime/core/execution/execution_int.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/remotes.h"

static const char *running_name(const crti_executor_t *executor)
{
    return executor->running ? executor->running->function->display : "a driver";
}

/* The process that makes `ref`, and what it calls it there; NULL when nobody can be asked. */
static crti_remote_t *maker_of(crt_ref_t *ref, crti_chain_t *chain)
{
    const crti_pending_t *p;

    while (ref->more->forward && ref->content == CRTI_CONTENT_NONE)
        ref = ref->more->forward;
    p = crti_ref_pending(ref);
    if (!ref->is_owned) {
        chain->is_object = true;
        chain->number = ref->number;
        return ref->content == CRTI_CONTENT_NONE ? ref->owner : NULL;
    }
    if (p && p->attempt.state == CRTI_ATTEMPT_ARGUMENTS)
        for (unsigned i = 0; i < p->slot_count; i++)
            if (p->slots[i].ref && p->slots[i].ref->content == CRTI_CONTENT_NONE)
                return maker_of(p->slots[i].ref, chain);
    if (!p || p->attempt.state != CRTI_ATTEMPT_SENT)
        return NULL;
    chain->is_object = false;
    chain->number = p->number;
    return p->remote;
}

static void send_chain(crti_core_t *core, crt_ref_t *ref, crti_chain_t *chain)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t record = {0};
    crti_remote_t *to = maker_of(ref, chain);

    if (to && crti_put_chain(&record, chain) == CRT_OK)
        crti_remote_send(core, to, &record);
}

static bool add_self(const crti_executor_t *executor, crti_chain_t *chain)
{
    if (chain->count == CRTI_CHAIN_MAX)
        return false; /* deeper cycles are not found */
    chain->waiter[chain->count++] =
        (crti_waiter_t){executor->core->process, executor->blocking.wait,
                        crti_str(running_name(executor))};
    return true;
}

void crti_chain_start(crti_core_t *core, crt_ref_t *ref)
{
    crti_chain_t chain = {.count = 0};

    if (add_self(crti_running()->executor, &chain))
        send_chain(core, ref, &chain);
}

/* "A.m -> B.n -> A.m wait for each other". */
static void found_cycle(crti_executor_t *executor, const crti_chain_t *chain,
                        unsigned first)
{
    char text[1024];
    size_t used = 0;

    for (unsigned i = first; i < chain->count && used < sizeof(text); i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%.*s -> ",
                                 (int)chain->waiter[i].name.size,
                                 (const char *)chain->waiter[i].name.data);
    if (used < sizeof(text))
        snprintf(text + used, sizeof(text) - used, "%s: each waits for the next",
                 running_name(executor));
    crti_blocking_deadlock(executor->core, &executor->blocking, text);
}

/* Who runs that call, or has to before anybody does: of several executors no one has to. NULL:
 * nobody. */
static crti_executor_t *executor_of(const crti_client_t *client, uint64_t number)
{
    const crti_executors_t *executors = &client->core->execution->executors;

    CRTI_LIST_FOREACH (item, &client->calls) {
        const crt_call_t *call = CRTI_CONTAINER(item, crt_call_t, of_client);

        if (call->number != number || call->ending.waits)
            continue;
        if (call->is_started)
            return call->executor;
        return executors->groups[call->group].limit == 1
                   ? executors->groups[call->group].latest
                   : NULL;
    }
    return NULL;
}

/* The chain has come back to the wait from which it, or a part of it, went out. */
static bool passed_here(const crti_executor_t *executor, const crti_chain_t *chain,
                        unsigned *first_out)
{
    for (unsigned i = 0; i < chain->count; i++) {
        *first_out = i;
        if (crti_id_equal(chain->waiter[i].process, executor->core->process) &&
            chain->waiter[i].wait == executor->blocking.wait)
            return true;
    }
    return false;
}

void crti_chain_arrived(crti_client_t *client, const void *data, size_t size)
{
    crti_core_t *core = client->core;
    crti_executor_t *executor;
    crti_chain_t chain;
    crt_ref_t *ref;
    unsigned first;

    if (crti_get_chain(data, size, &chain) != CRT_OK)
        return;
    if (chain.is_object) { /* the owner only knows who makes it */
        ref = crti_ref_owned(core, chain.number);
        if (ref && ref->content == CRTI_CONTENT_NONE)
            send_chain(core, ref, &chain);
        return;
    }
    executor = executor_of(client, chain.number);
    if (!executor || !executor->blocking.ref)
        return;
    if (passed_here(executor, &chain, &first))
        found_cycle(executor, &chain, first);
    else if (add_self(executor, &chain))
        send_chain(core, executor->blocking.ref, &chain);
}

crt_status_t crti_check_self_wait(crti_core_t *core, crt_ref_t *ref)
{
    const crti_pending_t *p = ref->is_owned ? crti_ref_pending(ref) : NULL;
    const crti_executor_t *executor = crti_running()->executor;

    if (!p || !p->spec.actor || !crti_id_equal(p->spec.actor->id, core->actor_id) ||
        crti_id_is_zero(core->actor_id) ||
        !crti_executor_would_stall(executor, p->spec.group))
        return CRT_OK;
    return crt_raise(CRT_ERR_DEADLOCK,
                     "%s waits for %s of its own actor, which runs %u call%s at a time",
                     running_name(executor), p->spec.function->display,
                     executor->group->limit, executor->group->limit == 1 ? "" : "s");
}
