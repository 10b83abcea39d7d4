/* SPDX-License-Identifier: Apache-2.0 */
/* Transfer log: the last objects that processes of this node had brought here, for the timeline.
 * Pure: a ring in memory.
 *
 * Where it sits
 *     objects/transfer.c (asked, answered) -> [ objects/transfer_log.c ] -> dispatch/task_rows.c
 */
#ifndef CRTI_NODE_TRANSFER_LOG_H
#define CRTI_NODE_TRANSFER_LOG_H

#include "runtime/base/id.h"
#include "runtime/node/objects/pull_table.h"

#define CRTI_TRANSFERS 1024 /* that are kept */

typedef struct crti_transfer {
    crti_object_id_t object;
    uint64_t size;
    crti_pull_requester_t requester;
    crti_id_t job, from; /* from: the first node that was named as having it */
    int32_t pid;         /* of the process that asked */
    crt_status_t status;
    uint64_t begun_ns, ended_ns; /* ended 0: it is on its way */
} crti_transfer_t;

typedef struct crti_transfer_log {
    crti_transfer_t *transfers; /* CRTI_TRANSFERS of them, made with the first one */
    uint64_t count;             /* ever: the newest is at (count - 1) % CRTI_TRANSFERS */
} crti_transfer_log_t;

void crti_transfer_log_fini(crti_transfer_log_t *log);
/* Without memory it is not kept. */
void crti_transfer_begun(crti_transfer_log_t *log, const crti_transfer_t *transfer);
/* What the requester waited for has come, or will not. */
void crti_transfer_ended(crti_transfer_log_t *log, crti_pull_requester_t requester,
                         crt_status_t status, uint64_t now_ns);
/* Entry `index` of those that are kept, the newest first; NULL: there are no more. */
const crti_transfer_t *crti_transfer_at(const crti_transfer_log_t *log, size_t index);

#endif
