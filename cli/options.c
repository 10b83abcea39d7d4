/* SPDX-License-Identifier: Apache-2.0 */
/* Options of commands, and what files say of them. See options.h. */
#include "cli/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config_file.h"
#include "runtime/base/spelling.h"
#include "runtime/base/variables_list.h"

void crti_cli_print_environment(void)
{
    static const char *const list[][3] = {
#define ROW(name, who, meaning) {#name, who, meaning},
        CRTI_VARIABLES(ROW)
#undef ROW
    };

    printf("\nEnvironment:\n");
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
        printf("  %-16s %s (%s)\n", list[i][0], list[i][2], list[i][1]);
    printf("Limits have variables, too: crt config --limits, man 7 crt-limits.\n");
}

int crti_cli_misused(const char *command, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "%s: ", command);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "; %s --help shows how\n", command);
    return CLI_USAGE;
}

static void print_help(const command_spec_t *command)
{
    printf("Usage: %s [OPTIONS]%s%s\n\n%s\n", command->name, command->operands ? " " : "",
           command->operands ? command->operands : "", command->summary);
    crti_options_print(command->options, command->count);
    crti_cli_print_environment();
}

bool crti_cli_is_value(const option_spec_t *option, const char *text,
                       const char **expected)
{
    union {
        bool flag;
        const char *text;
        uint64_t number;
        const char *list[OPTION_LIST_MAX];
    } unused = {0};
    option_spec_t copy = *option;

    copy.to = &unused;
    return crti_option_take(&copy, text, expected);
}

/* ---------------------------------------------------------------- the configuration file */

static bool is_of(const command_spec_t *command, const config_setting_t *setting)
{
    const char *name = strchr(command->name, ' ');

    return name && strcmp(setting->section, name + 1) == 0 && !setting->is_replaced;
}

static const char *name_at(const void *user, size_t index)
{
    const command_spec_t *command = user;

    return index < command->count ? command->options[index].name : NULL;
}

/* The option of that name; NULL: there is none, and a sentence says so. */
static const option_spec_t *find_named(const command_spec_t *command,
                                       const config_setting_t *setting)
{
    const char *nearest;

    for (size_t i = 0; i < command->count; i++)
        if (strcmp(setting->name, command->options[i].name) == 0)
            return &command->options[i];
    nearest = crti_spelling_nearest(setting->name, name_at, command);
    crti_cli_misused(command->name, "%s:%u: there is no option --%s%s%s", setting->file,
                     setting->line, setting->name,
                     nearest ? "; the nearest one is --" : "", nearest ? nearest : "");
    return NULL;
}

static bool take_setting(const command_spec_t *command, const option_spec_t *option,
                         const config_setting_t *setting)
{
    const char *expected = "yes or no";
    bool is_no = strcmp(setting->value, "no") == 0;

    if (option->kind == OPTION_FLAG && is_no)
        return true;
    if ((option->kind != OPTION_FLAG || strcmp(setting->value, "yes") == 0) &&
        crti_option_take(option, setting->value, &expected))
        return true;
    crti_cli_misused(command->name, "%s:%u: %s takes %s, not \"%s\"", setting->file,
                     setting->line, option->name, expected, setting->value);
    return false;
}

/* What the files say of options that were not given. */
static bool take_settings(const command_spec_t *command, const bool *given)
{
    const config_setting_t *setting;

    for (size_t i = 0; (setting = crti_config_at(i)) != NULL; i++) {
        const option_spec_t *option;

        if (!is_of(command, setting))
            continue;
        option = find_named(command, setting);
        if (!option)
            return false;
        if (!given[option - command->options] && !crti_config_variable(option->name) &&
            !take_setting(command, option, setting))
            return false;
    }
    return true;
}

/* ---------------------------------------------------------------- parsing */

int crti_cli_parse(int argc, char **argv, const command_spec_t *command)
{
    option_scan_t scan = {.options = command->options,
                          .count = command->count,
                          .stops_at_operand = command->stops_at_operand};

    if (crti_options_scan(&scan, argc, argv) != CRT_OK)
        return -crti_cli_misused(command->name, "%s", crt_error_detail());
    if (scan.wants_help) {
        print_help(command);
        return 0;
    }
    if (!command->operands && scan.first_operand < argc)
        return -crti_cli_misused(command->name, "unexpected argument %s",
                                 argv[scan.first_operand]);
    return take_settings(command, scan.given) ? scan.first_operand : -CLI_USAGE;
}
