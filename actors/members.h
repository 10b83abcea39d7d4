/* SPDX-License-Identifier: Apache-2.0 */
/* Members: what is said of those that do not come. */
#ifndef CRTI_ACTORS_MEMBERS_H
#define CRTI_ACTORS_MEMBERS_H

#include <crt_actors.h>

/* CRT_ERR_TIMED_OUT: `what` was not there within `limit_ms`; what each member needs, what of it is
 * free in the cluster, and which actors hold the GPUs. */
crt_status_t crti_members_missing(const char *what, double cpus, double gpus,
                                  int64_t limit_ms);

#endif
