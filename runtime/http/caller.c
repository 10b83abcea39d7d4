/* SPDX-License-Identifier: Apache-2.0 */
/* crt-http as a driver. See caller.h. */
#include "runtime/http/caller_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/log.h"

#define ACTORS_MAX      1024 /* known by name */
#define STRANGERS_ASKED 64   /* names that strangers may ask the head for at a time */

static void fail(crti_order_t *order, crt_status_t status, const char *text)
{
    order->state = CRTI_ORDER_FAILED;
    order->status = status;
    snprintf(order->text, sizeof(order->text), "%s", text);
    crti_caller_tell(order);
}

/* ---------------------------------------------------------------- actors by name */

static unsigned bucket_of(const char *name_space, const char *name)
{
    unsigned hash = 2166136261u;

    for (; *name_space; name_space++)
        hash = (hash ^ (unsigned char)*name_space) * 16777619u;
    for (hash ^= '/'; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash % CRTI_CALLER_BUCKETS;
}

static bool is_idle(const crti_caller_actor_t *a)
{
    return !a->is_asked && crti_list_is_empty(&a->orders);
}

/* Those that nobody waits for. */
static void forget_actors(crti_caller_t *c)
{
    for (unsigned i = 0; i < CRTI_CALLER_BUCKETS; i++) {
        crti_caller_actor_t **at = &c->buckets[i];

        while (*at) {
            crti_caller_actor_t *a = *at;

            if (!is_idle(a)) {
                at = &a->next;
                continue;
            }
            *at = a->next;
            crt_actor_drop(&a->actor);
            free(a);
            c->actor_count--;
        }
    }
}

static crti_caller_actor_t *known_actor(const crti_caller_t *c, const crti_order_t *order)
{
    crti_caller_actor_t *a = c->buckets[bucket_of(order->name_space, order->actor)];

    while (a && (strcmp(a->name, order->actor) != 0 ||
                 strcmp(a->name_space, order->name_space) != 0))
        a = a->next;
    return a;
}

static crti_caller_actor_t *find_actor(crti_caller_t *c, const crti_order_t *order)
{
    unsigned bucket = bucket_of(order->name_space, order->actor);
    crti_caller_actor_t *a = known_actor(c, order);

    if (a)
        return a;
    if (c->actor_count >= ACTORS_MAX)
        forget_actors(c);
    a = c->actor_count < ACTORS_MAX ? calloc(1, sizeof(*a)) : NULL;
    if (!a)
        return NULL;
    a->caller = c;
    memcpy(a->name_space, order->name_space, sizeof(a->name_space));
    memcpy(a->name, order->actor, sizeof(a->name));
    crti_list_init(&a->orders);
    crti_list_init(&a->found);
    a->next = c->buckets[bucket];
    c->buckets[bucket] = a;
    c->actor_count++;
    return a;
}

/* By a thread of the core, its lock held. */
static void on_found(void *user, crt_status_t status, crt_actor_t *actor, bool is_alive)
{
    crti_caller_actor_t *a = user;
    crti_caller_t *c = a->caller;

    pthread_mutex_lock(&c->mutex);
    a->status = status;
    a->answer = actor;
    a->is_alive = is_alive;
    snprintf(a->text, sizeof(a->text), "%s", status == CRT_OK ? "" : crt_error_detail());
    crti_list_append(&c->found, &a->found);
    pthread_mutex_unlock(&c->mutex);
    crti_caller_wake(c);
}

/* Its actor and its arguments are there. */
static void start(crti_order_t *order)
{
    order->caller->open++;
    order->is_counted = true;
    if (order->is_large) {
        crti_caller_give_to_helper(order, false);
        return;
    }
    crti_caller_begin_call(order);
    order->state = order->status == CRT_OK ? CRTI_ORDER_OUT : CRTI_ORDER_FAILED;
    if (order->status != CRT_OK)
        crti_caller_tell(order);
}

static void found(crti_order_t *order, crti_caller_actor_t *a)
{
    order->kept = crt_actor_keep(a->actor);
    order->was_found = true;
    order->state = CRTI_ORDER_FOUND;
    if (order->has_args)
        start(order);
}

static void ask_head(crti_caller_actor_t *a, crti_order_t *order)
{
    crti_caller_t *c = a->caller;
    crt_status_t status;

    if (!order->has_token && c->asked_by_strangers >= STRANGERS_ASKED) {
        fail(order, CRT_ERR_BACKPRESSURE, "too many actors are looked for");
        return;
    }
    a->is_asked = true;
    a->by_stranger = !order->has_token;
    c->asked_by_strangers += a->by_stranger;
    crti_list_append(&a->orders, &order->link);
    status = crti_outside_find(a->name_space, a->name, on_found, a);
    if (status == CRT_OK)
        return;
    a->is_asked = false;
    c->asked_by_strangers -= a->by_stranger;
    crti_list_remove(&order->link);
    fail(order, status, crt_error_detail());
}

/* That it is there is no secret, or it says itself whether it is open. What is not alive can't. */
static bool may_be_called(const crti_order_t *order, const crti_caller_actor_t *a)
{
    return order->has_token || a->is_open || crti_outside_is_callable(a->actor);
}

/* The cluster is joined. */
static void go_on(crti_order_t *order)
{
    crti_caller_actor_t *a = find_actor(order->caller, order);

    if (!a)
        fail(order, CRT_ERR_BACKPRESSURE, "too many actors are called");
    else if (a->is_asked)
        crti_list_append(&a->orders, &order->link);
    else if (a->actor && !crti_outside_is_gone(a->actor) && may_be_called(order, a))
        found(order, a);
    else
        ask_head(a, order);
}

/* The head has answered. */
static void take_answer(crti_caller_actor_t *a)
{
    a->is_asked = false;
    a->caller->asked_by_strangers -= a->by_stranger;
    if (a->answer != a->actor)
        a->is_open = false;
    crt_actor_drop(&a->actor);
    a->actor = a->answer;
    a->answer = NULL;
    while (!crti_list_is_empty(&a->orders)) {
        crti_order_t *order = CRTI_CONTAINER(a->orders.next, crti_order_t, link);

        crti_list_remove(&order->link);
        if (!a->actor)
            fail(order, a->status, a->text);
        else if (order->has_token || a->is_open || a->is_alive)
            found(order, a);
        else /* as if it was not there */
            fail(order, CRT_ERR_NOT_FOUND, "");
    }
}

/* ---------------------------------------------------------------- orders */

/* Joins; leaves before, when it is inside and the node has gone. */
static void start_to_move(crti_caller_t *c)
{
    crti_errand_t errand = {.leaves = c->state == INSIDE, .joins = true};

    forget_actors(c);
    if (crti_caller_send_helper(c, errand) == CRT_OK) {
        c->state = MOVING;
        return;
    }
    while (!crti_list_is_empty(&c->orders)) {
        crti_order_t *order = CRTI_CONTAINER(c->orders.next, crti_order_t, link);

        crti_list_remove(&order->link);
        fail(order, CRT_ERR_NO_MEMORY, crt_error_detail());
    }
}

static void look_for_actor(crti_order_t *order)
{
    crti_caller_t *c = order->caller;

    order->state = CRTI_ORDER_WAITING;
    if (c->state == INSIDE && crti_outside_check() == CRT_OK) {
        go_on(order);
    } else if (c->state == INSIDE && c->open > 0) { /* their failures are on their way */
        fail(order, CRT_ERR_NODE_LOST, crt_error_detail());
    } else {
        crti_list_append(&c->orders, &order->link);
        if (c->state != MOVING)
            start_to_move(c);
    }
}

void crti_caller_order(crti_caller_t *c, crti_order_t *order)
{
    order->caller = c;
    order->status = CRT_OK;
    order->is_told = order->is_helped = order->is_abandoned = false;
    order->has_args = order->was_found = order->is_counted = false;
    order->call = (crti_outside_call_t){.ref = NULL};
    order->kept = NULL;
    crti_list_init(&order->link);
    crti_list_init(&order->told);
    look_for_actor(order);
}

void crti_order_begin(crti_order_t *order)
{
    order->has_args = true;
    if (order->state != CRTI_ORDER_FOUND)
        return;
    if (!crti_outside_is_gone(order->kept)) {
        start(order);
        return;
    }
    crt_actor_drop(&order->kept); /* while its arguments came */
    look_for_actor(order);
}

void crti_order_write(crti_order_t *order)
{
    crti_caller_give_to_helper(order, true);
}

bool crti_order_is_of_open_actor(const crti_order_t *order)
{
    const crti_caller_actor_t *a = known_actor(order->caller, order);

    return a && a->is_open;
}

/* The helper has done what it was sent for. */
static void has_moved(crti_caller_t *c)
{
    c->state = c->join_status == CRT_OK ? INSIDE : OUTSIDE;
    if (c->state == OUTSIDE)
        crti_log(CRTI_LOG_WARN, "http", "actors can't be called: %s", c->join_text);
    while (!crti_list_is_empty(&c->orders)) {
        crti_order_t *order = CRTI_CONTAINER(c->orders.next, crti_order_t, link);

        crti_list_remove(&order->link);
        if (c->state == INSIDE)
            go_on(order);
        else
            fail(order, CRT_ERR_NODE_LOST, c->join_text);
    }
}

static crt_status_t look(crti_order_t *order, const crt_value_t **value_out,
                         bool *may_have_run_out)
{
    crt_status_t status = crti_outside_look(&order->call, value_out, may_have_run_out);
    crti_caller_actor_t *a;

    if (!order->has_token && (status == CRT_OK || status == CRT_END_OF_STREAM)) {
        a = known_actor(order->caller, order);
        if (a)
            a->is_open = true;
    }
    return status;
}

crt_status_t crti_order_look(crti_order_t *order, const crt_value_t **value_out,
                             bool *may_have_run_out)
{
    *may_have_run_out = false;
    switch (order->state) {
    case CRTI_ORDER_FAILED: return crt_raise(order->status, "%s", order->text);
    case CRTI_ORDER_OUT: return look(order, value_out, may_have_run_out);
    default: return CRT_IN_PROGRESS;
    }
}

void crti_order_next(crti_order_t *order)
{
    crti_outside_next(&order->call);
}

void crti_order_end(crti_order_t *order)
{
    crti_caller_t *c = order->caller;

    if (order->state == CRTI_ORDER_HELPED) { /* the helper tells when it is done */
        order->is_abandoned = true;
        return;
    }
    if (order->call.on_change) /* it was begun, or tried to */
        crti_outside_end(&order->call);
    c->open -= order->is_counted;
    crt_actor_drop(&order->kept);
    crti_list_remove(&order->link);
    pthread_mutex_lock(&c->mutex);
    crti_list_remove(&order->told);
    pthread_mutex_unlock(&c->mutex);
    order->on_free(order);
}

/* Its result may come while the helper still begins it. */
static void change(crti_order_t *order, bool is_helped)
{
    if (order->state == CRTI_ORDER_HELPED) {
        if (!is_helped)
            return;
        order->state = order->status == CRT_OK ? CRTI_ORDER_OUT : CRTI_ORDER_FAILED;
        if (order->is_abandoned) {
            crti_order_end(order);
            return;
        }
    }
    order->on_change(order);
}

/* ---------------------------------------------------------------- the loop's side */

static crti_order_t *next_told(crti_caller_t *c, bool *is_helped)
{
    crti_order_t *order = NULL;

    pthread_mutex_lock(&c->mutex);
    if (!crti_list_is_empty(&c->told)) {
        order = CRTI_CONTAINER(c->told.next, crti_order_t, told);
        crti_list_remove(&order->told);
        order->is_told = false;
        *is_helped = order->is_helped;
    }
    pthread_mutex_unlock(&c->mutex);
    return order;
}

static crti_caller_actor_t *next_found(crti_caller_t *c)
{
    crti_caller_actor_t *a = NULL;

    pthread_mutex_lock(&c->mutex);
    if (!crti_list_is_empty(&c->found)) {
        a = CRTI_CONTAINER(c->found.next, crti_caller_actor_t, found);
        crti_list_remove(&a->found);
    }
    pthread_mutex_unlock(&c->mutex);
    return a;
}

static void on_wake(void *user, uint32_t events)
{
    crti_caller_t *c = user;
    crti_caller_actor_t *a;
    crti_order_t *order;
    uint64_t count;
    bool moved, is_helped = false;

    if (read(c->wake_fd, &count, sizeof(count)) < 0)
        return;
    pthread_mutex_lock(&c->mutex);
    moved = c->has_moved;
    c->has_moved = false;
    pthread_mutex_unlock(&c->mutex);
    if (moved)
        has_moved(c);
    while ((a = next_found(c)))
        take_answer(a);
    while ((order = next_told(c, &is_helped)))
        change(order, is_helped);
}

crt_status_t crti_caller_new(struct lws_vhost *vhost, const char *head_dir,
                             crti_caller_t **caller_out)
{
    crti_caller_t *c = calloc(1, sizeof(*c));
    crt_status_t status;

    if (!c)
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    c->head_dir = head_dir;
    crti_list_init(&c->orders);
    crti_list_init(&c->helped[0]);
    crti_list_init(&c->helped[1]);
    crti_list_init(&c->told);
    crti_list_init(&c->found);
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->has_errand, NULL);
    c->file = (crti_lws_file_t){.on_ready = on_wake, .user = c};
    c->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    status = c->wake_fd < 0 ? crt_raise(CRT_ERR_IO, "eventfd: %s", strerror(errno))
                            : crti_lws_file_add(vhost, &c->file, c->wake_fd);
    if (status != CRT_OK) {
        crti_caller_free(c);
        return status;
    }
    *caller_out = c;
    return CRT_OK;
}

void crti_caller_stop(crti_caller_t *c)
{
    if (c)
        crti_lws_file_remove(&c->file);
}

void crti_caller_free(crti_caller_t *c)
{
    bool has_ended = true;

    if (!c)
        return;
    if (c->has_helper) {
        struct timespec end;

        if (c->state == INSIDE)
            forget_actors(c);
        (void)crti_caller_send_helper(
            c, (crti_errand_t){.leaves = c->state == INSIDE, .stops = true});
        clock_gettime(CLOCK_REALTIME, &end);
        end.tv_sec += 6; /* crt_shutdown may take 5 s */
        has_ended = pthread_timedjoin_np(c->helper, NULL, &end) == 0;
    }
    if (!has_ended)
        return; /* it joins, or puts something large: it ends with the process */
    close(c->wake_fd);
    pthread_cond_destroy(&c->has_errand);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}
