/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: making, failing, rebuilding and leaving them. See group.h. */
#include "collective/group_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "collective/links.h"

#define TIMEOUT_MS 60000
#define LONGEST_MS INT64_C(1000000000)

/* ---------------------------------------------------------------- failure */

const char *crti_group_describe(const crt_group_t *group, int rank, char *text,
                                size_t text_bytes)
{
    char actor[CRTI_ID_HEX], node[CRTI_ID_HEX];

    if (rank < 0 || rank >= group->size || !group->members)
        snprintf(text, text_bytes, "rank %d", rank);
    else
        snprintf(text, text_bytes, "rank %d (actor %s, node %s)", rank,
                 crti_id_hex(group->members[rank].actor, actor),
                 crti_id_hex(group->members[rank].node, node));
    return text;
}

crt_status_t crti_group_fail(crt_group_t *group, crt_status_t status, int rank,
                             const char *format, ...)
{
    struct crti_group_private *p = group->private;
    crti_group_failure_t failure = {.status = status, .rank = rank};
    const uint64_t one = 1;
    va_list args;

    va_start(args, format);
    vsnprintf(failure.text, sizeof(failure.text), format, args);
    va_end(args);
    if (!failure.text[0]) /* another member's word, which it did not give */
        snprintf(failure.text, sizeof(failure.text), "%s, without a reason",
                 crt_status_text(status));
    pthread_mutex_lock(&p->lock);
    if (!atomic_load_explicit(&group->has_failed, memory_order_relaxed)) {
        p->failure = failure;
        /* Pairs with crti_group_failed. */
        atomic_store_explicit(&group->has_failed, true, memory_order_release);
        (void)!write(group->wake_fd, &one, sizeof(one));
    }
    pthread_mutex_unlock(&p->lock);
    return crti_group_failed(group);
}

crt_status_t crti_group_check_process(void)
{
    if (!crti_is_forked())
        return CRT_OK;
    return crt_raise(CRT_ERR_FORKED, "the group was joined before fork(): it belongs to "
                                     "the parent process");
}

crt_status_t crti_group_failed(crt_group_t *group)
{
    struct crti_group_private *p = group->private;
    crti_group_failure_t failure;

    if (!atomic_load_explicit(&group->has_failed, memory_order_acquire))
        return CRT_OK;
    pthread_mutex_lock(&p->lock);
    failure = p->failure;
    pthread_mutex_unlock(&p->lock);
    return crt_raise(failure.status, "group \"%s\": %s", group->name, failure.text);
}

crt_status_t crti_group_lost(crt_group_t *group, int rank, uint64_t deadline_ns,
                             const char *seen)
{
    struct crti_group_private *p = group->private;
    char who[160];

    while (!atomic_load_explicit(&group->has_failed, memory_order_acquire)) {
        uint64_t now = crti_now_ns();

        if (now >= deadline_ns)
            break;
        crti_attendance_wait(p->attendance, deadline_ns - now);
    }
    return crti_group_fail(group, CRT_ERR_ACTOR_DIED, rank, "%s: %s",
                           crti_group_describe(group, rank, who, sizeof(who)), seen);
}

/* A member's process has ended: under the core's lock. */
static void on_member_ended(void *user, int rank, crt_status_t status, const char *text)
{
    crt_group_t *group = user;
    char who[160];

    if (atomic_load(&group->private->is_open))
        crti_group_fail(group, status, rank, "%s died: %s",
                        crti_group_describe(group, rank, who, sizeof(who)), text);
}

const crt_group_error_t *crt_collective_error(const crt_group_t *group)
{
    struct crti_group_private *p = group ? group->private : NULL;
    crt_group_error_t *e;

    if (!p || !atomic_load_explicit(&group->has_failed, memory_order_acquire))
        return NULL;
    e = &p->error;
    p->error_actor[0] = p->error_node[0] = '\0';
    /* The failure does not change any more. */
    *e = (crt_group_error_t){p->failure.status, p->failure.rank, p->error_actor,
                             p->error_node, p->failure.text};
    if (e->rank >= 0 && e->rank < group->size && group->members) {
        crti_id_hex(group->members[e->rank].actor, p->error_actor);
        crti_id_hex(group->members[e->rank].node, p->error_node);
    }
    return e;
}

crti_region_t *crti_group_region(crt_group_t *group)
{
    return group->private->region;
}

/* ---------------------------------------------------------------- opening and closing */

crt_status_t crti_group_prepare(crt_group_t *group, int size)
{
    struct crti_group_private *p = group->private;
    crt_status_t status = CRT_OK;

    crti_region_free(p->region);
    p->region = NULL;
    p->me.nonce = crti_id_random().low | 1;
    p->me.memory_fd = -1;
    p->me.address[0] = '\0';
    crti_links_free(group->links);
    group->links = NULL;
    crti_attendance_free(p->attendance);
    p->attendance = NULL;
    status = crti_region_new(size, p->me.nonce, &p->region);
    if (status == CRT_OK)
        status = crti_attendance_new(size, on_member_ended, group, &p->attendance);
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

static crt_status_t open_backend(crt_group_t *group, uint64_t deadline_ns)
{
    struct crti_group_private *p = group->private;
    int ranks[CRTI_GROUP_SIZE];
    crti_team_t team = {group->size, group->rank, ranks};

    for (int i = 0; i < group->size; i++)
        ranks[i] = i;
    p->backend = find_backend(group);
    if (p->backend == &crti_backend_shm && !are_on_one_node(group))
        return crti_group_fail(group, CRT_ERR_INVALID, -1,
                               "backend \"shm\" needs all members on one node");
    return p->backend->open(group, &team, deadline_ns, &p->state);
}

crt_status_t crti_group_open(crt_group_t *group, uint64_t deadline_ns)
{
    struct crti_group_private *p = group->private;
    size_t size = (size_t)group->size;
    crt_status_t status = CRT_OK;
    char text[600];
    uint64_t count;

    if (read(group->wake_fd, &count, sizeof(count)) < 0)
        count = 0; /* it had not failed */
    p->failure = (crti_group_failure_t){.rank = -1};
    atomic_store(&group->has_failed, false);
    p->was_told = false;
    p->sequence = 0;
    free(p->sent);
    free(p->received);
    p->sent = calloc(size, sizeof(*p->sent));
    p->received = calloc(size, sizeof(*p->received));
    if (!p->sent || !p->received)
        return crt_raise(CRT_ERR_NO_MEMORY, "group \"%s\" of %zu", group->name, size);
    for (int i = 0; i < group->size && status == CRT_OK; i++)
        status = crti_attendance_watch(p->attendance, i, &group->members[i]);
    if (status != CRT_OK)
        return status;
    atomic_store(&p->is_open, true);
    for (int i = 0; i < group->size; i++) {
        crt_status_t died;

        if (crti_attendance_has_ended(p->attendance, i, &died, text, sizeof(text)))
            on_member_ended(group, i, died, text);
    }
    status = crti_group_failed(group);
    return status == CRT_OK ? open_backend(group, deadline_ns) : status;
}

void crti_group_close(crt_group_t *group)
{
    struct crti_group_private *p = group->private;

    atomic_store(&p->is_open, false);
    if (p->state)
        p->backend->close(p->state);
    p->state = NULL;
    group->device = -1;
}

/* ---------------------------------------------------------------- making and ending */

static void free_group(crt_group_t *group)
{
    struct crti_group_private *p = group->private;

    crti_group_close(group);
    crti_attendance_free(p->attendance);
    crti_region_free(p->region);
    crti_links_free(group->links);
    if (group->wake_fd >= 0)
        close(group->wake_fd);
    pthread_mutex_destroy(&p->lock);
    free(p->sent);
    free(p->received);
    free(group->members);
    free(p);
    free(group);
}
CRTI_DEFINE_AUTO(crt_group_t *, free_group)

static crt_status_t check_options(const crt_group_options_t *o)
{
    static const char *const known[] = {"auto", "shm", "ring", "two-level", "nccl"};

    if (!o)
        return CRT_OK;
    if (o->struct_size < sizeof(*o))
        return crt_raise(CRT_ERR_INVALID, "make the options with CRT_GROUP_OPTIONS");
    if (o->timeout_ms < 0 || o->timeout_ms > LONGEST_MS)
        return crt_raise(CRT_ERR_INVALID, "a timeout of %lld ms",
                         (long long)o->timeout_ms);
    for (size_t i = 0; o->backend && i < sizeof(known) / sizeof(*known); i++)
        if (strcmp(o->backend, known[i]) == 0)
            return CRT_OK;
    return o->backend
               ? crt_raise(CRT_ERR_INVALID, "no backend is called \"%.40s\"", o->backend)
               : CRT_OK;
}

static crt_status_t new_group(const crt_group_options_t *o, int size, int rank,
                              crt_group_t **group_out)
{
    crt_group_t *group;
    struct crti_group_private *p;
    crt_status_t status = check_options(o);

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
    group->device = -1;
    group->wanted_device = o ? o->device : 0;
    group->gpu_stream = o ? o->stream : NULL;
    snprintf(group->name, sizeof(group->name), "%s", o && o->name ? o->name : "default");
    if (o && o->name && strlen(o->name) >= sizeof(group->name))
        group->name[0] = '\0'; /* refused with the key */
    snprintf(p->wanted_backend, sizeof(p->wanted_backend), "%s",
             o && o->backend ? o->backend : "auto");
    p->timeout_ms = o && o->timeout_ms ? o->timeout_ms : TIMEOUT_MS;
    p->wanted_size = size;
    p->wanted_rank = rank;
    p->failure.rank = -1;
    pthread_mutex_init(&p->lock, NULL);
    group->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    *group_out = group;
    return group->wake_fd < 0 ? crt_raise(CRT_ERR_IO, "eventfd: no descriptor left")
                              : CRT_OK;
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
    return status;
}

crt_status_t crt_collective_init_group(int size, int rank,
                                       const crt_group_options_t *options,
                                       crt_group_t **group_out)
{
    CRTI_AUTO(free_group) crt_group_t *group = NULL;
    crt_status_t status;

    if (!group_out)
        return crt_raise(CRT_ERR_INVALID, "there is no place for the group");
    if (size < 1 || size > CRTI_GROUP_SIZE || rank < CRT_RANK_ANY || rank >= size)
        return crt_raise(CRT_ERR_INVALID, "rank %d of %d members; at most %d", rank, size,
                         CRTI_GROUP_SIZE);
    status = new_group(options, size, rank, &group);
    if (status == CRT_OK)
        status = crti_rendezvous_init(group);
    if (status == CRT_OK)
        status = join(group);
    if (status == CRT_OK)
        *group_out = CRTI_TAKE(group);
    return status;
}

crt_status_t crt_collective_find_group(const char *name, crt_group_t **group_out)
{
    CRTI_AUTO(free_group) crt_group_t *group = NULL;
    crt_status_t status;

    if (!group_out)
        return crt_raise(CRT_ERR_INVALID, "there is no place for the group");
    status = new_group(CRT_GROUP_OPTIONS(.name = name), 1, 0, &group);
    if (status == CRT_OK)
        status = crti_rendezvous_init(group);
    if (status == CRT_OK)
        status = crti_rendezvous_find(group);
    if (status == CRT_OK)
        status = join(group);
    if (status == CRT_OK)
        *group_out = CRTI_TAKE(group);
    return status;
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

crt_status_t crt_collective_create_group(crt_actor_t *const *actors, const int *ranks,
                                         int size, const crt_group_options_t *options)
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

crt_status_t crt_collective_rebuild(crt_group_t *group, int size)
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
    if (p->state && p->backend->tell)
        p->backend->tell(p->state);
    crti_group_close(group);
    status = crti_rendezvous_again(group, size, deadline);
    if (status == CRT_OK)
        status = crti_group_open(group, deadline);
    return status == CRT_OK ? CRT_OK : stay_failed(group, status);
}

crt_status_t crt_collective_settle(crt_group_t *group)
{
    if (!group)
        return crt_raise(CRT_ERR_INVALID, "the group is NULL");
    CRT_TRY(crti_group_check_process());
    return group->size > 1 ? crti_rendezvous_settle(group) : CRT_OK;
}

uint64_t crt_collective_settled(const crt_group_t *group)
{
    return group ? group->private->settled : 0;
}

void crt_collective_destroy_group(crt_group_t **group_take)
{
    crt_group_t *group = group_take ? *group_take : NULL;

    if (!group)
        return;
    *group_take = NULL;
    if (crti_is_forked())
        return; /* the parent's; this copy goes with the process */
    if (crti_posting_is_busy(group))
        crti_group_fail(group, CRT_ERR_CANCELLED, group->rank,
                        "rank %d has destroyed its membership", group->rank);
    crti_posting_free(group);
    crti_rendezvous_leave(group);
    free_group(group);
}

int crt_collective_rank(const crt_group_t *group)
{
    return group ? group->rank : -1;
}

int crt_collective_size(const crt_group_t *group)
{
    return group ? group->size : 0;
}

const char *crt_collective_backend(const crt_group_t *group)
{
    return group && group->private->backend ? group->private->backend->name : "";
}

uint64_t crt_collective_incarnation(const crt_group_t *group)
{
    return group ? group->incarnation : 0;
}
