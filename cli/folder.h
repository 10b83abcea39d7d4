/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a job as a zip: the same bytes for the same files, whatever host, clock and order.
 *
 * Where it sits
 *     cli/job_upload.c, cli/folder_sync.c -> [ cli/folder.c ] -> cli/ignore.c, libarchive
 * Rules
 *     Sorted names, no times, no owners, modes 0644 or 0755. .gitignore files and `excludes` are
 *     obeyed, .git is left out. Links that stay inside are kept. What one leads to outside is
 *     packed in its place, with a line that says so; one that leads to what can't be read, nowhere
 *     or to a folder that holds this one is left out with a line. Sockets, pipes and devices are
 *     left out.
 * Threads: any.
 */
#ifndef CRTI_CLI_FOLDER_H
#define CRTI_CLI_FOLDER_H

#include <fts.h>
#include <stdbool.h>
#include <stdio.h>

#include "crt_base.h"

#define FOLDER_BYTES   ((uint64_t)500 << 20) /* of all files together */
#define FOLDER_ENTRIES 200000 /* as crt-unpack takes (runtime/node/host/unpack.h) */

/* What is done with something below the folder; `name` is its path from there. */
typedef crt_status_t (*folder_visit_t)(void *user, const char *name, const FTSENT *at);

/* Visits what is not left out, in the order of names, folders before what is in them. `excludes`
 * ends with NULL. `follows`: what a link leads to outside of the folder is visited in its place. */
crt_status_t crti_folder_walk(const char *directory, const char *const *excludes,
                              bool follows, folder_visit_t visit, void *user);

/* A file without a name, at its beginning, which the caller closes. `excludes` ends with NULL.
 * CRT_ERR_TOO_LARGE: more bytes, with the names of the largest files, or more files. */
crt_status_t crti_folder_pack(const char *directory, const char *const *excludes,
                              FILE **zip_out);

#endif
