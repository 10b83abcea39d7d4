/* SPDX-License-Identifier: Apache-2.0 */
/* Objects: values in the store, the tensors that a program writes there, and what a call is
 * given. */
#ifndef CRTI_CORE_CALLS_OBJECT_H
#define CRTI_CORE_CALLS_OBJECT_H

#include <stdbool.h>

#include "runtime/core/process/store_access.h"
#include "runtime/core/types.h"

struct crt_object {
    crti_core_t *core; /* NULL after a shutdown */
    crti_object_id_t id;
    size_t size;
    void *data;
    crt_tensor_t view;
    crti_kept_t *kept;       /* of before a shutdown: what `data` was */
    bool is_sealed;          /* the store's: nothing is left to give up */
    struct crt_object *next; /* of those that a call has taken */
};

/* What a call is made with. */
typedef struct crti_given {
    const crt_arg_t *args; /* as the program gave them */
    size_t count;
    crt_arg_t *copy;       /* the same with refs for what was put; NULL: nothing was */
    crt_object_t *objects; /* taken from the program, linked by `next` */
} crti_given_t;

/* ------------------------------------------------------------------ object.c */

/* A value as a new ref, held once. Lock not held. */
crt_ref_t *crti_put(crti_core_t *core, const crt_arg_t *arg, int64_t copies);

/* Or nothing, as in most calls. */
static inline bool crti_args_are_numbers(const crt_arg_t *args, size_t count)
{
    for (size_t i = 0; args && i < count; i++)
        if (args[i].kind > CRT_KIND_FLOAT)
            return false;
    return true;
}

crt_status_t crti_objects_claim_inside(crti_core_t *core, const crt_arg_t *args,
                                       size_t count, crt_object_t **objects_out);
void crti_objects_give_up(crti_core_t *core, crt_object_t **objects);

/* Takes the objects in writing among the arguments from the program, at any depth, into the list
 * `*objects_out`. CRT_ERR_INVALID: one of them is none; the others are taken nevertheless. */
static inline crt_status_t crti_objects_claim(crti_core_t *core, const crt_arg_t *args,
                                              size_t count, crt_object_t **objects_out)
{
    *objects_out = NULL;
    return crti_args_are_numbers(args, count)
               ? CRT_OK
               : crti_objects_claim_inside(core, args, count, objects_out);
}

/* What is left of such a list is given up. */
static inline void crti_objects_end(crti_core_t *core, crt_object_t **objects)
{
    if (*objects)
        crti_objects_give_up(core, objects);
}
/* The same where there is no runtime any more. */
void crti_objects_forget(const crt_arg_t *args, size_t count);
/* The program may still abort them. */
void crti_objects_orphan(crti_core_t *core);
/* A claimed object becomes the content of a new ref, held once. */
crt_ref_t *crti_object_ref(crti_core_t *core, crt_object_t *object, int64_t copies);

/* ------------------------------------------------------------------ given.c */

crt_status_t crti_given_take_any(crti_core_t *core, crti_given_t *given);
/* Takes the objects in writing among the arguments, and puts what is large. crti_given_end follows
 * also when it fails. Lock not held. */
static inline crt_status_t crti_given_take(crti_core_t *core, const crt_arg_t *args,
                                           size_t count, crti_given_t *given)
{
    *given = (crti_given_t){.args = args, .count = count};
    return crti_args_are_numbers(args, count) ? CRT_OK : crti_given_take_any(core, given);
}
void crti_given_give_up(crti_core_t *core, crti_given_t *given);
/* The call is made or refused. Lock not held. */
static inline void crti_given_end(crti_core_t *core, crti_given_t *given)
{
    if (given->objects || given->copy)
        crti_given_give_up(core, given);
}
/* The result of a call when there is no runtime: the objects among the arguments end. */
crt_ref_t *crti_given_refused(const crt_arg_t *args, size_t count);

#endif
