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
/* What is encrypted for one call of the system, or received by one; a whole record always fits. */
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
    size_t plain; /* bytes at in_at that are decrypted; their tag follows */
    int fd;
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
                              const unsigned char out[CRTI_KEY_SIZE],
                              crti_records_t **records_out)
{
    crti_records_t *r = calloc(1, sizeof(*r));
    crt_status_t status;

    if (r == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "records of a connection");
    r->pool = pool;
    r->fd = fd;
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

crt_status_t crti_records_outcome(ssize_t n)
{
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return CRT_IN_PROGRESS;
    if (n < 0)
        return crt_raise(CRT_ERR_IO, "connection broke: %s", strerror(errno));
    return crt_raise(CRT_ERR_CLOSED, "the peer closed");
}

/* ---------------------------------------------------------------- reading */

/* The length of the record at in_at, header and tag apart; CRT_IN_PROGRESS: not all of it is here. */
static crt_status_t whole_record(const crti_records_t *r, size_t *size_out)
{
    const unsigned char *at = r->in + r->in_at;
    size_t have = crti_records_unread(r), size;

    if (have < CRTI_SEAL_HEADER)
        return CRT_IN_PROGRESS;
    size = at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
    if (size > RECORD)
        return crt_raise(CRT_ERR_PROTOCOL, "a record of %zu bytes", size);
    *size_out = size;
    return have >= size + AROUND ? CRT_OK : CRT_IN_PROGRESS;
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

/* Decrypts the next record to `data`, which has room for it. */
static crt_status_t decrypt_to(crti_records_t *r, unsigned char *data, size_t size)
{
    unsigned char *header = r->in + r->in_at;
    crt_status_t status =
        crti_seal_decrypt(r->seal_in, header, header + CRTI_SEAL_HEADER, size, data);

    r->in_at += size + AROUND;
    return status == CRT_OK && size == 0 ? crt_raise(CRT_ERR_CLOSED, "the peer closed")
                                         : status;
}

/* ... where it is, for reads in several parts. */
static crt_status_t decrypt_here(crti_records_t *r, size_t size)
{
    unsigned char *header = r->in + r->in_at, *sealed = header + CRTI_SEAL_HEADER;
    crt_status_t status = crti_seal_decrypt(r->seal_in, header, sealed, size, sealed);

    if (status == CRT_OK) {
        r->in_at += CRTI_SEAL_HEADER;
        r->plain = size;
    }
    return status;
}

/* Decrypts what is here, for as long as there is room. CRT_OK: at least a byte of it. */
static crt_status_t decrypt(crti_records_t *r, unsigned char *data, size_t size,
                            size_t *done_out)
{
    crt_status_t status = CRT_OK;
    size_t done = r->plain ? take_plain(r, data, size) : 0, record = 0;

    while (status == CRT_OK && done < size) {
        status = whole_record(r, &record);
        if (status != CRT_OK || (record == 0 && done)) /* the end is the next read's */
            break;
        if (record > size - done) {
            status = decrypt_here(r, record);
            if (status == CRT_OK)
                done += take_plain(r, data + done, size - done);
        } else {
            status = decrypt_to(r, data + done, record);
            done += status == CRT_OK ? record : 0;
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
    return n > 0 ? CRT_OK : crti_records_outcome(n);
}

crt_status_t crti_records_read(crti_records_t *records, void *data, size_t size,
                               size_t *done_out)
{
    crt_status_t status = CRT_OK;

    if (crti_records_unread(records))
        status = decrypt(records, data, size, done_out);
    else
        status = CRT_IN_PROGRESS;
    while (status == CRT_IN_PROGRESS) {
        status = fill(records);
        if (status != CRT_OK)
            break;
        status = decrypt(records, data, size, done_out);
    }
    if (records->in && crti_records_unread(records) == 0) {
        records->in_at = records->in_end = 0;
        give_buffer(records, &records->in);
    }
    return status;
}

bool crti_records_is_drained(const crti_records_t *records)
{
    size_t size;

    return records->is_drained && records->plain == 0 &&
           (records->in == NULL || whole_record(records, &size) == CRT_IN_PROGRESS);
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
        return crti_records_outcome(n);
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

static crt_status_t encrypt_one(crti_records_t *r, const unsigned char *data, size_t size)
{
    unsigned char *header = r->out + r->out_end;

    for (int i = 0; i < CRTI_SEAL_HEADER; i++)
        header[i] = (unsigned char)(size >> 8 * i);
    r->out_end += size + AROUND;
    return crti_seal_encrypt(r->seal_out, header, data, size, header + CRTI_SEAL_HEADER);
}

/* Encrypts what fits of a piece. */
static crt_status_t encrypt(crti_records_t *r, const struct iovec *piece,
                            size_t *done_out)
{
    crt_status_t status = CRT_OK;

    for (size_t at = 0; status == CRT_OK && at < piece->iov_len && has_room(r);) {
        size_t left = piece->iov_len - at, size = left < RECORD ? left : RECORD;

        status = encrypt_one(r, (const unsigned char *)piece->iov_base + at, size);
        at += size;
        *done_out += size;
    }
    return status;
}

crt_status_t crti_records_write(crti_records_t *records, const struct iovec *pieces,
                                int count, size_t *done_out)
{
    crt_status_t status = crti_records_flush(records);

    *done_out = 0;
    if (status == CRT_OK)
        status = take_buffer(records, &records->out);
    for (int i = 0; i < count && status == CRT_OK && has_room(records); i++)
        status = encrypt(records, &pieces[i], done_out);
    if (status == CRT_OK)
        status = crti_records_flush(records);
    return status == CRT_IN_PROGRESS && *done_out ? CRT_OK : status;
}

void crti_records_end(crti_records_t *records)
{
    if (crti_records_flush(records) == CRT_OK &&
        take_buffer(records, &records->out) == CRT_OK &&
        encrypt_one(records, records->out, 0) == CRT_OK)
        crti_records_flush(records);
}
