/* SPDX-License-Identifier: Apache-2.0 */
/* Room that a program asks the cluster to have (crt_placement_group.h).
 *
 * Where it sits
 *     user code -> [ core/client/resource_request.c ] -> RESOURCE_REQUEST -> head
 */
#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/core/client/bundles.h"
#include "runtime/core/client/cluster_view.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"

crt_status_t crt_request_resources(const crt_bundle_t *bundles, size_t count)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_msg_resource_request_t m = {.bundles = {NULL, 0}};
    crti_core_t *core = crti_enter();
    crti_message_t answer;
    crt_status_t status;

    if (!core)
        return crti_entry_status();
    m.job = core->job;
    crti_leave(core);
    status = crti_bundles_pack(bundles, count, &list);
    if (status != CRT_OK)
        return status;
    m.bundles = crti_span(list.data, list.size);
    return crti_head_question(CRTI_MSG_RESOURCE_REQUEST, &m, CRTI_MSG_DONE,
                              (int64_t)(CRTI_LIMIT(head_timeout) / CRTI_MS), &answer,
                              &storage);
}
