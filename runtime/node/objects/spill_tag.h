/* SPDX-License-Identifier: Apache-2.0 */
/* Spill tag: what tells whether bytes that are read from a file are those that were written.
 *
 * Where it sits
 *     spill_files.c -> [ objects/spill_tag.h ] -> OpenSSL, libsodium
 * How
 *     Poly1305 (RFC 8439, 2.5). OpenSSL computes it with vectors, several times as fast as
 *     libsodium, but is slow to begin: it takes large parts, and libsodium small ones, and all of
 *     them where OpenSSL is missing. Both give the same tag.
 * Invariants
 *     One key for many parts is safe only as long as nobody sees a tag: they stay in memory.
 * Threads
 *     Any.
 */
#ifndef CRTI_NODE_SPILL_TAG_H
#define CRTI_NODE_SPILL_TAG_H

#include <stddef.h>

#define CRTI_SPILL_TAG_BYTES     16
#define CRTI_SPILL_TAG_KEY_BYTES 32

/* Fills `tag`, of CRTI_SPILL_TAG_BYTES, for `key`, of CRTI_SPILL_TAG_KEY_BYTES. */
void crti_spill_tag(const unsigned char *key, const void *bytes, size_t size,
                    unsigned char *tag);

#endif
