/* SPDX-License-Identifier: Apache-2.0 */
/* Compression: the bodies of encoded gradients, one pair of functions for each method.
 *
 *     "crg" METHOD, 4 bytes for the method (top_k: how many floats), count (8 bytes), body
 *
 * All numbers little endian, as the processors are that crt runs on.
 */
#ifndef CRTI_ACTORS_COMPRESSION_H
#define CRTI_ACTORS_COMPRESSION_H

#include <stdint.h>
#include <string.h>

#include <crt_compression.h>

#define CRTI_COMPRESSION_BLOCK    ((size_t)4096) /* floats that LZ4 packs at once */
#define CRTI_COMPRESSION_ONE_BITS ((size_t)128)  /* floats with two means in common */

/* Encoders return the bytes they wrote, decoders whether all of `size` bytes were a body of `count`
 * floats. */
size_t crti_lz4_bound(size_t count);
size_t crti_lz4_encode(const float *values, size_t count, unsigned char *body);
bool crti_lz4_decode(const unsigned char *body, size_t size, float *values, size_t count);

/* Encoders with an error leave in `values` what they have not sent. */
size_t crti_top_k_encode(float *values, size_t count, uint32_t kept, unsigned char *body);
bool crti_top_k_decode(const unsigned char *body, size_t size, uint32_t kept,
                       float *values, size_t count);

size_t crti_one_bit_bound(size_t count);
size_t crti_one_bit_encode(float *values, size_t count, unsigned char *body);
bool crti_one_bit_decode(const unsigned char *body, size_t size, float *values,
                         size_t count);

#endif
