/* SPDX-License-Identifier: Apache-2.0 */
/* Channel, where a thread waits: for an answer, or until all is sent. Handlers of other messages
 * run meanwhile. */
#include "runtime/net/channel_int.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "runtime/base/clock.h"

static crt_status_t wait_for(int fd, short events, uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd poll_fd = {.fd = fd, .events = events};
        uint64_t now = crti_now_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
        int ms = deadline_ns == UINT64_MAX  ? -1
                 : left / CRTI_MS > 1 << 30 ? 1 << 30
                                            : (int)((left + CRTI_MS - 1) / CRTI_MS);
        int ready = poll(&poll_fd, 1, ms);

        if (ready > 0)
            return CRT_OK;
        if (ready < 0 && errno != EINTR)
            return crt_raise(CRT_ERR_IO, "channel: poll: %s", strerror(errno));
        if (ready == 0 && left == 0)
            return crt_raise(CRT_ERR_TIMED_OUT, "the peer did not answer in time");
    }
}

crt_status_t crti_channel_drain(crti_channel_t *channel, uint64_t deadline_ns)
{
    while (crti_channel_queued(channel)) {
        size_t before = crti_channel_queued(channel);
        crt_status_t status = wait_for(channel->fd, POLLOUT, deadline_ns);

        if (status != CRT_OK)
            return status;
        crti_channel_flush(channel);
        if (crti_channel_queued(channel) == before)
            return crt_raise(CRT_ERR_CLOSED, "channel: the peer closed");
    }
    return channel->fd >= 0 ? CRT_OK : crt_raise(CRT_ERR_CLOSED, "the channel is closed");
}

void crti_channel_tell_late(crti_channel_t *channel, const crti_channel_late_t *late)
{
    channel->late = *late;
}

static crt_status_t wait_for_answer(crti_channel_t *channel, uint64_t deadline_ns)
{
    crti_channel_late_t late = channel->late;
    bool is_told = late.at_ns == 0 || late.at_ns >= deadline_ns;
    crt_status_t status =
        wait_for(channel->fd, (short)channel->events, is_told ? deadline_ns : late.at_ns);

    if (is_told || status != CRT_ERR_TIMED_OUT)
        return status;
    channel->late.at_ns = 0;
    late.on_late(late.user);
    return CRT_OK;
}

static crt_status_t await(crti_channel_t *channel, uint64_t deadline_ns)
{
    crt_status_t status = CRT_OK;

    while (status == CRT_OK && !channel->answered) {
        if (channel->fd < 0)
            return crt_raise(CRT_ERR_CLOSED, "the channel is closed");
        status = wait_for_answer(channel, deadline_ns);
        if (status == CRT_OK)
            crti_channel_flush(channel);
        if (status == CRT_OK)
            status = crti_channel_receive(channel);
    }
    return channel->answered ? CRT_OK : status; /* the peer's end may follow its answer */
}

crt_status_t crti_channel_raise(const crti_msg_error_t *error)
{
    crt_status_t status = error->status < 0 && error->status > -1000
                              ? (crt_status_t)error->status
                              : CRT_ERR_PROTOCOL;

    return crt_raise(status, "%.*s", (int)error->text.size,
                     error->text.size ? (const char *)error->text.data : "");
}

crt_status_t crti_channel_request(crti_channel_t *channel, crti_message_kind_t kind,
                                  const void *body, uint64_t deadline_ns,
                                  crti_message_t *answer_out, crti_buffer_t *storage,
                                  int *fds, int *fd_count_out)
{
    uint64_t request = crti_channel_next_request(channel);
    crt_status_t status;

    storage->size = 0;
    channel->answered = false;
    channel->answer_fd_count = 0;
    channel->answer = storage;
    channel->answer_fds = fds;
    channel->awaited = request;
    channel->calling++;
    status = crti_channel_send(channel, kind, request, body);
    if (status == CRT_OK)
        status = await(channel, deadline_ns);
    if (status == CRT_OK)
        status = crti_message_decode(storage->data, storage->size, answer_out);
    if (status == CRT_OK && answer_out->kind == CRTI_MSG_ERROR)
        status = crti_channel_raise(&answer_out->error);
    channel->answered = false;
    channel->awaited = 0;
    channel->late.at_ns = 0;
    if (fd_count_out)
        *fd_count_out = channel->answer_fd_count;
    if (status != CRT_OK && fds) {
        crti_channel_close_fds(fds, channel->answer_fd_count);
        if (fd_count_out)
            *fd_count_out = 0;
    }
    crti_channel_leave(channel);
    return status;
}
