/* SPDX-License-Identifier: Apache-2.0 */
/* crt config: which settings the configuration files have, which of them count, and which limits
 * (runtime/base/limit.h) are not as they were made, or all of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config_file.h"
#include "cli/options.h"
#include "cli/table.h"
#include "runtime/base/limit.h"

#define NAME          "crt config"
#define VARIABLE_MOST 4096

/* ---------------------------------------------------------------- settings of files */

/* A variable that was set before the file was read has another value. */
static const char *why_not(const config_setting_t *s, char *text, size_t size)
{
    const char *variable = crti_config_variable(s->name);
    char name[VARIABLE_MOST];

    if (s->is_replaced)
        return "no: a later file";
    if (crti_config_sets_variable(s, name, sizeof(name)))
        variable = getenv(name) && strcmp(getenv(name), s->value) != 0 ? name : NULL;
    if (!variable)
        return "yes";
    snprintf(text, size, "no: %s is set", variable);
    return text;
}

static void print_settings(void)
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

/* ---------------------------------------------------------------- limits */

/* The file and line that has set the variable, or "environment". */
static void find_source(const char *variable, const char *value, char *text, size_t size)
{
    const config_setting_t *s;

    snprintf(text, size, "environment");
    for (size_t i = 0; (s = crti_config_at(i)) != NULL; i++) {
        char name[VARIABLE_MOST];

        if (!s->is_replaced && crti_config_sets_variable(s, name, sizeof(name)) &&
            strcmp(name, variable) == 0 && strcmp(s->value, value) == 0)
            snprintf(text, size, "%s:%u", s->file, s->line);
    }
}

static void add_row(table_t *table, const crti_limit_t *limit, const char *value,
                    const char *from)
{
    char least[CRTI_LIMIT_TEXT], most[CRTI_LIMIT_TEXT], range[2 * CRTI_LIMIT_TEXT + 8];
    const char *cells[] = {
        limit->name,   value, from, range, crti_limit_scope_name(limit->scope),
        limit->meaning};

    crti_limit_write(limit->unit, limit->least, least);
    crti_limit_write(limit->unit, limit->most, most);
    snprintf(range, sizeof(range), "%s to %s", least, most);
    crti_table_row(table, cells);
}

/* Returns how many limits are not as they were made. */
static size_t print_limits(bool is_all)
{
    static const table_column_t columns[] = {{"LIMIT", 0},     {"VALUE", 0},
                                             {"FROM", 0},      {"RANGE", 0},
                                             {"OBEYED BY", 0}, {"MEANING", 0}};
    table_t *table = crti_table_new(columns, sizeof(columns) / sizeof(columns[0]));
    const crti_limit_t *limit;
    size_t count = 0;

    for (size_t i = 0; (limit = crti_limit_at(i)) != NULL; i++) {
        char variable[CRTI_LIMIT_VARIABLE], value[CRTI_LIMIT_TEXT], from[512] = "default";
        const char *text;
        uint64_t number = limit->standard;

        crti_limit_variable(limit, variable);
        text = getenv(variable);
        if (text && *text) {
            find_source(variable, text, from, sizeof(from));
            if (crti_limit_read(limit, variable, text, &number) != CRT_OK)
                number = limit->standard; /* told by the check of all */
            count++;
        }
        crti_limit_write(limit->unit, number, value);
        if (is_all || (text && *text))
            add_row(table, limit, value, from);
    }
    crti_table_print(table);
    return count;
}

int crti_cli_config(int argc, char **argv)
{
    static bool is_all;
    static const option_spec_t options[] = {
        {"limits", 0, NULL, OPTION_FLAG, &is_all,
         "show all limits: value, range, who obeys it, what it means"}};
    static const command_spec_t spec = {
        .name = NAME,
        .summary =
            "Prints the settings of the configuration files /etc/crt/crt.conf and\n"
            "~/.config/crt/crt.conf (or those of CRT_CONFIG), and which of them count.\n"
            "An option that is given counts before an environment variable, and that\n"
            "before a file. Then the limits that are not as they were made.",
        .options = options,
        .count = sizeof(options) / sizeof(options[0])};
    crti_limits_t limits;
    int first = crti_cli_parse(argc, argv, &spec);

    if (first <= 0)
        return -first;
    if (!is_all) {
        print_settings();
        printf("\n");
    }
    if (print_limits(is_all) == 0 && !is_all)
        printf("All limits have their defaults; " NAME " --limits shows them.\n");
    if (crti_limits_environment(&limits) == CRT_OK)
        return 0;
    crti_cli_fail_detail(NAME);
    return CLI_FAILED;
}
