/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration: from lines to entries. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ml/configuration.h"
#include "ml/text.h"

/* One pass over a text. */
typedef struct reader {
    crt_configuration_t *c;
    const char *file, *at, *end;
    const char *under;
    bool weak;
    int line;    /* of `at`, from 1 */
    bool inside; /* a section was opened */
    char section[CRTI_CONFIGURATION_PATH_MAX];
} reader_t;

crt_status_t crti_configuration_check_path(const char *file, int line, const char *path)
{
    size_t length = strlen(path), depth = 1;
    bool begins = true;

    if (length >= CRTI_CONFIGURATION_PATH_MAX)
        return crt_raise(CRT_ERR_INVALID, "%s:%d: a name of %zu bytes", file, line,
                         length);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)path[i];

        if (c == '.' ? begins : c <= ' ' || c == 0x7f || strchr("[]\"'=${}", c))
            return crt_raise(CRT_ERR_INVALID, "%s:%d: '%s' is no name", file, line, path);
        depth += c == '.';
        begins = c == '.';
    }
    if (begins || depth > CRTI_CONFIGURATION_DEPTH_MAX)
        return crt_raise(CRT_ERR_INVALID, "%s:%d: '%s' is no name", file, line, path);
    return CRT_OK;
}

/* ---------------------------------------------------------------- values */

static crt_status_t json_value(const char *file, int line, const char *text,
                               json_t **value_out)
{
    json_error_t error;
    json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);

    if (value) {
        *value_out = value;
        return CRT_OK;
    }
    if (text[0] && strchr("[{\"", text[0]))
        return crt_raise(CRT_ERR_INVALID, "%s:%d: not JSON: %s: %s", file, line, text,
                         error.text);
    if (text[0] == '\'')
        return crt_raise(CRT_ERR_INVALID, "%s:%d: texts stand in double quotes: %s", file,
                         line, text);
    *value_out = json_string(text);
    return *value_out ? CRT_OK
                      : crt_raise(CRT_ERR_INVALID, "%s:%d: not UTF-8", file, line);
}

/* True when there is a reference outside of quotes. */
static bool has_bare_reference(const char *text)
{
    bool quoted = false;

    for (; *text; text++) {
        if (quoted && text[0] == '\\' && text[1])
            text++;
        else if (text[0] == '"')
            quoted = !quoted;
        else if (!quoted && text[0] == '$' && text[1] == '$')
            text++;
        else if (!quoted && text[0] == '$' && text[1] == '{')
            return true;
    }
    return false;
}

crt_status_t crti_configuration_value(const char *file, int line, const char *text,
                                      json_t **value_out, char **raw_out)
{
    *value_out = NULL;
    *raw_out = NULL;
    if (!has_bare_reference(text))
        return json_value(file, line, text, value_out);
    *raw_out = strdup(text);
    return *raw_out ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "%s:%d", file, line);
}

/* ---------------------------------------------------------------- lines */

static bool is_blank(const char *from, const char *to)
{
    while (from < to && isspace((unsigned char)*from))
        from++;
    return from == to;
}

/* Without the space around it. */
static void trim(const char **from, const char **to)
{
    while (*from < *to && isspace((unsigned char)**from))
        (*from)++;
    while (*to > *from && isspace((unsigned char)(*to)[-1]))
        (*to)--;
}

static const char *line_end(const reader_t *r)
{
    return crti_text_line_end(r->at, r->end);
}

static void next_line(reader_t *r)
{
    r->at = crti_text_next_line(line_end(r), r->end);
    r->line++;
}

static bool is_comment(const char *at, const char *end)
{
    return at < end && (*at == '#' || *at == ';');
}

/* A section's name in the brackets of a line, with what it lies under. */
static crt_status_t read_section(reader_t *r)
{
    const char *from = r->at + 1, *to = line_end(r);
    char name[CRTI_CONFIGURATION_PATH_MAX];
    crt_status_t status;

    trim(&from, &to);
    if (to == from || to[-1] != ']')
        return crt_raise(CRT_ERR_INVALID, "%s:%d: no ] after the name of a section",
                         r->file, r->line);
    to--;
    trim(&from, &to);
    if ((size_t)(to - from) + (r->under ? strlen(r->under) + 1 : 0) >= sizeof(name))
        return crt_raise(CRT_ERR_INVALID, "%s:%d: a name of %zu bytes", r->file, r->line,
                         (size_t)(to - from));
    snprintf(name, sizeof(name), "%s%s%.*s", r->under ? r->under : "",
             r->under ? "." : "", (int)(to - from), from);
    status = crti_configuration_check_path(r->file, r->line, name);
    if (status == CRT_OK)
        status = crti_configuration_open_section(r->c, name, r->line);
    if (status == CRT_ERR_EXISTS && r->weak)
        status = CRT_OK;
    if (status != CRT_OK)
        return status == CRT_ERR_EXISTS
                   ? crt_raise(CRT_ERR_INVALID, "%s:%d: section [%s] is there already",
                               r->file, r->line, name)
                   : status;
    snprintf(r->section, sizeof(r->section), "%s", name);
    r->inside = true;
    next_line(r);
    return CRT_OK;
}

/* The text of a value: the rest of its line and the lines that go on with it. */
static crt_status_t read_text(reader_t *r, const char *from, char **text_out)
{
    const char *to = line_end(r);
    size_t length = 0;
    int first = r->line;
    char *text = malloc((size_t)(r->end - from) + 1);

    if (!text)
        return crt_raise(CRT_ERR_NO_MEMORY, "%s:%d", r->file, first);
    for (;;) {
        trim(&from, &to);
        if (length > 0 && to > from)
            text[length++] = '\n';
        memcpy(text + length, from, (size_t)(to - from));
        length += (size_t)(to - from);
        next_line(r);
        while (r->at < r->end && is_blank(r->at, line_end(r)))
            next_line(r);
        from = r->at;
        to = line_end(r);
        if (from == r->end || !isspace((unsigned char)*from))
            break;
    }
    text[length] = '\0';
    *text_out = text;
    if (memchr(text, '\0', length) == NULL)
        return CRT_OK;
    free(text);
    return crt_raise(CRT_ERR_INVALID, "%s:%d: a byte of zero", r->file, first);
}

static const crti_setting_t *find_key(const reader_t *r, const char *key)
{
    char path[2 * CRTI_CONFIGURATION_PATH_MAX];

    snprintf(path, sizeof(path), "%s.%s", r->section, key);
    return crti_configuration_find(r->c, path);
}

static crt_status_t add_value(reader_t *r, const char *key, const char *text, int line)
{
    const crti_setting_t *there;
    json_t *value;
    char *raw;
    crt_status_t status = crti_configuration_value(r->file, line, text, &value, &raw);

    if (status != CRT_OK)
        return status;
    there = find_key(r, key);
    if (r->weak && there && there->file != r->file) {
        json_decref(value);
        free(raw);
        return CRT_OK;
    }
    return crti_configuration_add(r->c, r->section, key, value, raw, r->file, line);
}

static crt_status_t read_key(reader_t *r)
{
    const char *end = line_end(r), *equals = memchr(r->at, '=', (size_t)(end - r->at));
    const char *from = r->at, *to = equals;
    char key[CRTI_CONFIGURATION_PATH_MAX], *text;
    int line = r->line;
    crt_status_t status;

    if (!equals)
        return crt_raise(CRT_ERR_INVALID, "%s:%d: neither [section] nor key = value",
                         r->file, line);
    if (!r->inside && !r->under)
        return crt_raise(CRT_ERR_INVALID, "%s:%d: a key in front of the first section",
                         r->file, line);
    trim(&from, &to);
    snprintf(key, sizeof(key), "%.*s", (int)(to - from), from);
    status = (size_t)(to - from) >= sizeof(key) || strlen(key) != (size_t)(to - from) ||
                     strchr(key, '.')
                 ? crt_raise(CRT_ERR_INVALID, "%s:%d: '%s' is no key", r->file, line, key)
                 : crti_configuration_check_path(r->file, line, key);
    if (status == CRT_OK)
        status = read_text(r, equals + 1, &text);
    if (status != CRT_OK)
        return status;
    status = add_value(r, key, text, line);
    free(text);
    return status;
}

crt_status_t crti_configuration_read_text(crt_configuration_t *c, const char *file,
                                          const char *text, size_t size,
                                          const char *under, bool weak)
{
    reader_t r = {.c = c, .under = under, .weak = weak, .line = 1};
    crt_status_t status = crti_text_begin(file, &text, &size);

    r.at = text;
    r.end = text + size;
    if (status == CRT_OK)
        status = crti_configuration_keep_file(c, file, &r.file);
    if (under)
        snprintf(r.section, sizeof(r.section), "%s", under);
    while (status == CRT_OK && r.at < r.end) {
        const char *end = line_end(&r);

        if (is_blank(r.at, end) || is_comment(r.at, end))
            next_line(&r);
        else if (isspace((unsigned char)*r.at))
            status =
                crt_raise(CRT_ERR_INVALID,
                          "%s:%d: begins with a space, and there is no value in front "
                          "that it could go on with",
                          r.file, r.line);
        else if (*r.at == '[')
            status = read_section(&r);
        else
            status = read_key(&r);
    }
    return status;
}
