/* SPDX-License-Identifier: Apache-2.0 */
/* Token: what a client of crt-http shows, and the session that a browser gets for it.
 *
 * Where it sits
 *     key.c -> [ net/token.c ] -> core/client/cluster.c (makes them), http/request.c (checks them)
 * Format
 *     64 hex digits: generation (4 bytes), end (4 bytes, seconds since 1970, 0: none), both
 *     big-endian, and 24 bytes of a MAC over them by a subkey of the cluster key. Tokens and
 *     sessions have subkeys of their own, so that neither is taken for the other.
 * Generation
 *     A number beside the key file, in KEYFILE.generation. Who makes it larger makes every token
 *     and session from before worthless. It begins with 0 and becomes the time of each rotation, so
 *     that it is larger than it ever was also when the file was lost. Copies of the key have no
 *     such file: who makes tokens with one takes 0, or asks the server.
 * Threads: any; no state.
 */
#ifndef CRTI_NET_TOKEN_H
#define CRTI_NET_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/net/key.h"

#define CRTI_TOKEN_TEXT 65 /* bytes of a token as text, with the final zero */

typedef struct crti_token {
    uint32_t generation;
    uint32_t end; /* seconds since 1970; 0: none */
} crti_token_t;

void crti_token_make(const unsigned char subkey[CRTI_KEY_SIZE], const crti_token_t *token,
                     char text[CRTI_TOKEN_TEXT]);

/* False: it was not made with that subkey. Generation and end are the caller's to judge. */
bool crti_token_read(const unsigned char subkey[CRTI_KEY_SIZE], const char *text,
                     crti_token_t *token_out);

/* CRT_ERR_NOT_FOUND: there is no file, and the number is 0; CRT_ERR_IO, CRT_ERR_CORRUPT: there is
 * one, and it can't be read. */
crt_status_t crti_token_generation(const char *key_file, uint32_t *generation_out);

/* Makes it larger, on disk when this returns. */
crt_status_t crti_token_rotate(const char *key_file, uint32_t *generation_out);

/* For the head, when it starts: writes its token to `token_file`, and the generation's file where
 * there is none. That begins with 0 for a key that has served no head, which has left no token;
 * else it was lost, and tokens are rotated. */
crt_status_t crti_token_begin(const crti_key_t *key, const char *key_file,
                              const char *token_file);

/* Writes the token to a file of its owner alone, as a whole. */
crt_status_t crti_token_save(const char *path, const char *text);

#endif
