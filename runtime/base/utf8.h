/* SPDX-License-Identifier: Apache-2.0 */
/* Characters of UTF-8 (RFC 3629), in bytes of anybody's. */
#ifndef CRTI_BASE_UTF8_H
#define CRTI_BASE_UTF8_H

#include <stddef.h>

/* Bytes of the character at `at`, of which `size`, at least 1, are there: 0 when it is none, -1
 * when more bytes could make one. */
int crti_utf8_length(const unsigned char *at, size_t size);

#endif
