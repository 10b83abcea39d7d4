/* SPDX-License-Identifier: Apache-2.0 */
/* Results that wait for each other: a result may be another ref, and that one's value, by whatever
 * way, the first. Then none of them ever comes, though no process waits in a get (deadlock.c).
 *
 * Where it sits
 *     forward.c (a result is another ref) -> [ result_wait.c ] -> the owner of the ref
 *     outgoing.c (... and waits), a tick -> [ result_wait.c ] -> PROBE -> [ result_wait.c ] of
 *     others
 * Threads
 *     The core's lock.
 * How
 *     A ref waits for the one that its value is; that of a call that was not sent for its arguments
 *     and for the calls before it in the order of its actor; that of a call that was sent for the
 *     arguments which its worker does not have. What lies within this process is looked at when the
 *     result comes. When it has waited for 100 ms, and again at growing intervals, a probe goes
 *     along what it waits for from process to process (edge chasing, Chandy, Misra and Haas). One
 *     that comes back brings the way it went, and goes once more along just that. When it comes
 *     back again the result fails with CRT_ERR_DEADLOCK, and with it all that wait for it.
 * No cycle is found that is none
 *     Each step was there at both visits, and a wait that has ended never begins again: so it was
 *     there all the time between them, and at the moment between the two rounds all of them were.
 * Cost
 *     Nothing for results that are values, and for those that come within 100 ms. A cycle through
 *     more than CRTI_CHAIN_MAX processes is not found.
 */
#ifndef CRTI_CORE_RESULT_WAIT_H
#define CRTI_CORE_RESULT_WAIT_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/crt_base.h"
#include "runtime/base/list.h"
#include "runtime/core/values/numbers.h"

struct crti_client;
struct crti_core;
struct crti_function;
struct crt_ref;

#define CRTI_RESULT_WAIT_LEVELS 8 /* intervals: 100 ms, doubled each time, up to 12.8 s */

/* A part of crti_core_t. */
typedef struct crti_result_waits {
    crti_list_t due[CRTI_RESULT_WAIT_LEVELS]; /* those of an interval, the next first */
    crti_numbers_t of;                        /* number of our ref -> its wait */
    uint64_t *seen;                           /* probes of others; NULL: none yet */
} crti_result_waits_t;

void crti_result_waits_init(crti_result_waits_t *waits);
void crti_result_waits_fini(crti_result_waits_t *waits);
void crti_result_waits_tick(struct crti_core *core, uint64_t now_ns);

/* CRT_ERR_DEADLOCK when `target`, whose value shall be `ref`'s, waits for `ref` in this process. */
crt_status_t crti_check_result_wait(const struct crt_ref *ref, struct crt_ref *target);
/* `ref`, of a call to `function`, waits for the ref that is its value. Without memory it is not
 * probed. */
void crti_result_waits_for(struct crt_ref *ref, const struct crti_function *function);
/* PROBE. */
crt_status_t crti_probe_arrived(struct crti_client *client, const void *data,
                                size_t size);

#endif
