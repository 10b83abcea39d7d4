/* SPDX-License-Identifier: Apache-2.0 */
/* Stalls: ends a process that others wait for in the object store and that does not move.
 *
 * Where it sits
 *     timer -> [ node/process/stall.c ] -> store (who is waited for) -> SIGKILL -> death.c ->
 *     reclaim
 * How long
 *     Who waits complains after 50 ms. A process that is stopped is ended by the 4th look that sees
 *     it at the same step, any other (mad, or frozen) by the 12th: 0.45 and 0.85 s after it was
 *     stopped at most. A process that merely has no processor is not stopped, and moves between
 *     12 looks: the daemon looks no sooner than it has a processor itself.
 * Threads: the loop.
 */
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/rundir.h"
#include "runtime/node/process/process_int.h"

#define LOOK_NS       (200 * CRTI_MS)
#define LOOK_AGAIN_NS (50 * CRTI_MS)
#define STOPPED_LOOKS 4
#define STALLED_LOOKS 12

static bool is_stopped(pid_t pid)
{
    char text[1024];
    const char *state = crti_process_stat(pid, 3, text, sizeof(text));

    return state && (*state == 'T' || *state == 't');
}

static crti_process_t *process_in(crti_node_t *node, unsigned slot)
{
    CRTI_MAP_FOREACH (crti_process_t, p, &node->processes->by_id)
        if (p->slot == slot)
            return p;
    return NULL;
}

static void end_process(crti_process_t *p)
{
    crti_log(CRTI_LOG_WARN, "node", "pid %d holds the store up: it is ended",
             (int)p->pid);
    if (p->role == CRTI_ROLE_DRIVER) {
        kill(p->pid, SIGKILL);
        return;
    }
    crti_process_explain(p, "it held the object store up (stopped?) and was ended");
    crti_process_kill(p);
}

static void on_look(void *user)
{
    crti_node_t *node = user;
    unsigned slot = 0, looks = crti_store_stalled(node->store, &slot);
    crti_process_t *p = looks >= STOPPED_LOOKS ? process_in(node, slot) : NULL;

    if (p && !p->dying && (looks >= STALLED_LOOKS || is_stopped(p->pid)))
        end_process(p);
    crti_loop_start(node->loop, &node->processes->stall_timer,
                    crti_node_now(node) + (looks ? LOOK_AGAIN_NS : LOOK_NS));
}

crt_status_t crti_stall_start(crti_node_t *node)
{
    node->processes->stall_timer = (crti_timer_t){.on_expired = on_look, .user = node};
    return crti_loop_start(node->loop, &node->processes->stall_timer,
                           crti_node_now(node) + LOOK_NS);
}
