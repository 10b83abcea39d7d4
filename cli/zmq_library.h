/* SPDX-License-Identifier: Apache-2.0 */
/* libzmq: the functions that are called here, found when the first of them is needed.
 *
 * Where it sits
 *     bare_limits.c -> [ zmq library ] -> libzmq (dlopen)
 * Why
 *     Only crt microbenchmark needs ZeroMQ itself, and libzmq brings 16 libraries along.
 * How
 *     A file that includes this header writes the library's own names. They lead through a table;
 *     the linker finds those that the table lacks.
 */
#ifndef CRTI_CLI_ZMQ_LIBRARY_H
#define CRTI_CLI_ZMQ_LIBRARY_H

#include <zmq.h>

#include "runtime/base/late_library.h"

#define CRTI_BARE_ZMQ_SYMBOLS(X)                                                         \
    X(zmq_bind)                                                                          \
    X(zmq_close)                                                                         \
    X(zmq_connect)                                                                       \
    X(zmq_ctx_new)                                                                       \
    X(zmq_ctx_term)                                                                      \
    X(zmq_poll)                                                                          \
    X(zmq_recv)                                                                          \
    X(zmq_send)                                                                          \
    X(zmq_setsockopt)                                                                    \
    X(zmq_socket)                                                                        \
    X(zmq_strerror)

CRTI_LATE_TABLE(crti_bare_zmq, CRTI_BARE_ZMQ_SYMBOLS);

#define zmq_bind       crti_bare_zmq_api.zmq_bind_
#define zmq_close      crti_bare_zmq_api.zmq_close_
#define zmq_connect    crti_bare_zmq_api.zmq_connect_
#define zmq_ctx_new    crti_bare_zmq_api.zmq_ctx_new_
#define zmq_ctx_term   crti_bare_zmq_api.zmq_ctx_term_
#define zmq_poll       crti_bare_zmq_api.zmq_poll_
#define zmq_recv       crti_bare_zmq_api.zmq_recv_
#define zmq_send       crti_bare_zmq_api.zmq_send_
#define zmq_setsockopt crti_bare_zmq_api.zmq_setsockopt_
#define zmq_socket     crti_bare_zmq_api.zmq_socket_
#define zmq_strerror   crti_bare_zmq_api.zmq_strerror_

#endif
