/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime of a process: its modules' states made, bound together and taken apart. See
 * process/context.h. */
#include "runtime/core/client/parts.h"

#include <stdlib.h>

#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/calls/lineage.h"
#include "runtime/core/client/client.h"
#include "runtime/core/client/waitset.h"
#include "runtime/core/execution/deadlock.h"
#include "runtime/core/execution/execution_int.h"
#include "runtime/core/execution/run_events.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/printed.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/copy_query.h"
#include "runtime/core/refs/locating.h"
#include "runtime/core/refs/refs_int.h"

static const crti_ref_handlers_t ref_handlers = {.open_actor = crti_actor_open,
                                                 .release_actor = crti_actor_release,
                                                 .lifetime_ended =
                                                     crti_actor_lifetime_ended,
                                                 .make_again = crti_lineage_make_again,
                                                 .raise_lost = crti_lineage_raise_lost,
                                                 .spare = crti_lineage_spare,
                                                 .forgotten = crti_lineage_forgotten,
                                                 .check_forward = crti_check_result_wait};

/* All of it. */
typedef struct whole {
    crti_core_t core; /* first: what the modules see */
    crti_node_link_t link;
    crti_core_timer_t timer;
    crti_printed_t printed;
    crti_seeds_t seeds;
    crti_remotes_t remotes;
    crti_blocked_t blocked;
    crti_frees_t frees;
    crti_program_t program;
    crti_encoder_t encoder;
    crti_refs_t refs;
    crti_calls_t calls;
    crti_execution_t execution;
    crti_waits_t waits;
} whole_t;

crti_core_t *crti_core_new(void)
{
    whole_t *whole = calloc(1, sizeof(*whole));
    crti_core_t *core;

    if (!whole)
        return NULL;
    core = &whole->core;
    core->link = &whole->link;
    core->timer = &whole->timer;
    core->printed = &whole->printed;
    core->seeds = &whole->seeds;
    core->remotes = &whole->remotes;
    core->blocked = &whole->blocked;
    core->frees = &whole->frees;
    core->program = &whole->program;
    core->encoder = &whole->encoder;
    core->refs = &whole->refs;
    core->calls = &whole->calls;
    core->execution = &whole->execution;
    core->waits = &whole->waits;
    core->arena_fd = -1;
    core->encoder->user = core;
    crti_node_link_init(core->link);
    crti_core_timer_init(core->timer);
    crti_blocked_init(core->blocked);
    crti_remotes_init(core->remotes);
    crti_refs_init(core->refs, &ref_handlers);
    crti_calls_init(core->calls);
    crti_execution_init(core);
    crti_waits_init(core->waits);
    core->on_forwarded = crti_result_waits_for;
    core->on_remote_freed = crti_copy_query_remote_freed;
    core->on_long_wait = crti_chain_start;
    core->on_tick = crti_core_tick;
    core->cancel_call = crti_cancel_call;
    core->name_running = crti_run_event_name;
    core->name_object = crti_call_name_object;
    core->placement_running = crti_call_placement;
    core->on_blocked = crti_incoming_give_back_all;
    return core;
}

void crti_core_orphan(crti_core_t *core)
{
    CRTI_LIST_FOREACH (entry, &core->remotes->clients)
        crti_locating_end(CRTI_CONTAINER(entry, crti_client_t, link));
    crti_watches_end(core);
    crti_waits_orphan(core);
    crti_refs_orphan(core);
    crti_calls_orphan(core);
    crti_remotes_end(core);
}

void crti_core_free(crti_core_t *core)
{
    crti_waits_fini(core->waits);
    crti_execution_fini(core->execution);
    crti_calls_fini(core->calls);
    crti_refs_fini(core->refs);
    crti_remotes_fini(core->remotes);
    crti_core_timer_fini(core->timer);
    crti_node_link_fini(core->link);
    crti_buffer_fini(&core->scratch);
    crti_buffer_fini(&core->frees->queue);
    crti_encoder_fini(core->encoder);
    free(core->broken_text);
    free(core->gpus);
    crti_program_fini(core->program);
    crti_key_wipe(&core->streams.key, sizeof(core->streams.key));
    free(core);
}
