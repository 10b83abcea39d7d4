/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors for other libraries, by DLPack 1.0: NumPy, PyTorch, JAX, CuPy and others read and give
 * memory by this struct. Its layout is that of DLManagedTensorVersioned: a pointer to
 * one is a pointer to the other.
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
    int32_t type; /* 1 host memory, 2 CUDA, 3 CUDA's host memory */
    int32_t id;
} crt_dlpack_device_t;

typedef struct crt_dlpack_dtype {
    uint8_t code; /* 0 int, 1 unsigned int, 2 float, 4 bfloat, 6 bool */
    uint8_t bits;
    uint16_t lanes; /* 1 */
} crt_dlpack_dtype_t;

/* DLTensor. */
typedef struct crt_dlpack_view {
    void *data;
    crt_dlpack_device_t device;
    int32_t rank;
    crt_dlpack_dtype_t dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: dense and row major */
    uint64_t byte_offset;
} crt_dlpack_view_t;

#define CRT_DLPACK_READ_ONLY                                                             \
    UINT64_C(1) /* in `flags`: nobody may write to the elements */

/* DLManagedTensorVersioned. */
typedef struct crt_dlpack {
    crt_dlpack_version_t version;
    void *manager; /* of who made it */
    void (*deleter)(
        struct crt_dlpack *me); /* called once, by the last user; may be NULL */
    uint64_t flags;
    crt_dlpack_view_t view;
} crt_dlpack_t;

/* Waits until the value of a ref is here and gives the tensor that it is, without a copy:
 * `view.data` points into the object store, is read-only, and CRT_DLPACK_READ_ONLY is set. What
 * is given holds the ref until its `deleter` is called, by any thread, also after crt_shutdown;
 * the caller's own ref is still the caller's to drop. `wait_ms`: 0 does not wait, below 0 waits
 * without limit. Errors: those of crt_get; CRT_ERR_INVALID: the value is no tensor. */
CRT_API crt_status_t crt_ref_to_dlpack(crt_ref_t *ref, int64_t wait_ms,
                                       crt_dlpack_t **tensor_out);

/* A view of what another library gives, for arguments, crt_return, crt_put and collectives:
 * borrowed, valid until its deleter is called. CRT_ERR_UNSUPPORTED: another major version than 1,
 * a type that no crt_dtype_t is, more than 8 dimensions, or memory of a device that is neither
 * the host's nor CUDA's. */
CRT_API crt_status_t crt_dlpack_view_of(const crt_dlpack_t *tensor,
                                        crt_tensor_t *view_out);

/* Puts a tensor of another library into the object store, as crt_put does: the elements are
 * copied, strided ones become dense. `tensor` is taken: its deleter is called before this
 * returns, also when it fails. Never NULL; caller owns the ref. To write an object without a
 * copy, use crt_object_create. */
CRT_API crt_ref_t *crt_put_dlpack(crt_dlpack_t *tensor);

#ifdef __cplusplus
}
#endif

#endif
