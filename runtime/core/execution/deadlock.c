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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/core/calls/actor.h"
#include "runtime/core/core.h"
#include "runtime/core/execution/deadlock.h"

static const char *running_name(const crti_core_t *core)
{
    return core->execution.running ? core->execution.running->function->display
                                   : "a driver";
}

/* The process that makes `ref`, and what it calls it there; NULL when nobody can be asked. */
static crti_remote_t *maker_of(crt_ref_t *ref, crti_chain_t *chain)
{
    const crti_pending_t *p;

    while (ref->forward && ref->content == CRTI_CONTENT_NONE)
        ref = ref->forward;
    p = ref->call;
    if (!ref->is_owned) {
        chain->is_object = true;
        chain->number = ref->id.number;
        return ref->content == CRTI_CONTENT_NONE ? ref->owner : NULL;
    }
    if (p && p->state == CRTI_CALL_ARGUMENTS)
        for (unsigned i = 0; i < p->slot_count; i++)
            if (p->slots[i].ref && p->slots[i].ref->content == CRTI_CONTENT_NONE)
                return maker_of(p->slots[i].ref, chain);
    if (!p || p->state != CRTI_CALL_SENT)
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

static bool add_self(crti_core_t *core, crti_chain_t *chain)
{
    if (chain->count == CRTI_CHAIN_MAX)
        return false; /* deeper cycles are not found */
    chain->waiter[chain->count++] = (crti_waiter_t){core->process, core->blocking.count,
                                                    crti_str(running_name(core))};
    return true;
}

void crti_chain_start(crti_core_t *core, crt_ref_t *ref)
{
    crti_chain_t chain = {.count = 0};

    if (add_self(core, &chain))
        send_chain(core, ref, &chain);
}

/* "A.m -> B.n -> A.m wait for each other". */
static void found_cycle(crti_core_t *core, const crti_chain_t *chain, unsigned first)
{
    char text[1024];
    size_t used = 0;

    for (unsigned i = first; i < chain->count && used < sizeof(text); i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%.*s -> ",
                                 (int)chain->waiter[i].name.size,
                                 (const char *)chain->waiter[i].name.data);
    if (used < sizeof(text))
        snprintf(text + used, sizeof(text) - used, "%s: each waits for the next",
                 running_name(core));
    crti_blocking_deadlock(core, text);
}

static bool has_call(const crti_client_t *client, uint64_t number)
{
    CRTI_LIST_FOREACH (item, &client->calls)
        if (CRTI_CONTAINER(item, crt_call_t, of_client)->number == number)
            return true;
    return false;
}

void crti_chain_arrived(crti_client_t *client, const void *data, size_t size)
{
    crti_core_t *core = client->core;
    crti_chain_t chain;
    crt_ref_t *ref;

    if (crti_get_chain(data, size, &chain) != CRT_OK)
        return;
    if (chain.is_object) { /* the owner only knows who makes it */
        ref = crti_numbers_get(&core->refs.owned, chain.number);
        if (ref && ref->content == CRTI_CONTENT_NONE)
            send_chain(core, ref, &chain);
        return;
    }
    if (!core->blocking.ref || !has_call(client, chain.number))
        return;
    for (unsigned i = 0; i < chain.count; i++)
        if (crti_id_equal(chain.waiter[i].process, core->process)) {
            if (chain.waiter[i].wait == core->blocking.count)
                found_cycle(core, &chain, i);
            return;
        }
    if (add_self(core, &chain))
        send_chain(core, core->blocking.ref, &chain);
}

crt_status_t crti_check_self_wait(crti_core_t *core, crt_ref_t *ref)
{
    const crti_pending_t *p = ref->is_owned ? ref->call : NULL;

    if (!p || !p->actor || !crti_id_equal(p->actor->id, core->actor_id) ||
        crti_id_is_zero(core->actor_id))
        return CRT_OK;
    return crt_raise(CRT_ERR_DEADLOCK,
                     "%s waits for %s of its own actor, which runs one call at "
                     "a time",
                     running_name(core), p->function->display);
}
