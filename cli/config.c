/* SPDX-License-Identifier: Apache-2.0 */
/* crt config: which settings the configuration files have, and which of them count. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config_file.h"
#include "cli/options.h"
#include "cli/table.h"

#define NAME "crt config"

/* A variable that was set before the file was read has another value. */
static const char *why_not(const config_setting_t *s, char *text, size_t size)
{
    const char *variable = crti_config_variable(s->name);

    if (s->is_replaced)
        return "no: a later file";
    if (strcmp(s->section, "environment") == 0)
        variable =
            getenv(s->name) && strcmp(getenv(s->name), s->value) != 0 ? s->name : NULL;
    if (!variable)
        return "yes";
    snprintf(text, size, "no: %s is set", variable);
    return text;
}

static void print(void)
{
    static const table_column_t columns[] = {
        {"SECTION", 0}, {"SETTING", 0}, {"VALUE", 0}, {"FROM", 0}, {"COUNTS", 0}};
    table_t *table = crti_table_new(columns, sizeof(columns) / sizeof(columns[0]));
    const config_setting_t *s;

    for (size_t i = 0; (s = crti_config_at(i)) != NULL; i++) {
        char from[512], why[128];
        const char *cells[] = {s->section, s->name, s->value, from,
                               why_not(s, why, sizeof(why))};

        snprintf(from, sizeof(from), "%s:%u", s->file, s->line);
        crti_table_row(table, cells);
    }
    if (!crti_config_at(0))
        printf("No configuration file has a setting.\n");
    crti_table_print(table);
}

int crti_cli_config(int argc, char **argv)
{
    static const command_spec_t spec = {
        .name = NAME,
        .summary =
            "Prints the settings of the configuration files /etc/crt/crt.conf and\n"
            "~/.config/crt/crt.conf (or those of CRT_CONFIG), and which of them count.\n"
            "An option that is given counts before an environment variable, and that\n"
            "before a file."};
    int first;

    switch (crti_cli_parse(argc, argv, &spec, &first)) {
    case PARSE_DONE: return 0;
    case PARSE_WRONG: return CLI_USAGE;
    case PARSE_OK: break;
    }
    print();
    return 0;
}
