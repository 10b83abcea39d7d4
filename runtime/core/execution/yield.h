/* SPDX-License-Identifier: Apache-2.0 */
/* Streams at their producer. See yield.c. */
#ifndef CRTI_CORE_EXECUTION_YIELD_H
#define CRTI_CORE_EXECUTION_YIELD_H

#include "runtime/core/execution/execution.h"
#include "runtime/core/values/item_numbers.h"

/* What a call has yielded, and may yield. */
typedef struct crti_yields {
    crt_call_t *call;
    uint64_t next;        /* item; those before `skip` have arrived in an earlier try; */
    uint64_t skip, limit; /* so many may be yielded in all */
    crti_item_numbers_t numbers; /* from next, or skip, to limit */
    uint64_t number;             /* that of the item in the making: */
    crti_call_result_t item;
    crti_completion_t ending; /* registrations that it waits for */
    bool is_broken;           /* that wait was: it is not sent, and nothing follows */
} crti_yields_t;

/* CONSUMED came. */
crt_status_t crti_consumed_arrived(crti_client_t *client, const void *data, size_t size);

#endif
