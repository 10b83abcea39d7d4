/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions: the tasks and classes that the macros of crt_define.h have added to this program.
 *
 * Where it sits
 *     constructors, before main -> [ definitions ] -> program.h, at crt_init
 * Threads
 *     crt_define from any thread; its list is locked.
 */
#ifndef CRTI_CORE_DEFINITIONS_H
#define CRTI_CORE_DEFINITIONS_H

#include "runtime/crt_define.h"

/* What a program has: its options' lists and what was defined. Ended by NULL. */
typedef struct crti_definitions {
    const crt_task_t **tasks;
    const crt_actor_class_t **classes;
    crt_actor_class_t *made; /* of the defined classes, with their methods */
    const crt_method_t **methods;
    unsigned class_count;
} crti_definitions_t;

/* CRT_ERR_INVALID: a method, or what ends or restores an actor, belongs to no class that was
 * defined. Undone by crti_definitions_fini, also after an error. */
crt_status_t crti_definitions_init(crti_definitions_t *definitions,
                                   const crt_options_t *options);
void crti_definitions_fini(crti_definitions_t *definitions);

#endif
