/* SPDX-License-Identifier: Apache-2.0 */
/* The helper of crt-http as a driver: what may wait, and what takes long. See caller.h.
 *
 * Where it sits
 *     http/caller.c -> [ http/caller_helper.c ] -> core/client/outside.c
 * Threads
 *     One of its own; crti_caller_begin_call also runs in the loop. What both touch is under the
 *     caller's mutex.
 */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/base/rundir.h"
#include "runtime/base/thread.h"
#include "runtime/http/caller_int.h"

#define IDLE_SECONDS 3  /* of the helper, before memory is given back */
#define NICER        10 /* than the loop */

/* ---------------------------------------------------------------- waking the loop */

void crti_caller_wake(const crti_caller_t *c)
{
    uint64_t one = 1;

    if (write(c->wake_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
        crti_log(CRTI_LOG_WARN, "http", "wake: %s", strerror(errno));
}

/* By any thread. Where the helper is done with it, nothing of the order is touched afterwards. */
static void tell_more(crti_order_t *order, bool is_helped)
{
    crti_caller_t *c = order->caller;
    bool is_first;

    pthread_mutex_lock(&c->mutex);
    order->is_helped |= is_helped;
    is_first = !order->is_told && crti_list_is_empty(&c->told);
    if (!order->is_told)
        crti_list_append(&c->told, &order->told);
    order->is_told = true;
    pthread_mutex_unlock(&c->mutex);
    if (is_first)
        crti_caller_wake(c);
}

void crti_caller_tell(crti_order_t *order)
{
    tell_more(order, false);
}

static void on_call_change(crti_outside_call_t *call)
{
    crti_caller_tell(CRTI_CONTAINER(call, crti_order_t, call));
}

/* ---------------------------------------------------------------- the helper */

static crt_status_t join(crti_caller_t *c)
{
    static char name[] = "crt-http";
    char *argv[] = {name, NULL};
    CRTI_AUTO(free) char *info = NULL;
    char path[4096], address[72] = "";
    crt_status_t status;

    snprintf(path, sizeof(path), "%s/head.info", c->head_dir);
    status = crti_info_read(path, &info);
    if (status == CRT_OK && !crti_info_get(info, "address", address, sizeof(address)))
        status = crt_raise(CRT_ERR_CORRUPT, "%s has no address", path);
    if (status != CRT_OK)
        return status;
    return crt_init(1, argv, CRT_OPTIONS(.address = address, .no_log_to_driver = true));
}

void crti_caller_begin_call(crti_order_t *order)
{
    crti_outside_target_t target = {.actor = order->kept,
                                    .method = order->method,
                                    .has_token = order->has_token,
                                    .is_stream = order->is_stream,
                                    .timeout_ms = order->timeout_ms};

    order->status = order->prepare(order);
    if (order->status == CRT_OK) {
        target.args = order->args;
        target.count = order->count;
        order->call.on_change = on_call_change;
        order->status = crti_outside_begin(&order->call, &target);
    }
    if (order->status != CRT_OK)
        snprintf(order->text, sizeof(order->text), "%s", crt_error_detail());
    order->release(order);
    crt_actor_drop(&order->kept);
}

static void move(crti_caller_t *c, const crti_errand_t *errand)
{
    crt_status_t status = CRT_OK;

    if (errand->leaves)
        (void)crt_shutdown();
    if (errand->joins)
        status = join(c);
    pthread_mutex_lock(&c->mutex);
    c->has_moved = true;
    c->join_status = status;
    snprintf(c->join_text, sizeof(c->join_text), "%s",
             status == CRT_OK ? "" : crt_error_detail());
    pthread_mutex_unlock(&c->mutex);
    crti_caller_wake(c);
}

/* The next one for the helper; under the mutex. */
static crti_order_t *next_helped(crti_caller_t *c)
{
    for (int i = 0; i < 2; i++)
        if (!crti_list_is_empty(&c->helped[i])) {
            crti_order_t *order = CRTI_CONTAINER(c->helped[i].next, crti_order_t, link);

            crti_list_remove(&order->link);
            c->has_helped = true;
            return order;
        }
    return NULL;
}

/* False: nothing came for a while. Under the mutex. */
static bool await_errand(crti_caller_t *c)
{
    struct timespec until;

    if (!c->has_helped)
        return pthread_cond_wait(&c->has_errand, &c->mutex) == 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += IDLE_SECONDS;
    return pthread_cond_timedwait(&c->has_errand, &c->mutex, &until) != ETIMEDOUT;
}

/* What large arguments and results took goes back to the system, when no more of them come. */
static void give_back_memory(crti_caller_t *c)
{
    c->has_helped = false;
    pthread_mutex_unlock(&c->mutex);
    malloc_trim(0);
    pthread_mutex_lock(&c->mutex);
}

static void *help(void *user)
{
    crti_caller_t *c = user;
    crti_errand_t errand = {0};

    (void)!nice(NICER); /* on Linux: this thread; the loop goes first */
    while (!errand.stops) {
        crti_order_t *order;

        pthread_mutex_lock(&c->mutex);
        while (!c->errand.leaves && !c->errand.joins && !c->errand.stops &&
               crti_list_is_empty(&c->helped[0]) && crti_list_is_empty(&c->helped[1]))
            if (!await_errand(c))
                give_back_memory(c);
        errand = c->errand;
        c->errand = (crti_errand_t){.stops = errand.stops};
        order = next_helped(c);
        pthread_mutex_unlock(&c->mutex);
        if (order) {
            if (order->is_writing)
                order->write(order);
            else
                crti_caller_begin_call(order);
            tell_more(order, true);
        }
        if (errand.leaves || errand.joins)
            move(c, &errand);
    }
    return NULL;
}

crt_status_t crti_caller_send_helper(crti_caller_t *c, crti_errand_t errand)
{
    int error = 0;

    pthread_mutex_lock(&c->mutex);
    if (!c->has_helper)
        error = crti_thread_start(&c->helper, NULL, help, c);
    if (error == 0) {
        c->has_helper = true;
        c->errand.leaves |= errand.leaves;
        c->errand.joins |= errand.joins;
        c->errand.stops |= errand.stops;
        pthread_cond_signal(&c->has_errand);
    }
    pthread_mutex_unlock(&c->mutex);
    return error == 0 ? CRT_OK
                      : crt_raise(CRT_ERR_NO_MEMORY, "no thread can be started: %s",
                                  strerror(error));
}

void crti_caller_give_to_helper(crti_order_t *order, bool is_writing)
{
    crti_caller_t *c = order->caller;

    order->state = CRTI_ORDER_HELPED;
    order->is_writing = is_writing;
    pthread_mutex_lock(&c->mutex);
    order->is_helped = false;
    crti_list_append(&c->helped[!order->has_token], &order->link);
    pthread_cond_signal(&c->has_errand);
    pthread_mutex_unlock(&c->mutex);
}
