/* SPDX-License-Identifier: Apache-2.0 */
/* A descriptor of ours (head link, listening socket, signals) in the loop of libwebsockets, so
 * that crt-http has one loop.
 *
 * Where it sits
 *     lws_service -> [ http/lws_file.c ] -> http/head_link.c, http/server.c
 * Threads: the loop's.
 * Ownership: the loop gets a duplicate of the descriptor; the struct is the caller's and may be
 * freed after crti_lws_file_remove, also inside on_ready.
 */
#ifndef CRTI_HTTP_LWS_FILE_H
#define CRTI_HTTP_LWS_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/crt_base.h"

#include <libwebsockets.h>

#define CRTI_LWS_FILE_PROTOCOL "crt-file"

/* Zero-initialised is not added. */
typedef struct crti_lws_file {
    void (*on_ready)(void *user, uint32_t events); /* EPOLLIN, EPOLLOUT, EPOLLHUP */
    void *user;
    struct lws *wsi; /* NULL: not added */
    /* Private. */
    bool is_writing, wants_more;  /* in on_ready(EPOLLOUT), which asked for another one */
    lws_sorted_usec_list_t again; /* asks for it */
} crti_lws_file_t;

/* CRT_ERR_IO: no descriptor or memory left. */
crt_status_t crti_lws_file_add(struct lws_vhost *vhost, crti_lws_file_t *file, int fd);

/* on_ready(EPOLLOUT) once, when it can be written; also from within it. */
void crti_lws_file_want_write(crti_lws_file_t *file);

/* on_ready is not called any more. Fine when it is not added. */
void crti_lws_file_remove(crti_lws_file_t *file);

/* The callback of CRTI_LWS_FILE_PROTOCOL in the list of protocols. */
int crti_lws_file_callback(struct lws *wsi, enum lws_callback_reasons reason, void *user,
                           void *in, size_t size);

#endif
