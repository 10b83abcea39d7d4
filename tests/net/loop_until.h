/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a loop until a condition is true. */
#ifndef CRT_TESTS_LOOP_UNTIL_H
#define CRT_TESTS_LOOP_UNTIL_H

#include "runtime/base/clock.h"
#include "runtime/net/loop.h"

/* CRT_ERR_TIMED_OUT when `done(user)` is still false at `deadline_ns`. */
static inline crt_status_t loop_until(crti_loop_t *loop, bool (*done)(void *user),
                                      void *user, uint64_t deadline_ns)
{
    while (!done(user)) {
        crt_status_t status;

        if (crti_now_ns() >= deadline_ns)
            return crt_raise(CRT_ERR_TIMED_OUT, "what was waited for did not happen");
        status = crti_loop_turn(loop, deadline_ns);
        if (status != CRT_OK)
            return status;
    }
    return CRT_OK;
}

#endif
