/* SPDX-License-Identifier: Apache-2.0 */
/* Interrupt: a signal handler of the program ends the waits of its threads.
 *
 * Where it sits
 *     crt_interrupt (in a signal handler) -> a count, an event -> net -> [ interrupt.c ] ->
 *     blocking.c
 * Threads
 *     crt_interrupt runs at any instruction of any thread: it touches nothing but a count and a
 *     descriptor that are there until the process ends.
 * Invariants
 *     The count goes up before the event is written, and a wait looks at the count after the event
 *     is being watched: none is missed in between.
 */
#ifndef CRTI_CORE_PROCESS_INTERRUPT_H
#define CRTI_CORE_PROCESS_INTERRUPT_H

#include <stdint.h>

#include "runtime/core/types.h"

/* How often crt_interrupt was called; how many of these this thread was told of; it is told of all
 * now. */
uint64_t crti_interrupts(void);
uint64_t crti_interrupts_told(void);
void crti_interrupts_tell(void);

/* From now on the waits of this runtime look at the count when it changes. Without a descriptor for
 * it they do so when a signal handler ran in their own thread. Lock held. */
void crti_interrupts_watch(crti_core_t *core);

#endif
