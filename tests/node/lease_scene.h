/* SPDX-License-Identifier: Apache-2.0 */
/* A table of leases and a time, for the tests of who gets a worker. */
#ifndef CRTI_TESTS_NODE_LEASE_SCENE_H
#define CRTI_TESTS_NODE_LEASE_SCENE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/node/leases/lease_table.h"

#include <cmocka.h>

#define SELF        ((crti_id_t){0, 1})
#define WORKERS_MAX 8

typedef struct scene {
    crti_lease_table_t *table;
    uint64_t now;
} scene_t;

static inline crti_resources_t resources_of(const char *text)
{
    crti_resources_t r = {0};

    assert_int_equal(crti_resources_parse(text, &r), CRT_OK);
    return r;
}

static inline crti_resources_t cpus(double count)
{
    crti_resources_t r = {0};

    assert_int_equal(crti_resources_set(&r, "CPU", (int64_t)(count * 10000)), CRT_OK);
    return r;
}

/* A node that has `resources`. */
static inline int scene_setup(void **state, const char *resources)
{
    scene_t *s = calloc(1, sizeof(*s));
    crti_resources_t have = resources_of(resources);

    s->now = 100 * CRTI_S;
    assert_int_equal(crti_lease_table_new(SELF, &have, WORKERS_MAX, &s->table), CRT_OK);
    *state = s;
    return 0;
}

static inline int scene_teardown(void **state)
{
    scene_t *s = *state;

    crti_lease_table_free(s->table);
    free(s);
    return 0;
}

#endif
