/* SPDX-License-Identifier: Apache-2.0 */
/* Blocking: a thread waits for something that others bring. See blocking.c. */
#ifndef CRTI_CORE_PROCESS_BLOCKING_H
#define CRTI_CORE_PROCESS_BLOCKING_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/core/types.h"

/* The waits of a worker's main thread. */
typedef struct crti_blocking {
    bool is_blocked;   /* the node was told so */
    uint64_t count;    /* of waits begun and ended: a chain is about one of them */
    crt_ref_t *ref;    /* what it waits for; NULL: nothing, or several */
    bool is_cancelled; /* the call that runs: no wait inside it goes on */
    char *deadlock;    /* the cycle that the wait is part of, found by a chain */
} crti_blocking_t;

/* Waits until `done`; the worker's main thread reports that it is blocked. Lock held. */
crt_status_t crti_wait_for(crti_core_t *core, bool (*done)(void *user), void *user,
                           int64_t timeout_ms, crt_ref_t *ref);
/* The call that the main thread runs was cancelled; or it runs another one. */
void crti_blocking_cancel(crti_core_t *core, bool is_cancelled);
/* The wait of the main thread is part of a cycle: it ends with CRT_ERR_DEADLOCK and this text. */
void crti_blocking_deadlock(crti_core_t *core, const char *text);

#endif
