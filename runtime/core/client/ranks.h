/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks: one program in N processes, as crt run --ranks asks for it. See docs/design/ranks.md.
 *
 * Where it sits
 *     crt_main -> [ ranks ] -> actors of the class crt.Rank, each of which runs the program's
 *     driver
 *     node_messages.c (lines of workers) -> [ ranks ]: of which rank they are
 * States
 *     A driver that finds CRT_RANKS makes the ranks and waits for all of them, or for the first
 *     that fails. A worker knows which function is the driver from its own crt_main.
 * Threads
 *     crt_main's. Ids of the ranks' actors are written and read under the core's lock.
 * Failure
 *     The first rank that fails ends the program; the end of the driver ends the job, and so all
 *     ranks. Results of several ranks arrive in any order: a rank that failed because another one
 *     ended names it, and the other one is reported.
 */
#ifndef CRTI_CORE_CLIENT_RANKS_H
#define CRTI_CORE_CLIENT_RANKS_H

#include "runtime/base/id.h"
#include "runtime/crt.h"

#define CRTI_RANKS_MAX 1024

/* Before crt_init, in every process of a program: adds the class of ranks to its options. Reads
 * CRT_RANKS and CRT_TAG_OUTPUT and takes them out of the environment; `*count_out` is 0 where they
 * are not set. CRT_ERR_INVALID: no number of ranks. */
crt_status_t crti_ranks_prepare(int argc, char **argv, crt_options_t *options,
                                int (*driver)(int argc, char **argv), int *count_out);

/* Runs the driver in `count` processes. Returns the exit status: 0, or that of the first that
 * failed, which was printed. */
int crti_ranks_run(int count);

/* In a rank. What is called when its driver has returned or calls exit, before the others are told;
 * the last that was set. Returns the rank whose end made this one fail, -1: none did. */
void crti_ranks_at_end(int (*leave)(void));
/* In a rank: that one has ended without a failure, so that what has not been begun with it will not
 * be. */
bool crti_ranks_has_ended(int rank);

/* Of which rank a worker's output is; -1: of none. Under the core's lock. */
int crti_ranks_find(crti_id_t actor);
/* Prints a line of a rank. */
void crti_ranks_print(int rank, bool is_stderr, const char *line, size_t size);

#endif
