/* SPDX-License-Identifier: Apache-2.0 */
/* Where the command crt is: beside the library or the program, else by PATH. In daemon_path.c. */
#ifndef CRTI_CORE_COMMAND_PATH_H
#define CRTI_CORE_COMMAND_PATH_H

#include "runtime/crt.h"

/* Writes a path, or "crt", which execvp finds. */
crt_status_t crti_command_path(char *path, size_t size);

#endif
