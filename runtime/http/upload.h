/* SPDX-License-Identifier: Apache-2.0 */
/* Upload: an executable, or the zip of a job's folder, on its way into the content cache
 * STATE/programs.
 *
 * Where it sits
 *     PUT /api/packages/crt/SHA, /api/packages/gcs/NAME -> http/endpoints.c -> [ http/upload.c ]
 *     -> STATE/programs/SHA256; NAME is a link to it
 * Threads: the loop's. The disk is waited for: one large upload makes others wait its fsync.
 * Invariants
 *     A name in the cache holds exactly the bytes of that SHA-256, mode 0700, on disk: it is
 *     written under another name, checked, synced and then renamed.
 * Failure: a full disk is reported before the bytes are read, where the file system can say so. A
 *     killed process leaves ".upload-PID-N", which the next start removes.
 */
#ifndef CRTI_HTTP_UPLOAD_H
#define CRTI_HTTP_UPLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/crt_base.h"

#define CRTI_UPLOAD_UNKNOWN UINT64_MAX /* a size that is known at the end only */

typedef struct crti_upload crti_upload_t;

/* `directory` is made when it is missing; `name` is the SHA-256 that the bytes must have, or that
 * of a package (crti_package_is_name), which may have any. CRT_ERR_TOO_LARGE; CRT_ERR_STORE_FULL:
 * the disk has no room. Caller owns the result and frees it with crti_upload_free. */
crt_status_t crti_upload_new(const char *directory, const char *name, uint64_t size,
                             crti_upload_t **upload_out);

/* CRT_ERR_STORE_FULL; CRT_ERR_TOO_LARGE: more than announced. */
crt_status_t crti_upload_write(crti_upload_t *upload, const void *data, size_t size);

/* Checks, syncs and publishes; the cache is trimmed to its quota. CRT_ERR_CORRUPT: another SHA-256,
 * or fewer bytes. */
crt_status_t crti_upload_finish(crti_upload_t *upload);

/* Removes what was not finished. NULL is fine. */
void crti_upload_free(crti_upload_t *upload);
CRTI_DEFINE_AUTO(crti_upload_t *, crti_upload_free)

/* True when the cache has it; it counts as used. */
bool crti_program_exists(const char *directory, const char *sha);

/* "_ray_pkg_HEX.zip", as Ray's client and ours name packages. */
bool crti_package_is_name(const char *text);

/* The SHA-256 of a package's bytes, when the cache has it; it counts as used. */
bool crti_package_exists(const char *directory, const char *name, char sha_out[65]);

/* Removes what killed processes left behind. */
void crti_upload_clean(const char *directory);

#endif
