/* SPDX-License-Identifier: Apache-2.0 */
/* Rosters and arrivals as bytes: numbers little endian, texts with their length. See roster.h. */
#include "collective/roster.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC_ROSTER  UINT64_C(0x3352544c4c4f4343) /* "CCOLLTR3" */
#define MAGIC_ARRIVAL UINT64_C(0x3341544c4c4f4343)

/* ---------------------------------------------------------------- writing */

typedef struct writer {
    crti_buffer_t *bytes;
    crt_status_t status;
} writer_t;

static void put_bytes(writer_t *w, const void *data, size_t size)
{
    if (w->status == CRT_OK)
        w->status = crti_buffer_append(w->bytes, data, size);
}

static void put(writer_t *w, uint64_t value)
{
    value = htole64(value);
    put_bytes(w, &value, sizeof(value));
}

static void put_text(writer_t *w, const char *text)
{
    put(w, strlen(text));
    put_bytes(w, text, strlen(text));
}

static void put_id(writer_t *w, crti_id_t id)
{
    unsigned char packed[16];

    crti_id_pack(id, packed);
    put_bytes(w, packed, sizeof(packed));
}

static void put_member(writer_t *w, const crti_member_t *m)
{
    put_id(w, m->actor);
    put_id(w, m->node);
    put_id(w, m->process);
    put(w, m->process_incarnation);
    put(w, m->actor_incarnation);
    put(w, (uint64_t)m->pid);
    put(w, m->nonce);
    put(w, (uint64_t)m->memory_fd);
    put_text(w, m->address);
    put_text(w, m->algorithms);
}

static void put_failure(writer_t *w, const crti_group_failure_t *f)
{
    put(w, (uint64_t)(int64_t)f->status);
    put(w, (uint64_t)(int64_t)f->rank);
    put_text(w, f->text);
}

/* ---------------------------------------------------------------- reading */

typedef struct reader {
    const unsigned char *at;
    size_t left;
    bool failed;
} reader_t;

static const void *take_bytes(reader_t *r, size_t size)
{
    const void *at = r->at;

    if (r->failed || size > r->left) {
        r->failed = true;
        return NULL;
    }
    r->at += size;
    r->left -= size;
    return at;
}

static uint64_t take(reader_t *r)
{
    const void *at = take_bytes(r, 8);
    uint64_t value = 0;

    if (at)
        memcpy(&value, at, sizeof(value));
    return le64toh(value);
}

static int take_int(reader_t *r, int64_t low, int64_t high)
{
    int64_t value = (int64_t)take(r);

    if (value >= low && value <= high)
        return (int)value;
    r->failed = true;
    return 0;
}

static void take_text(reader_t *r, char *text, size_t room)
{
    uint64_t size = take(r);
    const char *at = size < room ? take_bytes(r, size) : NULL;

    text[0] = '\0';
    if (!at || memchr(at, 0, size)) {
        r->failed = true;
        return;
    }
    memcpy(text, at, size);
    text[size] = '\0';
}

static crti_id_t take_id(reader_t *r)
{
    const unsigned char *at = take_bytes(r, 16);

    return at ? crti_id_unpack(at) : (crti_id_t){0};
}

static void take_member(reader_t *r, crti_member_t *m)
{
    m->actor = take_id(r);
    m->node = take_id(r);
    m->process = take_id(r);
    m->process_incarnation = take(r);
    m->actor_incarnation = take(r);
    m->pid = take_int(r, 0, INT32_MAX);
    m->nonce = take(r);
    m->memory_fd = take_int(r, -1, INT32_MAX);
    take_text(r, m->address, sizeof(m->address));
    take_text(r, m->algorithms, sizeof(m->algorithms));
}

static void take_failure(reader_t *r, crti_group_failure_t *f)
{
    f->status = (crt_status_t)take_int(r, -1000, 0);
    f->rank = take_int(r, -1, CRTI_GROUP_SIZE - 1);
    take_text(r, f->text, sizeof(f->text));
}

static crt_status_t end(const reader_t *r, const char *what)
{
    if (!r->failed && r->left == 0)
        return CRT_OK;
    return crt_raise(CRT_ERR_CORRUPT, "the control store's %s is damaged", what);
}

/* ---------------------------------------------------------------- rosters */

crt_status_t crti_roster_encode(const crti_roster_t *roster, crti_buffer_t *bytes)
{
    writer_t w = {bytes, CRT_OK};

    put(&w, MAGIC_ROSTER);
    put(&w, roster->token);
    put(&w, roster->state);
    put(&w, (uint64_t)roster->size);
    put(&w, roster->incarnation);
    put(&w, roster->attempt);
    put(&w, roster->settled);
    put(&w, (uint64_t)roster->timeout_ms);
    put_text(&w, roster->backend);
    put_member(&w, &roster->leader);
    put(&w, roster->declared != NULL);
    for (int i = 0; roster->declared && i < roster->size; i++)
        put_id(&w, roster->declared[i]);
    put(&w, roster->members != NULL);
    for (int i = 0; roster->members && i < roster->size; i++) {
        put_member(&w, &roster->members[i]);
        put(&w, roster->left[i]);
    }
    put_failure(&w, &roster->failure);
    put(&w, roster->previous);
    put_failure(&w, &roster->previous_failure);
    return w.status;
}

static crt_status_t take_members(reader_t *r, crti_roster_t *roster)
{
    size_t size = (size_t)roster->size;

    if (take_int(r, 0, 1)) {
        roster->declared = calloc(size, sizeof(*roster->declared));
        if (!roster->declared)
            return crt_raise(CRT_ERR_NO_MEMORY, "a roster of %zu", size);
        for (size_t i = 0; i < size; i++)
            roster->declared[i] = take_id(r);
    }
    if (take_int(r, 0, 1)) {
        roster->members = calloc(size, sizeof(*roster->members));
        roster->left = calloc(size, 1);
        if (!roster->members || !roster->left)
            return crt_raise(CRT_ERR_NO_MEMORY, "a roster of %zu", size);
        for (size_t i = 0; i < size; i++) {
            take_member(r, &roster->members[i]);
            roster->left[i] = (unsigned char)take_int(r, 0, 1);
        }
    }
    return CRT_OK;
}

crt_status_t crti_roster_decode(const void *bytes, size_t size, crti_roster_t *roster)
{
    reader_t r = {bytes, size, false};
    crt_status_t status;

    memset(roster, 0, sizeof(*roster));
    r.failed = take(&r) != MAGIC_ROSTER;
    roster->token = take(&r);
    roster->state =
        (crti_roster_state_t)take_int(&r, CRTI_ROSTER_DECLARED, CRTI_ROSTER_FAILED);
    roster->size = take_int(&r, 1, CRTI_GROUP_SIZE);
    roster->incarnation = take(&r);
    roster->attempt = take(&r);
    roster->settled = take(&r);
    roster->timeout_ms = (int64_t)take(&r);
    take_text(&r, roster->backend, sizeof(roster->backend));
    take_member(&r, &roster->leader);
    if (r.failed)
        return end(&r, "roster of the group");
    status = take_members(&r, roster);
    if (status != CRT_OK)
        return status;
    take_failure(&r, &roster->failure);
    roster->previous = take(&r);
    take_failure(&r, &roster->previous_failure);
    if ((roster->state == CRTI_ROSTER_FORMED && !roster->members) ||
        (roster->state == CRTI_ROSTER_DECLARED && !roster->declared))
        r.failed = true;
    return end(&r, "roster of the group");
}

void crti_roster_fini(crti_roster_t *roster)
{
    free(roster->declared);
    free(roster->members);
    free(roster->left);
    roster->declared = NULL;
    roster->members = NULL;
    roster->left = NULL;
}

/* ---------------------------------------------------------------- arrivals */

crt_status_t crti_arrival_encode(const crti_arrival_t *arrival, crti_buffer_t *bytes)
{
    writer_t w = {bytes, CRT_OK};

    put(&w, MAGIC_ARRIVAL);
    put_member(&w, &arrival->member);
    put(&w, (uint64_t)arrival->size);
    put(&w, (uint64_t)(int64_t)arrival->rank);
    put(&w, arrival->done);
    return w.status;
}

crt_status_t crti_arrival_decode(const void *bytes, size_t size, crti_arrival_t *arrival)
{
    reader_t r = {bytes, size, false};

    memset(arrival, 0, sizeof(*arrival));
    r.failed = take(&r) != MAGIC_ARRIVAL;
    take_member(&r, &arrival->member);
    arrival->size = take_int(&r, 0, CRTI_GROUP_SIZE);
    arrival->rank = take_int(&r, CRT_RANK_ANY, CRTI_GROUP_SIZE - 1);
    arrival->done = take(&r);
    r.failed |= arrival->rank < 0 && arrival->rank != CRT_RANK_ANY;
    return end(&r, "arrival of a member");
}
