/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration: back to a text that can be read again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ml/configuration.h"
#include "ml/file.h"

/* The fewest digits that give the same number. */
char *crti_configuration_dump(const json_t *value)
{
    char *text = NULL;

    for (int digits = 15; digits <= 17; digits++) {
        json_t *again;
        bool same;

        free(text);
        text = json_dumps(value, JSON_ENCODE_ANY | JSON_SORT_KEYS |
                                     (size_t)JSON_REAL_PRECISION(digits));
        again = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
        same = again && json_equal(again, value);
        json_decref(again);
        if (same || !text)
            break;
    }
    return text;
}

/* A dollar sign would begin a reference when it is read again. */
static void write_value(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '$')
            fputc('$', out);
        fputc(*text, out);
    }
}

static crt_status_t write_entry(FILE *out, const crti_setting_t *e)
{
    char *text = e->value ? crti_configuration_dump(e->value) : strdup(e->raw);

    if (!text)
        return crt_raise(CRT_ERR_NO_MEMORY, "%s", e->path);
    fprintf(out, "%s = ", e->path + e->section + 1);
    if (e->state == CRTI_SETTING_READY || !e->file)
        write_value(out, text);
    else
        fputs(text, out);
    fputc('\n', out);
    free(text);
    return CRT_OK;
}

static bool is_in(const crti_setting_t *e, const char *section)
{
    return e->section == strlen(section) && strncmp(e->path, section, e->section) == 0;
}

static crt_status_t write_all(const crt_configuration_t *c, FILE *out)
{
    crt_status_t status = CRT_OK;

    for (size_t s = 0; s < c->section_count; s++) {
        bool first = s == 0;

        if (strcmp(c->sections[s], "defaults") == 0)
            continue; /* its groups are in place */
        fprintf(out, "%s[%s]\n", first ? "" : "\n", c->sections[s]);
        for (size_t i = 0; i < c->count && status == CRT_OK; i++)
            if (is_in(&c->entries[i], c->sections[s]))
                status = write_entry(out, &c->entries[i]);
    }
    return status;
}

crt_status_t crt_configuration_text(const crt_configuration_t *c, char **text_out)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    crt_status_t status;

    if (!out)
        return crt_raise(CRT_ERR_NO_MEMORY, "%s", c->name);
    status = write_all(c, out);
    if (fclose(out) != 0 && status == CRT_OK)
        status = crt_raise(CRT_ERR_NO_MEMORY, "%s", c->name);
    if (status != CRT_OK) {
        free(text);
        return status;
    }
    *text_out = text;
    return CRT_OK;
}

crt_status_t crt_configuration_write(const crt_configuration_t *c, const char *path)
{
    char *text;
    crt_status_t status = crt_configuration_text(c, &text);

    if (status != CRT_OK)
        return status;
    status = crti_file_write(path, text, strlen(text));
    free(text);
    return status;
}
