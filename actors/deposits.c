/* SPDX-License-Identifier: Apache-2.0 */
/* See actors/deposits.h. */
#include "actors/deposits.h"

#include <stdlib.h>
#include <string.h>

static crt_status_t grow(crti_deposits_t *d, int number)
{
    crti_deposit_slot_t *more;

    if (number < d->count)
        return CRT_OK;
    more = realloc(d->slots, ((size_t)number + 1) * sizeof(*more));
    if (!more)
        return crt_raise(CRT_ERR_NO_MEMORY, "gradients of %d workers", number + 1);
    memset(more + d->count, 0, (size_t)(number + 1 - d->count) * sizeof(*more));
    d->slots = more;
    d->count = number + 1;
    return CRT_OK;
}

/* The slot of a worker, empty if what it has is of another step. */
static crt_status_t slot_of(crti_deposits_t *d, uint64_t step, int number,
                            crti_deposit_slot_t **slot_out)
{
    crt_status_t status;
    crti_deposit_slot_t *slot;

    if (number < 0 || number >= CRTI_DEPOSITS_WORKERS_MAX)
        return crt_raise(CRT_ERR_INVALID, "worker %d sends a gradient, not 0..%d", number,
                         CRTI_DEPOSITS_WORKERS_MAX - 1);
    status = grow(d, number);
    if (status != CRT_OK)
        return status;
    slot = &d->slots[number];
    if (!slot->data) {
        slot->data = malloc(d->floats * sizeof(float));
        slot->low = d->floats;
    }
    if (!slot->data)
        return crt_raise(CRT_ERR_NO_MEMORY, "a gradient of %zu floats", d->floats);
    if (slot->step != step)
        slot->low = d->floats;
    slot->step = step;
    *slot_out = slot;
    return CRT_OK;
}

crt_status_t crti_deposits_add(crti_deposits_t *d, uint64_t step, int number,
                               size_t first, size_t count, const crt_tensor_t *bytes)
{
    crti_deposit_slot_t *slot;
    crt_status_t status = slot_of(d, step, number, &slot);

    if (status != CRT_OK)
        return status;
    if (count == 0 || first > d->floats || count > d->floats - first ||
        first + count < slot->low)
        return crt_raise(
            CRT_ERR_INVALID,
            "%zu floats from %zu on of a gradient of %zu, of which those from "
            "%zu on are there",
            count, first, d->floats, slot->low);
    status = crt_compression_decode(
        bytes->data, crt_tensor_count(bytes) * crt_dtype_size(bytes->dtype),
        slot->data + first, count);
    if (status == CRT_OK && first < slot->low)
        slot->low = first;
    return status;
}

crt_status_t crti_deposits_get(const crti_deposits_t *d, uint64_t step, int number,
                               const float **data_out)
{
    const crti_deposit_slot_t *slot =
        number >= 0 && number < d->count ? &d->slots[number] : NULL;

    if (!slot || !slot->data || slot->step != step || slot->low > 0)
        return crt_raise(CRT_ERR_OBJECT_LOST,
                         "the gradient of worker %d of step %llu is not here", number,
                         (unsigned long long)step);
    *data_out = slot->data;
    return CRT_OK;
}

void crti_deposits_fini(crti_deposits_t *d)
{
    for (int i = 0; i < d->count; i++)
        free(d->slots[i].data);
    free(d->slots);
    *d = (crti_deposits_t){0};
}
