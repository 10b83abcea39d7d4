/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the head: key-value store, state of the cluster. */
#include "runtime/core/client/kv.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/core/core.h"

#define KEY_BYTES   255
#define VALUE_BYTES (1u << 20)
#define PATIENCE_MS 30000

/* One request; the answer must be of `kind`. */
static crt_status_t ask(crti_message_kind_t request, const void *body,
                        crti_message_kind_t kind, crti_message_t *answer,
                        crti_buffer_t *storage)
{
    crti_core_t *core = crti_enter();
    crt_status_t status;

    if (!core)
        return crti_entry_status();
    status = crti_node_ask(core, request, body, PATIENCE_MS, answer, storage);
    crti_leave(core);
    if (status == CRT_OK && answer->kind != kind)
        return crt_raise(CRT_ERR_PROTOCOL, "%s was answered with %s",
                         crti_message_name(request), crti_message_name(answer->kind));
    return status;
}

static crt_status_t check_key(const char *key)
{
    if (!key || !*key || strlen(key) > KEY_BYTES)
        return crt_raise(CRT_ERR_INVALID, "a key is a text of 1 to %d bytes", KEY_BYTES);
    return CRT_OK;
}

static crt_status_t copy_out(crti_span_t from, void **to_out, size_t *size_out)
{
    char *copy = malloc(from.size + 1);

    if (!copy)
        return crt_raise(CRT_ERR_NO_MEMORY, "an answer of %zu bytes", from.size);
    if (from.size)
        memcpy(copy, from.data, from.size);
    copy[from.size] = '\0';
    *to_out = copy;
    if (size_out)
        *size_out = from.size;
    return CRT_OK;
}

crt_status_t crt_kv_put(const char *key, const void *value, size_t size, bool overwrite)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_msg_kv_put_t body = {crti_str(key), crti_span(value, size), overwrite, 0};
    crti_message_t answer;
    crt_status_t status = check_key(key);

    if (status != CRT_OK)
        return status;
    if ((!value && size) || size > VALUE_BYTES)
        return crt_raise(CRT_ERR_INVALID, "a value has up to 1 MiB, this one %zu bytes",
                         size);
    status = ask(CRTI_MSG_KV_PUT, &body, CRTI_MSG_KV_VALUE, &answer, &storage);
    if (status == CRT_OK && answer.kv_value.found && !overwrite)
        return crt_raise(CRT_ERR_EXISTS, "key %s is there already", key);
    return status;
}

crt_status_t crt_kv_get(const char *key, void **value_out, size_t *size_out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_msg_kv_get_t body = {crti_str(key), 0};
    crti_message_t answer;
    crt_status_t status = check_key(key);

    if (status == CRT_OK)
        status = ask(CRTI_MSG_KV_GET, &body, CRTI_MSG_KV_VALUE, &answer, &storage);
    if (status == CRT_OK && !answer.kv_value.found)
        return crt_raise(CRT_ERR_NOT_FOUND, "there is no key %s", key);
    return status == CRT_OK ? copy_out(answer.kv_value.value, value_out, size_out)
                            : status;
}

crt_status_t crt_kv_delete(const char *key)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_msg_kv_delete_t body = {crti_str(key), 0};
    crti_message_t answer;
    crt_status_t status = check_key(key);

    if (status == CRT_OK)
        status = ask(CRTI_MSG_KV_DELETE, &body, CRTI_MSG_KV_VALUE, &answer, &storage);
    if (status == CRT_OK && !answer.kv_value.found)
        return crt_raise(CRT_ERR_NOT_FOUND, "there is no key %s", key);
    return status;
}

crt_status_t crti_kv_swap(const char *key, crti_span_t expected, crti_span_t value,
                          bool *swapped_out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_msg_kv_swap_t body = {crti_str(key), expected, value, 0};
    crti_message_t answer;
    crt_status_t status = check_key(key);

    if (status == CRT_OK)
        status = ask(CRTI_MSG_KV_SWAP, &body, CRTI_MSG_KV_VALUE, &answer, &storage);
    if (status == CRT_OK)
        *swapped_out = answer.kv_value.found;
    return status;
}

crt_status_t crti_kv_keys(const char *prefix, crti_buffer_t *storage,
                          crti_span_t *list_out)
{
    crti_msg_kv_keys_t body = {crti_str(prefix), 0};
    crti_message_t answer;
    crt_status_t status;

    crti_buffer_fini(storage); /* it may hold an earlier list */
    status = ask(CRTI_MSG_KV_KEYS, &body, CRTI_MSG_KV_VALUE, &answer, storage);

    if (status == CRT_OK)
        *list_out = answer.kv_value.value;
    return status;
}

/* The state commands have other names for some lists. */
static const char *own_name(const char *what)
{
    static const char *const names[][2] = {{"placement-groups", "placement_groups"},
                                           {"cluster-events", "events"},
                                           {"cluster_events", "events"}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(what, names[i][0]) == 0)
            return names[i][1];
    return what;
}

crt_status_t crt_cluster_state(const char *what, char **json_out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_msg_state_query_t body = {crti_str(own_name(what)), crti_str(""), 0};
    crti_message_t answer;
    crt_status_t status =
        ask(CRTI_MSG_STATE_QUERY, &body, CRTI_MSG_STATE_ANSWER, &answer, &storage);
    void *text;

    if (status == CRT_OK)
        status = copy_out(answer.state_answer.json, &text, NULL);
    if (status == CRT_OK)
        *json_out = text;
    return status;
}
