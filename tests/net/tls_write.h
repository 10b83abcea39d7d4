/* SPDX-License-Identifier: Apache-2.0 */
/* Writes bytes in one piece, for peers that misbehave. */
#ifndef CRT_TESTS_TLS_WRITE_H
#define CRT_TESTS_TLS_WRITE_H

#include "runtime/net/tls.h"

static inline crt_status_t tls_write(crti_tls_t *tls, const void *data, size_t size,
                                     size_t *done_out)
{
    return crti_tls_writev(tls, &(crti_piece_t){.data = data, .size = size}, 1, done_out);
}

#endif
