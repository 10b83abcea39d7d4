/* SPDX-License-Identifier: Apache-2.0 */
/* Where a program without a slash in its name is, as a shell finds it.
 *
 * Where it sits
 *     control/store/child.c, node/jobs/submission_exec.c, crt-unpack, cli/job_upload.c,
 *     core/client/context_command.c -> [ base/path_search.c ]
 * Threads: any; no state.
 */
#ifndef CRTI_BASE_PATH_SEARCH_H
#define CRTI_BASE_PATH_SEARCH_H

#include <stdbool.h>
#include <stddef.h>

/* The first executable file of that name in the folders of `search`, a value of PATH (NULL: none),
 * as a path in `found`. False: there is none, or no room for its path. */
bool crti_path_search(const char *search, const char *name, char *found, size_t size);

#endif
