/* SPDX-License-Identifier: Apache-2.0 */
/* Fit, the data: a part is drawn for validation, and all goes into the store once. */
#include <stdlib.h>
#include <string.h>

#include "actors/fit.h"

/* A number below `bound`, and the next state. (SplitMix64.) */
static uint64_t draw(uint64_t *state, uint64_t bound)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % bound;
}

/* Fisher and Yates. The caller frees it. */
static uint32_t *draw_order(size_t count, uint64_t seed)
{
    uint32_t *order = malloc(count * sizeof(*order));

    for (size_t i = 0; order && i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = count; order && i > 1; i--) {
        size_t j = (size_t)draw(&seed, i);
        uint32_t kept = order[i - 1];

        order[i - 1] = order[j];
        order[j] = kept;
    }
    return order;
}

/* The rows of `from` that `order` names, in the store. */
static crt_status_t put_rows(const crt_tensor_t *from, const uint32_t *order,
                             size_t count, crt_ref_t **ref_out)
{
    size_t row = crt_tensor_bytes(from) / (size_t)from->shape[0];
    int64_t shape[CRT_TENSOR_DIMS];
    crt_object_t *object;
    crt_tensor_t view;
    crt_status_t status;

    memcpy(shape, from->shape, (size_t)from->rank * sizeof(shape[0]));
    shape[0] = (int64_t)count;
    status = crt_object_create(from->dtype, from->rank, shape, &object, &view);
    if (status != CRT_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        memcpy((char *)view.data + i * row, (const char *)from->data + order[i] * row,
               row);
    *ref_out = crt_object_seal(&object);
    return CRT_OK;
}

/* `order` NULL: all samples as they are. */
static crt_status_t put(const crt_dataset_t *set, const uint32_t *order, size_t count,
                        crti_fit_data_t *data)
{
    crt_status_t status = CRT_OK;

    data->count = count;
    data->classes = crt_dataset_classes(set);
    if (order) {
        status = put_rows(crt_dataset_features(set), order, count, &data->features);
        if (status == CRT_OK)
            status = put_rows(crt_dataset_labels(set), order, count, &data->labels);
    } else {
        data->features = crt_put(crt_dataset_features(set));
        data->labels = crt_put(crt_dataset_labels(set));
    }
    if (status == CRT_OK)
        status = crt_get(data->features, NULL);
    return status == CRT_OK ? crt_get(data->labels, NULL) : status;
}

static crt_status_t put_split(crti_fit_t *f)
{
    size_t count = crt_dataset_count(f->o.train);
    uint32_t *order =
        count <= UINT32_MAX ? draw_order(count, f->spec.seed ^ 0x76616c6964u) : NULL;
    crt_status_t status;

    if (!order)
        return crt_raise(CRT_ERR_NO_MEMORY, "the order of %zu samples", count);
    status = put(f->o.train, order, f->validation.count, &f->validation);
    if (status == CRT_OK)
        status = put(f->o.train, order + f->validation.count, f->train.count, &f->train);
    free(order);
    return status;
}

crt_status_t crti_fit_open_data(crti_fit_t *f)
{
    const crt_fit_options_t *o = &f->o;
    crt_status_t status;

    if (!o->validation && f->validation.count > 0)
        status = put_split(f);
    else
        status = put(o->train, NULL, f->train.count, &f->train);
    if (status == CRT_OK && o->validation)
        status = put(o->validation, NULL, f->validation.count, &f->validation);
    if (status == CRT_OK && o->test)
        status = put(o->test, NULL, crt_dataset_count(o->test), &f->test);
    return status;
}

void crti_fit_close_data(crti_fit_t *f)
{
    crti_fit_data_t *all[] = {&f->train, &f->validation, &f->test};

    for (size_t i = 0; i < 3; i++) {
        crt_ref_drop(&all[i]->features);
        crt_ref_drop(&all[i]->labels);
    }
}
