/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of a sweep and their combinations. See sweep.h. */
#include "cli/sweep.h"

#include <stdlib.h>
#include <string.h>

static const char *const states[] = {"WAITING", "SUBMITTED", "RUNNING",      "SUCCEEDED",
                                     "FAILED",  "STOPPED",   "STOPPED_EARLY"};

const char *crti_sweep_state_name(sweep_state_t state)
{
    return states[state];
}

bool crti_sweep_has_ended(sweep_state_t state)
{
    return state >= SWEEP_SUCCEEDED;
}

/* ---------------------------------------------------------------- parameters */

static bool is_name(const char *text, size_t size)
{
    return size > 0 && size < 64 &&
           strspn(text,
                  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") >=
               size;
}

static const sweep_parameter_t *find(const sweep_t *sweep, const char *name, size_t size)
{
    for (size_t i = 0; i < sweep->parameter_count; i++)
        if (sweep->parameters[i].name_size == size &&
            memcmp(sweep->parameters[i].name, name, size) == 0)
            return &sweep->parameters[i];
    return NULL;
}

static crt_status_t read_values(sweep_parameter_t *p, const char *text)
{
    char *at;

    p->copy = strdup(text);
    p->values = calloc(strlen(text) + 2, sizeof(*p->values));
    if (!p->copy || !p->values)
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    at = p->copy;
    do {
        char *comma = strchr(at, ',');

        if (comma)
            *comma = '\0';
        if (*at == '\0')
            return crt_raise(CRT_ERR_INVALID, "--sweep %.*s has an empty value",
                             (int)p->name_size, p->name);
        p->values[p->count++] = at;
        at = comma ? comma + 1 : NULL;
    } while (at);
    return CRT_OK;
}

static crt_status_t read_parameter(sweep_t *sweep, const char *option)
{
    sweep_parameter_t *p = &sweep->parameters[sweep->parameter_count];
    size_t size = strcspn(option, "=");

    if (option[size] != '=' || !is_name(option, size))
        return crt_raise(CRT_ERR_INVALID, "--sweep takes NAME=VALUE,VALUE, not \"%s\"",
                         option);
    if (find(sweep, option, size))
        return crt_raise(CRT_ERR_INVALID, "--sweep %.*s is given twice", (int)size,
                         option);
    if (sweep->parameter_count == SWEEP_PARAMETERS)
        return crt_raise(CRT_ERR_INVALID, "a sweep has at most %d parameters",
                         SWEEP_PARAMETERS);
    *p = (sweep_parameter_t){.name = option, .name_size = size};
    sweep->parameter_count++;
    return read_values(p, option + size + 1);
}

crt_status_t crti_sweep_init(sweep_t *sweep, const char *const *options)
{
    crt_status_t status = CRT_OK;

    sweep->count = 1;
    for (size_t i = 0; options[i] && status == CRT_OK; i++) {
        status = read_parameter(sweep, options[i]);
        if (status == CRT_OK)
            sweep->count *= sweep->parameters[i].count;
        if (status == CRT_OK && sweep->count > SWEEP_RUNS_MAX)
            status = crt_raise(CRT_ERR_TOO_LARGE, "the sweep has more than %d runs",
                               SWEEP_RUNS_MAX);
    }
    if (status != CRT_OK)
        return status;
    sweep->runs = calloc(sweep->count, sizeof(*sweep->runs));
    return sweep->runs ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
}

void crti_sweep_fini(sweep_t *sweep)
{
    for (size_t i = 0; i < sweep->parameter_count; i++) {
        free(sweep->parameters[i].copy);
        free(sweep->parameters[i].values);
    }
    for (size_t i = 0; sweep->runs && i < sweep->count; i++) {
        json_decref(sweep->runs[i].metrics);
        json_decref(sweep->runs[i].needs);
        free(sweep->runs[i].history);
    }
    free(sweep->runs);
    json_decref(sweep->entry);
}

/* ---------------------------------------------------------------- combinations */

const char *crti_sweep_value(const sweep_t *sweep, size_t run, size_t parameter)
{
    for (size_t i = sweep->parameter_count; i-- > parameter + 1;)
        run /= sweep->parameters[i].count;
    return sweep->parameters[parameter].values[run % sweep->parameters[parameter].count];
}

void crti_sweep_label(const sweep_t *sweep, size_t run, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < sweep->parameter_count && used < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%.*s=%s", i ? ", " : "",
                             (int)sweep->parameters[i].name_size,
                             sweep->parameters[i].name, crti_sweep_value(sweep, run, i));
}

/* The parameter of the {name} at `text`; `*end_out` is behind it. NULL: there is none of that
 * name. */
static const sweep_parameter_t *find_braced(const sweep_t *sweep, const char *text,
                                            const char **end_out)
{
    const char *end = strchr(text, '}');
    size_t size = end ? (size_t)(end - text) - 1 : strlen(text) - 1;
    char known[512] = "";
    size_t used = 0;
    const sweep_parameter_t *p = end ? find(sweep, text + 1, size) : NULL;

    if (p) {
        *end_out = end + 1;
        return p;
    }
    for (size_t i = 0; i < sweep->parameter_count && used < sizeof(known); i++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s{%.*s}",
                                 i ? ", " : "", (int)sweep->parameters[i].name_size,
                                 sweep->parameters[i].name);
    crt_raise(CRT_ERR_INVALID,
              "no --sweep gives values to {%.*s}; there is %s (write {{ for a brace)",
              (int)(size < 100 ? size : 100), text + 1, known);
    return NULL;
}

char *crti_sweep_fill(const sweep_t *sweep, size_t run, const char *text)
{
    char *out = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&out, &size);
    bool is_good = to != NULL;

    while (is_good && *text) {
        const sweep_parameter_t *p;

        if (text[0] != '{' || text[1] == '{') {
            fputc(*text, to);
            text += text[0] == '{' ? 2 : 1;
            continue;
        }
        p = find_braced(sweep, text, &text);
        is_good = p != NULL;
        if (p)
            fputs(crti_sweep_value(sweep, run, (size_t)(p - sweep->parameters)), to);
    }
    if (to)
        fclose(to);
    if (is_good)
        return out;
    free(out);
    return NULL;
}

/* Whether a word has {name}. */
static bool has(const sweep_parameter_t *p, const char *word)
{
    char wanted[80];

    snprintf(wanted, sizeof(wanted), "{%.*s}", (int)p->name_size, p->name);
    return strstr(word, wanted) != NULL;
}

crt_status_t crti_sweep_check(const sweep_t *sweep, int argc, char **argv,
                              const char *const *variables)
{
    for (int i = 0; i < argc; i++) {
        char *filled = crti_sweep_fill(sweep, 0, argv[i]);

        if (!filled)
            return CRT_ERR_INVALID;
        free(filled);
    }
    for (size_t i = 0; i < sweep->parameter_count; i++) {
        const sweep_parameter_t *p = &sweep->parameters[i];
        bool is_used = false;

        for (int k = 0; k < argc; k++)
            is_used = is_used || has(p, argv[k]);
        for (size_t k = 0; variables[k]; k++)
            is_used = is_used || has(p, variables[k]);
        if (!is_used)
            return crt_raise(CRT_ERR_INVALID,
                             "no argument has {%.*s}: all of its runs would be the same",
                             (int)p->name_size, p->name);
    }
    return CRT_OK;
}
