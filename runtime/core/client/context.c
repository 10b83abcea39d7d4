/* SPDX-License-Identifier: Apache-2.0 */
/* What a program knows of itself: its call, its actor, its refs, its process (crt_context.h).
 *
 * Where it sits
 *     user code -> [ core/client/context.c ] -> calls/actor_find.c (the own handle)
 * Threads
 *     That of the call; the core's lock is taken for the own handle and for ids of refs.
 */
#include <inttypes.h>
#include <stdio.h>

#include "runtime/core/calls/actor.h"
#include "runtime/core/execution/execution.h"
#include "runtime/core/execution/run_events.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"

/* ------------------------------------------------------------------ the call */

static crt_status_t write_id(crti_id_t owner, uint64_t number, char *id, size_t size)
{
    char hex[CRTI_ID_HEX];

    if (!id || size < CRT_OBJECT_ID_SIZE)
        return crt_raise(CRT_ERR_INVALID, "an id has %d bytes, there is room for %zu",
                         CRT_OBJECT_ID_SIZE, id ? size : (size_t)0);
    snprintf(id, size, "%s%016" PRIx64, crti_id_hex(owner, hex), number);
    return CRT_OK;
}

crt_status_t crt_task_id(const crt_call_t *call, char *id, size_t size)
{
    crti_id_t owner;
    uint64_t number;

    if (!call)
        return crti_no_call("crt_task_id");
    crti_call_id(call, &owner, &number);
    return write_id(owner, number, id, size);
}

int64_t crt_call_attempt(const crt_call_t *call)
{
    return call ? (int64_t)call->again.tries + 1 : 0;
}

const char *crt_call_name(const crt_call_t *call)
{
    if (!call)
        return "";
    return call->given_name ? call->given_name : call->function->display;
}

/* ------------------------------------------------------------------ the actor */

crt_status_t crt_actor_self(const crt_call_t *call, crt_actor_t **actor_out)
{
    crti_core_t *core;
    crt_status_t status;

    if (!call)
        return crti_no_call("crt_actor_self");
    if (!actor_out)
        return crt_raise(CRT_ERR_INVALID, "there is no place for the actor");
    if (call->function->task || crti_id_is_zero(call->core->actor_id))
        return crt_raise(CRT_ERR_INVALID, "%s is no method: it has no actor",
                         call->function->display);
    core = crti_enter();
    if (!core)
        return crti_entry_status();
    status = crti_actor_find_own(core, actor_out);
    if (status == CRT_OK)
        (*actor_out)->handles++;
    crti_leave(core);
    return status;
}

/* ------------------------------------------------------------------ refs and the process */

crt_status_t crt_ref_id(const crt_ref_t *ref, char *id, size_t size)
{
    crti_core_t *core = crti_enter();
    crti_object_id_t name = {0};
    crt_status_t status;

    if (!core)
        return crti_entry_status();
    status = crti_ref_check(ref);
    if (status == CRT_OK)
        name = crti_ref_id(ref);
    crti_leave(core);
    return status == CRT_OK ? write_id(name.owner, name.number, id, size) : status;
}

const char *crt_worker_id(void)
{
    crti_core_t *core = crti_is_forked() ? NULL : crti_enter_quiet();
    const char *id = core ? core->process_hex : "";

    if (core)
        crti_leave(core);
    return id;
}
