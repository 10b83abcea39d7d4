/* SPDX-License-Identifier: Apache-2.0 */
/* Where the members' memory is: told to the others, and reached. See shm.h. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "collective/shm_int.h"

#define ENDING_MS 100 /* from the end of a process's descriptors to its own */

/* Others work in it by elements: memory that is not aligned to them is as any other's. */
void crti_shm_offer(const crti_step_t *step, const void *memory, size_t bytes,
                    crti_memory_handle_t *handle)
{
    if ((uintptr_t)memory % crt_dtype_size(step->dtype) == 0)
        crti_memory_find(memory, bytes, handle);
}

crt_status_t crti_shm_bad_place(crti_shm_t *team, int who)
{
    char text[160];

    return crti_group_fail(
        team->group, CRT_ERR_PROTOCOL, team->peers[who].rank,
        "%s tells of memory that is not where it says",
        crti_group_describe(team->group, team->peers[who].rank, text, sizeof(text)));
}

/* Most often it has just ended: the kernel closes descriptors a moment before the pidfd tells. */
static crt_status_t no_view(crti_shm_t *team, int who, crt_status_t status)
{
    struct pollfd end = {.fd = team->peers[who].pidfd, .events = POLLIN};
    char seen[256];
    crt_status_t looked;

    snprintf(seen, sizeof(seen), "%s", crt_error_detail());
    if (status == CRT_ERR_CLOSED)
        while (poll(&end, 1, ENDING_MS) < 0 && errno == EINTR) {
        }
    looked = crti_shm_look_around(team);
    if (looked != CRT_OK)
        return looked;
    return crti_group_fail(team->group,
                           status == CRT_ERR_CLOSED ? CRT_ERR_PROTOCOL : status,
                           team->peers[who].rank, "%s", seen);
}

crt_status_t crti_shm_view(crti_shm_t *team, int who, const crti_memory_handle_t *handle,
                           void **at_out)
{
    crti_shm_peer_t *peer = &team->peers[who];
    int found = 0;
    crti_view_t *view;
    crt_status_t status;

    while (found < CRTI_SHM_VIEWS && peer->views[found] &&
           crti_view_nonce(peer->views[found]) != handle->nonce)
        found++;
    if (found == CRTI_SHM_VIEWS || !peer->views[found]) {
        status = crti_view_open(peer->pid, handle, &view);
        if (status != CRT_OK)
            return no_view(team, who, status);
        if (found == CRTI_SHM_VIEWS)
            crti_view_release(peer->views[--found]);
        peer->views[found] = view;
    }
    view = peer->views[found];
    if (found) {
        memmove(&peer->views[1], &peer->views[0], (size_t)found * sizeof(view));
        peer->views[0] = view;
    }
    *at_out = crti_view_at(view, handle);
    return *at_out ? CRT_OK : crti_shm_bad_place(team, who);
}

crt_status_t crti_shm_reach(crti_shm_t *team, int who, const crti_memory_handle_t *handle,
                            const void *mine, void **at_out)
{
    if (who == team->rank) {
        *at_out = (void *)(uintptr_t)mine;
        return CRT_OK;
    }
    if (handle->offset % crt_dtype_size(team->step->dtype) != 0)
        return crti_shm_bad_place(team, who);
    return crti_shm_view(team, who, handle, at_out);
}
