/* SPDX-License-Identifier: Apache-2.0 */
/* Package directories: the folders of jobs as they lie unpacked on this host, STATE/packages/KEY.
 *
 * Where it sits
 *     node/jobs/package.c (holds), crt-unpack (makes, trims) -> [ node/host/package_dir.c ]
 * Rules
 *     KEY is the SHA-256 of the zip, and of the setup command where there is one; of a Python
 *     environment that of its requirements, of an image that of its name. Beside each lies
 *     KEY.lock: one process at a time makes the folder; those that use it share another lock, until
 *     they end. What is written in it says that the folder is complete, since this boot of the
 *     host: what a crash left half on disk is made anew. Folders that nobody holds go, the least
 *     recently used first, beyond a total of bytes and after an age; none within PIN_S of its use.
 * Threads: any.
 */
#ifndef CRTI_NODE_PACKAGE_DIR_H
#define CRTI_NODE_PACKAGE_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/crt_base.h"

/* In the folder of an image: its files, and lines with the variables that it says. */
#define CRTI_IMAGE_FILES     "root"
#define CRTI_IMAGE_VARIABLES "variables"

#define CRTI_PACKAGES_PIN_S 600
#define CRTI_PACKAGE_KEY    96 /* bytes, with the final zero */

/* The name of the folder of that zip and setup command ("": none), which is run in the Python
 * environment `base` ("": none). */
void crti_package_key(const char *sha, const char *setup, const char *base,
                      char key[CRTI_PACKAGE_KEY]);

/* True when the folder is complete: it stays as long as `*fd_out`, which the caller closes, is
 * open. */
bool crti_package_hold(const char *packages, const char *key, int *fd_out);

/* Waits until nobody else makes it, after a call of `on_wait` (NULL: none) where it is so.
 * Caller closes `*fd_out`. */
crt_status_t crti_package_lock(const char *packages, const char *key,
                               void (*on_wait)(void), int *fd_out);

/* What lock gave says that the folder is complete. */
bool crti_package_is_complete(int fd);
crt_status_t crti_package_complete(int fd, uint64_t bytes);

/* Removes what nobody holds, beyond `bytes` in total or not used for `age_s` seconds. */
void crti_package_trim(const char *packages, uint64_t bytes, int64_t age_s);

#endif
