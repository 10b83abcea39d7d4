/* SPDX-License-Identifier: Apache-2.0 */
/* What was told of an object, and its bytes in the store, come from different places: a process
 * gone mad may say one thing and have written another. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include "alone.h"
#include "runtime/core/refs/value_of.h"

#include <cmocka.h>

#define OWNERS 1 /* process 1 owns the refs inside */

static int start(void **state)
{
    *state = alone_start();
    return 0;
}

static int finish(void **state)
{
    alone_stop();
    return 0;
}

static crt_status_t name_ref(void *user, crt_ref_t *ref, crti_ref_name_t *name)
{
    *name = (crti_ref_name_t){.id = {ALONE_PROCESS(OWNERS), (uintptr_t)ref},
                              .node = ALONE_NODE(OWNERS),
                              .tcp = {"tcp://a:1", 9}};
    return CRT_OK;
}

/* The encoded list of refs 1 ... count. */
static void encode_refs(crti_buffer_t *out, size_t count)
{
    const crti_naming_t naming = {.name_ref = name_ref};
    crti_encoder_t e = {0};
    crt_arg_t items[8], list;

    for (size_t i = 0; i < count; i++)
        items[i] = crt_arg_ref((crt_ref_t *)(uintptr_t)(i + 1));
    list = crt_list(items, count);
    assert_int_equal(crti_encode(&e, &naming, &list), CRT_OK);
    assert_int_equal(crti_buffer_reserve(out, crti_encoder_size(&e)), CRT_OK);
    out->size = crti_encoder_size(&e);
    crti_encoder_write(&e, out->data);
    crti_encoder_fini(&e);
}

/* An object of ours with these bytes, of which that size and table were told. */
static crt_ref_t *told_of(crti_core_t *core, const void *bytes, size_t size,
                          uint64_t told_size, crti_span_t table)
{
    unsigned char node[16];
    crti_location_t location = {.size = told_size, .nodes = node, .node_count = 1};
    crt_ref_t *ref;
    void *data = NULL;

    crti_put_id(node, ALONE_OUR_NODE);
    crti_net_lock(core->net);
    ref = crti_ref_new(core);
    assert_non_null(ref);
    assert_int_equal(crti_core_join_store(core), CRT_OK);
    assert_int_equal(crti_store_create(core->store, crti_ref_id(ref), size, &data),
                     CRT_OK);
    memcpy(data, bytes, size);
    assert_int_equal(crti_store_seal(core->store, crti_ref_id(ref), true), CRT_OK);
    location.object = crti_ref_id(ref);
    crti_ref_set_stored(ref, &location, table, false);
    crti_net_unlock(core->net);
    return ref;
}

static crt_status_t read_value(crti_core_t *core, crt_ref_t *ref)
{
    const crt_value_t *value;
    crt_status_t status;

    crti_net_lock(core->net);
    assert_true(crti_ref_fetch(ref));
    status = crti_ref_value(ref, &value);
    crti_net_unlock(core->net);
    return status;
}

static void an_object_with_more_refs_than_were_told_of_is_refused(void **state)
{
    crti_buffer_t two = {0}, five = {0};
    crti_span_t table;
    crt_ref_t *ref;

    encode_refs(&two, 2);
    encode_refs(&five, 5);
    assert_int_equal(crti_value_table(two.data, two.size, &table), CRT_OK);
    ref = told_of(*state, five.data, five.size, five.size, table);
    assert_int_equal(read_value(*state, ref), CRT_ERR_PROTOCOL);
    alone_drop(ref);
    ref = told_of(*state, two.data, two.size, two.size, table);
    assert_int_equal(read_value(*state, ref), CRT_OK);
    alone_drop(ref);
    crti_buffer_fini(&two);
    crti_buffer_fini(&five);
}

static void
an_object_ends_where_the_store_says_whatever_its_size_was_told_to_be(void **state)
{
    const int64_t there = 64, shape = (int64_t)1 << 40;
    unsigned char bytes[512] = {0};
    size_t offset,
        size = crti_value_tensor_header(CRT_DTYPE_UINT8, 1, &shape, bytes, &offset);
    crt_ref_t *ref =
        told_of(*state, bytes, offset + (size_t)there, size, (crti_span_t){"", 0});

    assert_int_equal(read_value(*state, ref), CRT_ERR_PROTOCOL);
    alone_drop(ref);
    size = crti_value_tensor_header(CRT_DTYPE_UINT8, 1, &there, bytes, &offset);
    ref = told_of(*state, bytes, size, size + 1000, (crti_span_t){"", 0});
    assert_int_equal(read_value(*state, ref), CRT_OK);
    alone_drop(ref);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            an_object_with_more_refs_than_were_told_of_is_refused, start, finish),
        cmocka_unit_test_setup_teardown(
            an_object_ends_where_the_store_says_whatever_its_size_was_told_to_be, start,
            finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
