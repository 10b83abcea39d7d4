/* SPDX-License-Identifier: Apache-2.0 */
/* Zygote: the user's program, loaded once by the node daemon, that forks workers.
 *
 * Where it sits
 *     node daemon (FORK) -> [ core/client/zygote.c ] -> fork -> worker: crti_zygote_serve returns
 * Threads
 *     One; that is what makes plain fork() safe. Checked before the first fork is promised.
 * Ownership
 *     The child closes the zygote's descriptors and owns its standard streams.
 * Failure
 *     The link to the node daemon closes: the zygote exits, its workers get SIGKILL by their
 *     parent-death signal. A fork that fails is an ERROR answer with the reason.
 */
#ifndef CRTI_CORE_ZYGOTE_H
#define CRTI_CORE_ZYGOTE_H

#include <limits.h>

#include "runtime/base/id.h"

typedef enum crti_process_role {
    CRTI_PROCESS_DRIVER, /* the user started it */
    CRTI_PROCESS_ZYGOTE, /* CRT_ZYGOTE_FD: serve forks; CRT_WORKER is set, too */
    CRTI_PROCESS_WORKER  /* CRT_WORKER alone: executed as one worker */
} crti_process_role_t;

/* How a worker came to be. */
typedef struct crti_worker_identity {
    crti_id_t process;
    bool is_executed; /* no worker of the program is to be forked */
    char node_socket[PATH_MAX];
} crti_worker_identity_t;

/* What the environment says this process is. A worker's identity is filled in. The variables are
 * removed, so that a program started by user code is a driver again. A damaged value prints
 * why and exits. */
crti_process_role_t crti_process_role(crti_worker_identity_t *identity_out,
                                      int *zygote_fd_out);

/* Serves forks on the link until it closes, then exits. Returns in each forked worker only: with
 * its streams in place, a process group of its own, a parent-death signal and no descriptor of
 * the zygote. */
void crti_zygote_serve(int fd, crti_worker_identity_t *identity_out);

/* Of a worker, whose stdout is a pipe: each line goes out when it ends, also when the worker is
 * killed then. For a process that shares its buffers with no other yet: what it holds is printed
 * now. */
void crti_print_by_lines(void);

#endif
