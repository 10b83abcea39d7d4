/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: calls that return any number of results, one by one, while the call runs. Part of
 * crt.h.
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
 * Ownership: the process that made the call owns the yielded results. The results outlive the
 * worker.
 *
 * Failure: when the call fails, crt_stream_next first returns the results that were yielded
 * before, then the error. When the process of the call is killed, the last results of a producer
 * that is ahead of its reader are lost with the process: small results travel together. A call
 * that begins again (max_attempts, retry_exceptions) must yield the same results again; results
 * that have already arrived are not returned twice.
 *
 * Threads: every function here may be called from any thread, except crt_yield: only the thread
 * that runs the call may call crt_yield.
 */
#ifndef CRT_STREAM_H
#define CRT_STREAM_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Runs a task that yields its results, and returns a stream of these results. `options` and `args`
 * are as for crt_submit. When too many tasks wait for workers, the caller blocks, or the call
 * fails with CRT_ERR_BACKPRESSURE if try_only is set.
 *
 * Returns a stream, also when the submission fails: crt_stream_next then returns the error. NULL
 * only if memory is out. The caller owns the stream and drops the stream with crt_stream_drop. */
CRT_API crt_stream_t *crt_submit_stream_v(const crt_task_t *task,
                                          const crt_task_options_t *options,
                                          const crt_arg_t *args, size_t count);

/* Calls a method that yields its results, and returns a stream of these results. `options` and
 * `args` are as for crt_call. Until the method returns, the thread of the actor that runs the
 * method runs no other call.
 *
 * Returns a stream, also when the call can't be made: crt_stream_next then returns the error. NULL
 * only if memory is out. The caller owns the stream and drops the stream with crt_stream_drop. */
CRT_API crt_stream_t *crt_call_stream_v(crt_actor_t *actor, const crt_method_t *method,
                                        const crt_call_options_t *options,
                                        const crt_arg_t *args, size_t count);

/* Waits for the next result, at most `wait_ms` milliseconds, and stores a ref of the result in
 * `*ref_out`. CRT_FOREVER (or any negative number): without limit. The caller owns the ref and
 * drops the ref with crt_ref_drop.
 *
 * Returns CRT_END_OF_STREAM, which is positive and not an error, when the call has succeeded and
 * the caller has taken all results. If the call of the stream failed, returns the status of
 * that call. After either, every further crt_stream_next returns the same status.
 *
 * Errors: CRT_ERR_TIMED_OUT, when there is no result within wait_ms; CRT_ERR_INTERRUPTED, after
 * crt_interrupt; CRT_ERR_DEADLOCK, when the wait could never end because the calls wait for each
 * other; CRT_ERR_CANCELLED, when the calling task was cancelled, or the call of the stream was;
 * CRT_ERR_INVALID, when the stream is NULL or was dropped, or ref_out is NULL; CRT_ERR_CLOSED,
 * when another thread drops the stream meanwhile, or the stream is from before crt_shutdown;
 * CRT_ERR_NOT_INITIALIZED, before crt_init; CRT_ERR_FORKED, in a child process after fork; any
 * other error with which the call of the stream failed. */
CRT_API crt_status_t crt_stream_next(crt_stream_t *stream, int64_t wait_ms,
                                     crt_ref_t **ref_out);

/* Returns a ref that is ready when the call of the stream has ended. If the call failed, the ref
 * fails with the same error. Otherwise the value of the ref is the value that the call has
 * returned with crt_return, apart from the yielded results. crt_cancel of this ref cancels the
 * call.
 *
 * The ref is not ready while the call blocks in crt_yield because the caller does not take the
 * yielded results. The caller owns the ref and drops the ref with crt_ref_drop. */
CRT_API crt_ref_t *crt_stream_completed(crt_stream_t *stream);

/* Drops a stream and sets `*stream` to NULL. Does nothing if `*stream` is NULL. If the call still
 * runs, crt_stream_drop cancels the call as crt_cancel does: the next crt_yield of the call
 * returns CRT_ERR_CANCELLED. Refs that the caller has taken from the stream stay valid. */
CRT_API void crt_stream_drop(crt_stream_t **stream);

/* Sends one more result to the caller of a stream. Use crt_yield inside a task or method that was
 * called as a stream. `value` is as for crt_return. Blocks while the caller has not taken the
 * number of yielded results that generator_backpressure_num_objects allows. Call crt_yield only
 * from the thread that runs the call.
 *
 * Errors: CRT_ERR_CANCELLED, when the call was cancelled or the caller has dropped the stream: the
 * call should return; CRT_ERR_INVALID, when the caller called the task or method without a stream,
 * `call` is NULL, or `value` is invalid; CRT_ERR_CLOSED, when an earlier result could not be
 * yielded because the process ends; CRT_ERR_INTERRUPTED, after crt_interrupt; any error of
 * crt_return, when `value` can't be encoded or stored. */
CRT_API crt_status_t crt_yield_v(crt_call_t *call, const crt_arg_t *value);

#ifdef __cplusplus
}
#endif

#endif
