/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns as in .gitignore. See ignore.h. */
#include "cli/ignore.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/plain_text.h"

#define SEGMENT   512
#define FILE_MOST ((size_t)4 << 20)

static bool match_segment(const char *pattern, size_t pattern_size, const char *name,
                          size_t name_size)
{
    char p[SEGMENT], n[SEGMENT];

    if (pattern_size >= sizeof(p) || name_size >= sizeof(n))
        return false;
    memcpy(p, pattern, pattern_size);
    memcpy(n, name, name_size);
    p[pattern_size] = n[name_size] = '\0';
    return fnmatch(p, n, 0) == 0;
}

/* Segment by segment; "**" is any number of them. */
static bool match_path(const char *pattern, const char *path)
{
    while (*pattern && *path) {
        size_t here = strcspn(pattern, "/"), name = strcspn(path, "/");

        if (here == 2 && pattern[0] == '*' && pattern[1] == '*') {
            if (pattern[2] == '\0')
                return true;
            for (const char *at = path; at; at = strchr(at, '/'), at += at != NULL)
                if (match_path(pattern + 3, at))
                    return true;
            return false;
        }
        if (!match_segment(pattern, here, path, name))
            return false;
        pattern += here + (pattern[here] == '/');
        path += name + (path[name] == '/');
    }
    return *pattern == '\0' && *path == '\0';
}

static bool match_rule(const ignore_rule_t *rule, const char *path, bool is_directory)
{
    size_t base = strlen(rule->base);
    const char *slash = strrchr(path, '/');

    if ((rule->is_for_directories && !is_directory) ||
        strncmp(path, rule->base, base) != 0)
        return false;
    if (rule->is_anchored)
        return match_path(rule->pattern, path + base);
    path = slash ? slash + 1 : path;
    return match_segment(rule->pattern, strlen(rule->pattern), path, strlen(path));
}

bool crti_ignore_matches(const ignore_list_t *list, const char *path, bool is_directory)
{
    for (size_t i = list->count; i > 0; i--)
        if (match_rule(&list->rules[i - 1], path, is_directory))
            return !list->rules[i - 1].is_negated;
    return false;
}

/* Blanks at the end count only behind a backslash. */
static size_t length_of(const char *line)
{
    size_t length = strcspn(line, "\r\n");

    while (length > 0 && line[length - 1] == ' ' &&
           (length < 2 || line[length - 2] != '\\'))
        length--;
    return length;
}

crt_status_t crti_ignore_add(ignore_list_t *list, const char *line, const char *base)
{
    ignore_rule_t rule = {0}, *larger;
    size_t length = length_of(line);

    if (length == 0 || line[0] == '#')
        return CRT_OK;
    rule.is_negated = line[0] == '!';
    line += rule.is_negated;
    length -= rule.is_negated;
    rule.is_for_directories = length > 0 && line[length - 1] == '/';
    length -= rule.is_for_directories;
    rule.is_anchored = memchr(line, '/', length) != NULL;
    if (length > 0 && line[0] == '/') {
        line++;
        length--;
    }
    if (length == 0)
        return CRT_OK;
    larger = realloc(list->rules, (list->count + 1) * sizeof(rule));
    if (!larger)
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    list->rules = larger;
    rule.pattern = strndup(line, length);
    rule.base = strdup(base);
    larger[list->count++] = rule;
    return rule.pattern && rule.base ? CRT_OK
                                     : crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
}

/* What can't be read is no list that leaves nothing out: files that nobody may see would be
 * sent. */
crt_status_t crti_ignore_add_file(ignore_list_t *list, const char *path, const char *base)
{
    char *text = crti_plain_text_read(path, FILE_MOST);
    crt_status_t status = CRT_OK;

    if (!text && (errno == ENOENT || errno == EISDIR))
        return CRT_OK;
    if (!text)
        return crt_raise(CRT_ERR_IO, "%s: %s", path,
                         errno == EILSEQ ? "it is UTF-16: save it as UTF-8"
                                         : strerror(errno));
    for (char *line = text; line && status == CRT_OK;) {
        char *end = strchr(line, '\n');

        if (end)
            *end++ = '\0';
        status = crti_ignore_add(list, line, base);
        line = end;
    }
    free(text);
    return status;
}

void crti_ignore_fini(ignore_list_t *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->rules[i].pattern);
        free(list->rules[i].base);
    }
    free(list->rules);
    *list = (ignore_list_t){0};
}
