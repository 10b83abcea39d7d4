/* SPDX-License-Identifier: Apache-2.0 */
/* Spill threads. See spill_threads.h.
 *
 * Saver
 *     It sleeps until the store asks. Then it hears which saved objects are gone, and writes the
 *     coldest, a batch at a time: pinned, appended, settled, and only then called saved. Whatever
 *     fails, the objects of that batch stay where they are, in memory.
 * Loaders
 *     Two, so that one reads while the other checks. A load that finds no room in the store goes
 *     behind the others, for as long as room is being made, at least ROOM_NS.
 */
#include "runtime/node/objects/spill_threads.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"

#define LOADERS       2
#define THREADS       (LOADERS + 1)
#define BATCH_OBJECTS 4096u
#define BATCH_LEAST   (1u << 20)
#define BATCH_MOST    (32u << 20)
#define BATCH_SHARE   32              /* of the store's memory */
#define REST_NS       (10 * CRTI_MS)  /* a look takes a walk over all objects, ... */
#define REST_SHARE    9               /* ... and the rest so many times as long */
#define FAILED_NS     (500 * CRTI_MS) /* the same, when nothing could be written */
#define ROOM_NS       (10 * CRTI_S)
#define ROOM_SLICE_NS (20 * CRTI_MS)
#define STOP_NS       (2 * CRTI_S)
#define SLICE_NS      (100 * CRTI_MS) /* the longest that there is */

typedef struct batch {
    crti_object_id_t ids[BATCH_OBJECTS];
    crti_store_view_t views[BATCH_OBJECTS];
    size_t count;
    uint64_t bytes, most;
} batch_t;

struct crti_spill_threads {
    crti_store_t *store;
    crti_spill_files_t *files;
    void (*on_done)(void *user);
    void *user;
    pthread_t thread[THREADS];
    unsigned running;
    batch_t batch; /* the saver's */
    crti_spill_result_t last;
    int last_error;   /* of SHARED: the group */
    bool idles;       /* nothing was written, though something should be */
    uint64_t walk_ns; /* that the last look took */

    atomic_bool is_stopping;
    _Atomic uint64_t writes_since_ns; /* 0: the saver is in no write */
    pthread_mutex_t lock;             /* of the rest */
    pthread_cond_t wanted, ended;
    crti_list_t loads, done; /* crti_spill_load_t */
    unsigned live;           /* threads */
};

/* ---------------------------------------------------------------- beside others */

/* Of sched_setattr(2), as far as it is set; glibc has it late, and Linux's own header is none to be
 * included beside glibc's. */
typedef struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
} attributes_t;

/* Our threads compute for milliseconds, most calls for microseconds: whoever wakes up on our
 * processor has it at once, and not when our slice is over. By long slices: Linux (6.12 and later)
 * lets those with shorter ones go first. The share of the processor stays what it was. */
static void let_others_first(void)
{
    attributes_t a;

    if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0) != 0 || a.policy != SCHED_OTHER)
        return;
    a.runtime = SLICE_NS;
    (void)syscall(SYS_sched_setattr, 0, &a, 0);
}

/* ---------------------------------------------------------------- saver */

static void hear_of_gone(crti_spill_threads_t *t)
{
    crti_object_id_t id;

    while (!t->is_stopping && crti_store_spill_gone(t->store, &id))
        crti_spill_files_drop(t->files, id);
}

/* Told once, when it begins and when it ends. */
static void tell(crti_spill_threads_t *t, crti_spill_result_t result, int error)
{
    static const crti_store_spill_t states[] = {
        [CRTI_SPILL_DONE] = CRTI_STORE_SPILL_ON,
        [CRTI_SPILL_LIMITED] = CRTI_STORE_SPILL_LIMIT,
        [CRTI_SPILL_SHARED] = CRTI_STORE_SPILL_SHARE,
        [CRTI_SPILL_FAILED] = CRTI_STORE_SPILL_FAILS,
    };

    crti_store_spill_set(t->store, states[result], error,
                         result == CRTI_SPILL_SHARED
                             ? crti_spill_files_taken(t->files, (uint16_t)error)
                             : crti_spill_files_limit(t->files));
    if (result == t->last && error == t->last_error)
        return;
    t->last = result;
    t->last_error = error;
    if (result == CRTI_SPILL_FAILED)
        crti_log(
            CRTI_LOG_WARN, "spill",
            "%s can't be written: %s; objects stay in memory, and whoever makes new ones "
            "waits",
            crti_spill_files_failed(t->files), strerror(error));
    else if (result == CRTI_SPILL_LIMITED)
        crti_log(
            CRTI_LOG_WARN, "spill",
            "as much is spilled as may be (--spill-limit): objects stay in memory, and "
            "whoever makes new ones waits");
    else if (result == CRTI_SPILL_SHARED)
        crti_log(CRTI_LOG_WARN, "spill",
                 "the job whose id ends with %04x has as much on disk as one may have: "
                 "its objects stay in memory",
                 (unsigned)error);
    else
        crti_log(CRTI_LOG_NOTICE, "spill", "objects are spilled again");
}

/* What was appended of it counts. */
static void keep_batch(crti_spill_threads_t *t)
{
    batch_t *b = &t->batch;

    for (size_t i = 0; i < b->count; i++)
        if (!crti_store_saved(t->store, &b->views[i]))
            crti_spill_files_drop(t->files, b->ids[i]); /* freed meanwhile */
    crti_store_spill_made_room(t->store, b->bytes);
}

static void drop_batch(crti_spill_threads_t *t)
{
    batch_t *b = &t->batch;

    for (size_t i = 0; i < b->count; i++) {
        crti_store_release(t->store, &b->views[i]);
        crti_spill_files_drop(t->files, b->ids[i]);
    }
}

/* Stops in the midst of storage that hung: nothing of the store is touched. */
static bool end_batch(crti_spill_threads_t *t, crti_spill_result_t result, int error)
{
    int late = 0;

    if (t->batch.count == 0 && result == CRTI_SPILL_DONE)
        return true;
    if (result != CRTI_SPILL_FAILED) {
        crti_spill_result_t settled = crti_spill_files_settle(t->files, &late);

        if (settled != CRTI_SPILL_DONE) {
            result = settled;
            error = late;
        }
    }
    t->writes_since_ns = 0;
    if (t->is_stopping)
        return false;
    if (result == CRTI_SPILL_FAILED)
        drop_batch(t);
    else
        keep_batch(t);
    t->batch.count = 0;
    t->batch.bytes = 0;
    tell(t, result, error);
    return result == CRTI_SPILL_DONE;
}

/* CRTI_SPILL_DONE also when it is pinned, freed or gone meanwhile. */
static crti_spill_result_t save_one(crti_spill_threads_t *t,
                                    const crti_store_cold_t *cold, int *error)
{
    batch_t *b = &t->batch;
    crti_store_view_t *view = &b->views[b->count];
    crti_spill_result_t result;

    if (crti_store_get(t->store, cold->id, view) != CRT_OK)
        return CRTI_SPILL_DONE;
    if (t->writes_since_ns == 0)
        t->writes_since_ns = crti_now_ns();
    result = crti_spill_files_append(t->files, cold->id, cold->group, view->data,
                                     view->size, error);
    if (result == CRTI_SPILL_LIMITED || result == CRTI_SPILL_SHARED) {
        crti_store_release(t->store, view);
    } else { /* else it goes as the batch does */
        b->ids[b->count++] = cold->id;
        b->bytes += view->size;
    }
    return result;
}

static bool may_take(void *user, uint16_t group, uint64_t size)
{
    const crti_spill_threads_t *t = user;

    return crti_spill_files_may_take(t->files, group, size);
}

/* By this thread: a busy machine does not make walks longer. */
static uint64_t computed_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * CRTI_S + (uint64_t)t.tv_nsec;
}

/* A look may hang as a write does. */
static crt_status_t choose(crti_spill_threads_t *t, bool is_waited,
                           crti_store_choice_t *choice, crti_store_cold_t **cold_out,
                           size_t *count_out)
{
    uint64_t since = crti_now_ns();
    crt_status_t status;

    *choice = (crti_store_choice_t){.may = may_take, .user = t};
    t->writes_since_ns = since;
    crti_spill_files_look(t->files);
    t->writes_since_ns = 0;
    if (crti_now_ns() - since > CRTI_S && !t->is_stopping) /* it may have been told */
        tell(t, t->last, t->last_error);
    if (t->is_stopping)
        return crt_raise(CRT_ERR_CLOSED, "the node ends");
    since = computed_ns();
    status = crti_store_spill_choose(t->store, is_waited, choice, cold_out, count_out);
    t->walk_ns = computed_ns() - since;
    return status;
}

static void save(crti_spill_threads_t *t, bool is_waited)
{
    crti_store_choice_t choice;
    crti_store_cold_t *cold;
    size_t count;
    crti_spill_result_t result = CRTI_SPILL_DONE;
    uint64_t written = crti_spill_files_figures(t->files).written;
    int error = 0;
    bool goes_on = true;

    if (choose(t, is_waited, &choice, &cold, &count) != CRT_OK) {
        if (!t->is_stopping)
            crti_log(CRTI_LOG_ERROR, "spill", "%s", crt_error_detail());
        return;
    }
    for (size_t i = 0; i < count && goes_on && !t->is_stopping; i++) {
        result = save_one(t, &cold[i], &error);
        if (result == CRTI_SPILL_SHARED) { /* those of others go on */
            choice.is_held = true;
            choice.held = cold[i].group;
        } else if (result != CRTI_SPILL_DONE || t->batch.count == BATCH_OBJECTS ||
                   t->batch.bytes >= t->batch.most) {
            goes_on = end_batch(t, result, error);
        }
    }
    if (goes_on)
        end_batch(t, choice.is_held ? CRTI_SPILL_SHARED : CRTI_SPILL_DONE,
                  choice.is_held ? choice.held : 0);
    t->idles = t->last != CRTI_SPILL_DONE &&
               crti_spill_files_figures(t->files).written == written;
    free(cold);
}

static void leave(crti_spill_threads_t *t)
{
    pthread_mutex_lock(&t->lock);
    t->live--;
    pthread_cond_signal(&t->ended);
    pthread_mutex_unlock(&t->lock);
}

/* A walk over a million objects is not made all the time, unless somebody waits. */
static uint64_t rest_of(const crti_spill_threads_t *t)
{
    uint64_t rest = t->idles ? FAILED_NS : REST_NS;

    return rest > REST_SHARE * t->walk_ns ? rest : REST_SHARE * t->walk_ns;
}

static void *save_all(void *user)
{
    crti_spill_threads_t *t = user;
    bool is_waited;

    let_others_first();
    is_waited = crti_store_spill_sleep(t->store, false, UINT64_MAX);
    while (!t->is_stopping) {
        hear_of_gone(t);
        save(t, is_waited);
        if (!t->is_stopping)
            crti_store_spill_sleep(t->store, true, crti_now_ns() + rest_of(t));
        if (!t->is_stopping)
            is_waited = crti_store_spill_sleep(t->store, false, UINT64_MAX);
    }
    leave(t);
    return NULL;
}

/* ---------------------------------------------------------------- loaders */

static void keep_error(crti_spill_load_t *load, crt_status_t status)
{
    load->status = status;
    snprintf(load->text, sizeof(load->text), "%s",
             status == CRT_OK ? "" : crt_error_detail());
}

static crt_status_t fill(crti_spill_threads_t *t, const crti_spill_load_t *load,
                         void *data, size_t size)
{
    crt_status_t status = crti_store_prepare(t->store, data, size);

    return status == CRT_OK ? crti_spill_files_read(t->files, load->object, 0, data, size)
                            : status;
}

/* CRT_IN_PROGRESS: there is no room yet. */
static crt_status_t wait_for_room(crti_spill_threads_t *t, crti_spill_load_t *load,
                                  size_t size)
{
    uint64_t now = crti_now_ns(), saved = crti_store_saved_bytes(t->store);
    crt_status_t status;

    if (load->until_ns == 0 || load->saved != saved) {
        load->until_ns = now + ROOM_NS;
        load->saved = saved;
    }
    status = crti_store_wait_space(t->store, size, now + ROOM_SLICE_NS);
    return status == CRT_OK || (status == CRT_ERR_STORE_FULL && now < load->until_ns)
               ? CRT_IN_PROGRESS
               : status;
}

/* Into the store. */
static crt_status_t restore(crti_spill_threads_t *t, crti_spill_load_t *load)
{
    void *data;
    size_t size;
    crt_status_t status = crti_store_restore(t->store, load->object, &data, &size);

    if (status == CRT_ERR_STORE_FULL)
        return wait_for_room(t, load, (size_t)load->size);
    if (status == CRT_ERR_NOT_FOUND) /* it is here, or was freed */
        return crti_store_contains(t->store, load->object)
                   ? CRT_OK
                   : crt_raise(CRT_ERR_NOT_FOUND, "its owner has freed it");
    if (status != CRT_OK)
        return status;
    status = fill(t, load, data, size);
    if (t->is_stopping)
        return crt_raise(CRT_ERR_CLOSED, "the node ends");
    if (status == CRT_OK)
        return crti_store_seal(t->store, load->object, true);
    keep_error(load, status);
    crti_store_abort(t->store, load->object);
    if (status == CRT_ERR_OBJECT_LOST)
        crti_store_lose(t->store, load->object);
    return crt_raise(status, "%s", load->text);
}

static crti_spill_load_t *next_load(crti_spill_threads_t *t)
{
    crti_list_t *item;

    pthread_mutex_lock(&t->lock);
    while (!t->is_stopping && crti_list_is_empty(&t->loads))
        pthread_cond_wait(&t->wanted, &t->lock);
    item = t->is_stopping ? NULL : crti_list_pop(&t->loads);
    pthread_mutex_unlock(&t->lock);
    return item ? CRTI_CONTAINER(item, crti_spill_load_t, link) : NULL;
}

/* Also told under the lock: who stops takes it before the loop goes. */
static void end_load(crti_spill_threads_t *t, crti_spill_load_t *load,
                     crt_status_t status)
{
    pthread_mutex_lock(&t->lock);
    if (status == CRT_IN_PROGRESS) {
        crti_list_append(&t->loads, &load->link);
    } else {
        crti_list_append(&t->done, &load->link);
        if (!t->is_stopping)
            t->on_done(t->user);
    }
    pthread_mutex_unlock(&t->lock);
}

static void *load_all(void *user)
{
    crti_spill_threads_t *t = user;
    crti_spill_load_t *load;

    let_others_first();
    while ((load = next_load(t))) {
        crt_status_t status =
            load->bytes ? crti_spill_files_read(t->files, load->object, load->offset,
                                                load->bytes, load->size)
                        : restore(t, load);

        if (status != CRT_IN_PROGRESS)
            keep_error(load, status);
        end_load(t, load, status);
    }
    leave(t);
    return NULL;
}

/* ---------------------------------------------------------------- the loop's */

void crti_spill_threads_load(crti_spill_threads_t *threads, crti_spill_load_t *load)
{
    pthread_mutex_lock(&threads->lock);
    crti_list_append(&threads->loads, &load->link);
    pthread_cond_signal(&threads->wanted);
    pthread_mutex_unlock(&threads->lock);
}

crti_spill_load_t *crti_spill_threads_done(crti_spill_threads_t *threads)
{
    crti_list_t *item;

    pthread_mutex_lock(&threads->lock);
    item = crti_list_pop(&threads->done);
    pthread_mutex_unlock(&threads->lock);
    return item ? CRTI_CONTAINER(item, crti_spill_load_t, link) : NULL;
}

uint64_t crti_spill_threads_stalled(const crti_spill_threads_t *threads, uint64_t now_ns)
{
    uint64_t since = threads->writes_since_ns;

    return since && since < now_ns ? now_ns - since : 0;
}

crt_status_t crti_spill_threads_start(crti_store_t *store, crti_spill_files_t *files,
                                      void (*on_done)(void *user), void *user,
                                      crti_spill_threads_t **threads_out)
{
    crti_spill_threads_t *t = calloc(1, sizeof(*t));
    struct crti_store_stats stats;
    int error = 0;

    if (!t)
        return crt_raise(CRT_ERR_NO_MEMORY, "spilling");
    t->store = store;
    t->files = files;
    t->on_done = on_done;
    t->user = user;
    crti_store_stats(store, &stats);
    t->batch.most = stats.capacity / BATCH_SHARE;
    t->batch.most = t->batch.most < BATCH_LEAST ? BATCH_LEAST : t->batch.most;
    t->batch.most = t->batch.most > BATCH_MOST ? BATCH_MOST : t->batch.most;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wanted, NULL);
    pthread_cond_init(&t->ended, NULL);
    crti_list_init(&t->loads);
    crti_list_init(&t->done);
    for (; t->running < THREADS && !error; t->running += !error) {
        t->live++;
        error = crti_thread_start(&t->thread[t->running], NULL,
                                  t->running == 0 ? save_all : load_all, t);
        t->live -= error != 0;
    }
    if (error) {
        crti_spill_threads_stop(t);
        return crt_raise(CRT_ERR_BACKPRESSURE, "spilling: a thread: %s", strerror(error));
    }
    crti_store_spill_set(store, CRTI_STORE_SPILL_ON, 0, 0);
    *threads_out = t;
    return CRT_OK;
}

static void free_loads(crti_list_t *list)
{
    crti_list_t *item;

    while ((item = crti_list_pop(list))) {
        crti_spill_load_t *load = CRTI_CONTAINER(item, crti_spill_load_t, link);

        free(load->bytes);
        free(load);
    }
}

static bool have_ended(crti_spill_threads_t *t)
{
    struct timespec until;
    int error = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += STOP_NS / CRTI_S;
    while (t->live > 0 && error == 0)
        error = pthread_cond_timedwait(&t->ended, &t->lock, &until);
    return t->live == 0;
}

bool crti_spill_threads_stop(crti_spill_threads_t *threads)
{
    crti_spill_threads_t *t = threads;
    bool is_over;

    pthread_mutex_lock(&t->lock);
    t->is_stopping = true;
    pthread_cond_broadcast(&t->wanted);
    crti_store_spill_wake(t->store);
    is_over = have_ended(t);
    pthread_mutex_unlock(&t->lock);
    for (unsigned i = 0; i < t->running; i++)
        if (is_over)
            pthread_join(t->thread[i], NULL);
        else
            pthread_detach(t->thread[i]);
    if (!is_over)
        return false;
    free_loads(&t->loads);
    free_loads(&t->done);
    pthread_cond_destroy(&t->wanted);
    pthread_cond_destroy(&t->ended);
    pthread_mutex_destroy(&t->lock);
    free(t);
    return true;
}
