/* SPDX-License-Identifier: Apache-2.0 */
/* Warm: what a zygote does once, so that the thousands of workers that it forks need not.
 *
 * Where it sits
 *     zygote.c, before READY -> [ core/warm.c ]
 * Threads
 *     One; one more comes and has gone when it returns.
 * Failure
 *     None: where the kernel does not let us, a worker takes a little longer.
 */
#ifndef CRTI_CORE_WARM_H
#define CRTI_CORE_WARM_H

void crti_warm_up(void);

#endif
