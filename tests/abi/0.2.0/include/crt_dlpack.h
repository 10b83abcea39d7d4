/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors for other libraries, by DLPack 1.0: NumPy, PyTorch, JAX, CuPy and others read and give
 * memory by the struct crt_dlpack_t. Its layout is that of
 * DLManagedTensorVersioned: a pointer to one is a pointer to the other.
 *
 * Functions may be called from any thread. Not part of crt.h.
 */
#ifndef CRT_DLPACK_H
#define CRT_DLPACK_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct crt_dlpack_version {
    uint32_t major, minor;
} crt_dlpack_version_t;

typedef struct crt_dlpack_device {
    /* 1 host memory, 2 CUDA, 3 CUDA's host memory. */
    int32_t type;
    int32_t id;
} crt_dlpack_device_t;

typedef struct crt_dlpack_dtype {
    /* 0 int, 1 unsigned int, 2 float, 4 bfloat, 6 bool. */
    uint8_t code;
    uint8_t bits;
    /* 1. */
    uint16_t lanes;
} crt_dlpack_dtype_t;

/* DLTensor. */
typedef struct crt_dlpack_view {
    void *data;
    crt_dlpack_device_t device;
    int32_t rank;
    crt_dlpack_dtype_t dtype;
    int64_t *shape;
    /* In elements; NULL: dense and row major. */
    int64_t *strides;
    uint64_t byte_offset;
} crt_dlpack_view_t;

/* In `flags`: the elements are read-only. */
#define CRT_DLPACK_READ_ONLY UINT64_C(1)

/* DLManagedTensorVersioned. */
typedef struct crt_dlpack {
    crt_dlpack_version_t version;
    /* For the library that made the struct. */
    void *manager;
    /* The last user calls this function, once. May be NULL. */
    void (*deleter)(struct crt_dlpack *me);
    uint64_t flags;
    crt_dlpack_view_t view;
} crt_dlpack_t;

/* Waits until the value of a ref is on this node, and gives its tensor without a copy:
 * `view.data` points into the object store, is read-only, and CRT_DLPACK_READ_ONLY is set. The
 * struct holds the ref until its `deleter` is called, by any thread, also after crt_shutdown. The
 * caller still owns its own ref and drops it with crt_ref_drop. `wait_ms`, in milliseconds: 0
 * does not wait, below 0 waits without limit. Any thread may call.
 *
 * Errors: those of crt_get; CRT_ERR_INVALID, when the value is no tensor. */
CRT_API crt_status_t crt_ref_to_dlpack(crt_ref_t *ref, int64_t wait_ms,
                                       crt_dlpack_t **tensor_out);

/* Makes a view of a tensor of another library, for arguments, crt_return, crt_put and
 * collectives. The view is borrowed: valid until the deleter of `tensor` is called. Any thread
 * may call.
 *
 * Errors: CRT_ERR_UNSUPPORTED, when the major version is not 1, the type is no crt_dtype_t, the
 * tensor has more than 8 dimensions, or the memory is neither the host's nor CUDA's. */
CRT_API crt_status_t crt_dlpack_view_of(const crt_dlpack_t *tensor,
                                        crt_tensor_t *view_out);

/* Puts a tensor of another library into the object store, as crt_put does. The elements are
 * copied; a tensor with strides becomes dense. The function takes `tensor`: the deleter is called
 * before the function returns, also after a failure. Never NULL. Caller owns the ref and drops it
 * with crt_ref_drop. Any thread may call. crt_object_create makes an object without a copy. */
CRT_API crt_ref_t *crt_put_dlpack(crt_dlpack_t *tensor);

#ifdef __cplusplus
}
#endif

#endif
