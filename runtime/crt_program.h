/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks, methods and actor classes: what a program defines. Part of crt.h.
 *
 *     static crt_status_t add_run(void *self, crt_call_t *call)
 *     {
 *         struct counter *c = self;
 *         int64_t amount;
 *         CRT_TRY(crt_args(call, &amount));
 *         return crt_return(call, c->value += amount);
 *     }
 *     static const crt_method_t add =
 *         CRT_METHOD(.name = "add", .run = add_run, .signature = "int");
 *     static const crt_actor_class_t counter =
 *         CRT_ACTOR_CLASS(.name = "Counter", .size = sizeof(struct counter),
 *                         .methods = CRT_METHODS(&add));
 *
 * Descriptors are constants that stay valid until crt_shutdown: the runtime keeps their addresses.
 */
#ifndef CRT_PROGRAM_H
#define CRT_PROGRAM_H

#include "crt_base.h"

typedef struct crt_call crt_call_t; /* one running call: its arguments and its result */

/* A method of an actor class. Calls name it by address; between processes it travels as its
 * place in the class's list, checked by name when a process meets the class. */
typedef struct crt_method {
    size_t struct_size; /* set by CRT_METHOD */
    const char *name;
    /* `self` is the actor's struct. The status and the detail of a failure reach the caller. */
    crt_status_t (*run)(void *self, crt_call_t *call);
    /* Kinds of the arguments, checked at the caller: a comma-separated list of
     * "bool int float string bytes tensor actor list map ref any"; the last may end in "..."
     * (zero or more). A ref may stand for an argument of any kind: its value is passed. An object
     * in writing is a "tensor". "" is no arguments, NULL means unchecked. "ref" passes the ref
     * itself, without waiting for it. */
    const char *signature;
    /* POST /api/actors/NAMESPACE/NAME/METHOD of the dashboard's server may call it (docs/design/http-calls.md): with
     * the cluster's token; http_public: without one, too. */
    bool http, http_public;
} crt_method_t;

/* A named set of methods with threads of its own. Its calls run concurrently with those of the
 * actor's other groups; at most max_concurrency of them run at the same time (for methods of no
 * group: max_concurrency of crt_actor_options_t). A class declares its groups
 * (.concurrency_groups); a call may name another group than its method's (crt_call_options_t). */
typedef struct crt_concurrency_group {
    size_t struct_size; /* set by CRT_CONCURRENCY_GROUP */
    const char *name;
    /* 1 to 1000. */
    int max_concurrency;
    /* CRT_METHODS; NULL: only calls that name the group. */
    const crt_method_t *const *methods;
} crt_concurrency_group_t;

/* An actor: a struct of `size` bytes, zeroed, then filled in by `create` (NULL: left zero).
 * `destroy` (may be NULL) runs when the actor ends in an orderly way. */
typedef struct crt_actor_class {
    size_t struct_size; /* set by CRT_ACTOR_CLASS */
    const char *name;
    size_t size;
    crt_status_t (*create)(void *self, crt_call_t *call);
    const char *signature; /* of create's arguments */
    void (*destroy)(void *self);
    const crt_method_t *const *methods; /* ended by NULL: CRT_METHODS */
    /* At most 15, ended by NULL: CRT_CONCURRENCY_GROUPS. May be NULL. */
    const crt_concurrency_group_t *const *concurrency_groups;
    /* After `create` in a process that follows another one of the actor, with what crt_actor_save kept last; not
     * called when nothing was. An error ends the actor, as one of `create` does. */
    crt_status_t (*restore)(void *self, const void *state, size_t size);
    bool http, http_public; /* all of its methods are, as if each said so */
    /* For the program: crt_call_user gives the pointer to `create` and to methods. May be NULL. A
     * language binding keeps an object of its own here: one function serves many classes then. */
    void *user;
} crt_actor_class_t;

/* A task: a function that runs in any worker. */
typedef struct crt_task {
    size_t struct_size; /* set by CRT_TASK */
    const char *name;
    crt_status_t (*run)(crt_call_t *call);
    const char *signature;
    /* A worker ends when it has begun this task so often, and another one takes its place: for tasks that leave
     * memory or descriptors behind. Default 0: it goes on. What waited there runs elsewhere; objects that it owns
     * are kept until nobody has them any more, for 30 s at most. */
    int max_calls;
    void *
        user; /* for the program: crt_call_user gives the pointer to `run`; may be NULL */
} crt_task_t;

/* Constants of a program, members by their names; in C++ (C++17 and later) in any order. */
/* clang-format off */
#ifdef __cplusplus
/* The addresses, and NULL behind them. */
template <class CrtT, const CrtT *...crt_pointers> struct crti_pointers_t {
    static constexpr const CrtT *items[] = {crt_pointers..., nullptr};
};
template <crt_status_t... crt_statuses> struct crti_statuses_t {
    static constexpr crt_status_t items[] = {crt_statuses..., CRT_OK};
};
#define CRT_METHODS(...) (crti_pointers_t<crt_method_t, __VA_ARGS__>::items)
#define CRT_CLASSES(...) (crti_pointers_t<crt_actor_class_t, __VA_ARGS__>::items)
#define CRT_TASKS(...)   (crti_pointers_t<crt_task_t, __VA_ARGS__>::items)
#define CRT_CONCURRENCY_GROUPS(...)                                                      \
    (crti_pointers_t<crt_concurrency_group_t, __VA_ARGS__>::items)
#define CRT_STATUSES(...) (crti_statuses_t<__VA_ARGS__>::items)
#define CRT_ACTOR_CLASS(...)                                                             \
    CRTI_MADE(, crt_actor_class_t, .struct_size = sizeof(crt_actor_class_t), __VA_ARGS__)
#define CRT_TASK(...)                                                                    \
    CRTI_MADE(, crt_task_t, .struct_size = sizeof(crt_task_t), __VA_ARGS__)
#define CRT_METHOD(...)                                                                  \
    CRTI_MADE(, crt_method_t, .struct_size = sizeof(crt_method_t), __VA_ARGS__)
#define CRT_CONCURRENCY_GROUP(...)                                                       \
    CRTI_MADE(, crt_concurrency_group_t, .struct_size = sizeof(crt_concurrency_group_t),  \
             __VA_ARGS__)
#else
#define CRT_METHODS(...) (const crt_method_t *const[]) {__VA_ARGS__, NULL}
#define CRT_CLASSES(...) (const crt_actor_class_t *const[]) {__VA_ARGS__, NULL}
#define CRT_TASKS(...)   (const crt_task_t *const[]) {__VA_ARGS__, NULL}
#define CRT_CONCURRENCY_GROUPS(...)                                                      \
    (const crt_concurrency_group_t *const[]) {__VA_ARGS__, NULL}
#define CRT_STATUSES(...) (const crt_status_t[]) {__VA_ARGS__, CRT_OK}
#define CRT_ACTOR_CLASS(...) {.struct_size = sizeof(crt_actor_class_t), __VA_ARGS__}
#define CRT_TASK(...)        {.struct_size = sizeof(crt_task_t), __VA_ARGS__}
#define CRT_METHOD(...)      {.struct_size = sizeof(crt_method_t), __VA_ARGS__}
#define CRT_CONCURRENCY_GROUP(...)                                                       \
    {.struct_size = sizeof(crt_concurrency_group_t), __VA_ARGS__}
#endif
/* clang-format on */

#endif
