/* SPDX-License-Identifier: Apache-2.0 */
/* Creations that failed because their rows could not be stored, and stay failed.
 *
 * Where it sits
 *     control_actor.c, control_job.c, control_placement_group.c -> [ control_revoke.c ] -> the
 *     action `revoke`: control/revoked.c
 * Invariants
 *     A row that could not be stored may be there all the same, and can't be deleted while nothing
 *     can be written. So before anybody hears that a creation failed, its id is noted outside of
 *     the store; a head that loads the rows leaves those of noted ids out. The note does not say of
 *     what the id is, and goes when the rows of all tables are deleted for certain; until then
 *     nothing new gets that id.
 * Failure
 *     Where it can't be noted, the error says that the outcome is not known. A kill reaches it.
 */
#include <stdint.h>

#include "runtime/base/log.h"
#include "runtime/control/control_revoke.h"
#include "runtime/control/control_state.h"
#include "runtime/control/outbox.h"

/* Values of the map: the tables whose row is deleted, and a bit that makes them no NULL. */
#define NOTED    ((uintptr_t)1 << 31)
#define TABLE(t) ((uintptr_t)1 << (t))
#define ALL_ROWS                                                                         \
    (TABLE(CRTI_STORE_ACTORS) | TABLE(CRTI_STORE_ACTOR_STATES) |                         \
     TABLE(CRTI_STORE_JOBS) | TABLE(CRTI_STORE_JOB_STATES) |                             \
     TABLE(CRTI_STORE_PLACEMENT_GROUPS))

static bool note(crti_control_t *c, crti_id_t id, bool is_revoked)
{
    const crti_control_actions_t *actions = &c->config.actions;

    return actions->revoke && actions->revoke(actions->user, id, is_revoked);
}

void crti_control_revoke(crti_control_t *c, crti_id_t id, const char *text)
{
    bool is_kept = crti_map_put(&c->revoked, &id, (void *)NOTED) == CRT_OK;

    crt_raise(
        CRT_ERR_IO, "%s%s", text,
        note(c, id, true) && is_kept
            ? ""
            : "; whether it was stored all the same is not known: it may begin after "
              "the head was started again");
}

bool crti_control_is_revoked(const crti_control_t *c, crti_id_t id)
{
    return c->revoked.count && crti_map_get(&c->revoked, &id) != NULL;
}

void crti_control_row_deleted(crti_control_t *c, crti_store_table_t table, crti_id_t id)
{
    uintptr_t is = c->revoked.count ? (uintptr_t)crti_map_get(&c->revoked, &id) : 0;

    if (!is)
        return;
    is |= TABLE(table);
    if ((is & ALL_ROWS) == ALL_ROWS) {
        crti_map_remove(&c->revoked, &id);
        note(c, id, false);
    } else {
        crti_map_put(&c->revoked, &id, (void *)is); /* replaces: can't fail */
    }
}

void crti_control_load_revoked(crti_control_t *c, crti_id_t id)
{
    if (crti_map_put(&c->revoked, &id, (void *)NOTED) != CRT_OK)
        crti_log(CRTI_LOG_ERROR, "control", "out of memory: a creation is not revoked");
}

void crti_control_delete_revoked_rows(crti_control_t *c, crti_id_t id)
{
    crti_control_delete_actor(c, id);
    crti_control_delete_job(c, id);
    crti_control_delete(c, CRTI_STORE_PLACEMENT_GROUPS, id);
}

void crti_control_delete_revoked(crti_control_t *c)
{
    size_t cursor = 0;
    const void *key;
    void *value;

    while (crti_map_next(&c->revoked, &cursor, &key, &value)) {
        crti_control_delete_revoked_rows(c, *(const crti_id_t *)key);
    }
}
