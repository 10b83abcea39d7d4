/* SPDX-License-Identifier: Apache-2.0 */
/* The quota of a job: its weight, its cap and the copies of its values, by options of the driver or
 * variables that its submission sets.
 *
 * Where it sits
 *     client.c (a driver joins) -> [ job_quota.c ] -> environment in ATTACH -> node/jobs/job.c
 */
#ifndef CRTI_CORE_CLIENT_JOB_QUOTA_H
#define CRTI_CORE_CLIENT_JOB_QUOTA_H

#include "runtime/base/buffer.h"
#include "runtime/crt.h"

/* Adds what `options` say to the list of variables that nodes are told, where the process has none
 * that say so: these win. CRT_ERR_INVALID names what is wrong with either. */
crt_status_t crti_job_quota_pack(const crt_options_t *options,
                                 crti_buffer_t *environment);

/* How many copies values of the job have that say nothing of it, as this process sees it, a driver
 * or a worker. 0: one; it may be any number before crti_job_quota_pack has checked it. */
int64_t crti_job_copies(const crt_options_t *options);

#endif
