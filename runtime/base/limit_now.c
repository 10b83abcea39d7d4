/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of this process. See limit.h. */
#include "runtime/base/limit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"

crti_limits_t crti_limits_here = {
#define STANDARD(name, scope, unit, standard, least, most, meaning) .name = (standard),
    CRTI_LIMITS(STANDARD)
#undef STANDARD
};

static void set(const crti_limit_t *limit, uint64_t value)
{
    __atomic_store_n(crti_limit_in(&crti_limits_here, limit), value, __ATOMIC_RELAXED);
}

void crti_limits_set(const crti_limits_t *limits)
{
    crti_limits_t copy = *limits;
    const crti_limit_t *limit;

    for (size_t i = 0; (limit = crti_limit_at(i)) != NULL; i++)
        set(limit, *crti_limit_in(&copy, limit));
}

const char *crti_limit_said(const char *name, char text[CRTI_LIMIT_TEXT])
{
    const crti_limit_t *limit = crti_limit_find(name);

    crti_limit_write(
        limit->unit,
        __atomic_load_n(crti_limit_in(&crti_limits_here, limit), __ATOMIC_RELAXED), text);
    return text;
}

crt_status_t crti_limits_load(void)
{
    crti_limits_t limits;
    crt_status_t status = crti_limits_environment(&limits);

    if (status != CRT_OK)
        crti_limits_defaults(&limits);
    crti_limits_set(&limits);
    return status;
}

/* ---------------------------------------------------------------- handed down */

void crti_limits_pack(char text[CRTI_LIMITS_PACKED])
{
    const crti_limit_t *limit;
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; (limit = crti_limit_at(i)) != NULL; i++)
        if (limit->scope == CRTI_LIMIT_CLUSTER)
            used += (size_t)snprintf(text + used, CRTI_LIMITS_PACKED - used,
                                     "%s=%" PRIu64 "\n", limit->name,
                                     *crti_limit_in(&crti_limits_here, limit));
}

/* One line into `limits`. */
static crt_status_t take_line(const char *line, crti_limits_t *limits)
{
    char name[CRTI_LIMIT_VARIABLE];
    const crti_limit_t *limit;
    char digits[21];
    uint64_t value;
    int end = 0;

    if (sscanf(line, "%63[a-z_]=%20[0-9]%n", name, digits, &end) != 2 || line[end])
        return crt_raise(CRT_ERR_PROTOCOL, "no limit of a cluster: %.40s", line);
    value = strtoull(digits, NULL, 10); /* too large: the largest, which is none */
    limit = crti_limit_find(name);
    if (!limit || limit->scope != CRTI_LIMIT_CLUSTER || value < limit->least ||
        value > limit->most)
        return crt_raise(CRT_ERR_PROTOCOL, "a limit of another cluster: %.60s", line);
    *crti_limit_in(limits, limit) = value;
    return CRT_OK;
}

static void say_what_counts(const crti_limit_t *limit, uint64_t own, uint64_t value)
{
    char variable[CRTI_LIMIT_VARIABLE], texts[2][CRTI_LIMIT_TEXT];
    const char *given;

    crti_limit_variable(limit, variable);
    given = getenv(variable);
    if (!given || !*given || own == value)
        return;
    crti_limit_write(limit->unit, own, texts[0]);
    crti_limit_write(limit->unit, value, texts[1]);
    crti_log(CRTI_LOG_NOTICE, "limits",
             "%s=%s does not count: the cluster was started with %s", variable, texts[0],
             texts[1]);
}

crt_status_t crti_limits_take(const char *text, size_t size)
{
    crti_limits_t own = crti_limits_here, limits = own;
    crt_status_t status = CRT_OK;
    char copy[CRTI_LIMITS_PACKED], *rest = copy, *line;
    const crti_limit_t *limit;

    if (size >= sizeof(copy))
        return crt_raise(CRT_ERR_PROTOCOL, "limits of a cluster in %zu bytes", size);
    if (size > 0)
        memcpy(copy, text, size);
    copy[size] = '\0';
    while (status == CRT_OK && (line = strsep(&rest, "\n")) != NULL)
        if (*line)
            status = take_line(line, &limits);
    if (status == CRT_OK)
        status = crti_limits_check(&limits);
    if (status != CRT_OK)
        return status;
    for (size_t i = 0; (limit = crti_limit_at(i)) != NULL; i++)
        if (limit->scope == CRTI_LIMIT_CLUSTER)
            say_what_counts(limit, *crti_limit_in(&own, limit),
                            *crti_limit_in(&limits, limit));
    crti_limits_set(&limits);
    return CRT_OK;
}
