/* SPDX-License-Identifier: Apache-2.0 */
/* Actors that end because something else did: their job, the process that made them, their node.
 *
 * Where it sits
 *     control_job.c, control_node.c -> [ control_actor_owner.c ] -> control_actor.c
 */
#include "runtime/control/control_actor.h"
#include "runtime/control/control_state.h"

static bool is_of_job(const crti_actor_entry_t *actor, const void *job)
{
    return !actor->made->detached &&
           crti_id_equal(actor->made->job, *(const crti_id_t *)job);
}

static bool is_of_owner(const crti_actor_entry_t *actor, const void *owner)
{
    return !actor->made->detached &&
           crti_id_equal(actor->made->owner, *(const crti_id_t *)owner);
}

static bool is_of_owner_node(const crti_actor_entry_t *actor, const void *node)
{
    return !actor->made->detached &&
           crti_id_equal(actor->made->owner_node, *(const crti_id_t *)node);
}

void crti_control_actors_of_job(crti_control_t *c, crti_id_t job, const char *text)
{
    char whole[600];

    snprintf(whole, sizeof(whole), "its job ended%s%s", *text ? ": " : "", text);
    crti_control_actors_end_where(c, is_of_job, &job, *text ? CRT_ERR_ACTOR_DIED : CRT_OK,
                                  whole);
}

void crti_control_actors_of_owner(crti_control_t *c, crti_id_t process,
                                  crt_status_t status, const char *text)
{
    char whole[600];

    if (crti_map_get(&c->owners, &process) == NULL)
        return;
    snprintf(whole, sizeof(whole), "the process that made it %s: %s",
             status == CRT_OK ? "ended" : "died", text);
    crti_control_actors_end_where(c, is_of_owner, &process,
                                  status == CRT_OK ? CRT_OK : CRT_ERR_ACTOR_DIED, whole);
}

void crti_control_actors_of_node(crti_control_t *c, const crti_node_entry_t *node,
                                 const char *text)
{
    char whole[600];

    CRTI_LIST_FOREACH_SAFE (item, &node->actors) {
        crti_actor_entry_t *actor = CRTI_ACTOR_OF_NODE(item);

        if (is_of_owner_node(actor, &node->id))
            continue;
        crti_control_fence(c, actor);
        crti_control_actor_process_died(c, actor, CRT_ERR_NODE_LOST, text, true);
    }
    snprintf(whole, sizeof(whole), "the process that made it died: %s", text);
    crti_control_actors_end_where(c, is_of_owner_node, &node->id, CRT_ERR_ACTOR_DIED,
                                  whole);
}
