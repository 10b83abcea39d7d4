/* SPDX-License-Identifier: Apache-2.0 */
/* What users ask the cluster to have, in use or not: room for bursts that are to come. */
#ifndef CRTI_CONTROL_CONTROL_RESOURCE_REQUEST_H
#define CRTI_CONTROL_CONTROL_RESOURCE_REQUEST_H

#include "runtime/control/autoscale/demand.h"
#include "runtime/control/control_state.h"

/* RESOURCE_REQUEST: replaces what the job asked for before. CRT_ERR_CLOSED: it has ended. */
void crti_control_resource_request(crti_control_t *c, uint64_t link, uint64_t request,
                                   const crti_msg_resource_request_t *m);
/* All that is asked for, of jobs that run and by command. */
void crti_control_resource_requests_add(const crti_control_t *c, crti_demand_t *demand);
/* The row of what a job asks for is written, or deleted when that is nothing. */
void crti_control_put_resource_request(crti_control_t *c, crti_id_t job);
crt_status_t crti_control_load_resource_request(crti_control_t *c,
                                                const crti_msg_resource_request_t *row);
/* Drops what ended jobs asked for; `unknown`: also jobs that nobody knows. */
void crti_control_resource_requests_end(crti_control_t *c, bool unknown);
void crti_control_resource_requests_free(crti_control_t *c);

#endif
