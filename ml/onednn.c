/* SPDX-License-Identifier: Apache-2.0 */
/* See ml/onednn.h. */
#include "ml/onednn.h"

#include <pthread.h>

#include "ml/matrix.h"

/* libgomp's, which oneDNN computes with; it remembers the number of each thread. */
extern void omp_set_num_threads(int threads);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static dnnl_engine_t engine; /* never destroyed, as the library's own caches */
static dnnl_primitive_attr_t scratch_of_ours;
static dnnl_stream_t stream; /* on a CPU it only says where: any thread may use it */

static void open_engine(void)
{
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) != dnnl_success ||
        dnnl_primitive_attr_create(&scratch_of_ours) != dnnl_success ||
        dnnl_primitive_attr_set_scratchpad_mode(
            scratch_of_ours, dnnl_scratchpad_mode_user) != dnnl_success)
        engine = NULL;
}

static const char *text_of(dnnl_status_t status)
{
    switch (status) {
    case dnnl_out_of_memory: return "out of memory";
    case dnnl_invalid_arguments: return "invalid arguments";
    case dnnl_unimplemented: return "not made for these shapes";
    default: return "a defect";
    }
}

static crt_status_t raise_onednn(dnnl_status_t status, const char *what)
{
    return crt_raise(status == dnnl_out_of_memory ? CRT_ERR_NO_MEMORY
                                                  : CRT_ERR_UNSUPPORTED,
                     "%s: oneDNN: %s", what, text_of(status));
}

crti_layout_t crti_onednn_places(int rows, crti_shape_t shape)
{
    const dnnl_dims_t dims = {rows, shape.channels, shape.height, shape.width};

    return crti_layout_new(4, dims, dnnl_nhwc);
}

crti_layout_t crti_onednn_any(int rank, const dnnl_dims_t dims)
{
    return crti_layout_new(rank, dims, dnnl_format_tag_any);
}

crti_layout_t crti_onednn_rows(int rank, const dnnl_dims_t dims)
{
    static const dnnl_format_tag_t tags[] = {dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd};

    return crti_layout_new(rank, dims, tags[rank - 1]);
}

static crt_status_t add_argument(crti_onednn_t *p, int argument,
                                 crti_const_layout_t layout)
{
    dnnl_exec_arg_t *to = &p->arguments[p->count];
    dnnl_status_t status =
        dnnl_memory_create(&to->memory, layout, engine, DNNL_MEMORY_NONE);

    if (status != dnnl_success)
        return raise_onednn(status, "memory");
    to->arg = argument;
    p->count++;
    return CRT_OK;
}

crt_status_t crti_onednn_arguments(crti_onednn_t *p, int count, const int *arguments,
                                   const crti_const_layout_t *layouts)
{
    crt_status_t status = CRT_OK;

    for (int i = 0; i < count && status == CRT_OK; i++)
        status = add_argument(p, arguments[i], layouts[i]);
    return status;
}

/* The primitive that is described, with its scratch as first argument. */
static crt_status_t make_described(crti_onednn_t *p,
                                   const_dnnl_primitive_desc_t description,
                                   const char *what)
{
    crti_const_layout_t scratch =
        crti_onednn_wanted(description, dnnl_query_scratchpad_md);
    dnnl_status_t status = dnnl_primitive_create(&p->primitive, description);

    if (status != dnnl_success)
        return raise_onednn(status, what);
    p->scratch = crti_onednn_floats(scratch);
    return add_argument(p, DNNL_ARG_SCRATCHPAD, scratch);
}

static crt_status_t open_context(crti_dnnl_context_t *context,
                                 const_dnnl_primitive_desc_t hint)
{
    pthread_once(&once, open_engine);
    if (!engine)
        return crt_raise(CRT_ERR_UNSUPPORTED, "oneDNN has no engine here");
    *context = (crti_dnnl_context_t){engine, scratch_of_ours, hint};
    return CRT_OK;
}

crt_status_t crti_onednn_make_convolution(crti_onednn_t *p, crti_dnnl_pass_t pass,
                                          const crti_dnnl_convolution_t *convolution,
                                          const_dnnl_primitive_desc_t hint,
                                          dnnl_primitive_desc_t *description_out)
{
    const char *what = hint ? "gradient of a convolution" : "convolution";
    crti_dnnl_context_t context;
    crt_status_t status = open_context(&context, hint);
    dnnl_status_t described;

    *description_out = NULL;
    if (status != CRT_OK)
        return status;
    described = crti_dnnl_convolution(description_out, pass, convolution, &context);
    return described == dnnl_success ? make_described(p, *description_out, what)
                                     : raise_onednn(described, what);
}

crt_status_t crti_onednn_make_batch_norm(crti_onednn_t *p, crti_dnnl_pass_t pass,
                                         crti_layout_t x, double epsilon,
                                         const_dnnl_primitive_desc_t hint,
                                         dnnl_primitive_desc_t *description_out)
{
    const char *what = hint ? "gradient of a batch norm" : "batch norm";
    crti_dnnl_context_t context;
    crt_status_t status = open_context(&context, hint);
    dnnl_status_t described;

    *description_out = NULL;
    if (status != CRT_OK)
        return status;
    described = crti_dnnl_batch_norm(description_out, pass, x, (float)epsilon, &context);
    return described == dnnl_success ? make_described(p, *description_out, what)
                                     : raise_onednn(described, what);
}

crt_status_t crti_onednn_make_reorder(crti_onednn_t *p, crti_const_layout_t from,
                                      crti_const_layout_t to)
{
    dnnl_primitive_desc_t description = NULL;
    dnnl_status_t created;
    crt_status_t status;

    if (dnnl_memory_desc_equal(from, to))
        return CRT_OK;
    created = dnnl_reorder_primitive_desc_create(&description, from, engine, to, engine,
                                                 scratch_of_ours);
    if (created != dnnl_success)
        return raise_onednn(created, "another layout");
    status = make_described(p, description, "another layout");
    dnnl_primitive_desc_destroy(description);
    if (status == CRT_OK)
        status = add_argument(p, DNNL_ARG_FROM, from);
    return status == CRT_OK ? add_argument(p, DNNL_ARG_TO, to) : status;
}

crti_const_layout_t crti_onednn_wanted(const_dnnl_primitive_desc_t description,
                                       dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(description, what, 0);
}

size_t crti_onednn_floats(crti_const_layout_t layout)
{
    size_t line = 64;

    return (dnnl_memory_desc_get_size(layout) + line - 1) / line * (line / sizeof(float));
}

void crti_onednn_run(const crti_onednn_t *p, const crti_layer_pass_t *step,
                     const void *const *data)
{
    dnnl_status_t status = dnnl_success;

    omp_set_num_threads(crti_matrix_threads());
    for (int i = 0; i < p->count && status == dnnl_success; i++)
        status = dnnl_memory_set_data_handle(p->arguments[i].memory,
                                             i == 0 ? step->workspace
                                                    : (void *)(uintptr_t)data[i - 1]);
    if (status == dnnl_success)
        status = dnnl_primitive_execute(p->primitive, stream, p->count, p->arguments);
    if (status == dnnl_success)
        status = dnnl_stream_wait(stream);
    if (status != dnnl_success)
        *step->failed = raise_onednn(status, "a layer");
}

void crti_onednn_free(crti_onednn_t *p)
{
    for (int i = 0; i < p->count; i++)
        dnnl_memory_destroy(p->arguments[i].memory);
    if (p->primitive)
        dnnl_primitive_destroy(p->primitive);
    *p = (crti_onednn_t){0};
}
