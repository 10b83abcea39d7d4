/* SPDX-License-Identifier: Apache-2.0 */
/* Seal: the records of one direction of a connection, encrypted (AES-256-GCM), or in the clear with
 * a tag that no attacker can forge (the same without anything to encrypt, AES-256-GMAC).
 *
 * Where it sits
 *     records.c -> [ seal.c ] -> OpenSSL
 * Keys
 *     A secret of 32 bytes, known to both sides and used for one direction of one connection. Key
 *     and nonces come from it by crypto_kdf; after so many bytes both sides go on to the next key,
 *     by themselves, since both have counted. The nonce of a record is its number, of both sorts.
 * Failure
 *     A record that was not made with this secret, or not as that number, is CRT_ERR_PROTOCOL.
 */
#ifndef CRTI_NET_SEAL_H
#define CRTI_NET_SEAL_H

#include "runtime/net/key.h"

#define CRTI_SEAL_TAG    16 /* bytes that a record grows by */
#define CRTI_SEAL_HEADER 4  /* bytes before it that are authenticated, too */

/* AES-GCM bounds what one key may encrypt (2^32 records, about 2^38 bytes for the margin that TLS
 * keeps): the next one comes well before. What counts is what the cipher works on: a record counts
 * at least CRTI_SEAL_LEAST, so that a key sees 2^31 records at most, however short they are. */
#define CRTI_SEAL_LEAST     32
#define CRTI_SEAL_KEY_BYTES ((uint64_t)64 << 30)

typedef struct crti_seal crti_seal_t;

/* The next key comes after `key_bytes`. Caller owns the result and frees it with crti_seal_free. */
crt_status_t crti_seal_new(const unsigned char secret[CRTI_KEY_SIZE], bool encrypts,
                           uint64_t key_bytes, crti_seal_t **seal_out);
void crti_seal_free(crti_seal_t *seal);

/* The next record: `size` bytes of `text` become size + CRTI_SEAL_TAG at `out`. */
crt_status_t crti_seal_encrypt(crti_seal_t *seal,
                               const unsigned char header[CRTI_SEAL_HEADER],
                               const unsigned char *text, size_t size,
                               unsigned char *out);

/* The next record in the clear: the tag of `size` bytes of `text`. */
crt_status_t crti_seal_sign(crti_seal_t *seal,
                            const unsigned char header[CRTI_SEAL_HEADER],
                            const unsigned char *text, size_t size,
                            unsigned char tag[CRTI_SEAL_TAG]);

/* The other way round: `size` bytes and their tag at `sealed` become `size` bytes at `out`, which
 * may be the same place. They are good only if it returns CRT_OK. */
crt_status_t crti_seal_decrypt(crti_seal_t *seal,
                               const unsigned char header[CRTI_SEAL_HEADER],
                               const unsigned char *sealed, size_t size,
                               unsigned char *out);
crt_status_t crti_seal_check(crti_seal_t *seal,
                             const unsigned char header[CRTI_SEAL_HEADER],
                             const unsigned char *text, size_t size,
                             const unsigned char tag[CRTI_SEAL_TAG]);

#endif
