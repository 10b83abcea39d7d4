/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing and help from one table. See options.h. */
#include "cli/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config_file.h"
#include "runtime/base/spelling.h"
#include "runtime/base/variables_list.h"
#include "runtime/base/whole_options.h"

#define HELP_COLUMN  34
#define SECONDS_MOST (3650u * 24 * 60 * 60)
#define AMOUNTS      "0 to 1000000000000, at most four digits behind the point"

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

static void print_option(const char *name, char letter, const char *argument,
                         const char *help)
{
    char left[80];
    int used = letter ? snprintf(left, sizeof(left), "  -%c, --%s", letter, name)
                      : snprintf(left, sizeof(left), "      --%s", name);

    if (argument)
        snprintf(left + used, sizeof(left) - (size_t)used, " %s", argument);
    if (strlen(left) < HELP_COLUMN)
        printf("%-*s%s\n", HELP_COLUMN, left, help);
    else
        printf("%s\n%*s%s\n", left, HELP_COLUMN, "", help);
}

static void print_help(const command_spec_t *command)
{
    printf("Usage: %s [OPTIONS]%s%s\n\n%s\n\nOptions:\n", command->name,
           command->operands ? " " : "", command->operands ? command->operands : "",
           command->summary);
    for (size_t i = 0; i < command->count; i++)
        print_option(command->options[i].name, command->options[i].letter,
                     command->options[i].argument, command->options[i].help);
    print_option("help", 'h', NULL, "show this text");
    crti_cli_print_environment();
}

/* ---------------------------------------------------------------- values */

static bool is_whole(const char *text, uint64_t limit, uint64_t *number)
{
    char *end;

    if (!*text || strspn(text, "0123456789") != strlen(text) || strlen(text) > 19)
        return false;
    *number = strtoull(text, &end, 10);
    return *number <= limit;
}

static bool is_port(const char *text)
{
    uint64_t port;

    return is_whole(text, 65535, &port);
}

bool crti_cli_is_address(const char *text)
{
    const char *colon = strrchr(text, ':');

    return colon && colon > text && strcspn(text, " /") == strlen(text) &&
           is_port(colon + 1) && atol(colon + 1) > 0;
}

bool crti_cli_is_url(const char *text)
{
    const char *at = strstr(text, "://");
    char host[300];

    if (!at || (strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0) ||
        strlen(at + 3) >= sizeof(host))
        return false;
    strcpy(host, at + 3);
    host[strcspn(host, "/")] = '\0';
    return at[3 + strlen(host) + (at[3 + strlen(host)] == '/')] == '\0' &&
           crti_cli_is_address(host);
}

/* A decimal number of at most so many digits before its point. */
static bool is_decimal(const char *text, size_t digits_most)
{
    size_t digits = strspn(text, "0123456789"), behind;

    if (digits == 0 || digits > digits_most)
        return false;
    if (text[digits] == '\0')
        return true;
    behind = strspn(text + digits + 1, "0123456789");
    return text[digits] == '.' && behind > 0 && behind <= 4 &&
           text[digits + 1 + behind] == '\0';
}

static bool is_count(const char *text)
{
    return is_decimal(text, 9);
}

/* Of a resource: 0 to 1e12. */
static bool is_amount(const char *text)
{
    static const uint64_t most = 1000000000000;
    size_t digits = strspn(text, "0123456789");
    uint64_t whole = strtoull(text, NULL, 10);

    return is_decimal(text, 13) &&
           (whole < most ||
            (whole == most && strspn(text + digits, ".0") == strlen(text + digits)));
}

static bool read_bytes(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    size_t length = strlen(text);
    char digits[24];
    const char *unit;
    unsigned shift = 0;

    if (length == 0 || length >= sizeof(digits))
        return false;
    strcpy(digits, text);
    unit = strchr(units, text[length - 1]);
    if (unit) {
        shift = 10 * (unsigned)(unit - units + 1);
        digits[length - 1] = '\0';
    }
    if (!is_whole(digits, UINT64_MAX >> shift, bytes))
        return false;
    *bytes <<= shift;
    return true;
}

bool crti_cli_read_seconds(const char *text, uint64_t *seconds)
{
    static const char units[] = "smhd";
    static const unsigned sizes[] = {1, 60, 60 * 60, 24 * 60 * 60};
    size_t length = strlen(text);
    const char *unit = length ? strchr(units, text[length - 1]) : NULL;
    char digits[16];
    uint64_t count;

    if (!unit || length > sizeof(digits))
        return false;
    snprintf(digits, sizeof(digits), "%.*s", (int)length - 1, text);
    if (!is_whole(digits, SECONDS_MOST / sizes[unit - units], &count) || count == 0)
        return false;
    *seconds = count * sizes[unit - units];
    return true;
}

static bool is_range(const char *text)
{
    const char *dash = strchr(text, '-');
    char low[8];
    uint64_t first, last;

    if (!dash || (size_t)(dash - text) >= sizeof(low))
        return false;
    snprintf(low, sizeof(low), "%.*s", (int)(dash - text), text);
    return is_whole(low, 65535, &first) && is_whole(dash + 1, 65535, &last) &&
           first > 0 && first <= last;
}

static bool is_resources(const char *text, const char **expected)
{
    static char again[96];
    const char *begin = text;

    while (*text) {
        size_t name = strcspn(text, "=,"), length = strcspn(text, ",");
        char value[32];

        if (name == 0 || text[name] != '=' || length - name - 1 >= sizeof(value))
            return false;
        snprintf(value, sizeof(value), "%.*s", (int)(length - name - 1), text + name + 1);
        if (!is_amount(value)) {
            *expected = "amounts of " AMOUNTS;
            return false;
        }
        for (const char *t = begin; t < text; t += strcspn(t, ",") + 1)
            if (strncmp(t, text, name + 1) == 0) {
                snprintf(again, sizeof(again), "each resource once (%.*s comes again)",
                         name < 40 ? (int)name : 40, text);
                *expected = again;
                return false;
            }
        text += length;
        if (*text == ',' && *++text == '\0')
            return false;
    }
    return true;
}

static bool add_to_list(const char **list, const char *value)
{
    size_t count = 0;

    while (list[count])
        count++;
    if (count + 1 == OPTION_LIST_MAX)
        return false;
    list[count] = value;
    return true;
}

/* False: `*expected` says what the option takes. */
static bool take(const option_spec_t *option, const char *value, const char **expected)
{
    switch (option->kind) {
    case OPTION_FLAG: *(bool *)option->to = true; return true;
    case OPTION_BYTES:
        *expected = "bytes, for example 500000000 or 2G";
        return read_bytes(value, option->to);
    case OPTION_SECONDS:
        *expected = "a time such as 90s, 30m, 12h or 7d, ten years at most";
        return crti_cli_read_seconds(value, option->to);
    case OPTION_LIST:
        *expected = "at most 63 values";
        return add_to_list(option->to, value);
    case OPTION_TEXT: *expected = "a text that is not empty"; break;
    case OPTION_ADDRESS: *expected = "HOST:PORT, for example 10.0.0.1:6380"; break;
    case OPTION_SERVER:
        *expected = "HOST:PORT of the head, or http://HOST:PORT of its dashboard";
        break;
    case OPTION_PORT: *expected = "a port from 0 to 65535"; break;
    case OPTION_COUNT:
        *expected = "a number, at most four digits behind the point";
        break;
    case OPTION_AMOUNT: *expected = "a number of " AMOUNTS; break;
    case OPTION_RANGE: *expected = "two ports, for example 20000-20999"; break;
    case OPTION_ON_OFF: *expected = "on or off"; break;
    case OPTION_RESOURCES: *expected = "a list such as GPU=1,disk=0.5"; break;
    }
    if ((option->kind == OPTION_TEXT && !*value) ||
        (option->kind == OPTION_ADDRESS && !crti_cli_is_address(value)) ||
        (option->kind == OPTION_SERVER && !crti_cli_is_address(value) &&
         !crti_cli_is_url(value)) ||
        (option->kind == OPTION_PORT && !is_port(value)) ||
        (option->kind == OPTION_COUNT && !is_count(value)) ||
        (option->kind == OPTION_AMOUNT && !is_amount(value)) ||
        (option->kind == OPTION_RANGE && !is_range(value)) ||
        (option->kind == OPTION_ON_OFF && strcmp(value, "on") != 0 &&
         strcmp(value, "off") != 0) ||
        (option->kind == OPTION_RESOURCES && !is_resources(value, expected)))
        return false;
    *(const char **)option->to = value;
    return true;
}

bool crti_cli_is_value(option_kind_t kind, const char *text, const char **expected)
{
    union {
        bool flag;
        const char *text;
        uint64_t number;
        const char *list[OPTION_LIST_MAX];
    } unused = {0};
    option_spec_t option = {.kind = kind, .to = &unused};

    return take(&option, text, expected);
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
        take(option, setting->value, &expected))
        return true;
    crti_cli_misused(command->name, "%s:%u: %s takes %s, not \"%s\"", setting->file,
                     setting->line, option->name, expected, setting->value);
    return false;
}

/* What the files say of options that were not given. */
static parse_result_t take_settings(const command_spec_t *command, const bool *given)
{
    const config_setting_t *setting;

    for (size_t i = 0; (setting = crti_config_at(i)) != NULL; i++) {
        const option_spec_t *option;

        if (!is_of(command, setting))
            continue;
        option = find_named(command, setting);
        if (!option)
            return PARSE_WRONG;
        if (!given[option - command->options] && !crti_config_variable(option->name) &&
            !take_setting(command, option, setting))
            return PARSE_WRONG;
    }
    return PARSE_OK;
}

/* ---------------------------------------------------------------- parsing */

static const option_spec_t *find(const command_spec_t *command, int code, int index)
{
    if (code == 0)
        return &command->options[index];
    for (size_t i = 0; i < command->count; i++)
        if (command->options[i].letter == code)
            return &command->options[i];
    return NULL;
}

/* The option that getopt complains about, as the user wrote it. `short_for`: the name of the whole
 * one. */
static int complain(const command_spec_t *command, char **argv, int code,
                    const char *short_for)
{
    const char *word = optind > 0 ? argv[optind - 1] : "";
    char letter[3] = {'-', (char)optopt, '\0'};

    if (short_for) {
        word = crti_option_word(argv);
        return crti_cli_misused(command->name,
                                "unknown option %.*s (--%s is written whole)",
                                (int)strcspn(word, "="), word, short_for);
    }
    if (optopt && strncmp(word, "--", 2) != 0)
        word = letter;
    if (code == ':')
        return crti_cli_misused(command->name, "%s needs a value", word);
    return crti_cli_misused(command->name, "unknown option %s", word);
}

parse_result_t crti_cli_parse(int argc, char **argv, const command_spec_t *command,
                              int *first_operand)
{
    struct option longs[OPTIONS_MAX + 2] = {0};
    bool given[OPTIONS_MAX] = {false};
    char shorts[2 * OPTIONS_MAX + 4];
    size_t used = 0;
    int code, index = 0;

    if (command->stops_at_operand)
        shorts[used++] = '+';
    shorts[used++] = ':'; /* getopt prints nothing */
    for (size_t i = 0; i < command->count && i < OPTIONS_MAX; i++) {
        const option_spec_t *o = &command->options[i];

        longs[i] = (struct option){o->name, o->argument ? required_argument : no_argument,
                                   NULL, o->letter};
        if (o->letter)
            shorts[used++] = o->letter;
        if (o->letter && o->argument)
            shorts[used++] = ':';
    }
    longs[command->count] = (struct option){"help", no_argument, NULL, 'h'};
    shorts[used++] = 'h';
    shorts[used] = '\0';
    optind = 0;
    while ((code = crti_whole_option(argc, argv, shorts, longs, &index)) != -1) {
        const option_spec_t *option;
        const char *expected = "";

        if (code == 'h') {
            print_help(command);
            return PARSE_DONE;
        }
        option = code == '?' || code == ':' ? NULL : find(command, code, index);
        if (!option) {
            complain(command, argv, code, index >= 0 ? longs[index].name : NULL);
            return PARSE_WRONG;
        }
        if (!take(option, optarg, &expected)) {
            crti_cli_misused(command->name, "--%s takes %s, not \"%s\"", option->name,
                             expected, optarg);
            return PARSE_WRONG;
        }
        given[option - command->options] = true;
    }
    *first_operand = optind;
    if (!command->operands && optind < argc) {
        crti_cli_misused(command->name, "unexpected argument %s", argv[optind]);
        return PARSE_WRONG;
    }
    return take_settings(command, given);
}
