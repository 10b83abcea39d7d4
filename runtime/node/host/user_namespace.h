/* SPDX-License-Identifier: Apache-2.0 */
/* A user namespace in which this user is who he is, and may mount: for those that enter images.
 *
 * Where it sits
 *     node/jobs/image.c -> [ node/host/user_namespace.c ] -> crt-enter joins it
 * Idea
 *     One for all processes of a node: those of two could not open each other's memory, as members
 *     of a group on one host do (collective/memory.c).
 */
#ifndef CRTI_NODE_USER_NAMESPACE_H
#define CRTI_NODE_USER_NAMESPACE_H

#include "runtime/base/crt_base.h"

/* A descriptor of a new one, which lives as long as that is open somewhere. By a process that is
 * forked for it: the loop's thread calls, and waits some milliseconds. */
crt_status_t crti_user_namespace_new(int *fd_out);

#endif
