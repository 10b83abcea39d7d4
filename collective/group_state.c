/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: who is in one, and whether and why it has failed. Every other file of the group and of
 * its backends may ask; this one calls none of them. See group.h. */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "collective/group_int.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/number_text.h"
#include "runtime/core/process/entry.h"

#define PAUSE_NS     (60 * CRTI_S)   /* after a wait was told of; then twice that, */
#define PAUSE_MAX_NS (3600 * CRTI_S) /* up to this */

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
    crti_vformat(failure.text, sizeof(failure.text), format, args);
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

bool crti_group_needs(const crt_group_t *group, int rank, uint64_t done)
{
    for (int i = 0; i < group->await_count; i++)
        if (group->awaits[i]->rank == rank)
            return true;
    return group->await_count == 0 && !(group->running && done >= group->running);
}

void crti_group_fail_later(crt_group_t *group, crt_status_t status, int rank,
                           const char *text)
{
    crti_group_failure_t *later = &group->private->later;

    if (later->status != CRT_OK)
        return;
    *later = (crti_group_failure_t){.status = status, .rank = rank};
    snprintf(later->text, sizeof(later->text), "%s", text);
}

void crti_group_tell_wait(crt_group_t *group, uint64_t waited_ns, const char *what,
                          const char *who)
{
    uint64_t now = crti_now_ns();
    char seconds[32];

    if (group->told_ns && now < group->told_ns + group->tell_pause_ns)
        return;
    group->tell_pause_ns = group->told_ns == 0 ? PAUSE_NS
                           : group->tell_pause_ns < PAUSE_MAX_NS / 2
                               ? 2 * group->tell_pause_ns
                               : PAUSE_MAX_NS;
    group->told_ns = now;
    crti_format(seconds, sizeof(seconds), "%.1f", (double)waited_ns / (double)CRTI_S);
    crti_log(CRTI_LOG_WARN, "collective", "group \"%s\": %s has waited %s s for %s",
             group->name, what, seconds, who);
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
        crti_liveness_wait(p->liveness, deadline_ns - now);
    }
    return crti_group_fail(group, CRT_ERR_ACTOR_DIED, rank, "%s: %s",
                           crti_group_describe(group, rank, who, sizeof(who)), seen);
}

const crt_group_error_t *crt_group_last_error(const crt_group_t *group)
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

/* ---------------------------------------------------------------- facts */

crti_region_t *crti_group_region(crt_group_t *group)
{
    return group->private->region;
}

int crt_group_rank(const crt_group_t *group)
{
    return group ? group->rank : -1;
}

int crt_group_size(const crt_group_t *group)
{
    return group ? group->size : 0;
}

const char *crt_group_backend(const crt_group_t *group)
{
    return group && group->private->backend ? group->private->backend->name : "";
}

uint64_t crt_group_incarnation(const crt_group_t *group)
{
    return group ? group->incarnation : 0;
}
