/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration: its entries, and what a program asks of them. */
#include "ml/configuration.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ml/file.h"
#include "runtime/base/copy_struct.h"

/* ---------------------------------------------------------------- entries */

crti_setting_t *crti_configuration_find(const crt_configuration_t *c, const char *path)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->entries[i].path, path) == 0)
            return &c->entries[i];
    return NULL;
}

/* True when `path` is `section` or lies in it. */
static bool is_below(const char *path, const char *section)
{
    size_t length = strlen(section);

    return strncmp(path, section, length) == 0 &&
           (path[length] == '\0' || path[length] == '.');
}

bool crti_configuration_has_section(const crt_configuration_t *c, const char *section)
{
    for (size_t i = 0; i < c->section_count; i++)
        if (is_below(c->sections[i], section))
            return true;
    return false;
}

crt_status_t crti_configuration_open_section(crt_configuration_t *c, const char *section,
                                             int line)
{
    char **sections;
    int *lines;

    for (size_t i = 0; i < c->section_count; i++)
        if (strcmp(c->sections[i], section) == 0)
            return CRT_ERR_EXISTS;
    for (size_t i = 0; i < c->count; i++)
        if (is_below(section, c->entries[i].path))
            return crt_raise(CRT_ERR_INVALID,
                             "%s:%d: [%s] can't be a section: '%s' has a value", c->name,
                             line, section, c->entries[i].path);
    if (c->section_count == CRTI_CONFIGURATION_ENTRIES_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "%s: more than %d sections", c->name,
                         CRTI_CONFIGURATION_ENTRIES_MAX);
    sections = realloc(c->sections, (c->section_count + 1) * sizeof(*sections));
    if (sections)
        c->sections = sections;
    lines = realloc(c->section_lines, (c->section_count + 1) * sizeof(*lines));
    if (lines)
        c->section_lines = lines;
    if (!sections || !lines || !(sections[c->section_count] = strdup(section)))
        return crt_raise(CRT_ERR_NO_MEMORY, "%s: section [%s]", c->name, section);
    lines[c->section_count++] = line;
    return CRT_OK;
}

/* Room for one more entry; it is all zero. */
static crti_setting_t *new_entry(crt_configuration_t *c)
{
    size_t room = c->room ? 2 * c->room : 32;
    crti_setting_t *entries = c->entries;

    if (c->count == c->room) {
        entries = realloc(entries, room * sizeof(*entries));
        if (!entries)
            return NULL;
        c->entries = entries;
        c->room = room;
    }
    memset(&entries[c->count], 0, sizeof(*entries));
    return &entries[c->count];
}

static crt_status_t add(crt_configuration_t *c, const crti_setting_t *entry)
{
    const crti_setting_t *there = crti_configuration_find(c, entry->path);
    crti_setting_t *e;

    if (there)
        return crt_raise(CRT_ERR_EXISTS, "%s:%d: '%s' is in line %d already", entry->file,
                         entry->line, entry->path, there->line);
    if (crti_configuration_has_section(c, entry->path))
        return crt_raise(CRT_ERR_INVALID, "%s:%d: '%s' is a section", entry->file,
                         entry->line, entry->path);
    if (c->count == CRTI_CONFIGURATION_ENTRIES_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "%s: more than %d keys", c->name,
                         CRTI_CONFIGURATION_ENTRIES_MAX);
    e = new_entry(c);
    if (!e)
        return crt_raise(CRT_ERR_NO_MEMORY, "%s: '%s'", c->name, entry->path);
    *e = *entry;
    c->count++;
    return CRT_OK;
}

crt_status_t crti_configuration_add(crt_configuration_t *c, const char *section,
                                    const char *key, json_t *value, char *raw,
                                    const char *file, int line)
{
    crti_setting_t entry = {.section = strlen(section),
                            .value = value,
                            .raw = raw,
                            .file = file,
                            .line = line};
    crt_status_t status = CRT_OK;

    if (strlen(section) + 1 + strlen(key) >= CRTI_CONFIGURATION_PATH_MAX)
        status = crt_raise(CRT_ERR_INVALID, "%s:%d: '%s' in [%s] is too long a name",
                           file, line, key, section);
    else if (asprintf(&entry.path, "%s.%s", section, key) < 0)
        status = crt_raise(CRT_ERR_NO_MEMORY, "%s: '%s'", c->name, key);
    if (status == CRT_OK) {
        status = crti_configuration_open_section(c, section, line);
        if (status == CRT_OK || status == CRT_ERR_EXISTS)
            status = add(c, &entry);
    }
    if (status == CRT_OK)
        return CRT_OK;
    json_decref(value);
    free(raw);
    free(entry.path);
    return status;
}

crt_status_t crti_configuration_keep_file(crt_configuration_t *c, const char *name,
                                          const char **kept_out)
{
    char **files = realloc(c->files, (c->file_count + 1) * sizeof(*files));

    if (files)
        c->files = files;
    if (!files || !(files[c->file_count] = strdup(name)))
        return crt_raise(CRT_ERR_NO_MEMORY, "%s", name);
    *kept_out = files[c->file_count++];
    return CRT_OK;
}

static void free_all(char **texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(texts[i]);
    free(texts);
}

void crt_configuration_drop(crt_configuration_t **dropped)
{
    crt_configuration_t *c = *dropped;

    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++) {
        json_decref(c->entries[i].value);
        free(c->entries[i].raw);
        free(c->entries[i].path);
    }
    free(c->entries);
    free_all(c->files, c->file_count);
    free_all(c->sections, c->section_count);
    free_all(c->overrides, c->override_count);
    free(c->section_lines);
    free(c->name);
    free(c);
    *dropped = NULL;
}

/* ---------------------------------------------------------------- asking */

crt_status_t crt_configuration_raise(const crt_configuration_t *c, const char *path,
                                     crt_status_t status, const char *format, ...)
{
    const crti_setting_t *e = crti_configuration_find(c, path);
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (e && e->file && e->line > 0)
        return crt_raise(status, "%s:%d: %s", e->file, e->line, text);
    if (e && e->file)
        return crt_raise(status, "%s: %s", e->file, text);
    for (size_t i = 0; i < c->section_count; i++)
        if (strcmp(c->sections[i], path) == 0 && c->section_lines[i] > 0)
            return crt_raise(status, "%s:%d: %s", c->name, c->section_lines[i], text);
    return crt_raise(status, "%s: %s", c->name, text);
}

static crt_status_t wrong_type(const crt_configuration_t *c, const crti_setting_t *e,
                               const char *wanted)
{
    char *text = crti_configuration_dump(e->value);
    crt_status_t status =
        crt_configuration_raise(c, e->path, CRT_ERR_INVALID, "%s is %.80s, not %s",
                                e->path, text ? text : "?", wanted);

    free(text);
    return status;
}

/* The value at `path`, or NULL where `*status` says why: CRT_OK when it is missing or null, and the
 * default, which is taken, becomes part of the configuration. */
static const crti_setting_t *ask(crt_configuration_t *c, const char *path,
                                 json_t *otherwise, crt_status_t *status)
{
    crti_setting_t *e = crti_configuration_find(c, path);
    const char *dot = strrchr(path, '.');
    char section[CRTI_CONFIGURATION_PATH_MAX];

    *status = CRT_OK;
    if (e) {
        json_decref(otherwise);
        e->asked = true;
        return json_is_null(e->value) ? NULL : e;
    }
    if (!dot || (size_t)(dot - path) >= sizeof(section) || !otherwise) {
        json_decref(otherwise);
        *status = crt_raise(CRT_ERR_INVALID, "'%s' can't be asked for", path);
        return NULL;
    }
    snprintf(section, sizeof(section), "%.*s", (int)(dot - path), path);
    if (crti_configuration_has_section(c, path)) {
        json_decref(otherwise);
        *status = crt_configuration_raise(c, path, CRT_ERR_INVALID,
                                          "%s is a section, not a value", path);
        return NULL;
    }
    *status = crti_configuration_add(c, section, dot + 1, otherwise, NULL, NULL, 0);
    if (*status == CRT_OK)
        c->entries[c->count - 1].asked = true;
    return NULL;
}

crt_status_t crt_configuration_int(crt_configuration_t *c, const char *path, int64_t low,
                                   int64_t high, int64_t *value)
{
    crt_status_t status;
    const crti_setting_t *e = ask(c, path, json_integer(*value), &status);
    char wanted[96];

    if (!e)
        return status;
    if (json_is_integer(e->value) && json_integer_value(e->value) >= low &&
        json_integer_value(e->value) <= high) {
        *value = json_integer_value(e->value);
        return CRT_OK;
    }
    if (high == INT64_MAX)
        snprintf(wanted, sizeof(wanted), "a whole number of at least %lld",
                 (long long)low);
    else
        snprintf(wanted, sizeof(wanted), "a whole number in %lld..%lld", (long long)low,
                 (long long)high);
    return wrong_type(c, e, wanted);
}

crt_status_t crt_configuration_float(crt_configuration_t *c, const char *path, double low,
                                     double high, double *value)
{
    crt_status_t status;
    const crti_setting_t *e = ask(c, path, json_real(*value), &status);

    if (!e)
        return status;
    if (json_is_number(e->value) && json_number_value(e->value) >= low &&
        json_number_value(e->value) <= high) {
        *value = json_number_value(e->value);
        return CRT_OK;
    }
    /* By the function that writes numbers in the same way in every locale. */
    crt_error_set_detail("a number in %g..%g", low, high);
    return wrong_type(c, e, crt_error_detail());
}

crt_status_t crt_configuration_bool(crt_configuration_t *c, const char *path, bool *value)
{
    crt_status_t status;
    const crti_setting_t *e = ask(c, path, json_boolean(*value), &status);

    if (!e)
        return status;
    if (!json_is_boolean(e->value))
        return wrong_type(c, e, "true or false");
    *value = json_is_true(e->value);
    return CRT_OK;
}

crt_status_t crt_configuration_string(crt_configuration_t *c, const char *path,
                                      const char **value)
{
    crt_status_t status;
    const crti_setting_t *e =
        ask(c, path, *value ? json_string(*value) : json_null(), &status);

    if (!e)
        return status;
    if (!json_is_string(e->value))
        return wrong_type(c, e, "a text");
    *value = json_string_value(e->value);
    return CRT_OK;
}

/* Item `index` of a list, NULL when there are not so many or no such key. */
static crt_status_t list_item(crt_configuration_t *c, const char *path, size_t index,
                              const crti_setting_t **setting_out, const json_t **item_out,
                              size_t *count_out)
{
    crt_status_t status;
    const crti_setting_t *e = ask(c, path, json_array(), &status);

    *item_out = NULL;
    *setting_out = e;
    if (count_out)
        *count_out = 0;
    if (!e)
        return status;
    if (!json_is_array(e->value))
        return wrong_type(c, e, "a list");
    if (count_out)
        *count_out = json_array_size(e->value);
    *item_out = json_array_get(e->value, index);
    return CRT_OK;
}

crt_status_t crt_configuration_string_at(crt_configuration_t *c, const char *path,
                                         size_t index, const char **value,
                                         size_t *count_out)
{
    const crti_setting_t *e;
    const json_t *item;
    crt_status_t status = list_item(c, path, index, &e, &item, count_out);

    if (item && !json_is_string(item))
        return wrong_type(c, e, "a list of texts");
    if (item)
        *value = json_string_value(item);
    return status;
}

crt_status_t crt_configuration_int_at(crt_configuration_t *c, const char *path,
                                      size_t index, int64_t low, int64_t high,
                                      int64_t *value, size_t *count_out)
{
    const crti_setting_t *e;
    const json_t *item;
    crt_status_t status = list_item(c, path, index, &e, &item, count_out);

    if (!item)
        return status;
    if (!json_is_integer(item))
        return wrong_type(c, e, "a list of whole numbers");
    if (json_integer_value(item) < low || json_integer_value(item) > high)
        return crt_configuration_raise(c, path, CRT_ERR_INVALID,
                                       "number %zu of %s is %lld, not in %lld..%lld",
                                       index, path, (long long)json_integer_value(item),
                                       (long long)low, (long long)high);
    *value = json_integer_value(item);
    return CRT_OK;
}

bool crt_configuration_has(const crt_configuration_t *c, const char *path)
{
    return crti_configuration_find(c, path) || crti_configuration_has_section(c, path);
}

static bool is_empty(const json_t *value)
{
    if (json_is_string(value))
        return json_string_length(value) == 0;
    if (json_is_array(value))
        return json_array_size(value) == 0;
    if (json_is_object(value))
        return json_object_size(value) == 0;
    if (json_is_number(value))
        return fpclassify(json_number_value(value)) == FP_ZERO;
    return !json_is_true(value);
}

bool crt_configuration_is_set(const crt_configuration_t *c, const char *path)
{
    for (size_t i = 0; i < c->count; i++)
        if (is_below(c->entries[i].path, path) && !is_empty(c->entries[i].value))
            return true;
    return false;
}

const char *crt_configuration_path_at(const crt_configuration_t *c, const char *section,
                                      size_t index)
{
    for (size_t i = 0; i < c->count; i++)
        if ((!section || is_below(c->entries[i].path, section)) && index-- == 0)
            return c->entries[i].path;
    return NULL;
}

crt_status_t crt_configuration_require(const crt_configuration_t *c, const char *path)
{
    const crti_setting_t *e = crti_configuration_find(c, path);
    const char *dot = strrchr(path, '.');
    int length = dot ? (int)(dot - path) : 0;
    char section[CRTI_CONFIGURATION_PATH_MAX];

    snprintf(section, sizeof(section), "%.*s", length, path);
    if (!e && !crti_configuration_has_section(c, section))
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "%s: there is no section [%s], which says '%s'", c->name,
                         section, dot ? dot + 1 : path);
    if (!e)
        return crt_configuration_raise(c, section, CRT_ERR_NOT_FOUND,
                                       "[%s] does not say '%s'", section,
                                       dot ? dot + 1 : path);
    if (json_is_null(e->value) ||
        (json_is_string(e->value) && json_string_length(e->value) == 0))
        return crt_configuration_raise(c, path, CRT_ERR_NOT_FOUND, "%s has no value",
                                       path);
    return CRT_OK;
}

void crt_configuration_skip(crt_configuration_t *c, const char *path)
{
    for (size_t i = 0; i < c->count; i++)
        if (is_below(c->entries[i].path, path))
            c->entries[i].asked = true;
}

/* ---------------------------------------------------------------- factories */

/* In the program's array, whose entries may be smaller or larger than those of this version. */
static const crt_factory_t *factory_at(const crt_factory_t *factories, size_t index)
{
    return (const void *)((const char *)factories + index * factories->struct_size);
}

static crt_status_t unknown_factory(const crt_configuration_t *c, const char *path,
                                    const char *registry, const crt_factory_t *factories,
                                    const char *name)
{
    const char *nearest = NULL;
    const crt_factory_t *f;
    int best = 65;

    for (size_t i = 0; (f = factory_at(factories, i))->name; i++) {
        int distance = crti_configuration_distance(f->name, name);

        if (strcmp(f->registry, registry) == 0 && distance < best) {
            best = distance;
            nearest = f->name;
        }
    }
    return crt_configuration_raise(
        c, path, CRT_ERR_NOT_FOUND, "no '%s' is called '%s'%s%s", registry, name,
        nearest ? "; the nearest name is " : "", nearest ? nearest : "");
}

crt_status_t crt_configuration_make(crt_configuration_t *c, const char *section,
                                    const char *registry, const crt_factory_t *factories,
                                    void *made)
{
    char path[CRTI_CONFIGURATION_PATH_MAX];
    const char *name = NULL;
    crt_factory_t f;
    crt_status_t status;

    if (snprintf(path, sizeof(path), "%s.@%s", section, registry) >= (int)sizeof(path))
        return crt_raise(CRT_ERR_INVALID, "a name of %zu bytes", strlen(section));
    status = crt_configuration_require(c, path);
    if (status == CRT_OK)
        status = crt_configuration_string(c, path, &name);
    if (status != CRT_OK)
        return status;
    for (size_t i = 0; factory_at(factories, i)->name; i++) {
        status = CRTI_COPY_STRUCT(&f, factory_at(factories, i), "CRT_FACTORY");
        if (status != CRT_OK)
            return status;
        if (strcmp(f.registry, registry) == 0 && strcmp(f.name, name) == 0)
            return f.make(c, section, made);
    }
    return unknown_factory(c, path, registry, factories, name);
}

/* ---------------------------------------------------------------- the end */

int crti_configuration_distance(const char *a, const char *b)
{
    size_t rows = strlen(a), cols = strlen(b);
    int row[65];

    if (rows > 64 || cols > 64)
        return 64;
    for (size_t j = 0; j <= cols; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= rows; i++) {
        int diagonal = row[0];

        row[0] = (int)i;
        for (size_t j = 1; j <= cols; j++) {
            int change = diagonal + (a[i - 1] != b[j - 1]);
            int other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;

            diagonal = row[j];
            row[j] = change < other ? change : other;
        }
    }
    return row[cols];
}

static crt_status_t unknown_key(const crt_configuration_t *c, const crti_setting_t *e)
{
    const crti_setting_t *nearest = NULL;
    int best = INT_MAX;

    for (size_t i = 0; i < c->count; i++) {
        const crti_setting_t *other = &c->entries[i];
        int distance = crti_configuration_distance(other->path, e->path);

        if (other->asked && distance < best) {
            best = distance;
            nearest = other;
        }
    }
    return crt_configuration_raise(c, e->path, CRT_ERR_INVALID, "there is no '%s'%s%s",
                                   e->path, nearest ? "; the nearest name is " : "",
                                   nearest ? nearest->path : "");
}

crt_status_t crt_configuration_finish(const crt_configuration_t *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (!c->entries[i].asked)
            return unknown_key(c, &c->entries[i]);
    return CRT_OK;
}
