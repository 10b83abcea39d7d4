/* SPDX-License-Identifier: Apache-2.0 */
/* Posting: operations that a thread of the group carries out, in their order.
 *
 * Where it sits
 *     crt_collective_post, test, wait -> [ posting.c ] -> operation.c
 * Threads
 *     The thread starts with the first post and ends with the group. `lock` covers the list and
 *     the states; `busy` is read without it: while it is 0 the owner of the group may run
 *     operations itself.
 * Ownership
 *     An operation is the caller's, but for its place in the list; what was not waited for is
 *     freed with the group.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/thread.h"

#include "collective/group_int.h"

struct crt_operation {
    crti_list_t link; /* posting->all */
    crti_list_t next; /* posting->waiting, until it runs */
    struct crti_posting *posting;
    crt_collective_t what;
    crt_tensor_t input, output;
    crt_status_t status; /* CRT_IN_PROGRESS until it has ended */
    char *text;          /* of its failure */
};

struct crti_posting {
    crt_group_t *group;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t posted, ended;
    crti_list_t all, waiting;
    atomic_uint busy; /* operations that have not ended */
    bool is_stopping;
};

static void finish(struct crti_posting *p, crt_operation_t *operation,
                   crt_status_t status)
{
    char *text = status == CRT_OK ? NULL : strdup(crt_error_detail());

    pthread_mutex_lock(&p->lock);
    operation->text = text;
    operation->status = status;
    atomic_fetch_sub(&p->busy, 1);
    pthread_cond_broadcast(&p->ended);
    pthread_mutex_unlock(&p->lock);
}

static void *run_posted(void *user)
{
    struct crti_posting *p = user;

    pthread_mutex_lock(&p->lock);
    for (;;) {
        crti_list_t *item = crti_list_pop(&p->waiting);
        crt_operation_t *operation;

        if (!item && p->is_stopping)
            break;
        if (!item) {
            pthread_cond_wait(&p->posted, &p->lock);
            continue;
        }
        operation = CRTI_CONTAINER(item, crt_operation_t, next);
        pthread_mutex_unlock(&p->lock);
        finish(p, operation, crti_operation_run(p->group, &operation->what));
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static crt_status_t start(crt_group_t *group)
{
    struct crti_posting *p = calloc(1, sizeof(*p));
    int error;

    if (!p)
        return crt_raise(CRT_ERR_NO_MEMORY, "a thread for posted operations");
    p->group = group;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->posted, NULL);
    pthread_cond_init(&p->ended, NULL);
    crti_list_init(&p->all);
    crti_list_init(&p->waiting);
    error = crti_thread_start(&p->thread, NULL, run_posted, p);
    if (error != 0) {
        free(p);
        return crt_raise(CRT_ERR_NO_MEMORY, "a thread for posted operations: %s",
                         strerror(error));
    }
    group->private->posting = p;
    return CRT_OK;
}

crt_status_t crt_collective_post(crt_group_t *group, const crt_collective_t *what,
                                 crt_operation_t **operation_out)
{
    crt_operation_t *operation;
    struct crti_posting *p;
    crt_status_t status;

    if (!group || !what || !operation_out)
        return crt_raise(CRT_ERR_INVALID, "post: the %s is NULL",
                         !group  ? "group"
                         : !what ? "operation"
                                 : "place for the result");
    CRT_TRY(crti_group_check_process());
    if (!group->private->posting) {
        status = start(group);
        if (status != CRT_OK)
            return status;
    }
    p = group->private->posting;
    operation = calloc(1, sizeof(*operation));
    if (!operation)
        return crt_raise(CRT_ERR_NO_MEMORY, "a posted operation");
    *operation =
        (crt_operation_t){.posting = p, .what = *what, .status = CRT_IN_PROGRESS};
    if (what->input) {
        operation->input = *what->input;
        operation->what.input = &operation->input;
    }
    if (what->output) {
        operation->output = *what->output;
        operation->what.output = &operation->output;
    }
    pthread_mutex_lock(&p->lock);
    crti_list_append(&p->all, &operation->link);
    crti_list_append(&p->waiting, &operation->next);
    atomic_fetch_add(&p->busy, 1);
    pthread_cond_signal(&p->posted);
    pthread_mutex_unlock(&p->lock);
    *operation_out = operation;
    return CRT_OK;
}

static crt_status_t raise_of(const crt_operation_t *operation)
{
    if (operation->status >= 0)
        return operation->status;
    return crt_raise(operation->status, "%s", operation->text ? operation->text : "");
}

crt_status_t crt_collective_test(crt_operation_t *operation)
{
    crt_status_t status;

    if (!operation)
        return crt_raise(CRT_ERR_INVALID, "the operation is NULL");
    CRT_TRY(crti_group_check_process());
    pthread_mutex_lock(&operation->posting->lock);
    status = raise_of(operation);
    pthread_mutex_unlock(&operation->posting->lock);
    return status;
}

crt_status_t crt_collective_wait(crt_operation_t **operation_take)
{
    crt_operation_t *operation = operation_take ? *operation_take : NULL;
    struct crti_posting *p;
    crt_status_t status;

    if (!operation)
        return crt_raise(CRT_ERR_INVALID, "the operation is NULL");
    CRT_TRY(crti_group_check_process());
    *operation_take = NULL;
    p = operation->posting;
    pthread_mutex_lock(&p->lock);
    while (operation->status == CRT_IN_PROGRESS)
        pthread_cond_wait(&p->ended, &p->lock);
    crti_list_remove(&operation->link);
    pthread_mutex_unlock(&p->lock);
    status = raise_of(operation);
    free(operation->text);
    free(operation);
    return status;
}

bool crti_posting_is_busy(crt_group_t *group)
{
    struct crti_posting *p = group->private->posting;

    /* Pairs with finish: what the thread did to the group is ours to see. */
    return p && atomic_load(&p->busy) > 0;
}

void crti_posting_drain(crt_group_t *group)
{
    struct crti_posting *p = group->private->posting;

    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    while (atomic_load(&p->busy))
        pthread_cond_wait(&p->ended, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

void crti_posting_free(crt_group_t *group)
{
    struct crti_posting *p = group->private->posting;
    crti_list_t *item;

    if (!p)
        return;
    crti_posting_drain(group);
    pthread_mutex_lock(&p->lock);
    p->is_stopping = true;
    pthread_cond_signal(&p->posted);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    while ((item = crti_list_pop(&p->all))) {
        crt_operation_t *operation = CRTI_CONTAINER(item, crt_operation_t, link);

        free(operation->text);
        free(operation);
    }
    pthread_cond_destroy(&p->posted);
    pthread_cond_destroy(&p->ended);
    pthread_mutex_destroy(&p->lock);
    free(p);
    group->private->posting = NULL;
}
