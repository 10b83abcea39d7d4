/* SPDX-License-Identifier: Apache-2.0 */
/* Tables line up for names in any script, and cut between characters. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/table.h"

/* What a table of these rows prints. */
static void print(const char *const (*rows)[2], size_t count, char *text, size_t size)
{
    static const table_column_t columns[] = {{"NAME", 0}, {"STATE", 0}};
    table_t *table = crti_table_new(columns, 2);
    FILE *file = tmpfile();
    int before = dup(STDOUT_FILENO);

    assert_non_null(file);
    for (size_t i = 0; i < count; i++)
        crti_table_row(table, rows[i]);
    fflush(stdout);
    dup2(fileno(file), STDOUT_FILENO);
    crti_table_print(table);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    rewind(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

static void columns_line_up_by_characters(void **state)
{
    static const char *const rows[][2] = {{"K\xc3\xb6ln", "A"}, {"Ulm", "B"}};
    char text[512];

    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    print(rows, 2, text, sizeof(text));
    assert_string_equal(text, " NAME  STATE\n K\xc3\xb6ln  A\n Ulm   B\n");
}

static void a_text_is_cut_between_characters(void **state)
{
    char text[64] = "\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f";

    crti_table_cut(text, 8);
    assert_string_equal(text, "\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f");
    crti_table_cut(text, 7);
    assert_string_equal(text, "\xc3\xa4\xc3\xb6...");
    strcpy(text, "\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f");
    crti_table_cut(text, 6);
    assert_string_equal(text, "\xc3\xa4...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_line_up_by_characters),
        cmocka_unit_test(a_text_is_cut_between_characters)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
