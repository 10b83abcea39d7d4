/* SPDX-License-Identifier: Apache-2.0 */
/* Text: what editors and systems put into text files that is not their text. */
#ifndef CRTI_ML_TEXT_H
#define CRTI_ML_TEXT_H

#include <crt_base.h>

/* Leaves out the byte order mark that some editors write in front of UTF-8. CRT_ERR_CORRUPT,
 * naming `name`: the mark says UTF-16. */
crt_status_t crti_text_begin(const char *name, const char **text, size_t *size);

/* Where the line that begins at `at` ends: at "\n", "\r\n", "\r" or `end`. */
static inline const char *crti_text_line_end(const char *at, const char *end)
{
    while (at < end && *at != '\n' && *at != '\r')
        at++;
    return at;
}

/* Where the line behind the one that ends at `at` begins. */
static inline const char *crti_text_next_line(const char *at, const char *end)
{
    if (at < end && *at == '\r' && at + 1 < end && at[1] == '\n')
        return at + 2;
    return at < end ? at + 1 : end;
}

#endif
