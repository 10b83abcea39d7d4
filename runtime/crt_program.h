/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of the tasks, methods and actor classes that a program defines. Part of crt.h.
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
 *
 * The functions `run`, `create` and `restore` return CRT_OK, or an error (a number below 0), which
 * fails the call. A number above 0 (CRT_IN_PROGRESS, CRT_END_OF_STREAM, CRT_ANY_ERROR) fails the
 * call with CRT_ERR_INVALID. They run in threads of the runtime: one that ends its thread, by
 * pthread_exit, ends the process, and the call fails with CRT_ERR_WORKER_DIED or
 * CRT_ERR_ACTOR_DIED. */
#ifndef CRT_PROGRAM_H
#define CRT_PROGRAM_H

#include "crt_options.h"

/* One running call: its arguments and its result. */
typedef struct crt_call crt_call_t;

/* A method of an actor class. Calls name the method by the address of this descriptor. Between
 * processes a method travels as its index in the list of its class; when two processes meet, they
 * compare the names in that list. */
typedef struct crt_method {
    /* Set by CRT_METHOD. */
    size_t struct_size;
    const char *name;
    /* `self` is the actor's struct. The caller gets the status and the error text of a failure. */
    crt_status_t (*run)(void *self, crt_call_t *call);
    /* The kinds of the arguments, which the caller checks: a comma-separated list of "bool int
     * float string bytes tensor actor list map ref any". The last kind may end in "..." (zero or
     * more arguments). A ref may stand for an argument of any kind: the method gets its value.
     * "ref" passes the ref itself, and the call does not wait for its value. An object that is
     * being written (crt_object_create) is a "tensor". "": no arguments. NULL: the arguments are
     * not checked. */
    const char *signature;
    /* The dashboard's server may call this method by POST /api/actors/NAMESPACE/NAME/METHOD
     * (docs/design/http-calls.md). `http`: requests need the cluster's token. `http_public`:
     * requests need no token. */
    bool http, http_public;
    /* Options of every call of the method: CRT_CALL_DEFAULTS(...). A member that the caller sets
     * replaces the default. NULL: none. */
    const crt_call_options_t *defaults;
} crt_method_t;

/* A named set of methods with threads of its own. Calls in one group run concurrently with calls
 * in the other groups of the actor. At most max_concurrency calls of the group run at the same
 * time; methods in no group have max_concurrency of crt_actor_options_t. A class lists its groups
 * in .concurrency_groups. A call may name another group than its method's (crt_call_options_t). */
typedef struct crt_concurrency_group {
    /* Set by CRT_CONCURRENCY_GROUP. */
    size_t struct_size;
    const char *name;
    /* The number of calls that may run at the same time: 1 to 1000. */
    int max_concurrency;
    /* The methods of the group: CRT_METHODS(...). NULL: the group runs only calls that name the
     * group. */
    const crt_method_t *const *methods;
} crt_concurrency_group_t;

/* A class of actors. The state of an actor is a struct of `size` bytes. The runtime sets the
 * struct to zero, then `create` fills the struct in. */
typedef struct crt_actor_class {
    /* Set by CRT_ACTOR_CLASS. */
    size_t struct_size;
    const char *name;
    /* Bytes of the actor's struct. */
    size_t size;
    /* Fills in the struct. NULL: the struct stays zero. An error ends the actor, and calls fail
     * with that error. */
    crt_status_t (*create)(void *self, crt_call_t *call);
    /* The kinds of the arguments of `create`, as `signature` of crt_method_t. */
    const char *signature;
    /* Runs when the actor ends in an orderly way, not when its process dies. May be NULL. */
    void (*destroy)(void *self);
    /* The methods: CRT_METHODS(...), which ends the list with NULL. */
    const crt_method_t *const *methods;
    /* At most 15 concurrency groups: CRT_CONCURRENCY_GROUPS(...), which ends the list with NULL.
     * May be NULL. */
    const crt_concurrency_group_t *const *concurrency_groups;
    /* Runs after `create` in a process that replaces an earlier process of the actor, with the
     * state that crt_actor_save kept last. Does not run when no state was kept. An error ends the
     * actor, as an error of `create` does. May be NULL. */
    crt_status_t (*restore)(void *self, const void *state, size_t size);
    /* Sets `http` and `http_public` of every method of the class. */
    bool http, http_public;
    /* A pointer for the program: crt_call_user returns the pointer in `create` and in methods.
     * One function can then serve many classes, as language bindings need. May be NULL. */
    void *user;
    /* Options of every actor of the class: CRT_ACTOR_DEFAULTS(...). A member that the caller sets
     * replaces the default. `name`, `detached`, `get_if_exists` and the placement group are those
     * of the caller only. NULL: none. */
    const crt_actor_options_t *defaults;
} crt_actor_class_t;

/* A task: a function that any worker can run. */
typedef struct crt_task {
    /* Set by CRT_TASK. */
    size_t struct_size;
    const char *name;
    /* The caller gets the status and the error text of a failure. A number above 0 is
     * CRT_ERR_INVALID. */
    crt_status_t (*run)(crt_call_t *call);
    /* The kinds of the arguments, as `signature` of crt_method_t. */
    const char *signature;
    /* How many times one worker may run this task. When the last of these runs has finished, the
     * worker ends and another one takes its place. For tasks that leave memory or descriptors
     * behind. 0: the default, no limit. Tasks that wait in the worker run elsewhere. Objects that
     * the worker owns are kept until no process uses them, for at most 30 s after that run. */
    int max_calls;
    /* A pointer for the program: crt_call_user returns the pointer in `run`. May be NULL. */
    void *user;
    /* Options of every call of the task: CRT_TASK_DEFAULTS(...). A member that the caller sets
     * replaces the default. The placement group is that of the caller only. NULL: none. */
    const crt_task_options_t *defaults;
} crt_task_t;

/* The descriptors above as constants of the program, with members given by name. In C++ (C++17 or
 * later) the members may be in any order. */
/* clang-format off */
#ifdef __cplusplus
/* The addresses, followed by NULL. */
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
