/* SPDX-License-Identifier: Apache-2.0 */
/* Entry: how threads of the user get into the runtime, and how it is taken away while some are
 * inside. See context.h.
 *
 * The pointer to the runtime, the list of threads inside (threads_inside.c) and the mark of a
 * forked child are the library's only globals: crt.h has no handle of the runtime in its
 * functions. */
#include "runtime/core/process/entry.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/thread_local.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/threads_inside.h"

static _Atomic(crti_core_t *) current;
/* 1 from crti_unpublish to crti_left: refs and handles are in between */
static atomic_int leaving;
static atomic_bool forked; /* this process is a child of one that had a runtime */
static CRTI_THREAD_LOCAL crt_call_t *running;
static CRTI_THREAD_LOCAL uint64_t running_serial;
static CRTI_THREAD_LOCAL crti_blocking_t *blocking;
static CRTI_THREAD_LOCAL crt_status_t entry_status;
static CRTI_THREAD_LOCAL bool is_leaver;

bool crti_is_forked(void)
{
    return atomic_load_explicit(&forked, memory_order_relaxed);
}

/* With a copy of the link here the node would not hear of it when the parent closes its own, and
 * with it all others, as code does that makes a daemon of its process: whoever waits for that one
 * would wait for ever. The number may be another file's by now. */
static void close_link(const crti_core_t *core)
{
    int fd = core->link->inode ? crti_channel_fd(core->link->channel) : -1;
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) &&
        st.st_ino == core->link->inode)
        close(fd);
}

static void after_fork_in_child(void)
{
    const crti_core_t *core = atomic_load(&current);

    crti_inside_forked();
    if (!core)
        return;
    atomic_store(&forked, true);
    close_link(core);
}

static void register_fork_handler(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

crti_core_t *crti_enter_unlocked(void)
{
    crti_core_t *core;

    if (crti_is_forked()) {
        entry_status = crt_raise(CRT_ERR_FORKED, CRTI_FORKED
                                 ": the runtime belongs to the parent process");
        return NULL;
    }
    /* Pairs with crti_unpublish: it clears `current` first and then looks who is inside. */
    crti_inside_enter();
    core = atomic_load_explicit(&current, memory_order_acquire);
    if (core)
        return core;
    crti_leave_unlocked(NULL);
    entry_status = crt_raise(CRT_ERR_NOT_INITIALIZED, "%s", CRTI_NOT_INITIALIZED);
    return NULL;
}

void crti_leave_unlocked(crti_core_t *core)
{
    crti_inside_leave();
    if (!atomic_load_explicit(&current, memory_order_relaxed))
        crti_inside_wake();
}

crti_core_t *crti_enter(void)
{
    crti_core_t *core = crti_enter_unlocked();

    if (core)
        crti_net_lock(core->net);
    return core;
}

crti_core_t *crti_enter_quiet(void)
{
    crti_core_t *core;

    crti_inside_enter();
    core = atomic_load_explicit(&current, memory_order_acquire);
    if (core) {
        crti_net_lock(core->net);
        return core;
    }
    crti_leave_unlocked(NULL);
    while (atomic_load(&leaving) && !is_leaver)
        syscall(SYS_futex, &leaving, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
    return NULL;
}

void crti_leave(crti_core_t *core)
{
    crti_net_unlock(core->net);
    crti_leave_unlocked(core);
}

crt_status_t crti_core_stream_place(crti_stream_place_t *place_out)
{
    crti_core_t *core = crti_enter_unlocked();

    if (!core)
        return crti_entry_status();
    *place_out = core->streams;
    crti_leave_unlocked(core);
    return CRT_OK;
}

crt_status_t crti_entry_status(void)
{
    return entry_status;
}

bool crti_publish(crti_core_t *core)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    crti_core_t *none = NULL;

    pthread_once(&once, register_fork_handler);
    return atomic_compare_exchange_strong(&current, &none, core);
}

void crti_unpublish(crti_core_t *core)
{
    crti_net_lock(core->net);
    core->is_closing = true;
    crti_net_wake(core->net);
    crti_net_unlock(core->net);
    is_leaver = true;
    atomic_store(&leaving, 1);
    atomic_store(&current, NULL);
    crti_inside_wait();
}

void crti_left(void)
{
    atomic_store(&leaving, 0);
    is_leaver = false;
    syscall(SYS_futex, &leaving, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

crt_call_t *crti_running(void)
{
    return running;
}

uint64_t crti_running_serial(void)
{
    return running_serial;
}

void crti_set_running(crt_call_t *call, uint64_t serial)
{
    running = call;
    running_serial = serial;
}

void crti_thread_set_blocking(crti_blocking_t *mine)
{
    blocking = mine;
}

crti_blocking_t *crti_thread_blocking(void)
{
    return blocking;
}

crt_status_t crti_core_check(crti_core_t *core)
{
    if (core->is_closing)
        return crt_raise(CRT_ERR_CLOSED, "%s", CRTI_SHUT_DOWN);
    if (core->broken != CRT_OK)
        return crt_raise(core->broken, "%s", core->broken_text ? core->broken_text : "");
    return CRT_OK;
}
