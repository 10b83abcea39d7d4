/* SPDX-License-Identifier: Apache-2.0 */
/* HTTPS key: the P-256 key of the dashboard's own certificate, made from the cluster key.
 *
 * Where it sits
 *     net/key.c -> [ net/https_key.c ] -> http/certificate.c (the server), crti_cluster_pin (who
 *     asks it)
 * Why
 *     Who has the cluster key knows the public key of the certificate before he has seen it, and
 *     need trust nobody else. Browsers take no Ed25519.
 * How
 *     64 derived bytes modulo (order - 1), plus 1: a scalar without a measurable bias.
 * Threads: any; no state.
 */
#ifndef CRTI_NET_HTTPS_KEY_H
#define CRTI_NET_HTTPS_KEY_H

#include "runtime/net/key.h"

#define CRTI_PIN_TEXT        53  /* bytes of "sha256//BASE64", with the final zero */
#define CRTI_HTTPS_KEY_BYTES 121 /* of an ECPrivateKey (RFC 5915) */

typedef struct crti_https_key {
    unsigned char secret[32];
    unsigned char public_key[65]; /* uncompressed point */
} crti_https_key_t;

/* CRT_ERR_UNSUPPORTED: no OpenSSL; CRT_ERR_NO_MEMORY. The caller wipes the result. */
crt_status_t crti_https_key_derive(const crti_key_t *key, crti_https_key_t *key_out);

/* Hash of the public key, as CURLOPT_PINNEDPUBLICKEY takes it. */
void crti_https_key_pin(const crti_https_key_t *key, char pin[CRTI_PIN_TEXT]);

/* The same of a SubjectPublicKeyInfo of any kind. */
void crti_https_pin(const void *public_key, size_t size, char pin[CRTI_PIN_TEXT]);

/* The key pair in DER, as d2i_AutoPrivateKey takes it. */
void crti_https_key_encode(const crti_https_key_t *key,
                           unsigned char der[CRTI_HTTPS_KEY_BYTES]);

#endif
