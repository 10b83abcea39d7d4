/* SPDX-License-Identifier: Apache-2.0 */
/* Files that hold a secret: a key, a password. See secret_file.c. */
#ifndef CRTI_BASE_SECRET_FILE_H
#define CRTI_BASE_SECRET_FILE_H

#include "runtime/base/crt_base.h"

/* That nobody but this user can have read or written the open file `fd`: a regular file, owned by
 * this user, closed to others. Root may let a group read it. `what` ("key file") and `path` stand
 * in the error: CRT_ERR_PERMISSION, CRT_ERR_INVALID (not a regular file), CRT_ERR_IO. */
crt_status_t crti_check_secret_file(int fd, const char *what, const char *path);

#endif
