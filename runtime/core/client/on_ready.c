/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks of refs: a wait set of the library's own, and a thread that takes its events.
 *
 * Where it sits
 *     crt_ref_on_ready -> [ on_ready.c ] -> waitset.c;  client.c (shutdown) -> crti_callbacks_end
 * Threads
 *     The thread sleeps at the set's descriptor, not in crti_net_wait: there it would receive for
 *     the program's threads, and each of their calls would cost two switches more. User code runs
 *     without the lock.
 * Failure
 *     A shutdown lets the refs fail; their callbacks run when refs are those of before the
 *     shutdown, and the thread ends. A callback that waits then is told CRT_ERR_CLOSED.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/thread.h"
#include "runtime/base/thread_local.h"
#include "runtime/core/client/waitset.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/printed.h"

struct crti_callbacks {
    crt_waitset_t *set;
    pthread_t thread;
    int wake[2]; /* a pipe: its end is closed when the thread is to end */
};

typedef struct callback {
    crt_ref_callback_t *run;
    void *user;
} callback_t;

static CRTI_THREAD_LOCAL bool is_callback_thread;

bool crti_is_callback_thread(void)
{
    return is_callback_thread;
}

/* ------------------------------------------------------------------ the thread */

/* After a shutdown the set is this thread's alone. */
static bool take(const struct crti_callbacks *c, crt_event_t *event)
{
    crti_core_t *core = crti_enter_quiet();
    bool is_taken;

    crti_event_empty(core, event);
    is_taken = crti_waitset_take(c->set, event);
    if (is_taken && core)
        crti_printed_show(core);
    if (core)
        crti_leave(core);
    return is_taken;
}

static void run_ready(const struct crti_callbacks *c)
{
    crt_event_t event = CRT_EVENT_INIT;

    while (take(c, &event)) {
        callback_t *callback = event.user;

        callback->run(event.ref, callback->user);
        free(callback);
    }
}

static void *serve(void *user)
{
    const struct crti_callbacks *c = user;
    struct pollfd fds[2] = {{.fd = c->set->fd, .events = POLLIN},
                            {.fd = c->wake[0], .events = POLLIN}};

    is_callback_thread = true;
    while (fds[1].revents == 0) {
        (void)poll(fds, 2, -1);
        run_ready(c);
    }
    return NULL;
}

/* ------------------------------------------------------------------ its start and end */

static void free_callbacks(struct crti_callbacks *c)
{
    for (int i = 0; i < 2; i++)
        if (c->wake[i] >= 0)
            close(c->wake[i]);
    if (c->set)
        crti_waitset_release(c->set);
    free(c);
}

static crt_status_t start(crti_core_t *core)
{
    struct crti_callbacks *c = calloc(1, sizeof(*c));
    crt_status_t status;
    int error;

    if (!c)
        return crt_raise(CRT_ERR_NO_MEMORY, "callbacks of refs");
    c->wake[0] = c->wake[1] = -1;
    c->set = crti_waitset_new(core);
    status = c->set ? crti_waitset_open_fd(c->set) : CRT_ERR_NO_MEMORY;
    if (status == CRT_OK && pipe2(c->wake, O_CLOEXEC) != 0)
        status =
            crt_raise(CRT_ERR_IO, "a pipe for callbacks of refs: %s", strerror(errno));
    if (status == CRT_OK && (error = crti_thread_start(&c->thread, NULL, serve, c)) != 0)
        status =
            crt_raise(CRT_ERR_IO, "a thread for callbacks of refs: %s", strerror(error));
    if (status != CRT_OK) {
        free_callbacks(c);
        return status;
    }
    core->waits->callbacks = c;
    core->waits->callback_set = c->set;
    return CRT_OK;
}

void crti_callbacks_end(struct crti_callbacks *c)
{
    if (!c)
        return;
    close(c->wake[1]);
    c->wake[1] = -1;
    pthread_join(c->thread, NULL);
    free_callbacks(c);
}

/* ------------------------------------------------------------------ crt_wait.h */

static crt_status_t add(crti_core_t *core, crt_ref_t *ref, crt_ref_callback_t *run,
                        void *user)
{
    callback_t *callback = malloc(sizeof(*callback));
    crt_status_t status = core->waits->callbacks ? CRT_OK : start(core);

    if (!callback && status == CRT_OK)
        status = crt_raise(CRT_ERR_NO_MEMORY, "a callback of a ref");
    if (status == CRT_OK) {
        *callback = (callback_t){run, user};
        status = crti_waitset_add_ref(core->waits->callbacks->set, ref, callback);
    }
    if (status != CRT_OK)
        free(callback);
    return status;
}

crt_status_t crt_ref_on_ready(crt_ref_t *ref, crt_ref_callback_t *callback, void *user)
{
    crti_core_t *core;
    crt_status_t status;

    if (!callback)
        return crt_raise(CRT_ERR_INVALID, "the callback is NULL");
    core = crti_enter();
    if (!core)
        return crti_entry_status();
    status = crti_wait_check_ref(ref);
    if (status == CRT_OK)
        status = add(core, ref, callback, user);
    crti_leave(core);
    return status;
}
