/* SPDX-License-Identifier: Apache-2.0 */
/* See received.h. */
#include "runtime/http/received.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define TRIES 8 /* while a client sends without a pause */

/* The oldest kernels do not tell the second field. */
static bool count_arrived(int fd, uint64_t *bytes_out)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        size < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof(uint64_t))
        return false;
    *bytes_out = info.tcpi_bytes_received;
    return true;
}

uint64_t crti_received(int fd)
{
    uint64_t arrived, before;
    int unread;

    if (!count_arrived(fd, &arrived))
        return 0;
    for (int i = 0; i < TRIES; i++) {
        before = arrived;
        if (ioctl(fd, FIONREAD, &unread) != 0 || !count_arrived(fd, &arrived))
            return 0;
        /* Nothing came between the two questions. */
        if (arrived == before)
            return arrived > (uint64_t)unread ? arrived - (uint64_t)unread : 0;
    }
    return 0;
}
