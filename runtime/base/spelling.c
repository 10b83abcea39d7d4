/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are near. See spelling.h. */
#include "runtime/base/spelling.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define NAME_MOST 64

static bool is_same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned crti_spelling_edits(const char *a, const char *b)
{
    unsigned rows[3][NAME_MOST];
    size_t a_size = strnlen(a, NAME_MOST - 1), b_size = strnlen(b, NAME_MOST - 1);

    for (size_t j = 0; j <= b_size; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= a_size; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i - 1) % 3];

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_size; j++) {
            row[j] = least(above[j - 1] + !is_same(a[i - 1], b[j - 1]),
                           least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && is_same(a[i - 1], b[j - 2]) &&
                is_same(a[i - 2], b[j - 1]))
                row[j] = least(row[j], rows[(i - 2) % 3][j - 2] + 1);
        }
    }
    return rows[a_size % 3][b_size];
}

const char *crti_spelling_nearest(const char *name,
                                  const char *(*name_at)(const void *user, size_t index),
                                  const void *user)
{
    unsigned best = (unsigned)strlen(name) / 2 + 1; /* so many make another word of it */
    const char *nearest = NULL, *other;

    for (size_t i = 0; (other = name_at(user, i)); i++) {
        unsigned edits = crti_spelling_edits(name, other);

        if (edits < best) {
            best = edits;
            nearest = other;
        }
    }
    return nearest;
}
