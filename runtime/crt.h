/* SPDX-License-Identifier: Apache-2.0 */
/* crt: tasks and actors on the processes and machines of a cluster.
 *
 * One executable holds the driver and the code of its tasks and actors. In the process that
 * the user started, `crt_main` runs the driver. In a worker process, `crt_main` serves calls and
 * does not return.
 *
 *     static crt_status_t add_run(crt_call_t *call)
 *     {
 *         int64_t a, b;
 *         CRT_TRY(crt_args(call, &a, &b));
 *         return crt_return(call, a + b);
 *     }
 *     static const crt_task_t add =
 *         CRT_TASK(.name = "add", .run = add_run, .signature = "int, int");
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
 * Threads: every function may be called from any thread of a driver or worker unless its comment
 * says otherwise. After fork() the calls of the child process return CRT_ERR_FORKED.
 *
 * Signals: the library installs no signal handlers. Waits (crt_get, crt_wait, crt_stream_next, ...)
 * continue after a handler of the program has run, whatever the flags of sigaction. A handler may
 * call crt_interrupt and no other function of crt: the interrupted thread may hold a lock. Only
 * crt_interrupt ends waits with CRT_ERR_INTERRUPTED.
 *
 * Errors: functions return crt_status_t (0: success, negative: failure). crt_error_detail() has
 * the text. Functions that return a ref never return NULL: a failed submission is a failed ref,
 * and the caller sees the error when the ref is read (crt_get) or passed to a call.
 */
#ifndef CRT_H
#define CRT_H

#include "crt_base.h"
#include "crt_options.h"
#include "crt_program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A ref (future): a value on this node, on another node, or not computed yet. */
typedef struct crt_ref crt_ref_t;
/* A handle of an actor. */
typedef struct crt_actor crt_actor_t;
/* An object in the store that the program is writing. */
typedef struct crt_object crt_object_t;
/* A stream of refs; see crt_stream.h. */
typedef struct crt_stream crt_stream_t;

/* ---------------------------------------------------------------- start and stop */

/* Options of crt_main and crt_init. Zero means the default. */
typedef struct crt_options {
    /* Set by CRT_OPTIONS. */
    size_t struct_size;
    /* Actor classes of the program: CRT_CLASSES(&a, &b). */
    const crt_actor_class_t *const *classes;
    /* Tasks of the program: CRT_TASKS(&a, &b). */
    const crt_task_t *const *tasks;
    /* Address of the head. Default: CRT_ADDRESS of the environment, else the only running cluster
     * of this user (of CRT_STATE_DIR, where that is set), else a new private cluster. */
    const char *address;
    /* CPUs of a private cluster. Default: all CPUs of the machine. */
    double num_cpus;
    /* Further resources of a private cluster: "GPU=1,disk=2". */
    const char *resources;
    /* Object store of a private cluster, in bytes. Default: 30 % of memory. */
    uint64_t object_store_memory;
    /* True: the output of workers is not printed in this process. */
    bool no_log_to_driver;
    /* Priority of the job: 1 to 1000, default 1. Jobs that wait for CPUs get CPUs in proportion to
     * their priorities. CRT_JOB_PRIORITY of the environment (crt job submit --priority) overrides
     * this member. */
    int priority;
    /* Largest part of the CPUs of each node that tasks of the job may hold: above 0, at most 1,
     * default 1. One task on each node may always run. CRT_JOB_MAX_SHARE of the environment
     * (crt job submit --max-share) overrides this member. */
    double max_share;
    /* Namespace in which processes of the job name and find actors: 1 to 127 bytes, without '/'.
     * Default, as in Ray: a namespace that no other job has. Jobs of one namespace find each
     * other's actors. CRT_JOB_NAMESPACE of the environment (crt job submit --namespace) overrides
     * this member. (`namespace` is a keyword of C++.) */
    const char *name_space;
    /* True: equal lines of several workers are printed here once. 5 s later a line tells the
     * number of repetitions: "[repeated 3 times across cluster]". CRT_DEDUP_LOGS=1 or 0 of the
     * environment overrides this member. */
    bool dedup_logs;
    /* True: each worker process is executed, and runs main up to crt_main. False: workers are
     * forked from one process that has run main up to crt_main. Executed workers share no random
     * state and no open files from before crt_init, and each starts some milliseconds later. */
    bool execute_workers;
    /* Function that each worker process, forked or executed, runs before its first call. Use this
     * function to set a seed or to open a file for one worker. The function must not call functions
     * of this header that wait. NULL: no function. */
    void (*worker_start)(void);
    /* Seed of crt_random_seed. Default 0: no seed. */
    uint64_t random_seed;
    /* How many nodes keep the bytes of each value that a process of the job puts, and of each
     * result of its calls, where their own option copies is 0: 1 to 4, default 1. See
     * crt_put_options_t. CRT_JOB_COPIES of the environment (crt job submit --copies) overrides
     * this member. */
    int64_t copies;
    /* The cluster of the program, started when the program starts: "local:4", "HOST:PORT",
     * "file:lab.yaml", "slurm:4", as in crt_context_options_t. crt_main ends what it has started
     * for this; after crt_init, crt_context_stop or the end of the program does. num_cpus is then
     * that of all nodes of a local cluster together. NULL: as without this member. Not together
     * with address. */
    const char *cluster;
} crt_options_t;
#define CRT_OPTIONS(...)                                                                 \
    CRTI_CONSTANT(crt_options_t, .struct_size = sizeof(crt_options_t), __VA_ARGS__)

/* Initialises the runtime, runs `driver` and shuts down. Returns the result of `driver`, or 1
 * after printing the reason when there is no cluster. In a worker process, crt_main serves calls
 * and exits the process.
 *
 * When crt run --ranks N executes the program, crt_main runs `driver` in N processes of the
 * cluster. The result is 0 when all N drivers have returned 0; else the result is the status of
 * the first driver that failed, after printing the reason. */
CRT_API int crt_main(int argc, char **argv, const crt_options_t *options,
                     int (*driver)(int argc, char **argv));

/* Joins a cluster or starts a private one, for programs that cannot use crt_main. Does not return
 * in a worker process. `options` may be NULL.
 *
 * Code of main before crt_init (or crt_main) runs once on each node, in a process from which
 * workers are forked. Workers inherit the state of that process: random numbers that were drawn,
 * open files with shared positions, allocated memory, buffered output, and the result of an earlier
 * getpid. Therefore set seeds later: in worker_start of the options, or from crt_random_seed in a
 * call. Each worker runs main itself in three cases: with execute_workers, for ranks
 * (crt run --ranks), and when threads run or a GPU is open before crt_init. Call crt_init as early
 * in main as possible.
 *
 * Errors: CRT_ERR_EXISTS, when crt_init was called before without crt_shutdown; CRT_ERR_INVALID,
 * when an option is invalid, when a callback of a ref calls crt_init, or when crt run --ranks has
 * executed the program; CRT_ERR_UNSUPPORTED, when the options set a member that this library does
 * not have; CRT_ERR_NOT_FOUND, when the cluster has no node on this host; CRT_ERR_HEAD_LOST, when
 * the head cannot be reached; CRT_ERR_IO, when a process or directory of a private cluster cannot
 * be made; CRT_ERR_TIMED_OUT, when a private cluster does not serve after 30 s; CRT_ERR_TOO_LARGE,
 * when the path for sockets of a private cluster is too long; CRT_ERR_PROTOCOL, when the node
 * answers with an unexpected message; CRT_ERR_NO_MEMORY; CRT_ERR_FORKED. */
CRT_API crt_status_t crt_init(int argc, char **argv, const crt_options_t *options);

/* Leaves the cluster and ends the tasks and actors of this driver. Detached actors live on. A
 * private cluster stops. Waits at most 5 s until this node has ended the work of the driver, so
 * that the resources are free.
 *
 * After crt_shutdown the program may still drop refs and handles. Values that were read before stay
 * valid until their ref is dropped: values in the store are copied. The program may still write to
 * an object from crt_object_create, and abort that object. All other calls return
 * CRT_ERR_NOT_INITIALIZED or CRT_ERR_CLOSED.
 *
 * Threads: other threads may be inside functions of crt. Their waits end with CRT_ERR_CLOSED.
 *
 * Errors: CRT_ERR_NOT_INITIALIZED, when crt_init was not called; CRT_ERR_INVALID, when a worker or
 * a callback of a ref calls crt_shutdown; CRT_ERR_FORKED. */
CRT_API crt_status_t crt_shutdown(void);

/* ---------------------------------------------------------------- arguments */

/* Bytes in memory. */
typedef struct crt_bytes {
    const void *data;
    size_t size;
} crt_bytes_t;

/* Makes bytes for an argument: crt_submit(&task, NULL, crt_bytes(data, size)). `size` is in bytes.
 * The data is borrowed until the call that takes the argument returns. */
static inline crt_bytes_t crt_bytes(const void *data, size_t size)
{
    crt_bytes_t bytes;

    bytes.data = data;
    bytes.size = size;
    return bytes;
}

/* A received value of any kind. crt_value_at, crt_value_key and crt_value_find read lists and maps.
 * Borrowed from the call or ref that the value came from. The value and all its entries are
 * read-only. */
typedef struct crt_value crt_value_t;

/* The kind of a value or argument. */
typedef enum crt_kind {
    /* No value: the result of a call that sets no result. */
    CRT_KIND_NONE = 0,
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
    /* Several refs, each of which becomes one argument. */
    CRT_KIND_SPREAD = 11,
    /* An object that is being written. The receiver gets a tensor. */
    CRT_KIND_OBJECT = 12,
    /* A received value that is passed on unchanged. */
    CRT_KIND_VALUE = 13
} crt_kind_t;

/* One argument, made by CRT_ARG(x) or a crt_arg_* function. All pointers in an argument are
 * borrowed until the call that takes the argument returns. Exception: the call takes the ownership
 * of an object that is being written (see crt_object_create). */
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
            /* Items of a list, or of a map in turn: key, value, key, value, ... */
            const struct crt_arg *items;
            size_t count;
        } list;
        struct {
            crt_ref_t *const *refs;
            size_t count;
        } spread;
    } as;
} crt_arg_t;

/* Make an argument from a value of one type, as CRT_ARG(x) does. Use these functions for arrays of
 * arguments, and for lists and maps. The functions copy nothing and check nothing: a mistake is an
 * error of the call that takes the argument.
 *
 * crt_arg_unsigned takes values up to INT64_MAX; with a larger value that call fails with
 * CRT_ERR_INVALID. crt_arg_value passes on a received value, for example an entry of a list or a
 * map; NULL means no value. crt_arg_self returns its argument. */
CRT_API crt_arg_t crt_arg_none(const void *null);
CRT_API crt_arg_t crt_arg_bool(bool value);
CRT_API crt_arg_t crt_arg_int(int64_t value);
CRT_API crt_arg_t crt_arg_unsigned(uint64_t value);
CRT_API crt_arg_t crt_arg_float(double value);
CRT_API crt_arg_t crt_arg_string(const char *value);
CRT_API crt_arg_t crt_arg_bytes(crt_bytes_t value);
CRT_API crt_arg_t crt_arg_tensor(const crt_tensor_t *value);
CRT_API crt_arg_t crt_arg_ref(const crt_ref_t *value);
CRT_API crt_arg_t crt_arg_actor(crt_actor_t *value);
CRT_API crt_arg_t crt_arg_object(crt_object_t *value);
CRT_API crt_arg_t crt_arg_value(const crt_value_t *value);
CRT_API crt_arg_t crt_arg_self(crt_arg_t value);

/* Makes an argument of each of `count` refs: crt_call(server, &apply, crt_arg_each(grads, n)). The
 * array `refs` is borrowed until the call returns. */
CRT_API crt_arg_t crt_arg_each(crt_ref_t *const *refs, size_t count);

/* Make a list or a map for an argument. `items` of a map are string keys and values in turn, and
 * `count` is even. The array `items` is borrowed until the call returns. A mistake is an error of
 * the call that takes the argument. */
CRT_API crt_arg_t crt_list(const crt_arg_t *items, size_t count);
CRT_API crt_arg_t crt_map(const crt_arg_t *items, size_t count);

/* The type of the variable that receives a value. */
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

/* The variable that receives a value. CRT_OUT(&x) makes a crt_out_t from a pointer. */
typedef struct crt_out {
    crt_out_kind_t kind;
    void *to;
} crt_out_t;

/* Returns the kind of a value. For NULL the result is CRT_KIND_NONE. */
CRT_API crt_kind_t crt_value_kind(const crt_value_t *value);

/* Returns the number of entries of a list or map. For other values the result is 0. */
CRT_API size_t crt_value_count(const crt_value_t *value);

/* Read an entry of a list or map. crt_value_at returns entry `index` of a list, or the value of
 * entry `index` of a map. crt_value_key returns the key of entry `index` of a map. crt_value_find
 * returns the value of `key` in a map. The result is NULL when there is no such entry. Borrowed:
 * the result is valid as long as the list or map. */
CRT_API const crt_value_t *crt_value_at(const crt_value_t *list, size_t index);
CRT_API const char *crt_value_key(const crt_value_t *map, size_t index);
CRT_API const crt_value_t *crt_value_find(const crt_value_t *map, const char *key);

/* Reads a value into a variable, as crt_get and crt_args do. Strings, bytes, tensors, refs, actors
 * and values are borrowed: these pointers are valid as long as `value`.
 *
 * Errors: CRT_ERR_INVALID, when `value` is NULL, is of another kind than the variable, or does not
 * fit into the variable; the text names both. */
CRT_API crt_status_t crt_value_read_v(const crt_value_t *value, crt_out_t out);

/* Returns the name of a kind as errors use it, for example "int" or "tensor". Static text. */
CRT_API const char *crt_kind_name(crt_kind_t kind);

/* ---------------------------------------------------------------- refs and objects */

/* Puts a value into the store and returns a ref to the value. A small value is kept beside the
 * store. The caller owns the ref and drops the ref with crt_ref_drop. A failure is a failed ref,
 * never NULL. */
CRT_API crt_ref_t *crt_put_v(const crt_arg_t *value);

/* As crt_put_v, with options; NULL: none. `options` is read before the call returns. */
CRT_API crt_ref_t *crt_put_with_v(const crt_arg_t *value,
                                  const crt_put_options_t *options);

/* Records the place in the program where a ref was made, for crt memory. `place` is static text,
 * "file:line". Returns `ref`. The macros crt_put, crt_call, crt_submit and crt_object_seal call
 * this function. */
CRT_API crt_ref_t *crt_ref_at(crt_ref_t *ref, const char *place);

/* Waits until the value of a ref is on this node and reads the value. `wait_ms` is in milliseconds;
 * CRT_FOREVER (any number below 0) waits without a limit. An error of the ref ends the wait too.
 *
 * Strings, bytes, tensors, refs, actors and values are borrowed: these pointers are valid until the
 * ref is dropped.
 *
 * Values are read-only, because other readers use the same memory. Writing to elements of a tensor
 * in the store ends the process with SIGSEGV. Writing to a tensor outside the store changes the
 * tensor for all readers in the process. Tensors are dense, so that this call makes a copy to work
 * on:
 *     memcpy(mine, tensor->data, crt_tensor_bytes(tensor));
 *
 * A task that waits with CRT_FOREVER for a task that it submitted runs that task itself, in the
 * waiting thread, when no worker has begun it: so tasks within tasks do not take a process each.
 * Such a wait ends when that task ends; a crash of that task ends both. crt_get_for does so only
 * when the node has told, which takes 1 s, that it has no worker for that task, because all that it
 * may have (64, or 8 for each CPU if that is more) are in use: then it may end late. Other waits
 * with a limit, and a task with limit_ms, max_calls, an environment or a place of its own, always
 * leave it to another worker: if all workers wait like that, or if the CPUs are an actor's that
 * waits itself, which lends none, these waits end by their limits.
 *
 * Errors: CRT_ERR_TIMED_OUT, when the value is not here after `wait_ms`; CRT_ERR_INTERRUPTED, when
 * crt_interrupt was called; CRT_ERR_DEADLOCK, when the wait would never end; CRT_ERR_CANCELLED,
 * when the call that waits was cancelled; CRT_ERR_INVALID, when `ref` is NULL or dropped, or when
 * the value is of another kind or does not fit; CRT_ERR_CLOSED, after crt_shutdown, when the value
 * was not read before; CRT_ERR_NOT_INITIALIZED; CRT_ERR_FORKED; else the status of the failed call,
 * for which crt_ref_error tells more. */
CRT_API crt_status_t crt_get_v(crt_ref_t *ref, int64_t wait_ms, crt_out_t out);

/* Waits until `want` of `count` refs are ready. A ref is ready when the ref has a value or an
 * error. `ready` has room for `want` indices, or is NULL. The function stores the indices of ready
 * refs in `ready`, in the order of `refs`, and the number of indices, at most `want`, in
 * `*ready_count`. CRT_ERR_TIMED_OUT sets both too. A ref may occur several times in `refs`. Values
 * of other nodes stay there until crt_get; crt_refs_wait brings them.
 *
 * `wait_ms` is in milliseconds; CRT_FOREVER waits without a limit. A loop that handles one ref and
 * waits again needs about the same time for each ref, however many refs there are. Wait sets of
 * crt_wait.h also take streams and ends of actors and nodes.
 *
 * Errors: CRT_ERR_TIMED_OUT, when fewer than `want` refs are ready after `wait_ms`;
 * CRT_ERR_INVALID, when `want` is above `count`, or `refs` or a ref is NULL or dropped;
 * CRT_ERR_INTERRUPTED, when crt_interrupt was called; CRT_ERR_DEADLOCK, when the wait would never
 * end; CRT_ERR_CANCELLED, when the call that waits was cancelled; CRT_ERR_CLOSED, after
 * crt_shutdown; CRT_ERR_NOT_INITIALIZED; CRT_ERR_FORKED. */
CRT_API crt_status_t crt_wait(crt_ref_t *const *refs, size_t count, size_t want,
                              int64_t wait_ms, size_t *ready, size_t *ready_count);

/* Ends one wait of each thread with CRT_ERR_INTERRUPTED. Signal handlers may call this function. In
 * each thread the current wait ends, or else the next one. The call or ref that the thread waited
 * for is not changed: the program may wait again, or cancel the call. A driver that ends in order
 * on Ctrl-C:
 *     static void on_signal(int number) { crt_interrupt(); }
 *     ...
 *     signal(SIGINT, on_signal);
 *     while ((status = crt_get(ref, &sum)) == CRT_ERR_INTERRUPTED)
 *         crt_cancel(ref, NULL);
 *
 * Several calls before a thread waits count as one call for that thread. Calls before the first
 * wait of a thread do not count for that thread, except for the main thread. Collective operations
 * are not interrupted.
 *
 * Threads: any thread may call this function at any time. */
CRT_API void crt_interrupt(void);

/* Returns true when crt_get would not wait. The ref then has a value or an error. */
CRT_API bool crt_ref_is_ready(crt_ref_t *ref);

/* Adds a hold to a ref, for example to keep an argument beyond the call. Returns `ref`; NULL gives
 * NULL. The caller drops each hold with crt_ref_drop. */
CRT_API crt_ref_t *crt_ref_keep(crt_ref_t *ref);

/* Gives up a ref and sets the pointer to NULL. A NULL ref is allowed. Calls that received the ref
 * as an argument keep the value.
 *
 * After this call every copy of the pointer is invalid, unless another hold exists (crt_ref_keep).
 * Using an invalid pointer is undefined behaviour; the library detects many cases and returns
 * CRT_ERR_INVALID, but not all. */
CRT_API void crt_ref_drop(crt_ref_t **ref);

/* Gives up `count` refs and sets each pointer to NULL. Each ref is dropped as by crt_ref_drop;
 * NULL refs are allowed. */
CRT_API void crt_refs_drop(crt_ref_t **refs, size_t count);

/* Frees the values of `count` refs now, on all nodes, whoever still has refs to them: the memory of
 * the stores is needed for something else. The caller keeps its refs and drops them as ever.
 *
 * crt_get of such a ref then fails with CRT_ERR_OBJECT_LOST, here and wherever the value was not
 * yet; so do calls that get the ref, or have it and have not begun. A value that a process has got
 * stays readable there, and keeps its memory on that node, until the ref is dropped there. Small
 * values (results up to 64 KiB, puts up to 4 KiB) are in no store and stay as they are until their
 * refs are dropped. A freed value is not made again (max_attempts), and neither is what can only be
 * made from it.
 *
 * Only the process that owns a value can free it: the one that has put it or made the call.
 *
 * Errors: CRT_ERR_INVALID, when a ref is NULL, dropped, of another process or has no value yet; the
 * detail says which, and nothing was freed. CRT_ERR_CLOSED, CRT_ERR_NOT_INITIALIZED,
 * CRT_ERR_FORKED. */
CRT_API crt_status_t crt_refs_free(crt_ref_t *const *refs, size_t count);

/* The error of a failed ref. Texts are never NULL. */
typedef struct crt_error {
    crt_status_t status;
    /* The detail, from the place of the failure. */
    const char *text;
    /* Class of the actor, or "". */
    const char *class_name;
    /* Name of the method or task. */
    const char *method;
    /* Id of the actor in hex, or "". */
    const char *actor;
    /* Id of the node in hex, or "". */
    const char *node;
    /* Process in which the call failed; 0: unknown. */
    int64_t pid;
    /* False: the call certainly did not run. */
    bool may_have_run;
} crt_error_t;

/* Returns the error of a failed ref. The result is NULL while the ref is pending and when the ref
 * has a value. Borrowed: the error is valid until the ref is dropped. */
CRT_API const crt_error_t *crt_ref_error(crt_ref_t *ref);

/* Makes an object in the store, so that the program can write a tensor in place. `view_out` is
 * writable until the program gives the object away. When the store is full, the function waits as
 * long as the node makes room by writing objects to disk, and at most 5 s when it does not.
 *
 * The program gives the object away as an argument of a call, a task or the creation of an actor,
 * to crt_put, crt_return, crt_object_seal or crt_object_abort, directly or in a list or map. The
 * function that receives the object takes the ownership, also when that function fails. After that
 * the program must not use the object again, and need not call crt_object_abort. The receiver gets
 * a tensor; in a signature the kind is "tensor".
 *
 * Errors: CRT_ERR_STORE_FULL, when there is no room after the wait; CRT_ERR_TOO_LARGE, when the
 * object is larger than the store; CRT_ERR_INVALID, when `dtype`, `rank` or `shape` is invalid or
 * an output pointer is NULL; CRT_ERR_NO_MEMORY; CRT_ERR_NOT_INITIALIZED; CRT_ERR_FORKED. */
CRT_API crt_status_t crt_object_create(crt_dtype_t dtype, int rank, const int64_t *shape,
                                       crt_object_t **object_out, crt_tensor_t *view_out);

/* Ends the writing of an object and returns a ref to the tensor. `*object_take` is NULL afterwards.
 * The caller owns the ref and drops the ref with crt_ref_drop. A failure is a failed ref, never
 * NULL. */
CRT_API crt_ref_t *crt_object_seal(crt_object_t **object_take);

/* Gives the room of an object back to the store. `*object_take` is NULL afterwards. NULL is
 * allowed, and also an object that was given away before. */
CRT_API void crt_object_abort(crt_object_t **object_take);

/* ---------------------------------------------------------------- tasks and actors */

/* Submits a task, which runs on a node of the cluster. Returns at once, except when tasks with the
 * same resources that wait for workers hold more than 128 MiB: then the caller waits for room, or
 * the submission fails with CRT_ERR_BACKPRESSURE if the option try_only is set. A task is not run
 * if all refs to the result were dropped before the task was sent to a worker.
 *
 * The arguments are borrowed until the function returns. `options` may be NULL. The caller owns the
 * ref and drops the ref with crt_ref_drop. A failure is a failed ref, never NULL. */
CRT_API crt_ref_t *crt_submit_v(const crt_task_t *task, const crt_task_options_t *options,
                                const crt_arg_t *args, size_t count);

/* Submits a task that returns several results, which the task sets with crt_return_at. `refs` has
 * room for `returns` refs, 1 to 65535. The function sets all of them; the caller owns each ref and
 * drops each ref with crt_ref_drop.
 *
 * The refs become ready together. When the task fails, or sets fewer results, each ref is a failed
 * ref. When the submission fails, each ref is a failed ref, never NULL. Arguments and options are
 * those of crt_submit_v. */
CRT_API void crt_submit_returns_v(crt_ref_t **refs, size_t returns,
                                  const crt_task_t *task,
                                  const crt_task_options_t *options,
                                  const crt_arg_t *args, size_t count);

/* Cancels the call that produces `ref`, and the calls that this call has made. Returns at once;
 * crt_get waits for the end. `options` may be NULL. The result is CRT_OK also when the call was
 * cancelled before and has not ended yet.
 *
 * A call that has not begun never runs. In a running call crt_cancelled becomes true, and waits
 * inside the call (crt_get, crt_wait, ...) return CRT_ERR_CANCELLED. The result of a cancelled call
 * is CRT_ERR_CANCELLED, whatever the call returns.
 *
 * Errors: CRT_ERR_NOT_FOUND, when the call has ended already, and nothing is done;
 * CRT_ERR_INVALID, when `ref` is NULL, is dropped, or is not the result of a call of this process,
 * or when the option `force` is set for a method (crt_actor_kill ends an actor); CRT_ERR_CLOSED,
 * when the ref is from before crt_shutdown; CRT_ERR_UNSUPPORTED, when the options set a member that
 * this library does not have; CRT_ERR_NO_MEMORY; CRT_ERR_NOT_INITIALIZED; CRT_ERR_FORKED. */
CRT_API crt_status_t crt_cancel(crt_ref_t *ref, const crt_cancel_options_t *options);

/* Makes an actor and returns a handle at once. Errors of the placement or of `create` appear in the
 * calls to the actor and in crt_actor_ready. The caller owns the handle and drops the handle with
 * crt_actor_drop. A failure is a handle whose calls fail; the result is NULL only when there is no
 * memory for a handle. The arguments are borrowed until the function returns. `options` may be
 * NULL.
 *
 * An argument may be a ref without a value yet. The actor is placed at once, and holds its CPUs
 * and other resources while it waits for that value: the task that makes the value needs its own.
 *
 * Lifetime: the actor ends after the last handle in the cluster is dropped, as in Ray. Calls that
 * were made before are answered first, for 30 s at most. Then `destroy` runs, and the actor is not
 * restarted. Handles stored in arguments, results, objects and returned by crt_actor_find count. If
 * a process dies or is killed, its handles count as dropped.
 *
 * The actor also ends by crt_actor_kill, and with the process that made the actor, at the latest
 * with the job of that process. A detached actor lives until crt_actor_kill. */
CRT_API crt_actor_t *crt_actor_new_v(const crt_actor_class_t *actor_class,
                                     const crt_actor_options_t *options,
                                     const crt_arg_t *args, size_t count);

/* Calls a method of an actor. Calls of one caller to one actor run in the order in which the caller
 * made them, unless the actor has the option allow_out_of_order_execution. When the window of calls
 * in flight is full, the caller waits, or the call fails with CRT_ERR_BACKPRESSURE if the option
 * try_only is set. A call beyond max_pending_calls of the actor fails with CRT_ERR_BACKPRESSURE.
 *
 * The arguments are borrowed until the function returns. `options` may be NULL. The caller owns the
 * ref and drops the ref with crt_ref_drop. A failure is a failed ref, never NULL. */
CRT_API crt_ref_t *crt_call_v(crt_actor_t *actor, const crt_method_t *method,
                              const crt_call_options_t *options, const crt_arg_t *args,
                              size_t count);

/* Calls a method that returns several results, which the method sets with crt_return_at. `refs` has
 * room for `returns` refs, 1 to 65535. The function sets all of them; the caller owns each ref and
 * drops each ref with crt_ref_drop.
 *
 * The refs become ready together. When the call fails, or sets fewer results, each ref is a failed
 * ref, never NULL. Order, arguments and options are those of crt_call_v. */
CRT_API void crt_call_returns_v(crt_ref_t **refs, size_t returns, crt_actor_t *actor,
                                const crt_method_t *method,
                                const crt_call_options_t *options, const crt_arg_t *args,
                                size_t count);

/* Calls a method without a ref for the result. Errors of the method are logged and counted. When
 * the window of calls in flight is full, the caller waits. The arguments are borrowed until the
 * function returns.
 *
 * Errors: CRT_ERR_INVALID, when `actor` is no handle, the class has no such method, or an argument
 * is invalid; CRT_ERR_BACKPRESSURE, when the calls of this process reach max_pending_calls of the
 * actor; CRT_ERR_INTERRUPTED, when crt_interrupt ended the wait for room; CRT_ERR_CLOSED, when the
 * handle is from before crt_shutdown; CRT_ERR_NO_MEMORY; CRT_ERR_NOT_INITIALIZED; CRT_ERR_FORKED;
 * else the error of an actor that is dead or was not made. */
CRT_API crt_status_t crt_tell_v(crt_actor_t *actor, const crt_method_t *method,
                                const crt_arg_t *args, size_t count);

/* Waits until `create` of an actor has ended. The function does not wait behind other calls of the
 * actor. `wait_ms` is in milliseconds; CRT_FOREVER waits without a limit.
 *
 * Errors: CRT_ERR_TIMED_OUT, when `create` has not ended after `wait_ms`, and the function may be
 * called again; CRT_ERR_INVALID, when `actor` is no handle; CRT_ERR_INTERRUPTED, when crt_interrupt
 * was called; CRT_ERR_CANCELLED, when the call that waits was cancelled; CRT_ERR_DEADLOCK, when the
 * wait would never end; CRT_ERR_CLOSED, when the handle is from before crt_shutdown;
 * CRT_ERR_NOT_INITIALIZED; CRT_ERR_FORKED; else the error of `create`, or of an actor that is dead
 * or was not made. */
CRT_API crt_status_t crt_actor_ready(crt_actor_t *actor, int64_t wait_ms);

/* Adds a hold to the handle of an actor, for example to keep an argument beyond the call. Returns
 * `actor`, or NULL when `actor` is no handle. The caller drops each hold with crt_actor_drop. */
CRT_API crt_actor_t *crt_actor_keep(crt_actor_t *actor);

/* Gives up a handle of an actor and sets the pointer to NULL. A NULL handle is allowed. Calls that
 * were made before are answered. When the last handle in the cluster is dropped, the actor ends;
 * see crt_actor_new_v. */
CRT_API void crt_actor_drop(crt_actor_t **actor);

/* Returns the id of an actor as 32 hex digits. For a pointer that is no handle the result is "".
 * Borrowed: the text is valid as long as the handle. */
CRT_API const char *crt_actor_id(crt_actor_t *actor);

/* ---------------------------------------------------------------- inside a call */

/* Returns the number of arguments of a call; 0 when `call` is NULL. */
CRT_API size_t crt_arg_count(const crt_call_t *call);

/* Reads the argument `index` of a call, from 0 on. Pointers are borrowed: they are valid until the
 * method or task returns. The values are read-only, as those of crt_get (crt_get_v shows how to
 * copy). An int converts to bool or floating point, and a float to an int, when no information is
 * lost.
 *
 * Errors: CRT_ERR_INVALID, when `call` is NULL, when there is no such argument, or when the
 * argument is of another kind or does not fit; the text names the method, the argument and both
 * kinds. */
CRT_API crt_status_t crt_arg_at_v(crt_call_t *call, size_t index, crt_out_t out);

/* Reads all arguments of a call into variables. Pointers, conversions and errors of each argument
 * are those of crt_arg_at_v.
 *
 * Errors: CRT_ERR_INVALID, when `call` is NULL, when the number of arguments is not `count`, or
 * when an argument is of another kind or does not fit. */
CRT_API crt_status_t crt_args_v(crt_call_t *call, const crt_out_t *outs, size_t count);

/* Sets the result of a call, at most once. A tensor is copied into the store, an object that was
 * written in place is moved, and the value of a ref is passed on. `value` is borrowed until the
 * function returns; an object that is being written is taken.
 *
 * Errors: CRT_ERR_INVALID, when `call` or `value` is NULL, `value` is invalid, the result is set
 * already, or `create` sets a result; CRT_ERR_UNSUPPORTED, when a tensor lies in the memory of a
 * device; CRT_ERR_STORE_FULL and CRT_ERR_TOO_LARGE, when the store has no room; CRT_ERR_CLOSED,
 * when a ref is from before crt_shutdown; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_return_v(crt_call_t *call, const crt_arg_t *value);

/* Sets the result `index` of a call with several results, from 0 on. crt_return sets result 0. The
 * call must set all results, in any order. Ownership of `value` is that of crt_return_v.
 *
 * Errors: CRT_ERR_INVALID, when the caller wants no result `index`, the result is set already,
 * `call` or `value` is NULL, or `value` is invalid; CRT_ERR_UNSUPPORTED, when a tensor lies in the
 * memory of a device; CRT_ERR_STORE_FULL and CRT_ERR_TOO_LARGE, when the store has no room;
 * CRT_ERR_CLOSED, when a ref is from before crt_shutdown; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_return_at_v(crt_call_t *call, size_t index,
                                     const crt_arg_t *value);

/* Returns the number of results that the caller of a call wants. The number is at least 1; 0 when
 * `call` is NULL. */
CRT_API size_t crt_return_count(const crt_call_t *call);

/* Sets the error text of a failed call and returns the status of the failure. The method or task
 * returns this status to fail the call. `format` is that of printf. The result is `status`, or
 * CRT_ERR_USER when `status` is not negative. `call` is not read and may be NULL. */
CRT_API crt_status_t crt_fail(crt_call_t *call, crt_status_t status, const char *format,
                              ...) CRT_PRINTF(3, 4);

/* Ends the actor whose method runs. No other call begins. After this call has returned and was
 * answered, the actor is dead for good (max_restarts does not count) and `destroy` runs. Waiting
 * calls of the actor fail with CRT_ERR_ACTOR_DIED. For calls that run at the same time
 * crt_cancelled then becomes true.
 *
 * Errors: CRT_ERR_INVALID, when `call` is not the call of a method, or is NULL. */
CRT_API crt_status_t crt_actor_exit(crt_call_t *call);

/* Returns true when the call was cancelled or its result is not wanted any more. The second case
 * occurs when the caller died or the job of the caller ended. False when `call` is NULL. */
CRT_API bool crt_cancelled(const crt_call_t *call);

/* ---------------------------------------------------------------- the cluster */

/* Return the ids of the node and job of this process as 32 hex digits. The result is "" when crt is
 * not initialised. */
CRT_API const char *crt_node_id(void);
CRT_API const char *crt_job_id(void);

/* Returns the namespace of this job. The result is "" when crt is not initialised. Borrowed: the
 * text is valid until crt_shutdown. */
CRT_API const char *crt_namespace(void);

/* Returns the GPUs of this worker, given by the option num_gpus. The text has the form of
 * CUDA_VISIBLE_DEVICES, which is set in the worker: "0,2", or UUIDs. The result is "" in a driver
 * and in a worker without GPUs; CUDA_VISIBLE_DEVICES is then that of the driver. Borrowed: the text
 * is valid until crt_shutdown. */
CRT_API const char *crt_gpu_ids(void);

/* Returns a seed for random numbers of the program. The seed is never 0, and differs for each call
 * and in each process.
 *
 * With random_seed of crt_options_t, the seeds are equal in every run of the program. A seed then
 * depends on random_seed, on the position of the current call among the calls of its caller, and on
 * the number of seeds that the current call has drawn before. A seed does not depend on the worker,
 * on other calls, or on retries of the call. In a worker outside of calls, the seed is always a new
 * one. */
CRT_API uint64_t crt_random_seed(void);

/* Returns the version of the library that runs, as text. The text is static, for example "0.2.0".
 * CRT_VERSION_TEXT is the version of the headers that the program was compiled with. */
CRT_API const char *crt_version(void);

/* Returns the version of the library that runs, as a number. The number is major * 10000 +
 * minor * 100 + patch, for example 200 for 0.2.0. Compare the number with CRT_VERSION, the version
 * of the headers that the program was compiled with. */
CRT_API int crt_version_number(void);

/* ---------------------------------------------------------------- ranks */

/* Return the rank of this process and the number of ranks, under crt run --ranks. The rank is at
 * least 0 and below the number of ranks. In every other process the rank is -1 and the number is 0,
 * also in tasks and actors that a rank has made. crt_group_world of crt_collective.h is the group
 * of all ranks. */
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
