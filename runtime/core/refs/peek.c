/* SPDX-License-Identifier: Apache-2.0 */
/* Peek. See peek.h. */
#include "runtime/core/refs/peek.h"

#include "runtime/core/refs/refs_int.h"

/* ------------------------------------------------------------------ the borrower */

/* Who reads on does not wait yet, and would let it lie until then. */
static void send_now(crti_core_t *core, crti_remote_t *owner, const crti_buffer_t *peek)
{
    struct iovec part = {peek->data, peek->size};

    (void)crti_net_send(core->net, owner->peer, &part, 1,
                        CRTI_SEND_CONTROL | CRTI_SEND_NOW, CRTI_NET_NO_DEADLINE, NULL);
}

typedef struct question {
    uint64_t numbers[CRTI_PEEK_MAX];
    uint32_t count, most;
} question_t;

/* Those behind `from`, which is one of them or the list itself. */
static void add_singles(question_t *q, crti_remote_t *owner, crti_list_t *from)
{
    while (q->count < q->most && from->next != &owner->unasked) {
        crt_ref_t *next = CRTI_CONTAINER(from->next, crt_ref_t, unasked);

        q->numbers[q->count++] = next->number;
        crti_peek_may_not(next);
    }
}

/* The refs are not looked at, which takes less memory through the caches. */
static void add_of_block(question_t *q, crti_ref_block_t *block, uint32_t among)
{
    uint64_t first = (block->key - 1) * CRTI_REF_BLOCK;

    for (uint32_t bits = block->may_peek & among; bits && q->count < q->most;
         bits &= bits - 1) {
        q->numbers[q->count++] = first + (unsigned)__builtin_ctz(bits);
        block->may_peek &= ~(bits & -bits);
    }
    if (!block->may_peek)
        crti_list_remove(&block->unasked);
}

static void add_blocks(question_t *q, crti_remote_t *owner, crti_list_t *item)
{
    while (q->count < q->most && item != &owner->unasked_blocks) {
        crti_list_t *next = item->next;

        add_of_block(q, CRTI_CONTAINER(item, crti_ref_block_t, unasked), UINT32_MAX);
        item = next;
    }
}

static void ask(crti_core_t *core, crti_remote_t *owner, const question_t *q)
{
    crti_buffer_t out;

    if (q->count == 0)
        return;
    out = crti_scratch_take(core);
    if (crti_remote_connect(core, owner) == CRT_OK &&
        crti_put_peek(&out, q->numbers, q->count) == CRT_OK)
        send_now(core, owner, &out);
    crti_scratch_give(core, &out);
}

/* In the order in which they arrived, as far as it is known. */
void crti_peek_ahead(crt_ref_t *ref)
{
    crti_remote_t *owner = ref->owner;
    question_t q;

    if (!crti_peek_is_unasked(ref))
        return;
    q.count = 0;
    q.most = CRTI_PEEK_FIRST;
    if (ref->is_in_block) {
        crti_ref_block_t *block = crti_borrowed_block_of(ref);
        crti_list_t *next = block->unasked.next;

        add_of_block(&q, block, ~(2 * crti_borrowed_bit(ref->number) - 1));
        add_blocks(&q, owner, next);
        add_singles(&q, owner, &owner->unasked);
    } else {
        add_singles(&q, owner, &ref->unasked);
        add_blocks(&q, owner, owner->unasked_blocks.next);
    }
    ask(ref->core, owner, &q);
}

void crti_peek_behind(crti_core_t *core, crti_remote_t *owner, unsigned questions)
{
    question_t q;

    for (; questions > 0; questions--) {
        q.count = 0;
        q.most = CRTI_PEEK_MAX;
        add_blocks(&q, owner, owner->unasked_blocks.next);
        add_singles(&q, owner, &owner->unasked);
        ask(core, owner, &q);
    }
}

/* Refs that are looked at side by side, so that memory is waited for once and not for each. */
#define TOGETHER 8

/* Its content may have come another way by now. */
static void take(crt_ref_t *ref, const crti_result_t *result, bool is_mark)
{
    if (ref->content != CRTI_CONTENT_NONE)
        return;
    if (is_mark)
        atomic_store_explicit(&ref->is_peek_mark, true, memory_order_relaxed);
    crti_ref_take_result(ref, result, false);
}

/* Of the answers from `first` on. Nobody is told of one before all are taken: that may end
 * others. */
static void take_several(crti_remote_t *owner, const uint64_t *numbers,
                         const crti_result_t *results, unsigned first, unsigned count)
{
    crt_ref_t *refs[TOGETHER];

    for (unsigned i = 0; i < count; i++) {
        refs[i] = crti_borrowed_get(owner, numbers[i]);
        if (refs[i])
            crti_ref_prefetch(refs[i]);
    }
    for (unsigned i = 0; i < count; i++)
        if (refs[i])
            take(refs[i], &results[i], first + i == CRTI_PEEK_FIRST);
}

crt_status_t crti_peek_answered(crti_core_t *core, crti_remote_t *owner, const void *data,
                                size_t size)
{
    crti_reader_t peeked = crti_read_peeked(data, size);
    crti_result_t results[TOGETHER];
    uint64_t numbers[TOGETHER];
    unsigned first = 0, count;
    bool is_there = true;
    crt_status_t status = CRT_OK;

    for (; status == CRT_OK && is_there; first += count) {
        count = 0;

        while (count < TOGETHER &&
               (status = crti_next_peeked(&peeked, &is_there, &numbers[count],
                                          &results[count])) == CRT_OK &&
               is_there)
            crti_borrowed_prefetch(owner, numbers[count++]);
        take_several(owner, numbers, results, first, count);
    }
    return status;
}

/* ------------------------------------------------------------------ the owner */

/* Of what is forwarded, and of what is long, is told to those who ask for it. */
static bool is_told(const crt_ref_t *ref)
{
    return ref && !ref->more->forward && ref->content != CRTI_CONTENT_NONE &&
           (ref->content != CRTI_CONTENT_INLINE || ref->size <= CRTI_PEEK_VALUE);
}

static crt_status_t put(crti_buffer_t *out, crt_ref_t *ref)
{
    crti_buffer_t nodes = {0};
    crti_result_t result;
    crt_status_t status;

    if (ref->content == CRTI_CONTENT_INLINE &&
        crti_value_is_flat(crti_ref_bytes(ref), ref->size)) {
        crti_owned_tell(&ref->owned);
        return crti_put_peeked_flat(out, ref->number, crti_ref_bytes(ref), ref->size);
    }
    crti_ref_describe(ref, &result, &nodes);
    status = crti_put_peeked(out, ref->number, &result);
    crti_buffer_fini(&nodes);
    return status;
}

static void look_ahead(crti_core_t *core, const void *numbers, uint32_t from,
                       uint32_t count)
{
    const crti_numbers_t *owned = &core->refs->owned;

    for (uint32_t i = from + TOGETHER; i < from + 2 * TOGETHER && i < count; i++)
        crti_numbers_prefetch(owned, crti_number_at(numbers, i));
    for (uint32_t i = from; i < from + TOGETHER && i < count; i++) {
        const crt_ref_t *ref = crti_numbers_get(owned, crti_number_at(numbers, i));

        if (ref)
            crti_ref_prefetch(ref);
    }
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
        crt_ref_t *ref;

        if (i % TOGETHER == 0)
            look_ahead(core, numbers, i, count);
        ref = crti_numbers_get(&core->refs->owned, crti_number_at(numbers, i));
        if (is_told(ref))
            status = put(&out, ref);
    }
    if (status == CRT_OK && out.size > 1)
        (void)crti_peer_reply(core, client->peer, &out, CRTI_SEND_TRY);
    crti_scratch_give(core, &out);
    return CRT_OK;
}
