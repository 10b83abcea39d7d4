/* SPDX-License-Identifier: Apache-2.0 */
/* File: whole files in, whole files out. */
#ifndef CRTI_ML_FILE_H
#define CRTI_ML_FILE_H

#include <limits.h>

#include <crt_base.h>

/* Reads a regular file of at most `limit` bytes. CRT_ERR_NOT_FOUND, CRT_ERR_PERMISSION,
 * CRT_ERR_TOO_LARGE or CRT_ERR_IO name the path. Caller frees the result with free. */
crt_status_t crti_file_read(const char *path, size_t limit, unsigned char **data_out,
                            size_t *size_out);

/* The path of the first of FOLDER/NAME and FOLDER/NAME.gz that is no folder and can be read;
 * `names`, which end with NULL, are what the file may be called. CRT_ERR_NOT_FOUND or
 * CRT_ERR_PERMISSION, naming the first, when there is none. */
crt_status_t crti_file_find(const char *folder, const char *const *names,
                            char path_out[static PATH_MAX]);

/* Replaces `path` by these bytes or leaves it as it was: writes a file of a random name
 * beside it, syncs it, renames it and syncs the folder. A pipe or device is refused, CRT_ERR_IO. */
crt_status_t crti_file_write(const char *path, const void *data, size_t size);

#endif
