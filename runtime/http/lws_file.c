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
    if (file->is_writing)
        file->wants_more = true;
    else if (file->wsi)
        lws_callback_on_writable(file->wsi);
}

static void on_again(lws_sorted_usec_list_t *sul)
{
    crti_lws_file_want_write(lws_container_of(sul, crti_lws_file_t, again));
}

/* The loop of libwebsockets stops to look for POLLOUT after its callback, whatever was asked for
 * within: it is asked again in its next turn. `file` may be freed by its on_ready. */
static void on_writable(struct lws *wsi, crti_lws_file_t *file)
{
    file->is_writing = true;
    file->wants_more = false;
    file->on_ready(file->user, EPOLLOUT);
    if (lws_get_opaque_user_data(wsi) != file)
        return;
    file->is_writing = false;
    if (file->wants_more)
        lws_sul_schedule(lws_get_context(wsi), 0, &file->again, on_again, 1);
}

void crti_lws_file_remove(crti_lws_file_t *file)
{
    lws_sul_cancel(&file->again);
    file->is_writing = false;
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
            on_writable(wsi, file);
        break;
    case LWS_CALLBACK_RAW_CLOSE_FILE:
        if (file) {
            lws_sul_cancel(&file->again);
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
