/* SPDX-License-Identifier: Apache-2.0 */
/* Backups: a task that runs much longer than others of its function is run a second time elsewhere,
 * and the first result counts (option backup_after).
 *
 * Where it sits
 *     pending.c (sent, taken out), outgoing.c (an answer, a loss) -> [ backup.c ]
 *     the timer -> [ second_run.c ] starts one -> slots.c -> submit.c
 * Threads
 *     The core's lock.
 * How
 *     The second attempt is a pending call of its own, with results of its own that nobody else
 *     holds. Which of the two has the program's results may change (they are swapped), so that all
 *     other modules see one call that goes on, and another one that ends and is of no use.
 * Invariants
 *     One of a pair has the program's results. A pair is parted before one of them ends.
 * Cost
 *     A call without the option: one comparison when it is sent, answered or ends.
 */
#ifndef CRTI_CORE_CALLS_BACKUP_H
#define CRTI_CORE_CALLS_BACKUP_H

#include "runtime/base/list.h"
#include "runtime/base/map.h"
#include "runtime/core/calls/calls.h"

#define CRTI_BACKUP_ENDED 3 /* of a function, before one of its tasks counts as slow */
#define CRTI_BACKUP_KNOWN                                                                \
    127 /* running times of a function that are known, the last ones */

/* How long tasks of one function that have the option ran. */
typedef struct crti_task_times {
    uint64_t took_ns[CRTI_BACKUP_KNOWN];
    unsigned count, next; /* of them; where the next one goes */
    uint64_t median_ns;   /* 0: not known since the last one came */
} crti_task_times_t;

/* Those of a process. */
typedef struct crti_backups {
    crti_map_t times;    /* function -> crti_task_times_t */
    crti_list_t watched; /* crti_backup_t.link: tasks that were sent */
} crti_backups_t;

/* Since when its worker runs it: the worker takes them in the order in which they were sent. 0: it
 * runs another one, as far as this process knows. And when one that runs since then counts as slow;
 * UINT64_MAX: not known yet. */
uint64_t crti_backup_running_since(const crti_pending_t *pending);
uint64_t crti_backup_slow_at(const crti_pending_t *pending, uint64_t since_ns);

#endif
