/* SPDX-License-Identifier: Apache-2.0 */
/* Unpack: the zip of a job's folder, made by a stranger, into the current directory.
 *
 * Where it sits
 *     crt-unpack (node/unpack_main.c) -> [ node/host/unpack.c ] -> libarchive -> files
 * Trust
 *     Names with "..", absolute ones, links that lead out, hard links, devices, encrypted members
 *     and what is above the limits end it. Files are 0644 or, with an execute bit, 0755. What was
 *     written before the end is the caller's to remove.
 * Threads: any; it works in the current directory of the process.
 */
#ifndef CRTI_NODE_UNPACK_H
#define CRTI_NODE_UNPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/crt_base.h"

#define CRTI_UNPACK_ENTRIES 200000 /* with the directories above members */
#define CRTI_UNPACK_NAME    1024   /* bytes of a path */

typedef struct crti_unpack_limits {
    uint64_t bytes, entries;
} crti_unpack_limits_t;

/* Reads the zip at `zip_fd`, which can be sought. `*bytes_out`: what its files take.
 * CRT_ERR_CORRUPT: it is none, or it is cut; CRT_ERR_INVALID: a member that is not taken;
 * CRT_ERR_TOO_LARGE; CRT_ERR_STORE_FULL: the disk is full; CRT_ERR_IO. */
crt_status_t crti_unpack(int zip_fd, const crti_unpack_limits_t *limits,
                         uint64_t *bytes_out);

/* True for a path that stays below where it begins: relative, no "..", no empty part. */
bool crti_unpack_is_inside(const char *path);

/* Without its parts that are "."; "" when there is nothing else. False: it is not inside. */
bool crti_unpack_clean(const char *path, char clean[CRTI_UNPACK_NAME + 1]);

/* True when the link `name` to `target` stays inside: "../" at its start only, no more than it is
 * deep. */
bool crti_unpack_is_link_inside(const char *name, const char *target);

#endif
