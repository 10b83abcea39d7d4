/* SPDX-License-Identifier: Apache-2.0 */
/* Client: what comes from outside of this process, and what ends it. */
#ifndef CRTI_CORE_CLIENT_CLIENT_H
#define CRTI_CORE_CLIENT_CLIENT_H

#include "runtime/core/types.h"
#include "runtime/net/channel.h"
#include "runtime/net/net.h"

/* ------------------------------------------------------------------ client.c */

/* crt_shutdown as the last act of a program that ends with `*exit_status`; NULL: it goes on. */
crt_status_t crti_shutdown(const int *exit_status);

/* ------------------------------------------------------------------ dispatch.c */

extern const crti_net_handlers_t crti_core_handlers;
void crti_core_tick(crti_core_t *core, uint64_t now_ns);

/* ------------------------------------------------------------------ deaths.c */

/* The session that we made to it is lost. */
void crti_remote_lost(crti_core_t *core, crti_remote_t *remote,
                      const crti_net_loss_t *loss);
/* Deaths, as the node daemon tells them. */
void crti_process_died(crti_core_t *core, const crti_msg_peer_died_t *message);
void crti_node_died(crti_core_t *core, const crti_msg_node_died_t *message);
/* The node daemon is gone: everything that waits fails. */
void crti_core_break(crti_core_t *core, crt_status_t status, const char *text);

/* ------------------------------------------------------------------ actor_api.c */

struct crti_target; /* calls/calls.h */

/* Fills in what is called, of the actor that the target has. CRT_ERR_INVALID and the like: no such
 * actor, method or option. */
crt_status_t crti_call_target(crti_core_t *core, const crt_method_t *method,
                              const crt_call_options_t *options,
                              struct crti_target *target);

/* ------------------------------------------------------------------ stream_api.c */

/* CRT_OK, or why a stream that the program gives can't be used. */
crt_status_t crti_stream_check(const crti_core_t *core, const crt_stream_t *stream);

/* ------------------------------------------------------------------ node_messages.c */

extern const crti_channel_handlers_t crti_node_link_handlers;

/* told_state.c: answers the node, which asks what threads wait for ("waits") or which refs are held
 * ("refs"). Lock held. */
void crti_tell_state(crti_core_t *core, const crti_msg_state_query_t *query);

#endif
