/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of anybody's: of arguments, of records, of HTTP. Nobody else judges a shape.
 *
 * A shape that is taken can be counted, and its strides can be, whatever loops go over it.
 */
#ifndef CRTI_BASE_TENSOR_CHECK_H
#define CRTI_BASE_TENSOR_CHECK_H

#include "runtime/base/crt_base.h"

#define CRTI_DTYPE_LAST                                                                  \
    CRT_DTYPE_UINT64 /* dtypes are the numbers from CRT_DTYPE_FLOAT32 to this one */

#define CRTI_TENSOR_ROWS_ANY SIZE_MAX
#define CRTI_TENSOR_ROWS_FAR ((size_t)65536) /* of a stranger's tensor without elements */

/* Bytes of a dense tensor. CRT_ERR_INVALID: no dtype, a rank that is not 0 to 8, a size below 0, or
 * more than any memory has. One without elements still has rows: the product of its other sizes is
 * at most `most_rows`. */
crt_status_t crti_tensor_size(crt_dtype_t dtype, int rank, const int64_t *shape,
                              size_t most_rows, size_t *bytes_out);

/* All are 0 or 1: no other byte may be read as a bool. */
bool crti_tensor_are_bools(const void *data, size_t count);

/* CRT_ERR_UNSUPPORTED: flags, or a type of device, that this version does not know. */
crt_status_t crti_tensor_check_known(const crt_tensor_t *tensor);

/* Whether all of it can be read here, and the bytes of its elements. The errors of both; of NULL
 * and of elements without data (CRT_ERR_INVALID); of the memory of a GPU (CRT_ERR_UNSUPPORTED). */
crt_status_t crti_tensor_check_host(const crt_tensor_t *tensor, size_t *bytes_out);

#endif
