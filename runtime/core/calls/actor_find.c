/* SPDX-License-Identifier: Apache-2.0 */
/* Finding actors by name.
 *
 * Where it sits
 *     crt_actor_find, actor_create.c (get_if_exists) -> [ actor_find.c ] -> node daemon -> head
 * Threads
 *     The core's lock, which is given up while the head is asked.
 */
#include <string.h>

#include "runtime/core/calls/actor.h"
#include "runtime/core/core.h"

#define ANSWER_MS 30000

static crt_status_t take_found(crti_core_t *core, const crti_msg_actor_state_t *m,
                               const char *name, const crt_actor_class_t *user,
                               crt_actor_t **actor_out)
{
    const crti_class_t *class_;
    crt_status_t status =
        user ? crti_program_class(&core->program, user, &class_) : CRT_OK;
    char found[256];

    if (status != CRT_OK)
        return status;
    crti_text(m->class_name, found, sizeof(found));
    if (user && strcmp(found, user->name) != 0)
        return crt_raise(CRT_ERR_INVALID, "actor \"%s\" is of class %s, not %s", name,
                         found, user->name);
    return crti_actor_get(core, m->actor, m->class_name, actor_out);
}

crt_status_t crti_actor_find(crti_core_t *core, const char *name,
                             const crt_actor_class_t *user, crt_actor_t **actor_out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_msg_actor_find_t body = {.name = crti_str(name)};
    crti_message_t answer;
    crt_status_t status;

    if (!name || !*name)
        return crt_raise(CRT_ERR_INVALID, "the name is empty");
    status =
        crti_node_ask(core, CRTI_MSG_ACTOR_FIND, &body, ANSWER_MS, &answer, &storage);
    if (status == CRT_OK && answer.kind != CRTI_MSG_ACTOR_STATE)
        status = crt_raise(CRT_ERR_PROTOCOL,
                           "the head answered a question for an actor with %s",
                           crti_message_name(answer.kind));
    return status == CRT_OK ? take_found(core, &answer.actor_state, name, user, actor_out)
                            : status;
}
