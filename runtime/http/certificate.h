/* SPDX-License-Identifier: Apache-2.0 */
/* Certificate: what crt-http shows over TLS.
 *
 * Where it sits
 *     net/https_key.c -> [ http/certificate.c ] -> files -> http/server.c (libwebsockets)
 * Its own one is self-signed, with the key that follows from the cluster key, so that a client with
 * that key knows it. It is kept beside the key file: a browser that was told to trust it goes on.
 * Threads: any; no state.
 */
#ifndef CRTI_HTTP_CERTIFICATE_H
#define CRTI_HTTP_CERTIFICATE_H

#include <limits.h>

#include "runtime/net/key.h"

typedef struct crti_certificate {
    char chain[PATH_MAX]; /* PEM; "": no TLS */
    char key[PATH_MAX];
} crti_certificate_t;

/* Makes DIR/https.crt and DIR/https.key for `host`, or takes those that are there. */
crt_status_t crti_certificate_make(const crti_key_t *key, const char *directory,
                                   const char *host, crti_certificate_t *certificate_out);

/* CRT_ERR_INVALID: the user's files are none, or do not belong together. */
crt_status_t crti_certificate_check(const crti_certificate_t *certificate);

#endif
