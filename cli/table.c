/* SPDX-License-Identifier: Apache-2.0 */
/* Tables. See table.h. */
#include "cli/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crt_printable.h>
#include <libsmartcols/libsmartcols.h>

struct table {
    struct libscols_table *scols;
    size_t count;
};

table_t *crti_table_new(const table_column_t *columns, size_t count)
{
    table_t *self = calloc(1, sizeof(*self));

    if (!self)
        return NULL;
    self->count = count;
    self->scols = scols_new_table();
    if (!self->scols) {
        free(self);
        return NULL;
    }
    scols_table_set_column_separator(self->scols, "  ");
    for (size_t i = 0; i < count; i++)
        scols_table_new_column(self->scols, columns[i].name, 0,
                               columns[i].right ? SCOLS_FL_RIGHT : 0);
    return self;
}

void crti_table_cut(char *text, size_t most)
{
    size_t at = most - 3;

    if (strlen(text) <= most)
        return;
    while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
        at--;
    strcpy(text + at, "...");
}

void crti_table_row(table_t *table, const char *const *cells)
{
    struct libscols_line *line = table ? scols_table_new_line(table->scols, NULL) : NULL;

    for (size_t i = 0; line && i < table->count; i++) {
        char *text = strdup(cells[i] ? cells[i] : "");

        for (char *at = text ? crt_make_printable(text) : NULL; at && *at; at++)
            if (*at == '\n' || *at == '\t')
                *at = ' ';
        if (!text || scols_line_refer_data(line, i, text) != 0)
            free(text);
    }
}

void crti_table_print(table_t *table_take)
{
    char *text = NULL;

    if (!table_take)
        return;
    if (!scols_table_is_empty(table_take->scols) &&
        scols_print_table_to_string(table_take->scols, &text) == 0 && text)
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
            printf(" %s\n", line);
    free(text);
    scols_unref_table(table_take->scols);
    free(table_take);
}
