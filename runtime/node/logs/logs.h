/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of logs: parts of log files, and the wait for more.
 *
 * Where it sits
 *     LOG_READ of the head, or of a local connection -> [ node/logs/logs.c ] -> LOG_DATA
 * Names
 *     "job:HEX32", from the head alone, who knows submission ids; "node:HEX" (8 to 32 digits) is
 *     node.log, "head:PORT" and "http:PORT" are those of a head on this host; 8 to 32 hex digits of
 *     a worker's id; 32 of an actor's. What is not here is asked of the head when a local
 *     connection asks.
 */
#ifndef CRTI_NODE_LOGS_H
#define CRTI_NODE_LOGS_H

#include "runtime/node/types.h"

/* The log of a submitted job, and whether it has ended. CRT_ERR_NOT_FOUND. */
typedef crt_status_t crti_job_log_t(crti_node_t *node, const char *name, char *path,
                                    size_t size, bool *ended_out);

void crti_logs_init(crti_node_t *node, crti_job_log_t *find_job_log);
void crti_logs_read(crti_node_t *node, uint64_t local, uint64_t request,
                    const crti_msg_log_read_t *read);
/* False: another node may have it. */
bool crti_logs_are_here(crti_node_t *node, crti_span_t name);
/* Something was written to the log at `path`. */
void crti_logs_grown(crti_node_t *node, const char *path);
/* A process ended. */
void crti_logs_wake(crti_node_t *node);
void crti_logs_local_closed(crti_node_t *node, uint64_t local);
void crti_logs_free(crti_node_t *node);

#endif
