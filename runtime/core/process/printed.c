/* SPDX-License-Identifier: Apache-2.0 */
/* Printed: see printed.h. */
#include "runtime/core/process/printed.h"

#include <stdio.h>
#include <stdio_ext.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/node_link.h"

void crti_printed_count(void)
{
    stdout->_offset = 0;
    stderr->_offset = 0;
}

/* Since it was asked last. An fflush, also one of the program, makes the count negative. */
static bool has_printed(void)
{
    bool has;

    if (__fpending(stdout))
        fflush(stdout);
    has = stdout->_offset != 0 || stderr->_offset != 0;
    crti_printed_count();
    return has;
}

static void on_flushed(void *user, const crti_message_t *answer)
{
    crti_printed_t *printed = ((crti_core_t *)user)->printed;

    printed->is_flushing = false;
    printed->log_end = answer && answer->kind == CRTI_MSG_LOG_DATA
                           ? answer->log_data.next
                           : CRTI_TASK_LOG_UNKNOWN;
}

static bool is_flushed(void *user)
{
    return !((crti_core_t *)user)->printed->is_flushing;
}

void crti_printed_flush(crti_core_t *core)
{
    static const crti_msg_log_flush_t body;

    if (!has_printed() || !core->link->channel)
        return;
    /* Another thread's: what this one has printed may be behind it. */
    if (core->printed->is_flushing)
        crti_net_wait(core->net, is_flushed, core,
                      crti_now_ns() + CRTI_LIMIT(print_timeout));
    core->printed->is_flushing = true;
    if (crti_node_request(core, CRTI_MSG_LOG_FLUSH, &body, on_flushed, core) != CRT_OK)
        on_flushed(core, NULL);
    crti_net_wait(core->net, is_flushed, core, crti_now_ns() + CRTI_LIMIT(print_timeout));
    if (core->printed->is_flushing)
        core->printed->log_end = CRTI_TASK_LOG_UNKNOWN;
}

/* ---------------------------------------------------------------- the driver */

bool crti_printed_are_shown(const crti_core_t *core)
{
    return core->is_worker || !core->board ||
           atomic_load_explicit(&core->printed->logs, memory_order_relaxed) >=
               atomic_load_explicit(&core->board->logs, memory_order_acquire);
}

static bool is_shown(void *user)
{
    const crti_core_t *core = user;

    return core->broken != CRT_OK || crti_printed_are_shown(core);
}

void crti_printed_show(crti_core_t *core)
{
    if (is_shown(core))
        return;
    if (crti_net_wait(core->net, is_shown, core,
                      crti_now_ns() + CRTI_LIMIT(print_timeout)) == CRT_ERR_TIMED_OUT)
        core->printed->logs =
            atomic_load_explicit(&core->board->logs, memory_order_acquire);
}

void crti_printed_came(crti_printed_t *printed)
{
    printed->logs++;
}
