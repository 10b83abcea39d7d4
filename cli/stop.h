/* SPDX-License-Identifier: Apache-2.0 */
/* What crt stop does to run directories, for `crt start --block` too. */
#ifndef CRTI_CLI_STOP_H
#define CRTI_CLI_STOP_H

#include "cli/run_dirs.h"

/* Ends every process of the run directories and removes the directories. Returns an exit status; a
 * failure was printed. */
int crti_cli_end_run_dirs(const run_dir_t *dirs, size_t count, bool force);

#endif
