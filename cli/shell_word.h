/* SPDX-License-Identifier: Apache-2.0 */
/* Texts as words of a shell. Pure. */
#ifndef CRTI_CLI_SHELL_WORD_H
#define CRTI_CLI_SHELL_WORD_H

#include <stddef.h>

/* The text as one word, in quotes where it needs them. Room for four times its length and 3 bytes
 * is always enough. */
void crti_shell_word(const char *text, char *word, size_t size);

#endif
