/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a program, on the host that it comes to: says which files it lacks, and takes them
 * from standard input.
 *
 * Where it sits
 *     cli/host.c -> [ cli/host_sync.c ] <- cli/folder_sync.c by ssh
 * Failure
 *     A file is replaced when all of it has come and is what was announced; what came before stays.
 */
#ifndef CRTI_CLI_HOST_SYNC_H
#define CRTI_CLI_HOST_SYNC_H

#include <stddef.h>
#include <stdint.h>

#include <crt.h>
#include <jansson.h>

/* The current directory becomes ~/FOLDER, which is made where it is missing. */
crt_status_t crti_host_enter(const char *folder);

/* `files` as crti_folder_sync_files has them, into the current directory. */
crt_status_t crti_host_sync(const json_t *files, size_t *count_out, uint64_t *bytes_out);

#endif
