/* SPDX-License-Identifier: Apache-2.0 */
/* Records: the bytes of a connection after its handshake, encrypted or at least authenticated.
 *
 * Where it sits
 *     tls.c -> [ records.c ] -> seal.c, socket
 * Why not OpenSSL's
 *     It copies what it encrypts into a buffer of its own, and out of one what it has decrypted,
 *     and looks up its algorithms for each 16 KiB: together more than the encryption itself. Here
 *     bytes are encrypted from where they lie into what goes to the socket, and decrypted to
 *     where they belong.
 * Format
 *     Of a record: a 32-bit little-endian word, the length in bits 0..30; so many bytes (32 KiB at
 *     most); a tag of 16 bytes over both and the record's number. The bytes are encrypted unless
 *     bit 31 is set, which only bulk bytes may have, on a connection that was made so. An encrypted
 *     record without bytes is the end. Each direction has a secret, exported from the handshake
 *     (RFC 8446, 7.5).
 * Whoever is on the way
 *     can't put anything in, change, repeat, reorder or leave out a record, nor make the end look
 *     like an orderly one.
 * Memory
 *     Buffers are there while something is in them, and kept for the next in a pool, which
 *     connections of several threads may share.
 * Threads: one at a time; the pool any.
 * Failure: as crti_tls_read and crti_tls_writev.
 */
#ifndef CRTI_NET_RECORDS_H
#define CRTI_NET_RECORDS_H

#include <stdbool.h>
#include <sys/types.h>

#include "runtime/net/key.h"

typedef struct crti_records crti_records_t;
typedef struct crti_records_pool crti_records_pool_t;

crt_status_t crti_records_pool_new(crti_records_pool_t **pool_out);
void crti_records_pool_free(crti_records_pool_t *pool);

/* What a write takes: `is_bulk` bytes are those of objects and collectives. */
typedef struct crti_piece {
    const void *data;
    size_t size;
    bool is_bulk;
} crti_piece_t;

/* Bulk bytes are encrypted, too, unless `is_clear`. Pool and descriptor stay the caller's; `in` and
 * `out` are the secrets of the two directions. Caller owns the result and frees it with
 * crti_records_free. */
crt_status_t crti_records_new(crti_records_pool_t *pool, int fd,
                              const unsigned char in[CRTI_KEY_SIZE],
                              const unsigned char out[CRTI_KEY_SIZE], bool is_clear,
                              crti_records_t **records_out);
void crti_records_free(crti_records_t *records);

/* As crti_tls_read, crti_tls_is_drained, crti_tls_writev, crti_tls_flush. */
crt_status_t crti_records_read(crti_records_t *records, void *data, size_t size,
                               size_t *done_out);
bool crti_records_is_drained(const crti_records_t *records);
crt_status_t crti_records_write(crti_records_t *records, const crti_piece_t *pieces,
                                int count, size_t *done_out);
crt_status_t crti_records_flush(crti_records_t *records);

/* Tells the peer that nothing follows. CRT_IN_PROGRESS: call it again when the socket is writable;
 * nothing may be written any more. */
crt_status_t crti_records_end(crti_records_t *records);

/* Bytes from the socket that were not read yet, and records that it did not take yet. */
size_t crti_records_unread(const crti_records_t *records);
size_t crti_records_unsent(const crti_records_t *records);

#endif
