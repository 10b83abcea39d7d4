/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the head: key-value store, state of the cluster. */
#include "runtime/core/client/kv.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/limit.h"
#include "runtime/core/client/cluster_view.h"

#define KEY_BYTES   255
#define VALUE_BYTES (1u << 20)

static crt_status_t ask(crti_message_kind_t request, const void *body,
                        crti_message_kind_t kind, crti_message_t *answer,
                        crti_buffer_t *storage)
{
    return crti_head_question(request, body, kind,
                              (int64_t)(CRTI_LIMIT(head_timeout) / CRTI_MS), answer,
                              storage);
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

static crt_status_t check_value(const void *value, size_t size)
{
    if (!value && size)
        return crt_raise(CRT_ERR_INVALID, "the value is NULL, of %zu bytes", size);
    if (size > VALUE_BYTES)
        return crt_raise(CRT_ERR_INVALID, "a value has up to 1 MiB, this one %zu bytes",
                         size);
    return CRT_OK;
}

/* Under an id of its own: however often the request is sent, it is carried out once. */
static crt_status_t swap(crti_msg_kv_swap_t *body, bool *swapped_out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_message_t answer;
    crt_status_t status;

    body->swap = crti_id_random();
    status = ask(CRTI_MSG_KV_SWAP, body, CRTI_MSG_KV_VALUE, &answer, &storage);
    if (status == CRT_OK)
        *swapped_out = answer.kv_value.found;
    return status;
}

static crt_status_t put_new(const char *key, const void *value, size_t size)
{
    crti_msg_kv_swap_t body = {
        .key = crti_str(key), .value = crti_span(value, size), .is_new = true};
    bool swapped;
    crt_status_t status = swap(&body, &swapped);

    return status == CRT_OK && !swapped
               ? crt_raise(CRT_ERR_EXISTS, "key %s is there already", key)
               : status;
}

crt_status_t crt_kv_put(const char *key, const void *value, size_t size, bool overwrite)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_msg_kv_put_t body = {crti_str(key), crti_span(value, size), true, 0};
    crti_message_t answer;
    crt_status_t status = check_key(key);

    if (status == CRT_OK)
        status = check_value(value, size);
    if (status != CRT_OK)
        return status;
    return overwrite ? ask(CRTI_MSG_KV_PUT, &body, CRTI_MSG_KV_VALUE, &answer, &storage)
                     : put_new(key, value, size);
}

crt_status_t crt_kv_get(const char *key, void **value_out, size_t *size_out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_msg_kv_get_t body = {crti_str(key), 0};
    crti_message_t answer;
    crt_status_t status = check_key(key);

    if (status == CRT_OK && !value_out)
        status = crt_raise(CRT_ERR_INVALID, "there is no place for the answer");
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
    crti_msg_kv_swap_t body = {.key = crti_str(key),
                               .expected = expected,
                               .value = value,
                               .is_deletion = value.size == 0};
    crt_status_t status = check_key(key);

    return status == CRT_OK ? swap(&body, swapped_out) : status;
}

crt_status_t crt_kv_swap(const char *key, const void *expected, size_t expected_size,
                         const void *value, size_t value_size, bool *swapped_out)
{
    crti_msg_kv_swap_t body = {.key = crti_str(key),
                               .expected = crti_span(expected, expected_size),
                               .value = crti_span(value, value_size),
                               .is_new = expected == NULL,
                               .is_deletion = value == NULL};
    crt_status_t status = check_key(key);

    if (status == CRT_OK)
        status = check_value(expected, expected_size);
    if (status == CRT_OK)
        status = check_value(value, value_size);
    if (status == CRT_OK && !swapped_out)
        status = crt_raise(CRT_ERR_INVALID, "there is no place for the answer");
    return status == CRT_OK ? swap(&body, swapped_out) : status;
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

/* ------------------------------------------------------------------ keys */

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The texts of a list, each with its final zero, in `texts`; how many there are. */
static size_t spread_texts(crti_span_t list, char *texts)
{
    crti_span_t key;
    size_t count = 0;

    while (crti_list_unpack(&list, &key) == CRT_OK) {
        memcpy(texts, key.data, key.size);
        texts[key.size] = '\0';
        texts += key.size + 1;
        count++;
    }
    return count;
}

static void join_sorted(const char **keys, size_t count, char *to)
{
    qsort(keys, count, sizeof(*keys), by_bytes);
    for (size_t i = 0; i < count; i++)
        to = stpcpy(to, keys[i]) + 1;
}

static crt_status_t sort_keys(crti_span_t list, char **keys_out, size_t *size_out)
{
    char *texts = malloc(list.size + 1), *joined = malloc(list.size + 1);
    size_t count = texts ? spread_texts(list, texts) : 0;
    const char **keys = malloc((count + 1) * sizeof(*keys)), *at = texts;

    for (size_t i = 0; keys && texts && i < count; i++, at += strlen(at) + 1)
        keys[i] = at;
    if (keys && texts && joined) {
        join_sorted(keys, count, joined);
        *size_out = (size_t)(at - texts);
        *keys_out = joined;
        joined = NULL;
    }
    free(texts);
    free(joined);
    free(keys);
    return *keys_out ? CRT_OK
                     : crt_raise(CRT_ERR_NO_MEMORY, "%zu bytes of keys", list.size);
}

crt_status_t crt_kv_keys(const char *prefix, char **keys_out, size_t *size_out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_span_t list = {0};
    crt_status_t status;

    if (!keys_out || !size_out)
        return crt_raise(CRT_ERR_INVALID, "there is no place for the keys");
    if (!prefix || strlen(prefix) > KEY_BYTES)
        return crt_raise(CRT_ERR_INVALID, "a prefix is a text of up to %d bytes",
                         KEY_BYTES);
    *keys_out = NULL;
    *size_out = 0;
    status = crti_kv_keys(prefix, &storage, &list);
    return status == CRT_OK && list.size ? sort_keys(list, keys_out, size_out) : status;
}

/* ------------------------------------------------------------------ state as JSON */

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
    crti_msg_state_query_t body = {.filter = crti_str("")};
    crti_message_t answer;
    crt_status_t status;
    void *text;

    if (!what || !json_out)
        return crt_raise(CRT_ERR_INVALID, what ? "there is no place for the answer"
                                               : "the name of the state is NULL");
    body.what = crti_str(own_name(what));
    status = ask(CRTI_MSG_STATE_QUERY, &body, CRTI_MSG_STATE_ANSWER, &answer, &storage);
    if (status == CRT_OK)
        status = copy_out(answer.state_answer.json, &text, NULL);
    if (status == CRT_OK)
        *json_out = text;
    return status;
}
