/* SPDX-License-Identifier: Apache-2.0 */
/* Scheduling: what options of tasks and actors say of the node that they need, checked. Pure.
 *
 * Where it sits
 *     task_api.c, actor_create.c (options of crt.h) -> [ scheduling.c ] -> LEASE_REQUEST,
 *     ACTOR_CREATE
 */
#ifndef CRTI_CORE_CALLS_SCHEDULING_H
#define CRTI_CORE_CALLS_SCHEDULING_H

#include "runtime/base/resources.h"
#include "runtime/base/scheduling.h"
#include "runtime/crt.h"

/* The options `num_cpus`, `num_gpus` and `resources`; `cpus` are the CPUs of one that names
 * none. */
crt_status_t crti_scheduling_resources(double num_cpus, double cpus, double num_gpus,
                                       const char *resources, crti_resources_t *out);

/* The option `if_infeasible` as messages have it (CRTI_INFEASIBLE). */
crt_status_t crti_scheduling_infeasible(crt_infeasible_t option,
                                        int64_t *if_infeasible_out);

/* The options that say on which nodes it may run. */
crt_status_t crti_scheduling_where(crt_scheduling_t strategy, const char *node_id,
                                   bool is_soft, const char *label_selector,
                                   const char *fallback_selectors,
                                   crti_scheduling_t *how_out);

#endif
