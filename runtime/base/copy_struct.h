/* SPDX-License-Identifier: Apache-2.0 */
/* Structs that a program gives, as this version of the library knows them. Programs are compiled
 * with other versions of the headers: docs/abi.md has the rules.
 *
 * Where it sits
 *     functions of the public headers that take options -> [ copy_struct.c ]
 *     It is part of libcrt and of libcrt_ml, which do not share what is not public.
 */
#ifndef CRTI_BASE_COPY_STRUCT_H
#define CRTI_BASE_COPY_STRUCT_H

#include "runtime/base/crt_base.h"

/* Larger ones are none: their first bytes are no size. */
#define CRTI_STRUCT_MAX 4096

/* Copies `given`, which begins with its size as a size_t, to `mine`, which has `size` bytes and
 * gets that size. A shorter one comes from an older program: the rest is zero, which means the
 * default. A longer one comes from a newer program: its rest must be zero, else
 * CRT_ERR_UNSUPPORTED says at which byte it is not. CRT_ERR_INVALID: the size is none; the text
 * names `macro`, with which the struct is made. NULL as `given`: all is zero. */
crt_status_t crti_copy_struct(void *mine, size_t size, const void *given,
                              const char *macro);

#define CRTI_COPY_STRUCT(mine, given, macro)                                             \
    crti_copy_struct((mine), sizeof(*(mine)), 1 ? (given) : (mine), (macro))

/* Writes `mine`, of `mine_size` bytes, to `to`, where the program has `size` bytes: what an
 * older program does not have is left out, what a newer one has is zero. */
void crti_give_struct(void *to, size_t size, const void *mine, size_t mine_size);

/* The bytes of a struct up to the end of a member: what a program has at least when the member
 * came with the first version. */
#define CRTI_SIZE_TO(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

#endif
