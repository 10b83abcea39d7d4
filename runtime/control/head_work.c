/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that puts long lists together. See head_work.h. */
#include "runtime/control/head_work.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"

struct crti_head_work {
    crti_loop_t *loop;
    crti_control_t *const *control;
    pthread_t thread;
    bool is_started;
    pthread_mutex_t lock; /* of the rest */
    pthread_cond_t changed;
    crti_list_t waiting, done; /* crti_control_work_t.link */
    bool is_over;
};

static crti_control_work_t *pop(crti_head_work_t *w, crti_list_t *list)
{
    crti_list_t *item;

    pthread_mutex_lock(&w->lock);
    item = crti_list_pop(list);
    pthread_mutex_unlock(&w->lock);
    return item ? CRTI_CONTAINER(item, crti_control_work_t, link) : NULL;
}

/* In the loop. A post may find that an earlier one has taken all. */
static void give_back(void *user)
{
    crti_head_work_t *w = user;
    crti_control_work_t *work;

    while ((work = pop(w, &w->done)))
        crti_control_worked(*w->control, work, crti_now_ns());
}

static void *serve(void *user)
{
    crti_head_work_t *w = user;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        crti_list_t *item = crti_list_pop(&w->waiting);
        crti_control_work_t *work;

        if (!item && w->is_over)
            break;
        if (!item) {
            pthread_cond_wait(&w->changed, &w->lock);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        work = CRTI_CONTAINER(item, crti_control_work_t, link);
        work->run(work);
        pthread_mutex_lock(&w->lock);
        crti_list_append(&w->done, &work->link);
        /* Without memory for the post it comes back with the next one. */
        if (crti_loop_post(w->loop, give_back, w) != CRT_OK)
            crti_log(CRTI_LOG_ERROR, "head", "%s", crt_error_detail());
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

bool crti_head_work_add(crti_head_work_t *w, crti_control_work_t *work)
{
    if (!w->is_started) {
        int error = crti_thread_start(&w->thread, NULL, serve, w);

        if (error) {
            crti_log(CRTI_LOG_WARN, "head", "no thread for long lists: %s",
                     strerror(error));
            return false;
        }
        w->is_started = true;
    }
    pthread_mutex_lock(&w->lock);
    crti_list_append(&w->waiting, &work->link);
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return true;
}

crt_status_t crti_head_work_new(crti_loop_t *loop, crti_control_t *const *control,
                                crti_head_work_t **work_out)
{
    crti_head_work_t *w = calloc(1, sizeof(*w));

    if (!w)
        return crt_raise(CRT_ERR_NO_MEMORY, "head");
    w->loop = loop;
    w->control = control;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    crti_list_init(&w->waiting);
    crti_list_init(&w->done);
    *work_out = w;
    return CRT_OK;
}

void crti_head_work_free(crti_head_work_t *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->is_over = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (w->is_started)
        pthread_join(w->thread, NULL);
    give_back(w);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
    free(w);
}
