/* SPDX-License-Identifier: Apache-2.0 */
/* The timer of the runtime. Under the core's lock. */
#ifndef CRTI_CORE_PROCESS_TIMER_H
#define CRTI_CORE_PROCESS_TIMER_H

#include <stdint.h>

#include "runtime/core/types.h"

struct crti_core_timer {
    int fd;         /* -1: not made yet */
    uint64_t at_ns; /* when it fires; UINT64_MAX: not armed */
};

void crti_core_timer_init(crti_core_timer_t *timer);
void crti_core_timer_fini(crti_core_timer_t *timer);
/* core->on_tick is called at `at_ns` or before. */
void crti_core_wake_at(crti_core_t *core, uint64_t at_ns);
/* It is now: what the timer does. */
void crti_core_timer_fired(crti_core_t *core, uint64_t now_ns);

#endif
