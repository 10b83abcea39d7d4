/* SPDX-License-Identifier: Apache-2.0 */
/* Errors as calls and refs carry them from one process to another. */
#ifndef CRTI_CORE_VALUES_ERROR_H
#define CRTI_CORE_VALUES_ERROR_H

#include "runtime/base/id.h"
#include "runtime/core/types.h"
#include "runtime/core/values/record.h"

typedef struct crti_error {
    crt_error_t user; /* texts lie behind the struct */
    crti_id_t actor, node;
    char actor_hex[CRTI_ID_HEX], node_hex[CRTI_ID_HEX];
} crti_error_t;

crti_error_t *crti_error_new(const crti_failure_t *failure);
crti_failure_t crti_error_failure(const crti_error_t *error);

#endif
