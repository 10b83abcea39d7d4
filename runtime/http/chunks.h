/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks: a body whose length is not known before its end (Transfer-Encoding: chunked), as it comes
 * from libwebsockets, which does not look into it.
 *
 * Where it sits
 *     http/server.c -> http/exchange.c -> [ http/chunks.c ] -> http/upload.c
 * Trust: bytes of a client; a size that is no number, or has more than 16 digits, ends it.
 * Threads: any; no state but its own.
 */
#ifndef CRTI_HTTP_CHUNKS_H
#define CRTI_HTTP_CHUNKS_H

#include <stdint.h>

#include "runtime/base/crt_base.h"

/*   SIZE --;--> EXTENSION --\n--> DATA --all of it--> DATA_END --\n--> SIZE
 *     +---------------- size 0 ---------------> TRAILER --empty line--> DONE
 */
typedef enum crti_chunks_state {
    CRTI_CHUNKS_SIZE, /* zero-initialised is the beginning of a body */
    CRTI_CHUNKS_EXTENSION,
    CRTI_CHUNKS_DATA,
    CRTI_CHUNKS_DATA_END,
    CRTI_CHUNKS_TRAILER,
    CRTI_CHUNKS_DONE
} crti_chunks_state_t;

typedef struct crti_chunks {
    crti_chunks_state_t state;
    uint64_t left;        /* of the chunk */
    unsigned digits;      /* of its size that were read */
    unsigned line;        /* bytes of the line of a trailer, or of an extension */
    unsigned char before; /* the last byte */
} crti_chunks_t;

/* The next bytes of the body in `*data_out`, `*size_out` (which may be 0), and how many of `bytes`
 * that took. Called until all are taken or the state is DONE. CRT_ERR_CORRUPT: they are no
 * chunks. */
crt_status_t crti_chunks_next(crti_chunks_t *self, const void *bytes, size_t size,
                              const void **data_out, size_t *size_out, size_t *used_out);

#endif
