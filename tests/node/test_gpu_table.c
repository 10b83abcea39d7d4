/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs are given out, to leases, actors and workers that end. */
#include "runtime/node/leases/gpu_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/node/leases/lease_table.h"
#include "runtime/node/leases/room.h"

#include <cmocka.h>

#define ONE  CRTI_RESOURCE_ONE
#define SELF ((crti_id_t){0, 1})

static uint64_t take(crti_gpu_table_t *table, int64_t amount)
{
    crti_gpu_share_t share;
    bool fits = crti_gpu_table_fits(table, amount);

    assert_true(crti_gpu_table_take(table, amount, &share) == fits);
    return share.gpus;
}

static void whole_gpus_are_never_given_twice(void **state)
{
    crti_gpu_table_t table;
    uint64_t first, second;

    crti_gpu_table_init(&table, 4);
    first = take(&table, 2 * ONE);
    second = take(&table, 2 * ONE);
    assert_int_equal(first | second, 15);
    assert_int_equal(first & second, 0);
    assert_int_equal(take(&table, ONE), 0);
    assert_int_equal(take(&table, 1), 0);
    assert_true(crti_gpu_table_fits(&table, 0));
}

static void parts_share_the_fullest_gpu_that_has_room(void **state)
{
    crti_gpu_table_t table;

    crti_gpu_table_init(&table, 2);
    assert_int_equal(take(&table, ONE / 2), 1);
    assert_int_equal(take(&table, ONE / 4), 1);
    assert_int_equal(take(&table, ONE / 2), 2); /* GPU 0 has a quarter left */
    assert_int_equal(take(&table, ONE / 4), 1);
    assert_int_equal(take(&table, ONE / 2), 2);
    assert_int_equal(take(&table, 1), 0);
}

static void a_gpu_that_is_free_in_part_is_not_given_whole(void **state)
{
    crti_gpu_table_t table;
    crti_gpu_share_t part;

    crti_gpu_table_init(&table, 2);
    assert_true(crti_gpu_table_take(&table, ONE / 2, &part));
    assert_int_equal(take(&table, 2 * ONE), 0);
    assert_int_equal(take(&table, ONE), 2);
    crti_gpu_table_give(&table, &part);
    assert_int_equal(part.gpus, 0);
    crti_gpu_table_give(&table, &part); /* nothing twice */
    assert_int_equal(take(&table, ONE), 1);
    assert_int_equal(take(&table, 1), 0);
}

static void more_gpus_than_fit_are_cut_off(void **state)
{
    crti_gpu_table_t table;

    crti_gpu_table_init(&table, 1000);
    assert_int_equal(table.count, CRTI_GPUS_MAX);
    assert_int_equal(take(&table, (int64_t)CRTI_GPUS_MAX * ONE), UINT64_MAX);
    assert_int_equal(take(&table, INT64_MAX), 0);
}

/* ---------------------------------------------------------------- in the lease table */

static crti_resources_t gpus(int64_t amount)
{
    crti_resources_t r = {0};

    assert_int_equal(crti_resources_set(&r, "GPU", amount), CRT_OK);
    return r;
}

static crti_id_t id(uint64_t number)
{
    return (crti_id_t){3, number};
}

static crti_lease_state_t ask(crti_lease_table_t *table, uint64_t n, int64_t amount)
{
    crti_lease_t lease = {.id = id(n), .owner_node = SELF, .resources = gpus(amount)};

    assert_int_equal(crti_lease_table_request(table, &lease, CRTI_S), CRT_OK);
    return crti_lease_table_get(table, id(n))->state;
}

static void a_lease_waits_for_a_whole_gpu_while_two_are_half_free(void **state)
{
    CRTI_AUTO(crti_lease_table_free) crti_lease_table_t *table = NULL;
    crti_resources_t two = gpus(2 * ONE), part = gpus(ONE * 6 / 10), one = gpus(ONE);

    assert_int_equal(crti_lease_table_new(SELF, &two, 8, &table), CRT_OK);
    assert_int_equal(ask(table, 1, ONE * 6 / 10), CRTI_LEASE_STARTING);
    assert_int_equal(crti_lease_table_take(table, id(20), id(9), &part), CRT_OK);
    assert_int_equal(ask(table, 2, ONE / 2), CRTI_LEASE_WAITING);
    assert_int_equal(crti_lease_table_take(table, id(21), id(9), &one),
                     CRT_ERR_BACKPRESSURE);
    assert_int_equal(
        crti_holdings_get(&crti_lease_table_room(table)->holdings, id(20))->gpus.gpus, 2);
    crti_lease_table_give(table, id(20), CRTI_S);
    assert_int_equal(crti_lease_table_get(table, id(2))->gpus.gpus, 2);
}

static void
the_gpus_of_a_lease_are_free_when_the_process_of_its_worker_is_gone(void **state)
{
    CRTI_AUTO(crti_lease_table_free) crti_lease_table_t *table = NULL;
    crti_resources_t one = gpus(ONE);

    assert_int_equal(crti_lease_table_new(SELF, &one, 8, &table), CRT_OK);
    assert_int_equal(ask(table, 1, ONE), CRTI_LEASE_STARTING);
    assert_true(crti_lease_table_granted(table, id(1), id(50), CRTI_S));
    assert_int_equal(ask(table, 2, ONE), CRTI_LEASE_WAITING);
    assert_true(crti_lease_table_end(table, id(1), CRTI_S));
    assert_int_equal(crti_lease_table_get(table, id(2))->state, CRTI_LEASE_WAITING);
    crti_lease_table_give(table, id(50), CRTI_S);
    assert_int_equal(crti_lease_table_get(table, id(2))->state, CRTI_LEASE_STARTING);
    assert_true(crti_lease_table_end(table, id(2), CRTI_S)); /* no worker had them yet */
    assert_int_equal(ask(table, 3, ONE), CRTI_LEASE_STARTING);
}

static void one_and_a_half_gpus_are_refused(void **state)
{
    CRTI_AUTO(crti_lease_table_free) crti_lease_table_t *table = NULL;
    crti_resources_t two = gpus(2 * ONE), odd = gpus(ONE * 3 / 2);
    crti_lease_t lease = {.id = id(1), .owner_node = SELF, .resources = odd};

    assert_int_equal(crti_lease_table_new(SELF, &two, 8, &table), CRT_OK);
    assert_int_equal(crti_lease_table_request(table, &lease, CRTI_S), CRT_ERR_INVALID);
    assert_int_equal(crti_lease_table_take(table, id(2), id(9), &odd), CRT_ERR_INVALID);
    assert_string_equal(crt_error_detail(),
                        "1.5 GPU: a part of a GPU, or whole ones, but not both");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_gpus_are_never_given_twice),
        cmocka_unit_test(parts_share_the_fullest_gpu_that_has_room),
        cmocka_unit_test(a_gpu_that_is_free_in_part_is_not_given_whole),
        cmocka_unit_test(more_gpus_than_fit_are_cut_off),
        cmocka_unit_test(a_lease_waits_for_a_whole_gpu_while_two_are_half_free),
        cmocka_unit_test(
            the_gpus_of_a_lease_are_free_when_the_process_of_its_worker_is_gone),
        cmocka_unit_test(one_and_a_half_gpus_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
