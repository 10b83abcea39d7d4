/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: making, rebuilding and leaving them. See group.h. */
#include "collective/group_int.h"
#include "runtime/base/copy_struct.h"
#include "runtime/base/limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "collective/links.h"
#include "collective/operation_signature.h"
#include "runtime/core/client/ranks.h"
#include "runtime/core/process/entry.h"

#define LONGEST_MS INT64_C(1000000000)

/* ---------------------------------------------------------------- making and ending */

/* What the end of a rank leaves; covered by `lock`. */
static struct {
    pthread_mutex_t lock;
    crti_list_t all;
} groups = {PTHREAD_MUTEX_INITIALIZER, {&groups.all, &groups.all}};

static void free_group(crt_group_t *group)
{
    struct crti_group_private *p = group->private;

    pthread_mutex_lock(&groups.lock);
    crti_list_remove(&p->link);
    pthread_mutex_unlock(&groups.lock);
    crti_group_close(group);
    crti_liveness_free(p->liveness);
    crti_region_free(p->region);
    crti_links_free(group->links);
    if (group->wake_fd >= 0)
        close(group->wake_fd);
    pthread_mutex_destroy(&p->lock);
    free(group->members);
    free(p);
    free(group);
}
CRTI_DEFINE_AUTO(crt_group_t *, free_group)

static crt_status_t check_options(const crt_group_options_t *o)
{
    static const char *const known[] = {"auto", "shm", "ring", "two-level", "nccl"};

    if (o->limit_ms < 0 || o->limit_ms > LONGEST_MS)
        return crt_raise(CRT_ERR_INVALID, "limit_ms is %lld", (long long)o->limit_ms);
    for (size_t i = 0; o->backend && i < sizeof(known) / sizeof(*known); i++)
        if (strcmp(o->backend, known[i]) == 0)
            return CRT_OK;
    return o->backend
               ? crt_raise(CRT_ERR_INVALID, "no backend is called \"%.40s\"", o->backend)
               : CRT_OK;
}

static crt_status_t new_group(const crt_group_options_t *options, int size, int rank,
                              crt_group_t **group_out)
{
    crt_group_options_t mine, *o = &mine;
    crt_group_t *group;
    struct crti_group_private *p;
    crt_status_t status = CRTI_COPY_STRUCT(&mine, options, "CRT_GROUP_OPTIONS");

    if (status == CRT_OK)
        status = check_options(o);
    if (status != CRT_OK)
        return status;
    group = calloc(1, sizeof(*group));
    p = calloc(1, sizeof(*p));
    if (!group || !p) {
        free(group);
        free(p);
        return crt_raise(CRT_ERR_NO_MEMORY, "a group");
    }
    group->private = p;
    p->group = group;
    crti_list_init(&p->link);
    crti_list_init(&p->questions);
    group->device = -1;
    group->tell_ns = CRTI_LIMIT(tell_waits);
    group->wanted_device = o->device;
    group->gpu_stream = o->stream;
    snprintf(group->name, sizeof(group->name), "%s", o->name ? o->name : "default");
    if (o->name && strlen(o->name) >= sizeof(group->name))
        group->name[0] = '\0'; /* refused with the key */
    snprintf(p->wanted_backend, sizeof(p->wanted_backend), "%s",
             o->backend ? o->backend : "auto");
    p->timeout_ms =
        o->limit_ms ? o->limit_ms : (int64_t)(CRTI_LIMIT(collective_timeout) / CRTI_MS);
    p->wanted_size = size;
    p->wanted_rank = rank;
    p->failure.rank = -1;
    pthread_mutex_init(&p->lock, NULL);
    group->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    *group_out = group;
    return group->wake_fd < 0 ? crt_raise(CRT_ERR_IO, "eventfd: no descriptor left")
                              : CRT_OK;
}

static void leave(crt_group_t *group)
{
    if (group->private->has_left)
        return;
    group->private->has_left = true;
    if (crti_posting_is_busy(group))
        crti_group_fail(group, CRT_ERR_CANCELLED, group->rank,
                        "rank %d has destroyed its membership", group->rank);
    crti_posting_drain(group);
    crti_group_close(group); /* before the messages that it has are freed */
    crti_rendezvous_leave(group);
}

/* The rank whose end has failed the world; -1: none. */
static int blamed_rank(struct crti_group_private *p)
{
    int rank = -1;

    pthread_mutex_lock(&p->lock);
    if (p->is_of_ranks && p->failure.status != CRT_ERR_TIMED_OUT &&
        p->failure.rank != p->group->rank)
        rank = p->failure.rank;
    pthread_mutex_unlock(&p->lock);
    return rank;
}

/* This thread is in an operation: a signal's handler has called exit. */
static bool is_interrupted(crt_group_t *group)
{
    return !crti_posting_is_busy(group) && (group->running || group->await_count);
}

/* The driver of a rank has returned: the others shall not wait for it. The groups are still its own
 * to destroy. A group in the middle of an operation can't be left: it hears of a death. */
static int leave_all(void)
{
    int blamed = -1;

    pthread_mutex_lock(&groups.lock);
    CRTI_LIST_FOREACH (item, &groups.all) {
        struct crti_group_private *p =
            CRTI_CONTAINER(item, struct crti_group_private, link);
        crt_group_t *group = p->group;

        if (is_interrupted(group))
            continue;
        blamed = blamed < 0 ? blamed_rank(p) : blamed;
        leave(group);
        crti_group_fail(group, CRT_ERR_CLOSED, group->rank,
                        "the driver of rank %d has returned", crt_world_rank());
    }
    pthread_mutex_unlock(&groups.lock);
    return blamed;
}

static void enlist(crt_group_t *group)
{
    pthread_mutex_lock(&groups.lock);
    crti_list_append(&groups.all, &group->private->link);
    pthread_mutex_unlock(&groups.lock);
    crti_ranks_at_end(leave_all);
}

/* Everything from an identity to a group that can be used. */
static crt_status_t join(crt_group_t *group)
{
    struct crti_group_private *p = group->private;
    uint64_t deadline = crti_now_ns() + (uint64_t)p->timeout_ms * CRTI_MS;
    crt_status_t status = crti_group_prepare(group, p->wanted_size);

    if (status == CRT_OK)
        status = crti_rendezvous_join(group, deadline);
    if (status != CRT_OK)
        return status;
    status = crti_group_open(group, deadline);
    if (status != CRT_OK) {
        crti_group_failure_t kept = {.status = status};

        snprintf(kept.text, sizeof(kept.text), "%s", crt_error_detail());
        crti_group_close(group);
        crti_rendezvous_leave(group);
        status = crt_raise(kept.status, "%s", kept.text);
    }
    if (status == CRT_OK)
        enlist(group);
    return status;
}

crt_status_t crt_group_join(int size, int rank, const crt_group_options_t *options,
                            crt_group_t **group_out)
{
    return crti_group_join(size, rank, options, false, group_out);
}

crt_status_t crti_group_join(int size, int rank, const crt_group_options_t *options,
                             bool is_of_ranks, crt_group_t **group_out)
{
    CRTI_AUTO(free_group) crt_group_t *group = NULL;
    crt_status_t status;

    if (!group_out)
        return crt_raise(CRT_ERR_INVALID, "there is no place for the group");
    if (size < 1 || size > CRTI_GROUP_SIZE || (rank < 0 && rank != CRT_RANK_ANY) ||
        rank >= size)
        return crt_raise(CRT_ERR_INVALID, "rank %d of %d members; at most %d", rank, size,
                         CRTI_GROUP_SIZE);
    status = new_group(options, size, rank, &group);
    if (status == CRT_OK) {
        group->private->is_of_ranks = is_of_ranks;
        status = crti_rendezvous_init(group);
    }
    if (status == CRT_OK)
        status = join(group);
    if (status == CRT_OK)
        *group_out = CRTI_TAKE(group);
    return status;
}

crt_status_t crt_group_find(const char *name, crt_group_t **group_out)
{
    CRTI_AUTO(free_group) crt_group_t *group = NULL;
    crt_status_t status;

    if (!group_out)
        return crt_raise(CRT_ERR_INVALID, "there is no place for the group");
    status = new_group(CRT_GROUP_OPTIONS(.name = name), 1, 0, &group);
    if (status == CRT_OK)
        status = crti_rendezvous_init(group);
    if (status == CRT_OK)
        status = crti_rendezvous_join_declared(group);
    if (status == CRT_OK)
        status = join(group);
    if (status == CRT_OK)
        *group_out = CRTI_TAKE(group);
    return status;
}

/* ---------------------------------------------------------------- splitting */

/* What each member tells the others; `nonce` makes a name that no group has had. */
typedef struct ticket {
    int64_t color, key, nonce;
} ticket_t;
_Static_assert(sizeof(ticket_t) == CRTI_SPLIT_NUMBERS * sizeof(int64_t), "its numbers");

/* Size of the group of this member's color, its rank there, and the name of that group. */
static void take_place(const crt_group_t *group, const ticket_t *tickets, int *size,
                       int *rank, char name[CRTI_GROUP_NAME])
{
    const ticket_t *mine = &tickets[group->rank];
    int first = group->rank;

    *size = *rank = 0;
    for (int i = 0; i < group->size; i++) {
        const ticket_t *t = &tickets[i], *f = &tickets[first];

        if (t->color != mine->color)
            continue;
        ++*size;
        *rank += t->key < mine->key || (t->key == mine->key && i < group->rank);
        if (t->key < f->key || (t->key == f->key && i < first))
            first = i;
    }
    snprintf(name, CRTI_GROUP_NAME, "%.40s.%016llx", group->name,
             (unsigned long long)tickets[first].nonce);
}

/* Joins what take_place said. */
static crt_status_t join_split(crt_group_t *parent, int size, int rank, const char *name,
                               crt_group_t **group_out)
{
    struct crti_group_private *p = parent->private;
    CRTI_AUTO(free_group) crt_group_t *group = NULL;
    crt_status_t status = new_group(
        CRT_GROUP_OPTIONS(.name = name, .backend = p->wanted_backend,
                          .limit_ms = p->timeout_ms, .device = parent->wanted_device,
                          .stream = parent->gpu_stream),
        size, rank, &group);

    if (status == CRT_OK)
        status = crti_rendezvous_init(group);
    if (status == CRT_OK) {
        group->private->parent = parent;
        status = join(group);
        group->private->parent = NULL;
    }
    if (status == CRT_OK)
        *group_out = CRTI_TAKE(group);
    return status;
}

crt_status_t crt_group_split(crt_group_t *group, int color, int key,
                             crt_group_t **group_out)
{
    ticket_t mine = {color < 0 ? -1 : color, key, (int64_t)crti_id_random().low};
    const int64_t mine_shape = CRTI_SPLIT_NUMBERS;
    CRTI_AUTO(free) ticket_t *tickets = NULL;
    char name[CRTI_GROUP_NAME];
    crt_tensor_t input, output;
    int64_t shape;
    int size, rank;

    if (!group || !group_out)
        return crt_raise(CRT_ERR_INVALID, "%s",
                         group ? "there is no place for the group" : "the group is NULL");
    *group_out = NULL;
    tickets = calloc((size_t)group->size, sizeof(*tickets));
    if (!tickets)
        return crt_raise(CRT_ERR_NO_MEMORY, "a split of %d members", group->size);
    shape = group->size * mine_shape;
    input = crt_tensor_view(CRT_DTYPE_INT64, 1, &mine_shape, &mine);
    output = crt_tensor_view(CRT_DTYPE_INT64, 1, &shape, tickets);
    CRT_TRY(crt_group_allgather(group, &input, &output));
    if (color < 0)
        return CRT_OK;
    take_place(group, tickets, &size, &rank, name);
    return join_split(group, size, rank, name, group_out);
}

/* ---------------------------------------------------------------- declaring */

static crt_status_t take_actors(crt_actor_t *const *actors, const int *ranks, int size,
                                crti_id_t *declared)
{
    for (int i = 0; i < size; i++) {
        int rank = ranks ? ranks[i] : i;
        crti_id_t id;

        if (rank < 0 || rank >= size || !crti_id_is_zero(declared[rank]))
            return crt_raise(
                CRT_ERR_INVALID, "actor %d has rank %d of %d %s", i, rank, size,
                rank < 0 || rank >= size ? "members"
                                         : "members, and another has it, too");
        if (!actors[i] || !crti_id_parse(crt_actor_id(actors[i]), &id))
            return crt_raise(CRT_ERR_INVALID, "actor %d is no handle", i);
        for (int r = 0; r < size; r++)
            if (crti_id_equal(declared[r], id))
                return crt_raise(CRT_ERR_INVALID, "actor %s is there twice",
                                 crt_actor_id(actors[i]));
        declared[rank] = id;
    }
    return CRT_OK;
}

crt_status_t crt_group_declare(crt_actor_t *const *actors, const int *ranks, int size,
                               const crt_group_options_t *options)
{
    CRTI_AUTO(free_group) crt_group_t *group = NULL;
    CRTI_AUTO(free) crti_id_t *declared = NULL;
    crti_roster_t roster = {.state = CRTI_ROSTER_DECLARED, .size = size};
    crt_status_t status;

    if (!actors || size < 1 || size > CRTI_GROUP_SIZE)
        return crt_raise(CRT_ERR_INVALID, "a group of %d actors; 1 to %d", size,
                         CRTI_GROUP_SIZE);
    declared = calloc((size_t)size, sizeof(*declared));
    status = declared ? take_actors(actors, ranks, size, declared)
                      : crt_raise(CRT_ERR_NO_MEMORY, "a group of %d", size);
    if (status == CRT_OK)
        status = new_group(options, size, 0, &group);
    if (status == CRT_OK)
        status = crti_group_key(group->name, group->private->key);
    if (status != CRT_OK)
        return status;
    roster.token = crti_id_random().low;
    roster.timeout_ms = group->private->timeout_ms;
    snprintf(roster.backend, sizeof(roster.backend), "%s",
             group->private->wanted_backend);
    roster.declared = declared;
    return crti_rendezvous_declare(group, &roster);
}

/* ---------------------------------------------------------------- rebuilding, leaving */

/* With the text of what was raised last. */
static crt_status_t stay_failed(crt_group_t *group, crt_status_t status)
{
    char text[1024];

    snprintf(text, sizeof(text), "%s", crt_error_detail());
    crti_group_fail(group, status, -1, "%s", text);
    crti_group_close(group);
    return crt_raise(status, "%s", text);
}

crt_status_t crt_group_rebuild(crt_group_t *group, int size)
{
    struct crti_group_private *p = group ? group->private : NULL;
    uint64_t deadline;
    crt_status_t status;

    if (!group)
        return crt_raise(CRT_ERR_INVALID, "the group is NULL");
    if (size < 0 || size > CRTI_GROUP_SIZE)
        return crt_raise(CRT_ERR_INVALID, "a group of %d members", size);
    CRT_TRY(crti_group_check_process());
    deadline = crti_now_ns() + (uint64_t)p->timeout_ms * CRTI_MS;
    crti_group_fail(group, CRT_ERR_CANCELLED, -1, "the group is rebuilt");
    crti_posting_drain(group);
    if (p->state && p->backend->report)
        p->backend->report(p->state);
    crti_group_close(group);
    status = crti_rendezvous_rebuild(group, size, deadline);
    if (status == CRT_OK)
        status = crti_group_open(group, deadline);
    return status == CRT_OK ? CRT_OK : stay_failed(group, status);
}

crt_status_t crt_group_settle(crt_group_t *group)
{
    if (!group)
        return crt_raise(CRT_ERR_INVALID, "the group is NULL");
    CRT_TRY(crti_group_check_process());
    return group->size > 1 ? crti_rendezvous_settle(group) : CRT_OK;
}

uint64_t crt_group_settled(const crt_group_t *group)
{
    return group ? group->private->settled : 0;
}

void crt_group_drop(crt_group_t **group_take)
{
    crt_group_t *group = group_take ? *group_take : NULL;

    if (!group)
        return;
    *group_take = NULL;
    if (crti_is_forked())
        return; /* the parent's; this copy goes with the process */
    leave(group);
    crti_posting_free(group);
    free_group(group);
}
