/* SPDX-License-Identifier: Apache-2.0 */
/* Program: the classes and tasks that this executable has, with their signatures parsed.
 *
 * Where it sits
 *     crt_init -> [ program ] -> calls (by descriptor), execution (by index, checked by name)
 * Threads
 *     Made once by crt_init, never changed: no lock.
 */
#ifndef CRTI_CORE_PROGRAM_H
#define CRTI_CORE_PROGRAM_H

#include "runtime/core/process/definitions.h"
#include "runtime/core/types.h"
#include "runtime/core/values/signature.h"

/* Of the program's own structs only the members that the first version had are read in place; what
 * was added since is read from a copy (base/copy_struct.h), as the program may be older. */
struct crti_function {
    const char *class_name; /* "" for a task */
    const char *name;
    size_t name_size;
    unsigned index;
    /* of a method: the place in its class's concurrency groups + 1; 0: none */
    unsigned group;
    char *display; /* "Counter.add" */
    crti_signature_t signature;
    bool is_http,
        is_http_public; /* of a method: it may be called from outside, without a token */
    void *data;         /* of a task, and of create: `user`, of the program */
    const crt_method_t *method; /* one of these */
    const crt_task_t *task;
    const crt_actor_class_t *create;
    crt_call_options_t *call_defaults; /* of a method; NULL: none */
    crt_task_options_t *task_defaults; /* of a task; NULL: none */
};

typedef struct crti_class {
    const crt_actor_class_t *user;
    crt_actor_options_t *defaults; /* NULL: none */
    crti_function_t create;
    crti_function_t *methods;
    unsigned method_count, group_count;
} crti_class_t;

#define CRTI_GROUP_MAX       15 /* concurrency groups that a class declares */
#define CRTI_CONCURRENCY_MAX 1000

struct crti_program {
    crti_class_t *classes;
    crti_function_t *tasks;
    unsigned class_count, task_count;
    crti_definitions_t definitions;
};

/* CRT_ERR_INVALID: a name that is missing or there twice, a signature that is wrong. */
crt_status_t crti_program_init(crti_program_t *program, const crt_options_t *options);
void crti_program_fini(crti_program_t *program);

/* By descriptor, else by name; CRT_ERR_INVALID says what the program was built without. */
crt_status_t crti_program_task(const crti_program_t *program, const crt_task_t *task,
                               const crti_function_t **function_out);
crt_status_t crti_program_class(const crti_program_t *program,
                                const crt_actor_class_t *user,
                                const crti_class_t **class_out);
crt_status_t crti_class_method(const crti_class_t *class_, const crt_method_t *method,
                               const crti_function_t **function_out);

/* The place of a concurrency group in its class + 1. CRT_ERR_INVALID: the class does not declare
 * it. */
crt_status_t crti_class_group(const crti_class_t *class_,
                              const crt_concurrency_group_t *group, unsigned *group_out);

/* In a worker: what a caller asks for. NULL when it is not there. */
const crti_class_t *crti_program_find_class(const crti_program_t *program,
                                            const char *name, size_t size);
const crti_function_t *crti_program_find_task(const crti_program_t *program,
                                              unsigned index, const char *name,
                                              size_t size);
const crti_function_t *crti_class_find_method(const crti_class_t *class_, unsigned index,
                                              const char *name, size_t size);

#endif
