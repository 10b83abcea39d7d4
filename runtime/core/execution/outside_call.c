/* SPDX-License-Identifier: Apache-2.0 */
/* Calls from outside the cluster: is the method open to them, and do the arguments fit?
 *
 * Where it sits
 *     client/outside.c (crt-http) -> CALL -> incoming.c, execute.c -> [ outside_call.c ] -> user
 *     code
 * Threads
 *     crti_outside_admit: the core's lock. crti_outside_arguments: the executor's thread, without
 *     it.
 * Idea
 *     Who calls does not know the class, so that what a caller checks elsewhere (the method, the
 *     signature) is checked here. JSON knows no tensors: where the signature wants one, nested
 *     lists of numbers become a float32 tensor, and {"dtype": "int64", "shape": [2, 3], "data":
 *     [...]} one of that kind.
 * Trust
 *     The arguments are a stranger's. A tensor takes memory for as many elements as there are
 *     numbers.
 */
#include "runtime/core/execution/outside_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/tensor_check.h"
#include "runtime/core/execution/execution_int.h"

/* ------------------------------------------------------------------ the method */

crt_status_t crti_outside_admit(crt_call_t *call, const crti_call_head_t *head)
{
    const char *class_name = call->core->execution->class_->user->name;
    const crti_function_t *f = call->function;

    if (!f || !f->is_http) {
        call->function = NULL;
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "class %s has no method %.*s that is declared .http", class_name,
                         (int)head->name.size, (const char *)head->name.data);
    }
    if (head->index == CRTI_CALL_STRANGER && !f->is_http_public)
        return crt_raise(CRT_ERR_PERMISSION,
                         "%s is not declared .http_public: it wants a token", f->display);
    call->is_outside = true;
    call->group = f->group;
    return CRT_OK;
}

/* ------------------------------------------------------------------ tensors */

/* A tensor in the making, and where its next element goes. */
typedef struct filling {
    crt_tensor_t *tensor;
    unsigned char *at;
} filling_t;

static bool is_number(const crt_value_t *v)
{
    return v->kind == CRT_KIND_INT || v->kind == CRT_KIND_FLOAT ||
           v->kind == CRT_KIND_BOOL;
}

static double to_double(const crt_value_t *v)
{
    return v->kind == CRT_KIND_FLOAT ? v->as.number
           : v->kind == CRT_KIND_INT ? (double)v->as.integer
                                     : v->as.boolean;
}

static bool fits(double number, double low, double high)
{
    return number >= low && number <= high && number == (double)(int64_t)number;
}

/* False: the number is none of that kind. */
static bool put_number(crt_dtype_t dtype, void *to, const crt_value_t *v)
{
    double number = to_double(v);
    int64_t whole = v->kind == CRT_KIND_INT ? v->as.integer : 0;
    float single = (float)number;

    if (dtype == CRT_DTYPE_FLOAT32)
        return memcpy(to, &single, sizeof(single));
    if (dtype == CRT_DTYPE_FLOAT64)
        return memcpy(to, &number, sizeof(number));
    if (dtype == CRT_DTYPE_BOOL) {
        *(bool *)to = number != 0;
        return true;
    }
    if (v->kind != CRT_KIND_INT) {
        if (!fits(number, -9.0e15, 9.0e15))
            return false;
        whole = (int64_t)number;
    }
    if (dtype == CRT_DTYPE_INT64)
        return memcpy(to, &whole, sizeof(whole));
    if (dtype == CRT_DTYPE_INT32 && whole == (int32_t)whole)
        return memcpy(to, &(int32_t){(int32_t)whole}, 4);
    if (dtype == CRT_DTYPE_INT16 && whole == (int16_t)whole)
        return memcpy(to, &(int16_t){(int16_t)whole}, 2);
    if (dtype == CRT_DTYPE_INT8 && whole == (int8_t)whole)
        return memcpy(to, &(int8_t){(int8_t)whole}, 1);
    if (dtype == CRT_DTYPE_UINT8 && whole == (uint8_t)whole)
        return memcpy(to, &(uint8_t){(uint8_t)whole}, 1);
    if (dtype == CRT_DTYPE_UINT16 && whole == (uint16_t)whole)
        return memcpy(to, &(uint16_t){(uint16_t)whole}, 2);
    if (dtype == CRT_DTYPE_UINT32 && whole == (uint32_t)whole)
        return memcpy(to, &(uint32_t){(uint32_t)whole}, 4);
    if (dtype == CRT_DTYPE_UINT64 && whole >= 0)
        return memcpy(to, &whole, 8);
    return false;
}

/* Numbers in nested lists, as deep as a tensor may be. */
static size_t count_numbers(const crt_value_t *v, int depth)
{
    size_t sum = 0;

    if (v->kind != CRT_KIND_LIST)
        return 1;
    for (size_t i = 0; depth < CRT_TENSOR_DIMS && i < v->count; i++)
        sum += count_numbers(&v->as.items[i], depth + 1);
    return sum;
}

static crt_status_t fill(filling_t *f, const crt_value_t *v, int depth)
{
    crt_tensor_t *t = f->tensor;

    if (depth == t->rank) {
        if (!is_number(v) || !put_number(t->dtype, f->at, v))
            return crt_raise(CRT_ERR_INVALID, "a %s is no element of a %s tensor",
                             crt_kind_name(v->kind), crt_dtype_name(t->dtype));
        f->at += crt_dtype_size(t->dtype);
        return CRT_OK;
    }
    if (v->kind != CRT_KIND_LIST || (int64_t)v->count != t->shape[depth])
        return crt_raise(CRT_ERR_INVALID,
                         "the lists of a tensor differ in length at depth %d", depth + 1);
    for (size_t i = 0; i < v->count; i++) {
        crt_status_t status = fill(f, &v->as.items[i], depth + 1);

        if (status != CRT_OK)
            return status;
    }
    return CRT_OK;
}

/* The shape of nested lists, by the first entry of each. */
static crt_status_t shape_of(const crt_value_t *v, int64_t shape[CRT_TENSOR_DIMS],
                             int *rank_out)
{
    int rank = 0;

    for (; v->kind == CRT_KIND_LIST; v = &v->as.items[0]) {
        if (rank == CRT_TENSOR_DIMS)
            return crt_raise(CRT_ERR_INVALID, "a tensor has at most %d dimensions",
                             CRT_TENSOR_DIMS);
        shape[rank++] = v->count;
        if (v->count == 0)
            break;
    }
    *rank_out = rank;
    return CRT_OK;
}

/* Room for a tensor of `numbers` elements, which the shape must have. */
static crt_status_t new_tensor(crt_dtype_t dtype, int rank, const int64_t *shape,
                               size_t numbers, crt_tensor_t **tensor_out)
{
    size_t header = (sizeof(crt_tensor_t) + 63) & ~(size_t)63, bytes;
    crt_status_t status =
        crti_tensor_size(dtype, rank, shape, CRTI_TENSOR_ROWS_FAR, &bytes);
    crt_tensor_t *t;

    if (status != CRT_OK)
        return status;
    if (bytes / crt_dtype_size(dtype) != numbers)
        return crt_raise(CRT_ERR_INVALID,
                         "%zu numbers are not as many as the shape of the tensor wants",
                         numbers);
    t = malloc(header + bytes);
    if (!t)
        return crt_raise(CRT_ERR_NO_MEMORY, "a tensor of %zu elements", numbers);
    *t = crt_tensor_view(dtype, rank, shape, (unsigned char *)t + header);
    *tensor_out = t;
    return CRT_OK;
}

static crt_status_t from_lists(const crt_value_t *v, crt_tensor_t **tensor_out)
{
    int64_t shape[CRT_TENSOR_DIMS];
    int rank;
    filling_t f;
    crt_status_t status = shape_of(v, shape, &rank);

    if (status == CRT_OK)
        status =
            new_tensor(CRT_DTYPE_FLOAT32, rank, shape, count_numbers(v, 0), tensor_out);
    if (status != CRT_OK)
        return status;
    f = (filling_t){*tensor_out, (*tensor_out)->data};
    return fill(&f, v, 0);
}

static bool dtype_of(const crt_value_t *v, crt_dtype_t *dtype_out)
{
    for (int d = CRT_DTYPE_FLOAT32;
         v && v->kind == CRT_KIND_STRING && d <= CRTI_DTYPE_LAST; d++)
        if (d != CRT_DTYPE_FLOAT16 && d != CRT_DTYPE_BFLOAT16 &&
            strcmp(crt_dtype_name((crt_dtype_t)d), v->as.bytes.data) == 0) {
            *dtype_out = (crt_dtype_t)d;
            return true;
        }
    return false;
}

static bool read_shape(const crt_value_t *v, int64_t shape[CRT_TENSOR_DIMS], int *rank)
{
    if (!v || v->kind != CRT_KIND_LIST || v->count > CRT_TENSOR_DIMS)
        return false;
    *rank = (int)v->count;
    for (int i = 0; i < *rank; i++) {
        if (v->as.items[i].kind != CRT_KIND_INT)
            return false;
        shape[i] = v->as.items[i].as.integer;
    }
    return true;
}

static crt_status_t from_map(const crt_value_t *v, crt_tensor_t **tensor_out)
{
    const crt_value_t *data = crt_value_find(v, "data");
    int64_t shape[CRT_TENSOR_DIMS];
    crt_dtype_t dtype;
    int rank;
    filling_t f;
    crt_status_t status;

    if (!dtype_of(crt_value_find(v, "dtype"), &dtype) ||
        !read_shape(crt_value_find(v, "shape"), shape, &rank) || !data ||
        data->kind != CRT_KIND_LIST)
        return crt_raise(CRT_ERR_INVALID,
                         "a tensor is nested lists, or {\"dtype\": \"float32\", "
                         "\"shape\": [...], \"data\": [...]} with a dtype that JSON can "
                         "show, at most %d sizes and one list of numbers",
                         CRT_TENSOR_DIMS);
    status = new_tensor(dtype, rank, shape, data->count, tensor_out);
    if (status != CRT_OK)
        return status;
    f = (filling_t){*tensor_out, (*tensor_out)->data};
    (*tensor_out)->rank = 0; /* the elements one by one */
    for (size_t i = 0; i < data->count && status == CRT_OK; i++)
        status = fill(&f, &data->as.items[i], 0);
    (*tensor_out)->rank = rank;
    return status;
}

static crt_status_t make_tensor(crti_incoming_arg_t *arg)
{
    crt_tensor_t *tensor = NULL;
    crt_status_t status = arg->value.kind == CRT_KIND_LIST
                              ? from_lists(&arg->value, &tensor)
                              : from_map(&arg->value, &tensor);

    if (status != CRT_OK) {
        free(tensor);
        return status;
    }
    free(arg->memory); /* the lists */
    arg->memory = tensor;
    arg->value = (crt_value_t){.kind = CRT_KIND_TENSOR, .as.tensor = tensor};
    return CRT_OK;
}

/* ------------------------------------------------------------------ arguments */

static crt_status_t fit(crt_call_t *call, unsigned index)
{
    const crti_signature_t *s = &call->function->signature;
    crti_place_t place = {call->function->class_name, call->function->name, index};
    crti_incoming_arg_t *arg = &call->args[index];
    crt_kind_t wanted = CRT_KIND_NONE;
    bool is_ref;
    crt_status_t status;

    if (!s->is_unchecked && s->count)
        wanted = s->kind[index < s->count ? index : s->count - 1];
    if (wanted == CRT_KIND_TENSOR &&
        (arg->value.kind == CRT_KIND_LIST || arg->value.kind == CRT_KIND_MAP)) {
        char detail[400];

        status = make_tensor(arg);
        if (status == CRT_OK)
            return CRT_OK;
        snprintf(detail, sizeof(detail), "%s", crt_error_detail());
        return crt_raise(status, "%s: argument %u: %s", call->function->display,
                         index + 1, detail);
    }
    return crti_signature_check(s, index, arg->value.kind, &place, &is_ref);
}

crt_status_t crti_outside_arguments(crt_call_t *call)
{
    crti_place_t place = {call->function->class_name, call->function->name, 0};
    crt_status_t status =
        crti_signature_count(&call->function->signature, call->arg_count, &place);

    for (unsigned i = 0; i < call->arg_count && status == CRT_OK; i++)
        status = fit(call, i);
    return status;
}
