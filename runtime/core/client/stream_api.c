/* SPDX-License-Identifier: Apache-2.0 */
/* Streams in crt_stream.h: taking what has come, and giving a stream up. See calls/stream.c.
 *
 * Where it sits
 *     crt_stream_next, _completed, _drop -> [ stream_api.c ] -> calls/stream.c, execution/cancel.c
 */
#include <pthread.h>
#include <stdlib.h>

#include "runtime/base/log.h"
#include "runtime/core/calls/stream.h"
#include "runtime/core/client/client.h"
#include "runtime/core/execution/deadlock.h"
#include "runtime/core/execution/execution.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/printed.h"
#include "runtime/core/refs/value_of.h"
#include "runtime/core/values/handles.h"

/* Streams of before a shutdown have no lock of a runtime any more. */
static pthread_mutex_t orphans = PTHREAD_MUTEX_INITIALIZER;

/* ------------------------------------------------------------------ taking */

crt_status_t crti_stream_check(const crti_core_t *core, const crt_stream_t *stream)
{
    if (!stream)
        return crt_raise(CRT_ERR_INVALID, "the stream is NULL");
    if (crti_calls_have_stream(core, stream))
        return CRT_OK;
    if (crti_old_handle_is(stream) && stream->completed)
        return crti_ref_raise(stream->completed);
    return crti_old_handle_is(stream)
               ? crt_raise(CRT_ERR_CLOSED, "the stream is " CRTI_BEFORE_SHUTDOWN)
               : crt_raise(CRT_ERR_INVALID,
                           "no such stream: it was dropped, or never was one");
}

static bool has_next(void *user)
{
    const crt_stream_t *stream = user;

    return stream->count || stream->is_ended || stream->is_dropped;
}

static crt_status_t next(crti_core_t *core, crt_stream_t *stream, int64_t timeout_ms,
                         crt_ref_t **ref_out)
{
    crt_status_t status = CRT_OK;

    if (!has_next(stream)) {
        if (crti_running())
            status = crti_check_self_wait(core, stream->completed);
        if (status == CRT_OK)
            status = crti_wait_for(core, has_next, stream, timeout_ms, stream->completed,
                                   "the next value of a stream");
        if (status != CRT_OK)
            return status;
    }
    if (stream->is_dropped)
        return crt_raise(CRT_ERR_CLOSED, "the stream was dropped meanwhile");
    if (stream->count) {
        *ref_out = crti_call_stream_take(stream);
        (*ref_out)->handles++;
        return CRT_OK;
    }
    crti_printed_show(core);
    return stream->completed->content == CRTI_CONTENT_FAILED
               ? crti_ref_raise(stream->completed)
               : CRT_END_OF_STREAM;
}

crt_status_t crt_stream_next(crt_stream_t *stream, int64_t timeout_ms,
                             crt_ref_t **ref_out)
{
    crti_core_t *core = crti_enter();
    crt_status_t status;

    if (!core)
        return crti_entry_status();
    status = crti_stream_check(core, stream);
    if (status == CRT_OK && !ref_out)
        status = crt_raise(CRT_ERR_INVALID, "there is no place for the ref");
    if (status == CRT_OK) {
        stream->holds++;
        status = next(core, stream, timeout_ms, ref_out);
        crti_call_stream_release(stream);
    }
    crti_leave(core);
    return status;
}

crt_ref_t *crt_stream_completed(crt_stream_t *stream)
{
    crti_core_t *core = crti_enter();
    crt_status_t status;
    crt_ref_t *ref;

    if (!core)
        return crti_given_refused(NULL, 0);
    status = crti_stream_check(core, stream);
    if (status == CRT_OK) {
        ref = stream->completed;
        crti_ref_hold(ref);
    } else {
        ref = crti_ref_failed(core, status);
    }
    ref->handles++;
    crti_leave(core);
    return ref;
}

/* ------------------------------------------------------------------ giving it up */

static bool drop_old(crt_stream_t *stream)
{
    bool is_old;

    pthread_mutex_lock(&orphans);
    is_old = crti_old_handle_take(stream);
    pthread_mutex_unlock(&orphans);
    if (is_old && stream->completed)
        crt_ref_drop(&stream->completed); /* it never had a runtime */
    if (is_old)
        crti_call_stream_release(stream);
    return is_old;
}

void crt_stream_drop(crt_stream_t **slot)
{
    crt_stream_t *stream = slot ? *slot : NULL;
    crti_core_t *core;
    bool is_dropped = true;

    if (!stream)
        return;
    *slot = NULL;
    if (crti_is_forked())
        return; /* the parent's; this copy goes with the process */
    core = crti_enter_quiet();
    if (core && crti_calls_have_stream(core, stream)) {
        if (stream->call)
            crti_cancel_call(stream->call);
        crti_call_stream_drop(stream);
    } else {
        is_dropped = drop_old(stream);
    }
    if (core)
        crti_leave(core);
    if (!is_dropped)
        crti_log(CRTI_LOG_WARN, "core",
                 "crt_stream_drop of what is no stream: it was dropped before, or never "
                 "was one");
}
