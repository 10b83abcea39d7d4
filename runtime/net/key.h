/* SPDX-License-Identifier: Apache-2.0 */
/* Key: the one secret of a cluster, and everything that is derived from it.
 *
 * Where it sits
 *     cluster.key -> [ net/key.c ] -> CURVE pairs (zmq link), PSK (net/stream.c), net/token.c,
 *                                     key of lanes (net/lane.c), net/https_key.c
 * Format
 *     The file holds 64 hex digits (32 random bytes) and a newline. Only its owner may read or
 *     write it: mode 0600 or 0400, owned by the user who runs the process.
 * Derivation
 *     crypto_kdf with one fixed context per purpose (docs/design/processes.md), so that no
 *     purpose's secret tells anything about another's or about the key.
 * Threads: any; no state.
 * Failure: each way a file can be wrong is one sentence that names it and the cure.
 */
#ifndef CRTI_NET_KEY_H
#define CRTI_NET_KEY_H

#include "runtime/base/crt_base.h"

#define CRTI_KEY_SIZE       32
#define CRTI_KEY_HTTPS_SEED 64

typedef struct crti_key {
    unsigned char bytes[CRTI_KEY_SIZE];
} crti_key_t;

/* CURVE pair, binary (libzmq takes 32 bytes as well as Z85). */
typedef struct crti_key_pair {
    unsigned char public_key[32];
    unsigned char secret_key[32];
} crti_key_pair_t;

typedef enum crti_key_role { CRTI_KEY_SERVER, CRTI_KEY_CLIENT } crti_key_role_t;

/* Reads and checks a key file: its owner's alone, or root's, which a group may read.
 * CRT_ERR_NOT_FOUND: no such file; CRT_ERR_PERMISSION: of another owner, or open to others;
 * CRT_ERR_INVALID: no regular file; CRT_ERR_CORRUPT: no key in it. */
crt_status_t crti_key_load(const char *path, crti_key_t *key_out);

/* Makes a new key and its file, mode 0600, all at once: no reader ever sees a part of it.
 * CRT_ERR_EXISTS when there is a file already; it is left alone. */
crt_status_t crti_key_create(const char *path, crti_key_t *key_out);
/* The same with a key that is there already. */
crt_status_t crti_key_keep(const char *path, const crti_key_t *key);

/* Derived secrets. Nothing here fails. */
void crti_key_curve(const crti_key_t *key, crti_key_role_t role,
                    crti_key_pair_t *pair_out);
void crti_key_stream(const crti_key_t *key, unsigned char psk[CRTI_KEY_SIZE]);
void crti_key_lane(const crti_key_t *key, unsigned char lane[CRTI_KEY_SIZE]);
void crti_key_https(const crti_key_t *key, unsigned char seed[CRTI_KEY_HTTPS_SEED]);
/* Subkeys of net/token.h. That of sessions is one head's: `instance` is what tells it from the one
 * before it. */
void crti_key_token(const crti_key_t *key, unsigned char subkey[CRTI_KEY_SIZE]);
void crti_key_session(const crti_key_t *key, const char *instance,
                      unsigned char subkey[CRTI_KEY_SIZE]);
/* The same of those who may only read. */
void crti_key_reader_token(const crti_key_t *key, unsigned char subkey[CRTI_KEY_SIZE]);
void crti_key_reader_session(const crti_key_t *key, const char *instance,
                             unsigned char subkey[CRTI_KEY_SIZE]);

/* Overwrites a secret that is no longer needed. */
void crti_key_wipe(void *secret, size_t size);

#endif
