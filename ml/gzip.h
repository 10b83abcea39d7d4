/* SPDX-License-Identifier: Apache-2.0 */
/* Gzip: packed files of unknown length. */
#ifndef CRTI_ML_GZIP_H
#define CRTI_ML_GZIP_H

#include "crt_base.h"

/* True when these bytes begin as a packed file does. */
bool crti_gzip_is_packed(const unsigned char *bytes, size_t size);

/* Unpacks a file of one or more members to at most `limit` bytes. CRT_ERR_CORRUPT, CRT_ERR_TOO_LARGE name it.
 * Caller frees the result with free. */
crt_status_t crti_gzip_unpack(const char *name, const unsigned char *bytes, size_t size,
                              size_t limit, unsigned char **data_out, size_t *size_out);

#endif
