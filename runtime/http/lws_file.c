/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors in the loop of libwebsockets. See lws_file.h. */
#include "runtime/http/lws_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

crt_status_t crti_lws_file_add(struct lws_vhost *vhost, crti_lws_file_t *file, int fd)
{
    lws_adopt_desc_t adopt = {.vh = vhost,
                              .type = LWS_ADOPT_RAW_FILE_DESC,
                              .vh_prot_name = CRTI_LWS_FILE_PROTOCOL,
                              .opaque = file};
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

    if (copy < 0)
        return crt_raise(CRT_ERR_IO, "no descriptor left: %s", strerror(errno));
    adopt.fd.filefd = copy;
    file->wsi = lws_adopt_descriptor_vhost_via_info(&adopt);
    if (!file->wsi)
        return crt_raise(CRT_ERR_IO, "the loop takes no more descriptors");
    return CRT_OK;
}

void crti_lws_file_want_write(crti_lws_file_t *file)
{
    if (file->wsi)
        lws_callback_on_writable(file->wsi);
}

void crti_lws_file_remove(crti_lws_file_t *file)
{
    if (!file->wsi)
        return;
    lws_set_opaque_user_data(file->wsi, NULL);
    lws_set_timeout(file->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_ASYNC);
    file->wsi = NULL;
}

int crti_lws_file_callback(struct lws *wsi, enum lws_callback_reasons reason, void *user,
                           void *in, size_t size)
{
    crti_lws_file_t *file = lws_get_opaque_user_data(wsi);

    switch (reason) {
    case LWS_CALLBACK_RAW_RX_FILE:
        if (file)
            file->on_ready(file->user, EPOLLIN);
        break;
    case LWS_CALLBACK_RAW_WRITEABLE_FILE:
        if (file)
            file->on_ready(file->user, EPOLLOUT);
        break;
    case LWS_CALLBACK_RAW_CLOSE_FILE:
        if (file) {
            file->wsi = NULL;
            lws_set_opaque_user_data(wsi, NULL);
            file->on_ready(file->user, EPOLLHUP);
        }
        return 0;
    default: return 0;
    }
    /* Removed in the callback: the loop closes its copy. */
    return lws_get_opaque_user_data(wsi) ? 0 : -1;
}
