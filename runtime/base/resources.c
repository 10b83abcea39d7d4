/* SPDX-License-Identifier: Apache-2.0 */
/* Resource vectors. See resources.h. */
#include "runtime/base/resources.h"
#include "runtime/base/number_text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define MIB 1048576.0

static struct crti_resource *find(const crti_resources_t *r, const char *name)
{
    for (unsigned i = 0; i < r->count; i++)
        if (strcmp(r->item[i].name, name) == 0)
            return (struct crti_resource *)&r->item[i];
    return NULL;
}

static bool is_name(const char *name)
{
    size_t length = strlen(name);

    if (length == 0 || length >= CRTI_RESOURCE_NAME)
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && strchr("._:-", *name) == NULL)
            return false;
    return true;
}

int64_t crti_resources_get(const crti_resources_t *r, const char *name)
{
    const struct crti_resource *item = find(r, name);

    return item ? item->amount : 0;
}

crt_status_t crti_resources_set(crti_resources_t *r, const char *name, int64_t amount)
{
    struct crti_resource *item = find(r, name);

    if (amount > CRTI_RESOURCE_MAX || amount < -CRTI_RESOURCE_MAX)
        return crt_raise(CRT_ERR_INVALID,
                         "resource \"%s\": too much of it (at most 1e12)", name);
    if (item && amount == 0) {
        *item = r->item[--r->count];
        return CRT_OK;
    }
    if (item) {
        item->amount = amount;
        return CRT_OK;
    }
    if (amount == 0)
        return CRT_OK;
    if (!is_name(name))
        return crt_raise(
            CRT_ERR_INVALID,
            "\"%s\" is not a resource name (1 to %d letters, digits or . _ : -)", name,
            CRTI_RESOURCE_NAME - 1);
    if (r->count == CRTI_RESOURCES_MAX)
        return crt_raise(CRT_ERR_INVALID, "resource \"%s\": more than %d names", name,
                         CRTI_RESOURCES_MAX);
    snprintf(r->item[r->count].name, CRTI_RESOURCE_NAME, "%s", name);
    r->item[r->count++].amount = amount;
    return CRT_OK;
}

static crt_status_t twice(const char *name)
{
    return crt_raise(CRT_ERR_INVALID, "resource \"%s\" is given twice", name);
}

bool crti_resources_amount(double amount, int64_t *amount_out)
{
    if (amount != 0 && !(amount >= 1.0 / CRTI_RESOURCE_ONE &&
                         amount <= (double)CRTI_RESOURCE_MAX / CRTI_RESOURCE_ONE))
        return false;
    *amount_out = (int64_t)(amount * CRTI_RESOURCE_ONE + 0.5);
    return true;
}

crt_status_t crti_resources_set_option(crti_resources_t *r, const char *name,
                                       double amount)
{
    int64_t units;

    if (amount != 0 && find(r, name))
        return twice(name);
    if (amount == 0)
        return CRT_OK;
    if (!crti_resources_amount(amount, &units))
        return crt_raise(CRT_ERR_INVALID, "%g %s: an amount is 0, or 0.0001 to 1e12",
                         amount, name);
    return crti_resources_set(r, name, units);
}

/* Decimal with at most four digits behind the point, in units of 1/10000; beyond the largest amount
 * it is one more than that. False when it is none. */
static bool parse_amount(const char *text, size_t length, int64_t *amount_out)
{
    int64_t amount = 0;
    int behind = -1, digits = 0;

    for (size_t i = 0; i < length; i++) {
        if (text[i] == '.' && behind < 0) {
            behind = 0;
            continue;
        }
        if (!isdigit((unsigned char)text[i]) || behind == 4)
            return false;
        if (amount <= CRTI_RESOURCE_MAX)
            amount = amount * 10 + (text[i] - '0');
        digits++;
        behind += behind >= 0;
    }
    for (behind = behind < 0 ? 0 : behind; behind < 4; behind++)
        if (amount <= CRTI_RESOURCE_MAX)
            amount *= 10;
    *amount_out = amount <= CRTI_RESOURCE_MAX ? amount : CRTI_RESOURCE_MAX + 1;
    return digits > 0;
}

/* Names that mean the same however they are written. */
static const char *canonical(const char *name)
{
    static const char *const known[] = {"CPU", "GPU", CRTI_RESOURCE_MEMORY};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcasecmp(name, known[i]) == 0)
            return known[i];
    return name;
}

/* The name before "=amount", in the way of canonical; false: it is too long. */
static bool read_name(const char *text, char name[CRTI_RESOURCE_NAME])
{
    size_t length = strcspn(text, "=,");

    if (length >= CRTI_RESOURCE_NAME)
        return false;
    memcpy(name, text, length);
    name[length] = '\0';
    memmove(name, canonical(name), length + 1);
    return true;
}

/* By an entry of "name=amount,..." before `end`. */
static bool is_named(const char *text, const char *end, const char *name)
{
    char other[CRTI_RESOURCE_NAME];

    for (; text < end; text += strcspn(text, ",") + 1)
        if (read_name(text, other) && strcmp(other, name) == 0)
            return true;
    return false;
}

crt_status_t crti_resources_parse(const char *text, crti_resources_t *r)
{
    const char *begin = text;

    while (*text) {
        size_t length = strcspn(text, ","), name_length = strcspn(text, "=,");
        char name[CRTI_RESOURCE_NAME];
        crt_status_t status;
        int64_t amount;

        if (name_length >= length || !read_name(text, name) ||
            !parse_amount(text + name_length + 1, length - name_length - 1, &amount))
            return crt_raise(
                CRT_ERR_INVALID,
                "\"%.*s\" is not name=amount (amounts: 0 or more, in steps of 0.0001)",
                (int)length, text);
        if (find(r, name) || is_named(begin, text, name))
            return twice(name);
        status = crti_resources_set(r, name, amount);
        if (status != CRT_OK)
            return status;
        text += length + (text[length] == ',');
    }
    return CRT_OK;
}

bool crti_resources_equal(const crti_resources_t *a, const crti_resources_t *b)
{
    if (a->count != b->count)
        return false;
    for (unsigned i = 0; i < a->count; i++)
        if (a->item[i].amount != b->item[i].amount ||
            strcmp(a->item[i].name, b->item[i].name) != 0)
            return false;
    return true;
}

bool crti_resources_fit(const crti_resources_t *have, const crti_resources_t *need)
{
    for (unsigned i = 0; i < need->count; i++)
        if (crti_resources_get(have, need->item[i].name) < need->item[i].amount)
            return false;
    return true;
}

crt_status_t crti_resources_check(const crti_resources_t *r)
{
    for (unsigned i = 0; i < r->count; i++)
        if (r->item[i].amount < 0)
            return crt_raise(CRT_ERR_INVALID, "%g %s is less than nothing",
                             (double)r->item[i].amount / CRTI_RESOURCE_ONE,
                             r->item[i].name);
    return crti_resources_get(r, "GPU") > CRTI_RESOURCE_ONE &&
                   crti_resources_get(r, "GPU") % CRTI_RESOURCE_ONE
               ? crt_raise(CRT_ERR_INVALID,
                           "%.10g GPU: a part of a GPU, or whole ones, but not both",
                           (double)crti_resources_get(r, "GPU") / CRTI_RESOURCE_ONE)
               : CRT_OK;
}

static int64_t at_most_max(int64_t amount)
{
    if (amount > CRTI_RESOURCE_MAX)
        return CRTI_RESOURCE_MAX;
    return amount < -CRTI_RESOURCE_MAX ? -CRTI_RESOURCE_MAX : amount;
}

static void add(crti_resources_t *r, const crti_resources_t *other, int64_t sign)
{
    for (unsigned i = 0; i < other->count; i++) {
        struct crti_resource *item = find(r, other->item[i].name);

        if (item)
            item->amount = at_most_max(item->amount + sign * other->item[i].amount);
        else if (r->count < CRTI_RESOURCES_MAX) {
            r->item[r->count] = other->item[i];
            r->item[r->count++].amount *= sign;
        }
    }
}

void crti_resources_take(crti_resources_t *have, const crti_resources_t *need)
{
    add(have, need, -1);
}

void crti_resources_give(crti_resources_t *have, const crti_resources_t *back)
{
    add(have, back, 1);
}

int64_t crti_resource_part_in_use(int64_t total, int64_t available, int64_t need,
                                  int64_t scale)
{
    double used = (double)total - (double)available + (double)need;
    double most = 100.0 * (double)scale, part;

    if (total <= 0)
        return scale;
    part = used * (double)scale / (double)total;
    return (int64_t)(part < most ? part : most);
}

int64_t crti_resources_part_in_use(const crti_resources_t *all,
                                   const crti_resources_t *available,
                                   const crti_resources_t *need, const char *name,
                                   int64_t scale)
{
    return crti_resource_part_in_use(crti_resources_get(all, name),
                                     crti_resources_get(available, name),
                                     crti_resources_get(need, name), scale);
}

const char *crti_resources_format(const crti_resources_t *r, char *text, size_t size)
{
    size_t used = 0;

    snprintf(text, size, "nothing");
    for (unsigned i = 0; i < r->count && used < size; i++) {
        const char *name = r->item[i].name;
        double amount = (double)r->item[i].amount / CRTI_RESOURCE_ONE;
        bool is_large = strcmp(name, CRTI_RESOURCE_MEMORY) == 0 && amount >= MIB;

        used += (size_t)crti_format(
            text + used, size - used, "%s%.*g%s %s", used ? ", " : "", is_large ? 6 : 10,
            is_large ? amount / MIB : amount, is_large ? " MiB" : "", name);
    }
    return text;
}

const char *crti_resources_format_one(const char *name, int64_t amount, char *text,
                                      size_t size)
{
    crti_resources_t one = {0};

    if (amount <= 0 || crti_resources_set(&one, name, amount) != CRT_OK) {
        snprintf(text, size, "0 %s", name);
        return text;
    }
    return crti_resources_format(&one, text, size);
}
