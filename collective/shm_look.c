/* SPDX-License-Identifier: Apache-2.0 */
/* The look at the other members: who lives, who has failed, and whose call does not fit ours. See
 * shm.h.
 */
#include <poll.h>
#include <string.h>

#include "collective/shm_int.h"

#define LOST_NS (60 * CRTI_MS) /* for the runtime to say why a process is gone */

crt_status_t crti_shm_take_failure(crti_shm_t *team, int who)
{
    const crti_shm_head_t *head = team->peers[who].head;
    crti_shm_failure_t failure;
    crt_status_t status;
    int rank;

    memcpy(&failure, &head->failure, sizeof(failure));
    failure.text[sizeof(failure.text) - 1] = '\0';
    status = failure.status < 0 && failure.status > -1000 ? (crt_status_t)failure.status
                                                          : CRT_ERR_CANCELLED;
    rank = failure.rank >= 0 && failure.rank < team->group->size ? failure.rank : -1;
    /* A peer can't declare us dead. */
    return crti_group_fail(team->group, status, rank, "%s", failure.text);
}

static bool has_left(const crti_shm_t *team, int i)
{
    return atomic_load_explicit(&team->peers[i].head->state, memory_order_acquire) ==
           CRTI_SHM_LEFT;
}

/* The kernel's word, which is there before any notice. Who has left may end. */
crt_status_t crti_shm_look_at_processes(crti_shm_t *team)
{
    int ended = -1;

    for (int i = 0; i < team->size; i++) {
        team->polls[i] = (struct pollfd){
            .fd = i == team->rank || has_left(team, i) ? -1 : team->peers[i].pidfd,
            .events = POLLIN};
    }
    if (poll(team->polls, (nfds_t)team->size, 0) <= 0)
        return CRT_OK;
    for (int i = 0; i < team->size && ended < 0; i++)
        if (team->polls[i].revents)
            ended = team->peers[i].rank;
    return ended < 0 ? CRT_OK
                     : crti_group_lost(team->group, ended, crti_now_ns() + LOST_NS,
                                       "its process has ended");
}

/* Who has left has done its part: it stays until it has. */
crt_status_t crti_shm_look_around(crti_shm_t *team)
{
    crt_status_t status = crti_group_failed(team->group);

    for (int i = 0; i < team->size && status == CRT_OK; i++) {
        const crti_shm_head_t *head = team->peers[i].head;

        if (i != team->rank &&
            atomic_load_explicit(&head->state, memory_order_acquire) == CRTI_SHM_FAILED)
            status = crti_group_needs(team->group, team->peers[i].rank, head->done)
                         ? crti_shm_take_failure(team, i)
                         : CRT_OK;
    }
    return status == CRT_OK ? crti_shm_look_at_processes(team) : status;
}

crt_status_t crti_shm_mismatch(crti_shm_t *team, int who,
                               const crti_operation_signature_t *own,
                               const crti_operation_signature_t *other)
{
    char mine[160], theirs[160], them[160], me[160];

    return crti_group_fail(
        team->group, CRT_ERR_INVALID, -1,
        "the members' calls do not fit together: %s calls %s, but %s calls %s",
        crti_group_describe(team->group, team->peers[team->rank].rank, me, sizeof(me)),
        crti_operation_describe(own, mine, sizeof(mine)),
        crti_group_describe(team->group, team->peers[who].rank, them, sizeof(them)),
        crti_operation_describe(other, theirs, sizeof(theirs)));
}
