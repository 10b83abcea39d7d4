/* SPDX-License-Identifier: Apache-2.0 */
/* File: unnamed memory that processes share, on huge pages where this host lets us. See arena.c. */
#ifndef CRTI_STORE_FILE_H
#define CRTI_STORE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/crt_base.h"

/* An unnamed shared file of `bytes`; *huge: whether huge pages are wanted, then whether it got
 * them. */
crt_status_t crti_arena_file(size_t bytes, int *fd_out, bool *huge);

#endif
