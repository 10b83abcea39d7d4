/* SPDX-License-Identifier: Apache-2.0 */
/* Peek. See peek.h. */
#include "runtime/core/refs/peek.h"

/* ------------------------------------------------------------------ the borrower */

void crti_peek_ahead(crt_ref_t *ref)
{
    crti_core_t *core = ref->core;
    crti_list_t *unasked = &ref->owner->unasked;
    uint64_t numbers[CRTI_PEEK_MAX];
    crti_buffer_t out;
    uint32_t count = 0;

    if (!ref->may_peek || ref->turn.next == unasked)
        return;
    while (count < CRTI_PEEK_MAX && ref->turn.next != unasked) {
        crt_ref_t *next = CRTI_CONTAINER(ref->turn.next, crt_ref_t, turn);

        numbers[count++] = next->id.number;
        crti_peek_may_not(next);
    }
    out = crti_scratch_take(core);
    if (crti_remote_connect(core, ref->owner) == CRT_OK &&
        crti_put_peek(&out, numbers, count) == CRT_OK)
        crti_remote_send(core, ref->owner, &out);
    crti_scratch_give(core, &out);
}

/* Its content may have come another way by now. */
static void take(crti_core_t *core, const crti_object_id_t *id,
                 const crti_result_t *result)
{
    crt_ref_t *ref = crti_map_get(&core->refs.borrowed, id);

    if (ref && ref->content == CRTI_CONTENT_NONE)
        crti_ref_set_result(ref, result, false);
}

crt_status_t crti_peek_answered(crti_core_t *core, const crti_remote_t *owner,
                                const void *data, size_t size)
{
    crti_object_id_t id = {.owner = owner->address.process};
    crti_reader_t peeked = crti_read_peeked(data, size);
    crti_result_t result;
    bool is_there;
    crt_status_t status;

    while ((status = crti_next_peeked(&peeked, &is_there, &id.number, &result)) ==
               CRT_OK &&
           is_there)
        take(core, &id, &result);
    return status;
}

/* ------------------------------------------------------------------ the owner */

/* Of what is forwarded, and of what is long, is told to those who ask for it. */
static bool is_told(const crt_ref_t *ref)
{
    return ref && !ref->forward && ref->content != CRTI_CONTENT_NONE &&
           (ref->content != CRTI_CONTENT_INLINE || ref->size <= CRTI_PEEK_VALUE);
}

static crt_status_t put(crti_buffer_t *out, crt_ref_t *ref)
{
    crti_buffer_t nodes = {0};
    crti_result_t result;
    crt_status_t status;

    crti_ref_describe(ref, &result, &nodes);
    status = crti_put_peeked(out, ref->id.number, &result);
    crti_buffer_fini(&nodes);
    return status;
}

crt_status_t crti_peek_asked(crti_client_t *client, const void *data, size_t size)
{
    crti_core_t *core = client->core;
    const void *numbers;
    uint32_t count;
    crt_status_t status = crti_get_peek(data, size, &numbers, &count);
    crti_buffer_t out;

    if (status != CRT_OK)
        return status;
    if (!crti_list_is_empty(&client->answers)) /* these have waited longer */
        return CRT_OK;
    out = crti_scratch_take(core);
    status = crti_begin_peeked(&out);
    for (uint32_t i = 0; i < count && status == CRT_OK && out.size < CRTI_PEEK_BYTES;
         i++) {
        crt_ref_t *ref = crti_numbers_get(&core->refs.owned, crti_number_at(numbers, i));

        if (is_told(ref))
            status = put(&out, ref);
    }
    if (status == CRT_OK && out.size > 1)
        (void)crti_peer_reply(core, client->peer, &out, CRTI_SEND_TRY);
    crti_scratch_give(core, &out);
    return CRT_OK;
}
