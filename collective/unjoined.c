/* SPDX-License-Identifier: Apache-2.0 */
/* Actors of a declared group that have not joined. See unjoined.h. */
#include "collective/unjoined.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/core/calls/actor.h"
#include "runtime/core/process/entry.h"

struct crti_unjoined {
    const crti_roster_t *roster;
    crt_actor_t *actors[]; /* by rank, held; NULL: no query yet */
};

crt_status_t crti_unjoined_new(const crti_roster_t *roster,
                               crti_unjoined_t **unjoined_out)
{
    size_t size = (size_t)roster->size;
    crti_unjoined_t *unjoined =
        calloc(1, sizeof(*unjoined) + size * sizeof(crt_actor_t *));

    if (!unjoined)
        return crt_raise(CRT_ERR_NO_MEMORY, "a group of %zu", size);
    unjoined->roster = roster;
    *unjoined_out = unjoined;
    return CRT_OK;
}

void crti_unjoined_free(crti_unjoined_t *unjoined)
{
    crti_core_t *core = unjoined ? crti_enter_quiet() : NULL;

    for (int i = 0; core && i < unjoined->roster->size; i++)
        if (unjoined->actors[i])
            crti_actor_release(unjoined->actors[i]);
    if (core)
        crti_leave(core);
    free(unjoined);
}

/* Its class does not matter here. */
static crt_actor_t *watch(crti_core_t *core, crti_id_t id)
{
    crt_actor_t *actor;

    if (crti_actor_get(core, id, crti_str(""), &actor) != CRT_OK)
        return NULL; /* the next query retries */
    crti_actor_observe(actor);
    return actor;
}

bool crti_unjoined_has_died(crti_unjoined_t *unjoined, int rank, crt_status_t *status_out,
                            char *text, size_t size)
{
    crti_core_t *core = crti_enter_quiet();
    crt_actor_t *actor;
    bool has_died;

    if (!core)
        return false;
    actor = unjoined->actors[rank];
    if (!actor)
        actor = unjoined->actors[rank] = watch(core, unjoined->roster->declared[rank]);
    has_died = actor && actor->phase == CRTI_ACTOR_GONE;
    if (has_died) {
        *status_out = actor->status;
        snprintf(text, size, "%s", actor->text ? actor->text : "");
    }
    crti_leave(core);
    return has_died;
}
