/* SPDX-License-Identifier: Apache-2.0 */
/* Bundles of placement groups on this node. See bundle.h. */
#include "runtime/node/leases/bundle.h"

#include "runtime/node/leases/bundle_table.h"
#include "runtime/node/leases/leases_int.h"
#include "runtime/node/leases/room.h"
#include "runtime/node/links/head.h"

void crti_bundle_reserve(crti_node_t *node, uint64_t request,
                         const crti_msg_bundle_reserve_t *m)
{
    crti_bundle_t bundle = {.group = m->group,
                            .index = m->bundle,
                            .incarnation = m->incarnation,
                            .job = m->job,
                            .resources = m->resources};
    crt_status_t status =
        node->stopping
            ? crt_raise(CRT_ERR_BACKPRESSURE, "the node is stopping")
            : crti_lease_table_reserve(node->lease_table, &bundle, crti_node_now(node));

    if (status == CRT_OK)
        crti_head_send(node, CRTI_MSG_DONE, request, NULL);
    else
        crti_head_send_error(node, request, status, crt_error_detail());
    crti_lease_end_returned(node, "its bundle of the placement group was placed anew");
    crti_lease_act(node);
}

void crti_bundle_return(crti_node_t *node, const crti_msg_bundle_return_t *m)
{
    char text[512];

    if (crti_lease_table_return(node->lease_table, m->group, m->bundle, m->incarnation,
                                crti_node_now(node)))
        crti_lease_end_returned(node, crti_text(m->text, text, sizeof(text)));
    crti_lease_act(node);
}

static crti_bundle_t *first(crti_node_t *node)
{
    crti_list_t *at = NULL;
    size_t group = 0;

    return crti_bundle_table_next(&crti_lease_table_room(node->lease_table)->bundles,
                                  &group, &at);
}

void crti_bundle_return_all(crti_node_t *node, const char *text)
{
    const crti_bundle_t *bundle;

    while ((bundle = first(node)))
        crti_lease_table_return(node->lease_table, bundle->group, bundle->index,
                                bundle->incarnation, crti_node_now(node));
    crti_lease_end_returned(node, text);
    crti_lease_act(node);
}

crt_status_t crti_bundle_list(crti_node_t *node, crti_buffer_t *list)
{
    const crti_bundle_table_t *bundles =
        &crti_lease_table_room(node->lease_table)->bundles;
    const crti_bundle_t *bundle;
    crti_list_t *at = NULL;
    size_t group = 0;
    crt_status_t status = CRT_OK;

    while (status == CRT_OK && (bundle = crti_bundle_table_next(bundles, &group, &at))) {
        crti_msg_bundle_held_t held = {.group = bundle->group,
                                       .bundle = bundle->index,
                                       .incarnation = bundle->incarnation};

        status = crti_head_pack(list, CRTI_MSG_BUNDLE_HELD, &held);
    }
    return status;
}
