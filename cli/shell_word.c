/* SPDX-License-Identifier: Apache-2.0 */
/* Texts as words of a shell. See shell_word.h. */
#include "cli/shell_word.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void crti_shell_word(const char *text, char *word, size_t size)
{
    bool is_plain = *text != '\0';
    size_t used = 1;

    for (const char *at = text; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("/._-+,=@%:", *at))
            is_plain = false;
    if (is_plain) {
        snprintf(word, size, "%s", text);
        return;
    }
    word[0] = '\'';
    for (const char *at = text; *at && used + 6 < size; at++)
        used +=
            (size_t)snprintf(word + used, size - used, *at == '\'' ? "'\\''" : "%c", *at);
    snprintf(word + used, size - used, "'");
}
