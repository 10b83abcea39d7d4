/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts on other hosts: this process becomes a command of crt that runs the program there.
 *
 * Where it sits
 *     core/client/context_start.c -> [ core/client/context_command.c ] -> crt up; then, in the
 *     place of this process, crt exec or crt slurm -> the program again, which is in the cluster
 * Failure
 *     What can be known before is an error that is returned: no file, no srun, no crt, a failed
 *     crt up, whose own lines are on standard error.
 */
#ifndef CRTI_CORE_CONTEXT_COMMAND_H
#define CRTI_CORE_CONTEXT_COMMAND_H

#include "runtime/crt.h"

/* Set for a program that runs in the cluster of a context. */
#define CRTI_CONTEXT_VARIABLE "CRT_CONTEXT"

/* Starts the cluster of the file where it does not run, and goes on as the program on its head.
 * Returns on failure only. */
crt_status_t crti_context_become_file(const char *file, int argc, char **argv);

/* Goes on as the program on the first of `nodes` nodes of a Slurm job; 0: those of the allocation.
 * Returns on failure only. */
crt_status_t crti_context_become_slurm(unsigned nodes, int argc, char **argv);

#endif
