/* SPDX-License-Identifier: Apache-2.0 */
/* What streams are made with, and outgoing ones. See stream.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/net/stream_int.h"

/* ---------------------------------------------------------------- contexts */

crt_status_t crti_stream_context_new(const crti_key_t *key, bool encrypt,
                                     crti_stream_context_t **context_out)
{
    crti_stream_context_t *context = calloc(1, sizeof(*context));
    unsigned char psk[CRTI_KEY_SIZE];
    crt_status_t status;

    if (context == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "stream context");
    crti_key_stream(key, psk);
    status = crti_tls_context_new(psk, encrypt, &context->tls);
    crti_key_wipe(psk, sizeof(psk));
    if (status != CRT_OK) {
        free(context);
        return status;
    }
    *context_out = context;
    return CRT_OK;
}

void crti_stream_context_free(crti_stream_context_t *context)
{
    if (context == NULL)
        return;
    crti_tls_context_unref(context->tls);
    free(context);
}

void crti_stream_context_avoid_bbr(crti_stream_context_t *context)
{
    context->is_bursty = true;
}

/* ---------------------------------------------------------------- outgoing */

crt_status_t crti_stream_connect(crti_loop_t *loop, crti_stream_context_t *context,
                                 const char *address, uint64_t timeout_ms,
                                 const crti_stream_handlers_t *handlers,
                                 crti_stream_t **stream_out)
{
    struct sockaddr_storage to;
    socklen_t size = 0;
    crt_status_t status = crti_address_parse(address, &to, &size);
    CRTI_AUTO(crti_close) int fd = -1;
    crti_stream_t *s = NULL;

    if (status != CRT_OK)
        return status;
    fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "socket: %s", strerror(errno));
    crti_stream_prepare(context, fd);
    if (connect(fd, (struct sockaddr *)&to, size) != 0 && errno != EINPROGRESS)
        return crt_raise(CRT_ERR_UNREACHABLE, "%s can't be reached: %s", address,
                         strerror(errno));
    status = crti_stream_new(loop, context, &fd, false, timeout_ms, &s);
    if (status != CRT_OK)
        return status;
    snprintf(s->address, sizeof(s->address), "%s", address);
    s->handlers = *handlers;
    *stream_out = s;
    return CRT_OK;
}
