/* SPDX-License-Identifier: Apache-2.0 */
/* What a call must satisfy before a backend sees it, and what is kept of it when it has ended.
 *
 * Where it sits
 *     operation.c, message.c, posting.c -> [ operation_check.c ] -> group.c (failures)
 * Failure
 *     A call that is wrong in itself fails the group like one that does not fit the others': the
 *     others wait for it and must hear.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective/figures.h"
#include "collective/group_int.h"
#include "collective/operation_signature.h"
#include "runtime/base/clock.h"
#include "runtime/base/tensor_check.h"
#include "runtime/core/execution/run_events.h"

/* ---------------------------------------------------------------- checks */

static const char *kind_name(crt_collective_kind_t kind)
{
    const char *name = crti_operation_kind_name((int32_t)kind);

    return name ? name : "an operation";
}

/* A tensor that was checked: what the rest of the checks needs of it. */
typedef struct extent {
    size_t count, bytes;
} extent_t;

static crt_status_t check_device(const crt_group_t *group, const crt_collective_t *what,
                                 const char *which, const crt_tensor_t *t)
{
    int gpu = crt_tensor_gpu(t);
    crt_status_t status = crti_tensor_check_known(t);

    if (status != CRT_OK || gpu == -1 || gpu == group->device)
        return status;
    if (group->device < 0)
        return crt_raise(CRT_ERR_INVALID,
                         "%s: the %s lies on device %d; backend \"%s\" takes host memory",
                         kind_name(what->kind), which, gpu, crt_group_backend(group));
    return crt_raise(CRT_ERR_INVALID,
                     "%s: the %s lies on device %d; this member's device is %d",
                     kind_name(what->kind), which, gpu, group->device);
}

static crt_status_t check_tensor(const crt_group_t *group, const crt_collective_t *what,
                                 const char *which, const crt_tensor_t *t,
                                 extent_t *extent)
{
    crt_status_t status;
    size_t size;

    if (!t)
        return crt_raise(CRT_ERR_INVALID, "%s: there is no %s", kind_name(what->kind),
                         which);
    size = crt_dtype_size(t->dtype); /* a power of two */
    if (size == 0 || t->dtype == CRT_DTYPE_BOOL)
        return crt_raise(CRT_ERR_INVALID, "%s: the %s is of %s", kind_name(what->kind),
                         which, crt_dtype_name(t->dtype));
    status = check_device(group, what, which, t);
    if (status != CRT_OK)
        return status;
    if (!crt_tensor_is_dense(t))
        return crt_raise(CRT_ERR_INVALID, "%s: the %s is not dense",
                         kind_name(what->kind), which);
    extent->count = crt_tensor_count(t);
    extent->bytes = extent->count * size;
    if (extent->count && (!t->data || (uintptr_t)t->data & (size - 1)))
        return crt_raise(CRT_ERR_INVALID, "%s: the %s has no data, or not aligned to %zu",
                         kind_name(what->kind), which, size);
    return CRT_OK;
}

/* Overlapping memory is in order only where the place is exactly `in_place`. */
static crt_status_t check_overlap(const crt_collective_t *what, extent_t input,
                                  extent_t output, ptrdiff_t in_place)
{
    const char *in = what->input->data, *out = what->output->data;

    if (!input.bytes || !output.bytes || in >= out + output.bytes ||
        out >= in + input.bytes)
        return CRT_OK;
    if (in_place != PTRDIFF_MIN && in - out == in_place)
        return CRT_OK;
    return crt_raise(CRT_ERR_INVALID, "%s: input and output overlap",
                     kind_name(what->kind));
}

static crt_status_t check_root(const crt_group_t *group, const crt_collective_t *what)
{
    if (what->peer < 0 || what->peer >= group->size)
        return crt_raise(CRT_ERR_INVALID, "%s: there is no rank %d in a group of %d",
                         kind_name(what->kind), what->peer, group->size);
    if (crti_is_message(what->kind) && what->peer == group->rank)
        return crt_raise(CRT_ERR_INVALID, "%s: rank %d is this member",
                         kind_name(what->kind), what->peer);
    return CRT_OK;
}

static crt_status_t check_reduction(const crt_collective_t *what)
{
    if (what->reduction >= CRT_REDUCE_SUM && what->reduction <= CRT_REDUCE_AVERAGE)
        return CRT_OK;
    return crt_raise(CRT_ERR_INVALID, "%s: there is no reduction %d",
                     kind_name(what->kind), (int)what->reduction);
}

/* ---------------------------------------------------------------- steps */

/* Operations with input and output; `wanted` elements of output. */
static crt_status_t fill_both(const crt_group_t *group, const crt_collective_t *what,
                              extent_t input, size_t wanted, ptrdiff_t in_place,
                              crti_step_t *step)
{
    const crt_tensor_t *in = what->input, *out = what->output;
    extent_t output = {0};

    CRT_TRY(check_tensor(group, what, "output", out, &output));
    if (crt_tensor_gpu(out) != crt_tensor_gpu(in))
        return crt_raise(CRT_ERR_INVALID,
                         "%s: the input lies on device %d, the output on %d",
                         kind_name(what->kind), crt_tensor_gpu(in), crt_tensor_gpu(out));
    if (out->dtype != in->dtype)
        return crt_raise(CRT_ERR_INVALID, "%s: input of %s, output of %s",
                         kind_name(what->kind), crt_dtype_name(in->dtype),
                         crt_dtype_name(out->dtype));
    if (output.count != wanted)
        return crt_raise(CRT_ERR_INVALID,
                         "%s: an input of %zu elements needs an output of %zu, not %zu",
                         kind_name(what->kind), input.count, wanted, output.count);
    step->output = out->data;
    return check_overlap(what, input, output, in_place);
}

static crt_status_t fill_parts(const crt_group_t *group, const crt_collective_t *what,
                               extent_t input, crti_step_t *step)
{
    size_t n = input.count, m = (size_t)group->size;
    size_t size = crt_dtype_size(what->input->dtype);

    if (what->kind == CRT_COLLECTIVE_ALLGATHER)
        return fill_both(group, what, input, n * m,
                         (ptrdiff_t)((size_t)group->rank * n * size), step);
    if (n % m)
        return crt_raise(CRT_ERR_INVALID, "%s: %zu elements for %zu members",
                         kind_name(what->kind), n, m);
    step->count = n / m;
    if (what->kind == CRT_COLLECTIVE_ALLTOALL)
        return fill_both(group, what, input, n, PTRDIFF_MIN, step);
    return fill_both(group, what, input, n / m,
                     -(ptrdiff_t)((size_t)group->rank * (n / m) * size), step);
}

static crt_status_t fill(const crt_group_t *group, const crt_collective_t *what,
                         crti_step_t *step)
{
    const crt_tensor_t *tensor =
        what->kind == CRT_COLLECTIVE_RECV ? what->output : what->input;
    extent_t extent = {0};

    CRT_TRY(check_tensor(group, what, "input", tensor, &extent));
    step->dtype = tensor->dtype;
    step->is_on_device = crt_tensor_gpu(tensor) >= 0;
    step->count = extent.count;
    step->input = what->kind == CRT_COLLECTIVE_RECV ? NULL : tensor->data;
    switch (what->kind) {
    case CRT_COLLECTIVE_ALLREDUCE:
        return fill_both(group, what, extent, step->count, 0, step);
    case CRT_COLLECTIVE_REDUCE:
        return group->rank == what->peer
                   ? fill_both(group, what, extent, step->count, 0, step)
                   : CRT_OK;
    case CRT_COLLECTIVE_ALLGATHER:
    case CRT_COLLECTIVE_REDUCESCATTER:
    case CRT_COLLECTIVE_ALLTOALL: return fill_parts(group, what, extent, step);
    case CRT_COLLECTIVE_BROADCAST: step->output = tensor->data; return CRT_OK;
    case CRT_COLLECTIVE_RECV: step->output = tensor->data; return CRT_OK;
    default: return CRT_OK;
    }
}

/* Fills in what does not depend on time and order. */
static crt_status_t make_step(const crt_group_t *group, const crt_collective_t *what,
                              crti_step_t *step)
{
    crt_status_t status = CRT_OK;

    *step = (crti_step_t){.kind = what->kind, .peer = -1};
    switch (what->kind) {
    case CRT_COLLECTIVE_BARRIER: return CRT_OK;
    case CRT_COLLECTIVE_REDUCE:
        status = check_root(group, what);
        __attribute__((fallthrough));
    case CRT_COLLECTIVE_ALLREDUCE:
    case CRT_COLLECTIVE_REDUCESCATTER:
        if (status == CRT_OK)
            status = check_reduction(what);
        step->reduction = what->reduction;
        break;
    case CRT_COLLECTIVE_BROADCAST:
    case CRT_COLLECTIVE_SEND:
    case CRT_COLLECTIVE_RECV: status = check_root(group, what); break;
    case CRT_COLLECTIVE_ALLGATHER:
    case CRT_COLLECTIVE_ALLTOALL: break;
    default:
        return crt_raise(CRT_ERR_INVALID, "there is no operation %d", (int)what->kind);
    }
    if (what->kind == CRT_COLLECTIVE_REDUCE || what->kind == CRT_COLLECTIVE_BROADCAST ||
        what->kind == CRT_COLLECTIVE_SEND || what->kind == CRT_COLLECTIVE_RECV)
        step->peer = what->peer;
    return status == CRT_OK ? fill(group, what, step) : status;
}

/* ---------------------------------------------------------------- calls */

static crt_status_t refuse(crt_group_t *group)
{
    const crt_group_error_t *error = crt_group_last_error(group);

    return crt_raise(CRT_ERR_CANCELLED, "group \"%s\" has failed and was not rebuilt: %s",
                     group->name, error ? error->text : "");
}

static void report_failure(crt_group_t *group)
{
    struct crti_group_private *p = group->private;

    if (p->state && p->backend->report)
        p->backend->report(p->state);
}

#define SHORT_BYTES ((size_t)16 << 10)

/* Few bytes between members that were all there: for these the clock is a cost that shows. */
static bool is_short(const crt_group_t *group, size_t bytes)
{
    return group->private->backend == &crti_backend_shm && bytes <= SHORT_BYTES &&
           !group->has_waited;
}

void crti_operation_ended(crt_group_t *group, const crti_step_t *step, uint64_t begun_ns,
                          crt_status_t status)
{
    size_t bytes = step->count ? step->count * crt_dtype_size(step->dtype) : 0;
    char name[64];

    if (status != CRT_OK && atomic_load(&group->has_failed))
        group->private->was_reported = true;
    crti_figures_count(step, status);
    if (is_short(group, bytes) || crti_now_ns() - begun_ns < CRTI_COLLECTIVE_EVENT_NS)
        return;
    snprintf(name, sizeof(name), "%s #%llu of %d, %zu bytes", kind_name(step->kind),
             (unsigned long long)step->sequence, group->size, bytes);
    crti_collective_event(name, begun_ns, status); /* for crt timeline */
}

/* A call that is wrong in itself: the others hear of it, and in which operation it was. */
static crt_status_t fail_call(crt_group_t *group, const crt_collective_t *what,
                              crt_status_t status)
{
    struct crti_group_private *p = group->private;
    char who[160], number[40] = "";

    if (!crti_is_message(what->kind))
        snprintf(number, sizeof(number), " (operation %llu)",
                 (unsigned long long)p->sequence + 1);
    status = crti_group_fail(group, status, group->rank, "%s: %s%s",
                             crti_group_describe(group, group->rank, who, sizeof(who)),
                             crt_error_detail(), number);
    report_failure(group);
    p->was_reported = true;
    return status;
}

crt_status_t crti_operation_check(crt_group_t *group, const crt_collective_t *what,
                                  crti_step_t *step)
{
    struct crti_group_private *p = group->private;
    crt_status_t status;

    if (p->later.status != CRT_OK)
        crti_group_fail(group, p->later.status, p->later.rank, "%s", p->later.text);
    if (atomic_load_explicit(&group->has_failed, memory_order_acquire)) {
        report_failure(group);
        if (p->was_reported)
            return refuse(group);
        p->was_reported = true;
        return crti_group_failed(group);
    }
    status = make_step(group, what, step);
    return status == CRT_OK ? CRT_OK : fail_call(group, what, status);
}

uint64_t crti_operation_deadline(const crt_group_t *group, const crt_collective_t *what,
                                 uint64_t begun_ns)
{
    int64_t ms = what->limit_ms ? what->limit_ms : group->private->timeout_ms;

    return begun_ns + (uint64_t)ms * CRTI_MS;
}
