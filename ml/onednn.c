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

dnnl_memory_desc_t crti_onednn_places(int rows, crti_shape_t shape)
{
    const dnnl_dims_t dims = {rows, shape.channels, shape.height, shape.width};
    dnnl_memory_desc_t memory = {0};

    dnnl_memory_desc_init_by_tag(&memory, 4, dims, dnnl_f32, dnnl_nhwc);
    return memory;
}

dnnl_memory_desc_t crti_onednn_any(int rank, const dnnl_dims_t dims)
{
    dnnl_memory_desc_t memory = {0};

    dnnl_memory_desc_init_by_tag(&memory, rank, dims, dnnl_f32, dnnl_format_tag_any);
    return memory;
}

dnnl_memory_desc_t crti_onednn_rows(int rank, const dnnl_dims_t dims)
{
    static const dnnl_format_tag_t tags[] = {dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd};
    dnnl_memory_desc_t memory = {0};

    dnnl_memory_desc_init_by_tag(&memory, rank, dims, dnnl_f32, tags[rank - 1]);
    return memory;
}

crt_status_t crti_onednn_argument(crti_onednn_t *p, int argument,
                                  const dnnl_memory_desc_t *memory)
{
    dnnl_exec_arg_t *to = &p->arguments[p->count];
    dnnl_status_t status =
        dnnl_memory_create(&to->memory, memory, engine, DNNL_MEMORY_NONE);

    if (status != dnnl_success)
        return raise_onednn(status, "memory");
    to->arg = argument;
    p->count++;
    return CRT_OK;
}

/* The primitive that is described, with its scratch as first argument. */
static crt_status_t make_described(crti_onednn_t *p,
                                   const_dnnl_primitive_desc_t description,
                                   const char *what)
{
    const dnnl_memory_desc_t *scratch =
        crti_onednn_wanted(description, dnnl_query_scratchpad_md);
    dnnl_status_t status = dnnl_primitive_create(&p->primitive, description);

    if (status != dnnl_success)
        return raise_onednn(status, what);
    p->scratch = crti_onednn_floats(scratch);
    return crti_onednn_argument(p, DNNL_ARG_SCRATCHPAD, scratch);
}

crt_status_t crti_onednn_make(crti_onednn_t *p, dnnl_status_t described,
                              const_dnnl_op_desc_t operation,
                              const_dnnl_primitive_desc_t hint, const char *what,
                              dnnl_primitive_desc_t *description_out)
{
    dnnl_status_t status = described;

    *description_out = NULL;
    pthread_once(&once, open_engine);
    if (!engine)
        return crt_raise(CRT_ERR_UNSUPPORTED, "%s: oneDNN has no engine here", what);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(description_out, operation, scratch_of_ours,
                                            engine, hint);
    return status == dnnl_success ? make_described(p, *description_out, what)
                                  : raise_onednn(status, what);
}

crt_status_t crti_onednn_make_reorder(crti_onednn_t *p, const dnnl_memory_desc_t *from,
                                      const dnnl_memory_desc_t *to)
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
        status = crti_onednn_argument(p, DNNL_ARG_FROM, from);
    return status == CRT_OK ? crti_onednn_argument(p, DNNL_ARG_TO, to) : status;
}

const dnnl_memory_desc_t *crti_onednn_wanted(const_dnnl_primitive_desc_t description,
                                             dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(description, what, 0);
}

size_t crti_onednn_floats(const dnnl_memory_desc_t *memory)
{
    size_t line = 64;

    return (dnnl_memory_desc_get_size(memory) + line - 1) / line * (line / sizeof(float));
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
