/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of logs/, which its own files see. */
#ifndef CRTI_NODE_LOGS_INT_H
#define CRTI_NODE_LOGS_INT_H

#include "runtime/node/logs/logs.h"
#include "runtime/node/process/context.h"

struct crti_logs {
    crti_job_log_t *find_job_log;
    crti_list_t readers;
    size_t reader_count;
};

#endif
