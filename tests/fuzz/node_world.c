/* SPDX-License-Identifier: Apache-2.0 */
/* See node_world.h. */
#include "node_world.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/buffer.h"
#include "runtime/base/clock.h"

#define WATCHES 64
#define TIMERS  512
#define POSTS   64
#define PIDFDS  64
#define ROUNDS  1000 /* of one pass: more is a daemon that spins */

static void check(bool is_so)
{
    if (!is_so)
        abort();
}

/* ---------------------------------------------------------------- processes */

/* The daemon is told of processes that do not exist: no word about them may reach the kernel. */
static struct {
    int fd;   /* the daemon's, which may have closed it */
    int ours; /* the same file */
    bool is_dead;
} pidfds[PIDFDS];
static unsigned pidfd_count;

int kill(pid_t pid, int number)
{
    return 0;
}

pid_t waitpid(pid_t pid, int *status, int options)
{
    errno = ECHILD;
    return -1;
}

int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    for (unsigned i = pidfd_count; type == P_PIDFD && i-- > 0;) {
        if (pidfds[i].fd != (int)id)
            continue;
        if (pidfds[i].is_dead) {
            info->si_pid = 1;
            info->si_code = CLD_EXITED;
            info->si_status = 3;
        }
        return 0;
    }
    if (type == P_PIDFD)
        return 0;
    errno = ECHILD;
    return -1;
}

static int open_pidfd(void)
{
    int fd;

    if (pidfd_count == PIDFDS) {
        errno = EMFILE;
        return -1;
    }
    fd = eventfd(0, EFD_CLOEXEC);
    pidfds[pidfd_count].fd = fd;
    pidfds[pidfd_count].ours = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    pidfds[pidfd_count++].is_dead = false;
    return fd;
}

bool world_die(unsigned index)
{
    unsigned living = 0;
    uint64_t one = 1;

    for (unsigned i = 0; i < pidfd_count; i++)
        living += !pidfds[i].is_dead;
    for (unsigned i = 0, k = 0; i < pidfd_count; i++) {
        if (pidfds[i].is_dead || k++ != index % living)
            continue;
        pidfds[i].is_dead = true;
        check(write(pidfds[i].ours, &one, sizeof(one)) == sizeof(one));
        return true;
    }
    return false;
}

void world_end(void)
{
    while (pidfd_count > 0)
        close(pidfds[--pidfd_count].ours);
}

/* What was not passed is read, too, as libc does it; the sanitizer of clang must not watch that. */
__attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
    static long (*real)(long, ...);
    long a[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_pidfd_open)
        return open_pidfd();
    if (number == SYS_pidfd_send_signal)
        return 0;
    if (!real) {
        void *found = dlsym(RTLD_NEXT, "syscall");

        memcpy(&real, &found, sizeof(real));
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---------------------------------------------------------------- loop.h */

struct crti_loop {
    crti_watch_t *watches[WATCHES];
    crti_timer_t *timers[TIMERS];
    struct {
        void (*work)(void *user);
        void *user;
    } posts[POSTS];
    unsigned watch_count, timer_count, post_count;
    uint64_t now, order;
    bool is_stopped;
};

static crti_loop_t *loop;

crt_status_t crti_loop_new(crti_loop_t **loop_out)
{
    loop = calloc(1, sizeof(*loop));
    check(loop != NULL);
    loop->now = 1000 * CRTI_S;
    *loop_out = loop;
    return CRT_OK;
}

void crti_loop_free(crti_loop_t *l)
{
    free(l);
    loop = NULL;
}

uint64_t crti_loop_now(const crti_loop_t *l)
{
    return l->now;
}

void crti_loop_stop(crti_loop_t *l)
{
    l->is_stopped = true;
}

crt_status_t crti_loop_run(crti_loop_t *l)
{
    abort();
}

crt_status_t crti_loop_turn(crti_loop_t *l, uint64_t deadline_ns)
{
    abort();
}

crt_status_t crti_loop_signal(crti_loop_t *l, int number,
                              void (*on_signal)(void *user, int number), void *user)
{
    return CRT_OK;
}

crt_status_t crti_loop_add(crti_loop_t *l, crti_watch_t *watch, int fd, uint32_t events)
{
    check(!watch->added && l->watch_count < WATCHES);
    watch->fd = fd;
    watch->events = events;
    watch->added = true;
    l->watches[l->watch_count++] = watch;
    return CRT_OK;
}

crt_status_t crti_loop_modify(crti_loop_t *l, crti_watch_t *watch, uint32_t events)
{
    watch->events = events;
    return CRT_OK;
}

void crti_loop_remove(crti_loop_t *l, crti_watch_t *watch)
{
    for (unsigned i = 0; watch->added && i < l->watch_count; i++)
        if (l->watches[i] == watch) {
            l->watches[i] = l->watches[--l->watch_count];
            break;
        }
    watch->added = false;
}

crt_status_t crti_loop_start(crti_loop_t *l, crti_timer_t *timer, uint64_t deadline_ns)
{
    crti_loop_cancel(l, timer);
    check(l->timer_count < TIMERS);
    timer->deadline.at = deadline_ns;
    timer->deadline.order = ++l->order;
    l->timers[l->timer_count++] = timer;
    timer->deadline.place = l->timer_count;
    return CRT_OK;
}

void crti_loop_cancel(crti_loop_t *l, crti_timer_t *timer)
{
    size_t at = timer->deadline.place;

    if (at == 0)
        return;
    check(l->timers[at - 1] == timer);
    l->timers[at - 1] = l->timers[--l->timer_count];
    l->timers[at - 1]->deadline.place = at;
    timer->deadline.place = 0;
}

crt_status_t crti_loop_post(crti_loop_t *l, void (*work)(void *user), void *user)
{
    check(l->post_count < POSTS);
    l->posts[l->post_count].work = work;
    l->posts[l->post_count++].user = user;
    return CRT_OK;
}

static bool run_posts(void)
{
    unsigned count = loop->post_count;

    for (unsigned i = 0; i < count; i++)
        loop->posts[i].work(loop->posts[i].user);
    loop->post_count = 0;
    return count > 0;
}

static bool run_ready(void)
{
    struct pollfd fds[WATCHES];
    crti_watch_t *watches[WATCHES];
    unsigned count = loop->watch_count;
    bool any = false;

    for (unsigned i = 0; i < count; i++) {
        watches[i] = loop->watches[i];
        fds[i] =
            (struct pollfd){.fd = watches[i]->fd, .events = (short)watches[i]->events};
    }
    if (poll(fds, count, 0) <= 0)
        return false;
    for (unsigned i = 0; i < count; i++) {
        bool is_there = false;

        for (unsigned k = 0; k < loop->watch_count; k++)
            is_there |= loop->watches[k] == watches[i];
        if (!is_there || fds[i].revents == 0 || watches[i]->fd != fds[i].fd)
            continue;
        watches[i]->on_ready(watches[i]->user, (uint32_t)fds[i].revents);
        any = true;
    }
    return any;
}

static crti_timer_t *first_timer(void)
{
    crti_timer_t *first = NULL;

    for (unsigned i = 0; i < loop->timer_count; i++) {
        crti_timer_t *t = loop->timers[i];

        if (!first || t->deadline.at < first->deadline.at ||
            (t->deadline.at == first->deadline.at &&
             t->deadline.order < first->deadline.order))
            first = t;
    }
    return first;
}

void world_pass(uint64_t ns)
{
    uint64_t end = loop->now + ns;

    for (int i = 0; i < ROUNDS; i++) {
        crti_timer_t *timer;

        if (run_posts() || run_ready())
            continue;
        timer = first_timer();
        if (!timer || timer->deadline.at > end) {
            loop->now = end;
            return;
        }
        if (timer->deadline.at > loop->now)
            loop->now = timer->deadline.at;
        crti_loop_cancel(loop, timer);
        timer->on_expired(timer->user);
    }
    abort(); /* it would never come to rest */
}

/* ---------------------------------------------------------------- streams */

static crti_stream_t *streams; /* the oldest first */

struct crti_stream_listener {
    crti_stream_accept_t *on_accept;
    void *user;
};

static crti_stream_listener_t *listener;

void world_begin(void)
{
    streams = NULL;
    pidfd_count = 0;
    listener = NULL;
}

static crti_stream_t *new_stream(void)
{
    crti_stream_t *s = calloc(1, sizeof(*s)), **place = &streams;

    check(s != NULL);
    while (*place)
        place = &(*place)->next;
    *place = s;
    return s;
}

static void leave(crti_stream_t *s)
{
    if (--s->depth == 0 && s->is_freed)
        free(s);
}

crti_stream_t *world_guest(void)
{
    crti_stream_t *s;

    if (!listener)
        return NULL;
    s = new_stream();
    s->is_open = true;
    listener->on_accept(listener->user, s);
    return s;
}

crti_stream_t *world_stream(unsigned index)
{
    for (crti_stream_t *s = streams; s; s = s->next)
        if (index-- == 0)
            return s;
    return NULL;
}

/* As stream.c does it: with a payload behind it, which comes at once. */
void world_say(crti_stream_t *s, const crti_message_t *m)
{
    uint64_t length = m->kind == CRTI_MSG_OBJECT_DATA    ? m->object_data.length
                      : m->kind == CRTI_MSG_PROGRAM_DATA ? m->program_data.length
                                                         : 0;

    if (!s->is_open)
        return;
    s->depth++;
    s->place = NULL;
    s->may_receive = length > 0;
    s->handlers.on_message(s->handlers.user, s, m);
    s->may_receive = false;
    if (!s->is_freed && s->place) {
        void *place = s->place;

        memset(place, 7, length);
        s->place = NULL;
        if (s->handlers.on_payload)
            s->handlers.on_payload(s->handlers.user, s, place, length);
    }
    leave(s);
}

void world_open(crti_stream_t *s)
{
    if (s->is_open)
        return;
    s->is_open = true;
    s->depth++;
    if (s->handlers.on_open)
        s->handlers.on_open(s->handlers.user, s);
    leave(s);
}

void world_break(crti_stream_t *s)
{
    s->depth++;
    s->is_open = false;
    s->handlers.on_closed(s->handlers.user, s, CRT_ERR_CLOSED, "the step says so");
    leave(s);
}

void crti_stream_free(crti_stream_t *s)
{
    if (!s)
        return;
    check(!s->is_freed);
    s->is_freed = true;
    for (crti_stream_t **place = &streams; *place; place = &(*place)->next)
        if (*place == s) {
            *place = s->next;
            break;
        }
    if (s->depth == 0)
        free(s);
}

void crti_stream_close(crti_stream_t *s)
{
    s->is_open = false;
}

crt_status_t crti_stream_connect(crti_loop_t *l, crti_stream_context_t *context,
                                 const char *address, uint64_t timeout_ms,
                                 const crti_stream_handlers_t *handlers,
                                 crti_stream_t **stream_out)
{
    crti_stream_t *s = new_stream();

    s->is_ours = true;
    s->handlers = *handlers;
    *stream_out = s;
    return CRT_OK;
}

/* What is said must be understood. */
static crt_status_t hear(crti_stream_t *s, const void *data, size_t size)
{
    crti_message_t m;

    if (crti_message_decode(data, size, &m) != CRT_OK) {
        fprintf(stderr, "the daemon says: %s\n", crt_error_detail());
        abort();
    }
    if (m.request)
        s->asked = m.request;
    return CRT_OK;
}

crt_status_t crti_stream_send(crti_stream_t *s, crti_message_kind_t kind,
                              uint64_t request, const void *body)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crt_status_t status = crti_message_encode(kind, request, body, &bytes);

    return status == CRT_OK ? hear(s, bytes.data, bytes.size) : status;
}

crt_status_t crti_stream_send_error(crti_stream_t *s, uint64_t request,
                                    crt_status_t status)
{
    crti_msg_error_t error = {.status = status, .text = crti_str(crt_error_detail())};

    return crti_stream_send(s, CRTI_MSG_ERROR, request, &error);
}

crt_status_t crti_stream_send_bytes(crti_stream_t *s, const void *data, size_t size)
{
    return hear(s, data, size);
}

typedef struct sent {
    crti_stream_sent_t *on_sent;
    void *user;
} sent_t;

static void tell_sent(void *user)
{
    sent_t sent = *(sent_t *)user;

    free(user);
    sent.on_sent(sent.user, CRT_OK);
}

/* Never inside the send. */
static void later_sent(crti_stream_sent_t *on_sent, void *user)
{
    sent_t *sent = malloc(sizeof(*sent));

    check(sent != NULL);
    *sent = (sent_t){on_sent, user};
    crti_loop_post(loop, tell_sent, sent);
}

crt_status_t crti_stream_send_payload(crti_stream_t *s, crti_message_kind_t kind,
                                      uint64_t request, const void *body,
                                      const void *data, crti_stream_sent_t *on_sent,
                                      void *user)
{
    crt_status_t status = crti_stream_send(s, kind, request, body);

    if (status == CRT_OK)
        later_sent(on_sent, user);
    return status;
}

crt_status_t crti_stream_send_copy(crti_stream_t *s, crti_message_kind_t kind,
                                   uint64_t request, const void *body, const void *data,
                                   size_t size)
{
    return crti_stream_send(s, kind, request, body);
}

void crti_stream_push(crti_stream_t *s)
{
}

void crti_stream_receive(crti_stream_t *s, void *buffer)
{
    check(s->may_receive && buffer);
    s->place = buffer;
}

void crti_stream_hold(crti_stream_t *s)
{
}

void crti_stream_resume(crti_stream_t *s)
{
}

void crti_stream_allow_stall(crti_stream_t *s)
{
}

void crti_stream_limit_replies(crti_stream_t *s, size_t bytes)
{
}

void crti_stream_discard(crti_stream_t *s)
{
    s->place = NULL;
}

uint64_t crti_stream_received(const crti_stream_t *s)
{
    return 0;
}

size_t crti_stream_queued(const crti_stream_t *s)
{
    return 0;
}

void crti_stream_set_handlers(crti_stream_t *s, const crti_stream_handlers_t *handlers)
{
    s->handlers = *handlers;
}

const char *crti_stream_peer_address(const crti_stream_t *s)
{
    return "10.0.0.2:5";
}

crt_status_t crti_stream_local_ip(const crti_stream_t *s, char *text, size_t size)
{
    snprintf(text, size, "10.0.0.1");
    return CRT_OK;
}

crt_status_t crti_stream_resolve(const char *address, char numeric[CRTI_STREAM_ADDRESS])
{
    snprintf(numeric, CRTI_STREAM_ADDRESS, "%s", address);
    return CRT_OK;
}

crt_status_t crti_stream_context_new(const crti_key_t *key, bool encrypt,
                                     crti_stream_context_t **context_out)
{
    *context_out = NULL;
    return CRT_OK;
}

void crti_stream_context_free(crti_stream_context_t *context)
{
}

void crti_stream_context_avoid_bbr(crti_stream_context_t *context)
{
}

crt_status_t crti_stream_listen(crti_loop_t *l, crti_stream_context_t *context,
                                const char *ip, uint16_t port,
                                crti_stream_accept_t *on_accept, void *user,
                                crti_stream_listener_t **listener_out)
{
    listener = calloc(1, sizeof(*listener));
    check(listener != NULL);
    *listener = (crti_stream_listener_t){on_accept, user};
    *listener_out = listener;
    return CRT_OK;
}

void crti_stream_listener_free(crti_stream_listener_t *l)
{
    if (l == listener)
        listener = NULL;
    free(l);
}

void crti_stream_listener_pause(crti_stream_listener_t *l, bool pause)
{
}

void crti_stream_listener_rekey(crti_stream_listener_t *l, crti_stream_context_t *context)
{
}

uint16_t crti_stream_listener_port(const crti_stream_listener_t *l)
{
    return 4711;
}

uint64_t crti_stream_listener_refused(const crti_stream_listener_t *l)
{
    return 0;
}
