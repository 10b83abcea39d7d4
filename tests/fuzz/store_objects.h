/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of a store that is going to be damaged. */
#ifndef CRTI_TESTS_FUZZ_STORE_OBJECTS_H
#define CRTI_TESTS_FUZZ_STORE_OBJECTS_H

#include <string.h>

#include "runtime/store/store.h"

static inline crti_object_id_t object(uint64_t number)
{
    return (crti_object_id_t){{1 + number % 2, 5}, number};
}

static inline void put(crti_store_t *store, uint64_t number, size_t size)
{
    void *data;

    if (crti_store_create(store, object(number), size, &data) == CRT_OK) {
        memset(data, (int)number, size);
        crti_store_seal(store, object(number), number % 2);
    }
}

#endif
