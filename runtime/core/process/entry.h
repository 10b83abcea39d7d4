/* SPDX-License-Identifier: Apache-2.0 */
/* Entry: threads of the program get into the runtime, and leave it.
 *
 * Where it sits
 *     functions of crt.h -> [ entry.c ] -> the runtime of this process, its lock
 * Threads
 *     Any.
 * Invariants
 *     A runtime that a thread is inside of is not freed.
 */
#ifndef CRTI_CORE_PROCESS_ENTRY_H
#define CRTI_CORE_PROCESS_ENTRY_H

#include "runtime/core/process/blocking.h"
#include "runtime/core/types.h"

/* Why a function of crt.h is refused, in words that several of them use. */
#define CRTI_SHUT_DOWN       "crt_shutdown was called"
#define CRTI_NOT_INITIALIZED "crt_init was not called, or crt_shutdown was"
#define CRTI_FORKED          "crt was initialized before fork()"
#define CRTI_BEFORE_SHUTDOWN "of before crt_shutdown"

/* The process's runtime with its lock taken; NULL with CRT_ERR_NOT_INITIALIZED or
 * CRT_ERR_FORKED raised. */
crti_core_t *crti_enter(void);
/* The same without an error: for what may be done after a shutdown, too, and waits for one that
 * goes on until it is settled what refs and handles are. Not in a forked child. */
crti_core_t *crti_enter_quiet(void);
/* The same without taking the lock: it can't be shut down until crti_leave_unlocked. */
crti_core_t *crti_enter_unlocked(void);
void crti_leave(crti_core_t *core);
void crti_leave_unlocked(crti_core_t *core);
crt_status_t crti_entry_status(void); /* why crti_enter gave NULL */

/* Publishes the runtime to crti_enter, or takes it away: then waits until nobody is inside.
 * False: there is one already. */
bool crti_publish(crti_core_t *core);
void crti_unpublish(crti_core_t *core);
/* By who has taken it away: refs and handles are those of before a shutdown now. */
void crti_left(void);
bool crti_is_forked(void);

/* A copy; the caller wipes the key. CRT_ERR_NOT_INITIALIZED, CRT_ERR_FORKED. */
crt_status_t crti_core_stream_place(crti_stream_place_t *place_out);

/* The call that this thread runs; NULL in a driver and in threads that a program made. */
crt_call_t *crti_running(void);
/* `serial`: by which the calls that it makes know it; 0 with NULL. */
void crti_set_running(crt_call_t *call, uint64_t serial);
uint64_t crti_running_serial(void);
/* Its waits; NULL in a thread that runs no call. */
void crti_thread_set_blocking(crti_blocking_t *mine);
crti_blocking_t *crti_thread_blocking(void);

/* CRT_OK, or why nothing can be asked any more. */
crt_status_t crti_core_check(crti_core_t *core);

#endif
