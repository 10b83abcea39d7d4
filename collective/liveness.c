/* SPDX-License-Identifier: Apache-2.0 */
/* Watching the processes of members. See liveness.h. */
#include "collective/liveness.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/remotes.h"

typedef struct entry {
    crti_process_watch_t watch;
    crti_liveness_t *liveness;
    crti_id_t process;
    int index;
    bool is_watched; /* caller's thread */
    bool has_ended;  /* this and below under `lock` */
    crt_status_t status;
    char text[CRTI_LIVENESS_TEXT];
} entry_t;

struct crti_liveness {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    crti_liveness_handler_t *on_ended;
    void *user;
    crti_core_t *core; /* that watches */
    int size;
    uint64_t ended, seen; /* how many; under `lock` */
    entry_t entries[];
};

crt_status_t crti_liveness_new(int size, crti_liveness_handler_t *on_ended, void *user,
                               crti_liveness_t **out)
{
    crti_liveness_t *a = calloc(1, sizeof(*a) + (size_t)size * sizeof(entry_t));
    pthread_condattr_t attributes;

    if (!a)
        return crt_raise(CRT_ERR_NO_MEMORY, "a group of %d", size);
    a->on_ended = on_ended;
    a->user = user;
    a->size = size;
    pthread_mutex_init(&a->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&a->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    *out = a;
    return CRT_OK;
}

static void unwatch_all(crti_liveness_t *a)
{
    crti_core_t *core = crti_enter_quiet();

    for (int i = 0; core && i < a->size; i++)
        if (a->entries[i].is_watched)
            crti_process_unwatch(core, &a->entries[i].watch);
    if (core)
        crti_leave(core);
}

void crti_liveness_free(crti_liveness_t *a)
{
    if (!a)
        return;
    unwatch_all(a);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

static void on_ended(crti_process_watch_t *watch, crt_status_t status, const char *text)
{
    entry_t *e = CRTI_CONTAINER(watch, entry_t, watch);
    crti_liveness_t *a = e->liveness;

    pthread_mutex_lock(&a->lock);
    e->has_ended = true;
    e->status = status;
    snprintf(e->text, sizeof(e->text), "%s", text);
    a->ended++;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    if (a->on_ended)
        a->on_ended(a->user, a->core, e->index, status, text);
}

crt_status_t crti_liveness_watch(crti_liveness_t *a, int index,
                                 const crti_member_t *member)
{
    entry_t *e = &a->entries[index];
    crti_address_t address = {.process = member->process,
                              .incarnation = member->process_incarnation,
                              .node = member->node};
    crti_core_t *core = crti_enter();
    crt_status_t status = CRT_OK;

    if (!core)
        return crti_entry_status();
    if (e->is_watched && !crti_id_equal(e->process, member->process)) {
        crti_process_unwatch(core, &e->watch);
        e->is_watched = false;
        pthread_mutex_lock(&a->lock);
        e->has_ended = false;
        pthread_mutex_unlock(&a->lock);
    }
    if (!e->is_watched && !crti_id_equal(core->process, member->process)) {
        e->liveness = a;
        e->index = index;
        e->process = member->process;
        e->watch.on_ended = on_ended;
        a->core = core;
        status = crti_process_watch(core, &address, &e->watch);
        e->is_watched = status == CRT_OK;
    }
    crti_leave(core);
    return status;
}

bool crti_liveness_has_ended(crti_liveness_t *a, int index, crt_status_t *status_out,
                             char *text, size_t text_bytes)
{
    entry_t *e = &a->entries[index];
    bool has_ended;

    pthread_mutex_lock(&a->lock);
    has_ended = e->has_ended;
    if (has_ended && status_out)
        *status_out = e->status;
    if (has_ended && text)
        snprintf(text, text_bytes, "%s", e->text);
    pthread_mutex_unlock(&a->lock);
    return has_ended;
}

void crti_liveness_wait(crti_liveness_t *a, uint64_t ns)
{
    uint64_t until = crti_now_ns() + ns;
    struct timespec t = {.tv_sec = (time_t)(until / CRTI_S),
                         .tv_nsec = (long)(until % CRTI_S)};

    pthread_mutex_lock(&a->lock);
    while (a->ended == a->seen)
        if (pthread_cond_timedwait(&a->changed, &a->lock, &t) != 0)
            break;
    a->seen = a->ended;
    pthread_mutex_unlock(&a->lock);
}
