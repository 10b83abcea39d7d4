/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the library and of the node that simulated processes do not have: private clusters,
 * zygotes of their own, clusters found by files, disks. See system.h. */
#include <stdio.h>

#include "runtime/core/client/context_start.h"
#include "runtime/core/client/private_cluster.h"
#include "runtime/node/links/peer.h"
#include "runtime/node/objects/objects_int.h"
#include "runtime/node/objects/spill.h"
#include "tests/sim/system.h"

crti_process_role_t crti_process_role(crti_worker_identity_t *identity_out,
                                      int *zygote_fd_out)
{
    if (sys->self->kind != SYS_WORKER)
        return CRTI_PROCESS_DRIVER;
    *identity_out = sys->self->identity;
    return CRTI_PROCESS_WORKER;
}

/* The seed has set them, for all processes. */
crt_status_t sys_limits_load(void)
{
    return CRT_OK;
}

void crti_zygote_serve(int fd, crti_worker_identity_t *identity_out)
{
}

void crti_print_by_lines(void)
{
}

crt_status_t crt_cluster_find(const char *address, size_t info_size,
                              crt_cluster_info_t *info_out)
{
    *info_out = (crt_cluster_info_t){.address = "10.0.0.51:6380"};
    snprintf(info_out->run_dir, sizeof(info_out->run_dir), "/n%u", sys->self->host);
    return CRT_OK;
}

bool crti_context_runs(void)
{
    return false;
}

crt_status_t crti_context_cluster(crt_cluster_info_t *info_out)
{
    return crt_raise(CRT_ERR_UNSUPPORTED, "no contexts here");
}

crt_status_t crti_context_of_options(int argc, char **argv, const crt_options_t *options)
{
    return crt_raise(CRT_ERR_UNSUPPORTED, "no contexts here");
}

crt_status_t crti_private_cluster_start(const crt_options_t *options,
                                        crti_private_cluster_t *cluster_out)
{
    return crt_raise(CRT_ERR_UNSUPPORTED, "no private clusters here");
}

void crti_private_cluster_stop(crti_private_cluster_t *cluster)
{
}

/* ---------------------------------------------------------------- nothing is spilled */

bool crti_store_spill_is_unheard(const crti_store_t *store)
{
    return false;
}

uint64_t crti_store_saved_bytes(const crti_store_t *store)
{
    return 0;
}

void crti_spill_init(crti_node_t *node)
{
}

bool crti_spill_pull(crti_node_t *node, crti_object_id_t object,
                     crti_pull_requester_t requester)
{
    return false;
}

const char *crti_spill_lost(const crti_node_t *node, crti_object_id_t object)
{
    return NULL;
}

bool crti_spill_holds(crti_node_t *node, crti_object_id_t object, uint64_t *size_out)
{
    return false;
}

void crti_spill_send(crti_node_t *node, const crti_share_question_t *question)
{
    crti_node_answer_error((crti_stream_t *)(uintptr_t)question->link, question->request,
                           CRT_ERR_NOT_FOUND, "the object is on this node no more");
}

void crti_spill_stream_closed(crti_node_t *node, const crti_stream_t *stream)
{
}

uint64_t crti_spill_tick(crti_node_t *node, uint64_t now_ns)
{
    return UINT64_MAX;
}

const char *crti_spill_trouble(const crti_node_t *node, char *text, size_t size)
{
    *text = '\0';
    return text;
}
