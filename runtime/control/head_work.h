/* SPDX-License-Identifier: Apache-2.0 */
/* Work of the head that takes long and decides nothing: lists of thousands of rows are put together
 * by a thread of their own, so that nodes and askers of other things do not wait for them.
 *
 * Where it sits
 *     control_forward.c (actions.work) -> head.c -> [ head_work.c ] -> crti_control_worked, in the
 *     loop
 * Threads
 *     One, from the first work on. The rest is the loop's.
 * Ownership
 *     A work is the control's before it is added and after it has come back, which each does once.
 */
#ifndef CRTI_CONTROL_HEAD_WORK_H
#define CRTI_CONTROL_HEAD_WORK_H

#include "runtime/control/control.h"
#include "runtime/net/loop.h"

typedef struct crti_head_work crti_head_work_t;

/* What is done comes back to `*control`. Caller owns the result and frees it with
 * crti_head_work_free. */
crt_status_t crti_head_work_new(crti_loop_t *loop, crti_control_t *const *control,
                                crti_head_work_t **work_out);
/* Waits for what was added; it comes back in here. NULL is fine. */
void crti_head_work_free(crti_head_work_t *head_work);

/* False: there is no thread for it. */
bool crti_head_work_add(crti_head_work_t *head_work, crti_control_work_t *work);

#endif
