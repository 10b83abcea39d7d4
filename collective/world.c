/* SPDX-License-Identifier: Apache-2.0 */
/* World: the group of all ranks of crt run --ranks, joined when it is first asked for. */
#include <pthread.h>

#include "collective/group_int.h"

static pthread_mutex_t joining = PTHREAD_MUTEX_INITIALIZER;
static crt_group_t *world; /* covered by `joining`; ends with the process */

crt_status_t crt_group_world(crt_group_t **group_out)
{
    crt_status_t status = CRT_OK;

    if (!group_out)
        return crt_raise(CRT_ERR_INVALID, "there is no place for the group");
    if (crt_world_rank() < 0)
        return crt_raise(CRT_ERR_INVALID,
                         "only a process that crt run --ranks runs the driver in is "
                         "in the world");
    pthread_mutex_lock(&joining);
    if (!world)
        status = crti_group_join(crt_world_size(), crt_world_rank(),
                                 CRT_GROUP_OPTIONS(.name = "world"), true, &world);
    *group_out = world;
    pthread_mutex_unlock(&joining);
    return status;
}
