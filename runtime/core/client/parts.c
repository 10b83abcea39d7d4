/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime of a process: its modules' states made, bound together and taken apart. See
 * core.h. */
#include "runtime/core/core.h"

#include <stdlib.h>

#include "runtime/core/calls/actor.h"
#include "runtime/core/client/client.h"
#include "runtime/core/execution/deadlock.h"
#include "runtime/core/execution/run_events.h"
#include "runtime/core/refs/copy_query.h"
#include "runtime/core/refs/forward.h"
#include "runtime/core/refs/locating.h"
#include "runtime/core/refs/missing.h"
#include "runtime/core/refs/value_of.h"

static const crti_ref_handlers_t ref_handlers = {.locate = crti_ref_locate,
                                                 .fetch = crti_ref_fetch,
                                                 .moved = crti_forward_moved,
                                                 .missed = crti_missing_begin,
                                                 .found = crti_missing_found,
                                                 .open_actor = crti_actor_open,
                                                 .release_actor = crti_actor_release,
                                                 .lifetime_ended =
                                                     crti_actor_lifetime_ended,
                                                 .check_forward = crti_check_result_wait};

void crti_core_init(crti_core_t *core)
{
    core->arena_fd = -1;
    core->encoder.user = core;
    crti_node_link_init(&core->link);
    crti_core_timer_init(&core->timer);
    crti_blocked_init(&core->blocked);
    crti_remotes_init(&core->remotes);
    crti_refs_init(&core->refs, &ref_handlers);
    crti_calls_init(&core->calls);
    crti_execution_init(core);
    crti_waits_init(&core->waits);
    core->on_forwarded = crti_result_waits_for;
    core->on_remote_freed = crti_copy_query_remote_freed;
    core->on_long_wait = crti_chain_start;
    core->on_tick = crti_core_tick;
    core->name_running = crti_run_event_name;
    core->on_blocked = crti_incoming_give_back_all;
}

void crti_core_orphan(crti_core_t *core)
{
    CRTI_LIST_FOREACH (entry, &core->remotes.clients)
        crti_locating_end(CRTI_CONTAINER(entry, crti_client_t, link));
    crti_waits_orphan(core);
    crti_refs_orphan(core);
    crti_calls_orphan(core);
    crti_remotes_end(core);
}

void crti_core_free(crti_core_t *core)
{
    crti_waits_fini(&core->waits);
    crti_execution_fini(&core->execution);
    crti_calls_fini(&core->calls);
    crti_refs_fini(&core->refs);
    crti_remotes_fini(&core->remotes);
    crti_core_timer_fini(&core->timer);
    crti_node_link_fini(&core->link);
    crti_buffer_fini(&core->scratch);
    crti_buffer_fini(&core->frees.queue);
    crti_encoder_fini(&core->encoder);
    free(core->broken_text);
    free(core->gpus);
    crti_program_fini(&core->program);
    crti_key_wipe(&core->streams.key, sizeof(core->streams.key));
    free(core);
}
