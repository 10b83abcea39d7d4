/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures: "int, tensor..." parsed once, checked at the caller of every call.
 *
 * Where it sits
 *     crt_call_v, crt_submit_v, crt_actor_new_v -> [ signature ] -> encoding
 * Threads
 *     None; pure functions. A parsed signature is never changed. Tier: message path.
 */
#ifndef CRTI_CORE_SIGNATURE_H
#define CRTI_CORE_SIGNATURE_H

#include "runtime/core/values/value.h"

#define CRTI_SIGNATURE_MAX 32

typedef struct crti_signature {
    bool is_unchecked;                /* signature NULL */
    bool is_open;                     /* the last kind may come any number of times */
    unsigned count;                   /* kinds, the open one included */
    uint8_t kind[CRTI_SIGNATURE_MAX]; /* crt_kind_t; CRT_KIND_NONE: any */
} crti_signature_t;

/* CRT_ERR_INVALID names the word that is no kind. NULL is unchecked. */
crt_status_t crti_signature_parse(const char *text, crti_signature_t *signature_out);

/* Is `arg` (number `index` of the call) what the signature wants? `is_ref_out` tells whether a ref
 * is passed itself (true) or its value. `class_name` and `method` are for the error. */
crt_status_t crti_signature_check(const crti_signature_t *signature, size_t index,
                                  crt_kind_t kind, const crti_place_t *place,
                                  bool *is_ref_out);

/* Is `count` a number of arguments that it takes? */
crt_status_t crti_signature_count(const crti_signature_t *signature, size_t count,
                                  const crti_place_t *place);

#endif
