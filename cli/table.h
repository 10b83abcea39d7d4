/* SPDX-License-Identifier: Apache-2.0 */
/* Tables on standard output, by libsmartcols. */
#ifndef CRTI_CLI_TABLE_H
#define CRTI_CLI_TABLE_H

#include <stddef.h>

typedef struct table_column {
    const char *name;
    int right; /* numbers are aligned right */
} table_column_t;

typedef struct table table_t;

/* Cuts a text to `most` bytes, between characters: it ends with "..." then. */
void crti_table_cut(char *text, size_t most);

/* NULL when out of memory; the other functions then do nothing. */
table_t *crti_table_new(const table_column_t *columns, size_t count);
/* A row of `count` texts, which are copied and made harmless for a terminal. */
void crti_table_row(table_t *table, const char *const *cells);
/* Prints, each line indented by a space (nothing when there are no rows), and frees. */
void crti_table_print(table_t *table_take);

#endif
