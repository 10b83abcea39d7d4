/* SPDX-License-Identifier: Apache-2.0 */
/* Core: entry from user threads, the timer, and the end of everything. See core.h.
 *
 * The pointer to the runtime, the count of threads inside and the mark of a forked child are the
 * library's only globals: crt.h has no handle of the runtime in its functions. */
#include "runtime/core/core.h"
#include "runtime/core/copy_query.h"
#include "runtime/core/missing.h"
#include "runtime/core/owner_requests.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"

static _Atomic(crti_core_t *) current;
static atomic_int inside;  /* threads between enter and leave */
static atomic_bool forked; /* this process is a child of one that had a runtime */
static _Thread_local crt_call_t *running;
static _Thread_local crt_status_t entry_status;

/* ------------------------------------------------------------------ entry */

bool crti_is_forked(void)
{
    return atomic_load_explicit(&forked, memory_order_relaxed);
}

/* With a copy of the link here the node would not hear of it when the parent closes its own, and with it
 * all others, as code does that makes a daemon of its process: whoever waits for that one would wait
 * for ever. The number may be another file's by now. */
static void close_link(const crti_core_t *core)
{
    int fd = core->link_inode ? crti_channel_fd(core->channel) : -1;
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) &&
        st.st_ino == core->link_inode)
        close(fd);
}

static void after_fork_in_child(void)
{
    const crti_core_t *core = atomic_load(&current);

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
        entry_status = crt_raise(CRT_ERR_FORKED, "crt was initialized before fork(): the "
                                                 "runtime belongs to the parent process");
        return NULL;
    }
    /* Pairs with crti_unpublish: it clears `current` first and then looks at `inside`. */
    atomic_fetch_add(&inside, 1);
    core = atomic_load(&current);
    if (core)
        return core;
    crti_leave_unlocked(NULL);
    entry_status =
        crt_raise(CRT_ERR_NOT_INITIALIZED, "crt_init was not called, or crt_shutdown "
                                           "was");
    return NULL;
}

void crti_leave_unlocked(crti_core_t *core)
{
    if (atomic_fetch_sub(&inside, 1) == 1 && !atomic_load(&current))
        syscall(SYS_futex, &inside, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
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

    atomic_fetch_add(&inside, 1);
    core = atomic_load(&current);
    if (core)
        crti_net_lock(core->net);
    else
        crti_leave_unlocked(NULL);
    return core;
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
    int count;

    crti_net_lock(core->net);
    core->is_closing = true;
    crti_net_wake(core->net);
    crti_net_unlock(core->net);
    atomic_store(&current, NULL);
    while ((count = atomic_load(&inside)) != 0)
        syscall(SYS_futex, &inside, FUTEX_WAIT_PRIVATE, count, NULL, NULL, 0);
}

crt_call_t *crti_running(void)
{
    return running;
}

void crti_set_running(crt_call_t *call)
{
    running = call;
}

/* ------------------------------------------------------------------ timer */

void crti_core_tick(crti_core_t *core, uint64_t now_ns)
{
    core->timer_ns = UINT64_MAX;
    crti_object_flush_frees(core);
    crti_tasks_tick(core, now_ns);
    crti_actor_tick(core, now_ns);
    crti_owner_requests_tick(core, now_ns);
    crti_missing_tick(core, now_ns);
    crti_value_retry_tick(core, now_ns);
    crti_result_waits_tick(core, now_ns);
}

static void on_timer(void *user, int fd, uint32_t events)
{
    uint64_t expirations;

    if (read(fd, &expirations, sizeof(expirations)) < 0 && errno != EAGAIN)
        crti_log(CRTI_LOG_WARN, "core", "timer: %s", strerror(errno));
    crti_core_tick(user, crti_now_ns());
}

static crt_status_t make_timer(crti_core_t *core)
{
    crt_status_t status;

    core->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (core->timer_fd < 0)
        return crt_raise(CRT_ERR_IO, "timerfd_create: %s", strerror(errno));
    status = crti_net_add_fd(core->net, core->timer_fd, EPOLLIN, on_timer, core);
    if (status != CRT_OK) {
        close(core->timer_fd);
        core->timer_fd = -1;
    }
    return status;
}

void crti_core_wake_at(crti_core_t *core, uint64_t at_ns)
{
    struct itimerspec spec = {
        .it_value = {(time_t)(at_ns / CRTI_S), (long)(at_ns % CRTI_S)}};

    if (at_ns >= core->timer_ns)
        return;
    if (core->timer_fd < 0 && make_timer(core) != CRT_OK) {
        crti_log(CRTI_LOG_WARN, "core", "%s", crt_error_detail());
        return; /* the next wish tries again */
    }
    core->timer_ns = at_ns;
    timerfd_settime(core->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* ------------------------------------------------------------------ the end of the node */

crt_status_t crti_core_check(crti_core_t *core)
{
    if (core->is_closing)
        return crt_raise(CRT_ERR_CLOSED, "crt_shutdown was called");
    if (core->broken != CRT_OK)
        return crt_raise(core->broken, "%s", core->broken_text ? core->broken_text : "");
    return CRT_OK;
}

static void fail_requests(crti_core_t *core)
{
    crti_numbers_t requests = core->requests;
    size_t cursor = 0;
    struct request {
        crti_answer_handler_t *on_answer;
        void *user;
    } * request;

    core->requests = (crti_numbers_t){.slots = NULL};
    while ((request = crti_numbers_next(&requests, &cursor))) {
        request->on_answer(request->user, NULL);
        free(request);
    }
    crti_numbers_fini(&requests);
}

/* Failing a ref changes the tables, so the refs are gathered first, each held. */
static size_t gather_refs(crti_core_t *core, crt_ref_t ***refs_out)
{
    size_t room = core->owned.count + core->borrowed.count, count = 0, cursor = 0;
    crt_ref_t **refs = malloc((room + 1) * sizeof(*refs)), *ref;
    void *value;

    *refs_out = refs;
    if (!refs)
        return 0;
    while ((ref = crti_numbers_next(&core->owned, &cursor)))
        refs[count++] = ref;
    cursor = 0;
    while (crti_map_next(&core->borrowed, &cursor, NULL, &value))
        refs[count++] = value;
    for (size_t i = 0; i < count; i++)
        crti_ref_hold(refs[i]);
    return count;
}

void crti_core_break(crti_core_t *core, crt_status_t status, const char *text)
{
    crt_ref_t **refs;
    size_t count;

    if (core->broken != CRT_OK)
        return;
    core->broken = status;
    core->broken_text = strdup(text);
    fail_requests(core);
    crti_missing_end(core);
    crti_copy_query_end(core);
    crti_value_retry_end(core, status, text);
    crti_actors_end(core, status, text);
    crti_tasks_end(core);
    count = gather_refs(core, &refs);
    for (size_t i = 0; i < count; i++) {
        crt_status_t raised = crt_raise(status, "%s", text);

        if (refs[i]->call)
            crti_pending_fail(refs[i]->call, status, text, true);
        else if (refs[i]->content == CRTI_CONTENT_NONE)
            crti_ref_fail(refs[i], raised);
        crti_ref_release(refs[i]);
    }
    free(refs);
    if (core->net) /* it may be told while it attaches */
        crti_net_wake(core->net);
}
