/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the node daemon whose answer is waited for. See context.h. */
#include <stdlib.h>

#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/node_link.h"

typedef struct asking {
    crti_message_t message;
    crti_buffer_t *storage;
    bool is_answered, is_broken, is_abandoned;
} asking_t;

/* The answer's spans point into the frame: everything is encoded again into the storage. */
static void keep_message(asking_t *asking, const crti_message_t *message)
{
    const void *body = &message->error; /* all bodies begin where the union does */

    if (crti_message_encode(message->kind, message->request, body, asking->storage) !=
            CRT_OK ||
        crti_message_decode(asking->storage->data, asking->storage->size,
                            &asking->message) != CRT_OK)
        asking->is_broken = true;
}

static void on_asked(void *user, const crti_message_t *message)
{
    asking_t *asking = user;

    if (asking->is_abandoned) {
        free(asking);
        return;
    }
    if (message)
        keep_message(asking, message);
    else
        asking->is_broken = true;
    asking->is_answered = true;
}

/* Questions wait for a head that is away; that it stayed away is another thing than that it is
 * slow. */
static crt_status_t no_answer(const crti_core_t *core, crti_message_kind_t kind,
                              int64_t timeout_ms)
{
    if (core->link->head_is_away)
        return crt_raise(CRT_ERR_HEAD_LOST,
                         "%s: the head can't be reached, and did not come back within "
                         "%lld ms",
                         crti_message_name(kind), (long long)timeout_ms);
    return crt_raise(CRT_ERR_TIMED_OUT, "%s was not answered within %lld ms",
                     crti_message_name(kind), (long long)timeout_ms);
}

static bool is_asked(void *user)
{
    return ((asking_t *)user)->is_answered;
}

crt_status_t crti_node_ask(crti_core_t *core, crti_message_kind_t kind, const void *body,
                           int64_t timeout_ms, crti_message_t *answer_out,
                           crti_buffer_t *storage)
{
    asking_t *asking = calloc(1, sizeof(*asking));
    crt_status_t status;

    if (!asking)
        return crt_raise(CRT_ERR_NO_MEMORY, "a request to the node");
    asking->storage = storage;
    status = crti_node_request(core, kind, body, on_asked, asking);
    if (status != CRT_OK) {
        free(asking);
        return status;
    }
    status = crti_wait_for(core, is_asked, asking, timeout_ms, NULL,
                           "the answer of the node or the head");
    if (!asking->is_answered) {
        asking->is_abandoned =
            true; /* freed when the answer or the end of the link comes */
        return status == CRT_ERR_TIMED_OUT ? no_answer(core, kind, timeout_ms) : status;
    }
    *answer_out = asking->message;
    if (asking->is_broken)
        status = core->broken != CRT_OK ? crti_core_check(core)
                                        : crt_raise(CRT_ERR_CLOSED, "no answer to %s",
                                                    crti_message_name(kind));
    else if (asking->message.kind == CRTI_MSG_ERROR)
        status = crti_channel_raise(&asking->message.error);
    free(asking);
    return status;
}
