/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithms: the table, the choice, and what CRT_COLLECTIVE_ALGORITHM says. See algorithms.h. */
#include "collective/backends/algorithms.h"

#include <stdio.h>
#include <string.h>

#include "collective/operation_signature.h"
#include "runtime/base/resource_names.h"

#define ENTRY(name) &crti_algorithm_##name,
const crti_algorithm_t *const crti_algorithms[] = {CRTI_ALGORITHMS(ENTRY) NULL};

#define VARIABLE CRTI_ALGORITHMS_VARIABLE
#define WORD     32 /* bytes of the name of an operation or algorithm */
#define LIST     700

/* ---------------------------------------------------------------- the choice */

static const char *why_unfit(const crti_algorithm_t *a, const crti_ring_job_t *job)
{
    return a->unfit ? a->unfit(job) : NULL;
}

static crt_status_t refuse(const crti_algorithm_t *a, const crti_ring_job_t *job)
{
    return crt_raise(CRT_ERR_UNSUPPORTED,
                     VARIABLE ": %s can't be by \"%s\" for %zu %s of %d members: %s",
                     crti_operation_kind_name((int32_t)a->kind), a->name, job->count,
                     crt_dtype_name(job->dtype), job->ring->size, why_unfit(a, job));
}

crt_status_t crti_algorithm_choose(const crti_ring_job_t *job,
                                   const crti_algorithm_t **algorithm_out)
{
    const crti_algorithm_t *forced = job->ring->group->forced[job->kind], *best = NULL;
    double least = 0;

    for (int i = 0; !forced && crti_algorithms[i]; i++) {
        const crti_algorithm_t *a = crti_algorithms[i];
        double cost;

        if (a->kind != job->kind || why_unfit(a, job))
            continue;
        cost = a->cost(job);
        if (!best || cost < least) {
            best = a;
            least = cost;
        }
    }
    *algorithm_out = forced ? forced : best;
    return forced && why_unfit(forced, job) ? refuse(forced, job) : CRT_OK;
}

const char *crti_unfit_in_parts(const crti_ring_job_t *job)
{
    return job->count < (size_t)job->ring->size
               ? "it gives each member a part, and there are fewer elements than members"
               : NULL;
}

const char *crti_unfit_partial_sums(const crti_ring_job_t *job)
{
    return job->dtype == CRT_DTYPE_FLOAT16 || job->dtype == CRT_DTYPE_BFLOAT16
               ? "it would round 16-bit numbers at each member"
               : NULL;
}

const char *crti_unfit_partial_sums_in_parts(const crti_ring_job_t *job)
{
    const char *why = crti_unfit_partial_sums(job);

    return why ? why : crti_unfit_in_parts(job);
}

/* ---------------------------------------------------------------- what was told */

/* The operation of that name that has algorithms; 0: none. */
static crt_collective_kind_t kind_of(const char *name)
{
    for (int i = 0; crti_algorithms[i]; i++)
        if (!strcmp(crti_operation_kind_name((int32_t)crti_algorithms[i]->kind), name))
            return crti_algorithms[i]->kind;
    return 0;
}

/* Of `kind`; 0: of all operations, with the name of each. */
static const char *list(crt_collective_kind_t kind, char text[LIST])
{
    crt_collective_kind_t last = 0;
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; crti_algorithms[i] && used < LIST; i++) {
        const crti_algorithm_t *a = crti_algorithms[i];

        if (kind && a->kind != kind)
            continue;
        if (kind)
            used += (size_t)snprintf(text + used, LIST - used, "%s\"%s\" (%s)",
                                     used ? ", " : "", a->name, a->description);
        else if (a->kind != last)
            used += (size_t)snprintf(text + used, LIST - used, "%s%s", used ? ", " : "",
                                     crti_operation_kind_name((int32_t)a->kind));
        last = a->kind;
    }
    return text;
}

/* ", did you mean "tree"?"; "" when no name is near. */
static const char *nearest(crt_collective_kind_t kind, const char *name, char text[64])
{
    crti_resource_names_t names = {0};
    const char *found;

    for (int i = 0; crti_algorithms[i] && names.count < CRTI_RESOURCE_NAMES; i++) {
        const crti_algorithm_t *a = crti_algorithms[i];

        if (!kind || a->kind == kind)
            snprintf(names.name[names.count++], sizeof(names.name[0]), "%s",
                     kind ? a->name : crti_operation_kind_name((int32_t)a->kind));
    }
    found = crti_resource_names_nearest(&names, name);
    snprintf(text, 64, "%s%s%s", found ? ", did you mean \"" : "", found ? found : "",
             found ? "\"?" : "");
    return text;
}

static crt_status_t unknown(crt_collective_kind_t kind, const char *operation,
                            const char *name)
{
    char all[LIST], near[64];

    if (!kind)
        return crt_raise(CRT_ERR_INVALID,
                         VARIABLE ": there is no operation \"%s\"%s; there are %s",
                         operation, nearest(0, operation, near), list(0, all));
    return crt_raise(CRT_ERR_INVALID,
                     VARIABLE ": %s has no algorithm \"%s\"%s; it has %s", operation,
                     name, nearest(kind, name, near), list(kind, all));
}

/* "allreduce:tree". */
static crt_status_t parse_one(const char *item, size_t length,
                              const crti_algorithm_t *forced[CRTI_GROUP_KINDS])
{
    const char *colon = memchr(item, ':', length);
    char operation[WORD], name[WORD];
    crt_collective_kind_t kind;

    if (!colon || colon - item >= WORD || item + length - colon > WORD)
        return crt_raise(CRT_ERR_INVALID,
                         VARIABLE ": \"%.*s\" is not OPERATION:ALGORITHM", (int)length,
                         item);
    snprintf(operation, WORD, "%.*s", (int)(colon - item), item);
    snprintf(name, WORD, "%.*s", (int)(item + length - colon - 1), colon + 1);
    kind = kind_of(operation);
    if (kind && forced[kind])
        return crt_raise(CRT_ERR_INVALID, VARIABLE ": %s is there twice", operation);
    for (int i = 0; kind && crti_algorithms[i]; i++)
        if (crti_algorithms[i]->kind == kind && !strcmp(crti_algorithms[i]->name, name))
            forced[kind] = crti_algorithms[i];
    return kind && forced[kind] ? CRT_OK : unknown(kind, operation, name);
}

crt_status_t crti_algorithms_parse(const char *text,
                                   const crti_algorithm_t *forced[CRTI_GROUP_KINDS])
{
    crt_status_t status = CRT_OK;

    memset(forced, 0, CRTI_GROUP_KINDS * sizeof(*forced));
    for (const char *at = text; *at && status == CRT_OK;) {
        size_t length = strcspn(at, ",");

        status = parse_one(at, length, forced);
        at += length;
        at += *at == ',';
    }
    return status;
}
