/* SPDX-License-Identifier: Apache-2.0 */
/* Host: what this machine has, and whether one more process fits. Reads /proc and the control
 * group; nothing is kept. */
#ifndef CRTI_NODE_HOST_H
#define CRTI_NODE_HOST_H

#include "runtime/base/crt_base.h"

/* Processors that this process may use, in 1/10000. */
int64_t crti_host_cpus(void);

/* What is put before the paths from which memory is read: "", or CRT_TEST_HOST (tests play a host
 * with files below a directory of their own). */
const char *crti_host_root(void);

/* Bytes of memory: of the host or, when smaller, of a control group. */
uint64_t crti_host_memory(void);
/* ... of it that are free to be used now. */
uint64_t crti_host_available(void);

/* CRT_ERR_BACKPRESSURE naming the limit (processes, open files, memory) when one more worker
 * does not fit. `open_files`: about how many this process has. The host is looked at again when it
 * is later than `*fresh_ns`, which is set then: the files behind it take longer than a fork. */
crt_status_t crti_host_check(size_t open_files, uint64_t now_ns, uint64_t *fresh_ns);

/* The soft limit of open files is raised to the hard one. */
void crti_host_raise_limits(void);

#endif
