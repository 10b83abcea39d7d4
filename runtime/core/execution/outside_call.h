/* SPDX-License-Identifier: Apache-2.0 */
/* Calls from outside the cluster, in the worker that runs them. See outside_call.c. */
#ifndef CRTI_CORE_EXECUTION_OUTSIDE_CALL_H
#define CRTI_CORE_EXECUTION_OUTSIDE_CALL_H

#include "runtime/core/execution/execution.h"

/* A call whose function was looked up by its name: may it be called from outside?
 * CRT_ERR_NOT_FOUND: there is no such method, or its class does not say .http; CRT_ERR_PERMISSION:
 * a stranger calls, and it does not say .http_public. */
crt_status_t crti_outside_admit(crt_call_t *call, const crti_call_head_t *head);

/* Its arguments, which are here, become what the signature wants (lists become tensors) or are
 * refused. Without the lock. */
crt_status_t crti_outside_arguments(crt_call_t *call);

#endif
