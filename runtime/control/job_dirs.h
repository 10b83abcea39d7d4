/* SPDX-License-Identifier: Apache-2.0 */
/* Job directories: STATE/head-PORT/jobs/JOB-ID (driver.log, cwd/) of submitted jobs go with the
 * record of their job.
 *
 * Where it sits
 *     control.c (a record is forgotten), head.c (its tables are read) -> [ control/job_dirs.c ]
 *     node/jobs/submission.c makes them, after the record is on disk.
 * Threads: the loop's. What a job left behind may be large: a directory is renamed to .gone-JOB-ID
 *     at once, and a thread of its own removes it.
 * Failure: what a head that ends did not remove the next one does.
 */
#ifndef CRTI_CONTROL_JOB_DIRS_H
#define CRTI_CONTROL_JOB_DIRS_H

#include "runtime/control/control.h"

void crti_job_dirs_remove(const char *state_dir, crti_id_t job);

/* Removes those of jobs of which there is no record. Other names are left alone. */
void crti_job_dirs_sweep(const char *state_dir, const crti_control_t *control);

#endif
