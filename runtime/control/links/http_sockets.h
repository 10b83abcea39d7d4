/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP sockets: where crt-http listens. The head makes them and hands them down, so that no other
 * process can bind the dashboard's port while the head lives, also when crt-http is gone for a
 * moment: a client that asks meanwhile waits in the kernel until the next one serves.
 *
 * Where it sits
 *     head_http.c -> [ control/links/http_sockets.c ] -> bind, listen; crt-http inherits them
 * Threads: any; no state.
 */
#ifndef CRTI_CONTROL_HTTP_SOCKETS_H
#define CRTI_CONTROL_HTTP_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/crt_base.h"

typedef struct crti_http_sockets {
    int tcp_fd;       /* of the dashboard's port; -1: none */
    int local_fd;     /* of the socket in the head's run directory; -1: none */
    unsigned port;    /* of the first one */
    bool is_loopback; /* other hosts can't reach it */
    bool is_any;      /* bound to all addresses of this host */
} crti_http_sockets_t;

/* Listens at `host`:`port` (0: any free one) and at the path, where what a killed head left is
 * replaced. CRT_ERR_EXISTS: the port is taken; CRT_ERR_INVALID: no such host. Caller owns both
 * and ends them with crti_http_sockets_close. */
crt_status_t crti_http_sockets_open(const char *host, uint16_t port, const char *path,
                                    crti_http_sockets_t *sockets_out);

/* Fine when there are none. */
void crti_http_sockets_close(crti_http_sockets_t *sockets);

#endif
