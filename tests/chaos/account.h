/* SPDX-License-Identifier: Apache-2.0 */
/* Account: the actor and the tasks of the chaos workload. Every call carries its name (origin and
 * number), which is written down when it begins to run.
 */
#ifndef CHAOS_ACCOUNT_H
#define CHAOS_ACCOUNT_H

#include <crt.h>

extern const crt_actor_class_t account_class;
extern const crt_method_t account_add; /* int origin, int number, int value -> the sum */
extern const crt_method_t
    account_pass; /* the same, and an account that is added to instead */
extern const crt_method_t
    account_fill; /* origin, number, count -> tensor of `count` int64 */
extern const crt_method_t account_total; /* origin, number, tensor -> its sum */
extern const crt_method_t account_keep; /* origin, number, ref: held until the next one */
extern const crt_method_t
    account_recall; /* origin, number -> the sum of what is held, 0 none */
extern const crt_method_t account_litter; /* leaves a process in a session of its own */

extern const crt_task_t task_triple; /* origin, number, value -> 3 * value + 1 */
extern const crt_task_t task_fill;   /* as account_fill */
extern const crt_task_t task_total;  /* as account_total */
extern const crt_task_t
    task_nest; /* origin, number, depth -> depth, through tasks of tasks */

/* The tensor that `fill` of that number makes: its number, then values that add up to the sum. */
void account_fill_in(uint64_t number, int64_t count, int64_t *to);
int64_t account_sum_of(uint64_t number, int64_t count);
/* Adds up; false: it is not one of those, or not whole. */
bool account_sum(const crt_tensor_t *tensor, int64_t *sum_out);

/* crt_get_for with that patience; goes on when a signal interrupts, as SIGCONT does. */
crt_status_t account_get(crt_ref_t *ref, crt_out_t out);

/* Waits at most for a call to end; longer is a hang, whatever happens to the cluster. */
#define CHAOS_PATIENCE_MS 90000

#endif
