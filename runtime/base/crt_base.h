/* SPDX-License-Identifier: Apache-2.0 */
/* What every public header of crt builds on: status codes, the detail text of an error, and
 * tensors. Include <crt.h>, <crt_ml.h> or <crt_actors.h> instead of this file.
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
/* A function that a later version no longer has; `text` says what to use. Defined as nothing before
 * this header is included, no program is warned. docs/abi.md says how long such a function stays. */
#ifndef CRT_DEPRECATED
#    define CRT_DEPRECATED(text) __attribute__((deprecated(text)))
#endif
#define CRT_PRINTF(format_index, first_argument)                                         \
    __attribute__((format(printf, format_index, first_argument)))

/* A constant of `type` with the named members set, by its address, for the call that it is given to: in
 * C++ it lives no longer. There (C++17 and later) the members are assigned one by one, since it has
 * the names of C only in C++20 and in the order of the struct; at most 16. */
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
#    define CRTI_SET_OF(v, count, ...) CRTI_SET_OF_(v, count, __VA_ARGS__)
#    define CRTI_SET_OF_(v, count, ...) CRTI_SET_##count(v, __VA_ARGS__)
#    define CRTI_SET_COUNT(...)                                                         \
        CRTI_SET_COUNT_(__VA_ARGS__, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4,  \
                         3, 2, 1, 0)
#    define CRTI_SET_COUNT_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, count,   \
                             ...) count
/* `capture` is & inside a function, nothing for a constant of a file. */
#    define CRTI_MADE(capture, type, ...)                                                 \
        [capture]() {                                                                    \
            type crt_made{};                                                             \
            CRTI_SET_OF(crt_made, CRTI_SET_COUNT(__VA_ARGS__), __VA_ARGS__)           \
            return crt_made;                                                             \
        }()
/* clang-format on */
#    define CRTI_CONSTANT(type, ...)                                                     \
        (&static_cast<const type &>(CRTI_MADE(&, type, __VA_ARGS__)))
#else
#    define CRTI_CONSTANT(type, ...) (&(const type){__VA_ARGS__})
#endif

/* One line per status: name, number, the sentence a user reads. Numbers are part of the wire
 * format and are never reused. The ranges say what is lost for good: -1..-49 nothing but
 * this call, -50..-69 one actor or process, -70..-89 one node, -90..-99 the cluster. */
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
    X(ERR_ACTOR_DIED, -50, "actor died")                                                 \
    X(ERR_WORKER_DIED, -51, "worker process died")                                       \
    X(ERR_OWNER_DIED, -52, "the owner of the object died")                               \
    X(ERR_OBJECT_LOST, -53, "every copy of the object is lost")                          \
    X(ERR_UNREACHABLE, -54, "the peer is alive but can't be reached")                    \
    X(ERR_NODE_LOST, -70, "node lost")                                                   \
    X(ERR_HEAD_LOST, -90, "the head can't be reached")

/* "No limit", for each option and argument that has one. */
#define CRT_UNLIMITED (-1) /* of a number of attempts, restarts, results */
#define CRT_FOREVER   (-1) /* of a `wait_ms`: how long the caller waits; 0 does not wait */

typedef enum crt_status {
#define CRT_STATUS_ENUM(name, value, text) CRT_##name = value,
    CRT_STATUS_MAP(CRT_STATUS_ENUM)
#undef CRT_STATUS_ENUM
        CRT_ANY_ERROR = 3 /* among CRT_STATUSES: whatever error; no function returns it */
} crt_status_t;

/* The sentence of a status; static text, "unknown status" for a number that is none. */
CRT_API const char *crt_status_text(crt_status_t status);

/* The name of a status as written in code ("CRT_ERR_TIMED_OUT"); static text. */
CRT_API const char *crt_status_name(crt_status_t status);

/* Says why a call failed: stores the detail for this thread (at most 1023 bytes are kept) and
 * gives `status`. Called once, by the line that decides; callers pass the status up unchanged.
 * A macro, so that the compiler sees which status comes back:
 *     return crt_raise(CRT_ERR_NOT_FOUND, "no actor is called \"%s\"", name); */
#define crt_raise(status, ...) crt_raised((status), crt_error_set_detail(__VA_ARGS__))

/* The two halves of crt_raise. */
CRT_API int crt_error_set_detail(const char *format, ...) CRT_PRINTF(1, 2);
static inline crt_status_t crt_raised(crt_status_t status, int ignored)
{
    (void)ignored;
    return status;
}

/* The same for a detail that is a finished text, for languages that can't call variadic functions: stores it for
 * this thread and gives `status`. NULL is "". */
CRT_API crt_status_t crt_raise_text(crt_status_t status, const char *text);

/* The detail of the last failure raised in this thread, "" if there was none.
 * Borrowed: valid until this thread's next failing call. */
CRT_API const char *crt_error_detail(void);

/* For user code (inside the library no macro hides a return): passes a failure up. */
#define CRT_TRY(expression)                                                              \
    do {                                                                                 \
        crt_status_t crt_try_status = (expression);                                      \
        if (crt_try_status < 0)                                                          \
            return crt_try_status;                                                       \
    } while (0)

/* For programs: prints file, line and detail and exits with 1 when the expression fails. */
#define CRT_CHECK(expression) crt_check((expression), #expression, __FILE__, __LINE__)
CRT_API void crt_check(crt_status_t status, const char *expression, const char *file,
                       int line);

/* ---------------------------------------------------------------- tensors */

typedef enum crt_dtype {
    CRT_FLOAT32 = 1,
    CRT_FLOAT64 = 2,
    CRT_FLOAT16 = 3,
    CRT_BFLOAT16 = 4,
    CRT_INT8 = 5,
    CRT_INT16 = 6,
    CRT_INT32 = 7,
    CRT_INT64 = 8,
    CRT_UINT8 = 9,
    CRT_BOOL = 10,
    CRT_UINT16 = 11,
    CRT_UINT32 = 12,
    CRT_UINT64 = 13
} crt_dtype_t;

#define CRT_TENSOR_DIMS 8 /* the largest rank of a tensor */

typedef enum crt_device_type {
    CRT_DEVICE_HOST = 0, /* main memory; the index is 0 */
    CRT_DEVICE_GPU = 1   /* a GPU of this process, counted as CUDA does */
} crt_device_type_t;

/* Where memory lies. All zero is the host. */
typedef struct crt_device {
    uint16_t type; /* crt_device_type_t */
    uint16_t index;
} crt_device_t;

/* The GPU of that index, and the host. */
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

#define CRT_NO_GPU (-1)

/* A view of numbers in memory. The view owns nothing; `data` points at element (0, ..., 0). */
typedef struct crt_tensor {
    crt_dtype_t dtype;
    crt_device_t device; /* where `data` lies; zero: in main memory */
    int32_t rank;
    uint32_t flags; /* none are defined yet: 0, or the tensor is refused */
    /* Strides are in elements, not in bytes. All strides 0: dense and row major, as crt_tensor_view
     * makes them. */
    int64_t shape[CRT_TENSOR_DIMS];
    int64_t strides[CRT_TENSOR_DIMS];
    void *data; /* of a tensor that was read (crt_get, crt_args): not to be written to */
} crt_tensor_t;

/* The index of the GPU in whose memory a tensor lies; CRT_NO_GPU: in main memory. */
static inline int crt_tensor_gpu(const crt_tensor_t *tensor)
{
    return tensor->device.type == CRT_DEVICE_GPU ? tensor->device.index : CRT_NO_GPU;
}

/* Bytes of one element, 0 for a number that is no dtype. */
CRT_API size_t crt_dtype_size(crt_dtype_t dtype);

/* "float32" and so on, "unknown" for a number that is no dtype. */
CRT_API const char *crt_dtype_name(crt_dtype_t dtype);

/* A dense row-major view over `data`. `shape` holds `rank` sizes, 0 <= rank <= 8; any other
 * rank gives a tensor without dtype, which every call refuses. */
CRT_API crt_tensor_t crt_tensor_view(crt_dtype_t dtype, int rank, const int64_t *shape,
                                     void *data);

/* Dense one-dimensional float32 view of `count` elements: the common case. */
CRT_API crt_tensor_t crt_tensor_floats(float *data, size_t count);

/* Number of elements; 1 for rank 0. */
CRT_API size_t crt_tensor_count(const crt_tensor_t *tensor);

/* Bytes of a dense copy. */
CRT_API size_t crt_tensor_bytes(const crt_tensor_t *tensor);

/* True when the elements lie dense and row major, so that `data` can be copied as one span. */
CRT_API bool crt_tensor_is_dense(const crt_tensor_t *tensor);

#ifdef __cplusplus
}
#endif

#endif
