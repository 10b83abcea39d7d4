/* SPDX-License-Identifier: Apache-2.0 */
/* Child: a process that the head starts and that never outlives it (redis-server, crt-http).
 *
 * Where it sits
 *     redis_server.c, head_http.c -> [ control/store/child.c ] -> fork, exec; pidfd in the loop
 * Rules
 *     The child gets a parent-death signal (it follows the forking thread: the head forks from
 *     its only one), default signals, no descriptor but those given, and CRT_HEAD_DIR in its
 *     environment. Its end is an event; it is reaped here.
 */
#ifndef CRTI_CONTROL_CHILD_H
#define CRTI_CONTROL_CHILD_H

#include <sys/types.h>

#include "runtime/net/loop.h"

#define CRTI_CHILD_FD                                                                    \
    3 /* the number of the first of `pass_fds` in the child; the others follow */
#define CRTI_CHILD_FDS 3 /* at most */

typedef struct crti_child {
    crti_loop_t *loop;
    pid_t pid; /* 0: none runs */
    int pidfd;
    crti_watch_t watch;
    void (*on_exit)(void *user, int wait_status);
    void *user;
} crti_child_t;

typedef struct crti_child_command {
    const char *path;
    const char *const *argv; /* ended by NULL */
    const char *head_dir;    /* for CRT_HEAD_DIR */
    const char *libraries; /* folder of its shared libraries, NULL: those of the system */
    int stdin_fd;          /* -1: /dev/null */
    int output_fd;         /* stdout and stderr */
    int pass_fds[CRTI_CHILD_FDS];
    size_t pass_count;
} crti_child_command_t;

/* on_exit and user are set by the caller before. CRT_ERR_NOT_FOUND: the program can't be
 * executed. */
crt_status_t crti_child_start(crti_child_t *child, crti_loop_t *loop,
                              const crti_child_command_t *command);

/* Sends the signal; fine when it does not run. */
void crti_child_signal(const crti_child_t *child, int signal_number);

/* Kills it, waits for its end and forgets it, without on_exit. Fine when it does not run. */
void crti_child_kill(crti_child_t *child);

/* The absolute path of a program in PATH. CRT_ERR_NOT_FOUND. */
crt_status_t crti_child_find(const char *name, char *path, size_t size);

#endif
