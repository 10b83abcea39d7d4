/* SPDX-License-Identifier: Apache-2.0 */
/* Whether calls are about to begin here without anybody's doing. See execution.h.
 *
 * Where it sits
 *     client/told_rest.c -> [ rest.c ]
 */
#include "runtime/core/execution/execution_int.h"
#include "runtime/core/process/remotes.h"

static bool is_awaiting_arguments(const crti_client_t *client)
{
    CRTI_LIST_FOREACH (item, &client->calls) {
        const crt_call_t *call = CRTI_CONTAINER(item, crt_call_t, of_client);

        if (!call->is_started && call->missing)
            return true;
    }
    return false;
}

crti_execution_rest_t crti_execution_rest(const crti_core_t *core)
{
    const crti_execution_t *e = core->execution;
    crti_execution_rest_t rest = {.begun = e->next_serial,
                                  .is_starting = e->class_ && !e->is_created};

    for (unsigned i = 0; i < e->executors.group_count; i++)
        rest.threads += e->executors.groups[i].executors;
    CRTI_LIST_FOREACH (item, &core->remotes->clients) {
        const crti_client_t *client = CRTI_CONTAINER(item, crti_client_t, link);

        rest.is_starting |= is_awaiting_arguments(client);
    }
    return rest;
}
