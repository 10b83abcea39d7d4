/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the store share: an arena with attachments in this process, objects whose
 * bytes follow from their number, and the wish that everything holds. */
#ifndef CRT_TESTS_STORE_TEST_H
#define CRT_TESTS_STORE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/clock.h"
#include "runtime/store/reclaim.h"
#include "tests/store/check.h"

#define MIB 1048576u

#define assert_ok(expression)                                                            \
    do {                                                                                 \
        crt_status_t assert_ok_status = (expression);                                    \
        if (assert_ok_status != CRT_OK)                                                  \
            fail_msg("%s: %s: %s", #expression, crt_status_name(assert_ok_status),       \
                     crt_error_detail());                                                \
    } while (0)

static inline crti_object_id_t object(uint64_t owner, uint64_t number)
{
    return (crti_object_id_t){{owner, ~owner}, number};
}

static inline uint8_t byte_of(crti_object_id_t id, size_t i)
{
    return (uint8_t)(id.number * 31 + id.owner.high + i * 7);
}

static inline void fill(void *data, crti_object_id_t id, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)data)[i] = byte_of(id, i);
}

/* The first wrong byte, or `size`. */
static inline size_t first_wrong(const void *data, crti_object_id_t id, size_t size)
{
    size_t i = 0;

    while (i < size && ((const uint8_t *)data)[i] == byte_of(id, i))
        i++;
    return i;
}

static inline crt_status_t put(crti_store_t *store, crti_object_id_t id, size_t size,
                               bool primary)
{
    void *data;
    crt_status_t status = crti_store_create(store, id, size, &data);

    if (status != CRT_OK)
        return status;
    fill(data, id, size);
    return crti_store_seal(store, id, primary);
}

static inline crti_store_t *new_store(size_t bytes)
{
    crti_store_t *store = NULL;

    assert_ok(crti_store_new(bytes, 64, &store));
    return store;
}

static inline crti_store_t *join(const crti_store_t *daemon, unsigned slot)
{
    crti_store_t *store = NULL;

    assert_ok(crti_store_attach(crti_store_fd(daemon), slot,
                                (crti_id_t){slot, ~(uint64_t)slot}, &store));
    return store;
}

static inline size_t used_bytes(crti_store_t *store)
{
    struct crti_store_stats stats;

    crti_store_stats(store, &stats);
    return stats.used;
}

#endif
