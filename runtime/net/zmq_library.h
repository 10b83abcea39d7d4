/* SPDX-License-Identifier: Apache-2.0 */
/* ZeroMQ library: the functions of libzmq that the link calls, found when the first process of
 * another node is met.
 *
 * Where it sits
 *     zmq_link -> [ zmq library ] -> libzmq (dlopen)
 * Why
 *     Most workers never meet one, and libzmq brings 16 libraries along. A fork copies the
 *     mappings of all of them: it takes twice as long with them as without (docs/design/node.md).
 * Invariants
 *     Never closed: it has threads of its own.
 */
#ifndef CRTI_NET_ZMQ_LIBRARY_H
#define CRTI_NET_ZMQ_LIBRARY_H

#include <zmq.h>

#include "runtime/base/crt_base.h"

#define CRTI_ZMQ_SYMBOLS(X)                                                              \
    X(version, zmq_version)                                                              \
    X(has, zmq_has)                                                                      \
    X(error, zmq_errno)                                                                  \
    X(error_text, zmq_strerror)                                                          \
    X(context_new, zmq_ctx_new)                                                          \
    X(context_set, zmq_ctx_set)                                                          \
    X(context_end, zmq_ctx_term)                                                         \
    X(socket_new, zmq_socket)                                                            \
    X(socket_close, zmq_close)                                                           \
    X(set, zmq_setsockopt)                                                               \
    X(get, zmq_getsockopt)                                                               \
    X(bind_to, zmq_bind)                                                                 \
    X(connect_to, zmq_connect)                                                           \
    X(send_bytes, zmq_send)                                                              \
    X(msg_init, zmq_msg_init)                                                            \
    X(msg_init_size, zmq_msg_init_size)                                                  \
    X(msg_copy, zmq_msg_copy)                                                            \
    X(msg_send, zmq_msg_send)                                                            \
    X(msg_recv, zmq_msg_recv)                                                            \
    X(msg_close, zmq_msg_close)                                                          \
    X(msg_data, zmq_msg_data)                                                            \
    X(msg_size, zmq_msg_size)                                                            \
    X(msg_more, zmq_msg_more)

typedef struct crti_zmq_api {
#define CRTI_ZMQ_FIELD(field, symbol) __typeof__(symbol) *field;
    CRTI_ZMQ_SYMBOLS(CRTI_ZMQ_FIELD)
#undef CRTI_ZMQ_FIELD
} crti_zmq_api_t;

/* Filled by crti_zmq_library, which comes before any use. */
extern crti_zmq_api_t crti_zmq_api;

/* CRT_ERR_UNSUPPORTED says what is missing, or that the library is older than 4.3.3, the first one
 * without known ways to overflow it before it knows who talks. Any thread. */
crt_status_t crti_zmq_library(void);

#endif
