/* SPDX-License-Identifier: Apache-2.0 */
/* Classes and tasks of this executable. See program.h. */
#include "runtime/core/process/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/copy_struct.h"
#include "runtime/core/types.h"

#define NAME_MAX_BYTES 200

static crt_status_t make_function(crti_function_t *f, const char *class_name,
                                  const char *name, const char *signature, unsigned index)
{
    size_t room = strlen(class_name) + (name ? strlen(name) : 0) + 2;
    crt_status_t status;

    if (!name || !*name || strlen(name) > NAME_MAX_BYTES)
        return crt_raise(CRT_ERR_INVALID,
                         "%s: method or task %u has no name, or one too long", class_name,
                         index);
    *f = (crti_function_t){.class_name = class_name, .name = name, .index = index};
    f->name_size = strlen(name);
    status = crti_signature_parse(signature, &f->signature);
    if (status != CRT_OK) {
        char detail[300];

        snprintf(detail, sizeof(detail), "%s", crt_error_detail());
        return crt_raise(status, "%s%s%s: %s", class_name, *class_name ? "." : "", name,
                         detail);
    }
    f->display = malloc(room);
    if (!f->display)
        return crt_raise(CRT_ERR_NO_MEMORY, "%s", name);
    snprintf(f->display, room, "%s%s%s", class_name, *class_name ? "." : "", name);
    return CRT_OK;
}

static crt_status_t check_new(const char *what, const crti_function_t *list,
                              unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (strcmp(list[i].name, list[count].name) == 0)
            return crt_raise(CRT_ERR_INVALID, "%s%s is there twice", what,
                             list[count].name);
    return CRT_OK;
}

static crt_status_t check_groups(crti_class_t *c)
{
    const crt_concurrency_group_t *const *groups = c->user->concurrency_groups;

    for (; groups && groups[c->group_count]; c->group_count++) {
        const crt_concurrency_group_t *g = groups[c->group_count];
        crt_concurrency_group_t known;
        crt_status_t status;

        if (c->group_count == CRTI_GROUP_MAX)
            return crt_raise(CRT_ERR_INVALID,
                             "class %s has more than %d concurrency groups",
                             c->user->name, CRTI_GROUP_MAX);
        status = CRTI_COPY_STRUCT(&known, g, "CRT_CONCURRENCY_GROUP");
        if (status != CRT_OK)
            return status;
        if (!g->name || !*g->name)
            return crt_raise(CRT_ERR_INVALID, "class %s: a concurrency group has no name",
                             c->user->name);
        if (g->max_concurrency < 1 || g->max_concurrency > CRTI_CONCURRENCY_MAX)
            return crt_raise(
                CRT_ERR_INVALID,
                "class %s: max_concurrency of the concurrency group %s is %d, "
                "not 1 to %d",
                c->user->name, g->name, g->max_concurrency, CRTI_CONCURRENCY_MAX);
        for (unsigned i = 0; i < c->group_count; i++)
            if (strcmp(groups[i]->name, g->name) == 0)
                return crt_raise(CRT_ERR_INVALID,
                                 "class %s: the concurrency group %s is there twice",
                                 c->user->name, g->name);
    }
    return CRT_OK;
}

/* Each method is of one group at most. */
static crt_status_t place_methods(crti_class_t *c, unsigned group)
{
    const crt_concurrency_group_t *g = c->user->concurrency_groups[group];

    for (const crt_method_t *const *m = g->methods; m && *m; m++) {
        crti_function_t *f = NULL;

        for (unsigned i = 0; i < c->method_count; i++)
            if (c->methods[i].method == *m)
                f = &c->methods[i];
        if (!f)
            return crt_raise(
                CRT_ERR_INVALID,
                "class %s has no method %s, which its concurrency group %s lists",
                c->user->name, (*m)->name ? (*m)->name : "", g->name);
        if (f->group)
            return crt_raise(CRT_ERR_INVALID,
                             "%s is in two concurrency groups, %s and %s", f->display,
                             c->user->concurrency_groups[f->group - 1]->name, g->name);
        f->group = group + 1;
    }
    return CRT_OK;
}

/* A copy of options, as this version of the library knows them. NULL: there are none. */
static crt_status_t keep_defaults(void *kept_out, size_t size, const void *defaults,
                                  const char *macro)
{
    void *kept = defaults ? malloc(size) : NULL;

    if (defaults && !kept)
        return crt_raise(CRT_ERR_NO_MEMORY, "%s", macro);
    memcpy(kept_out, &kept, sizeof(kept));
    return kept ? crti_copy_struct(kept, size, defaults, macro) : CRT_OK;
}

static crt_status_t make_method(crti_class_t *c, const crt_method_t *method,
                                unsigned index, const crt_actor_class_t *of)
{
    crti_function_t *f = &c->methods[index];
    crt_method_t known;
    crt_status_t status = CRTI_COPY_STRUCT(&known, method, "CRT_METHOD");

    if (status != CRT_OK)
        return status;
    status = make_function(f, of->name, known.name, known.signature, index);
    f->method = method;
    f->is_http_public = known.http_public || of->http_public;
    f->is_http = known.http || of->http || f->is_http_public;
    c->method_count = index + 1;
    if (status == CRT_OK && !known.run)
        return crt_raise(CRT_ERR_INVALID, "%s: run is NULL", f->display);
    return status == CRT_OK ? keep_defaults(&f->call_defaults, sizeof(*f->call_defaults),
                                            known.defaults, "CRT_CALL_DEFAULTS")
                            : status;
}

static crt_status_t make_class(crti_class_t *c, const crt_actor_class_t *user)
{
    unsigned count = 0;
    crt_actor_class_t known;
    crt_status_t status = CRTI_COPY_STRUCT(&known, user, "CRT_ACTOR_CLASS");

    if (status != CRT_OK)
        return status;
    if (!known.name || !*known.name)
        return crt_raise(CRT_ERR_INVALID, "an actor class has no name");
    c->user = user;
    while (user->methods && user->methods[count])
        count++;
    c->methods = calloc(count + 1, sizeof(*c->methods));
    if (!c->methods)
        return crt_raise(CRT_ERR_NO_MEMORY, "class %s", user->name);
    status = make_function(&c->create, user->name, "create", user->signature, 0);
    c->create.create = user;
    c->create.data = known.user;
    if (status == CRT_OK)
        status = keep_defaults(&c->defaults, sizeof(*c->defaults), known.defaults,
                               "CRT_ACTOR_DEFAULTS");
    if (status == CRT_OK)
        status = check_groups(c);
    for (unsigned i = 0; i < count && status == CRT_OK; i++) {
        status = make_method(c, user->methods[i], i, &known);
        if (status == CRT_OK)
            status = check_new(user->name, c->methods, i);
    }
    for (unsigned i = 0; i < c->group_count && status == CRT_OK; i++)
        status = place_methods(c, i);
    return status;
}

static crt_status_t make_classes(crti_program_t *p,
                                 const crt_actor_class_t *const *classes)
{
    unsigned count = 0;
    crt_status_t status = CRT_OK;

    while (classes && classes[count])
        count++;
    p->classes = calloc(count + 1, sizeof(*p->classes));
    if (!p->classes)
        return crt_raise(CRT_ERR_NO_MEMORY, "%u classes", count);
    for (unsigned i = 0; i < count && status == CRT_OK; i++) {
        p->class_count = i + 1;
        status = make_class(&p->classes[i], classes[i]);
        for (unsigned j = 0; j < i && status == CRT_OK; j++)
            if (strcmp(classes[i]->name, classes[j]->name) == 0)
                status = crt_raise(CRT_ERR_INVALID, "class %s is there twice",
                                   classes[i]->name);
    }
    return status;
}

static crt_status_t make_tasks(crti_program_t *p, const crt_task_t *const *tasks)
{
    unsigned count = 0;
    crt_status_t status = CRT_OK;

    while (tasks && tasks[count])
        count++;
    p->tasks = calloc(count + 1, sizeof(*p->tasks));
    if (!p->tasks)
        return crt_raise(CRT_ERR_NO_MEMORY, "%u tasks", count);
    for (unsigned i = 0; i < count && status == CRT_OK; i++) {
        crt_task_t known;

        status = CRTI_COPY_STRUCT(&known, tasks[i], "CRT_TASK");
        if (status != CRT_OK)
            return status;
        status = make_function(&p->tasks[i], "", known.name, known.signature, i);
        p->tasks[i].task = tasks[i];
        p->tasks[i].data = known.user;
        p->task_count = i + 1;
        if (status == CRT_OK && !known.run)
            return crt_raise(CRT_ERR_INVALID, "task %s: run is NULL", known.name);
        if (status == CRT_OK && known.max_calls < 0)
            return crt_raise(CRT_ERR_INVALID, "task %s: max_calls is %d", known.name,
                             known.max_calls);
        if (status == CRT_OK)
            status = keep_defaults(&p->tasks[i].task_defaults,
                                   sizeof(*p->tasks[i].task_defaults), known.defaults,
                                   "CRT_TASK_DEFAULTS");
        if (status == CRT_OK)
            status = check_new("task ", p->tasks, i);
    }
    return status;
}

crt_status_t crti_program_init(crti_program_t *p, const crt_options_t *options)
{
    crt_status_t status;

    *p = (crti_program_t){.classes = NULL};
    status = crti_definitions_init(&p->definitions, options);
    if (status == CRT_OK)
        status = make_classes(p, p->definitions.classes);
    if (status == CRT_OK)
        status = make_tasks(p, p->definitions.tasks);
    if (status != CRT_OK)
        crti_program_fini(p);
    return status;
}

static void free_function(crti_function_t *f)
{
    free(f->display);
    free(f->call_defaults);
    free(f->task_defaults);
}

void crti_program_fini(crti_program_t *p)
{
    for (unsigned i = 0; i < p->class_count; i++) {
        for (unsigned j = 0; j < p->classes[i].method_count; j++)
            free_function(&p->classes[i].methods[j]);
        free(p->classes[i].methods);
        free(p->classes[i].defaults);
        free_function(&p->classes[i].create);
    }
    for (unsigned i = 0; i < p->task_count; i++)
        free_function(&p->tasks[i]);
    free(p->classes);
    free(p->tasks);
    crti_definitions_fini(&p->definitions);
    *p = (crti_program_t){.classes = NULL};
}

/* ------------------------------------------------------------------ at the caller */

crt_status_t crti_program_task(const crti_program_t *p, const crt_task_t *task,
                               const crti_function_t **function_out)
{
    if (!task || !task->name)
        return crt_raise(CRT_ERR_INVALID, "the task is NULL or has no name");
    for (unsigned i = 0; i < p->task_count; i++)
        if (p->tasks[i].task == task || strcmp(p->tasks[i].name, task->name) == 0) {
            *function_out = &p->tasks[i];
            return CRT_OK;
        }
    return crt_raise(CRT_ERR_INVALID,
                     "task %s is not in this program (CRT_OPTIONS .tasks)", task->name);
}

crt_status_t crti_program_class(const crti_program_t *p, const crt_actor_class_t *user,
                                const crti_class_t **class_out)
{
    if (!user || !user->name)
        return crt_raise(CRT_ERR_INVALID, "the actor class is NULL or has no name");
    for (unsigned i = 0; i < p->class_count; i++)
        if (p->classes[i].user == user ||
            strcmp(p->classes[i].user->name, user->name) == 0) {
            *class_out = &p->classes[i];
            return CRT_OK;
        }
    return crt_raise(CRT_ERR_INVALID,
                     "class %s is not in this program (CRT_OPTIONS .classes)",
                     user->name);
}

crt_status_t crti_class_method(const crti_class_t *c, const crt_method_t *method,
                               const crti_function_t **function_out)
{
    if (!method || !method->name)
        return crt_raise(CRT_ERR_INVALID, "the method is NULL or has no name");
    for (unsigned i = 0; i < c->method_count; i++)
        if (c->methods[i].method == method) {
            *function_out = &c->methods[i];
            return CRT_OK;
        }
    *function_out = crti_class_find_method(c, 0, method->name, strlen(method->name));
    if (*function_out)
        return CRT_OK;
    return crt_raise(CRT_ERR_INVALID, "class %s has no method %s", c->user->name,
                     method->name);
}

crt_status_t crti_class_group(const crti_class_t *c, const crt_concurrency_group_t *group,
                              unsigned *group_out)
{
    for (unsigned i = 0; i < c->group_count; i++) {
        const crt_concurrency_group_t *declared = c->user->concurrency_groups[i];

        if (declared == group ||
            strcmp(declared->name, group->name ? group->name : "") == 0) {
            *group_out = i + 1;
            return CRT_OK;
        }
    }
    return crt_raise(CRT_ERR_INVALID,
                     "class %s declares no concurrency group %s (CRT_ACTOR_CLASS "
                     ".concurrency_groups)",
                     c->user->name, group->name ? group->name : "without a name");
}

/* ------------------------------------------------------------------ at the worker */

static bool is_named(const crti_function_t *f, const char *name, size_t size)
{
    return f->name_size == size && memcmp(f->name, name, size) == 0;
}

static const crti_function_t *find(const crti_function_t *list, unsigned count,
                                   unsigned index, const char *name, size_t size)
{
    if (index < count && is_named(&list[index], name, size))
        return &list[index];
    for (unsigned i = 0; i < count; i++)
        if (is_named(&list[i], name, size))
            return &list[i];
    return NULL;
}

const crti_function_t *crti_program_find_task(const crti_program_t *p, unsigned index,
                                              const char *name, size_t size)
{
    return find(p->tasks, p->task_count, index, name, size);
}

const crti_function_t *crti_class_find_method(const crti_class_t *c, unsigned index,
                                              const char *name, size_t size)
{
    return find(c->methods, c->method_count, index, name, size);
}

const crti_class_t *crti_program_find_class(const crti_program_t *p, const char *name,
                                            size_t size)
{
    for (unsigned i = 0; i < p->class_count; i++)
        if (is_named(&(crti_function_t){.name = p->classes[i].user->name,
                                        .name_size = strlen(p->classes[i].user->name)},
                     name, size))
            return &p->classes[i];
    return NULL;
}
