/* SPDX-License-Identifier: Apache-2.0 */
/* The basis of every public header of crt: status codes, the detail text of an error, and tensors.
 * Include <crt.h>, <crt_ml.h> or <crt_actors.h> instead of this file.
 *
 * Threads: every function here may be called from any thread.
 */
#ifndef CRT_BASE_H
#define CRT_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crt_version.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CRT_API __attribute__((visibility("default")))
/* Marks a function that a later version removes; `text` names the replacement. A program that
 * defines CRT_DEPRECATED as nothing before including this header gets no warnings. docs/abi.md
 * says how long such a function stays. */
#ifndef CRT_DEPRECATED
#    define CRT_DEPRECATED(text) __attribute__((deprecated(text)))
#endif
#define CRT_PRINTF(format_index, first_argument)                                         \
    __attribute__((format(printf, format_index, first_argument)))

/* A function that is called where something went wrong: the compiler lays out the calls of it apart
 * from the code that runs when all is well. */
#define CRT_COLD __attribute__((cold))

/* Makes a constant of `type` with the named members set, and yields the address of the constant.
 * Use the address only as an argument of a call: in C++ the constant is gone after the call. In
 * C++ (C++17 and later) the macro assigns the members one by one, because C++ has designated
 * initializers only since C++20 and only in the order of the struct. At most 32 members. */
#ifdef __cplusplus
/* clang-format off */
#    define CRTI_SET_1(v, a)       (void)(v a);
#    define CRTI_SET_2(v, a, ...)  (void)(v a); CRTI_SET_1(v, __VA_ARGS__)
#    define CRTI_SET_3(v, a, ...)  (void)(v a); CRTI_SET_2(v, __VA_ARGS__)
#    define CRTI_SET_4(v, a, ...)  (void)(v a); CRTI_SET_3(v, __VA_ARGS__)
#    define CRTI_SET_5(v, a, ...)  (void)(v a); CRTI_SET_4(v, __VA_ARGS__)
#    define CRTI_SET_6(v, a, ...)  (void)(v a); CRTI_SET_5(v, __VA_ARGS__)
#    define CRTI_SET_7(v, a, ...)  (void)(v a); CRTI_SET_6(v, __VA_ARGS__)
#    define CRTI_SET_8(v, a, ...)  (void)(v a); CRTI_SET_7(v, __VA_ARGS__)
#    define CRTI_SET_9(v, a, ...)  (void)(v a); CRTI_SET_8(v, __VA_ARGS__)
#    define CRTI_SET_10(v, a, ...) (void)(v a); CRTI_SET_9(v, __VA_ARGS__)
#    define CRTI_SET_11(v, a, ...) (void)(v a); CRTI_SET_10(v, __VA_ARGS__)
#    define CRTI_SET_12(v, a, ...) (void)(v a); CRTI_SET_11(v, __VA_ARGS__)
#    define CRTI_SET_13(v, a, ...) (void)(v a); CRTI_SET_12(v, __VA_ARGS__)
#    define CRTI_SET_14(v, a, ...) (void)(v a); CRTI_SET_13(v, __VA_ARGS__)
#    define CRTI_SET_15(v, a, ...) (void)(v a); CRTI_SET_14(v, __VA_ARGS__)
#    define CRTI_SET_16(v, a, ...) (void)(v a); CRTI_SET_15(v, __VA_ARGS__)
#    define CRTI_SET_17(v, a, ...) (void)(v a); CRTI_SET_16(v, __VA_ARGS__)
#    define CRTI_SET_18(v, a, ...) (void)(v a); CRTI_SET_17(v, __VA_ARGS__)
#    define CRTI_SET_19(v, a, ...) (void)(v a); CRTI_SET_18(v, __VA_ARGS__)
#    define CRTI_SET_20(v, a, ...) (void)(v a); CRTI_SET_19(v, __VA_ARGS__)
#    define CRTI_SET_21(v, a, ...) (void)(v a); CRTI_SET_20(v, __VA_ARGS__)
#    define CRTI_SET_22(v, a, ...) (void)(v a); CRTI_SET_21(v, __VA_ARGS__)
#    define CRTI_SET_23(v, a, ...) (void)(v a); CRTI_SET_22(v, __VA_ARGS__)
#    define CRTI_SET_24(v, a, ...) (void)(v a); CRTI_SET_23(v, __VA_ARGS__)
#    define CRTI_SET_25(v, a, ...) (void)(v a); CRTI_SET_24(v, __VA_ARGS__)
#    define CRTI_SET_26(v, a, ...) (void)(v a); CRTI_SET_25(v, __VA_ARGS__)
#    define CRTI_SET_27(v, a, ...) (void)(v a); CRTI_SET_26(v, __VA_ARGS__)
#    define CRTI_SET_28(v, a, ...) (void)(v a); CRTI_SET_27(v, __VA_ARGS__)
#    define CRTI_SET_29(v, a, ...) (void)(v a); CRTI_SET_28(v, __VA_ARGS__)
#    define CRTI_SET_30(v, a, ...) (void)(v a); CRTI_SET_29(v, __VA_ARGS__)
#    define CRTI_SET_31(v, a, ...) (void)(v a); CRTI_SET_30(v, __VA_ARGS__)
#    define CRTI_SET_32(v, a, ...) (void)(v a); CRTI_SET_31(v, __VA_ARGS__)
#    define CRTI_SET_33(v, a, ...) (void)(v a); CRTI_SET_32(v, __VA_ARGS__)
#    define CRTI_SET_MANY(v, ...)                                                         \
        static_assert(sizeof(v) == 0, "at most 32 members: set others in a variable");
#    define CRTI_SET_OF(v, count, ...) CRTI_SET_OF_(v, count, __VA_ARGS__)
#    define CRTI_SET_OF_(v, count, ...) CRTI_SET_##count(v, __VA_ARGS__)
#    define CRTI_SET_COUNT(...)                                                          \
        CRTI_SET_COUNT_(__VA_ARGS__, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY,     \
                        MANY, MANY, MANY, MANY, MANY, MANY, MANY, 33, 32, 31, 30, 29,    \
                        28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14,      \
                        13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#    define CRTI_SET_COUNT_(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13,      \
                             a14, a15, a16, a17, a18, a19, a20, a21, a22, a23, a24,      \
                             a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35,      \
                             a36, a37, a38, a39, a40, a41, a42, a43, a44, a45, a46,      \
                             a47, a48, count, ...) count
/* `capture` is & inside a function, and empty for a constant at file scope. */
#    define CRTI_MADE(capture, type, ...)                                                 \
        [capture]() {                                                                    \
            type crt_made{};                                                             \
            CRTI_SET_OF(crt_made, CRTI_SET_COUNT(__VA_ARGS__), __VA_ARGS__)           \
            return crt_made;                                                             \
        }()
/* clang-format on */
#    define CRTI_CONSTANT(type, ...)                                                     \
        (&static_cast<const type &>(CRTI_MADE(&, type, __VA_ARGS__)))
/* The same, but the value itself, for variables and arrays. */
#    define CRTI_VALUE(type, ...) CRTI_MADE(&, type, __VA_ARGS__)
/* The same for a constant at file scope, which needs members that are constants, too. */
#    define CRTI_DEFAULTS(type, ...)                                                     \
        ([]() -> const type * {                                                          \
            static const type crt_kept = CRTI_MADE(, type, __VA_ARGS__);                 \
            return &crt_kept;                                                            \
        }())
#else
#    define CRTI_CONSTANT(type, ...) (&(const type){__VA_ARGS__})
#    define CRTI_VALUE(type, ...)    ((type){__VA_ARGS__})
#    define CRTI_DEFAULTS(type, ...) CRTI_CONSTANT(type, __VA_ARGS__)
#endif

/* One line for each status: name, number, sentence for users. Numbers are part of the wire format
 * and are never reused. The range of an error tells how much is lost for good: -1..-49: only this
 * call; -50..-69: one actor or process; -70..-89: one node; -90..-99: the cluster. */
#define CRT_STATUS_MAP(X)                                                                \
    X(OK, 0, "success")                                                                  \
    X(IN_PROGRESS, 1, "accepted, not finished yet")                                      \
    X(END_OF_STREAM, 2, "the stream has no more results")                                \
    X(ERR_NO_MEMORY, -1, "out of memory")                                                \
    X(ERR_INVALID, -2, "invalid argument")                                               \
    X(ERR_TIMED_OUT, -3, "timed out")                                                    \
    X(ERR_CLOSED, -4, "closed")                                                          \
    X(ERR_UNSUPPORTED, -5, "not supported by this build or device")                      \
    X(ERR_NOT_FOUND, -6, "not found")                                                    \
    X(ERR_EXISTS, -7, "exists already")                                                  \
    X(ERR_IO, -8, "input or output failed")                                              \
    X(ERR_CORRUPT, -9, "data is damaged")                                                \
    X(ERR_PERMISSION, -10, "not permitted")                                              \
    X(ERR_INTERRUPTED, -11, "interrupted by a signal")                                   \
    X(ERR_FORKED, -12, "the runtime belongs to the parent process")                      \
    X(ERR_BACKPRESSURE, -13, "too much is in flight")                                    \
    X(ERR_CANCELLED, -14, "cancelled")                                                   \
    X(ERR_DEADLOCK, -15, "the call would wait for itself")                               \
    X(ERR_STORE_FULL, -16, "the object store is full")                                   \
    X(ERR_TOO_LARGE, -17, "too large")                                                   \
    X(ERR_USER, -18, "the user's function failed")                                       \
    X(ERR_PROTOCOL, -19, "malformed or unexpected message")                              \
    X(ERR_NOT_INITIALIZED, -20, "the runtime is not initialized")                        \
    X(ERR_UNSCHEDULABLE, -21, "no node has the resources")                               \
    X(ERR_RESOURCE_DEADLOCK, -22, "jobs hold what each other waits for")                 \
    X(ERR_ACTOR_DIED, -50, "actor died")                                                 \
    X(ERR_WORKER_DIED, -51, "worker process died")                                       \
    X(ERR_OWNER_DIED, -52, "the owner of the object died")                               \
    X(ERR_OBJECT_LOST, -53, "every copy of the object is lost")                          \
    X(ERR_UNREACHABLE, -54, "the peer is alive but can't be reached")                    \
    X(ERR_NODE_LOST, -70, "node lost")                                                   \
    X(ERR_HEAD_LOST, -90, "the head can't be reached")

/* No limit, for options that are a number of attempts, restarts, calls or results. */
#define CRT_UNLIMITED (-1)
/* No limit, for arguments `wait_ms`: the caller waits without limit. 0 does not wait. */
#define CRT_FOREVER (-1)

typedef enum crt_status {
#define CRT_STATUS_ENUM(name, value, text) CRT_##name = value,
    CRT_STATUS_MAP(CRT_STATUS_ENUM)
#undef CRT_STATUS_ENUM
    /* For CRT_STATUSES: matches every error. No function returns this number. */
    CRT_ANY_ERROR = 3
} crt_status_t;

/* Returns the sentence of a status for users, for example "timed out"; "unknown status" for a
 * number that is not a status. Static text: valid until the process ends, not to be freed. */
CRT_API const char *crt_status_text(crt_status_t status);

/* Returns the name of a status as written in code, for example "CRT_ERR_TIMED_OUT"; "unknown
 * status" for a number that is not a status. Static text: valid until the process ends, not to be
 * freed. */
CRT_API const char *crt_status_name(crt_status_t status);

/* Reports a failure: stores a detail text for the calling thread and returns `status`. The
 * arguments after `status` are a format and values as for printf; at most 1023 bytes are kept. Use
 * crt_raise once, in the line that detects the failure; callers pass the status up unchanged:
 *
 *     return crt_raise(CRT_ERR_NOT_FOUND, "no actor is called \"%s\"", name);
 *
 * crt_raise is a macro, so that the compiler sees the status that is returned. */
#define crt_raise(status, ...) crt_raised((status), crt_error_set_detail(__VA_ARGS__))

/* Parts of crt_raise; programs use crt_raise. crt_error_set_detail stores the detail text for the
 * calling thread and returns 0. `format` and the values are as for printf; at most 1023 bytes are
 * kept. Control characters become '?'. */
CRT_API int crt_error_set_detail(const char *format, ...) CRT_PRINTF(1, 2) CRT_COLD;
static inline crt_status_t crt_raised(crt_status_t status, int ignored)
{
    (void)ignored;
    return status;
}

/* Stores `text` as the detail of the failure of the calling thread and returns `status`, like
 * crt_raise. For languages that cannot call variadic functions. NULL counts as "". */
CRT_API crt_status_t crt_raise_text(crt_status_t status, const char *text);

/* Returns the detail text of the last failure of the calling thread; "" if there was no failure.
 * Borrowed: valid until the next failing call of this thread. */
CRT_API const char *crt_error_detail(void);

/* Frees memory that a function of crt has handed to the program, for example the text of
 * crt_kv_get. NULL is allowed. Use crt_free and not free(): the program may have another allocator
 * than the library. */
CRT_API void crt_free(void *memory);

/* Returns from the calling function with the status of `expression` if the status is an error. For
 * programs; the library itself has no macro that returns. */
#define CRT_TRY(expression)                                                              \
    do {                                                                                 \
        crt_status_t crt_try_status = (expression);                                      \
        if (crt_try_status < 0)                                                          \
            return crt_try_status;                                                       \
    } while (0)

/* Ends the process with exit code 1 if `expression` returns an error, after printing file, line,
 * status and detail to stderr. For programs. */
#define CRT_CHECK(expression) crt_check((expression), #expression, __FILE__, __LINE__)
/* Called by CRT_CHECK: ends the process with exit code 1 if `status` is an error, after printing
 * the status and the other arguments to stderr. */
CRT_API void crt_check(crt_status_t status, const char *expression, const char *file,
                       int line);

/* ---------------------------------------------------------------- tensors */

/* Types of the elements of a tensor. */
typedef enum crt_dtype {
    CRT_DTYPE_FLOAT32 = 1,
    CRT_DTYPE_FLOAT64 = 2,
    CRT_DTYPE_FLOAT16 = 3,
    CRT_DTYPE_BFLOAT16 = 4,
    CRT_DTYPE_INT8 = 5,
    CRT_DTYPE_INT16 = 6,
    CRT_DTYPE_INT32 = 7,
    CRT_DTYPE_INT64 = 8,
    CRT_DTYPE_UINT8 = 9,
    CRT_DTYPE_BOOL = 10,
    CRT_DTYPE_UINT16 = 11,
    CRT_DTYPE_UINT32 = 12,
    CRT_DTYPE_UINT64 = 13
} crt_dtype_t;

/* The largest rank of a tensor. */
#define CRT_TENSOR_DIMS 8

/* Kinds of memory. */
typedef enum crt_device_type {
    /* Main memory. The index is 0. */
    CRT_DEVICE_HOST = 0,
    /* The memory of a GPU of this process. The index is the number of the GPU in CUDA. */
    CRT_DEVICE_GPU = 1
} crt_device_type_t;

/* A device that holds memory. Zero is the default of every member: main memory. */
typedef struct crt_device {
    /* A crt_device_type_t. */
    uint16_t type;
    uint16_t index;
} crt_device_t;

/* Return a device: crt_device_gpu the GPU with this index in CUDA, crt_device_host main memory. */
static inline crt_device_t crt_device_gpu(int index)
{
    crt_device_t device;

    device.type = CRT_DEVICE_GPU;
    device.index = (uint16_t)index;
    return device;
}
static inline crt_device_t crt_device_host(void)
{
    crt_device_t device;

    device.type = CRT_DEVICE_HOST;
    device.index = 0;
    return device;
}

/* Returned by crt_tensor_gpu for a tensor in main memory. */
#define CRT_NO_GPU (-1)

/* A view of numbers in memory. The view does not own the memory. */
typedef struct crt_tensor {
    crt_dtype_t dtype;
    /* The device that holds `data`. Zero: main memory. */
    crt_device_t device;
    /* The number of dimensions, 0 to 8. */
    int32_t rank;
    /* No flags are defined yet. Must be 0; otherwise calls fail with CRT_ERR_UNSUPPORTED. */
    uint32_t flags;
    /* The sizes of the dimensions. */
    int64_t shape[CRT_TENSOR_DIMS];
    /* The distances between neighbours in each dimension, in elements, not in bytes. All strides
     * 0: the tensor is dense and row-major. */
    int64_t strides[CRT_TENSOR_DIMS];
    /* The address of element (0, ..., 0). The program must not write to the data of a tensor from
     * crt_get or crt_args. */
    void *data;
} crt_tensor_t;

/* Returns the index of the GPU that holds a tensor; CRT_NO_GPU if the tensor is in main memory. */
static inline int crt_tensor_gpu(const crt_tensor_t *tensor)
{
    return tensor->device.type == CRT_DEVICE_GPU ? tensor->device.index : CRT_NO_GPU;
}

/* Returns the size of one element in bytes; 0 for a number that is not a dtype. */
CRT_API size_t crt_dtype_size(crt_dtype_t dtype);

/* Returns the name of an element type, for example "float32"; "unknown" for a number that is not a
 * dtype. Static text: valid until the process ends, not to be freed. */
CRT_API const char *crt_dtype_name(crt_dtype_t dtype);

/* Returns a dense row-major view of `data` in main memory. `shape` has `rank` sizes, 0 <= rank <=
 * 8. For any other rank, returns a tensor without dtype, which every call rejects. The view does
 * not own `data`: the memory must stay valid as long as the view is used. */
CRT_API crt_tensor_t crt_tensor_view(crt_dtype_t dtype, int rank, const int64_t *shape,
                                     void *data);

/* Returns a dense one-dimensional float32 view of `count` elements at `data` in main memory. The
 * view does not own `data`: the memory must stay valid as long as the view is used. */
CRT_API crt_tensor_t crt_tensor_floats(float *data, size_t count);

/* Returns the number of elements of a tensor; 1 for rank 0. */
CRT_API size_t crt_tensor_count(const crt_tensor_t *tensor);

/* Returns the size in bytes of a dense copy of a tensor: the number of elements times the size of
 * an element. */
CRT_API size_t crt_tensor_bytes(const crt_tensor_t *tensor);

/* Returns true when the elements of a tensor are dense and row-major, so that `data` can be copied
 * as one block. */
CRT_API bool crt_tensor_is_dense(const crt_tensor_t *tensor);

#ifdef __cplusplus
}
#endif

#endif
