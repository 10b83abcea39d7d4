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

/* Stores a value of up to 1 MiB under a key. The value is durable when the function returns. Any
 * thread may call.
 *
 * Errors: CRT_ERR_EXISTS, when the key exists and `overwrite` is false; CRT_ERR_INVALID, when
 * `key` is NULL, "" or longer than 255 bytes, or when `value` is NULL and `size` is not 0, or above
 * 1 MiB; CRT_ERR_NOT_INITIALIZED; CRT_ERR_HEAD_LOST or CRT_ERR_TIMED_OUT, when the head does not
 * answer within 30 s (the request may still be carried out); CRT_ERR_IO, when the control store
 * can't carry the request out. */
CRT_API crt_status_t crt_kv_put(const char *key, const void *value, size_t size,
                                bool overwrite);

/* Reads the value of a key. Caller owns `*value_out` and frees it with crt_free. A zero byte
 * follows the value; `*size_out` does not count that byte. `size_out` may be NULL. Any thread may
 * call.
 *
 * Errors: CRT_ERR_NOT_FOUND, when there is no such key; CRT_ERR_INVALID, when `key` is NULL, ""
 * or longer than 255 bytes, or `value_out` is NULL; CRT_ERR_NOT_INITIALIZED; CRT_ERR_HEAD_LOST or
 * CRT_ERR_TIMED_OUT, when the head does not answer within 30 s (the request may still be carried
 * out); CRT_ERR_IO, when the control store can't carry the request out. */
CRT_API crt_status_t crt_kv_get(const char *key, void **value_out, size_t *size_out);

/* Deletes a key and its value. Any thread may call.
 *
 * Errors: CRT_ERR_NOT_FOUND, when there is no such key; CRT_ERR_INVALID, when `key` is NULL, ""
 * or longer than 255 bytes; CRT_ERR_NOT_INITIALIZED; CRT_ERR_HEAD_LOST or CRT_ERR_TIMED_OUT, when
 * the head does not answer within 30 s (the request may still be carried out); CRT_ERR_IO, when
 * the control store can't carry the request out. */
CRT_API crt_status_t crt_kv_delete(const char *key);

/* Replaces a value if the present value is exactly the `expected_size` bytes at `expected`. No
 * other process sees a state in between. A request that is sent again, because a link or the head
 * was lost, is carried out once, and its answer is that of the first time. `expected` NULL: the
 * key must not exist. `value` NULL: the key is deleted. A value has up to 1 MiB. `*swapped_out`
 * is true when the value was as expected; when false, the call returns CRT_OK and nothing has
 * changed. Any thread may call.
 *
 * Errors: CRT_ERR_INVALID, when `key` is NULL, "" or longer than 255 bytes, a value is NULL with a
 * size or above 1 MiB, or `swapped_out` is NULL; CRT_ERR_NOT_INITIALIZED; CRT_ERR_HEAD_LOST or
 * CRT_ERR_TIMED_OUT, when the head does not answer within 30 s (the request may still be carried
 * out); CRT_ERR_IO, when the control store can't carry the request out. */
CRT_API crt_status_t crt_kv_swap(const char *key, const void *expected,
                                 size_t expected_size, const void *value,
                                 size_t value_size, bool *swapped_out);

/* Lists the keys that begin with `prefix` ("": all keys), in the order of their bytes.
 * `*keys_out` is one text after the other, each with its final zero, `*size_out` bytes in all.
 * Without such a key `*keys_out` is NULL and `*size_out` is 0. Caller owns `*keys_out` and frees
 * it with crt_free. Any thread may call.
 *
 *     for (const char *key = keys; key < keys + size; key += strlen(key) + 1)
 *         puts(key);
 *
 * Errors: CRT_ERR_TOO_LARGE, when the keys have more than 16 MB together; CRT_ERR_INVALID, when
 * `prefix` is NULL or longer than 255 bytes; CRT_ERR_NOT_INITIALIZED; CRT_ERR_HEAD_LOST or
 * CRT_ERR_TIMED_OUT, when the head does not answer within 30 s (the request may still be carried
 * out); CRT_ERR_IO, when the control store can't carry the request out. */
CRT_API crt_status_t crt_kv_keys(const char *prefix, char **keys_out, size_t *size_out);

#ifdef __cplusplus
}
#endif

#endif
