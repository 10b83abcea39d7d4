/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes on a channel's socket, cut into two writes: messages or one clean close. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/net/channel.h"

static void on_message(void *user, crti_channel_t *channel, const crti_message_t *message,
                       int *fds, int fd_count)
{
    if (fd_count)
        abort(); /* none was ever sent */
}

static void on_closed(void *user, crti_channel_t *channel, crt_status_t status,
                      const char *detail)
{
    if (++*(int *)user > 1 || status >= 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int closed = 0, fds[2];
    crti_channel_handlers_t handlers = {&closed, on_message, on_closed, NULL};
    crti_channel_t *channel = NULL;
    size_t half = size / 2;

    if (crti_channel_pair(fds) != CRT_OK ||
        crti_channel_new(&fds[0], &handlers, 0, &channel) != CRT_OK)
        abort();
    if (send(fds[1], data, half, MSG_NOSIGNAL) < 0)
        abort();
    crti_channel_process(channel, EPOLLIN);
    /* Fails when the first half was refused. */
    if (send(fds[1], data + half, size - half, MSG_NOSIGNAL) < 0 && !closed)
        abort();
    close(fds[1]);
    for (int i = 0; i < 4; i++)
        crti_channel_process(channel, EPOLLIN);
    if (closed != 1)
        abort();
    crti_channel_free(channel);
    return 0;
}

static size_t add(crti_message_kind_t kind, const void *body, uint8_t *out, size_t room)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    uint32_t length;

    if (crti_message_encode(kind, 7, body, &bytes) != CRT_OK || bytes.size + 4 > room)
        abort();
    length = (uint32_t)bytes.size;
    memcpy(out, &length, 4);
    memcpy(out + 4, bytes.data, bytes.size);
    return bytes.size + 4;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    crti_msg_attach_t attach = {.pid = 4711, .role = CRTI_ROLE_DRIVER};
    crti_msg_lease_request_t lease = {.function = crti_str("add")};
    crti_msg_log_t log = {.prefix = crti_str("(Counter pid=7)")};
    size_t size;

    crti_resources_set(&lease.resources, "CPU", 3 * CRTI_RESOURCE_ONE);
    switch (index) {
    case 0: return add(CRTI_MSG_ATTACH, &attach, out, room);
    case 1: return add(CRTI_MSG_LEASE_REQUEST, &lease, out, room);
    case 2:
        size = add(CRTI_MSG_LOG, &log, out, room);
        return size + add(CRTI_MSG_BLOCKED, NULL, out + size, room - size);
    default: return 0;
    }
}
