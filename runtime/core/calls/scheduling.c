/* SPDX-License-Identifier: Apache-2.0 */
/* Scheduling options. See scheduling.h. */
#include "runtime/core/calls/scheduling.h"

#include <stdio.h>
#include <string.h>

#include "runtime/net/protocol.h"

crt_status_t crti_scheduling_resources(double num_cpus, double cpus, double num_gpus,
                                       const char *resources, crti_resources_t *out)
{
    crt_status_t status = CRT_OK;

    if (!resources && num_cpus == 0 && num_gpus == 0 &&
        cpus == 1) { /* as most calls do */
        out->count = 1;
        memcpy(out->item[0].name, "CPU", sizeof("CPU"));
        out->item[0].amount = CRTI_RESOURCE_ONE;
        return CRT_OK;
    }
    out->count = 0; /* the rest of it is long, and not read */
    if (resources)
        status = crti_resources_parse(resources, out);
    if (num_cpus == 0 && crti_resources_get(out, "CPU") == 0)
        num_cpus = cpus;
    if (status == CRT_OK)
        status = crti_resources_set_option(out, "CPU", num_cpus);
    if (status == CRT_OK)
        status = crti_resources_set_option(out, "GPU", num_gpus);
    return status == CRT_OK ? crti_resources_check(out) : status;
}

crt_status_t crti_scheduling_infeasible(crt_infeasible_t option,
                                        int64_t *if_infeasible_out)
{
    switch (option) {
    case CRT_INFEASIBLE_DEFAULT: *if_infeasible_out = CRTI_INFEASIBLE_DEFAULT; break;
    case CRT_INFEASIBLE_FAILS: *if_infeasible_out = CRTI_INFEASIBLE_FAILS; break;
    case CRT_INFEASIBLE_WAITS: *if_infeasible_out = CRTI_INFEASIBLE_WAITS; break;
    default:
        return crt_raise(CRT_ERR_INVALID, "if_infeasible is no crt_infeasible_t: %d",
                         (int)option);
    }
    return CRT_OK;
}

static crt_status_t read_node(crt_scheduling_t strategy, const char *node_id,
                              bool is_soft, crti_scheduling_t *how)
{
    if (strategy != CRT_SCHEDULE_NODE_AFFINITY)
        return node_id || is_soft ? crt_raise(CRT_ERR_INVALID,
                                              "node_id and node_is_soft need "
                                              ".scheduling = CRT_SCHEDULE_NODE_AFFINITY")
                                  : CRT_OK;
    if (!node_id || !crti_id_parse(node_id, &how->node) || crti_id_is_zero(how->node))
        return crt_raise(
            CRT_ERR_INVALID,
            "CRT_SCHEDULE_NODE_AFFINITY needs a node_id of 32 hex digits, not \"%s\"",
            node_id ? node_id : "");
    how->is_soft = is_soft;
    return CRT_OK;
}

crt_status_t crti_scheduling_where(crt_scheduling_t strategy, const char *node_id,
                                   bool is_soft, const char *label_selector,
                                   const char *fallback_selectors,
                                   crti_scheduling_t *how_out)
{
    const char *first = label_selector ? label_selector : "",
               *others = fallback_selectors ? fallback_selectors : "";
    crt_status_t status;

    *how_out = (crti_scheduling_t){.strategy = (uint64_t)strategy};
    if (strategy < CRT_SCHEDULE_DEFAULT || strategy > CRT_SCHEDULE_NODE_AFFINITY)
        return crt_raise(CRT_ERR_INVALID, "there is no scheduling strategy %d",
                         (int)strategy);
    status = read_node(strategy, node_id, is_soft, how_out);
    if (status != CRT_OK)
        return status;
    if (*others && !*first)
        return crt_raise(CRT_ERR_INVALID, "fallback_selectors need a label_selector");
    if (strlen(first) + strlen(others) + 2 > sizeof(how_out->selector))
        return crt_raise(CRT_ERR_INVALID, "label selectors of %zu bytes, at most %zu fit",
                         strlen(first) + strlen(others), sizeof(how_out->selector) - 2);
    snprintf(how_out->selector, sizeof(how_out->selector), "%s%s%s", first,
             *others ? ";" : "", others);
    return crti_selector_check(how_out->selector);
}
