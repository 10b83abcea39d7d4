/* SPDX-License-Identifier: Apache-2.0 */
/* Head link: questions of crt-http to the head over the admin socket.
 *
 * Where it sits
 *     http/endpoints.c -> [ http/head_link.c ] -> net/channel.c -> RUN/head-PORT/head.sock
 * Threads: the loop's.
 * Invariants
 *     A question that was accepted is answered exactly once, unless it is forgotten: by the
 *     head, or with CRT_ERR_HEAD_LOST when the link breaks.
 * Failure
 *     A link that breaks is made again every RECONNECT; meanwhile questions fail at once with the
 *     reason. Nothing is asked twice: the client decides.
 */
#ifndef CRTI_HTTP_HEAD_LINK_H
#define CRTI_HTTP_HEAD_LINK_H

#include "runtime/base/cleanup.h"
#include "runtime/net/message.h"

#include <libwebsockets.h>

typedef struct crti_head_link crti_head_link_t;

/* `message` is NULL when `status` is not CRT_OK; crt_error_detail() then says why. */
typedef void crti_http_head_answer_t(void *user, crt_status_t status,
                                     const crti_message_t *message);

/* `socket_path` is borrowed. Connects at once and, when that fails, later. Caller owns the result
 * and ends it with crti_head_link_detach and crti_head_link_free. */
crt_status_t crti_head_link_new(struct lws_context *context, struct lws_vhost *vhost,
                                const char *socket_path, crti_head_link_t **link_out);

/* Lets go of the loop, which ends now; connections may still forget their questions. NULL is
 * fine. */
void crti_head_link_detach(crti_head_link_t *link);

/* After the loop's context is gone. Open questions are dropped without an answer. NULL is fine. */
void crti_head_link_free(crti_head_link_t *link);
CRTI_DEFINE_AUTO(crti_head_link_t *, crti_head_link_free)

bool crti_head_link_is_up(const crti_head_link_t *link);

/* `*request_out` names the question. On failure `on_answer` is not called. */
crt_status_t crti_head_link_ask(crti_head_link_t *link, crti_message_kind_t kind,
                                const void *body, crti_http_head_answer_t *on_answer,
                                void *user, uint64_t *request_out);

/* Waits for the answer, `timeout_ns` at most, and nothing else is served meanwhile: for what the
 * loop can't wait for. `message_out` borrows from `storage`, which the caller frees. */
crt_status_t crti_head_link_ask_now(crti_head_link_t *link, crti_message_kind_t kind,
                                    const void *body, uint64_t timeout_ns,
                                    crti_message_t *message_out, crti_buffer_t *storage);

/* The answer is not wanted any more. */
void crti_head_link_forget(crti_head_link_t *link, uint64_t request);

#endif
