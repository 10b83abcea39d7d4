/* SPDX-License-Identifier: Apache-2.0 */
/* Links: the connections of the head, streams of nodes and channels of the admin socket, under
 * numbers, as control.h wants them.
 *
 * Where it sits
 *     control.c <-> [ control/links/head_links.c ] <-> net/stream.c, net/channel.c
 * Ownership
 *     A link owns its stream or channel. A number is used once. A peer that does not read ends
 *     (its queue is bounded), which control hears as a broken link, later, from the loop.
 */
#ifndef CRTI_CONTROL_HEAD_LINKS_H
#define CRTI_CONTROL_HEAD_LINKS_H

#include "runtime/control/control.h"
#include "runtime/net/channel.h"
#include "runtime/net/loop.h"
#include "runtime/net/stream.h"

typedef struct crti_head_links crti_head_links_t;

typedef struct crti_head_links_handlers {
    void *user;
    void (*on_opened)(void *user, uint64_t link, bool is_admin);
    void (*on_message)(void *user, uint64_t link, const crti_message_t *message);
    void (*on_closed)(void *user, uint64_t link, const char *text);
    void (*on_alone)(void *user); /* a link ended, and no node has one */
} crti_head_links_handlers_t;

crt_status_t crti_head_links_new(crti_loop_t *loop,
                                 const crti_head_links_handlers_t *handlers,
                                 crti_head_links_t **links_out);
/* Ends all of them; no handler is called. */
void crti_head_links_free(crti_head_links_t *links);

/* Takes an authenticated stream. */
void crti_head_links_add_stream(crti_head_links_t *links, crti_stream_t *stream);

/* Serves the admin socket, which is bound here. */
crt_status_t crti_head_links_serve(crti_head_links_t *links, const char *socket_path);

/* For crti_control_actions_t; `user` is the links. */
void crti_head_links_send(void *user, uint64_t link, const void *message, size_t size);
void crti_head_links_drop(void *user, uint64_t link, const char *why);
size_t crti_head_links_queued(void *user, uint64_t link);

/* To every stream. */
void crti_head_links_tell_nodes(crti_head_links_t *links, crti_message_kind_t kind,
                                const void *body);
/* How many streams there are. */
size_t crti_head_links_nodes(const crti_head_links_t *links);

#endif
