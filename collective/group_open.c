/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: what carries one out, from its preparation to its end: shared memory, links, backend.
 *
 * Where it sits
 *     group.c, rebuild.c -> [ group_open.c ] -> the backends, links.c, shm_region.c, liveness.c
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collective/backends/algorithms.h"
#include "collective/group_int.h"
#include "collective/links.h"
#include "runtime/base/log.h"
#include "runtime/core/process/entry.h"

/* Under the core's lock. */
static void on_ended(void *user, crti_core_t *core, int rank, crt_status_t status,
                     const char *text)
{
    crti_member_ended(core, user, rank, status, text);
}

/* What this process was told goes to all members, right or wrong: all judge it alike, and none
 * waits for one that has refused it. */
static void describe_algorithms(crti_member_t *me)
{
    const char *told = getenv(CRTI_ALGORITHMS_VARIABLE);
    size_t room = sizeof(me->algorithms);

    if (snprintf(me->algorithms, room, "%s", told ? told : "") >= (int)room)
        memcpy(me->algorithms + room - 4, "...", 4); /* no name ends so */
}

crt_status_t crti_group_prepare(crt_group_t *group, int size)
{
    struct crti_group_private *p = group->private;
    crt_status_t status = CRT_OK;

    crti_region_free(p->region);
    p->region = NULL;
    p->me.nonce = crti_id_random().low | 1;
    p->me.memory_fd = -1;
    p->me.address[0] = '\0';
    describe_algorithms(&p->me);
    crti_links_free(group->links);
    group->links = NULL;
    crti_liveness_free(p->liveness);
    p->liveness = NULL;
    status = crti_region_new(size, p->me.nonce, &p->region);
    if (status == CRT_OK)
        status = crti_liveness_new(size, on_ended, group, &p->liveness);
    if (status == CRT_OK)
        p->me.memory_fd = crti_region_fd(p->region);
    if (status == CRT_OK && strcmp(p->wanted_backend, "shm") != 0)
        status = crti_links_new(&group->links, p->me.address);
    return status;
}

static bool are_on_one_node(const crt_group_t *group)
{
    for (int i = 1; i < group->size; i++)
        if (!crti_id_equal(group->members[i].node, group->members[0].node))
            return false;
    return true;
}

static bool are_all_apart(const crt_group_t *group)
{
    for (int i = 0; i < group->size; i++)
        for (int j = 0; j < i; j++)
            if (crti_id_equal(group->members[i].node, group->members[j].node))
                return false;
    return true;
}

/* It depends on the roster only. */
const crti_backend_t *crti_group_host_backend(const crt_group_t *group)
{
    return are_on_one_node(group) ? &crti_backend_shm
           : are_all_apart(group) ? &crti_backend_ring
                                  : &crti_backend_two_level;
}

static const crti_backend_t *find_backend(const crt_group_t *group)
{
    const char *wanted = group->private->wanted_backend;

    if (strcmp(wanted, "auto") == 0)
        return crti_group_host_backend(group);
    if (strcmp(wanted, "shm") == 0)
        return &crti_backend_shm;
    if (strcmp(wanted, "ring") == 0)
        return &crti_backend_ring;
    if (strcmp(wanted, "two-level") == 0)
        return &crti_backend_two_level;
    return &crti_backend_nccl;
}

/* The same on all members: it depends on the roster only. */
static crt_status_t take_algorithms(crt_group_t *group)
{
    const crti_member_t *first = &group->members[0];
    const crti_backend_t *backend = group->private->backend;
    char one[160], other[160];

    for (int i = 1; i < group->size; i++)
        if (strcmp(group->members[i].algorithms, first->algorithms) != 0)
            return crti_group_fail(
                group, CRT_ERR_INVALID, i,
                CRTI_ALGORITHMS_VARIABLE
                " must be the same for all members: it is \"%s\" for %s, \"%s\" for %s",
                first->algorithms, crti_group_describe(group, 0, one, sizeof(one)),
                group->members[i].algorithms,
                crti_group_describe(group, i, other, sizeof(other)));
    if (crti_algorithms_parse(first->algorithms, group->forced) != CRT_OK)
        return crti_group_fail(group, CRT_ERR_INVALID, -1, "%s", crt_error_detail());
    /* The groups of a program differ: others of it have members on several nodes. */
    if (first->algorithms[0] && group->rank == 0 && backend != &crti_backend_ring &&
        backend != &crti_backend_two_level)
        crti_log(CRTI_LOG_INFO, "collective",
                 "%s: " CRTI_ALGORITHMS_VARIABLE "=%s is for links between nodes, which "
                 "backend %s does not use",
                 group->name, first->algorithms, backend->name);
    return CRT_OK;
}

crt_status_t crti_group_open_by(crt_group_t *group, const crti_backend_t *backend,
                                uint64_t deadline_ns, void **state_out)
{
    int ranks[CRTI_GROUP_SIZE];
    crti_team_t team = {group->size, group->rank, ranks};
    crt_status_t status;

    for (int i = 0; i < group->size; i++)
        ranks[i] = i;
    group->running = CRTI_GROUP_OPENING;
    status = backend->open(group, &team, deadline_ns, state_out);
    if (status == CRT_OK)
        group->done = CRTI_GROUP_OPENING;
    group->running = 0;
    return status;
}

static crt_status_t open_backend(crt_group_t *group, uint64_t deadline_ns)
{
    struct crti_group_private *p = group->private;

    p->backend = find_backend(group);
    CRT_TRY(take_algorithms(group));
    if (p->backend == &crti_backend_shm && !are_on_one_node(group))
        return crti_group_fail(group, CRT_ERR_INVALID, -1,
                               "backend \"shm\" needs all members on one node");
    return crti_group_open_by(group, p->backend, deadline_ns, &p->state);
}

/* Those that have ended before deaths could fail the group. */
static void hear_ended(crt_group_t *group)
{
    crti_core_t *core = crti_enter_quiet();
    char text[CRTI_LIVENESS_TEXT];
    crt_status_t died;

    for (int i = 0; core && i < group->size; i++)
        if (crti_liveness_has_ended(group->private->liveness, i, &died, text,
                                    sizeof(text)))
            crti_member_ended(core, group, i, died, text);
    if (core)
        crti_leave(core);
}

crt_status_t crti_group_open(crt_group_t *group, uint64_t deadline_ns)
{
    struct crti_group_private *p = group->private;
    crt_status_t status = CRT_OK;
    uint64_t count;

    if (read(group->wake_fd, &count, sizeof(count)) < 0)
        count = 0; /* it had not failed */
    p->failure = p->later = (crti_group_failure_t){.rank = -1};
    atomic_store(&group->has_failed, false);
    p->was_reported = false;
    p->sequence = group->running = group->done = 0;
    for (int i = 0; i < group->size && status == CRT_OK; i++)
        status = crti_liveness_watch(p->liveness, i, &group->members[i]);
    if (status != CRT_OK)
        return status;
    atomic_store(&p->is_open, true);
    hear_ended(group);
    status = crti_group_failed(group);
    return status == CRT_OK ? open_backend(group, deadline_ns) : status;
}

void crti_group_close(crt_group_t *group)
{
    struct crti_group_private *p = group->private;

    atomic_store(&p->is_open, false);
    crti_member_questions_forget(group);
    if (p->state)
        p->backend->close(p->state);
    p->state = NULL;
    group->device = -1;
}
