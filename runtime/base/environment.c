/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a task or an actor. See environment.h. */
#include "runtime/base/environment.h"

#include <stdlib.h>
#include <string.h>

struct crti_environment {
    size_t users, size;
    char bytes[];
};

/* The folder is a path from the root, and each other text has a name and a value. */
static bool is_well_formed(const char *bytes, size_t size)
{
    const char *at = bytes, *end = bytes + size;

    if (size == 0 || size > CRTI_ENVIRONMENT_MAX || end[-1] != '\0' ||
        (*bytes && *bytes != '/'))
        return false;
    for (at += strlen(at) + 1; at < end; at += strlen(at) + 1)
        if (*at == '=' || !strchr(at, '='))
            return false;
    return true;
}

crt_status_t crti_environment_read(crti_span_t from, crti_environment_t **environment_out)
{
    crti_environment_t *environment;

    *environment_out = NULL;
    if (from.size == 0)
        return CRT_OK;
    if (!is_well_formed((const char *)from.data, from.size))
        return crt_raise(CRT_ERR_PROTOCOL, "%zu bytes that are no environment",
                         from.size);
    environment = malloc(sizeof(*environment) + from.size);
    if (!environment)
        return crt_raise(CRT_ERR_NO_MEMORY, "an environment of %zu bytes", from.size);
    environment->users = 1;
    environment->size = from.size;
    memcpy(environment->bytes, from.data, from.size);
    *environment_out = environment;
    return CRT_OK;
}

crti_environment_t *crti_environment_keep(crti_environment_t *environment)
{
    if (environment)
        environment->users++;
    return environment;
}

void crti_environment_drop(crti_environment_t *environment)
{
    if (environment && --environment->users == 0)
        free(environment);
}

crti_span_t crti_environment_bytes(const crti_environment_t *environment)
{
    return environment ? crti_span(environment->bytes, environment->size)
                       : crti_span(NULL, 0);
}

bool crti_environment_equal(const crti_environment_t *a, const crti_environment_t *b)
{
    return a == b ||
           (a && b && a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0);
}

const char *crti_environment_directory(const crti_environment_t *environment)
{
    return environment ? environment->bytes : "";
}

const char *crti_environment_next(const crti_environment_t *environment,
                                  const char *before)
{
    if (!environment)
        return NULL;
    before = before ? before : environment->bytes;
    before += strlen(before) + 1;
    return before < environment->bytes + environment->size ? before : NULL;
}
