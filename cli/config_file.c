/* SPDX-License-Identifier: Apache-2.0 */
/* See config_file.h. */
#include "cli/config_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/limit.h"

#define ENVIRONMENT   "environment"
#define LIMITS        "limits"
#define SETTINGS_MOST 1000
#define LINE_MOST     4096

/* All live as long as the command: options point to values, settings to names of files. */
static char *files;
static config_setting_t *settings;
static size_t setting_count;

const config_setting_t *crti_config_at(size_t index)
{
    return index < setting_count ? &settings[index] : NULL;
}

const char *crti_config_variable(const char *option)
{
    static const char *const same[][2] = {{"address", "CRT_ADDRESS"},
                                          {"key-file", "CRT_KEY_FILE"}};

    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        if (strcmp(option, same[i][0]) == 0 && getenv(same[i][1]) && *getenv(same[i][1]))
            return same[i][1];
    return NULL;
}

/* ---------------------------------------------------------------- lines */

static char *trim(char *text)
{
    static const char blanks[] = " \t\r\n";
    size_t length;

    text += strspn(text, blanks);
    length = strlen(text);
    while (length && strchr(blanks, text[length - 1]))
        text[--length] = '\0';
    return text;
}

static void replace_earlier(const config_setting_t *later)
{
    for (size_t i = 0; i < setting_count; i++)
        if (settings[i].file != later->file &&
            strcmp(settings[i].section, later->section) == 0 &&
            strcmp(settings[i].name, later->name) == 0)
            settings[i].is_replaced = true;
}

static crt_status_t add(const char *section, const char *name, const char *value,
                        const char *file, unsigned line)
{
    config_setting_t *s;

    if (setting_count == SETTINGS_MOST)
        return crt_raise(CRT_ERR_TOO_LARGE, "%s:%u: more than %d settings", file, line,
                         SETTINGS_MOST);
    if (!settings)
        settings = calloc(SETTINGS_MOST, sizeof(*settings));
    if (!settings)
        return crt_raise(CRT_ERR_NO_MEMORY, "the settings of %s", file);
    s = &settings[setting_count++];
    *s = (config_setting_t){
        strdup(section), strdup(name), strdup(value), file, line, false};
    if (!s->section || !s->name || !s->value)
        return crt_raise(CRT_ERR_NO_MEMORY, "the settings of %s", file);
    replace_earlier(s);
    return CRT_OK;
}

/* [NAME], alone in its line. */
static crt_status_t begin_section(char *text, const char *file, unsigned line,
                                  bool (*is_section)(const char *name),
                                  char section[LINE_MOST])
{
    size_t length = strlen(text);

    if (text[length - 1] != ']')
        return crt_raise(CRT_ERR_INVALID, "%s:%u: a section is [COMMAND]", file, line);
    text[length - 1] = '\0';
    snprintf(section, LINE_MOST, "%s", trim(text + 1));
    if (strcmp(section, ENVIRONMENT) != 0 && strcmp(section, LIMITS) != 0 &&
        !is_section(section))
        return crt_raise(
            CRT_ERR_INVALID,
            "%s:%u: there is no command \"%s\": sections are commands, as in "
            "[job submit], [" LIMITS "] and [" ENVIRONMENT "]",
            file, line, section);
    return CRT_OK;
}

/* A value that is obeyed by daemons is refused here, where its line is known. */
static crt_status_t check_limit(const char *name, const char *value, const char *file,
                                unsigned line)
{
    const crti_limit_t *limit = crti_limit_find(name);
    const char *nearest = limit ? NULL : crti_limit_nearest(name);
    char why[512];
    uint64_t number;

    if (limit && crti_limit_read(limit, name, value, &number) == CRT_OK)
        return CRT_OK;
    if (!limit)
        return crt_raise(CRT_ERR_INVALID, "%s:%u: there is no limit \"%s\"%s%s", file,
                         line, name, nearest ? "; the nearest one is " : "",
                         nearest ? nearest : "");
    snprintf(why, sizeof(why), "%s", crt_error_detail());
    return crt_raise(CRT_ERR_INVALID, "%s:%u: %s", file, line, why);
}

static crt_status_t read_line(char *text, const char *file, unsigned line,
                              bool (*is_section)(const char *name),
                              char section[LINE_MOST])
{
    char *equals, *name, *value;
    crt_status_t status = CRT_OK;

    text = trim(text);
    if (*text == '\0' || *text == '#')
        return CRT_OK;
    if (*text == '[')
        return begin_section(text, file, line, is_section, section);
    equals = strchr(text, '=');
    if (!equals || equals == text)
        return crt_raise(CRT_ERR_INVALID, "%s:%u: a setting is NAME = VALUE", file, line);
    if (*section == '\0')
        return crt_raise(CRT_ERR_INVALID,
                         "%s:%u: a setting needs its section before it, as [start]", file,
                         line);
    *equals = '\0';
    name = trim(text);
    value = trim(equals + 1);
    if (strcmp(section, LIMITS) == 0)
        status = check_limit(name, value, file, line);
    return status == CRT_OK ? add(section, name, value, file, line) : status;
}

/* ---------------------------------------------------------------- files */

/* What it says is obeyed: it must be the user's, or root's, alone. */
static crt_status_t check_owner(FILE *file, const char *path)
{
    struct stat st;

    if (fstat(fileno(file), &st) != 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    if (S_ISREG(st.st_mode) &&
        ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & 022)))
        return crt_raise(CRT_ERR_PERMISSION,
                         "%s is not obeyed: others than you can write it; chmod go-w",
                         path);
    return CRT_OK;
}

static crt_status_t read_lines(FILE *file, const char *path,
                               bool (*is_section)(const char *name))
{
    char text[LINE_MOST], section[LINE_MOST] = "";
    crt_status_t status = CRT_OK;

    for (unsigned line = 1; status == CRT_OK && fgets(text, sizeof(text), file); line++)
        status =
            strlen(text) + 1 == sizeof(text)
                ? crt_raise(CRT_ERR_TOO_LARGE, "%s:%u: the line is too long", path, line)
                : read_line(text, path, line, is_section, section);
    if (status == CRT_OK && ferror(file))
        return crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    return status;
}

/* `path` stays: settings name it. */
static crt_status_t read_file(const char *path, bool (*is_section)(const char *name))
{
    FILE *file = fopen(path, "re");
    crt_status_t status;

    if (!file && (errno == ENOENT || errno == ENOTDIR))
        return CRT_OK;
    if (!file)
        return crt_raise(errno == EACCES ? CRT_ERR_PERMISSION : CRT_ERR_IO, "%s: %s",
                         path, strerror(errno));
    status = check_owner(file, path);
    if (status == CRT_OK)
        status = read_lines(file, path, is_section);
    fclose(file);
    return status;
}

/* ':' between them. */
static crt_status_t find_files(void)
{
    const char *chosen = getenv("CRT_CONFIG"), *xdg = getenv("XDG_CONFIG_HOME"),
               *home = getenv("HOME");
    int size;

    if (chosen)
        size = asprintf(&files, "%s", chosen);
    else if (xdg && *xdg == '/')
        size = asprintf(&files, "/etc/crt/crt.conf:%s/crt/crt.conf", xdg);
    else if (home && *home == '/')
        size = asprintf(&files, "/etc/crt/crt.conf:%s/.config/crt/crt.conf", home);
    else
        size = asprintf(&files, "/etc/crt/crt.conf");
    return size < 0 ? crt_raise(CRT_ERR_NO_MEMORY, "names of configuration files")
                    : CRT_OK;
}

bool crti_config_sets_variable(const config_setting_t *setting, char *name, size_t size)
{
    bool is_limit = strcmp(setting->section, LIMITS) == 0;
    char variable[CRTI_LIMIT_VARIABLE];

    if (is_limit)
        crti_limit_variable(crti_limit_find(setting->name), variable);
    snprintf(name, size, "%s", is_limit ? variable : setting->name);
    return is_limit || strcmp(setting->section, ENVIRONMENT) == 0;
}

static crt_status_t set_variables(void)
{
    for (size_t i = 0; i < setting_count; i++) {
        const config_setting_t *s = &settings[i];
        char name[LINE_MOST];

        if (!s->is_replaced && crti_config_sets_variable(s, name, sizeof(name)) &&
            setenv(name, s->value, 0) != 0)
            return crt_raise(CRT_ERR_INVALID, "%s:%u: the variable %s: %s", s->file,
                             s->line, name, strerror(errno));
    }
    return CRT_OK;
}

crt_status_t crti_config_read(bool (*is_section)(const char *name))
{
    crt_status_t status = find_files();
    char *rest = files, *path;

    while (status == CRT_OK && (path = strsep(&rest, ":")) != NULL)
        if (*path)
            status = read_file(path, is_section);
    return status == CRT_OK ? set_variables() : status;
}
