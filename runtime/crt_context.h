/* SPDX-License-Identifier: Apache-2.0 */
/* What a program knows of itself: ids of the running call, of refs and of the process, the handle
 * of the actor that a method belongs to, and lines for the log that carry them. Part of crt.h.
 *
 * Functions may be called from any thread, those with a `call` from the thread that runs the
 * call.
 */
#ifndef CRT_CONTEXT_H
#define CRT_CONTEXT_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CRT_ID_SIZE                                                                      \
    33 /* bytes of an id of a process, node, job or actor, with the final zero */
#define CRT_OBJECT_ID_SIZE 49 /* bytes of an id of a task or a ref, with the final zero */

/* Writes the id of the running call: 48 hex digits, the `task_id` of the state "tasks", of errors
 * and of crt_log. Each attempt of a call that is made again has the same id. `size`: bytes of
 * `id`, at least CRT_OBJECT_ID_SIZE. CRT_ERR_INVALID: less room than that. */
CRT_API crt_status_t crt_task_id(const crt_call_t *call, char *id, size_t size);

/* The number of this attempt: 1 the first time, 2 when the call is made again once (max_retries,
 * max_task_retries). */
CRT_API int64_t crt_call_attempt(const crt_call_t *call);

/* The name of the running call in the state, in errors and logs: the option `name` of its caller,
 * else "Class.method", or the name of the task. Borrowed: valid until the call returns. */
CRT_API const char *crt_call_name(const crt_call_t *call);

/* crt_fail with a finished text, for languages that can't call variadic functions. NULL is "". */
CRT_API crt_status_t crt_fail_text(crt_call_t *call, crt_status_t status,
                                   const char *text);

/* `user` of the task that runs, or of the class of the actor whose method or `create` runs. */
CRT_API void *crt_call_user(const crt_call_t *call);

/* The handle of the actor whose method or `create` runs, for other actors and tasks to call it.
 * The caller owns the handle and drops it with crt_actor_drop; until then it keeps the actor
 * alive like any other handle, so an actor that stores its own handle ends by crt_actor_exit,
 * crt_actor_stop or crt_actor_kill only. The first handle of a process asks the head: at most 30
 * s. CRT_ERR_INVALID: a task runs, not a method; CRT_ERR_NOT_FOUND: the last handle was dropped
 * meanwhile, the actor ends; CRT_ERR_HEAD_LOST, CRT_ERR_TIMED_OUT: no answer of the head. */
CRT_API crt_status_t crt_actor_self(const crt_call_t *call, crt_actor_t **actor_out);

/* The id of this process, 32 hex digits: the `worker_id` of the state of a worker. "" before
 * crt_init. Static text: valid until crt_shutdown. */
CRT_API const char *crt_worker_id(void);

/* Writes the id of a ref: 48 hex digits, the `object_id` of the states "objects" and "refs"; that
 * of a call's result is the `task_id` of the call. The same in each process that has the ref.
 * `size`: bytes of `id`, at least CRT_OBJECT_ID_SIZE. CRT_ERR_INVALID: less room than that, or no
 * ref. */
CRT_API crt_status_t crt_ref_id(const crt_ref_t *ref, char *id, size_t size);

typedef enum crt_log_level {
    CRT_LOG_DEBUG = 1, /* printed with CRT_LOG=debug in the environment only */
    CRT_LOG_INFO = 2,
    CRT_LOG_WARNING = 3,
    CRT_LOG_ERROR = 4
} crt_log_level_t;

/* Prints one line to the standard error of the process, which the log of a worker and its
 * driver's terminal show:
 *     2026-01-31 12:00:00.123 WARNING Trainer.step 8f...01 loss is not finite
 * UTC, the level, the name and the id of the call that runs in this thread ("-" outside of
 * calls), the text. A line break in the text becomes a space; text beyond 1000 bytes is cut.
 * Never waits for the cluster, and needs no crt_init. Fails silently when standard error is
 * closed. */
CRT_API void crt_log(crt_log_level_t level, const char *format, ...) CRT_PRINTF(2, 3);

/* The same with a finished text, for languages that can't call variadic functions. NULL prints
 * nothing. */
CRT_API void crt_log_text(crt_log_level_t level, const char *text);

#ifdef __cplusplus
}
#endif

#endif
