/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the decoder of control messages, and the lists inside them. What it takes must go
 * through the encoder and come back the same. */
#include "fuzz.h"

#include <string.h>

#include "runtime/net/message.h"

static const crti_message_kind_t kinds[] = {
#define ENTRY(NAME, name, number) CRTI_MSG_##NAME,
    CRTI_MESSAGE_MAP(ENTRY)
#undef ENTRY
};

static void check_list(crti_span_t list)
{
    crti_span_t entry;

    while (crti_list_unpack(&list, &entry) == CRT_OK)
        if (entry.size && memchr(entry.data, 1, entry.size)) /* touch every byte */
            continue;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t again = {0};
    crti_message_t message, second;

    check_list(crti_span(data, size));
    if (crti_message_decode(data, size, &message) != CRT_OK)
        return 0;
    if (crti_message_encode(message.kind, message.request, &message.error, &again) !=
            CRT_OK ||
        crti_message_decode(again.data, again.size, &second) != CRT_OK ||
        second.kind != message.kind || second.request != message.request)
        abort();
    return 0;
}

/* Amounts at and beyond the edges: what a node says that it has, and what a lease asks for. */
static const int64_t amounts[] = {
    -100 * CRTI_RESOURCE_ONE, CRTI_RESOURCE_MAX, -CRTI_RESOURCE_MAX,
    CRTI_RESOURCE_MAX + 1,    INT64_MAX,         INT64_MIN};
#define KINDS   (sizeof(kinds) / sizeof(kinds[0]))
#define AMOUNTS (sizeof(amounts) / sizeof(amounts[0]))

static crti_message_kind_t with_amount(crti_message_t *message, unsigned index)
{
    crti_resources_t r = {.count = 1, .item = {{"CPU", amounts[index / 3]}}};

    if (index % 3 == 0)
        message->lease_request.resources = r;
    else if (index % 3 == 1)
        message->heartbeat.available = r;
    else
        message->node_register.resources = r;
    return index % 3 == 0   ? CRTI_MSG_LEASE_REQUEST
           : index % 3 == 1 ? CRTI_MSG_HEARTBEAT
                            : CRTI_MSG_NODE_REGISTER;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crti_message_kind_t kind;
    crti_message_t message;

    if (index >= KINDS + 3 * AMOUNTS)
        return 0;
    memset(&message, 0, sizeof(message));
    kind = index < KINDS ? kinds[index] : with_amount(&message, index - (unsigned)KINDS);
    if (index < KINDS && kind == CRTI_MSG_HEARTBEAT)
        crti_resources_parse("CPU=4,gpu=0.5", &message.heartbeat.available);
    if (crti_message_encode(kind, index * 1000000007ull, &message.error, &bytes) !=
        CRT_OK)
        abort();
    if (bytes.size > room)
        return 0;
    memcpy(out, bytes.data, bytes.size);
    return bytes.size;
}
