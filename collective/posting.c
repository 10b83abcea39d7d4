/* SPDX-License-Identifier: Apache-2.0 */
/* Posting: operations that go on while their caller does something else.
 *
 * Where it sits
 *     crt_group_post, test, wait -> [ posting.c ] -> operation.c, message.c
 * Threads
 *     Operations of the whole group are carried out by a thread, in their order; it starts with the
 *     first of them and ends with the group. Messages between two begin at once, in the caller's
 *     thread, and go on whenever that is in a call on the group; while the thread has something to
 *     do they queue behind that, and go on in the thread. `lock` covers the lists and the states;
 *     `busy` is read without it: while it is 0 the owner of the group may use the backend itself,
 *     and only the owner makes it more.
 * Ownership
 *     An operation is the caller's, but for its place in the list; what was not waited for is
 *     freed with the group. A few that have ended are kept for the next ones: a short message takes
 *     less time than an allocation.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/copy_struct.h"
#include "runtime/base/thread.h"

#include "collective/group_int.h"

#define SPARES 32

struct crt_operation {
    crti_list_t link; /* posting->all, or spare */
    crti_list_t next; /* posting->waiting, until it runs */
    struct crti_posting *posting;
    crt_collective_t what;
    crt_tensor_t input, output;
    crt_status_t status; /* CRT_IN_PROGRESS until it has ended */
    char *text;          /* of its failure */
    /* a message between two */
    bool is_message;
    bool is_begun;    /* the backend has it */
    crti_pair_t pair; /* may end without the lock */
};

struct crti_posting {
    crt_group_t *group;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t posted, ended;
    crti_list_t all, waiting, spare;
    int spare_count;
    atomic_uint busy;    /* operations that the thread has not dealt with */
    atomic_uint waiters; /* for messages that go on in the thread */
    bool is_stopping;
};

/* With the lock. `status` is negative, and this thread has its text. */
static void fail(crt_operation_t *operation, crt_status_t status)
{
    operation->text = strdup(crt_error_detail());
    operation->status = status;
    crti_list_remove(&operation->pair.link);
}

/* With the lock. */
static crt_status_t look(crt_operation_t *operation)
{
    if (operation->status == CRT_IN_PROGRESS && operation->is_begun &&
        atomic_load_explicit(&operation->pair.is_done, memory_order_acquire))
        operation->status = CRT_OK;
    return operation->status;
}

/* The thread has run an operation of the whole group, or begun a message. */
static void finish(struct crti_posting *p, crt_operation_t *operation,
                   crt_status_t status)
{
    pthread_mutex_lock(&p->lock);
    operation->is_begun = true;
    if (status < 0)
        fail(operation, status);
    else if (!operation->is_message)
        operation->status = status;
    atomic_fetch_sub(&p->busy, 1);
    pthread_cond_broadcast(&p->ended);
    pthread_mutex_unlock(&p->lock);
}

void crti_group_message_ended(crt_group_t *group)
{
    struct crti_posting *p = group->private->posting;

    if (!p || !atomic_load_explicit(&p->busy, memory_order_relaxed))
        return; /* it ends in the thread that would wait for it */
    /* Pairs with wait_for_thread: either it sees the end, or we see that it waits. */
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&p->waiters, memory_order_relaxed))
        return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->ended);
    pthread_mutex_unlock(&p->lock);
}

static crt_status_t run(struct crti_posting *p, crt_operation_t *operation)
{
    return operation->is_message
               ? crti_message_begin(p->group, &operation->what, &operation->pair)
               : crti_operation_run(p->group, &operation->what);
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
        finish(p, operation, run(p, operation));
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static crt_status_t new_posting(crt_group_t *group)
{
    struct crti_posting *p = calloc(1, sizeof(*p));

    if (!p)
        return crt_raise(CRT_ERR_NO_MEMORY, "posted operations");
    p->group = group;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->posted, NULL);
    pthread_cond_init(&p->ended, NULL);
    crti_list_init(&p->all);
    crti_list_init(&p->waiting);
    crti_list_init(&p->spare);
    group->private->posting = p;
    return CRT_OK;
}

static crt_status_t start_thread(struct crti_posting *p)
{
    int error = crti_thread_start(&p->thread, NULL, run_posted, p);

    p->has_thread = error == 0;
    return error == 0 ? CRT_OK
                      : crt_raise(CRT_ERR_NO_MEMORY, "a thread for posted operations: %s",
                                  strerror(error));
}

/* With the lock. */
static crt_operation_t *new_operation(struct crti_posting *p)
{
    crti_list_t *spare = crti_list_pop(&p->spare);
    crt_operation_t *operation;

    if (spare)
        p->spare_count--;
    operation =
        spare ? CRTI_CONTAINER(spare, crt_operation_t, link) : malloc(sizeof(*operation));
    if (!operation)
        return NULL;
    *operation = (crt_operation_t){.posting = p, .status = CRT_IN_PROGRESS};
    crti_list_init(&operation->pair.link);
    crti_list_init(&operation->next);
    return operation;
}

/* With the lock: it is in no list. */
static void drop(struct crti_posting *p, crt_operation_t *operation)
{
    free(operation->text);
    if (p->spare_count == SPARES) {
        free(operation);
        return;
    }
    operation->text = NULL;
    p->spare_count++;
    crti_list_append(&p->spare, &operation->link);
}

/* What is to be done, with tensors that the caller need not keep. */
static crt_status_t describe(crt_operation_t *operation, const crt_collective_t *what)
{
    crt_collective_t *mine = &operation->what;

    CRT_TRY(CRTI_COPY_STRUCT(mine, what, "CRT_COLLECTIVE"));
    operation->is_message = crti_is_message(mine->kind);
    if (mine->input) {
        operation->input = *mine->input;
        mine->input = &operation->input;
    }
    if (mine->output) {
        operation->output = *mine->output;
        mine->output = &operation->output;
    }
    return CRT_OK;
}

/* With the lock. */
static crt_status_t post(struct crti_posting *p, crt_operation_t *operation,
                         const crt_collective_t *what)
{
    crt_status_t status;

    CRT_TRY(describe(operation, what));
    if (operation->is_message && !atomic_load(&p->busy)) {
        status = run(p, operation);
        operation->is_begun = true;
        if (status != CRT_OK)
            fail(operation, status);
    } else {
        if (!p->has_thread)
            CRT_TRY(start_thread(p));
        crti_list_append(&p->waiting, &operation->next);
        atomic_fetch_add(&p->busy, 1);
        pthread_cond_signal(&p->posted);
    }
    crti_list_append(&p->all, &operation->link);
    return CRT_OK;
}

crt_status_t crt_group_post(crt_group_t *group, const crt_collective_t *what,
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
    if (!group->private->posting)
        CRT_TRY(new_posting(group));
    p = group->private->posting;
    pthread_mutex_lock(&p->lock);
    operation = new_operation(p);
    status = operation ? post(p, operation, what)
                       : crt_raise(CRT_ERR_NO_MEMORY, "a posted operation");
    if (status != CRT_OK && operation)
        drop(p, operation);
    pthread_mutex_unlock(&p->lock);
    if (status == CRT_OK)
        *operation_out = operation;
    return status;
}

static crt_status_t raise_of(const crt_operation_t *operation)
{
    if (operation->status >= 0)
        return operation->status;
    return crt_raise(operation->status, "%s", operation->text ? operation->text : "");
}

/* With the lock: the backend is the thread's. Returns after a change. */
static void wait_for_thread(struct crti_posting *p, crt_operation_t *const *operations,
                            size_t count)
{
    bool has_ended = false;

    atomic_fetch_add(&p->waiters, 1);
    atomic_thread_fence(memory_order_seq_cst);
    for (size_t i = 0; i < count; i++)
        has_ended |= operations[i] && look(operations[i]) != CRT_IN_PROGRESS;
    if (!has_ended)
        pthread_cond_wait(&p->ended, &p->lock);
    atomic_fetch_sub(&p->waiters, 1);
}

crt_status_t crt_operation_test(crt_operation_t *operation)
{
    struct crti_posting *p;
    crt_status_t status;

    if (!operation)
        return crt_raise(CRT_ERR_INVALID, "the operation is NULL");
    CRT_TRY(crti_group_check_process());
    p = operation->posting;
    pthread_mutex_lock(&p->lock);
    if (look(operation) == CRT_IN_PROGRESS && operation->is_message &&
        !atomic_load(&p->busy)) {
        status = crti_message_progress(p->group);
        if (look(operation) == CRT_IN_PROGRESS && status != CRT_OK)
            fail(operation, status);
    }
    status = raise_of(operation);
    pthread_mutex_unlock(&p->lock);
    return status;
}

/* With the lock. One that has ended: it is taken from the caller. */
static crt_status_t take(crt_operation_t **operation_take)
{
    crt_operation_t *operation = *operation_take;
    crt_status_t status = raise_of(operation);

    *operation_take = NULL;
    crti_list_remove(&operation->link);
    drop(operation->posting, operation);
    return status;
}

/* With the lock: all of them are messages that have begun, and the backend is ours. */
static void await_messages(struct crti_posting *p, crt_operation_t *const *operations,
                           size_t count, crti_pair_t **pairs)
{
    const crt_operation_t *first = NULL;
    crt_status_t status;
    int found = 0;

    for (size_t i = 0; i < count; i++)
        if (operations[i]) {
            first = first ? first : operations[i];
            pairs[found++] = &operations[i]->pair;
        }
    pthread_mutex_unlock(&p->lock);
    status = crti_message_await(
        p->group, pairs, found,
        crti_operation_deadline(p->group, &first->what, crti_now_ns()));
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < count && status != CRT_OK; i++)
        if (operations[i] && look(operations[i]) == CRT_IN_PROGRESS)
            fail(operations[i], status);
}

/* With the lock: waits until one has ended, and says which. NULL is skipped; there is one that is
 * not. */
static size_t wait_for_first(struct crti_posting *p, crt_operation_t *const *operations,
                             size_t count, crti_pair_t **pairs)
{
    for (;;) {
        for (size_t i = 0; i < count; i++)
            if (operations[i] && look(operations[i]) != CRT_IN_PROGRESS)
                return i;
        if (atomic_load(&p->busy))
            wait_for_thread(p, operations, count);
        else
            await_messages(p, operations, count, pairs);
    }
}

crt_status_t crt_operation_wait(crt_operation_t **operation_take)
{
    struct crti_posting *p;
    crti_pair_t *pair;
    crt_status_t status;

    if (!operation_take || !*operation_take)
        return crt_raise(CRT_ERR_INVALID, "the operation is NULL");
    CRT_TRY(crti_group_check_process());
    p = (*operation_take)->posting;
    pthread_mutex_lock(&p->lock);
    wait_for_first(p, operation_take, 1, &pair);
    status = take(operation_take);
    pthread_mutex_unlock(&p->lock);
    return status;
}

/* The lock of `to` instead of that of `from`; both may be NULL. */
static struct crti_posting *change_lock(struct crti_posting *from,
                                        struct crti_posting *to)
{
    if (from == to)
        return to;
    if (from)
        pthread_mutex_unlock(&from->lock);
    if (to)
        pthread_mutex_lock(&to->lock);
    return to;
}

crt_status_t crt_operation_wait_all(crt_operation_t **operations_take, size_t count)
{
    struct crti_posting *p = NULL;
    char text[1200];
    crt_status_t first = CRT_OK;

    if (!operations_take && count)
        return crt_raise(CRT_ERR_INVALID, "waitall: there are no operations");
    CRT_TRY(crti_group_check_process());
    for (size_t i = 0; i < count; i++) {
        crti_pair_t *pair;
        crt_status_t status;

        if (!operations_take[i])
            continue;
        p = change_lock(p, operations_take[i]->posting);
        wait_for_first(p, &operations_take[i], 1, &pair);
        status = take(&operations_take[i]);
        if (status != CRT_OK && first == CRT_OK) {
            first = status;
            snprintf(text, sizeof(text), "%s", crt_error_detail());
        }
    }
    change_lock(p, NULL);
    return first == CRT_OK ? CRT_OK : crt_raise(first, "%s", text);
}

crt_status_t crt_operation_wait_any(crt_operation_t **operations_take, size_t count,
                                    size_t *index_out)
{
    CRTI_AUTO(free) crti_pair_t **pairs = calloc(count + 1, sizeof(crti_pair_t *));
    const crt_operation_t *first = NULL;
    struct crti_posting *p;
    crt_status_t status;

    if (!pairs)
        return crt_raise(CRT_ERR_NO_MEMORY, "waitany: %zu operations", count);
    if (!operations_take || !index_out)
        return crt_raise(CRT_ERR_INVALID, "waitany: there is no place for the %s",
                         index_out ? "operations" : "index");
    CRT_TRY(crti_group_check_process());
    for (size_t i = 0; i < count; i++) {
        const crt_operation_t *one = operations_take[i];

        if (one && first && one->posting != first->posting)
            return crt_raise(CRT_ERR_INVALID,
                             "waitany: the operations are of different groups");
        first = first ? first : one;
    }
    if (!first)
        return crt_raise(CRT_ERR_INVALID, "waitany: none of %zu operations is left",
                         count);
    p = first->posting;
    pthread_mutex_lock(&p->lock);
    *index_out = wait_for_first(p, operations_take, count, pairs);
    status = take(&operations_take[*index_out]);
    pthread_mutex_unlock(&p->lock);
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
    crt_status_t status;

    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    while (atomic_load(&p->busy))
        pthread_cond_wait(&p->ended, &p->lock);
    status = crti_group_failed(group);
    CRTI_LIST_FOREACH (item, &p->all) {
        crt_operation_t *operation = CRTI_CONTAINER(item, crt_operation_t, link);

        if (look(operation) == CRT_IN_PROGRESS && status != CRT_OK)
            fail(operation, status);
    }
    pthread_mutex_unlock(&p->lock);
}

static void free_all(crti_list_t *operations)
{
    crti_list_t *item;

    while ((item = crti_list_pop(operations))) {
        crt_operation_t *operation = CRTI_CONTAINER(item, crt_operation_t, link);

        crti_list_remove(&operation->pair.link);
        free(operation->text);
        free(operation);
    }
}

void crti_posting_free(crt_group_t *group)
{
    struct crti_posting *p = group->private->posting;

    if (!p)
        return;
    crti_posting_drain(group);
    pthread_mutex_lock(&p->lock);
    p->is_stopping = true;
    pthread_cond_signal(&p->posted);
    pthread_mutex_unlock(&p->lock);
    if (p->has_thread)
        pthread_join(p->thread, NULL);
    free_all(&p->all);
    free_all(&p->spare);
    pthread_cond_destroy(&p->posted);
    pthread_cond_destroy(&p->ended);
    pthread_mutex_destroy(&p->lock);
    free(p);
    group->private->posting = NULL;
}
