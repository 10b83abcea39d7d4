/* SPDX-License-Identifier: Apache-2.0 */
/* The context of a program: the cluster that the program starts for itself, ids of the running
 * call, of refs and of the process, the handle of the actor that a method belongs to, and lines for
 * the log that carry these ids. Part of crt.h.
 *
 * Functions may be called from any thread; functions with a `call` only from the thread that runs
 * the call. */
#ifndef CRT_CONTEXT_H
#define CRT_CONTEXT_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- the cluster of the program */

/* Options of crt_context_start. Zero is the default of every member. */
typedef struct crt_context_options {
    /* Set by CRT_CONTEXT_OPTIONS. */
    size_t struct_size;
    /* The cluster, at most 255 bytes:
     *
     *     local             one node on this host, with all its CPUs
     *     local:4           four nodes on this host, 1 to 64, that divide its CPUs
     *     local:4x2         four nodes of 2 CPUs each
     *     HOST:PORT         the cluster whose head is there. If this host has no node of it, one
     *                       without CPUs joins with the key in the file that CRT_KEY_FILE of the
     *                       environment names
     *     kubernetes        in a pod: the cluster whose head is behind the Service crt-head of its
     *                       namespace. Needs CRT_KEY_FILE: the key, mounted from its Secret
     *     kubernetes:SERVICE.NAMESPACE
     *                       another Service; its port is 6380, or that of SERVICE_SERVICE_PORT,
     *                       which Kubernetes sets. SERVICE alone: of the pod's namespace
     *     file:lab.yaml     the hosts of a cluster file: crt up, then the program runs on the head
     *     slurm             the nodes of the Slurm allocation that the program runs in
     *     slurm:4           four nodes of a Slurm job; srun makes an allocation if there is none
     *
     * NULL: the cluster that crt_init would join or start. */
    const char *cluster;
    /* The arguments of main. Needed for file: and slurm, which run the program again. */
    int argc;
    char **argv;
    /* CPUs of all nodes of a local cluster together, if the text does not say them. Default: all
     * CPUs of the machine. Each of several nodes has 1 at least. */
    double num_cpus;
    /* Further resources of each node of a local cluster: "GPU=1,disk=2". */
    const char *resources;
    /* Object store of each node of a local cluster, in bytes. Default: 30 % of memory, divided. */
    uint64_t object_store_memory;
} crt_context_options_t;
#define CRT_CONTEXT_OPTIONS(...)                                                         \
    CRTI_CONSTANT(crt_context_options_t, .struct_size = sizeof(crt_context_options_t),   \
                  __VA_ARGS__)

/* Starts or finds the cluster of the program. crt_init and crt_main join that cluster afterwards.
 * Call this function at the beginning of main, before crt_init; `options` may be NULL. A context
 * that runs is enough: a second start of the same cluster, or without a name, does nothing.
 *
 * A local cluster, and a node that joins for the program, belong to the process: they end with
 * crt_context_stop, at exit, and when the process is killed. A local cluster has a dashboard, at a
 * free port of this host.
 *
 * With file: and slurm the function does not return when it succeeds. The program goes on, with the
 * same arguments and from the beginning of main, on the head of the cluster file or on the first
 * node of the job, as by crt exec and crt slurm, whose place this process takes: its exit status is
 * that of the program. There the function returns at once. A cluster of a file stays when the
 * program ends, for the next run; crt down ends it. A cluster of a Slurm job ends with the program.
 *
 * A process that a cluster has started (a worker, a job, a program of crt run, crt slurm or crt
 * exec with file:) stays in that cluster, whatever `cluster` says.
 *
 * Errors: CRT_ERR_INVALID, when `cluster` is none of these texts, or argv is missing;
 * CRT_ERR_EXISTS, when another context runs, or crt_init was called before; CRT_ERR_NOT_FOUND, when
 * the host has no node of the address and there is no CRT_KEY_FILE, when there is no cluster file,
 * no srun, or no pod of Kubernetes around the program; CRT_ERR_IO, when crt up fails, when the head
 * can't be reached, or when a process or directory can't be made; CRT_ERR_TIMED_OUT, when a node
 * does not serve after 30 s; CRT_ERR_PERMISSION, when CRT_KEY_FILE has the key of another cluster;
 * CRT_ERR_TOO_LARGE; CRT_ERR_NO_MEMORY; CRT_ERR_FORKED, in a child of the process that started the
 * context. */
CRT_API crt_status_t crt_context_start(const crt_context_options_t *options);

/* Leaves the cluster as crt_shutdown does, if the program has joined one, and ends what
 * crt_context_start has started on this host. Does nothing when no context runs. Waits until the
 * daemons have ended, at most 10 s.
 *
 * Errors: those of crt_shutdown; CRT_ERR_INVALID, in a worker. */
CRT_API crt_status_t crt_context_stop(void);

/* Takes an option out of the arguments of main: "--cluster TEXT" or "--cluster=TEXT" for the name
 * "--cluster". Arguments behind "--" are left alone. Returns the text, which lies in argv; NULL if
 * the option is not there; "" if nothing follows, which is no cluster. If the option is there
 * several times, all are taken, and the last counts.
 *
 *     int main(int argc, char **argv)
 *     {
 *         const char *cluster = crt_context_option(&argc, argv, "--cluster");
 *
 *         return crt_main(argc, argv, CRT_OPTIONS(.cluster = cluster), driver);
 *     }
 */
CRT_API const char *crt_context_option(int *argc, char **argv, const char *name);

/* ---------------------------------------------------------------- ids */

/* Bytes of an id of a process, node, job or actor, with the final zero. */
#define CRT_ID_SIZE 33
/* Bytes of an id of a task or a ref, with the final zero. */
#define CRT_OBJECT_ID_SIZE 49

/* Writes the id of the running call: 48 hex digits, the `task_id` in the state "tasks", in errors
 * and in lines of crt_log. All attempts of one call have one id. `size` is the number of bytes of
 * `id`, at least CRT_OBJECT_ID_SIZE.
 *
 * Errors: CRT_ERR_INVALID, when `size` is smaller, or `call` is NULL. */
CRT_API crt_status_t crt_task_id(const crt_call_t *call, char *id, size_t size);

/* Returns the number of this attempt of the running call: 1 the first time, 2 when the call is
 * made again for the first time (max_attempts, max_task_retries); 0 when `call` is NULL. */
CRT_API int64_t crt_call_attempt(const crt_call_t *call);

/* Returns the name of the running call in the state, in errors and in logs: the option `name`
 * that the caller gave, or else "Class.method" or the name of the task. Borrowed: valid until the
 * call returns. "" when `call` is NULL. */
CRT_API const char *crt_call_name(const crt_call_t *call);

/* Fails the running call with `status` and `text`, as crt_fail does, for languages that can't
 * call variadic functions. `text` NULL means "". Returns `status`, for the function of the task
 * or method to return. */
CRT_API crt_status_t crt_fail_text(crt_call_t *call, crt_status_t status,
                                   const char *text);

/* Returns the pointer `user` of the task that runs, or of the class of the actor whose method or
 * `create` runs; NULL when `call` is NULL. */
CRT_API void *crt_call_user(const crt_call_t *call);

/* Gives the handle of the actor whose method or `create` runs, for other actors and tasks to call
 * the actor. Caller owns the handle and drops it with crt_actor_drop. The handle keeps the actor
 * alive, as every handle does: an actor that stores its own handle ends only by crt_actor_exit,
 * crt_actor_stop or crt_actor_kill. The first such call in a process asks the head and waits at
 * most 30 s.
 *
 * Errors: CRT_ERR_INVALID, when a task runs, not a method, or `call` or `actor_out` is NULL;
 * CRT_ERR_NOT_FOUND, when the last handle was dropped meanwhile and the actor ends;
 * CRT_ERR_HEAD_LOST or CRT_ERR_TIMED_OUT, when the head does not answer. */
CRT_API crt_status_t crt_actor_self(const crt_call_t *call, crt_actor_t **actor_out);

/* Returns the id of this process: 32 hex digits, the `worker_id` in the state of a worker; ""
 * before crt_init. Static text: valid until crt_shutdown. */
CRT_API const char *crt_worker_id(void);

/* Writes the id of a ref: 48 hex digits, the `object_id` in the states "objects" and "refs". The
 * id of a call's result is the `task_id` of the call. Every process that has the ref sees one id.
 * `size` is the number of bytes of `id`, at least CRT_OBJECT_ID_SIZE.
 *
 * Errors: CRT_ERR_INVALID, when `size` is smaller, or `ref` is no ref. */
CRT_API crt_status_t crt_ref_id(const crt_ref_t *ref, char *id, size_t size);

typedef enum crt_log_level {
    /* Printed with CRT_LOG=debug in the environment only. */
    CRT_LOG_DEBUG = 1,
    CRT_LOG_INFO = 2,
    CRT_LOG_WARNING = 3,
    CRT_LOG_ERROR = 4
} crt_log_level_t;

/* Prints one line to the standard error of the process. The log of a worker and the terminal of
 * its driver show the line:
 *
 *     2026-01-31 12:00:00.123 WARNING Trainer.step 8f...01 loss is not finite
 *
 * The parts are: the time (UTC), the level, the name and the id of the call that runs in this
 * thread ("-" outside of calls), and the text. A line break in the text becomes a space. Text
 * beyond 1000 bytes is cut. The function never waits for the cluster, and works before crt_init.
 * Nothing is printed when standard error is closed. Any thread may call. */
CRT_API void crt_log(crt_log_level_t level, const char *format, ...) CRT_PRINTF(2, 3);

/* Prints one line with a finished text, as crt_log does, for languages that can't call variadic
 * functions. `text` NULL prints nothing. */
CRT_API void crt_log_text(crt_log_level_t level, const char *text);

#ifdef __cplusplus
}
#endif

#endif
