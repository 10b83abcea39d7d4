/* SPDX-License-Identifier: Apache-2.0 */
/* What progress.c (the token) and progress_thread.c (the thread that has it when no other waits)
 * know of each other. See progress.h; the lock is held in each of these.
 */
#ifndef CRTI_NET_PROGRESS_INT_H
#define CRTI_NET_PROGRESS_INT_H

#include "runtime/net/progress.h"

/* ---------------------------------------------------------------- progress.c */

/* `at` absolute, 0 switches off. */
void crti_progress_set_timer(int fd, uint64_t at, uint64_t interval);
/* Of a timer or an event; waits for one that blocks. False: the descriptor is not what it was. The
 * lock need not be held. */
bool crti_progress_read_counter(int fd);
/* The descriptors are gone: see crti_progress_ops_t. Lock held. */
void crti_progress_break(crti_progress_t *p);
/* The holder of the token receives once, sleeping for it if nothing is there. A signal handler, or
 * a stop of the process, ends the sleep early: whoever waits looks again, and sleeps on. */
void crti_progress_turn(crti_progress_t *p, crti_progress_waiter_t *me,
                        uint64_t deadline_ns);

/* ---------------------------------------------------------------- progress_thread.c */

/* The thread looks once per tick from now on. */
void crti_progress_begin_ticking(crti_progress_t *p);
/* By a waiter: what made the thread was short, so it need not wake to see that. */
void crti_progress_rest_early(crti_progress_t *p);
crt_status_t crti_progress_start_thread(crti_progress_t *p);
/* Where the thread is ABSENT. Without one the process is deaf while user code runs, and tries again
 * at the next call. */
void crti_progress_start_late(crti_progress_t *p);

#endif
