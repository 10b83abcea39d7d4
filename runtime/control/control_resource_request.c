/* SPDX-License-Identifier: Apache-2.0 */
/* Resources that are asked for.
 *
 * Where it sits
 *     crt_request_resources, crt request -> RESOURCE_REQUEST -> [ control_resource_request.c ]
 *         -> control_demand.c
 * Rules
 *     Each job has one request, the last one, which ends with it; by command there is one more,
 *     that ends when it is replaced. It is durable before it is answered, so that a head that is
 *     started again has it. One whose row can't be stored is told to have failed, and counts all
 *     the same until the head ends: its row is tried again.
 */
#include "runtime/control/control_resource_request.h"

#include <stdlib.h>

#include "runtime/base/cleanup.h"
#include "runtime/control/outbox.h"

#define REQUESTS_MAX 1000

typedef struct resource_request {
    crti_list_t link;
    crti_id_t job; /* zero: by command */
    crti_buffer_t bundles;
} resource_request_t;

static bool is_over(const crti_control_t *c, crti_id_t job)
{
    const crti_job_entry_t *entry = crti_job_table_get(&c->jobs, job);

    return !crti_id_is_zero(job) && (!entry || crti_job_entry_is_ended(entry));
}

static void forget(crti_control_t *c, resource_request_t *mine)
{
    crti_list_remove(&mine->link);
    crti_buffer_fini(&mine->bundles);
    free(mine);
    c->resource_request_count--;
}

static crt_status_t read_bundle(crti_span_t packed, crti_demand_entry_t *entry)
{
    crti_message_t m;
    crt_status_t status = crti_message_decode(packed.data, packed.size, &m);

    *entry = (crti_demand_entry_t){
        .kind = CRTI_DEMAND_REQUEST, .how = crti_scheduling_default, .count = 1};
    if (status == CRT_OK && m.kind != CRTI_MSG_BUNDLE)
        status = crt_raise(CRT_ERR_INVALID, "no bundle");
    if (status == CRT_OK)
        status = crti_resources_check(&m.bundle.resources);
    if (status != CRT_OK)
        return status;
    entry->need = m.bundle.resources;
    return crti_scheduling_read(&crti_scheduling_default, m.bundle.selector.data,
                                m.bundle.selector.size, &entry->how);
}

static crt_status_t check(crti_span_t bundles)
{
    crti_demand_entry_t entry;
    crti_span_t one;
    crt_status_t status = CRT_OK;
    size_t count = 0;

    while (status == CRT_OK && crti_list_unpack(&bundles, &one) == CRT_OK)
        status =
            ++count > CRTI_BUNDLES_MAX
                ? crt_raise(CRT_ERR_INVALID, "more than %d bundles", CRTI_BUNDLES_MAX)
                : read_bundle(one, &entry);
    if (status == CRT_OK && bundles.size)
        status = crt_raise(CRT_ERR_INVALID, "no list of bundles");
    return status;
}

static resource_request_t *find(const crti_control_t *c, crti_id_t job)
{
    CRTI_LIST_FOREACH (item, &c->resource_requests) {
        resource_request_t *mine = CRTI_CONTAINER(item, resource_request_t, link);

        if (crti_id_equal(mine->job, job))
            return mine;
    }
    return NULL;
}

static crt_status_t keep(crti_control_t *c, crti_id_t job, crti_span_t bundles)
{
    resource_request_t *mine = find(c, job);
    crt_status_t status;

    if (mine)
        forget(c, mine);
    if (!bundles.size)
        return CRT_OK;
    if (c->resource_request_count >= REQUESTS_MAX)
        return crt_raise(CRT_ERR_NO_MEMORY, "%d jobs ask for resources", REQUESTS_MAX);
    mine = calloc(1, sizeof(*mine));
    if (!mine)
        return crt_raise(CRT_ERR_NO_MEMORY, "a request for resources");
    mine->job = job;
    crti_list_append(&c->resource_requests, &mine->link);
    c->resource_request_count++;
    status = crti_buffer_assign(&mine->bundles, bundles.data, bundles.size);
    if (status != CRT_OK)
        forget(c, mine);
    return status;
}

void crti_control_resource_request(crti_control_t *c, uint64_t link, uint64_t request,
                                   const crti_msg_resource_request_t *m)
{
    crt_status_t status = check(m->bundles);

    /* Programs may ask whatever cluster they are in; a command means one that has it. */
    if (status == CRT_OK && m->bundles.size && crti_id_is_zero(m->job) && !c->autoscaler)
        status = crt_raise(CRT_ERR_UNSUPPORTED,
                           "the cluster has no autoscaler, which would make room for "
                           "what is asked for (crt start --head --autoscaler FILE)");
    /* While nodes are expected, the one with its driver may be to come. */
    if (status == CRT_OK && !c->joining && is_over(c, m->job))
        status =
            crt_raise(CRT_ERR_CLOSED, "its job has ended, and what it asks for with it");
    if (status == CRT_OK)
        status = keep(c, m->job, m->bundles);
    if (status != CRT_OK) {
        crti_control_refuse(c, link, request, status);
        return;
    }
    crti_control_put_resource_request(c, m->job);
    crti_control_answer(c, link, CRTI_MSG_DONE, request, NULL, true);
}

void crti_control_put_resource_request(crti_control_t *c, crti_id_t job)
{
    const resource_request_t *mine = find(c, job);
    crti_msg_resource_request_t row = {.job = job};

    if (!mine) {
        crti_control_delete(c, CRTI_STORE_RESOURCE_REQUESTS, job);
        return;
    }
    row.bundles = crti_span(mine->bundles.data, mine->bundles.size);
    crti_control_put(c, CRTI_STORE_RESOURCE_REQUESTS, job, CRTI_MSG_RESOURCE_REQUEST,
                     &row);
}

crt_status_t crti_control_load_resource_request(crti_control_t *c,
                                                const crti_msg_resource_request_t *row)
{
    crt_status_t status = check(row->bundles);

    return status == CRT_OK ? keep(c, row->job, row->bundles) : status;
}

void crti_control_resource_requests_end(crti_control_t *c, bool unknown)
{
    CRTI_LIST_FOREACH_SAFE (item, &c->resource_requests) {
        resource_request_t *mine = CRTI_CONTAINER(item, resource_request_t, link);
        crti_id_t job = mine->job;

        if (!is_over(c, job) || (!unknown && !crti_job_table_get(&c->jobs, job)))
            continue;
        forget(c, mine);
        crti_control_delete(c, CRTI_STORE_RESOURCE_REQUESTS, job);
    }
}

void crti_control_resource_requests_add(const crti_control_t *c, crti_demand_t *demand)
{
    CRTI_LIST_FOREACH (item, &c->resource_requests) {
        const resource_request_t *mine = CRTI_CONTAINER(item, resource_request_t, link);
        crti_span_t rest = crti_span(mine->bundles.data, mine->bundles.size), one;
        crti_demand_entry_t entry;

        while (!is_over(c, mine->job) && crti_list_unpack(&rest, &one) == CRT_OK)
            if (read_bundle(one, &entry) == CRT_OK)
                crti_demand_add(demand, &entry);
    }
}

void crti_control_resource_requests_free(crti_control_t *c)
{
    while (!crti_list_is_empty(&c->resource_requests))
        forget(c, CRTI_CONTAINER(c->resource_requests.next, resource_request_t, link));
}
