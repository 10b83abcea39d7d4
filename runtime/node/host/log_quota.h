/* SPDX-License-Identifier: Apache-2.0 */
/* Log quota: how much output is kept, per file and of all processes that ended.
 *
 * Where it sits
 *     output.c (a file grows) -> crti_log_trim; spawn.c, zygote.c (a process ended) ->
 *     crti_log_quota_ended; logs.c (a reader) -> crti_log_find
 * Rules
 *     A file beyond its limit loses its older half, cut at the end of a line. Its first line then
 *     says how many bytes of output were removed, in all: so a reader's offset, which counts
 *     from the first byte ever printed, finds its place in any file, also after the process
 *     and this daemon have ended.
 *     Of the logs of ended processes the oldest go when all are more than `total` bytes, or more
 *     than CRTI_LOG_FILES files.
 * Threads: the loop's. Half a limit is copied at once.
 * Failure: a half that can't be copied, because the disk is full, is removed too.
 */
#ifndef CRTI_NODE_LOG_QUOTA_H
#define CRTI_NODE_LOG_QUOTA_H

#include "runtime/base/list.h"
#include "runtime/node/host/output.h"

#define CRTI_LOG_FILES  10000
#define CRTI_LOG_MARKER 128 /* bytes of the longest marker line */

typedef struct crti_log_quota {
    uint64_t total, used;
    size_t files;
    crti_list_t ended; /* oldest first */
} crti_log_quota_t;

void crti_log_quota_init(crti_log_quota_t *quota, uint64_t total);
void crti_log_quota_fini(crti_log_quota_t *quota);
/* The process that printed it ended: the file is closed, and counted until it is removed. */
void crti_log_quota_ended(crti_log_quota_t *quota, crti_log_file_t *file);

/* Removes the older half. */
void crti_log_trim(crti_log_file_t *file);

/* Where a log's output lies in its file. */
typedef struct crti_log_place {
    uint64_t removed; /* bytes of output that the quota took */
    size_t marker;    /* bytes of the line that says so, 0 without one */
} crti_log_place_t;

crti_log_place_t crti_log_find(int fd);

#endif
