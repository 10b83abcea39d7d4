/* SPDX-License-Identifier: Apache-2.0 */
/* Records and their buffers. See records.h. */
#include "runtime/net/records.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/net/seal.h"

#define RECORD ((size_t)32 << 10)
#define AROUND (CRTI_SEAL_HEADER + CRTI_SEAL_TAG)
/* Of a record's header: its bytes are not encrypted. */
#define CLEAR (UINT32_C(1) << 31)
/* What is made ready for one call of the system, or received by one; a whole record always fits. */
#define BUFFER (4 * (RECORD + AROUND) + 1024)
#define SPARES 4

struct crti_records_pool {
    pthread_mutex_t lock;
    unsigned char *spare[SPARES];
    int count;
};

/*  in   |.......| plain |tag| record | part of a record |      out  |.......| to be sent |
 *           in_at                                    in_end             out_at        out_end
 */
struct crti_records {
    crti_records_pool_t *pool;
    crti_seal_t *seal_in, *seal_out;
    unsigned char *in, *out; /* NULL: nothing is in it */
    size_t in_at, in_end, out_at, out_end;
    size_t plain; /* bytes at in_at that are proved and decrypted; their tag follows */
    int fd;
    bool is_clear;   /* bulk bytes are not encrypted */
    bool is_ended;   /* the last record that goes is made */
    bool is_drained; /* the last recv gave less than was asked for */
};

/* ---------------------------------------------------------------- buffers */

crt_status_t crti_records_pool_new(crti_records_pool_t **pool_out)
{
    crti_records_pool_t *pool = calloc(1, sizeof(*pool));

    if (pool == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "buffers of connections");
    pthread_mutex_init(&pool->lock, NULL);
    *pool_out = pool;
    return CRT_OK;
}

void crti_records_pool_free(crti_records_pool_t *pool)
{
    if (pool == NULL)
        return;
    while (pool->count)
        free(pool->spare[--pool->count]);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* The one used last, which is likely in the processor's cache. */
static crt_status_t take_buffer(crti_records_t *r, unsigned char **buffer)
{
    crti_records_pool_t *pool = r->pool;

    if (*buffer)
        return CRT_OK;
    pthread_mutex_lock(&pool->lock);
    if (pool->count)
        *buffer = pool->spare[--pool->count];
    pthread_mutex_unlock(&pool->lock);
    if (*buffer == NULL)
        *buffer = malloc(BUFFER);
    return *buffer ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "buffer of a connection");
}

static void give_buffer(crti_records_t *r, unsigned char **buffer)
{
    crti_records_pool_t *pool = r->pool;

    pthread_mutex_lock(&pool->lock);
    if (pool->count < SPARES && *buffer) {
        pool->spare[pool->count++] = *buffer;
        *buffer = NULL;
    }
    pthread_mutex_unlock(&pool->lock);
    free(*buffer);
    *buffer = NULL;
}

/* ---------------------------------------------------------------- life */

crt_status_t crti_records_new(crti_records_pool_t *pool, int fd,
                              const unsigned char in[CRTI_KEY_SIZE],
                              const unsigned char out[CRTI_KEY_SIZE], bool is_clear,
                              crti_records_t **records_out)
{
    crti_records_t *r = calloc(1, sizeof(*r));
    crt_status_t status;

    if (r == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "records of a connection");
    r->pool = pool;
    r->fd = fd;
    r->is_clear = is_clear;
    status = crti_seal_new(in, false, CRTI_SEAL_KEY_BYTES, &r->seal_in);
    if (status == CRT_OK)
        status = crti_seal_new(out, true, CRTI_SEAL_KEY_BYTES, &r->seal_out);
    if (status != CRT_OK) {
        crti_records_free(r);
        return status;
    }
    *records_out = r;
    return CRT_OK;
}

void crti_records_free(crti_records_t *records)
{
    if (records == NULL)
        return;
    give_buffer(records, &records->in);
    give_buffer(records, &records->out);
    crti_seal_free(records->seal_in);
    crti_seal_free(records->seal_out);
    free(records);
}

size_t crti_records_unread(const crti_records_t *records)
{
    return records->in_end - records->in_at;
}

size_t crti_records_unsent(const crti_records_t *records)
{
    return records->out_end - records->out_at;
}

/* Of a recv or send that returned `n` <= 0. */
static crt_status_t outcome(ssize_t n)
{
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return CRT_IN_PROGRESS;
    if (n < 0)
        return crt_raise(CRT_ERR_IO, "connection broke: %s", strerror(errno));
    return crt_raise(CRT_ERR_CLOSED, "the peer closed");
}

/* ---------------------------------------------------------------- reading */

typedef struct record {
    unsigned char *header, *text, *tag;
    size_t size;
    bool is_clear;
} record_t;

static uint32_t word_at(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The record at in_at; CRT_IN_PROGRESS: not all of it is here. */
static crt_status_t whole_record(const crti_records_t *r, record_t *record_out)
{
    unsigned char *at = r->in + r->in_at;
    size_t have = crti_records_unread(r);
    uint32_t word;

    if (have < CRTI_SEAL_HEADER)
        return CRT_IN_PROGRESS;
    word = word_at(at);
    *record_out = (record_t){.header = at,
                             .text = at + CRTI_SEAL_HEADER,
                             .tag = at + CRTI_SEAL_HEADER + (word & ~CLEAR),
                             .size = word & ~CLEAR,
                             .is_clear = word & CLEAR};
    if (record_out->size > RECORD)
        return crt_raise(CRT_ERR_PROTOCOL, "a record of %zu bytes", record_out->size);
    if (record_out->is_clear && (!r->is_clear || record_out->size == 0))
        return crt_raise(CRT_ERR_PROTOCOL, "a record that is not encrypted");
    return have >= record_out->size + AROUND ? CRT_OK : CRT_IN_PROGRESS;
}

static size_t take_plain(crti_records_t *r, unsigned char *data, size_t size)
{
    size_t done = size < r->plain ? size : r->plain;

    memcpy(data, r->in + r->in_at, done);
    r->in_at += done;
    r->plain -= done;
    if (r->plain == 0)
        r->in_at += CRTI_SEAL_TAG;
    return done;
}

/* Proves the record and puts its bytes at `data`, which may be where they are. */
static crt_status_t open_one(crti_records_t *r, const record_t *record,
                             unsigned char *data)
{
    crt_status_t status;

    if (!record->is_clear)
        return crti_seal_decrypt(r->seal_in, record->header, record->text, record->size,
                                 data);
    status = crti_seal_check(r->seal_in, record->header, record->text, record->size,
                             record->tag);
    if (status == CRT_OK && data != record->text)
        memcpy(data, record->text, record->size);
    return status;
}

/* ... where there is room for all of it. */
static crt_status_t open_to(crti_records_t *r, const record_t *record,
                            unsigned char *data)
{
    crt_status_t status = open_one(r, record, data);

    r->in_at += record->size + AROUND;
    return status == CRT_OK && record->size == 0
               ? crt_raise(CRT_ERR_CLOSED, "the peer closed")
               : status;
}

/* ... for reads in several parts. */
static crt_status_t open_here(crti_records_t *r, const record_t *record)
{
    crt_status_t status = open_one(r, record, record->text);

    if (status == CRT_OK) {
        r->in_at += CRTI_SEAL_HEADER;
        r->plain = record->size;
    }
    return status;
}

/* Opens what is here, for as long as there is room. CRT_OK: at least a byte of it. */
static crt_status_t open_all(crti_records_t *r, unsigned char *data, size_t size,
                             size_t *done_out)
{
    crt_status_t status = CRT_OK;
    size_t done = r->plain ? take_plain(r, data, size) : 0;
    record_t record;

    while (status == CRT_OK && done < size) {
        status = whole_record(r, &record);
        if (status != CRT_OK ||
            (record.size == 0 && done)) /* the end is the next read's */
            break;
        if (record.size > size - done) {
            status = open_here(r, &record);
            if (status == CRT_OK)
                done += take_plain(r, data + done, size - done);
        } else {
            status = open_to(r, &record, data + done);
            done += status == CRT_OK ? record.size : 0;
        }
    }
    *done_out = done;
    return done && status >= CRT_OK ? CRT_OK : status;
}

static crt_status_t fill(crti_records_t *r)
{
    crt_status_t status = take_buffer(r, &r->in);
    size_t have = crti_records_unread(r), room;
    ssize_t n;

    if (status != CRT_OK)
        return status;
    if (r->in_at && (have == 0 || BUFFER - r->in_end < BUFFER / 2)) {
        memmove(r->in, r->in + r->in_at, have);
        r->in_at = 0;
        r->in_end = have;
    }
    room = BUFFER - r->in_end;
    n = recv(r->fd, r->in + r->in_end, room, 0);
    r->is_drained = n < (ssize_t)room;
    /* Anybody on the way can end the stream; the peer would have sent its last record. */
    if (n == 0)
        return crt_raise(CRT_ERR_IO, "connection broke: it ended without a word");
    if (n > 0)
        r->in_end += (size_t)n;
    return n > 0 ? CRT_OK : outcome(n);
}

crt_status_t crti_records_read(crti_records_t *records, void *data, size_t size,
                               size_t *done_out)
{
    crt_status_t status = CRT_IN_PROGRESS;

    *done_out = 0;
    if (crti_records_unread(records))
        status = open_all(records, data, size, done_out);
    while (status == CRT_IN_PROGRESS) {
        status = fill(records);
        if (status != CRT_OK)
            break;
        status = open_all(records, data, size, done_out);
    }
    if (records->in && crti_records_unread(records) == 0) {
        records->in_at = records->in_end = 0;
        give_buffer(records, &records->in);
    }
    return status;
}

bool crti_records_is_drained(const crti_records_t *records)
{
    record_t record;

    return records->is_drained && records->plain == 0 &&
           (records->in == NULL || whole_record(records, &record) == CRT_IN_PROGRESS);
}

/* ---------------------------------------------------------------- writing */

crt_status_t crti_records_flush(crti_records_t *records)
{
    size_t left = crti_records_unsent(records);
    ssize_t n;

    if (left == 0)
        return CRT_OK;
    n = send(records->fd, records->out + records->out_at, left, MSG_NOSIGNAL);
    if (n <= 0)
        return outcome(n);
    records->out_at += (size_t)n;
    if ((size_t)n < left)
        return CRT_IN_PROGRESS;
    records->out_at = records->out_end = 0;
    give_buffer(records, &records->out);
    return CRT_OK;
}

static bool has_room(const crti_records_t *r)
{
    return BUFFER - r->out_end >= RECORD + AROUND;
}

static crt_status_t make_one(crti_records_t *r, const unsigned char *data, size_t size,
                             bool is_clear)
{
    unsigned char *header = r->out + r->out_end, *text = header + CRTI_SEAL_HEADER;
    uint32_t word = (uint32_t)size | (is_clear ? CLEAR : 0);

    for (int i = 0; i < CRTI_SEAL_HEADER; i++)
        header[i] = (unsigned char)(word >> 8 * i);
    r->out_end += size + AROUND;
    if (!is_clear)
        return crti_seal_encrypt(r->seal_out, header, data, size, text);
    memcpy(text, data, size);
    return crti_seal_sign(r->seal_out, header, text, size, text + size);
}

/* Makes records of what fits of a piece. */
static crt_status_t make(crti_records_t *r, const crti_piece_t *piece, size_t *done_out)
{
    bool is_clear = r->is_clear && piece->is_bulk;
    crt_status_t status = CRT_OK;

    for (size_t at = 0; status == CRT_OK && at < piece->size && has_room(r);) {
        size_t left = piece->size - at, size = left < RECORD ? left : RECORD;

        status = make_one(r, (const unsigned char *)piece->data + at, size, is_clear);
        at += size;
        *done_out += size;
    }
    return status;
}

crt_status_t crti_records_write(crti_records_t *records, const crti_piece_t *pieces,
                                int count, size_t *done_out)
{
    crt_status_t status = crti_records_flush(records);

    *done_out = 0;
    if (status == CRT_OK)
        status = take_buffer(records, &records->out);
    for (int i = 0; i < count && status == CRT_OK && has_room(records); i++)
        status = make(records, &pieces[i], done_out);
    if (status == CRT_OK)
        status = crti_records_flush(records);
    return status == CRT_IN_PROGRESS && *done_out ? CRT_OK : status;
}

crt_status_t crti_records_end(crti_records_t *records)
{
    crt_status_t status = crti_records_flush(records);

    if (status != CRT_OK || records->is_ended)
        return status;
    status = take_buffer(records, &records->out);
    if (status == CRT_OK)
        status = make_one(records, records->out, 0, false);
    records->is_ended = status == CRT_OK;
    return status == CRT_OK ? crti_records_flush(records) : status;
}
