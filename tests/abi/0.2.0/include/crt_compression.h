/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients in fewer bytes: for programs whose network is slower than their processors.
 *
 *     crt_compressor_new -> crt_compressor_encode (one process)
 *         ==== bytes ====> crt_compression_decode (another process)
 *
 * A method that keeps its error adds the lost part of a gradient to the next gradient that the same
 * compressor encodes, so that the lost part arrives later. Use one compressor for each sender and
 * range of weights.
 *
 *     none       4 bytes for each float
 *     lz4        lossless: byte planes, packed by LZ4
 *     float16    2 bytes; values beyond 65,504 become infinite, and an optimizer refuses them
 *     bfloat16   2 bytes with the range of float32 and 8 bits of precision
 *     top_k      the largest 1 % by default, 8 bytes for each; keeps the error
 *     one_bit    a sign for each float and two means for each 128; keeps the error
 *
 * The functions are in the library of crt_actors.h: cc app.c $(pkg-config --cflags --libs crt_ml)
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

/* The name of a method, such as "none" or "lz4". NULL when there is no such method. Static
 * text. */
CRT_API const char *crt_compression_name(crt_compression_t method);

/* Reads the name of a method. Errors: CRT_ERR_INVALID, when there is no such method
 * (the text lists all names). */
CRT_API crt_status_t crt_compression_parse(const char *name,
                                           crt_compression_t *method_out);

/* Encodes gradients of one size and keeps the part of them that was lost. One thread at a time
 * uses a compressor. */
typedef struct crt_compressor crt_compressor_t;

/* Makes a compressor for gradients of `count` floats (1 to 2^31 - 1). `keep` is the part of
 * the floats that top_k sends, above 0 and at most 1; 0 means 0.01. Caller owns the result and
 * drops it with crt_compressor_drop.
 *
 * Errors: CRT_ERR_INVALID, when `method`, `count` or `keep` is wrong; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_compressor_new(crt_compression_t method, size_t count,
                                        double keep, crt_compressor_t **compressor_out);

/* The largest number of bytes that an encoded gradient of this compressor can have. */
CRT_API size_t crt_compressor_bound(const crt_compressor_t *compressor);

/* Encodes `values` (`count` floats, as given to crt_compressor_new) into `bytes`, which has
 * room for crt_compressor_bound bytes. Returns the number of bytes written. */
CRT_API size_t crt_compressor_encode(crt_compressor_t *compressor, const float *values,
                                     void *bytes);

/* The part of earlier gradients that was lost and is still to be sent: `count` floats. NULL
 * for methods that keep no error. A program that continues from a checkpoint restores these
 * numbers by writing to them. Borrowed: valid until the compressor is freed. */
CRT_API float *crt_compressor_error(crt_compressor_t *compressor);

/* Frees a compressor and sets the pointer to NULL. NULL is allowed. */
CRT_API void crt_compressor_drop(crt_compressor_t **compressor);

/* Decodes `size` bytes into `values`, which has room for `count` floats. The bytes contain
 * their method and may come from an untrusted sender.
 *
 * Errors: CRT_ERR_CORRUPT, when the bytes are not an encoded gradient of `count` floats;
 * `values` is then undefined. */
CRT_API crt_status_t crt_compression_decode(const void *bytes, size_t size, float *values,
                                            size_t count);

#ifdef __cplusplus
}
#endif

#endif
