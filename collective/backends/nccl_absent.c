/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for nccl.c where the headers of CUDA and NCCL were not there, or not wanted.
 *
 * Where it sits
 *     group.c -> [ nccl_absent.c ]
 */
#include "collective/group.h"

static crt_status_t open_nothing(crt_group_t *group, const crti_team_t *team,
                                 uint64_t deadline_ns, void **state_out)
{
    return crti_group_fail(group, CRT_ERR_UNSUPPORTED, group->rank,
                           "this build has no backend \"nccl\": it was made without the "
                           "headers of CUDA and NCCL (meson setup -Dcuda=enabled "
                           "-Dnccl=enabled -Dgpu_root=...)");
}

/* Nothing is ever open. */
static crt_status_t run_nothing(void *state, const crti_step_t *step)
{
    return crt_raise(CRT_ERR_UNSUPPORTED, "this build has no backend \"nccl\"");
}

static void close_nothing(void *state)
{
}

const crti_backend_t crti_backend_nccl = {
    .name = "nccl", .open = open_nothing, .run = run_nothing, .close = close_nothing};
