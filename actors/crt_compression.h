/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients in fewer bytes: for programs whose network is slower than their processors.
 *
 *     crt_compressor_new -> crt_compressor_encode (one process) ==== bytes ====> crt_compression_decode (another)
 *
 * What is lost by a method that keeps an error is added to the next gradient that the same compressor encodes, so
 * that it arrives later: one compressor for each sender and range of weights.
 *
 *     none       4 bytes for each float
 *     lz4        lossless: byte planes, packed by LZ4
 *     float16    2 bytes; beyond 65,504 it is infinite, and refused by an optimizer
 *     bfloat16   2 bytes with the range of float32 and 8 bits of precision
 *     top_k      the largest 1 % by default, 8 bytes for each; keeps the error
 *     one_bit    a sign for each float and two means for each 128; keeps the error
 *
 * It is in the library of crt_actors.h: cc app.c $(pkg-config --cflags --libs crt_ml)
 */
#ifndef CRT_COMPRESSION_H
#define CRT_COMPRESSION_H

#include "crt_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum crt_compression {
    CRT_COMPRESSION_NONE = 0,
    CRT_COMPRESSION_LZ4 = 1,
    CRT_COMPRESSION_FLOAT16 = 2,
    CRT_COMPRESSION_BFLOAT16 = 3,
    CRT_COMPRESSION_TOP_K = 4,
    CRT_COMPRESSION_ONE_BIT = 5
} crt_compression_t;

/* "none", "lz4" and so on; static. NULL when there is no such method. */
CRT_API const char *crt_compression_name(crt_compression_t method);

/* The method of that name. CRT_ERR_INVALID, with all names, when there is none. */
CRT_API crt_status_t crt_compression_find(const char *name,
                                          crt_compression_t *method_out);

/* Encodes gradients of one size; keeps what was lost of them. Used by one thread at a time. */
typedef struct crt_compressor crt_compressor_t;

/* For gradients of `count` floats (1 to 2^31 - 1). `keep` is the part of them that top_k sends, above 0 and at
 * most 1; 0: 0.01. Caller owns the result and frees it with crt_compressor_free. */
CRT_API crt_status_t crt_compressor_new(crt_compression_t method, size_t count,
                                        double keep, crt_compressor_t **compressor_out);

/* Bytes that any gradient may need at most. */
CRT_API size_t crt_compressor_bound(const crt_compressor_t *compressor);

/* Encodes `values` (count floats) into `bytes`, which has room for crt_compressor_bound. Returns how many bytes
 * they are. */
CRT_API size_t crt_compressor_encode(crt_compressor_t *compressor, const float *values,
                                     void *bytes);

/* What was lost so far and is still to be sent: count float32; NULL for methods that keep no error. A program that
 * goes on from a checkpoint writes it back. Borrowed: valid until the compressor is freed. */
CRT_API float *crt_compressor_error(crt_compressor_t *compressor);

/* Frees a compressor; NULL is fine. */
CRT_API void crt_compressor_free(crt_compressor_t *compressor);

/* Decodes into `values`, which has room for `count` floats. The bytes say their method; they may be
 * anybody's. CRT_ERR_CORRUPT when they are no gradient of `count` floats: then `values` is undefined. */
CRT_API crt_status_t crt_compression_decode(const void *bytes, size_t size, float *values,
                                            size_t count);

#ifdef __cplusplus
}
#endif

#endif
