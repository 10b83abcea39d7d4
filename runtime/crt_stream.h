/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: calls that give any number of results, one by one, while they run. Part of crt.h.
 *
 *     static crt_status_t count_run(crt_call_t *call)
 *     {
 *         for (int64_t i = 0; i < 10; i++)
 *             CRT_TRY(crt_yield(call, i));
 *         return CRT_OK;
 *     }
 *
 *     crt_stream_t *stream = crt_submit_stream(&count, NULL);
 *     while ((status = crt_stream_next(stream, -1, &ref)) == CRT_OK) {
 *         CRT_CHECK(crt_get(ref, &number));
 *         crt_ref_drop(&ref);
 *     }
 *     if (status != CRT_END_OF_STREAM)
 *         puts(crt_error_detail());
 *     crt_stream_drop(&stream);
 *
 * The caller owns what was yielded: it outlives the worker. When the call fails, what it has yielded before is given
 * first, then crt_stream_next returns the error. One that is made again (max_retries, retry_exceptions) is expected
 * to yield the same once more; what has arrived is left out.
 *
 * Functions may be called from any thread, crt_yield from that of its call.
 */
#ifndef CRT_STREAM_H
#define CRT_STREAM_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Runs a task that yields its results. Its options are those of crt_submit. Caller owns the result and drops it
 * with crt_stream_drop; a failed submission is a stream that ends with its error. NULL: no memory is left. */
CRT_API crt_stream_t *crt_submit_stream_v(const crt_task_t *task,
                                          const crt_task_options_t *options,
                                          const crt_arg_t *args, size_t count);

/* The same for a method; its actor runs no other call in that thread until the stream has ended. */
CRT_API crt_stream_t *crt_call_stream_v(crt_actor_t *actor, const crt_method_t *method,
                                        const crt_call_options_t *options,
                                        const crt_arg_t *args, size_t count);

/* Waits for the next result. The caller owns the ref and drops it with crt_ref_drop. CRT_END_OF_STREAM (which is no
 * error): there are no more, and the call has ended well. CRT_ERR_TIMED_OUT, CRT_ERR_INTERRUPTED,
 * CRT_ERR_DEADLOCK; or the status of the call, which has failed; both again and again. `wait_ms` < 0:
 * without limit. */
CRT_API crt_status_t crt_stream_next(crt_stream_t *stream, int64_t wait_ms,
                                     crt_ref_t **ref_out);

/* A ref that is ready when the call has ended: its error, or what it has returned by crt_return besides. crt_cancel
 * of it ends the call. It waits for ever while nobody takes what was yielded. Caller owns the ref, and drops it
 * with crt_ref_drop. */
CRT_API crt_ref_t *crt_stream_completed(crt_stream_t *stream);

/* Gives a stream up and sets it to NULL; NULL is fine. A call that goes on is cancelled as by crt_cancel: its next
 * crt_yield returns CRT_ERR_CANCELLED. Refs that were taken stay. */
CRT_API void crt_stream_drop(crt_stream_t **stream);

/* Inside a call: gives its caller one more result, as crt_return does. Waits while the caller has so many that it
 * has not taken (generator_backpressure_num_objects). CRT_ERR_CANCELLED: nobody wants more of them, the
 * call should end. CRT_ERR_INVALID: the caller asked for one result, or several, but no stream. */
CRT_API crt_status_t crt_yield_v(crt_call_t *call, const crt_arg_t *value);

#ifdef __cplusplus
}
#endif

#endif
