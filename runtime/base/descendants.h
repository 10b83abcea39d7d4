/* SPDX-License-Identifier: Apache-2.0 */
/* Descendants: all that a process started, and what those started, ended together.
 *
 * Why it finds all
 *     A child may leave the process group and the session, empty its environment, and its parent
 *     may end. But the kernel gives whoever lost its parent to the nearest ancestor that asked for
 *     such. So all that live below the caller are its own, and who has no child left has nobody
 *     left: there is no moment at which one gets away.
 * Threads: of a process with one thread; nothing but system calls, no memory is taken.
 * Failure: what does not end within CRTI_DESCENDANTS_NS of being killed is left (a process in the
 * kernel's hands).
 */
#ifndef CRTI_BASE_DESCENDANTS_H
#define CRTI_BASE_DESCENDANTS_H

#include <sys/types.h>

#include "runtime/base/clock.h"

#define CRTI_DESCENDANTS_NS (5 * CRTI_S)

/* From now on orphans below this process are its children. */
void crti_descendants_keep(void);
/* Kills and reaps until there is nobody. `status` is that of the child `noted`, untouched when it
 * is not among them. */
void crti_descendants_end(pid_t noted, int *status);

#endif
