/* SPDX-License-Identifier: Apache-2.0 */
/* Entry to the library, with its globals within reach: each simulated process has its own. */
#include "runtime/core/process/entry.c"

#include <stdlib.h>

#include "runtime/core/process/printed.h"
#include "tests/sim/system.h"

typedef struct globals {
    crti_core_t *current;
    unsigned inside;
    bool forked;
    crt_call_t *running;
    uint64_t running_serial;
    crti_blocking_t *blocking;
    crt_status_t entry_status;
} globals_t;

void *sys_globals_new(void)
{
    globals_t *g = calloc(1, sizeof(*g));

    if (!g)
        abort();
    return g;
}

void sys_globals_switch(void *from, const void *to, bool is_main_thread)
{
    static const globals_t nobody;
    static bool keeps_running;
    const globals_t *g = to ? to : &nobody;
    globals_t *old = from;

    if (old) {
        old->current = atomic_load(&current);
        old->inside = atomic_load(&crti_thread_inside.depth);
        old->forked = atomic_load(&forked);
        old->entry_status = entry_status;
        if (keeps_running) {
            old->running = running;
            old->running_serial = running_serial;
            old->blocking = blocking;
        }
    }
    atomic_store(&current, g->current);
    atomic_store(&crti_thread_inside.depth, g->inside);
    atomic_store(&forked, g->forked);
    entry_status = g->entry_status;
    /* A handler that runs while user code does is the progress thread's. */
    running = is_main_thread ? g->running : NULL;
    running_serial = is_main_thread ? g->running_serial : 0;
    blocking = is_main_thread ? g->blocking : NULL;
    keeps_running = is_main_thread;
}

uint64_t sys_actor_incarnation(void)
{
    return atomic_load(&current)->actor_incarnation;
}

/* What this program prints is not a worker's. */
void crti_printed_count(void)
{
}

void crti_printed_flush(crti_core_t *core)
{
}

void crti_printed_show(crti_core_t *core)
{
}

bool crti_printed_are_shown(const crti_core_t *core)
{
    return true;
}

void crti_printed_came(crti_printed_t *printed)
{
}
