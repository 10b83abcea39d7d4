/* SPDX-License-Identifier: Apache-2.0 */
/* The node of a run directory, as crt_cluster_list has it. In cluster.c. */
#ifndef CRTI_CORE_CLUSTER_PLACE_H
#define CRTI_CORE_CLUSTER_PLACE_H

#include "runtime/crt.h"

/* CRT_ERR_NOT_FOUND: no node lives there. */
crt_status_t crti_cluster_place(const char *run_dir, crt_cluster_info_t *info_out);

#endif
