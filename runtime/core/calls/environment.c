/* SPDX-License-Identifier: Apache-2.0 */
/* The options `env_vars` and `working_dir` of tasks and actors. See environment.h. Pure.
 *
 * Where it sits
 *     task_api.c, actor_create.c -> [ core/calls/environment.c ] -> base/environment.c
 */
#include "runtime/core/calls/environment.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLES_MAX 1000

typedef struct variables {
    const char *texts[VARIABLES_MAX];
    size_t count;
} variables_t;

static size_t name_size(const char *text)
{
    return strcspn(text, "=");
}

static bool has_name(const char *text, const char *other)
{
    size_t size = name_size(text);

    return name_size(other) == size && memcmp(text, other, size) == 0;
}

static crt_status_t check_variable(const char *text)
{
    size_t size = name_size(text);

    if (!text[size] || size == 0)
        return crt_raise(CRT_ERR_INVALID, "env_vars has \"%.100s\": write NAME=VALUE",
                         text);
    for (size_t i = 0; i < size; i++)
        if (text[i] != '_' && !isalpha((unsigned char)text[i]) &&
            (i == 0 || !isdigit((unsigned char)text[i])))
            return crt_raise(
                CRT_ERR_INVALID,
                "env_vars has \"%.100s\": a name has letters, digits and _, and "
                "begins with no digit",
                text);
    if (strncmp(text, "CRT_", 4) == 0)
        return crt_raise(
            CRT_ERR_UNSUPPORTED,
            "env_vars has %.*s: variables of crt are those of the job, given by "
            "crt job submit or before the program starts",
            (int)size, text);
    return CRT_OK;
}

static bool has(const variables_t *v, const char *text)
{
    for (size_t i = 0; i < v->count; i++)
        if (has_name(v->texts[i], text))
            return true;
    return false;
}

/* In order, so that equal ones are equal bytes. */
static crt_status_t add(variables_t *v, const char *text)
{
    size_t at = 0;

    if (has(v, text))
        return crt_raise(CRT_ERR_INVALID, "env_vars has %.*s twice", (int)name_size(text),
                         text);
    while (at < v->count && strcmp(v->texts[at], text) < 0)
        at++;
    if (v->count == VARIABLES_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "env_vars has more than %d variables",
                         VARIABLES_MAX);
    memmove(&v->texts[at + 1], &v->texts[at], (v->count - at) * sizeof(v->texts[0]));
    v->texts[at] = text;
    v->count++;
    return CRT_OK;
}

static crt_status_t take_given(variables_t *v, const char *const *env_vars)
{
    crt_status_t status = CRT_OK;

    for (; status == CRT_OK && env_vars && *env_vars; env_vars++) {
        status = check_variable(*env_vars);
        if (status == CRT_OK)
            status = add(v, *env_vars);
    }
    return status;
}

/* Those of the parent that are not replaced. */
static crt_status_t take_parent(variables_t *v, const crti_environment_t *parent)
{
    crt_status_t status = CRT_OK;
    const char *text = NULL;

    while (status == CRT_OK && (text = crti_environment_next(parent, text)))
        if (!has(v, text))
            status = add(v, text);
    return status;
}

static crt_status_t check_directory(const char *directory)
{
    if (strstr(directory, "://"))
        return crt_raise(
            CRT_ERR_UNSUPPORTED,
            "working_dir of a task or actor is a folder of its node, not "
            "\"%.200s\": give that to the job (crt job submit --working-dir), or "
            "bring it to the nodes by setup",
            directory);
    if (*directory != '/')
        return crt_raise(
            CRT_ERR_INVALID,
            "working_dir is \"%.200s\": give a path from /, of a folder that all "
            "nodes have",
            directory);
    return CRT_OK;
}

static crt_status_t put_text(crti_buffer_t *bytes, const char *text)
{
    if (bytes->size + strlen(text) + 1 > CRTI_ENVIRONMENT_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "env_vars of more than %zu bytes",
                         CRTI_ENVIRONMENT_MAX);
    return crti_buffer_append(bytes, text, strlen(text) + 1);
}

static crt_status_t pack(const variables_t *v, const char *directory,
                         crti_environment_t **environment_out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crt_status_t status = put_text(&bytes, directory);

    for (size_t i = 0; status == CRT_OK && i < v->count; i++)
        status = put_text(&bytes, v->texts[i]);
    return status == CRT_OK
               ? crti_environment_read(crti_span(bytes.data, bytes.size), environment_out)
               : status;
}

crt_status_t crti_environment_of_options(crti_environment_t *parent,
                                         const char *const *env_vars,
                                         const char *working_dir,
                                         crti_environment_t **environment_out)
{
    variables_t *v;
    crt_status_t status = working_dir ? check_directory(working_dir) : CRT_OK;

    *environment_out = NULL;
    if (status != CRT_OK)
        return status;
    if (!working_dir && (!env_vars || !*env_vars)) {
        *environment_out = crti_environment_keep(parent);
        return CRT_OK;
    }
    v = calloc(1, sizeof(*v));
    if (!v)
        return crt_raise(CRT_ERR_NO_MEMORY, "an environment");
    status = take_given(v, env_vars);
    if (status == CRT_OK)
        status = take_parent(v, parent);
    if (status == CRT_OK)
        status = pack(v, working_dir ? working_dir : crti_environment_directory(parent),
                      environment_out);
    free(v);
    return status;
}
