/* SPDX-License-Identifier: Apache-2.0 */
/* Locating. See locating.h. */
#include "runtime/core/refs/locating.h"

#include <stdlib.h>

#include "runtime/core/process/remotes.h"
#include "runtime/core/refs/missing.h"
#include "runtime/core/refs/refs_int.h"
#include "runtime/core/refs/value_of.h"
#include "runtime/net/message.h"

/* Questions of one process for objects that were freed: what a break may leave it with. */
#define FREED_MAX 65536

/* A question that is not answered yet; in client->asked. */
typedef struct question {
    crti_waiting_t waiting; /* for the object's content; then in client->answers */
    crti_client_t *client;
    uint64_t number;
} question_t;

static void forget(question_t *question)
{
    crti_list_remove(&question->waiting.link);
    crti_map_remove(&question->client->asked, &question->number);
    free(question);
}

/* `ref` has content; NULL: it is freed. CRT_ERR_BACKPRESSURE: there is no room. */
static crt_status_t answer(const crti_client_t *client, uint64_t number, crt_ref_t *ref)
{
    crti_core_t *core = client->core;
    crti_buffer_t record = crti_scratch_take(core), nodes = {0};
    crti_result_t result = {
        .form = CRTI_RESULT_ERROR,
        .failure = {.status = CRT_ERR_OBJECT_LOST,
                    .text = crti_str("its owner has freed the object already"),
                    .node = core->node}};
    crt_status_t status;

    if (ref)
        crti_ref_describe(ref, &result, &nodes);
    status = crti_put_result(&record, CRTI_RECORD_LOCATED, number, &result, NULL);
    if (status == CRT_OK)
        status = crti_peer_reply(core, client->peer, &record, CRTI_SEND_TRY);
    crti_buffer_fini(&nodes);
    crti_scratch_give(core, &record);
    return status;
}

/* False: it stays. Another failure than a full window is the end of the session, told later. */
static bool try_to_answer(question_t *question, crt_ref_t *ref)
{
    if (answer(question->client, question->number, ref) == CRT_ERR_BACKPRESSURE)
        return false;
    forget(question);
    return true;
}

/* In their order: no question is overtaken for ever. */
static void on_ready(crti_waiting_t *waiting, crt_ref_t *ref)
{
    question_t *question = CRTI_CONTAINER(waiting, question_t, waiting);
    crti_list_t *answers = &question->client->answers;

    if (!crti_list_is_empty(answers) || !try_to_answer(question, ref))
        crti_list_append(answers, &waiting->link);
}

static crt_status_t keep(crti_client_t *client, uint64_t number,
                         question_t **question_out)
{
    size_t objects = client->core->refs->owned.count;
    question_t *question;
    crt_status_t status;

    if (client->asked.count >= objects + FREED_MAX)
        return crt_raise(CRT_ERR_PROTOCOL,
                         "%zu questions are open for objects of a process that has %zu",
                         client->asked.count, objects);
    question = calloc(1, sizeof(*question));
    if (!question)
        return crt_raise(CRT_ERR_NO_MEMORY, "a question for an object");
    *question = (question_t){{.on_ready = on_ready}, client, number};
    crti_list_init(&question->waiting.link);
    status = crti_map_put(&client->asked, &number, question);
    if (status != CRT_OK) {
        free(question);
        return status;
    }
    *question_out = question;
    return CRT_OK;
}

crt_status_t crti_locating_asked(crti_client_t *client, const void *data, size_t size)
{
    uint64_t missed, number;
    crt_status_t status = crti_get_locate(data, size, &missed, &number);
    question_t *question;
    bool is_known;
    crt_ref_t *ref;

    if (status != CRT_OK)
        return status;
    ref = crti_numbers_get(&client->core->refs->owned, number);
    if (ref && ref->more->forward && ref->content == CRTI_CONTENT_STORED)
        crti_missing_ask_target(ref); /* for those who ask again */
    if (ref && missed)
        crti_ref_missed_by_borrower(ref, missed);
    if (crti_map_get(&client->asked, &number))
        return CRT_OK;
    is_known = !ref || ref->content != CRTI_CONTENT_NONE;
    if (is_known && crti_list_is_empty(&client->answers) &&
        answer(client, number, ref) != CRT_ERR_BACKPRESSURE)
        return CRT_OK;
    status = keep(client, number, &question);
    if (status != CRT_OK)
        return status;
    if (is_known)
        crti_list_append(&client->answers, &question->waiting.link);
    else
        crti_value_await(ref, &question->waiting, false);
    return CRT_OK;
}

void crti_locating_go_on(crti_client_t *client)
{
    while (!crti_list_is_empty(&client->answers)) {
        crti_list_t *link = client->answers.next;
        question_t *question = CRTI_CONTAINER(CRTI_CONTAINER(link, crti_waiting_t, link),
                                              question_t, waiting);
        crt_ref_t *ref = crti_numbers_get(&client->core->refs->owned, question->number);

        if (ref && ref->content == CRTI_CONTENT_NONE) { /* it is missing since */
            crti_list_remove(link);
            crti_value_await(ref, &question->waiting, false);
        } else if (!try_to_answer(question, ref)) {
            return;
        }
    }
}

void crti_locating_end(crti_client_t *client)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&client->asked, &cursor, NULL, &value)) {
        question_t *question = value;

        crti_list_remove(&question->waiting.link);
        free(question);
    }
    crti_map_fini(&client->asked);
}
