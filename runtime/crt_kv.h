/* SPDX-License-Identifier: Apache-2.0 */
/* The key-value store of the cluster, durable in its control store. Part of crt.h.
 *
 * Errors of all: CRT_ERR_INVALID (a key that is NULL, "" or longer than 255 bytes),
 * CRT_ERR_NOT_INITIALIZED, CRT_ERR_HEAD_LOST and CRT_ERR_TIMED_OUT (no answer within 30 s: the
 * request may be carried out yet), CRT_ERR_IO (the control store can't carry the request out).
 *
 * Functions may be called from any thread of a driver or worker.
 */
#ifndef CRT_KV_H
#define CRT_KV_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Stores a value of up to 1 MiB, durable when the function returns. CRT_ERR_EXISTS: there is such a
 * key, and `overwrite` is false. */
CRT_API crt_status_t crt_kv_put(const char *key, const void *value, size_t size,
                                bool overwrite);

/* Reads a value; the caller frees `*value_out` with free(). A zero byte that `*size_out` does not
 * count follows it. `size_out` may be NULL. CRT_ERR_NOT_FOUND: there is no such key. */
CRT_API crt_status_t crt_kv_get(const char *key, void **value_out, size_t *size_out);

/* Deletes a key. CRT_ERR_NOT_FOUND: there is no such key. */
CRT_API crt_status_t crt_kv_delete(const char *key);

/* Replaces a value if it is exactly `expected_size` bytes at `expected`, in one step that no
 * other process sees half done; a request that is sent again because a link or the head was lost
 * is carried out once, and its answer is that of the first time. `expected` NULL: there must be
 * no such key. `value` NULL: the key is deleted. `*swapped_out` says whether it was as expected:
 * false is CRT_OK, nothing has changed then. Values have up to 1 MiB. */
CRT_API crt_status_t crt_kv_swap(const char *key, const void *expected,
                                 size_t expected_size, const void *value,
                                 size_t value_size, bool *swapped_out);

/* The keys that begin with `prefix` ("": all), in the order of their bytes: one text behind the
 * other, each with its final zero, `*size_out` bytes in all. NULL and 0 when there is none. The
 * caller frees `*keys_out` with free(). CRT_ERR_TOO_LARGE: their names have more than 16 MB
 * together.
 *     for (const char *key = keys; key < keys + size; key += strlen(key) + 1)
 *         puts(key); */
CRT_API crt_status_t crt_kv_keys(const char *prefix, char **keys_out, size_t *size_out);

#ifdef __cplusplus
}
#endif

#endif
