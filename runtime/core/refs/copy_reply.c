/* SPDX-License-Identifier: Apache-2.0 */
/* Copy query: the process that is asked. See copy_query.h. */
#include <stdlib.h>
#include <string.h>

#include "runtime/core/process/remotes.h"
#include "runtime/core/refs/copies.h"
#include "runtime/core/refs/copy_query.h"
#include "runtime/core/refs/refs_int.h"

/* A question that is answered when the pulls of these have ended. */
typedef struct question {
    crti_list_t link; /* core->refs->copy_queries */
    crti_peer_t *peer;
    uint64_t round;
    uint32_t count;
    uint64_t numbers[];
} question_t;

static void answer(crti_core_t *core, crti_peer_t *peer, uint64_t round)
{
    crti_id_t owner = crti_peer_process(peer);
    crti_remote_t *remote = crti_map_get(&core->remotes->table, &owner);
    crti_borrow_record_t reply = {.request = round};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t record = {0};

    if (crti_put_borrow(&record, CRTI_RECORD_COPY_REPLY, &reply) != CRT_OK)
        return;
    if (remote && remote->peer)
        crti_remote_send(core, remote, &record); /* behind the words of copies */
    else
        crti_peer_reply(core, peer, &record, CRTI_SEND_CONTROL);
}

static crt_ref_t *find(crti_core_t *core, const crti_peer_t *owner, uint64_t number)
{
    return crti_ref_borrowed(core, crti_peer_process(owner), number);
}

static void forget(question_t *question)
{
    crti_list_remove(&question->link);
    crti_peer_unref(question->peer);
    free(question);
}

/* An owner's next question says that it does not wait for the one before. */
static void forget_former(crti_core_t *core, const crti_peer_t *peer)
{
    CRTI_LIST_FOREACH_SAFE (item, &core->refs->copy_queries) {
        question_t *question = CRTI_CONTAINER(item, question_t, link);

        if (question->peer == peer)
            forget(question);
    }
}

static crt_status_t keep(crti_core_t *core, crti_peer_t *peer, uint64_t round,
                         const crti_buffer_t *numbers)
{
    question_t *question = malloc(sizeof(*question) + numbers->size);

    if (!question)
        return crt_raise(CRT_ERR_NO_MEMORY, "a question for copies");
    question->peer = crti_peer_ref(peer);
    question->round = round;
    question->count = (uint32_t)(numbers->size / sizeof(uint64_t));
    memcpy(question->numbers, numbers->data, numbers->size);
    crti_list_append(&core->refs->copy_queries, &question->link);
    return CRT_OK;
}

crt_status_t crti_copy_query_arrived(crti_core_t *core, crti_peer_t *peer,
                                     const void *data, size_t size)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t pulled = {0};
    crti_borrow_record_t seek;
    crt_status_t status = crti_get_borrow(data, size, &seek);

    for (uint32_t i = 0; status == CRT_OK && i < seek.count; i++) {
        uint64_t number = crti_number_at(seek.numbers, i);
        crt_ref_t *ref = find(core, peer, number);

        if (ref && ref->more->view.data)
            crti_ref_tell_copy(ref);
        else if (ref && ref->is_pulling)
            status = crti_buffer_append(&pulled, &number, sizeof(number));
    }
    if (status != CRT_OK)
        return status;
    forget_former(core, peer);
    if (pulled.size)
        return keep(core, peer, seek.request, &pulled);
    answer(core, peer, seek.request);
    return CRT_OK;
}

static bool is_pulling_any(crti_core_t *core, const question_t *question)
{
    for (uint32_t i = 0; i < question->count; i++) {
        const crt_ref_t *ref = find(core, question->peer, question->numbers[i]);

        if (ref && ref->is_pulling)
            return true;
    }
    return false;
}

void crti_copy_query_pull_ended(crti_core_t *core)
{
    CRTI_LIST_FOREACH_SAFE (item, &core->refs->copy_queries) {
        question_t *question = CRTI_CONTAINER(item, question_t, link);

        if (is_pulling_any(core, question))
            continue;
        answer(core, question->peer, question->round);
        forget(question);
    }
}

void crti_copy_query_end(crti_core_t *core)
{
    while (!crti_list_is_empty(&core->refs->copy_queries))
        forget(CRTI_CONTAINER(core->refs->copy_queries.next, question_t, link));
}
