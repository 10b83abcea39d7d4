/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing and help from one table. See option.h. */
#include "runtime/daemon/option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/whole_options.h"

#define HELP_COLUMN     34
#define SECONDS_MOST    (3650u * 24 * 60 * 60)
#define DESCRIPTOR_MOST (1 << 20)
#define AMOUNTS         "0 to 1000000000000, at most four digits behind the point"

/* A value in the type of its kind. */
typedef union value {
    uint16_t port;
    uint64_t number;
    option_ports_t ports;
    bool is_on;
    int descriptor;
} value_t;

/* ---------------------------------------------------------------- values */

static bool is_whole(const char *text, uint64_t limit, uint64_t *number)
{
    char *end;

    if (!*text || strspn(text, "0123456789") != strlen(text) || strlen(text) > 19)
        return false;
    *number = strtoull(text, &end, 10);
    return *number <= limit;
}

static bool is_port(const char *text, uint16_t *port)
{
    uint64_t number;

    if (!is_whole(text, 65535, &number))
        return false;
    *port = (uint16_t)number;
    return true;
}

bool crti_option_is_address(const char *text)
{
    const char *colon = strrchr(text, ':');
    uint16_t port;

    return colon && colon > text && strcspn(text, " /") == strlen(text) &&
           is_port(colon + 1, &port) && port > 0;
}

bool crti_option_is_url(const char *text)
{
    const char *at = strstr(text, "://");
    char host[300];

    if (!at || (strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0) ||
        strlen(at + 3) >= sizeof(host))
        return false;
    strcpy(host, at + 3);
    host[strcspn(host, "/")] = '\0';
    return at[3 + strlen(host) + (at[3 + strlen(host)] == '/')] == '\0' &&
           crti_option_is_address(host);
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

bool crti_option_bytes(const char *text, uint64_t *bytes)
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

bool crti_option_seconds(const char *text, uint64_t *seconds)
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

static bool is_range(const char *text, option_ports_t *ports)
{
    const char *dash = strchr(text, '-');
    char low[8];

    if (!dash || (size_t)(dash - text) >= sizeof(low))
        return false;
    snprintf(low, sizeof(low), "%.*s", (int)(dash - text), text);
    return is_port(low, &ports->low) && is_port(dash + 1, &ports->high) &&
           ports->low > 0 && ports->low <= ports->high;
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

static bool is_one_of(const char *words, const char *text)
{
    size_t length = strlen(text);

    for (; length; words += strcspn(words, "|") + 1) {
        if (strncmp(words, text, length) == 0 && strcspn(words, "|") == length)
            return true;
        if (!words[strcspn(words, "|")])
            break;
    }
    return false;
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

static const char *expectation(const option_spec_t *option)
{
    static char text[80];

    switch (option->kind) {
    case OPTION_TEXT: return "a text that is not empty";
    case OPTION_ADDRESS: return "HOST:PORT, for example 10.0.0.1:6380";
    case OPTION_SERVER:
        return "HOST:PORT of the head, or http://HOST:PORT of its dashboard";
    case OPTION_PORT: return "a port from 0 to 65535";
    case OPTION_COUNT: return "a number, at most four digits behind the point";
    case OPTION_AMOUNT: return "a number of " AMOUNTS;
    case OPTION_BYTES: return "bytes, for example 500000000 or 2G";
    case OPTION_SECONDS: return "a time such as 90s, 30m, 12h or 7d, ten years at most";
    case OPTION_RANGE: return "two ports, for example 20000-20999";
    case OPTION_ON_OFF: return "on or off";
    case OPTION_RESOURCES: return "a list such as GPU=1,disk=0.5";
    case OPTION_DESCRIPTOR: return "the number of a descriptor";
    case OPTION_LIST: return "at most 63 values";
    case OPTION_CHOICE:
        snprintf(text, sizeof(text), "one of %s", option->argument);
        break;
    case OPTION_WHOLE:
        snprintf(text, sizeof(text), "a whole number of %llu to %llu",
                 (unsigned long long)option->least, (unsigned long long)option->most);
        break;
    case OPTION_FLAG: return "no value";
    }
    return text;
}

/* `*size` is that of the kind's type, 0: it is the text. */
static bool read_value(const option_spec_t *option, const char *text, value_t *value,
                       size_t *size, const char **expected)
{
    uint64_t most = option->most ? option->most : UINT64_MAX;

    *size = 0;
    switch (option->kind) {
    case OPTION_FLAG:
    case OPTION_LIST: return false; /* have no value of this kind */
    case OPTION_TEXT: return *text != '\0';
    case OPTION_ADDRESS: return crti_option_is_address(text);
    case OPTION_SERVER: return crti_option_is_address(text) || crti_option_is_url(text);
    case OPTION_COUNT: return is_decimal(text, 9);
    case OPTION_AMOUNT: return is_amount(text);
    case OPTION_CHOICE: return is_one_of(option->argument, text);
    case OPTION_RESOURCES: return is_resources(text, expected);
    case OPTION_PORT: *size = sizeof(value->port); return is_port(text, &value->port);
    case OPTION_RANGE: *size = sizeof(value->ports); return is_range(text, &value->ports);
    case OPTION_SECONDS:
        *size = sizeof(value->number);
        return crti_option_seconds(text, &value->number);
    case OPTION_WHOLE:
        *size = sizeof(value->number);
        return is_whole(text, most, &value->number) && value->number >= option->least;
    case OPTION_BYTES:
        *size = sizeof(value->number);
        return crti_option_bytes(text, &value->number) && value->number <= most;
    case OPTION_ON_OFF:
        *size = sizeof(value->is_on);
        value->is_on = strcmp(text, "on") == 0;
        return value->is_on || strcmp(text, "off") == 0;
    case OPTION_DESCRIPTOR:
        *size = sizeof(value->descriptor);
        most = DESCRIPTOR_MOST;
        if (!is_whole(text, most, &most))
            return false;
        value->descriptor = (int)most;
        return true;
    }
    return false;
}

bool crti_option_take(const option_spec_t *option, const char *text,
                      const char **expected)
{
    value_t value;
    size_t size;

    if (option->kind == OPTION_FLAG) {
        *(bool *)option->to = true;
        return true;
    }
    *expected = expectation(option);
    if (option->kind == OPTION_LIST)
        return add_to_list(option->to, text);
    if (!read_value(option, text, &value, &size, expected))
        return false;
    if (size && (option->is_value || option->kind == OPTION_SECONDS))
        memcpy(option->to, &value, size);
    else
        *(const char **)option->to = text;
    return true;
}

/* ---------------------------------------------------------------- parsing */

static const option_spec_t *find(const option_scan_t *scan, int code, int index)
{
    if (code == 0)
        return &scan->options[index];
    for (size_t i = 0; i < scan->count; i++)
        if (scan->options[i].letter == code)
            return &scan->options[i];
    return NULL;
}

/* The option that getopt complains about, as the user wrote it. `short_for`: the name of the whole
 * one. */
static crt_status_t complain(char **argv, int code, const char *short_for)
{
    const char *word = optind > 0 ? argv[optind - 1] : "";
    char letter[3] = {'-', (char)optopt, '\0'};

    if (short_for) {
        word = crti_option_word(argv);
        return crt_raise(CRT_ERR_INVALID, "unknown option %.*s (--%s is written whole)",
                         (int)strcspn(word, "="), word, short_for);
    }
    if (optopt && strncmp(word, "--", 2) != 0)
        word = letter;
    if (code == ':')
        return crt_raise(CRT_ERR_INVALID, "%s needs a value", word);
    return crt_raise(CRT_ERR_INVALID, "unknown option %s", word);
}

/* What getopt wants to know. */
static void describe(const option_scan_t *scan, struct option *longs, char *shorts)
{
    if (scan->stops_at_operand)
        *shorts++ = '+';
    *shorts++ = ':'; /* it prints nothing */
    for (size_t i = 0; i < scan->count; i++) {
        const option_spec_t *o = &scan->options[i];

        longs[i] = (struct option){o->name, o->argument ? required_argument : no_argument,
                                   NULL, o->letter};
        if (o->letter)
            *shorts++ = o->letter;
        if (o->letter && o->argument)
            *shorts++ = ':';
    }
    longs[scan->count] = (struct option){"help", no_argument, NULL, 'h'};
    *shorts++ = 'h';
    *shorts = '\0';
}

static crt_status_t take(const option_spec_t *option, const char *text)
{
    const char *expected;

    if (crti_option_take(option, text, &expected))
        return CRT_OK;
    return crt_raise(CRT_ERR_INVALID, "--%s takes %s, not \"%s\"", option->name, expected,
                     text);
}

crt_status_t crti_options_scan(option_scan_t *scan, int argc, char **argv)
{
    struct option longs[OPTIONS_MAX + 2] = {0};
    char shorts[2 * OPTIONS_MAX + 4];
    int code, index = 0;

    describe(scan, longs, shorts);
    for (size_t i = 0; i < scan->count; i++)
        if (scan->options[i].is_value && scan->options[i].standard)
            CRT_TRY(take(&scan->options[i], scan->options[i].standard));
    optind = 0;
    while ((code = crti_whole_option(argc, argv, shorts, longs, &index)) != -1) {
        const option_spec_t *option;

        scan->wants_help = code == 'h';
        if (scan->wants_help)
            return CRT_OK;
        option = code == '?' || code == ':' ? NULL : find(scan, code, index);
        if (!option)
            return complain(argv, code, index >= 0 ? longs[index].name : NULL);
        CRT_TRY(take(option, optarg));
        scan->given[option - scan->options] = true;
    }
    scan->first_operand = optind;
    return CRT_OK;
}

bool crti_option_is_given(const option_scan_t *scan, const char *name)
{
    for (size_t i = 0; i < scan->count; i++)
        if (strcmp(scan->options[i].name, name) == 0)
            return scan->given[i];
    return false;
}

/* ---------------------------------------------------------------- help */

static void print_option(const option_spec_t *o)
{
    char left[80];
    int used = o->letter ? snprintf(left, sizeof(left), "  -%c, --%s", o->letter, o->name)
                         : snprintf(left, sizeof(left), "      --%s", o->name);

    if (o->argument)
        snprintf(left + used, sizeof(left) - (size_t)used, " %s", o->argument);
    if (strlen(left) < HELP_COLUMN)
        printf("%-*s%s", HELP_COLUMN, left, o->help);
    else
        printf("%s\n%*s%s", left, HELP_COLUMN, "", o->help);
    if (o->standard)
        printf("; default %s", o->standard);
    putchar('\n');
}

void crti_options_print(const option_spec_t *options, size_t count)
{
    printf("\nOptions:\n");
    for (size_t i = 0; i < count; i++)
        print_option(&options[i]);
    print_option(
        &(option_spec_t){.name = "help", .letter = 'h', .help = "show this text"});
}
