/* SPDX-License-Identifier: Apache-2.0 */
/* What daemons that a command or a program started have in common: the lifeline, by which one hears
 * that its starter is gone, and the log.
 *
 * Where it sits
 *     head.c, node.c -> [ daemon/lifeline.c ] -> net/loop.c
 *     main of crt-head, crt-node and crt-http -> [ daemon/lifeline.c ] -> base/log.c
 * Threads: the loop's.
 */
#ifndef CRTI_DAEMON_LIFELINE_H
#define CRTI_DAEMON_LIFELINE_H

#include "runtime/net/loop.h"

/* A member of the daemon's struct. */
typedef struct crti_lifeline {
    crti_loop_t *loop;
    crti_watch_t watch;
    void (*on_end)(void *user);
    void *user;
} crti_lifeline_t;

/* Calls `on_end` once, when the other end of the pipe is closed. Nothing when `fd` is -1. */
crt_status_t crti_lifeline_watch(crti_lifeline_t *lifeline, crti_loop_t *loop, int fd,
                                 void (*on_end)(void *user), void *user);

/* Logs what CRT_LOG says, without it what is of interest to whoever runs the cluster. */
void crti_daemon_log_select(void);

/* Logs to that file from now on; where it can't be written the log goes on where it is. */
void crti_daemon_log_to(const char *path, const char *module);

#endif
