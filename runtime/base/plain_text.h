/* SPDX-License-Identifier: Apache-2.0 */
/* Plain text: what people write with any editor on any system, as one form. A byte order mark is no
 * part of it, and lines end with '\n', also where the file has CR LF or CR. UTF-16, which has zero
 * bytes that end texts, is refused.
 */
#ifndef CRTI_BASE_PLAIN_TEXT_H
#define CRTI_BASE_PLAIN_TEXT_H

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In place; `text` has a zero behind its `size` bytes, and keeps one. Returns the new size. */
static inline size_t crti_plain_text(char *text, size_t size)
{
    size_t from = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0, to = 0;

    for (; from < size; from++) {
        if (text[from] == '\r' && from + 1 < size && text[from + 1] == '\n')
            continue;
        text[to++] = (char)(text[from] == '\r' ? '\n' : text[from]);
    }
    text[to] = '\0';
    return to;
}

/* True for what some editors call Unicode. */
static inline int crti_is_utf16(const char *text, size_t size)
{
    return size >= 2 &&
           (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0);
}

/* A whole file of less than `most` bytes, which the caller frees. NULL with errno: EFBIG for a
 * larger one, EILSEQ for UTF-16. */
static inline char *crti_plain_text_read(const char *path, size_t most)
{
    FILE *file = fopen(path, "re");
    char *text = file ? malloc(most) : NULL;
    size_t size = text ? fread(text, 1, most, file) : 0;
    int error = text == NULL || ferror(file) ? errno
                : size == most               ? EFBIG
                : crti_is_utf16(text, size)  ? EILSEQ
                                             : 0;

    if (file)
        fclose(file);
    if (error) {
        free(text);
        errno = error;
        return NULL;
    }
    text[size] = '\0';
    crti_plain_text(text, size);
    return text;
}

#endif
