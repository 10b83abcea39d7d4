/* SPDX-License-Identifier: Apache-2.0 */
/* Refs and objects come back from their bytes as they were; bytes that are none end the list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/object_records.h"

static const crti_ref_record_t refs[] = {
    {.id = {{1, UINT64_MAX}, 3},
     .size = INT64_MAX,
     .handles = UINT32_MAX,
     .calls = 5,
     .borrowers = 6,
     .kind = CRTI_REF_USED_BY_CALL,
     .value = CRTI_REF_FAILED,
     .is_owned = true,
     .place = "a.c:7"},
    {.id = {{1, 2}, 4}, .kind = CRTI_REF_BORROWED, .place = "a.c:7"},
    {.id = {{1, 2}, 5}, .kind = CRTI_REF_LOCAL, .is_owned = true, .place = ""}};

static void append_refs(crti_buffer_t *bytes)
{
    crti_ref_records_t writer = {.round = 7, .count = 8, .bytes = UINT64_MAX};

    assert_int_equal(crti_ref_records_begin(&writer, bytes), CRT_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(crti_ref_records_add(&writer, &refs[i], bytes), CRT_OK);
}

static void refs_come_back_as_they_were(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crti_ref_records_t reader;
    crti_ref_record_t out;

    append_refs(&bytes);
    assert_int_equal(crti_ref_records_open(crti_span(bytes.data, bytes.size), &reader),
                     CRT_OK);
    assert_int_equal(reader.round, 7);
    assert_int_equal(reader.count, 8);
    assert_true(reader.bytes == UINT64_MAX);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(crti_ref_records_next(&reader, &out), CRT_OK);
        assert_true(crti_object_id_equal(out.id, refs[i].id));
        assert_true(out.size == refs[i].size && out.handles == refs[i].handles);
        assert_true(out.calls == refs[i].calls && out.borrowers == refs[i].borrowers);
        assert_true(out.kind == refs[i].kind && out.value == refs[i].value);
        assert_int_equal(out.is_owned, refs[i].is_owned);
        assert_string_equal(out.place, refs[i].place);
    }
    assert_int_equal(crti_ref_records_next(&reader, &out), CRT_ERR_NOT_FOUND);
}

static void a_place_that_is_too_long_is_cut(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crti_ref_records_t records = {0};
    char place[1000];
    crti_ref_record_t ref = {.id = {{1, 2}, 3}, .place = place};

    memset(place, 'p', sizeof(place) - 1);
    place[sizeof(place) - 1] = '\0';
    assert_int_equal(crti_ref_records_begin(&records, &bytes), CRT_OK);
    assert_int_equal(crti_ref_records_add(&records, &ref, &bytes), CRT_OK);
    assert_int_equal(crti_ref_records_open(crti_span(bytes.data, bytes.size), &records),
                     CRT_OK);
    assert_int_equal(crti_ref_records_next(&records, &ref), CRT_OK);
    assert_int_equal(strlen(ref.place), CRTI_OBJECT_TEXT);
}

static const crti_object_record_t objects[] = {{.id = {{1, 2}, 3},
                                                .size = INT64_MAX,
                                                .pins = 4,
                                                .owner_pid = INT32_MAX,
                                                .is_of_driver = true,
                                                .is_sealed = true,
                                                .is_copy = true},
                                               {.id = {{5, 6}, UINT64_MAX}}};

static void append_node(crti_buffer_t *bytes)
{
    const crti_object_records_t writer = {.node = {9, 9}, .ip = "::1", .holders = 1};
    const crti_holder_record_t holder = {.worker = {1, 2},
                                         .job = {3, 4},
                                         .pid = 17,
                                         .is_driver = true,
                                         .told = crti_span("told", 4)};

    assert_int_equal(crti_object_records_begin(&writer, bytes), CRT_OK);
    assert_int_equal(crti_object_records_add_holder(&holder, bytes), CRT_OK);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(crti_object_records_add(&objects[i], bytes), CRT_OK);
}

static void a_node_comes_back_as_it_was(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crti_object_records_t reader;
    crti_holder_record_t holder;
    crti_object_record_t out;

    append_node(&bytes);
    assert_int_equal(crti_object_records_open(crti_span(bytes.data, bytes.size), &reader),
                     CRT_OK);
    assert_true(crti_id_equal(reader.node, (crti_id_t){9, 9}));
    assert_string_equal(reader.ip, "::1");
    assert_int_equal(crti_object_records_next_holder(&reader, &holder), CRT_OK);
    assert_true(crti_id_equal(holder.worker, (crti_id_t){1, 2}));
    assert_true(crti_id_is_zero(holder.actor) && holder.is_driver && holder.pid == 17);
    assert_memory_equal(holder.told.data, "told", 4);
    assert_int_equal(crti_object_records_next_holder(&reader, &holder),
                     CRT_ERR_NOT_FOUND);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(crti_object_records_next(&reader, &out), CRT_OK);
        assert_true(crti_object_id_equal(out.id, objects[i].id));
        assert_true(out.size == objects[i].size && out.pins == objects[i].pins);
        assert_int_equal(out.owner_pid, objects[i].owner_pid);
        assert_true(out.is_sealed == objects[i].is_sealed &&
                    out.is_copy == objects[i].is_copy &&
                    out.is_of_driver == objects[i].is_of_driver);
    }
    assert_int_equal(crti_object_records_next(&reader, &out), CRT_ERR_NOT_FOUND);
}

/* The first `size` bytes, in memory that ends with them. */
static crti_span_t cut(const crti_buffer_t *bytes, size_t size)
{
    unsigned char *copy = malloc(size + 1);

    assert_non_null(copy);
    memcpy(copy + 1, bytes->data, size);
    return crti_span(copy + 1, size);
}

static void free_cut(crti_span_t bytes)
{
    free((unsigned char *)(uintptr_t)bytes.data - 1);
}

static size_t count_refs(crti_span_t bytes)
{
    crti_ref_records_t reader;
    crti_ref_record_t ref;
    size_t count = 0;

    if (crti_ref_records_open(bytes, &reader) != CRT_OK)
        return 0;
    while (crti_ref_records_next(&reader, &ref) == CRT_OK)
        count++;
    assert_int_equal(crti_ref_records_next(&reader, &ref), CRT_ERR_NOT_FOUND);
    return count;
}

static size_t count_node(crti_span_t bytes)
{
    crti_object_records_t reader;
    crti_holder_record_t holder;
    crti_object_record_t object;
    size_t count = 0;

    if (crti_object_records_open(bytes, &reader) != CRT_OK)
        return 0;
    while (crti_object_records_next_holder(&reader, &holder) == CRT_OK)
        count++;
    while (crti_object_records_next(&reader, &object) == CRT_OK)
        count++;
    return count;
}

static void bytes_that_end_too_early_give_fewer(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t told = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t node = {0};

    append_refs(&told);
    append_node(&node);
    for (size_t size = 0; size < told.size; size++) {
        crti_span_t part = cut(&told, size);

        assert_true(count_refs(part) < 3);
        free_cut(part);
    }
    for (size_t size = 0; size < node.size; size++) {
        crti_span_t part = cut(&node, size);

        assert_true(count_node(part) < 3);
        free_cut(part);
    }
}

static void expect_no_ref(crti_buffer_t *bytes, size_t at, unsigned char byte)
{
    unsigned char before = bytes->data[at];

    bytes->data[at] = byte;
    assert_int_equal(count_refs(crti_span(bytes->data, bytes->size)), 0);
    bytes->data[at] = before;
}

/* Of the first ref, behind 24 bytes: what is there, a size that nobody has, and a text with a zero
 * in it or without one behind it. */
static void a_ref_that_is_none_ends_the_list(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    size_t text = 24 + 1 + 24 + 8 + 12 + 1;

    append_refs(&bytes);
    assert_int_equal(count_refs(crti_span(bytes.data, bytes.size)), 3);
    assert_memory_equal(bytes.data + text, "a.c:7", 6);
    expect_no_ref(&bytes, 24, CRTI_REF_KINDS << 4);
    expect_no_ref(&bytes, 24 + 1 + 24 + 7, 0xff);
    expect_no_ref(&bytes, text + 2, '\0');
    expect_no_ref(&bytes, text + 5, 'x');
}

static void an_object_that_is_none_ends_the_list(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    size_t first;

    append_node(&bytes);
    first = bytes.size - 2 * (1 + 24 + 8 + 4 + 4);
    assert_int_equal(count_node(crti_span(bytes.data, bytes.size)), 3);
    bytes.data[first] = 8;
    assert_int_equal(count_node(crti_span(bytes.data, bytes.size)), 1);
    bytes.data[16 + 1] = '\0'; /* of its address */
    assert_int_equal(count_node(crti_span(bytes.data, bytes.size)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refs_come_back_as_they_were),
        cmocka_unit_test(a_place_that_is_too_long_is_cut),
        cmocka_unit_test(a_node_comes_back_as_it_was),
        cmocka_unit_test(bytes_that_end_too_early_give_fewer),
        cmocka_unit_test(a_ref_that_is_none_ends_the_list),
        cmocka_unit_test(an_object_that_is_none_ends_the_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
