/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the head to nodes, by number.
 *
 * Where it sits
 *     control_actor.c, control_job.c, control_forward.c -> [ control/control_request.c ]
 * Life
 *     From crti_control_new_request until the node's answer, the end of its link or a deadline,
 *     which control_forward.c hands to the one who asked; or until crti_control_cancel_request.
 */
#include <stdlib.h>

#include "runtime/control/control_request.h"
#include "runtime/control/control_state.h"

/* Numbers of a later head are others: a node may answer it late what the one before asked. */
#define LIFE_SHIFT 40

void crti_request_unlink(crti_control_t *c, crti_request_t *request)
{
    crti_list_remove(&request->in_requests);
    crti_map_remove(&c->request_map, &request->number);
}

void crti_request_free(crti_request_t *request)
{
    free(request->name);
    free(request);
}

void crti_request_forget(crti_control_t *c, crti_request_t *request)
{
    crti_request_unlink(c, request);
    crti_request_free(request);
}

void crti_control_cancel_request(crti_control_t *c, uint64_t number)
{
    crti_request_t *request = crti_map_get(&c->request_map, &number);

    if (request)
        crti_request_forget(c, request);
}

crti_request_t *crti_control_new_request(crti_control_t *c, const crti_node_entry_t *node,
                                         crti_message_kind_t kind, crti_id_t subject)
{
    crti_request_t *request = calloc(1, sizeof(*request));

    if (request == NULL)
        return NULL;
    request->number = c->head_incarnation << LIFE_SHIFT | ++c->last_request;
    if (crti_map_put(&c->request_map, &request->number, request) != CRT_OK) {
        free(request);
        return NULL;
    }
    request->kind = kind;
    request->link = node->link;
    request->node = node->id;
    request->subject = subject;
    request->deadline_ns = UINT64_MAX; /* ends with the link */
    crti_list_append(&c->requests, &request->in_requests);
    return request;
}

void crti_request_set_deadline(crti_control_t *c, crti_request_t *request, uint64_t at_ns)
{
    request->deadline_ns = at_ns;
    crti_list_remove(&request->in_requests);
    crti_list_append(c->requests.next, &request->in_requests);
}

bool crti_request_has_deadline(const crti_request_t *request)
{
    return request->deadline_ns != UINT64_MAX;
}
