/* SPDX-License-Identifier: Apache-2.0 */
/* Names, texts and ranges of limits. See limit.h. */
#include "runtime/base/limit.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/spelling.h"

#define PREFIX   "CRT_"
#define MISSPELT 2 /* edits that make a variable one that was not meant */

extern char **environ;

static const crti_limit_t all[] = {
#define ROW(name, scope, unit, standard, least, most, meaning)                           \
    {#name,  CRTI_LIMIT_##scope, CRTI_LIMIT_##unit, (standard), (least),                 \
     (most), (meaning)},
    CRTI_LIMITS(ROW)
#undef ROW
};

#define COUNT (sizeof(all) / sizeof(all[0]))

static const char *const scopes[] = {
    [CRTI_LIMIT_CLUSTER] = "cluster", [CRTI_LIMIT_HEAD] = "head",
    [CRTI_LIMIT_NODE] = "node",       [CRTI_LIMIT_PROGRAM] = "program",
    [CRTI_LIMIT_HTTP] = "http",       [CRTI_LIMIT_EACH] = "each process",
};

typedef struct unit {
    const char *name;
    uint64_t size;
} unit_t;

/* The largest first. */
static const unit_t times[] = {{"d", CRTI_DAY}, {"h", CRTI_HOUR}, {"m", 60 * CRTI_S},
                               {"s", CRTI_S},   {"ms", CRTI_MS},  {"us", CRTI_US},
                               {"ns", 1},       {NULL, 0}};
static const unit_t sizes[] = {{"T", CRTI_TIB}, {"G", CRTI_GIB}, {"M", CRTI_MIB},
                               {"K", CRTI_KIB}, {"", 1},         {NULL, 0}};
static const unit_t numbers[] = {{"", 1}, {NULL, 0}};

/* ---------------------------------------------------------------- the list */

const crti_limit_t *crti_limit_at(size_t index)
{
    return index < COUNT ? &all[index] : NULL;
}

const crti_limit_t *crti_limit_find(const char *name)
{
    for (size_t i = 0; i < COUNT; i++)
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    return NULL;
}

static const char *name_at(const void *user, size_t index)
{
    return index < COUNT ? all[index].name : NULL;
}

const char *crti_limit_nearest(const char *name)
{
    return crti_spelling_nearest(name, name_at, NULL);
}

uint64_t *crti_limit_in(crti_limits_t *limits, const crti_limit_t *limit)
{
    _Static_assert(sizeof(*limits) == COUNT * sizeof(uint64_t), "one word for each");
    return (uint64_t *)(void *)limits + (limit - all);
}

const char *crti_limit_scope_name(crti_limit_scope_t scope)
{
    return scopes[scope];
}

void crti_limit_variable(const crti_limit_t *limit, char variable[CRTI_LIMIT_VARIABLE])
{
    size_t size =
        (size_t)snprintf(variable, CRTI_LIMIT_VARIABLE, PREFIX "%s", limit->name);

    for (size_t i = 0; i < size; i++)
        variable[i] = (char)toupper((unsigned char)variable[i]);
}

/* ---------------------------------------------------------------- texts */

static const unit_t *units_of(crti_limit_unit_t unit)
{
    return unit == CRTI_LIMIT_TIME ? times : unit == CRTI_LIMIT_BYTES ? sizes : numbers;
}

void crti_limit_write(crti_limit_unit_t unit, uint64_t value, char text[CRTI_LIMIT_TEXT])
{
    const unit_t *u = units_of(unit);

    if (value == 0) {
        snprintf(text, CRTI_LIMIT_TEXT, "0");
        return;
    }
    while (value % u->size != 0)
        u++;
    snprintf(text, CRTI_LIMIT_TEXT, "%llu%s", (unsigned long long)(value / u->size),
             u->name);
}

/* `text` as digits, perhaps a point and more of them, and what is behind. Decimals are exact to a
 * billionth. */
static bool read_number(const char *text, uint64_t *whole, uint64_t *billionths,
                        const char **end)
{
    uint64_t place = CRTI_S;

    if (!isdigit((unsigned char)*text))
        return false;
    for (*whole = 0; isdigit((unsigned char)*text); text++) {
        unsigned digit = (unsigned)(*text - '0');

        if (*whole > (UINT64_MAX - digit) / 10)
            return false;
        *whole = *whole * 10 + digit;
    }
    *billionths = 0;
    if (*text == '.')
        for (text++; isdigit((unsigned char)*text); text++) {
            place /= 10;
            *billionths += (unsigned)(*text - '0') * place;
        }
    *end = text;
    return true;
}

/* The unit that is written behind a number; a time without one is in seconds. */
static const unit_t *find_unit(crti_limit_unit_t unit, const char *name)
{
    if (unit == CRTI_LIMIT_TIME && *name == '\0')
        name = "s";
    for (const unit_t *u = units_of(unit); u->name; u++)
        if (strcmp(u->name, name) == 0)
            return u;
    return NULL;
}

static bool read_value(crti_limit_unit_t unit, const char *text, uint64_t *value_out)
{
    const unit_t *found;
    const char *behind;
    uint64_t whole, billionths;

    if (!read_number(text, &whole, &billionths, &behind))
        return false;
    found = find_unit(unit, behind);
    if (!found || whole > UINT64_MAX / 2 / found->size ||
        (found->size == 1 && billionths))
        return false;
    *value_out = whole * found->size +
                 (uint64_t)((double)billionths * (double)found->size / 1e9 + 0.5);
    return true;
}

static const char *what_is_needed(crti_limit_unit_t unit)
{
    switch (unit) {
    case CRTI_LIMIT_TIME: return "a time";
    case CRTI_LIMIT_BYTES: return "a number of bytes";
    case CRTI_LIMIT_PERCENT: return "a whole number of percent";
    case CRTI_LIMIT_COUNT: break;
    }
    return "a whole number";
}

static const char *how_it_is_written(crti_limit_unit_t unit)
{
    return unit == CRTI_LIMIT_TIME    ? ": seconds, or with ms, s, m, h or d, as in 250ms"
           : unit == CRTI_LIMIT_BYTES ? ": bytes, or with K, M, G or T, as in 64M"
                                      : "";
}

crt_status_t crti_limit_read(const crti_limit_t *limit, const char *name,
                             const char *text, uint64_t *value_out)
{
    char least[CRTI_LIMIT_TEXT], most[CRTI_LIMIT_TEXT];
    uint64_t value;

    if (read_value(limit->unit, text, &value) && value >= limit->least &&
        value <= limit->most) {
        *value_out = value;
        return CRT_OK;
    }
    crti_limit_write(limit->unit, limit->least, least);
    crti_limit_write(limit->unit, limit->most, most);
    return crt_raise(CRT_ERR_INVALID, "%s=%.40s: %s from %s to %s is needed%s", name,
                     text, what_is_needed(limit->unit), least, most,
                     how_it_is_written(limit->unit));
}

/* ---------------------------------------------------------------- all of them */

void crti_limits_defaults(crti_limits_t *limits_out)
{
    for (size_t i = 0; i < COUNT; i++)
        *crti_limit_in(limits_out, &all[i]) = all[i].standard;
}

static crt_status_t check_order(const char *less, uint64_t less_value, uint64_t times_it,
                                const char *more, uint64_t more_value)
{
    const crti_limit_t *a = crti_limit_find(less), *b = crti_limit_find(more);
    char names[2][CRTI_LIMIT_VARIABLE], texts[2][CRTI_LIMIT_TEXT];

    if (more_value / times_it >= less_value)
        return CRT_OK;
    crti_limit_variable(a, names[0]);
    crti_limit_variable(b, names[1]);
    crti_limit_write(a->unit, less_value, texts[0]);
    crti_limit_write(b->unit, more_value, texts[1]);
    if (times_it == 1)
        return crt_raise(CRT_ERR_INVALID, "%s=%s is less than %s, which is %s", names[1],
                         texts[1], names[0], texts[0]);
    return crt_raise(CRT_ERR_INVALID, "%s=%s is less than %llu times %s, which is %s",
                     names[1], texts[1], (unsigned long long)times_it, names[0],
                     texts[0]);
}

crt_status_t crti_limits_check(const crti_limits_t *limits)
{
    crt_status_t status = CRT_OK;

#define CHECK(less, times_it, more)                                                      \
    if (status == CRT_OK)                                                                \
        status = check_order(#less, limits->less, (times_it), #more, limits->more);
    CRTI_LIMIT_ORDERS(CHECK)
#undef CHECK
    return status;
}

/* Whether it is worth counting the edits, which every process does as it starts: both have three
 * letters in common at one end, and about as many in all. */
static bool may_be_near(const char *a, size_t a_size, const char *b, size_t b_size)
{
    size_t begin = strlen(PREFIX);

    return a_size + MISSPELT >= b_size && b_size + MISSPELT >= a_size &&
           (strncmp(a + begin, b + begin, 3) == 0 ||
            strcmp(a + a_size - 3, b + b_size - 3) == 0);
}

/* The limit whose variable is at most so many edits from `name`; NULL: none. */
static const crti_limit_t *find_near(const char *name, unsigned edits)
{
    size_t size = strlen(name);

    for (size_t i = 0; i < COUNT; i++) {
        char variable[CRTI_LIMIT_VARIABLE];

        crti_limit_variable(&all[i], variable);
        if (may_be_near(name, size, variable, strlen(variable)) &&
            crti_spelling_edits(name, variable) <= edits)
            return &all[i];
    }
    return NULL;
}

/* A variable that sets nothing, though it looks as if: "CRT_HEARTBEAT_INTERVALL=2s". */
static crt_status_t check_spelling(const char *entry)
{
    char name[CRTI_LIMIT_VARIABLE], variable[CRTI_LIMIT_VARIABLE];
    size_t size = strcspn(entry, "=");
    const crti_limit_t *near;

    if (strncmp(entry, PREFIX, strlen(PREFIX)) != 0 || size >= sizeof(name) ||
        size < strlen(PREFIX) + 3)
        return CRT_OK;
    snprintf(name, sizeof(name), "%.*s", (int)size, entry);
    near = find_near(name, 0) ? NULL : find_near(name, MISSPELT);
    if (!near)
        return CRT_OK;
    crti_limit_variable(near, variable);
    return crt_raise(
        CRT_ERR_INVALID,
        "%s is no variable of crt; %s was meant? crt config --limits shows all", name,
        variable);
}

crt_status_t crti_limits_environment(crti_limits_t *limits_out)
{
    crt_status_t status = CRT_OK;

    crti_limits_defaults(limits_out);
    for (size_t i = 0; status == CRT_OK && i < COUNT; i++) {
        char variable[CRTI_LIMIT_VARIABLE];
        const char *text;

        crti_limit_variable(&all[i], variable);
        text = getenv(variable);
        if (text && *text)
            status = crti_limit_read(&all[i], variable, text,
                                     crti_limit_in(limits_out, &all[i]));
    }
    for (char **entry = environ; status == CRT_OK && entry && *entry; entry++)
        status = check_spelling(*entry);
    return status == CRT_OK ? crti_limits_check(limits_out) : status;
}
