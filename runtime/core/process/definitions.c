/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions of this executable and its libraries. See definitions.h. */
#include "runtime/core/process/definitions.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/copy_struct.h"

/* In the order in which they were added: the linker's, which is the same in each process. */
static struct {
    pthread_mutex_t lock;
    crt_definition_t *first, **end;
    unsigned count;
} defined = {.lock = PTHREAD_MUTEX_INITIALIZER};

void crt_define(crt_definition_t *definition)
{
    pthread_mutex_lock(&defined.lock);
    if (!defined.end)
        defined.end = &defined.first;
    definition->next = NULL;
    *defined.end = definition;
    defined.end = &definition->next;
    defined.count++;
    pthread_mutex_unlock(&defined.lock);
}

static bool is_class(const crt_definition_t *d)
{
    return d->actor_class && !d->method && !d->destroy && !d->restore;
}

/* A list of the options, and room for all definitions behind it. The elements are pointers to
 * constants. */
static void *copy_list(const void *const *list, unsigned *count_out)
{
    const void **copy;

    *count_out = 0;
    while (list && list[*count_out])
        (*count_out)++;
    copy = calloc((size_t)*count_out + defined.count + 1, sizeof(*copy));
    if (copy && *count_out)
        memcpy(copy, list, *count_out * sizeof(*copy));
    return copy;
}

static bool is_listed(const void *const *list, const void *item)
{
    while (*list && *list != item)
        list++;
    return *list != NULL;
}

static void add_tasks(crti_definitions_t *ds, unsigned count)
{
    for (const crt_definition_t *d = defined.first; d; d = d->next)
        if (d->task && !is_listed((const void *const *)ds->tasks, d->task))
            ds->tasks[count++] = d->task;
}

/* The class with its methods, which are NULL-ended in `*methods`; that list goes on behind them. */
static crt_status_t make_class(crt_actor_class_t *made, const crt_actor_class_t *user,
                               const crt_method_t ***methods)
{
    const crt_method_t **first = *methods;
    crt_status_t status = CRTI_COPY_STRUCT(made, user, "CRT_ACTOR_CLASS");

    if (status != CRT_OK)
        return status;
    for (const crt_definition_t *d = defined.first; d; d = d->next) {
        if (d->actor_class != user)
            continue;
        if (d->method)
            *(*methods)++ = d->method;
        if (d->destroy)
            made->destroy = d->destroy;
        if (d->restore)
            made->restore = d->restore;
    }
    if (*methods > first || !made->methods)
        made->methods = first;
    ++*methods;
    return CRT_OK;
}

static crt_status_t add_classes(crti_definitions_t *ds, unsigned count)
{
    const crt_method_t **methods = ds->methods;
    crt_status_t status;

    for (const crt_definition_t *d = defined.first; d; d = d->next) {
        crt_actor_class_t *made = &ds->made[ds->class_count];

        if (!is_class(d))
            continue;
        status = make_class(made, d->actor_class, &methods);
        if (status != CRT_OK)
            return status;
        ds->class_count++;
        for (unsigned i = 0; i < count; i++)
            if (ds->classes[i] == d->actor_class) { /* listed as well */
                ds->classes[i] = made;
                made = NULL;
                break;
            }
        if (made)
            ds->classes[count++] = made;
    }
    return CRT_OK;
}

static crt_status_t check(void)
{
    for (const crt_definition_t *d = defined.first; d; d = d->next) {
        bool is_found = !d->actor_class || is_class(d);

        for (const crt_definition_t *c = defined.first; c && !is_found; c = c->next)
            is_found = is_class(c) && c->actor_class == d->actor_class;
        if (!is_found)
            return crt_raise(CRT_ERR_INVALID, "%s is of class %s, which was not defined",
                             d->method ? d->method->name : "destroy or restore",
                             d->actor_class->name);
    }
    return CRT_OK;
}

crt_status_t crti_definitions_init(crti_definitions_t *ds, const crt_options_t *options)
{
    unsigned tasks, classes;
    crt_status_t status;

    *ds = (crti_definitions_t){.tasks = NULL};
    pthread_mutex_lock(&defined.lock);
    status = check();
    ds->tasks = copy_list((const void *const *)(options ? options->tasks : NULL), &tasks);
    ds->classes =
        copy_list((const void *const *)(options ? options->classes : NULL), &classes);
    ds->made = calloc(defined.count + 1, sizeof(*ds->made));
    ds->methods = calloc(2 * (size_t)defined.count + 1, sizeof(const crt_method_t *));
    if (status == CRT_OK && (!ds->tasks || !ds->classes || !ds->made || !ds->methods))
        status = crt_raise(CRT_ERR_NO_MEMORY, "%u definitions", defined.count);
    if (status == CRT_OK) {
        add_tasks(ds, tasks);
        status = add_classes(ds, classes);
    }
    pthread_mutex_unlock(&defined.lock);
    return status;
}

void crti_definitions_fini(crti_definitions_t *ds)
{
    free(ds->tasks);
    free(ds->classes);
    free(ds->made);
    free(ds->methods);
    *ds = (crti_definitions_t){.tasks = NULL};
}
