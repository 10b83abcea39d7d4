/* SPDX-License-Identifier: Apache-2.0 */
/* Who owns which parameters. By bytes: to give each the same number of layers, as spacy-ray does,
 * gives one of two members three quarters of them. */
#include <stdlib.h>
#include <string.h>

#include "train_ner.h"

static int by_size(const void *a, const void *b)
{
    const crt_part_t *x = a, *y = b;

    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return x->first < y->first ? -1 : 1;
}

static int by_place(const void *a, const void *b)
{
    const crt_part_t *x = a, *y = b;

    return x->first < y->first ? -1 : x->first > y->first;
}

static int least(const owned_t *owned, int owners)
{
    int best = 0;

    for (int i = 1; i < owners; i++)
        best = owned[i].floats < owned[best].floats ? i : best;
    return best;
}

owned_t *divide(const crt_model_t *model, int owners)
{
    size_t arrays = crt_model_arrays(model);
    owned_t *owned = calloc((size_t)owners, sizeof(*owned));
    crt_part_t *sized = calloc(arrays, sizeof(*sized));
    bool ok = owned && sized;

    for (size_t i = 0; ok && i < arrays; i++) {
        crt_model_array_t array;

        ok = crt_model_array(model, i, sizeof(array), &array) == CRT_OK;
        sized[i] = (crt_part_t){array.first, array.count};
    }
    for (int i = 0; ok && i < owners; i++)
        ok = (owned[i].parts = calloc(arrays, sizeof(crt_part_t))) != NULL;
    if (ok)
        qsort(sized, arrays, sizeof(*sized), by_size);
    for (size_t i = 0; ok && i < arrays; i++) {
        owned_t *to = &owned[least(owned, owners)];

        to->parts[to->count++] = sized[i];
        to->floats += sized[i].count;
    }
    for (int i = 0; ok && i < owners; i++)
        qsort(owned[i].parts, owned[i].count, sizeof(crt_part_t), by_place);
    free(sized);
    if (ok)
        return owned;
    free_owned(owned, owners);
    return NULL;
}

void free_owned(owned_t *owned, int owners)
{
    for (int i = 0; owned && i < owners; i++)
        free(owned[i].parts);
    free(owned);
}

void pack(const owned_t *owned, const float *flat, float *packed)
{
    for (size_t i = 0; i < owned->count; i++) {
        memcpy(packed, flat + owned->parts[i].first,
               owned->parts[i].count * sizeof(float));
        packed += owned->parts[i].count;
    }
}

void unpack(const owned_t *owned, const float *packed, float *flat)
{
    for (size_t i = 0; i < owned->count; i++) {
        memcpy(flat + owned->parts[i].first, packed,
               owned->parts[i].count * sizeof(float));
        packed += owned->parts[i].count;
    }
}
