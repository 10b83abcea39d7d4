/* SPDX-License-Identifier: Apache-2.0 */
/* Actors of a declared group that have not come. See absent.h. */
#include "collective/absent.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/core/calls/actor.h"
#include "runtime/core/core.h"

struct crti_absent {
    const crti_roster_t *roster;
    crt_actor_t *actors[]; /* by rank, held; NULL: nobody has asked */
};

crt_status_t crti_absent_new(const crti_roster_t *roster, crti_absent_t **absent_out)
{
    size_t size = (size_t)roster->size;
    crti_absent_t *absent = calloc(1, sizeof(*absent) + size * sizeof(crt_actor_t *));

    if (!absent)
        return crt_raise(CRT_ERR_NO_MEMORY, "a group of %zu", size);
    absent->roster = roster;
    *absent_out = absent;
    return CRT_OK;
}

void crti_absent_free(crti_absent_t *absent)
{
    crti_core_t *core = absent ? crti_enter_quiet() : NULL;

    for (int i = 0; core && i < absent->roster->size; i++)
        if (absent->actors[i])
            crti_actor_release(absent->actors[i]);
    if (core)
        crti_leave(core);
    free(absent);
}

/* Of which class it is does not matter here: whoever is given a handle of it says so. */
static crt_actor_t *watch(crti_core_t *core, crti_id_t id)
{
    crt_actor_t *actor;

    if (crti_actor_get(core, id, crti_str(""), &actor) != CRT_OK)
        return NULL; /* asked again by the next look */
    crti_actor_observe(actor);
    return actor;
}

bool crti_absent_has_died(crti_absent_t *absent, int rank, crt_status_t *status_out,
                          char *text, size_t size)
{
    crti_core_t *core = crti_enter_quiet();
    crt_actor_t *actor;
    bool has_died;

    if (!core)
        return false;
    actor = absent->actors[rank];
    if (!actor)
        actor = absent->actors[rank] = watch(core, absent->roster->declared[rank]);
    has_died = actor && actor->phase == CRTI_ACTOR_GONE;
    if (has_died) {
        *status_out = actor->status;
        snprintf(text, size, "%s", actor->text ? actor->text : "");
    }
    crti_leave(core);
    return has_died;
}
