/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: the content cache STATE/programs/SHA256 has a quota.
 *
 * Where it sits
 *     http/upload.c (uploads), node/program.c (fetches from other nodes) -> [ base/programs.c ]
 *     node/jobs/submission.c, node/program.c hold what they execute
 * Rules
 *     Beyond the quota the least recently used go, but none that a process holds (a shared lock,
 *     which ends with the process), and none that was used within PIN_S: a job is submitted some
 *     time after its program was uploaded, or found to be there. So the cache may be larger than
 *     its quota, by what is in use.
 * Threads: any.
 */
#ifndef CRTI_BASE_PROGRAMS_H
#define CRTI_BASE_PROGRAMS_H

#include <stdbool.h>
#include <stdint.h>

#define CRTI_PROGRAMS_PIN_S 600

/* The program that is open at `fd` stays in the cache as long as this descriptor is open. It counts
 * as used now. False: it is on its way out, as if it were not there. */
bool crti_programs_hold(int fd);

/* It counts as used now. */
void crti_programs_used(int fd);

/* Removes what is more than `limit` bytes. */
void crti_programs_trim(const char *directory, uint64_t limit);

#endif
