/* SPDX-License-Identifier: Apache-2.0 */
/* crt-http as a driver. See caller.h. */
#include "runtime/http/caller.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/base/rundir.h"
#include "runtime/base/thread.h"
#include "runtime/http/lws_file.h"

#define BUCKETS         256
#define ACTORS_MAX      1024 /* known by name */
#define STRANGERS_ASKED 64   /* names that strangers may ask the head for at a time */

/*            first order                     joined
 *  OUTSIDE --------------> MOVING ---------------------> INSIDE
 *     ^                      |  ^                           |
 *     +----------------------+  +---------------------------+
 *           can't be joined         the node has gone: leaves, and joins again
 */
typedef enum caller_state { OUTSIDE, MOVING, INSIDE } caller_state_t;

/* An actor by its name. */
struct crti_caller_actor {
    crti_caller_t *caller;
    crti_caller_actor_t *next; /* in its bucket */
    char name_space[CRTI_CALLER_NAME], name[CRTI_CALLER_NAME];
    crt_actor_t *actor; /* NULL: not known */
    bool is_asked;      /* the head is asked */
    bool by_stranger;   /* in caller->asked_by_strangers */
    crti_list_t orders; /* crti_order_t.link: wait for the head's answer */
    crti_list_t found;  /* caller->found: under its mutex */
    /* The answer. */
    crt_status_t status;
    char text[512];
    crt_actor_t *answer;
};

/* What the helper is to do. */
typedef struct errand {
    bool leaves, joins, stops;
} errand_t;

struct crti_caller {
    const char *head_dir;
    caller_state_t state;
    crti_caller_actor_t *buckets[BUCKETS];
    unsigned actor_count, asked_by_strangers, open; /* open: orders that were called */
    crti_list_t orders; /* crti_order_t.link: wait until the cluster is joined */
    crti_lws_file_t file;
    int wake_fd;

    pthread_mutex_t mutex; /* of all that follows */
    pthread_cond_t has_errand;
    pthread_t helper;
    bool has_helper, has_moved;
    errand_t errand;
    crti_list_t large; /* crti_order_t.link: to be begun by the helper */
    crti_list_t told, found;
    crt_status_t join_status;
    char join_text[512];
};

/* ---------------------------------------------------------------- waking the loop */

static void wake(const crti_caller_t *c)
{
    uint64_t one = 1;

    if (write(c->wake_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
        crti_log(CRTI_LOG_WARN, "http", "wake: %s", strerror(errno));
}

/* By any thread. Where the helper is done with it, nothing of the order is touched afterwards. */
static void tell_more(crti_order_t *order, bool is_begun)
{
    crti_caller_t *c = order->caller;
    bool is_first;

    pthread_mutex_lock(&c->mutex);
    order->is_begun |= is_begun;
    is_first = !order->is_told && crti_list_is_empty(&c->told);
    if (!order->is_told)
        crti_list_append(&c->told, &order->told);
    order->is_told = true;
    pthread_mutex_unlock(&c->mutex);
    if (is_first)
        wake(c);
}

static void tell(crti_order_t *order)
{
    tell_more(order, false);
}

static void on_call_change(crti_outside_call_t *call)
{
    tell(CRTI_CONTAINER(call, crti_order_t, call));
}

static void fail(crti_order_t *order, crt_status_t status, const char *text)
{
    order->state = CRTI_ORDER_FAILED;
    order->status = status;
    snprintf(order->text, sizeof(order->text), "%s", text);
    tell(order);
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

static void begin_call(crti_order_t *order, crt_actor_t *actor)
{
    crti_outside_target_t target = {.actor = actor,
                                    .method = order->method,
                                    .has_token = order->has_token,
                                    .is_stream = order->is_stream,
                                    .timeout_ms = order->timeout_ms,
                                    .args = order->args,
                                    .count = order->count};
    crt_status_t status;

    order->call.on_change = on_call_change;
    status = crti_outside_begin(&order->call, &target);
    if (status != CRT_OK) {
        order->status = status;
        snprintf(order->text, sizeof(order->text), "%s", crt_error_detail());
    }
}

/* A large order: its actor was kept for it. */
static void begin_large(crti_order_t *order)
{
    begin_call(order, order->kept);
    crt_actor_drop(&order->kept);
}

static void move(crti_caller_t *c, const errand_t *errand)
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
    wake(c);
}

static void *help(void *user)
{
    crti_caller_t *c = user;
    errand_t errand = {0};

    while (!errand.stops) {
        crti_order_t *order = NULL;

        pthread_mutex_lock(&c->mutex);
        while (!c->errand.leaves && !c->errand.joins && !c->errand.stops &&
               crti_list_is_empty(&c->large))
            pthread_cond_wait(&c->has_errand, &c->mutex);
        errand = c->errand;
        c->errand = (errand_t){.stops = errand.stops};
        if (!crti_list_is_empty(&c->large)) {
            order = CRTI_CONTAINER(c->large.next, crti_order_t, link);
            crti_list_remove(&order->link);
        }
        pthread_mutex_unlock(&c->mutex);
        if (order) {
            begin_large(order);
            tell_more(order, true);
        }
        if (errand.leaves || errand.joins)
            move(c, &errand);
    }
    return NULL;
}

static crt_status_t send_helper(crti_caller_t *c, errand_t errand)
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

/* ---------------------------------------------------------------- actors by name */

static unsigned bucket_of(const char *name_space, const char *name)
{
    unsigned hash = 2166136261u;

    for (; *name_space; name_space++)
        hash = (hash ^ (unsigned char)*name_space) * 16777619u;
    for (hash ^= '/'; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash % BUCKETS;
}

static bool is_idle(const crti_caller_actor_t *a)
{
    return !a->is_asked && crti_list_is_empty(&a->orders);
}

/* Those that nobody waits for. */
static void forget_actors(crti_caller_t *c)
{
    for (unsigned i = 0; i < BUCKETS; i++) {
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

static crti_caller_actor_t *find_actor(crti_caller_t *c, const crti_order_t *order)
{
    unsigned bucket = bucket_of(order->name_space, order->actor);
    crti_caller_actor_t *a = c->buckets[bucket];

    while (a && (strcmp(a->name, order->actor) != 0 ||
                 strcmp(a->name_space, order->name_space) != 0))
        a = a->next;
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
static void on_found(void *user, crt_status_t status, crt_actor_t *actor)
{
    crti_caller_actor_t *a = user;
    crti_caller_t *c = a->caller;

    pthread_mutex_lock(&c->mutex);
    a->status = status;
    a->answer = actor;
    snprintf(a->text, sizeof(a->text), "%s", status == CRT_OK ? "" : crt_error_detail());
    crti_list_append(&c->found, &a->found);
    pthread_mutex_unlock(&c->mutex);
    wake(c);
}

static void begin(crti_order_t *order, crti_caller_actor_t *a)
{
    crti_caller_t *c = order->caller;

    c->open++;
    if (order->is_large) {
        order->state = CRTI_ORDER_BEGINNING;
        order->kept = crt_actor_keep(a->actor);
        pthread_mutex_lock(&c->mutex);
        crti_list_append(&c->large, &order->link);
        pthread_cond_signal(&c->has_errand);
        pthread_mutex_unlock(&c->mutex);
        return;
    }
    begin_call(order, a->actor);
    order->state = order->status == CRT_OK ? CRTI_ORDER_OUT : CRTI_ORDER_FAILED;
    if (order->status != CRT_OK)
        tell(order);
}

static void ask_head(crti_caller_actor_t *a, crti_order_t *order)
{
    crti_caller_t *c = a->caller;
    crt_status_t status;

    if (!order->has_token && c->asked_by_strangers >= STRANGERS_ASKED) {
        fail(order, CRT_ERR_BACKPRESSURE, "too many actors are looked for");
        return;
    }
    crt_actor_drop(&a->actor);
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

/* The cluster is joined. */
static void go_on(crti_order_t *order)
{
    crti_caller_actor_t *a = find_actor(order->caller, order);

    if (!a)
        fail(order, CRT_ERR_BACKPRESSURE, "too many actors are called");
    else if (a->is_asked)
        crti_list_append(&a->orders, &order->link);
    else if (a->actor && !crti_outside_is_gone(a->actor))
        begin(order, a);
    else
        ask_head(a, order);
}

/* The head has answered. */
static void take_answer(crti_caller_actor_t *a)
{
    a->is_asked = false;
    a->caller->asked_by_strangers -= a->by_stranger;
    a->actor = a->answer;
    a->answer = NULL;
    while (!crti_list_is_empty(&a->orders)) {
        crti_order_t *order = CRTI_CONTAINER(a->orders.next, crti_order_t, link);

        crti_list_remove(&order->link);
        if (a->actor)
            begin(order, a);
        else
            fail(order, a->status, a->text);
    }
}

/* ---------------------------------------------------------------- orders */

/* Joins; leaves before, when it is inside and the node has gone. */
static void start_to_move(crti_caller_t *c)
{
    errand_t errand = {.leaves = c->state == INSIDE, .joins = true};

    forget_actors(c);
    if (send_helper(c, errand) == CRT_OK) {
        c->state = MOVING;
        return;
    }
    while (!crti_list_is_empty(&c->orders)) {
        crti_order_t *order = CRTI_CONTAINER(c->orders.next, crti_order_t, link);

        crti_list_remove(&order->link);
        fail(order, CRT_ERR_NO_MEMORY, crt_error_detail());
    }
}

void crti_caller_order(crti_caller_t *c, crti_order_t *order)
{
    order->caller = c;
    order->state = CRTI_ORDER_WAITING;
    order->status = CRT_OK;
    order->is_told = order->is_begun = order->is_abandoned = false;
    order->call = (crti_outside_call_t){.ref = NULL};
    order->kept = NULL;
    crti_list_init(&order->link);
    crti_list_init(&order->told);
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

crt_status_t crti_order_look(crti_order_t *order, const crt_value_t **value_out,
                             bool *may_have_run_out)
{
    *may_have_run_out = false;
    switch (order->state) {
    case CRTI_ORDER_FAILED: return crt_raise(order->status, "%s", order->text);
    case CRTI_ORDER_OUT:
        return crti_outside_look(&order->call, value_out, may_have_run_out);
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

    if (order->state == CRTI_ORDER_BEGINNING) { /* the helper tells when it is done */
        order->is_abandoned = true;
        return;
    }
    if (order->call.on_change) { /* it was begun, or tried to */
        crti_outside_end(&order->call);
        c->open--;
    }
    crti_list_remove(&order->link);
    pthread_mutex_lock(&c->mutex);
    crti_list_remove(&order->told);
    pthread_mutex_unlock(&c->mutex);
    order->on_free(order);
}

/* Its result may come while the helper still begins it. */
static void change(crti_order_t *order, bool is_begun)
{
    if (order->state == CRTI_ORDER_BEGINNING) {
        if (!is_begun)
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

static crti_order_t *next_told(crti_caller_t *c, bool *is_begun)
{
    crti_order_t *order = NULL;

    pthread_mutex_lock(&c->mutex);
    if (!crti_list_is_empty(&c->told)) {
        order = CRTI_CONTAINER(c->told.next, crti_order_t, told);
        crti_list_remove(&order->told);
        order->is_told = false;
        *is_begun = order->is_begun;
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
    bool moved, is_begun = false;

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
    while ((order = next_told(c, &is_begun)))
        change(order, is_begun);
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
    crti_list_init(&c->large);
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
        (void)send_helper(c, (errand_t){.leaves = c->state == INSIDE, .stops = true});
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
