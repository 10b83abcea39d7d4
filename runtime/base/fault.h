/* SPDX-License-Identifier: Apache-2.0 */
/* Faults planted on purpose, to prove that tests/sim finds such things. They exist only in
 * builds for that (meson -Dfaults=true, or the files that tests/sim compiles with
 * CRT_SIM_FAULTS); everywhere else CRTI_FAULT is the constant false.
 *
 * Which one is active is chosen at run time by CRT_FAULT in the environment:
 *     1  session: a frame that comes again after a reconnect is delivered again
 *     2  ownership: a borrower's RELEASE also takes back what was registered for it meanwhile
 *     3  actor table: an actor is started again under its old incarnation
 *     4  session: an acknowledgement of some frames counts for all that were handed over
 *     5  session: a HELLO that was meant for another process is taken
 *     6  store: the first copy of a result is not pinned for its owner
 *     7  actor table: a fenced actor, and its name, are placed again at once
 *     8  ownership: no process waits for news of a copy when the last known one is gone
 *     9  spilled files: bytes that are not those that were written are given to readers
 *     10 spilled files: the room of an object is given back with that of another one beside it
 *     11 spilled files: what could not be settled counts as written
 */
#ifndef CRTI_BASE_FAULT_H
#define CRTI_BASE_FAULT_H

#include <stdbool.h>

#include "crt_config.h"

#if CRT_FAULTS || defined(CRT_SIM_FAULTS)

#    include <stdlib.h>

static inline bool crti_fault_is(int number)
{
    static int chosen = -1;

    if (chosen < 0) {
        const char *text = getenv("CRT_FAULT");

        chosen = text ? atoi(text) : 0;
    }
    return chosen == number;
}

#    define CRTI_FAULT(number) crti_fault_is(number)
#else
#    define CRTI_FAULT(number) false
#endif

#endif
