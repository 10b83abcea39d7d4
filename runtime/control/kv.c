/* SPDX-License-Identifier: Apache-2.0 */
/* The users' key-value store: checked here, kept in the store only. See control.h. */
#include <string.h>

#include "runtime/control/control_state.h"
#include "runtime/control/kv.h"
#include "runtime/control/outbox.h"

#define KEY_MAX   ((size_t)4096)
#define VALUE_MAX ((size_t)1 << 20)

static crt_status_t check_key(crti_span_t key)
{
    if (key.size == 0 || key.size > KEY_MAX)
        return crt_raise(CRT_ERR_INVALID, "a key has 1 to %zu bytes, not %zu", KEY_MAX,
                         key.size);
    return CRT_OK;
}

/* ---------------------------------------------------------------- groups */

/* Whether the key is about the groups of a job, and of which. */
static bool is_of_groups(crti_span_t key, crti_id_t *job_out)
{
    char hex[CRTI_ID_HEX];
    const size_t before = sizeof(CRTI_GROUPS) - 1, id_size = sizeof(hex) - 1;

    if (key.size <= before + id_size || memcmp(key.data, CRTI_GROUPS, before) != 0 ||
        ((const char *)key.data)[before + id_size] != '/')
        return false;
    memcpy(hex, (const char *)key.data + before, id_size);
    hex[id_size] = '\0';
    return crti_id_parse(hex, job_out);
}

static bool is_over(const crti_job_entry_t *job)
{
    return crti_job_entry_is_ended(job) && job->actors == 0;
}

/* Whoever of an ended job still runs leaves nothing behind. */
static crt_status_t check_groups(const crti_control_t *c, crti_span_t key)
{
    crti_id_t id;
    crti_job_entry_t *job;
    char hex[CRTI_ID_HEX];

    if (!is_of_groups(key, &id))
        return CRT_OK;
    job = crti_job_table_get(&c->jobs, id);
    if (job == NULL || is_over(job))
        return crt_raise(CRT_ERR_CANCELLED, "job %s %s", crti_id_hex(id, hex),
                         job ? "has ended" : "is not known");
    job->has_groups = true; /* its row says so when it ends */
    return CRT_OK;
}

void crti_control_clear_groups_of(crti_control_t *c, crti_id_t job)
{
    char prefix[sizeof(CRTI_GROUPS) + CRTI_ID_HEX + 1], hex[CRTI_ID_HEX];

    snprintf(prefix, sizeof(prefix), CRTI_GROUPS "%s/", crti_id_hex(job, hex));
    crti_control_clear_values(c, crti_str(prefix), job);
}

void crti_control_clear_groups(crti_control_t *c, const crti_job_entry_t *job)
{
    if (job->has_groups && is_over(job))
        crti_control_clear_groups_of(c, job->id);
}

/* ---------------------------------------------------------------- requests */

static crti_store_operation_t operation_of(const crti_message_t *m)
{
    switch (m->kind) {
    case CRTI_MSG_KV_PUT:
        return (crti_store_operation_t){.verb = m->kv_put.overwrite ? CRTI_STORE_PUT
                                                                    : CRTI_STORE_PUT_NEW,
                                        .key = m->kv_put.key,
                                        .value = m->kv_put.value};
    case CRTI_MSG_KV_SWAP:
        return (crti_store_operation_t){
            .verb = CRTI_STORE_SWAP,
            .key = m->kv_swap.key,
            .value = m->kv_swap.value,
            .expected = m->kv_swap.expected,
            .swap = {m->kv_swap.swap, m->kv_swap.is_new, m->kv_swap.is_deletion}};
    case CRTI_MSG_KV_DELETE:
        return (crti_store_operation_t){.verb = CRTI_STORE_DELETE,
                                        .key = m->kv_delete.key};
    case CRTI_MSG_KV_KEYS:
        return (crti_store_operation_t){.verb = CRTI_STORE_KEYS,
                                        .key = m->kv_keys.prefix};
    default:
        return (crti_store_operation_t){.verb = CRTI_STORE_GET, .key = m->kv_get.key};
    }
}

static bool writes(crti_store_verb_t verb)
{
    return verb <= CRTI_STORE_PUT_NEW || verb == CRTI_STORE_SWAP;
}

void crti_control_kv(crti_control_t *c, uint64_t link, const crti_message_t *m)
{
    const crti_store_operation_t o = operation_of(m);
    crt_status_t status = CRT_OK;

    if (o.value.size > VALUE_MAX)
        status = crt_raise(CRT_ERR_TOO_LARGE, "a value of %zu bytes, at most %zu fit",
                           o.value.size, VALUE_MAX);
    if (status == CRT_OK && o.verb != CRTI_STORE_KEYS)
        status = check_key(o.key);
    if (status == CRT_OK && writes(o.verb))
        status = check_groups(c, o.key);
    if (status != CRT_OK)
        crti_control_refuse(c, link, m->request, status);
    else
        crti_control_store_value(c, &o, link, m->request);
}

void crti_control_kv_done(crti_control_t *c, const crti_inflight_t *operation,
                          crt_status_t status, const char *text, bool found,
                          crti_span_t value)
{
    crti_msg_kv_value_t answer = {.found = found, .value = value};

    if (operation->request == 0)
        return;
    if (status == CRT_OK && value.size > CRTI_MESSAGE_MAX - 1024)
        status = crt_raise(CRT_ERR_TOO_LARGE, "the answer has %zu bytes", value.size);
    else if (status != CRT_OK)
        crt_raise(status, "%s", text);
    if (status != CRT_OK)
        crti_control_refuse(c, operation->link, operation->request, status);
    else
        crti_control_answer(c, operation->link, CRTI_MSG_KV_VALUE, operation->request,
                            &answer, false);
}
