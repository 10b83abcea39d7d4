/* SPDX-License-Identifier: Apache-2.0 */
/* The last transfers. See transfer_log.h. */
#include "runtime/node/objects/transfer_log.h"

#include <stdlib.h>

void crti_transfer_log_fini(crti_transfer_log_t *log)
{
    free(log->transfers);
    log->transfers = NULL;
    log->count = 0;
}

void crti_transfer_begun(crti_transfer_log_t *log, const crti_transfer_t *transfer)
{
    if (log->transfers == NULL)
        log->transfers = calloc(CRTI_TRANSFERS, sizeof(*log->transfers));
    if (log->transfers)
        log->transfers[log->count++ % CRTI_TRANSFERS] = *transfer;
}

/* The newest first: what is answered was asked for lately. */
static crti_transfer_t *entry(const crti_transfer_log_t *log, size_t index)
{
    uint64_t kept = log->count < CRTI_TRANSFERS ? log->count : CRTI_TRANSFERS;

    return index < kept ? &log->transfers[(log->count - 1 - index) % CRTI_TRANSFERS]
                        : NULL;
}

void crti_transfer_ended(crti_transfer_log_t *log, crti_pull_requester_t requester,
                         crt_status_t status, uint64_t now_ns)
{
    crti_transfer_t *t;

    for (size_t i = 0; (t = entry(log, i)) != NULL; i++) {
        if (t->ended_ns || t->requester.request != requester.request ||
            !crti_id_equal(t->requester.process, requester.process))
            continue;
        t->status = status;
        t->ended_ns = now_ns;
        return;
    }
}

const crti_transfer_t *crti_transfer_at(const crti_transfer_log_t *log, size_t index)
{
    return entry(log, index);
}
