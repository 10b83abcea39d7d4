/* SPDX-License-Identifier: Apache-2.0 */
/* Gzip: packed files, read piece by piece or whole.
 *
 * A file is one or more members, one behind the other (RFC 1952), and maybe zeros that pad it.
 */
#ifndef CRTI_ML_GZIP_H
#define CRTI_ML_GZIP_H

#include <crt_base.h>

/* True when these bytes begin as a packed file does. */
bool crti_gzip_is_packed(const unsigned char *bytes, size_t size);

/* A packed file that is being read. */
typedef struct crti_gzip crti_gzip_t;

/* Opens the bytes of a file, which must outlive it; `name` stands in errors. CRT_ERR_TOO_LARGE,
 * CRT_ERR_NO_MEMORY. Caller frees it with crti_gzip_close. */
crt_status_t crti_gzip_open(const char *name, const unsigned char *bytes, size_t size,
                            crti_gzip_t **gzip_out);

/* Unpacks the next `room` bytes; `*size_out` are fewer at the end of the last member, whose
 * checksum is right then. CRT_ERR_CORRUPT: damaged, cut short, or followed by something else
 * than zeros. */
crt_status_t crti_gzip_read(crti_gzip_t *gzip, unsigned char *out, size_t room,
                            size_t *size_out);

/* NULL is fine. */
void crti_gzip_close(crti_gzip_t *gzip);

/* Unpacks a whole file to at most `limit` bytes. CRT_ERR_CORRUPT, CRT_ERR_TOO_LARGE name it.
 * Caller frees the result with free. */
crt_status_t crti_gzip_unpack(const char *name, const unsigned char *bytes, size_t size,
                              size_t limit, unsigned char **data_out, size_t *size_out);

#endif
