/* SPDX-License-Identifier: Apache-2.0 */
/* What the end of a member's process means. It fails the group, unless the member had left before:
 * then those fail that need it still, which its links and its memory tell.
 *
 * Where it sits
 *     liveness.c (a death notice) -> [ member_end.c ] -> the roster in the control store
 *                                                     -> group_state.c (fails the group)
 * Threads
 *     The core's lock. Who closes a group forgets its questions before it frees anything.
 * Failure
 *     A roster that can't be read says nothing: the member has died.
 */
#include <stdio.h>
#include <stdlib.h>

#include "collective/group_int.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/node_link.h"

/* Of the roster, about a member that has ended. */
typedef struct question {
    crti_list_t link;   /* crti_group_private.questions */
    crt_group_t *group; /* NULL: was closed meanwhile */
    int rank;
    crt_status_t status;
    char text[CRTI_LIVENESS_TEXT];
} question_t;

static bool had_left(const question_t *question, const crti_message_t *answer)
{
    const crt_group_t *group = question->group;
    CRTI_AUTO(crti_roster_fini) crti_roster_t roster = {0};
    crti_span_t value;
    int rank = question->rank;

    if (!answer || answer->kind != CRTI_MSG_KV_VALUE || !answer->kv_value.found)
        return false;
    value = answer->kv_value.value;
    return crti_roster_decode(value.data, value.size, &roster) == CRT_OK &&
           roster.token == group->private->token && roster.state == CRTI_ROSTER_FORMED &&
           rank < roster.size &&
           roster.members[rank].nonce == group->members[rank].nonce && roster.left[rank];
}

static void fail_for(crt_group_t *group, int rank, crt_status_t status, const char *text)
{
    char who[160];

    crti_group_fail(group, status, rank, "%s died: %s",
                    crti_group_describe(group, rank, who, sizeof(who)), text);
}

static void on_roster(void *user, const crti_message_t *answer)
{
    question_t *q = user;

    if (q->group && !had_left(q, answer))
        fail_for(q->group, q->rank, q->status, q->text);
    crti_list_remove(&q->link);
    free(q);
}

static crt_status_t ask_roster(crti_core_t *core, question_t *question)
{
    const crti_msg_kv_get_t body = {.key = crti_str(question->group->private->key)};

    return crti_node_request(core, CRTI_MSG_KV_GET, &body, on_roster, question);
}

void crti_member_ended(crti_core_t *core, crt_group_t *group, int rank,
                       crt_status_t status, const char *text)
{
    struct crti_group_private *p = group->private;
    question_t *question;

    if (!atomic_load(&p->is_open))
        return;
    question = malloc(sizeof(*question));
    if (question) {
        *question = (question_t){.group = group, .rank = rank, .status = status};
        snprintf(question->text, sizeof(question->text), "%s", text);
        if (ask_roster(core, question) == CRT_OK) {
            crti_list_append(&p->questions, &question->link);
            return;
        }
    }
    free(question);
    fail_for(group, rank, status, text);
}

void crti_member_questions_forget(crt_group_t *group)
{
    crti_core_t *core = crti_enter_quiet();
    crti_list_t *item;

    /* Without a runtime all of them are answered. */
    while (core && (item = crti_list_pop(&group->private->questions)))
        CRTI_CONTAINER(item, question_t, link)->group = NULL;
    if (core)
        crti_leave(core);
}
