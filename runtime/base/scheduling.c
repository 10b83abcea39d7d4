/* SPDX-License-Identifier: Apache-2.0 */
/* Scheduling. See scheduling.h. */
#include "runtime/base/scheduling.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const crti_scheduling_t crti_scheduling_default = {.strategy = CRTI_STRATEGY_DEFAULT};

typedef struct part {
    const char *text;
    size_t size;
} part_t;

static bool is_word(part_t word)
{
    if (word.size == 0 || word.size > 63)
        return false;
    for (size_t i = 0; i < word.size; i++)
        if (!isalnum((unsigned char)word.text[i]) &&
            (word.text[i] == '\0' || strchr("._-/", word.text[i]) == NULL))
            return false;
    return true;
}

static part_t trim(part_t p)
{
    while (p.size && *p.text == ' ') {
        p.text++;
        p.size--;
    }
    while (p.size && p.text[p.size - 1] == ' ')
        p.size--;
    return p;
}

/* The part before the next `separator` that is in no parentheses; `rest` goes on behind it. False:
 * no more. */
static bool next(part_t *rest, char separator, part_t *out)
{
    size_t length = 0;
    int depth = 0;

    if (rest->text == NULL)
        return false;
    for (; length < rest->size; length++) {
        depth += (rest->text[length] == '(') - (rest->text[length] == ')');
        if (rest->text[length] == separator && depth <= 0)
            break;
    }
    *out = trim((part_t){rest->text, length});
    if (length < rest->size)
        *rest = (part_t){rest->text + length + 1, rest->size - length - 1};
    else
        *rest = (part_t){0};
    return true;
}

static part_t whole(const char *text)
{
    return (part_t){text, strlen(text)};
}

static bool is_same(part_t a, part_t b)
{
    return a.size == b.size && memcmp(a.text, b.text, a.size) == 0;
}

static bool is_any(part_t alternative)
{
    return alternative.size == 0 || is_same(alternative, whole("*"));
}

/* "key=rest" */
static bool split(part_t entry, part_t *key, part_t *value)
{
    const char *equals = memchr(entry.text, '=', entry.size);

    if (equals == NULL)
        return false;
    *key = trim((part_t){entry.text, (size_t)(equals - entry.text)});
    *value = trim((part_t){equals + 1, entry.size - (size_t)(equals - entry.text) - 1});
    return true;
}

/* ---------------------------------------------------------------- labels */

/* The value of a key; false: the node has no such label. */
static bool find_label(const char *labels, part_t key, part_t *value)
{
    part_t rest = whole(labels), entry, other;

    while (next(&rest, ',', &entry))
        if (split(entry, &other, value) && is_same(other, key))
            return true;
    return false;
}

crt_status_t crti_labels_check(const char *labels)
{
    part_t rest = whole(labels), entry, key, value, first;

    if (rest.size >= CRTI_LABELS_SIZE)
        return crt_raise(CRT_ERR_INVALID, "labels of %zu bytes, at most %d fit",
                         rest.size, CRTI_LABELS_SIZE - 1);
    while (*labels && next(&rest, ',', &entry)) {
        if (!split(entry, &key, &value) || !is_word(key) || !is_word(value))
            return crt_raise(
                CRT_ERR_INVALID,
                "label \"%.*s\" is not key=value (1 to 63 letters, digits or "
                ". _ - / each)",
                (int)entry.size, entry.text);
        if (find_label(labels, key, &first) && first.text != value.text)
            return crt_raise(CRT_ERR_INVALID, "label \"%.*s\" is given twice",
                             (int)key.size, key.text);
    }
    return CRT_OK;
}

/* ---------------------------------------------------------------- selectors */

/* "value", "!value", "in(a,b)" or "!in(a,b)": is it negated, and which values. */
static part_t read_condition(part_t value, bool *is_not)
{
    *is_not = value.size && *value.text == '!';
    if (*is_not)
        value = (part_t){value.text + 1, value.size - 1};
    if (value.size > 3 && memcmp(value.text, "in(", 3) == 0 &&
        value.text[value.size - 1] == ')')
        return (part_t){value.text + 3, value.size - 4};
    return value;
}

/* What a condition is about: a label of the node, or its id. */
static bool find_value(const char *labels, const char *node_hex, part_t key,
                       part_t *value)
{
    if (find_label(labels, key, value))
        return true;
    *value = whole(node_hex);
    return is_same(key, whole(CRTI_NODE_LABEL));
}

static bool holds(part_t entry, const char *labels, const char *node_hex)
{
    part_t key, value, label, values, one;
    bool is_not, is_in = false;

    if (!split(entry, &key, &value))
        return false;
    values = read_condition(value, &is_not);
    if (find_value(labels, node_hex, key, &label))
        while (next(&values, ',', &one))
            is_in = is_in || is_same(one, label);
    return is_in != is_not;
}

static bool is_condition(part_t entry)
{
    part_t key, value, values, one;
    bool is_not;

    if (!split(entry, &key, &value) || !is_word(key))
        return false;
    values = read_condition(value, &is_not);
    while (next(&values, ',', &one))
        if (!is_word(one))
            return false;
    return true;
}

crt_status_t crti_selector_check(const char *selector)
{
    part_t rest = whole(selector), alternative, entry;
    unsigned count = 0;

    if (rest.size >= CRTI_LABELS_SIZE)
        return crt_raise(CRT_ERR_INVALID, "a label selector of %zu bytes, at most %d fit",
                         rest.size, CRTI_LABELS_SIZE - 1);
    while (next(&rest, ';', &alternative)) {
        if (++count > CRTI_ALTERNATIVES)
            return crt_raise(CRT_ERR_INVALID,
                             "a label selector with more than %d alternatives",
                             CRTI_ALTERNATIVES);
        if (is_any(alternative))
            continue;
        while (next(&alternative, ',', &entry))
            if (!is_condition(entry))
                return crt_raise(CRT_ERR_INVALID,
                                 "\"%.*s\" in a label selector is none of key=value, "
                                 "key=!value, key=in(a,b), key=!in(a,b)",
                                 (int)entry.size, entry.text);
    }
    return CRT_OK;
}

/* The conditions of one alternative; false: there are not so many. */
static bool find_alternative(const char *selector, unsigned alternative, part_t *out)
{
    part_t rest = whole(selector);

    for (unsigned i = 0; i <= alternative; i++)
        if (!next(&rest, ';', out))
            return false;
    return true;
}

static bool matches(const char *selector, unsigned alternative, const char *labels,
                    crti_id_t node)
{
    part_t conditions = {0}, entry;
    char hex[CRTI_ID_HEX];

    if (!find_alternative(selector, alternative, &conditions))
        return false;
    if (is_any(conditions))
        return true;
    crti_id_hex(node, hex);
    while (next(&conditions, ',', &entry))
        if (!holds(entry, labels, hex))
            return false;
    return true;
}

/* ---------------------------------------------------------------- walks */

void crti_labels_walk(const char *labels, crti_label_t *on_label, void *user)
{
    part_t rest = whole(labels), entry, key, value;

    while (next(&rest, ',', &entry))
        if (split(entry, &key, &value))
            on_label(user, key.text, key.size, value.text, value.size);
}

void crti_selector_walk(const char *selector, unsigned alternative,
                        crti_label_t *on_label, void *user)
{
    part_t conditions = {0}, entry, key, value, one, more;
    bool is_not;

    if (!find_alternative(selector, alternative, &conditions) || is_any(conditions))
        return;
    while (next(&conditions, ',', &entry)) {
        if (!split(entry, &key, &value) || is_same(key, whole(CRTI_NODE_LABEL)))
            continue;
        value = read_condition(value, &is_not);
        if (!is_not && next(&value, ',', &one) && !next(&value, ',', &more))
            on_label(user, key.text, key.size, one.text, one.size);
    }
}

/* ---------------------------------------------------------------- scheduling */

crt_status_t crti_scheduling_check(const crti_scheduling_t *how)
{
    if (how->strategy >= CRTI_STRATEGIES)
        return crt_raise(CRT_ERR_INVALID, "there is no scheduling strategy %llu",
                         (unsigned long long)how->strategy);
    if (how->bundle < -1)
        return crt_raise(CRT_ERR_INVALID, "there is no bundle %lld",
                         (long long)how->bundle);
    return crti_selector_check(how->selector);
}

crt_status_t crti_scheduling_read(const crti_scheduling_t *said, const void *selector,
                                  size_t size, crti_scheduling_t *how_out)
{
    *how_out = *said;
    if (size >= CRTI_LABELS_SIZE)
        return crt_raise(CRT_ERR_INVALID, "a label selector of %zu bytes, at most %d fit",
                         size, CRTI_LABELS_SIZE - 1);
    if (size)
        memcpy(how_out->selector, selector, size);
    return crti_scheduling_check(how_out);
}

bool crti_scheduling_equal(const crti_scheduling_t *a, const crti_scheduling_t *b)
{
    return a == b ||
           (a->strategy == b->strategy && a->is_soft == b->is_soft &&
            crti_id_equal(a->node, b->node) && crti_id_equal(a->group, b->group) &&
            a->bundle == b->bundle && strcmp(a->selector, b->selector) == 0);
}

bool crti_scheduling_is_any(const crti_scheduling_t *how)
{
    return how->strategy != CRTI_STRATEGY_AFFINITY && how->selector[0] == '\0' &&
           crti_id_is_zero(how->group);
}

bool crti_scheduling_avoid(crti_scheduling_t *how, crti_id_t node)
{
    part_t rest = whole(how->selector), alternative;
    char selector[CRTI_LABELS_SIZE] = "", hex[CRTI_ID_HEX];
    size_t used = 0;

    crti_id_hex(node, hex);
    while (next(&rest, ';', &alternative)) {
        bool says_any = is_any(alternative);
        int size = says_any ? 0 : (int)alternative.size;
        int wrote = snprintf(selector + used, sizeof(selector) - used, "%.*s%s%s=!%s;",
                             size, alternative.text ? alternative.text : "",
                             says_any ? "" : ",", CRTI_NODE_LABEL, hex);

        used += (size_t)wrote;
        if (used >= sizeof(selector))
            return false;
    }
    used += (size_t)snprintf(selector + used, sizeof(selector) - used, "%s",
                             how->selector[0] ? how->selector : "*");
    if (used >= sizeof(selector) || crti_selector_check(selector) != CRT_OK)
        return false;
    memcpy(how->selector, selector, used + 1);
    return true;
}

unsigned crti_scheduling_alternatives(const crti_scheduling_t *how)
{
    unsigned count = 1;

    for (const char *at = how->selector; *at; at++)
        count += *at == ';';
    return count;
}

bool crti_scheduling_allows(const crti_scheduling_t *how, unsigned alternative,
                            crti_id_t node, const char *labels)
{
    if (how->strategy == CRTI_STRATEGY_AFFINITY && !crti_id_equal(how->node, node))
        return false;
    return how->selector[0] == '\0' || matches(how->selector, alternative, labels, node);
}

bool crti_scheduling_feasible(const crti_resources_t *has, crti_id_t node,
                              const char *labels, const crti_resources_t *resources,
                              const crti_scheduling_t *how)
{
    unsigned alternatives = crti_scheduling_alternatives(how);

    if (!crti_resources_fit(has, resources))
        return false;
    for (unsigned i = 0; i < alternatives; i++)
        if (crti_scheduling_allows(how, i, node, labels))
            return true;
    return false;
}

const char *crti_scheduling_format(const crti_scheduling_t *how, char *text, size_t size)
{
    char hex[CRTI_ID_HEX];

    if (!crti_id_is_zero(how->group) && how->bundle >= 0)
        snprintf(text, size, "bundle %lld of placement group %.8s",
                 (long long)how->bundle, crti_id_hex(how->group, hex));
    else if (!crti_id_is_zero(how->group))
        snprintf(text, size, "placement group %.8s", crti_id_hex(how->group, hex));
    else if (how->strategy == CRTI_STRATEGY_AFFINITY)
        snprintf(text, size, "node %.8s%s%s", crti_id_hex(how->node, hex),
                 how->selector[0] ? " with " : "", how->selector);
    else
        snprintf(text, size, "a node with %s", how->selector);
    return text;
}
