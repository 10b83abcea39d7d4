/* SPDX-License-Identifier: Apache-2.0 */
/* Actors: how they are found, what they keep for their next process, and how they are ended. Part of crt.h, which makes them and
 * calls them.
 *
 * Functions may be called from any thread.
 */
#ifndef CRT_ACTOR_H
#define CRT_ACTOR_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Finds a living actor by name, in the namespace of this job; `actor_class` is checked (NULL: any, then only crt_actor_kill is
 * possible). Caller owns the handle, which keeps the actor alive like any other. CRT_ERR_NOT_FOUND. */
CRT_API crt_status_t crt_actor_find(const char *name,
                                    const crt_actor_class_t *actor_class,
                                    crt_actor_t **actor_out);

/* The same in another namespace (NULL: that of this job). */
CRT_API crt_status_t crt_actor_find_in(const char *name_space, const char *name,
                                       const crt_actor_class_t *actor_class,
                                       crt_actor_t **actor_out);

/* Ends the actor; its pending calls fail with CRT_ERR_ACTOR_DIED. Waits until the head knows. CRT_OK
 * also when it has ended already. An actor that could not be made can't be ended: the status is
 * that of its calls. CRT_ERR_INVALID: NULL, or no handle (it was dropped, or never was one). */
CRT_API crt_status_t crt_actor_kill(crt_actor_t *actor);

typedef struct crt_kill_options {
    size_t struct_size;
    /* Only its process ends, and it is started again as if that had died: one of its max_restarts is used; when
     * none is left it is dead. Does nothing to an actor that has no process now. */
    bool restart;
} crt_kill_options_t;
#define CRT_KILL_OPTIONS(...)                                                            \
    CRTI_CONSTANT(crt_kill_options_t, .struct_size = sizeof(crt_kill_options_t),         \
                  __VA_ARGS__)

/* The same with options (NULL: none). With `restart`, calls that the process had fail with CRT_ERR_ACTOR_DIED, or are made
 * again (max_task_retries); it returns when the head knows: calls made right afterwards may still reach that process. */
CRT_API crt_status_t crt_actor_kill_with(crt_actor_t *actor,
                                         const crt_kill_options_t *options);

/* Ends the actor in an orderly way, from outside: calls that this process made before are carried
 * out first, then no other call begins, those that run are answered, `destroy` runs, and the
 * actor is dead for good (max_restarts does not count). Calls of other processes that wait then
 * fail with CRT_ERR_ACTOR_DIED. Returns when no other call begins. `limit_ms`: how long it may
 * take until then, 0: without limit; afterwards the actor is killed as by crt_actor_kill and
 * CRT_ERR_TIMED_OUT returned. CRT_OK also when it had ended before. CRT_ERR_INVALID: no handle,
 * or a limit below 0; CRT_ERR_DEADLOCK: the actor asks for its own end, which crt_actor_exit is
 * for; CRT_ERR_INTERRUPTED: the wait was, the end comes. */
CRT_API crt_status_t crt_actor_stop(crt_actor_t *actor, int64_t limit_ms);

/* Inside `create` or a method: keeps `size` bytes for the next process of the actor, whose class's `restore` gets them. They
 * take the place of what was saved before (size 0: nothing is kept), and are durable when it returns; they go with the
 * actor. At most 1 MiB: CRT_ERR_TOO_LARGE. CRT_ERR_ACTOR_DIED: another process serves the actor by now.
 * CRT_ERR_INVALID: in a task, or the class has no `restore`. */
CRT_API crt_status_t crt_actor_save(crt_call_t *call, const void *state, size_t size);

#ifdef __cplusplus
}
#endif

#endif
