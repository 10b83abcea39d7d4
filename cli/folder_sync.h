/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a program on its way to hosts: which files it has, and the bytes of those that a
 * host wants.
 *
 * Where it sits
 *     cli/cluster.c -> [ cli/folder_sync.c ] -> cli/folder.c; cli/ssh.c -> crt host,
 *     cli/host_sync.c
 * Rules
 *     What .gitignore files name is left out. Nothing is removed on a host. A file that differs is
 *     replaced as a whole, when all of it has come and is what was announced.
 */
#ifndef CRTI_CLI_FOLDER_SYNC_H
#define CRTI_CLI_FOLDER_SYNC_H

#include <jansson.h>

#include "cli/ssh.h"

#define SYNC_WANTS "crt-want " /* before "0-4,7,", places in the list of files */

/* One to a program. CRT_ERR_TOO_LARGE: too many files for one request. */
crt_status_t crti_folder_sync_open(const char *directory);
void crti_folder_sync_close(void);

/* [[NAME, SIZE, is executable, SHA256], ...], borrowed. */
json_t *crti_folder_sync_files(void);

/* Handlers of an ssh_run_t. */
void crti_folder_sync_answer(ssh_call_t *call);
size_t crti_folder_sync_fill(ssh_call_t *call, char *bytes, size_t room);

#endif
