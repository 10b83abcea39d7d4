/* SPDX-License-Identifier: Apache-2.0 */
/* Channels: unix sockets of one host, in order and without loss, until one end is gone. See
 * system.h and runtime/net/channel.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/system.h"

typedef struct frame {
    crti_list_t link;
    bool is_end;
    crti_buffer_t bytes;
    int fds[CRTI_CHANNEL_FDS], fd_count;
} frame_t;

struct crti_channel {
    size_t number; /* in `ends` */
    sys_process_t *owner;
    pid_t peer_pid;
    int fd;
    crti_channel_t *other;
    crti_channel_handlers_t handlers;
    bool is_attached, is_closed, is_over; /* over: on_closed was called */
    bool is_pumping;
    crti_list_t inbox;
    uint64_t arrival; /* of what is under way to this end */
    uint64_t last_request;
};

typedef struct listener {
    char path[128];
    int fd;
    bool is_open;
    crti_channel_t *waiting[64];
    unsigned count;
} listener_t;

static listener_t *listeners[SYS_PROCESSES];
static unsigned listener_count;
static crti_channel_t **ends;
static size_t end_count, end_room;

/* ---------------------------------------------------------------- ends */

static crti_channel_t *new_end(sys_process_t *owner)
{
    crti_channel_t *end = calloc(1, sizeof(*end));

    if (!end)
        abort();
    if (end_count == end_room) {
        end_room = end_room ? end_room * 2 : 256;
        ends = realloc(ends, end_room * sizeof(*ends));
        if (!ends)
            abort();
    }
    end->number = end_count;
    ends[end_count++] = end;
    end->owner = owner;
    end->fd = sys_fd_new(SYS_FD_CHANNEL, end);
    sys_fd_of(end->fd)->owner = owner;
    crti_list_init(&end->inbox);
    return end;
}

static void join(crti_channel_t *a, crti_channel_t *b)
{
    a->other = b;
    b->other = a;
    a->peer_pid = b->owner ? b->owner->pid : 0;
    b->peer_pid = a->owner ? a->owner->pid : 0;
}

static void deliver(crti_channel_t *c, frame_t *f)
{
    crti_message_t m;

    if (f->is_end) {
        c->is_over = c->is_closed = true;
        c->handlers.on_closed(c->handlers.user, c, CRT_ERR_CLOSED,
                              "channel: the peer closed");
        return;
    }
    if (crti_message_decode(f->bytes.data, f->bytes.size, &m) != CRT_OK) {
        sim_fail(sys->world, "channel: %s", crt_error_detail());
        return;
    }
    sim_note(sys->world, "  pid %d <- %d: %s %llu", (int)c->owner->pid, (int)c->peer_pid,
             crti_message_name(m.kind), (unsigned long long)m.request);
    c->handlers.on_message(c->handlers.user, c, &m, f->fds, f->fd_count);
}

void crti_channel_process(crti_channel_t *c, uint32_t events)
{
    crti_list_t *item;

    if (c->is_pumping)
        return;
    c->is_pumping = true;
    while (!c->is_closed && c->handlers.on_message && (item = crti_list_pop(&c->inbox)))
        deliver(c, CRTI_CONTAINER(item, frame_t, link));
    c->is_pumping = false;
}

static void process(void *user, uint64_t number)
{
    crti_channel_process(user, 0);
}

static void nothing(void *user, uint64_t number)
{
}

static void notify(crti_channel_t *c)
{
    const sys_fd_t *f = sys_fd_of(c->fd);

    if (!c->owner)
        return;
    if (c->is_attached)
        sys_run(c->owner, process, c, 0);
    else if (f && f->on_ready)
        sys_fd_ready(c->fd, 0);
    else /* its main thread may wait for it */
        sys_run(c->owner, nothing, NULL, 0);
}

static void look(void *user, uint64_t number)
{
    notify(user);
}

static void arrive(void *user, uint64_t number)
{
    frame_t *f = user;
    crti_channel_t *c = ends[number];

    if (c->is_closed)
        return;
    crti_list_append(&c->inbox, &f->link);
    notify(c);
}

static void send_frame(crti_channel_t *from, frame_t *f)
{
    crti_channel_t *to = from->other;
    sim_world_t *w = sys->world;
    uint64_t at = w->now + sim_between(w, 4000, 40000);

    if (at < to->arrival)
        at = to->arrival;
    to->arrival = at;
    sim_after(w, at - w->now, arrive, f, to->number);
}

static frame_t *new_frame(void)
{
    frame_t *f = calloc(1, sizeof(*f));

    if (!f)
        abort();
    return f;
}

static void close_end(crti_channel_t *c)
{
    frame_t *end;

    if (c->is_closed)
        return;
    c->is_closed = true;
    if (!c->other || c->other->is_closed)
        return;
    end = new_frame();
    end->is_end = true;
    send_frame(c, end);
}

void sys_channel_closed_fd(crti_channel_t *c)
{
    if (!c->handlers.on_message) /* else the channel has its own, see crti_channel_new */
        close_end(c);
}

void sys_channel_owner_died(const sys_process_t *owner)
{
    for (size_t i = 0; i < end_count; i++)
        if (ends[i]->owner == owner)
            close_end(ends[i]);
}

/* ---------------------------------------------------------------- channel.h */

crt_status_t crti_channel_pair(int fds_out[2])
{
    crti_channel_t *a = new_end(sys->self), *b = new_end(sys->self);

    join(a, b);
    fds_out[0] = a->fd;
    fds_out[1] = b->fd;
    return CRT_OK;
}

crti_channel_t *sys_channel_inherit(int fd, sys_process_t *owner)
{
    crti_channel_t *c = sys_fd_of(fd)->thing;

    sys_fd_of(fd)->kind = SYS_FD_NONE; /* the parent's copy */
    c->owner = owner;
    c->fd = sys_fd_new(SYS_FD_CHANNEL, c);
    sys_fd_of(c->fd)->owner = owner;
    return c;
}

crt_status_t crti_channel_new(int *fd_take, const crti_channel_handlers_t *handlers,
                              size_t queue_bytes, crti_channel_t **channel_out)
{
    crti_channel_t *c = sys_fd_of(*fd_take)->thing;

    *fd_take = -1;
    c->handlers = *handlers;
    *channel_out = c;
    return CRT_OK;
}

crt_status_t crti_channel_listen(const char *path, int *fd_out)
{
    listener_t *l = calloc(1, sizeof(*l));

    if (!l || listener_count == SYS_PROCESSES)
        abort();
    snprintf(l->path, sizeof(l->path), "%s", path);
    l->is_open = true;
    l->fd = *fd_out = sys_fd_new(SYS_FD_LISTENER, l);
    listeners[listener_count++] = l;
    return CRT_OK;
}

void sys_listener_closed(void *listener)
{
    listener_t *l = listener;

    l->is_open = false;
    for (unsigned i = 0; i < l->count; i++)
        close_end(l->waiting[i]);
    l->count = 0;
}

crt_status_t crti_channel_connect(const char *path, uint64_t deadline_ns,
                                  const crti_channel_handlers_t *handlers,
                                  crti_channel_t **channel_out)
{
    for (unsigned i = listener_count; i-- > 0;) {
        listener_t *l = listeners[i];
        crti_channel_t *mine, *theirs;

        if (!l->is_open || strcmp(l->path, path) != 0 || l->count == 64)
            continue;
        mine = new_end(sys->self);
        theirs = new_end(sys_fd_of(l->fd)->owner);
        join(mine, theirs);
        mine->handlers = *handlers;
        l->waiting[l->count++] = theirs;
        sys_fd_ready(l->fd, 10000);
        *channel_out = mine;
        return CRT_OK;
    }
    return crt_raise(CRT_ERR_NOT_FOUND, "nobody listens at %s", path);
}

crt_status_t crti_channel_accept(int listen_fd, int *fd_out)
{
    const sys_fd_t *f = sys_fd_of(listen_fd);
    listener_t *l = f ? f->thing : NULL;

    if (!l || l->count == 0)
        return CRT_IN_PROGRESS;
    *fd_out = l->waiting[0]->fd;
    memmove(l->waiting, l->waiting + 1, --l->count * sizeof(l->waiting[0]));
    return CRT_OK;
}

crt_status_t crti_channel_attach(crti_channel_t *c, crti_loop_t *loop)
{
    c->is_attached = true;
    if (!crti_list_is_empty(&c->inbox))
        sim_after(sys->world, 1000, look, c, 0);
    return CRT_OK;
}

void crti_channel_close(crti_channel_t *c)
{
    close_end(c);
}

void crti_channel_free(crti_channel_t *c)
{
    if (c)
        close_end(c);
}

bool crti_channel_is_closed(const crti_channel_t *c)
{
    return c->is_closed;
}

int crti_channel_fd(const crti_channel_t *c)
{
    return c->is_closed ? -1 : c->fd;
}

uint32_t crti_channel_events(const crti_channel_t *c)
{
    return EPOLLIN;
}

crt_status_t crti_channel_send_fds(crti_channel_t *c, crti_message_kind_t kind,
                                   uint64_t request, const void *body, const int *list,
                                   int fd_count)
{
    frame_t *f;

    if (c->is_closed)
        return crt_raise(CRT_ERR_CLOSED, "channel: closed");
    f = new_frame();
    if (crti_message_encode(kind, request, body, &f->bytes) != CRT_OK)
        return CRT_ERR_TOO_LARGE;
    f->fd_count = fd_count;
    for (int i = 0; i < fd_count; i++)
        f->fds[i] = list[i];
    if (c->other->is_closed)
        return CRT_OK; /* the end of the other one is on its way */
    send_frame(c, f);
    return CRT_OK;
}

crt_status_t crti_channel_send(crti_channel_t *c, crti_message_kind_t kind,
                               uint64_t request, const void *body)
{
    return crti_channel_send_fds(c, kind, request, body, NULL, 0);
}

crt_status_t crti_channel_send_error(crti_channel_t *c, uint64_t request,
                                     crt_status_t status)
{
    crti_msg_error_t error = {.status = status, .text = crti_str(crt_error_detail())};

    return crti_channel_send(c, CRTI_MSG_ERROR, request, &error);
}

crt_status_t crti_channel_send_bytes(crti_channel_t *c, const void *data, size_t size)
{
    crti_message_t m;

    if (crti_message_decode(data, size, &m) != CRT_OK)
        return CRT_ERR_PROTOCOL;
    return crti_channel_send(c, m.kind, m.request, &m.error);
}

size_t crti_channel_queued(const crti_channel_t *c)
{
    return 0;
}

uint64_t crti_channel_next_request(crti_channel_t *c)
{
    return ++c->last_request;
}

static bool is_drained(void *user)
{
    const crti_channel_t *c = user;

    return c->is_closed || c->other->arrival <= sys->world->now;
}

crt_status_t crti_channel_drain(crti_channel_t *c, uint64_t deadline_ns)
{
    if (sys->is_in_fiber)
        return sys_wait_for(is_drained, c, deadline_ns, false);
    return CRT_OK;
}

/* ---------------------------------------------------------------- questions before the net */

typedef struct asking {
    crti_channel_t *channel;
    uint64_t request;
} asking_t;

static bool has_input(void *user)
{
    const asking_t *a = user;

    return !crti_list_is_empty(&a->channel->inbox) || a->channel->is_closed;
}

static crt_status_t take_answer(const asking_t *a, frame_t *f, crti_message_t *answer_out,
                                crti_buffer_t *storage)
{
    crti_channel_t *c = a->channel;
    crti_message_t m;

    if (f->is_end) {
        c->is_closed = c->is_over = true;
        return crt_raise(CRT_ERR_CLOSED, "channel: the peer closed");
    }
    storage->size = 0;
    crti_buffer_append(storage, f->bytes.data, f->bytes.size);
    crti_message_decode(storage->data, storage->size, &m);
    if (m.request != a->request) {
        c->handlers.on_message(c->handlers.user, c, &m, f->fds, f->fd_count);
        return CRT_IN_PROGRESS;
    }
    *answer_out = m;
    return m.kind == CRTI_MSG_ERROR ? crti_channel_raise(&m.error) : CRT_OK;
}

/* Time does not pass in an attach here. */
void crti_channel_tell_late(crti_channel_t *channel, const crti_channel_late_t *late)
{
}

crt_status_t crti_channel_request(crti_channel_t *c, crti_message_kind_t kind,
                                  const void *body, uint64_t deadline_ns,
                                  crti_message_t *answer_out, crti_buffer_t *storage,
                                  int *fds, int *fd_count_out)
{
    asking_t asking = {c, crti_channel_next_request(c)};
    crt_status_t status = crti_channel_send(c, kind, asking.request, body);

    while (status == CRT_OK || status == CRT_IN_PROGRESS) {
        frame_t *f;

        if (sys_wait_for(has_input, &asking, deadline_ns, false) != CRT_OK)
            return crt_raise(CRT_ERR_TIMED_OUT, "no answer to %s",
                             crti_message_name(kind));
        if (crti_list_is_empty(&c->inbox))
            return crt_raise(CRT_ERR_CLOSED, "channel: closed");
        f = CRTI_CONTAINER(crti_list_pop(&c->inbox), frame_t, link);
        status = take_answer(&asking, f, answer_out, storage);
        if (status != CRT_OK)
            continue;
        for (int i = 0; fds && i < f->fd_count; i++)
            fds[i] = f->fds[i];
        if (fd_count_out)
            *fd_count_out = f->fd_count;
        return CRT_OK;
    }
    return status;
}

crt_status_t crti_channel_peer(const crti_channel_t *c, struct ucred *peer_out)
{
    *peer_out = (struct ucred){.pid = c->peer_pid};
    return CRT_OK;
}

crt_status_t crti_channel_raise(const crti_msg_error_t *error)
{
    char text[1024];

    crti_text(error->text, text, sizeof(text));
    return crt_raise(error->status < 0 ? (crt_status_t)error->status : CRT_ERR_PROTOCOL,
                     "%s", text);
}
