/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the library that simulated processes do not have: private clusters, zygotes of their
 * own, clusters found by files. See system.h. */
#include <stdio.h>

#include "runtime/core/client/private_cluster.h"
#include "tests/sim/system.h"

crti_process_role_t crti_process_role(crti_worker_birth_t *birth_out, int *zygote_fd_out)
{
    if (sys->self->kind != SYS_WORKER)
        return CRTI_PROCESS_DRIVER;
    *birth_out = sys->self->birth;
    return CRTI_PROCESS_WORKER;
}

void crti_zygote_serve(int fd, crti_worker_birth_t *birth_out)
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

crt_status_t crti_private_cluster_start(const crt_options_t *options,
                                        crti_private_cluster_t *cluster_out)
{
    return crt_raise(CRT_ERR_UNSUPPORTED, "no private clusters here");
}

void crti_private_cluster_stop(crti_private_cluster_t *cluster)
{
}
