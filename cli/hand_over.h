/* SPDX-License-Identifier: Apache-2.0 */
/* What runs on a host before crt does: a line of shell that looks for the same crt there, and takes
 * it from standard input where there is none (docs/cluster-file.md). Pure.
 *
 * Where it sits
 *     cli/ssh.c -> [ cli/hand_over.c ] -> cli/crt_archive.c
 * What it says
 *     "crt-hand send": the archive is wanted. "crt-hand ready": crt host runs. Any other word is
 *     why nothing more happens.
 */
#ifndef CRTI_CLI_HAND_OVER_H
#define CRTI_CLI_HAND_OVER_H

#include <stddef.h>

#include "cli/crt_archive.h"

#define HAND_OVER_SAYS    "crt-hand "
#define HAND_OVER_COMMAND 8192

typedef enum hand_over_mode {
    HAND_OVER_GIVES,  /* where it is missing */
    HAND_OVER_CHECKS, /* says that it is missing */
    HAND_OVER_ENDS /* gives it, but where there never was any: nothing is to be ended */
} hand_over_mode_t;

/* The command of ssh. */
void crti_hand_over_command(const crt_archive_t *archive, hand_over_mode_t mode,
                            char command[HAND_OVER_COMMAND]);

/* True of a word that is no failure; `*did_out` is what the host has to say. */
bool crti_hand_over_is_fine(const char *word, const char **did_out);

/* Why crt could not be handed over, by the words of the line and the last line of errors. */
void crti_hand_over_reason(const crt_archive_t *archive, const char *words,
                           const char *error, char *text, size_t size);

#endif
