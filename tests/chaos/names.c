/* SPDX-License-Identifier: Apache-2.0 */
/* What the head keeps: named actors, made by whoever misses one, and a value that counts up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "account.h"
#include "ledger.h"
#include "load.h"

#define NAMES    3
#define PAUSE_NS 30000000

typedef struct value {
    char key[32];
    int64_t stored;    /* acknowledged, or read */
    int64_t attempted; /* what a put without a good answer may have left */
    bool is_suspect, is_read;
} value_t;

static const char *name_of(int index, char text[16])
{
    snprintf(text, 16, "teller-%d", index);
    return text;
}

/* Fixed, so that all drivers write down the same. */
static uint64_t id_of(int index)
{
    return UINT64_C(0x7e11e50000000000) + (uint64_t)index;
}

/* ---------------------------------------------------------------- named actors */

static crt_actor_t *make_teller(int index)
{
    char name[16];

    return crt_actor_new(&account_class,
                         CRT_ACTOR_OPTIONS(.resources = "spot=1", .detached = true,
                                           .name = name_of(index, name),
                                           .max_restarts = -1),
                         (int64_t)id_of(index));
}

static void find_teller(load_t *load, int index, load_actor_t *teller)
{
    char name[16];
    crt_status_t status;

    load_beat(load, "crt_actor_find");
    status = crt_actor_find(name_of(index, name), NULL, &account_class, &teller->handle);
    if (status == CRT_ERR_NOT_FOUND)
        teller->handle = make_teller(index);
    else if (status != CRT_OK)
        load_count(load, "crt_actor_find", status, crt_error_detail());
}

static void add_at(load_t *load, int index, load_actor_t *teller)
{
    ledger_record_t record = {.kind = LEDGER_ASK,
                              .origin = load->origin,
                              .number = ++load->numbers,
                              .target = id_of(index),
                              .value = (int64_t)load_random(load, 1000)};
    const crt_error_t *error;
    int64_t sum = 0;
    crt_status_t status;
    crt_ref_t *ref;

    load_beat(load, "a call to a named actor");
    ledger_write(record);
    ref = crt_call(teller->handle, &account_add, (int64_t)record.origin,
                   (int64_t)record.number, record.value);
    status = account_get(ref, CRT_OUT(&sum));
    error = crt_ref_error(ref);
    record.kind = LEDGER_END;
    record.status = (int32_t)status;
    record.may_have_run = status != CRT_OK && (!error || error->may_have_run);
    record.result = sum;
    ledger_write(record);
    /* Two drivers may make the same name at once; one of them is too late. */
    if (status == CRT_ERR_EXISTS)
        load->failed[-CRT_ERR_EXISTS]++;
    else
        load_count(load, "named add", status, crt_error_detail());
    if (status != CRT_OK)
        crt_actor_drop(&teller->handle);
    crt_ref_drop(&ref);
}

/* ---------------------------------------------------------------- a value */

static void read_value(load_t *load, value_t *v)
{
    void *bytes = NULL;
    size_t size = 0;
    int64_t found = 0;
    crt_status_t status;

    load_beat(load, "crt_kv_get");
    status = crt_kv_get(v->key, &bytes, &size);
    if (status != CRT_OK && status != CRT_ERR_NOT_FOUND) {
        load_count(load, "crt_kv_get", status, crt_error_detail());
        return;
    }
    if (size == sizeof(found))
        memcpy(&found, bytes, size);
    crt_free(bytes);
    if (v->is_read && found != v->stored && !(v->is_suspect && found == v->attempted))
        load_finding("wrong: %s is %lld, and %lld was acknowledged", v->key,
                     (long long)found, (long long)v->stored);
    v->stored = found;
    v->is_suspect = false;
    v->is_read = true;
}

static void write_value(load_t *load, value_t *v)
{
    crt_status_t status;

    load_beat(load, "crt_kv_put");
    v->attempted = v->stored + 1;
    status = crt_kv_put(v->key, &v->attempted, sizeof(v->attempted), true);
    if (status == CRT_OK) {
        v->stored = v->attempted;
        return;
    }
    v->is_suspect = true;
    load_count(load, "crt_kv_put", status, crt_error_detail());
}

/* Own node or job gone: whatever is asked of them from now on fails. */
static void look_whether_lost(load_t *load)
{
    crt_status_t status;
    void *bytes = NULL;
    size_t size;

    load_beat(load, "crt_kv_get of nothing");
    status = crt_kv_get("chaos-nothing", &bytes, &size);
    crt_free(bytes);
    if (status == CRT_ERR_NODE_LOST || status == CRT_ERR_CANCELLED) {
        if (!atomic_exchange(&load_is_lost, true))
            printf("lost: %s\n", crt_error_detail());
    }
}

void *names_main(void *user)
{
    load_t *load = user;
    load_actor_t tellers[NAMES] = {0};
    value_t value = {0};

    snprintf(value.key, sizeof(value.key), "chaos-%s", load->role);
    while (!atomic_load(&load_is_over) && !atomic_load(&load_is_lost)) {
        int index = (int)load_random(load, NAMES);

        if (!tellers[index].handle)
            find_teller(load, index, &tellers[index]);
        if (tellers[index].handle)
            add_at(load, index, &tellers[index]);
        if (load_random(load, 4) == 0 && value.is_read && !value.is_suspect)
            write_value(load, &value);
        else
            read_value(load, &value);
        look_whether_lost(load);
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
    }
    for (int i = 0; i < NAMES; i++)
        crt_actor_drop(&tellers[i].handle);
    load_beat(load, "has ended");
    return NULL;
}

bool names_end(void)
{
    static const char *const keys[] = {"chaos-driver-a", "chaos-driver-b"};
    bool all = true;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        crt_kv_delete(keys[i]);

    for (int i = 0; i < NAMES; i++) {
        crt_actor_t *teller = NULL;
        char name[16];
        crt_status_t status =
            crt_actor_find(name_of(i, name), NULL, &account_class, &teller);

        if (status == CRT_OK)
            status = crt_actor_kill(teller, NULL);
        crt_actor_drop(&teller);
        if (status != CRT_OK && status != CRT_ERR_NOT_FOUND) {
            load_finding("%s can't be ended: %s", name, crt_error_detail());
            all = false;
        }
    }
    return all;
}
