/* SPDX-License-Identifier: Apache-2.0 */
/* What those who asked for an object hear of its pull.
 *
 * Where it sits
 *     transfer.c, spill.c -> [ node/objects/pull_answer.c ] -> a process of this node (DONE,
 *     ERROR), or keep.c
 */
#include "runtime/node/links/local.h"
#include "runtime/node/objects/objects_int.h"
#include "runtime/node/objects/transfer_log.h"
#include "runtime/node/process/process.h"

void crti_pull_tell(crti_node_t *node, crti_pull_requester_t requester,
                    crt_status_t status, const char *text)
{
    crti_process_t *process = crti_process_get(node, requester.process);
    crti_msg_error_t error = {.status = status, .text = crti_str(text)};

    if (crti_id_is_zero(requester.process)) {
        node->pulls->on_keep_pulled(node, requester.request, status, text);
        return;
    }
    crti_transfer_ended(&node->pulls->log, requester, status, crti_node_now(node));
    if (status == CRT_OK)
        crti_local_send(process, CRTI_MSG_DONE, requester.request, NULL);
    else
        crti_local_send(process, CRTI_MSG_ERROR, requester.request, &error);
}
