/* SPDX-License-Identifier: Apache-2.0 */
/* crt: tasks and actors on the processes and machines of a cluster.
 *
 * One executable holds the driver and the code of its tasks and actors. `crt_main` runs the
 * driver in the process that the user started; in a worker it serves and does not come back.
 *
 *     static crt_status_t add_run(crt_call_t *call)
 *     {
 *         int64_t a, b;
 *         CRT_TRY(crt_args(call, &a, &b));
 *         return crt_return(call, a + b);
 *     }
 *     static const crt_task_t add = CRT_TASK(.name = "add", .run = add_run, .signature = "int, int");
 *
 *     static int driver(int argc, char **argv)
 *     {
 *         int64_t sum;
 *         crt_ref_t *ref = crt_submit(&add, NULL, 2, 3);
 *         CRT_CHECK(crt_get(ref, &sum));
 *         crt_ref_drop(&ref);
 *         printf("%lld\n", (long long)sum);
 *         return 0;
 *     }
 *     int main(int argc, char **argv)
 *     { return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&add)), driver); }
 *
 * Threads: every function may be called from any thread of a driver or worker unless it says
 * otherwise. After fork() the child's calls return CRT_ERR_FORKED.
 *
 * Signals: the library installs no handlers. Waits (crt_get, crt_wait, crt_stream_next, ...) go on
 * after a handler of the program has run, whatever the flags of sigaction. A handler may call
 * crt_interrupt and no other function of crt: the interrupted thread may hold a lock. Only
 * crt_interrupt ends waits, with CRT_ERR_INTERRUPTED.
 *
 * Errors: functions return crt_status_t (0 done, negative failed; crt_error_detail() has the
 * text). Functions that give a ref never give NULL: a failed submission is a failed ref, and
 * whoever gets or consumes it sees the error.
 */
#ifndef CRT_H
#define CRT_H

#include "crt_base.h"
#include "crt_options.h"
#include "crt_program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct crt_ref crt_ref_t;     /* a future: a value, here, elsewhere or not yet */
typedef struct crt_actor crt_actor_t; /* a handle of an actor */
typedef struct crt_object crt_object_t; /* an object of the store that is being written */
typedef struct crt_stream crt_stream_t; /* crt_stream.h */

/* ---------------------------------------------------------------- start and stop */

/* What crt_main and crt_init need. Zero means the default. */
typedef struct crt_options {
    size_t struct_size;                      /* set by CRT_OPTIONS */
    const crt_actor_class_t *const *classes; /* CRT_CLASSES(&a, &b) */
    const crt_task_t *const *tasks;          /* CRT_TASKS(&a, &b) */
    /* Of the head; else CRT_ADDRESS, else this user's only running cluster (of CRT_STATE_DIR, where
     * that is set), else a private one is started. */
    const char *address;
    double num_cpus;              /* of a private cluster; default: all of the machine */
    const char *resources;        /* of a private cluster: "GPU=1,disk=2" */
    uint64_t object_store_memory; /* bytes, likewise; default 30 % of memory */
    bool no_log_to_driver;        /* do not print the workers' output here */
    /* Jobs that wait for CPUs get them in proportion to their priority: 1 to 1000, default 1. CRT_JOB_PRIORITY in
     * the environment (crt job submit --priority) counts instead. */
    int priority;
    /* The part of each node's CPUs that its tasks may hold, above 0 to 1; default 1. One task on each node
     * may always run. CRT_JOB_MAX_SHARE (crt job submit --max-share) counts instead. */
    double max_share;
    /* In which the job's processes name and find actors: 1 to 127 bytes, without '/'. Default, as in Ray: one that
     * no other job has. Jobs of one namespace find each other's actors. CRT_JOB_NAMESPACE (crt job submit --namespace)
     * counts instead. (`namespace` is a keyword of C++.) */
    const char *name_space;
    /* Lines that several workers print and that are the same in text are printed here once, and 5 s later how often more they
     * came: "[repeated 3 times across cluster]". CRT_DEDUP_LOGS=1 or 0 in the environment counts instead. */
    bool dedup_logs;
    /* Workers are executed, and each runs main itself up to crt_main, instead of forked from one process that has: they
     * share nothing that was drawn or opened before (crt_init), and start some milliseconds later each. */
    bool execute_workers;
    /* Runs in each worker process before its first call, forked or executed: where a seed is set, or a file
     * opened, of its own. It calls no function of this header that waits. NULL: none. */
    void (*worker_start)(void);
    uint64_t random_seed; /* of crt_random_seed; default 0: none */
} crt_options_t;
#define CRT_OPTIONS(...)                                                                 \
    CRTI_CONSTANT(crt_options_t, .struct_size = sizeof(crt_options_t), __VA_ARGS__)

/* Initialises, runs `driver` and shuts down; returns what `driver` returned, or 1 after printing
 * why there is no cluster. In a worker it serves calls and exits the process. Executed by crt run --ranks N,
 * it runs `driver` in N processes of the cluster, and returns 0 when all of them have returned 0, else
 * the status of the first that failed, after printing why. */
CRT_API int crt_main(int argc, char **argv, const crt_options_t *options,
                     int (*driver)(int argc, char **argv));

/* For embedding: joins a cluster (or starts a private one). Does not come back in a worker. A second init
 * without a shutdown between is CRT_ERR_EXISTS.
 *
 * What stands before it (or before crt_main) runs once on each node, in a process of which workers are forked: what it
 * has drawn, opened, allocated and buffered they inherit as it is, the same random numbers, the number of another
 * process from an earlier getpid, file positions that they share. So seeds are set later: in worker_start of the
 * options, or from crt_random_seed in a call. With execute_workers, for ranks (crt run --ranks), and when threads run
 * before it or a GPU is open, each worker runs it itself. Call it as early in main as possible. */
CRT_API crt_status_t crt_init(int argc, char **argv, const crt_options_t *options);

/* Leaves the cluster: this driver's tasks and actors end (detached actors live on), a private
 * cluster stops. Refs and handles may still be dropped afterwards, and values that
 * were got stay valid until then: those in the store are copied. What is being written (crt_object_create)
 * may be written on, and given up. All else returns CRT_ERR_NOT_INITIALIZED or CRT_ERR_CLOSED. Other
 * threads may be inside of functions of crt meanwhile: their waits end with CRT_ERR_CLOSED. Waits until this
 * node has ended what ran for the driver, so that its resources are free, at most 5 s. */
CRT_API crt_status_t crt_shutdown(void);

/* ---------------------------------------------------------------- arguments */

typedef struct crt_bytes {
    const void *data;
    size_t size;
} crt_bytes_t;
/* Bytes as an argument: crt_submit(&task, NULL, crt_bytes(data, size)). Borrowed as every argument. */
static inline crt_bytes_t crt_bytes(const void *data, size_t size)
{
    crt_bytes_t bytes;

    bytes.data = data;
    bytes.size = size;
    return bytes;
}

/* A value that was received, of any kind; lists and maps are looked into with crt_value_at and others.
 * Borrowed from the call or ref it came from, and read-only with all that is in it. */
typedef struct crt_value crt_value_t;

typedef enum crt_kind {
    CRT_KIND_NONE = 0, /* no value: what a call returns that returns nothing */
    CRT_KIND_BOOL = 1,
    CRT_KIND_INT = 2,
    CRT_KIND_FLOAT = 3,
    CRT_KIND_STRING = 4,
    CRT_KIND_BYTES = 5,
    CRT_KIND_TENSOR = 6,
    CRT_KIND_REF = 7,
    CRT_KIND_ACTOR = 8,
    CRT_KIND_LIST = 9,
    CRT_KIND_MAP = 10,
    CRT_KIND_SPREAD = 11, /* several refs, each an argument of its own */
    CRT_KIND_OBJECT = 12, /* in writing: taken by what it is given to, a tensor there */
    CRT_KIND_VALUE = 13   /* a list or map that was received, passed on as it is */
} crt_kind_t;

/* One argument, made by CRT_ARG(x) or a crt_arg_* function; everything in it is borrowed until
 * the call it is given to returns. Only an object in writing is taken (see crt_object_create). */
typedef struct crt_arg {
    crt_kind_t kind;
    union {
        bool boolean;
        int64_t integer;
        double number;
        const char *string;
        crt_bytes_t bytes;
        const crt_tensor_t *tensor;
        crt_ref_t *ref;
        crt_actor_t *actor;
        crt_object_t *object;
        const crt_value_t *value;
        struct {
            const struct crt_arg *items; /* a map: key, value, key, value, ... */
            size_t count;
        } list;
        struct {
            crt_ref_t *const *refs;
            size_t count;
        } spread;
    } as;
} crt_arg_t;

/* What CRT_ARG(x) makes of a value of each type: for arrays of arguments, and for lists and maps. Nothing is
 * copied, and nothing checked: a mistake is an error of the call that the argument is given to. */
CRT_API crt_arg_t crt_arg_none(const void *null);
CRT_API crt_arg_t crt_arg_bool(bool value);
CRT_API crt_arg_t crt_arg_int(int64_t value);
CRT_API crt_arg_t crt_arg_unsigned(uint64_t value); /* above INT64_MAX: the call fails */
CRT_API crt_arg_t crt_arg_float(double value);
CRT_API crt_arg_t crt_arg_string(const char *value);
CRT_API crt_arg_t crt_arg_bytes(crt_bytes_t value);
CRT_API crt_arg_t crt_arg_tensor(const crt_tensor_t *value);
CRT_API crt_arg_t crt_arg_ref(const crt_ref_t *value);
CRT_API crt_arg_t crt_arg_actor(crt_actor_t *value);
CRT_API crt_arg_t crt_arg_object(crt_object_t *value);
/* A value that was received is passed on: an entry of a list, a map. NULL: no value. */
CRT_API crt_arg_t crt_arg_value(const crt_value_t *value);
CRT_API crt_arg_t crt_arg_self(crt_arg_t value);

/* Each of `count` refs becomes an argument: crt_call(server, &apply, crt_arg_each(grads, n)). */
CRT_API crt_arg_t crt_arg_each(crt_ref_t *const *refs, size_t count);

/* A list of arguments, and a map of string keys and values in turn (count is even). */
CRT_API crt_arg_t crt_list(const crt_arg_t *items, size_t count);
CRT_API crt_arg_t crt_map(const crt_arg_t *items, size_t count);

/* The type of the variable that a value is read into. */
typedef enum crt_out_kind {
    CRT_OUT_NONE = 0,
    CRT_OUT_BOOL = 1,
    CRT_OUT_INT8 = 2,
    CRT_OUT_INT16 = 3,
    CRT_OUT_INT32 = 4,
    CRT_OUT_INT64 = 5,
    CRT_OUT_UINT8 = 6,
    CRT_OUT_UINT16 = 7,
    CRT_OUT_UINT32 = 8,
    CRT_OUT_UINT64 = 9,
    CRT_OUT_FLOAT = 10,
    CRT_OUT_DOUBLE = 11,
    CRT_OUT_STRING = 12,
    CRT_OUT_BYTES = 13,
    CRT_OUT_TENSOR = 14,
    CRT_OUT_REF = 15,
    CRT_OUT_ACTOR = 16,
    CRT_OUT_VALUE = 17
} crt_out_kind_t;

/* Where a value goes: made from a pointer by CRT_OUT(&x). */
typedef struct crt_out {
    crt_out_kind_t kind;
    void *to;
} crt_out_t;

/* The kind of a value; CRT_KIND_NONE for NULL. */
CRT_API crt_kind_t crt_value_kind(const crt_value_t *value);

/* Entries of a list or map, else 0. */
CRT_API size_t crt_value_count(const crt_value_t *value);
/* An entry of a list, or a map's value; the key of a map's entry; a map's value by its key. NULL: there is
 * no such entry. */
CRT_API const crt_value_t *crt_value_at(const crt_value_t *list, size_t index);
CRT_API const char *crt_value_key(const crt_value_t *map, size_t index);
CRT_API const crt_value_t *crt_value_find(const crt_value_t *map, const char *key);
/* Reads a value into a variable, as crt_get and crt_args do. CRT_ERR_INVALID: it is of another kind, or
 * does not fit; the text names both. */
CRT_API crt_status_t crt_value_read_v(const crt_value_t *value, crt_out_t out);
/* The name of a kind as errors tell it: "int", "tensor", ... Static text. */
CRT_API const char *crt_kind_name(crt_kind_t kind);

/* ---------------------------------------------------------------- refs and objects */

/* Puts a value into the store (or, when small, beside it). Caller owns the result and drops it
 * with crt_ref_drop. */
CRT_API crt_ref_t *crt_put_v(const crt_arg_t *value);

/* Notes where a ref was made, for crt memory: "file:line", static text. Gives the same ref. The macros crt_put, crt_call, crt_submit and
 * crt_object_seal do it. */
CRT_API crt_ref_t *crt_ref_at(crt_ref_t *ref, const char *place);

/* Waits until the value is here and reads it. `wait_ms` CRT_FOREVER (any below 0): without limit (an error ends the
 * wait too). Pointers it gives (strings, bytes, tensors, refs, actors, values) are borrowed:
 * valid until the ref is dropped.
 *
 * Values are read-only: others read the same memory. To write into the elements of a tensor that was
 * read ends the process with SIGSEGV when they lie in the store, and changes them for everybody
 * else in the process when not. They are dense, so that this is a copy to work on:
 *     memcpy(mine, tensor->data, crt_tensor_bytes(tensor));
 *
 * CRT_ERR_TIMED_OUT, CRT_ERR_INTERRUPTED, CRT_ERR_DEADLOCK, or the status of the failed call;
 * crt_ref_error tells more. CRT_ERR_INVALID: the value is of another kind, or does not fit. */
CRT_API crt_status_t crt_get_v(crt_ref_t *ref, int64_t wait_ms, crt_out_t out);

/* Waits until `want` of `count` refs are ready (values or errors). `ready` has room for `want`
 * indices; the first `*ready_count`, at most `want`, are of refs that are ready, in the order of
 * `refs`. CRT_ERR_TIMED_OUT also sets them. A ref may stand in `refs` several times. A program that
 * handles one ref and waits again gets on in about the same time for each ref, however many there
 * are; crt_wait.h has sets, which take streams and ends as well. */
CRT_API crt_status_t crt_wait(crt_ref_t *const *refs, size_t count, size_t want,
                              int64_t wait_ms, size_t *ready, size_t *ready_count);

/* The function for signal handlers: a wait of each thread, the one that goes on or else its next one, returns
 * CRT_ERR_INTERRUPTED. What it waited for goes on, and may be waited for again, or cancelled. A driver that ends in
 * order on Ctrl-C:
 *     static void on_signal(int number) { crt_interrupt(); }
 *     ...
 *     signal(SIGINT, on_signal);
 *     while ((status = crt_get(ref, &sum)) == CRT_ERR_INTERRUPTED)
 *         crt_cancel(ref, NULL);
 * Several calls before a thread waits are one for it. Any thread may call it, at any time. Collective operations
 * are no such waits. A thread other than the main one is not
 * told of what came before its first wait. */
CRT_API void crt_interrupt(void);

/* True when get would not wait. */
CRT_API bool crt_ref_is_ready(crt_ref_t *ref);

/* A second hold on the same ref, e.g. to keep an argument beyond the call. Dropped like it. NULL
 * gives NULL. */
CRT_API crt_ref_t *crt_ref_keep(crt_ref_t *ref);

/* Gives up a ref and sets it to NULL; NULL is fine. Calls that it was passed to keep the value. Other
 * pointers to it may not be used any more: as long as its memory has no other use they are refused
 * with CRT_ERR_INVALID. */
CRT_API void crt_ref_drop(crt_ref_t **ref);
/* Gives up `count` refs, as crt_ref_drop does. */
CRT_API void crt_refs_drop(crt_ref_t **refs, size_t count);

/* What went wrong with a failed ref. Text is never NULL. */
typedef struct crt_error {
    crt_status_t status;
    const char *text;       /* the detail, as raised where it failed */
    const char *class_name; /* of the actor or "" */
    const char *method;     /* or the task's name */
    const char *actor;      /* id in hex, or "" */
    const char *node;       /* id in hex, or "" */
    int64_t pid;            /* where it failed, 0 unknown */
    bool may_have_run;      /* false: it certainly did not run */
} crt_error_t;

/* NULL while the ref is pending or when it holds a value. Borrowed: valid until it is dropped. */
CRT_API const crt_error_t *crt_ref_error(crt_ref_t *ref);

/* Room in the store to write a tensor in place: `view` is writable until the object is given away: as
 * an argument of a call, a task or an actor's creation, to crt_put, crt_return, crt_object_seal or
 * crt_object_abort, by itself or in a list or map. Whatever it is given to takes it, also when that
 * fails: it may not be used again, and needs no crt_object_abort. It arrives as a tensor, and is
 * "tensor" in a signature. Waits for room some seconds when the store is full, then
 * CRT_ERR_STORE_FULL. */
CRT_API crt_status_t crt_object_create(crt_dtype_t dtype, int rank, const int64_t *shape,
                                       crt_object_t **object_out, crt_tensor_t *view_out);
/* Ends the writing; the object is NULL afterwards. Caller owns the ref, and drops it with
 * crt_ref_drop. */
CRT_API crt_ref_t *crt_object_seal(crt_object_t **object_take);
/* Gives the room back; the object is NULL afterwards. NULL, or one that was given away, is fine. */
CRT_API void crt_object_abort(crt_object_t **object_take);

/* ---------------------------------------------------------------- tasks and actors */

/* Runs a task somewhere in the cluster. When the tasks of one shape of resources that wait for
 * workers hold more than 128 MiB (millions of small ones) the caller waits, or it fails with
 * try_only. A task whose result nobody can ask for any more, as its refs were dropped, does not run if it
 * has not been sent to a worker. Caller owns the ref. */
CRT_API crt_ref_t *crt_submit_v(const crt_task_t *task, const crt_task_options_t *options,
                                const crt_arg_t *args, size_t count);

/* The same for a task that returns several results (crt_return_at): `refs` has room for so many refs, 1 to
 * 65535, all set, each the caller's to drop. They become ready together; when the call fails, or returns
 * fewer, each fails. */
CRT_API void crt_submit_returns_v(crt_ref_t **refs, size_t returns,
                                  const crt_task_t *task,
                                  const crt_task_options_t *options,
                                  const crt_arg_t *args, size_t count);

/* Cancels the call whose result `ref` is, and the calls that it has made itself; `options` may be
 * NULL. One that has not begun never runs. In one that runs crt_cancelled becomes true, and what waits
 * inside of it (crt_get, crt_wait, ...) returns CRT_ERR_CANCELLED; whatever it returns then, its result
 * is CRT_ERR_CANCELLED. Returns at once: crt_get waits for the end. CRT_OK also when it was cancelled
 * before; CRT_ERR_NOT_FOUND: it has ended already, nothing is done; CRT_ERR_INVALID: the ref is not
 * that of a call of this process, or `force` is asked for a method: an actor is ended by
 * crt_actor_kill. */
CRT_API crt_status_t crt_cancel(crt_ref_t *ref, const crt_cancel_options_t *options);

/* Makes an actor; returns at once. Errors of its placement or `create` reach the calls made to
 * it. It lives until nobody in the cluster has a handle of it or waits for a call of it, as in Ray: handles that
 * were passed on count while they are kept, in arguments, results and objects too, and so do those of
 * crt_actor_find; a process that dies has none any more. Then it ends in an orderly way: calls that it has are
 * answered first (for 30 s at most), `destroy` runs, it is not restarted. It also ends by crt_actor_kill, and
 * with the process that made it, at the latest with that one's job. A detached actor lives until it is killed.
 * Caller owns the handle and drops it with crt_actor_drop. Never NULL. */
CRT_API crt_actor_t *crt_actor_new_v(const crt_actor_class_t *actor_class,
                                     const crt_actor_options_t *options,
                                     const crt_arg_t *args, size_t count);

/* Calls a method. Calls of one caller to one actor run in the order they were made, unless it was made with
 * allow_out_of_order_execution. A full window makes the caller wait, or fails with try_only. Caller owns the ref. */
CRT_API crt_ref_t *crt_call_v(crt_actor_t *actor, const crt_method_t *method,
                              const crt_call_options_t *options, const crt_arg_t *args,
                              size_t count);

/* The same for a method that returns several results, see crt_submit_returns_v. */
CRT_API void crt_call_returns_v(crt_ref_t **refs, size_t returns, crt_actor_t *actor,
                                const crt_method_t *method,
                                const crt_call_options_t *options, const crt_arg_t *args,
                                size_t count);

/* Calls a method whose result nobody wants: errors are logged and counted. */
CRT_API crt_status_t crt_tell_v(crt_actor_t *actor, const crt_method_t *method,
                                const crt_arg_t *args, size_t count);

/* Waits until `create` has ended: CRT_OK, its error, or that of an actor which is dead or could not
 * be made. It does not wait behind calls. CRT_ERR_TIMED_OUT: the function may be called again.
 * CRT_FOREVER waits without a limit. */
CRT_API crt_status_t crt_actor_ready(crt_actor_t *actor, int64_t wait_ms);

/* A second hold on the same handle, e.g. to keep an argument beyond the call; dropped like it. NULL
 * for what is no handle. */
CRT_API crt_actor_t *crt_actor_keep(crt_actor_t *actor);
/* Gives up a handle and sets it to NULL; NULL is fine. With the last one that anybody has the actor ends, see
 * crt_actor_new_v; calls that were made are answered. */
CRT_API void crt_actor_drop(crt_actor_t **actor);

/* 32 hex digits, "" for what is no handle. Borrowed: valid as long as the handle. */
CRT_API const char *crt_actor_id(crt_actor_t *actor);

/* ---------------------------------------------------------------- inside a call */

/* How many arguments the call has. */
CRT_API size_t crt_arg_count(const crt_call_t *call);

/* Reads argument `index`. Pointers are borrowed: valid until the method returns, and read-only like
 * what crt_get gives (crt_get_v says how to copy). An int converts
 * to bool or floating point, and a float to an int, when nothing is lost; anything else is an
 * error naming method, argument and both kinds. */
CRT_API crt_status_t crt_arg_at_v(crt_call_t *call, size_t index, crt_out_t out);

/* Reads all arguments as crt_arg_at_v does; their number must be `count`. */
CRT_API crt_status_t crt_args_v(crt_call_t *call, const crt_out_t *outs, size_t count);

/* Sets the result (at most once) and returns CRT_OK or why it can't be returned. A tensor is
 * copied into the store, an object written in place is moved, a ref's value is passed on. */
CRT_API crt_status_t crt_return_v(crt_call_t *call, const crt_arg_t *value);

/* Sets result `index`, from 0 on, of a call of which its caller wants several; crt_return sets the first. All
 * must be set, in any order. */
CRT_API crt_status_t crt_return_at_v(crt_call_t *call, size_t index,
                                     const crt_arg_t *value);
/* How many results the caller wants, at least 1. */
CRT_API size_t crt_return_count(const crt_call_t *call);

/* Fails the call: sets the detail and returns `status` (CRT_ERR_USER when it is not negative). */
CRT_API crt_status_t crt_fail(crt_call_t *call, crt_status_t status, const char *format,
                              ...) CRT_PRINTF(3, 4);

/* Ends the actor whose method runs, from inside: no other call begins; when this one has returned, and was
 * answered, the actor is dead for good (max_restarts does not count) and `destroy` runs. Calls that wait
 * fail with CRT_ERR_ACTOR_DIED; of those that run beside it crt_cancelled becomes true then. CRT_ERR_INVALID: not in
 * a method. */
CRT_API crt_status_t crt_actor_exit(crt_call_t *call);

/* True when the call was cancelled, or nobody waits for its result any more: the caller died or its job
 * ended. */
CRT_API bool crt_cancelled(const crt_call_t *call);

/* ---------------------------------------------------------------- the cluster */

/* Ids of this process's place, 32 hex digits, "" when not initialised. */
CRT_API const char *crt_node_id(void);
CRT_API const char *crt_job_id(void);
/* The namespace of this job; "" when not initialised. Valid until crt_shutdown. */
CRT_API const char *crt_namespace(void);
/* The GPUs that this worker has by its option num_gpus, as in CUDA_VISIBLE_DEVICES, which it finds set so: "0,2",
 * or UUIDs. "" in a driver and without GPUs; CUDA_VISIBLE_DEVICES is that of the driver then. Valid until
 * crt_shutdown. */
CRT_API const char *crt_gpu_ids(void);

/* A seed for random numbers of the program, another one each time and in each process: never 0. With random_seed
 * (crt_options_t) it is the same in every run of the program: it depends on that, on which call of its caller the
 * call is in which it is asked for, and on how many were asked for in it before; not on the worker, on other calls, or
 * on how often the call is made again. In a worker outside of calls it is always a new one. */
CRT_API uint64_t crt_random_seed(void);

/* The version of the library that runs, as text: "0.2.0". Static text. The version of the headers that
 * the program was compiled with is CRT_VERSION_TEXT. */
CRT_API const char *crt_version(void);
/* The same as a number that compares with CRT_VERSION: 200 for 0.2.0. */
CRT_API int crt_version_number(void);

/* ---------------------------------------------------------------- ranks */

/* Of a process in which crt run --ranks runs the driver: its number, 0 <= rank < size, and how many there
 * are. crt_group_world of crt_collective.h is the group of all of them. -1 and 0 in every other
 * process, also in tasks and actors that a rank has made. */
CRT_API int crt_world_rank(void);
CRT_API int crt_world_size(void);

#ifdef __cplusplus
}
#endif

#include "crt_actor.h"
#include "crt_arguments.h"
#include "crt_cluster.h"
#include "crt_cluster_view.h"
#include "crt_context.h"
#include "crt_job.h"
#include "crt_kv.h"
#include "crt_metrics.h"
#include "crt_placement_group.h"
#include "crt_stream.h"
#include "crt_wait.h"

#endif
