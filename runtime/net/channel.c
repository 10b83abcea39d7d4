/* SPDX-License-Identifier: Apache-2.0 */
/* Channel: frames over a unix stream socket. See channel.h for the format and the rules.
 *
 * Outgoing bytes gather in one buffer; descriptors that wait with them are marked with the
 * offset of their frame's first byte, because sendmsg must hand them over together with it.
 * Incoming descriptors queue until the frame that declares them is complete: the kernel never
 * delivers them later than the first byte they were sent with.
 *
 * A handler may close or free the channel: `calling` counts the handlers on the stack, and the
 * memory goes when the last has returned.
 */
#include "runtime/net/channel_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/base/limit.h"
#include "runtime/base/log.h"

#define HEADER      4u
#define LENGTH_BITS 28
#define LENGTH_MASK ((1u << LENGTH_BITS) - 1)
#define READ_BYTES  ((size_t)64 << 10) /* of one recvmsg */
#define READS_MAX   16                 /* of one crti_channel_process */

typedef struct fd_mark {
    size_t offset; /* in `out`, of the frame's first byte */
    int count;
    int fds[CRTI_CHANNEL_FDS];
} fd_mark_t;

/* ---------------------------------------------------------------- life */

void crti_channel_close_fds(int *fds, int count)
{
    for (int i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static fd_mark_t *marks_of(crti_channel_t *channel, size_t *count_out)
{
    *count_out = channel->marks.size / sizeof(fd_mark_t);
    return (fd_mark_t *)(void *)channel->marks.data;
}

static void release(crti_channel_t *channel)
{
    crti_buffer_fini(&channel->in);
    crti_buffer_fini(&channel->out);
    crti_buffer_fini(&channel->marks);
    free(channel);
}

void crti_channel_close(crti_channel_t *channel)
{
    size_t count;
    fd_mark_t *marks = marks_of(channel, &count);

    if (channel->fd < 0)
        return;
    if (channel->loop)
        crti_loop_remove(channel->loop, &channel->watch);
    close(channel->fd);
    channel->fd = -1;
    crti_channel_close_fds(channel->in_fds, channel->in_fd_count);
    channel->in_fd_count = 0;
    for (size_t i = 0; i < count; i++)
        crti_channel_close_fds(marks[i].fds, marks[i].count);
    channel->marks.size = 0;
    channel->out.size = channel->out_done = 0;
}

void crti_channel_free(crti_channel_t *channel)
{
    if (channel == NULL)
        return;
    crti_channel_close(channel);
    if (channel->calling)
        channel->freed = true;
    else
        release(channel);
}

bool crti_channel_is_closed(const crti_channel_t *channel)
{
    return channel->fd < 0;
}

int crti_channel_fd(const crti_channel_t *channel)
{
    return channel->fd;
}

size_t crti_channel_queued(const crti_channel_t *channel)
{
    return channel->out.size - channel->out_done;
}

uint64_t crti_channel_next_request(crti_channel_t *channel)
{
    return ++channel->requests;
}

static crt_status_t set_flags(int fd)
{
    int flags = fcntl(fd, F_GETFL), type = 0;
    socklen_t size = sizeof(type);

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_STREAM)
        return crt_raise(CRT_ERR_INVALID, "channel: descriptor %d is no stream socket",
                         fd);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return crt_raise(CRT_ERR_IO, "channel: descriptor %d: %s", fd, strerror(errno));
    return CRT_OK;
}

crt_status_t crti_channel_new(int *fd_take, const crti_channel_handlers_t *handlers,
                              size_t queue_bytes, crti_channel_t **channel_out)
{
    crt_status_t status = set_flags(*fd_take);
    crti_channel_t *channel;

    if (status != CRT_OK)
        return status;
    channel = calloc(1, sizeof(*channel));
    if (channel == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "channel: %zu bytes", sizeof(*channel));
    channel->fd = crti_take_fd(fd_take);
    channel->handlers = *handlers;
    channel->events = EPOLLIN;
    channel->out_limit = queue_bytes ? queue_bytes : CRTI_LIMIT(link_queue);
    *channel_out = channel;
    return CRT_OK;
}

/* ---------------------------------------------------------------- closing for a reason */

/* The channel is alive while `calling` is above 0; returns false when it was freed meanwhile. */
bool crti_channel_leave(crti_channel_t *channel)
{
    if (--channel->calling == 0 && channel->freed) {
        release(channel);
        return false;
    }
    return true;
}

/* Closes with the status and detail that the caller just raised, and tells the owner. */
static void fail(crti_channel_t *channel, crt_status_t status)
{
    char detail[1024];

    if (channel->fd < 0)
        return;
    snprintf(detail, sizeof(detail), "%s", crt_error_detail());
    crti_log(CRTI_LOG_DEBUG, "channel", "closed: %s", detail);
    crti_channel_close(channel);
    if (channel->handlers.on_closed)
        channel->handlers.on_closed(channel->handlers.user, channel, status, detail);
}

static void want(crti_channel_t *channel)
{
    uint32_t events = EPOLLIN | (crti_channel_queued(channel) ? EPOLLOUT : 0);

    if (channel->fd < 0 || events == channel->events)
        return;
    channel->events = events;
    if (channel->loop)
        crti_loop_modify(channel->loop, &channel->watch, events);
    else if (channel->handlers.on_events)
        channel->handlers.on_events(channel->handlers.user, channel, events);
}

/* ---------------------------------------------------------------- sending */

static void compact(crti_channel_t *channel)
{
    size_t count;
    fd_mark_t *marks = marks_of(channel, &count);

    /* Not with each write: what waits may be a hundred times as much. */
    if (channel->out_done < channel->out.size &&
        (channel->out_done < READ_BYTES || channel->out_done < channel->out.size / 2))
        return;
    crti_buffer_consume(&channel->out, channel->out_done);
    for (size_t i = 0; i < count; i++)
        marks[i].offset -= channel->out_done;
    channel->out_done = 0;
    if (channel->out.size == 0 && channel->out.capacity > 4096)
        crti_buffer_fini(&channel->out);
}

/* One sendmsg: up to the next frame that has descriptors, or that frame's first bytes with
 * them. Returns what sendmsg says. */
static ssize_t write_some(crti_channel_t *channel)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * CRTI_CHANNEL_FDS)];
        struct cmsghdr align;
    } control;
    size_t count, end = channel->out.size;
    fd_mark_t *marks = marks_of(channel, &count);
    bool with_fds = count && marks[0].offset == channel->out_done;
    struct iovec part = {channel->out.data + channel->out_done, 0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t sent;

    if (count > with_fds)
        end = marks[with_fds].offset;
    part.iov_len = end - channel->out_done;
    if (with_fds) {
        struct cmsghdr *header;

        memset(&control, 0, sizeof(control));
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)marks[0].count);
        header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)marks[0].count);
        memcpy(CMSG_DATA(header), marks[0].fds, sizeof(int) * (size_t)marks[0].count);
    }
    sent = sendmsg(channel->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0 && with_fds) {
        crti_channel_close_fds(marks[0].fds, marks[0].count);
        crti_buffer_consume(&channel->marks, sizeof(fd_mark_t));
    }
    return sent;
}

/* Writes what fits. A failure is left to the next read, which tells why, and comes at once
 * because the socket reports an error or hang-up; so sending never calls a handler. */
void crti_channel_flush(crti_channel_t *channel)
{
    while (channel->fd >= 0 && channel->out_done < channel->out.size) {
        ssize_t sent = write_some(channel);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            break;
        channel->out_done += (size_t)sent;
    }
    compact(channel);
    want(channel);
}

static crt_status_t duplicate(crti_channel_t *channel, const int *fds, int count)
{
    fd_mark_t mark = {.offset = channel->out.size};

    for (; mark.count < count; mark.count++) {
        mark.fds[mark.count] = fcntl(fds[mark.count], F_DUPFD_CLOEXEC, 3);
        if (mark.fds[mark.count] < 0) {
            crt_raise(CRT_ERR_IO, "channel: descriptor %d: %s", fds[mark.count],
                      strerror(errno));
            crti_channel_close_fds(mark.fds, mark.count);
            return CRT_ERR_IO;
        }
    }
    if (count && crti_buffer_append(&channel->marks, &mark, sizeof(mark)) != CRT_OK) {
        crti_channel_close_fds(mark.fds, mark.count);
        return CRT_ERR_NO_MEMORY;
    }
    return CRT_OK;
}

/* The frame's bytes lie in `out` behind `start`, which was the size before; fills the header
 * in, or takes the frame back. */
static crt_status_t finish_frame(crti_channel_t *channel, size_t start, const int *fds,
                                 int fd_count, crt_status_t status)
{
    size_t length = channel->out.size - start - HEADER;
    uint32_t word = (uint32_t)length | (uint32_t)fd_count << LENGTH_BITS;
    unsigned char *header = channel->out.data + start;

    if (status == CRT_OK && (length == 0 || length > CRTI_MESSAGE_MAX))
        status = crt_raise(CRT_ERR_TOO_LARGE, "message of %zu bytes, at most %u are sent",
                           length, CRTI_MESSAGE_MAX);
    channel->out.size = start;
    if (status == CRT_OK)
        status = duplicate(channel, fds, fd_count);
    if (status != CRT_OK)
        return status;
    channel->out.size = start + HEADER + length;
    for (unsigned i = 0; i < HEADER; i++)
        header[i] = (unsigned char)(word >> 8 * i);
    crti_channel_flush(channel);
    return CRT_OK;
}

static crt_status_t begin_frame(crti_channel_t *channel, int fd_count, size_t *start_out)
{
    static const unsigned char header[HEADER];

    if (channel->fd < 0)
        return crt_raise(CRT_ERR_CLOSED, "the channel is closed");
    if (fd_count < 0 || fd_count > CRTI_CHANNEL_FDS)
        return crt_raise(CRT_ERR_INVALID, "channel: %d descriptors", fd_count);
    if (crti_channel_queued(channel) >= channel->out_limit)
        return crt_raise(CRT_ERR_BACKPRESSURE,
                         "channel: the peer left %zu bytes unread (the limit is %zu)",
                         crti_channel_queued(channel), channel->out_limit);
    *start_out = channel->out.size;
    return crti_buffer_append(&channel->out, header, HEADER);
}

crt_status_t crti_channel_send_fds(crti_channel_t *channel, crti_message_kind_t kind,
                                   uint64_t request, const void *body, const int *fds,
                                   int fd_count)
{
    size_t start;
    crt_status_t status = begin_frame(channel, fd_count, &start);

    if (status != CRT_OK)
        return status;
    status = crti_message_encode(kind, request, body, &channel->out);
    return finish_frame(channel, start, fds, fd_count, status);
}

crt_status_t crti_channel_send(crti_channel_t *channel, crti_message_kind_t kind,
                               uint64_t request, const void *body)
{
    return crti_channel_send_fds(channel, kind, request, body, NULL, 0);
}

crt_status_t crti_channel_send_bytes(crti_channel_t *channel, const void *data,
                                     size_t size)
{
    size_t start;
    crt_status_t status = begin_frame(channel, 0, &start);

    if (status != CRT_OK)
        return status;
    if (size <= CRTI_MESSAGE_MAX)
        status = crti_buffer_append(&channel->out, data, size);
    else
        status = crt_raise(CRT_ERR_TOO_LARGE, "message of %zu bytes", size);
    return finish_frame(channel, start, NULL, 0, status);
}

crt_status_t crti_channel_send_error(crti_channel_t *channel, uint64_t request,
                                     crt_status_t status)
{
    crti_msg_error_t error = {.status = status, .text = crti_str(crt_error_detail())};

    return crti_channel_send(channel, CRTI_MSG_ERROR, request, &error);
}

/* ---------------------------------------------------------------- receiving */

static void take_fds(crti_channel_t *channel, struct msghdr *message)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            if (channel->in_fd_count < CRTI_CHANNEL_FDS_WAITING)
                channel->in_fds[channel->in_fd_count++] = fd;
            else
                close(fd); /* its frame will lack it, which closes the channel */
        }
    }
}

/* One recvmsg. CRT_IN_PROGRESS: nothing is there. */
static crt_status_t read_some(crti_channel_t *channel)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * CRTI_CHANNEL_FDS_WAITING)];
        struct cmsghdr align;
    } control;
    struct iovec part;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control)};
    crt_status_t status = crti_buffer_reserve(&channel->in, READ_BYTES);
    ssize_t got;

    if (status != CRT_OK)
        return status;
    part.iov_base = channel->in.data + channel->in.size;
    part.iov_len = READ_BYTES;
    do
        got = recvmsg(channel->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN)
        return CRT_IN_PROGRESS;
    if (got < 0)
        return crt_raise(CRT_ERR_CLOSED, "channel: %s", strerror(errno));
    take_fds(channel, &message);
    if (message.msg_flags & MSG_CTRUNC)
        return crt_raise(CRT_ERR_IO, "channel: descriptors were lost on the way: too "
                                     "many open files in this process, or in the frame");
    if (got == 0 && channel->in.size > channel->in_done)
        return crt_raise(CRT_ERR_CLOSED, "channel: the peer ended inside a message");
    if (got == 0)
        return crt_raise(CRT_ERR_CLOSED, "channel: the peer closed");
    channel->in.size += (size_t)got;
    return CRT_OK;
}

/* The next frame that is complete. CRT_IN_PROGRESS: more bytes are needed. */
static crt_status_t next_frame(crti_channel_t *channel, crti_span_t *frame_out,
                               int *fd_count_out)
{
    const unsigned char *at = channel->in.data + channel->in_done;
    size_t have = channel->in.size - channel->in_done;
    uint32_t word, length;
    int fds;

    if (have < HEADER)
        return CRT_IN_PROGRESS;
    word = at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    length = word & LENGTH_MASK;
    fds = (int)(word >> LENGTH_BITS);
    if (length == 0 || length > CRTI_MESSAGE_MAX || fds > CRTI_CHANNEL_FDS)
        return crt_raise(CRT_ERR_PROTOCOL,
                         "channel: frame of %u bytes and %d descriptors (at most %u and "
                         "%d)",
                         length, fds, CRTI_MESSAGE_MAX, CRTI_CHANNEL_FDS);
    if (have < HEADER + length)
        return CRT_IN_PROGRESS;
    if (fds > channel->in_fd_count)
        return crt_raise(CRT_ERR_PROTOCOL, "channel: frame lacks %d of its descriptors",
                         fds - channel->in_fd_count);
    *frame_out = crti_span(at + HEADER, length);
    *fd_count_out = fds;
    channel->in_done += HEADER + length;
    return CRT_OK;
}

/* The awaited answer goes to crti_channel_request, everything else to the handler. */
static void deliver(crti_channel_t *channel, const crti_message_t *message,
                    crti_span_t frame, int *fds, int fd_count)
{
    if (channel->awaited && message->request == channel->awaited) {
        channel->awaited = 0;
        channel->answered = true;
        /* Without memory the answer stays empty, which the request reports. */
        crti_buffer_append(channel->answer, frame.data, frame.size);
        channel->answer_fd_count = 0;
        for (int i = 0; channel->answer_fds && i < fd_count; i++)
            channel->answer_fds[channel->answer_fd_count++] = crti_take_fd(&fds[i]);
        return;
    }
    if (channel->handlers.on_message)
        channel->handlers.on_message(channel->handlers.user, channel, message, fds,
                                     fd_count);
}

/* Delivers all complete frames. */
static crt_status_t dispatch(crti_channel_t *channel)
{
    while (channel->fd >= 0) {
        int fds[CRTI_CHANNEL_FDS], fd_count = 0;
        crti_message_t message;
        crti_span_t frame;
        crt_status_t status = next_frame(channel, &frame, &fd_count);

        if (status == CRT_OK)
            status = crti_message_decode(frame.data, frame.size, &message);
        if (status != CRT_OK)
            return status == CRT_IN_PROGRESS ? CRT_OK : status;
        memcpy(fds, channel->in_fds, sizeof(int) * (size_t)fd_count);
        channel->in_fd_count -= fd_count;
        memmove(channel->in_fds, channel->in_fds + fd_count,
                sizeof(int) * (size_t)channel->in_fd_count);
        deliver(channel, &message, frame, fds, fd_count);
        crti_channel_close_fds(fds, fd_count);
    }
    return CRT_OK;
}

static void compact_in(crti_channel_t *channel)
{
    crti_buffer_consume(&channel->in, channel->in_done);
    channel->in_done = 0;
    if (channel->in.size == 0) /* thousands of idle channels must cost nothing */
        crti_buffer_fini(&channel->in);
}

/* Reads and delivers. What arrived before the end of the stream is delivered before it. */
crt_status_t crti_channel_receive(crti_channel_t *channel)
{
    crt_status_t status = CRT_OK;

    for (int i = 0; i < READS_MAX && channel->fd >= 0; i++) {
        status = read_some(channel);
        if (status != CRT_OK)
            break;
        status = dispatch(channel);
        compact_in(channel);
        if (status != CRT_OK)
            break;
    }
    return status == CRT_IN_PROGRESS ? CRT_OK : status;
}

void crti_channel_process(crti_channel_t *channel, uint32_t events)
{
    crt_status_t status;

    if (channel->fd < 0)
        return;
    channel->calling++;
    if (events & EPOLLOUT)
        crti_channel_flush(channel);
    status = crti_channel_receive(channel);
    if (status != CRT_OK)
        fail(channel, status);
    crti_channel_leave(channel);
}

uint32_t crti_channel_events(const crti_channel_t *channel)
{
    return channel->events;
}

static void on_ready(void *user, uint32_t events)
{
    crti_channel_process(user, events);
}

crt_status_t crti_channel_attach(crti_channel_t *channel, crti_loop_t *loop)
{
    crt_status_t status;

    if (channel->fd < 0)
        return crt_raise(CRT_ERR_CLOSED, "the channel is closed");
    channel->watch = (crti_watch_t){.on_ready = on_ready, .user = channel};
    status = crti_loop_add(loop, &channel->watch, channel->fd, channel->events);
    if (status == CRT_OK)
        channel->loop = loop;
    return status;
}
