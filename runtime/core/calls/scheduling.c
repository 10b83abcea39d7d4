/* SPDX-License-Identifier: Apache-2.0 */
/* Scheduling options. See scheduling.h. */
#include "runtime/core/calls/scheduling.h"

crt_status_t crti_scheduling_resources(double num_cpus, double cpus, double num_gpus,
                                       const char *resources, crti_resources_t *out)
{
    crt_status_t status = CRT_OK;

    *out = (crti_resources_t){.count = 0};
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

crt_status_t crti_scheduling_infeasible(int option, int64_t *if_infeasible_out)
{
    if (option < -1 || option > 1)
        return crt_raise(CRT_ERR_INVALID,
                         "fail_if_infeasible is 1 (fail), -1 (wait) or 0 (as the cluster "
                         "was started), not %d",
                         option);
    *if_infeasible_out = option;
    return CRT_OK;
}
