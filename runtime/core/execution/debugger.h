/* SPDX-License-Identifier: Apache-2.0 */
/* Debugger: a worker that waits for one before its first call of what CRT_DEBUG_WORKER names.
 *
 * Where it sits
 *     execute.c (the first call, create) -> [ core/execution/debugger.c ] -> stderr, and by that
 *     the driver
 */
#ifndef CRTI_CORE_DEBUGGER_H
#define CRTI_CORE_DEBUGGER_H

#include "runtime/core/types.h"

/* True in a worker whose environment names a class or a task. */
bool crti_debugger_is_wanted(void);
/* Waits when `name` is that one, until a debugger is attached or SIGCONT comes; the lock is given
 * up meanwhile. True: it need not be asked again. */
bool crti_debugger_await(crti_core_t *core, const char *name);

#endif
