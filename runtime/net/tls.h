/* SPDX-License-Identifier: Apache-2.0 */
/* TLS: one authenticated connection over a non-blocking TCP socket. The only file that knows
 * OpenSSL, seal.c apart; net/stream.c makes frames of what it carries.
 *
 * Handshake
 *     TLS 1.3, external PSK with fresh Diffie-Hellman keys, TLS_AES_256_GCM_SHA384 only; no
 *     certificates, no tickets. Then the server sends "crt3" and 'E' or 'C' inside TLS: of the
 *     records that follow (records.h, with keys exported from the handshake) all are encrypted, or
 *     bulk bytes are in the clear, and only authenticated (an option of the cluster).
 * Threads: one at a time per connection; contexts are shared.
 */
#ifndef CRTI_NET_TLS_H
#define CRTI_NET_TLS_H

#include <stdbool.h>

#include "runtime/net/key.h"
#include "runtime/net/records.h"

typedef struct crti_tls_context crti_tls_context_t;
typedef struct crti_tls crti_tls_t;

/* Contexts are counted: new gives one reference. `encrypt`: bulk bytes, too, of connections that
 * come to this side. */
crt_status_t crti_tls_context_new(const unsigned char psk[CRTI_KEY_SIZE], bool encrypt,
                                  crti_tls_context_t **context_out);
crti_tls_context_t *crti_tls_context_ref(crti_tls_context_t *context);
void crti_tls_context_unref(crti_tls_context_t *context);

/* The descriptor stays the caller's. */
crt_status_t crti_tls_new(crti_tls_context_t *context, int fd, bool is_server,
                          crti_tls_t **tls_out);
void crti_tls_free(crti_tls_t *tls);

/* CRT_OK when it is complete, CRT_IN_PROGRESS when it waits for the socket (see
 * crti_tls_wants_write), CRT_ERR_PERMISSION: another key; CRT_ERR_PROTOCOL: not crt;
 * CRT_ERR_CLOSED, CRT_ERR_IO. */
crt_status_t crti_tls_handshake(crti_tls_t *tls);

/* At least one byte, or CRT_IN_PROGRESS, CRT_ERR_CLOSED, CRT_ERR_IO, CRT_ERR_PROTOCOL. Bytes may
 * wait inside: read until CRT_IN_PROGRESS, or until crti_tls_is_drained. */
crt_status_t crti_tls_read(crti_tls_t *tls, void *data, size_t size, size_t *done_out);

/* The last read has taken all there was: nothing comes before the socket is readable again. */
bool crti_tls_is_drained(const crti_tls_t *tls);

/* Takes at least one byte of these pieces, in their order, or gives CRT_IN_PROGRESS and so on. What
 * was made a record and did not fit into the socket stays inside (crti_tls_pending bytes of it)
 * until crti_tls_flush gives CRT_OK; the pieces' memory is not needed for that. */
crt_status_t crti_tls_writev(crti_tls_t *tls, const crti_piece_t *pieces, int count,
                             size_t *done_out);
crt_status_t crti_tls_flush(crti_tls_t *tls);
size_t crti_tls_pending(const crti_tls_t *tls);

/* The last handshake, write or flush waits until the socket is writable. */
bool crti_tls_wants_write(const crti_tls_t *tls);

/* Sends what is left, then tells the peer that this side is done. CRT_IN_PROGRESS: call it again
 * when the socket is writable. */
crt_status_t crti_tls_shutdown(crti_tls_t *tls);

#endif
