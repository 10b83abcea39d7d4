/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: what is encoded is decoded, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include "runtime/net/frame.h"

#include <cmocka.h>

static const crti_greeting_t greeting = {
    .protocol = 1,
    .window = 1 << 20,
    .from = {1, 2},
    .from_node = {3, 4},
    .to = {5, 6},
    .from_incarnation = 7,
    .to_incarnation = 8,
    .session = 9,
};

static void a_greeting_survives_the_wire(void **state)
{
    crti_frame_t in = {.type = CRTI_FRAME_WELCOME, .session = 11, .greeting = greeting},
                 out;
    unsigned char bytes[CRTI_FRAME_SMALL];
    size_t size = crti_frame_encode(&in, bytes);

    assert_int_equal(crti_frame_decode(bytes, size, &out), CRT_OK);
    assert_int_equal(out.type, CRTI_FRAME_WELCOME);
    assert_int_equal(out.session, 11);
    assert_memory_equal(&out.greeting, &greeting, sizeof(greeting));
}

static void a_long_refusal_is_cut(void **state)
{
    char text[300];
    crti_frame_t in = {.type = CRTI_FRAME_REFUSED, .status = CRT_ERR_PROTOCOL}, out;
    unsigned char bytes[CRTI_FRAME_SMALL];

    memset(text, 'x', sizeof(text));
    in.body = crti_span(text, sizeof(text));
    assert_int_equal(crti_frame_decode(bytes, crti_frame_encode(&in, bytes), &out),
                     CRT_OK);
    assert_int_equal(out.status, CRT_ERR_PROTOCOL);
    assert_int_equal(out.body.size, CRTI_FRAME_TEXT);
}

/* Two records, "ab" and "c", the second one control. */
static size_t make_data(unsigned char *bytes)
{
    crti_frame_t in = {.type = CRTI_FRAME_DATA,
                       .count = 2,
                       .session = 5,
                       .first = 3,
                       .ack = 7,
                       .credit = 9};

    crti_frame_encode_header(&in, bytes);
    crti_frame_encode_size(2, false, bytes + 40);
    memcpy(bytes + 44, "ab", 2);
    crti_frame_encode_size(1, true, bytes + 46);
    bytes[50] = 'c';
    return 51;
}

static void records_come_out_in_order_with_their_marks(void **state)
{
    unsigned char bytes[64];
    crti_span_t record;
    crti_frame_t out;
    bool control;

    assert_int_equal(crti_frame_decode(bytes, make_data(bytes), &out), CRT_OK);
    assert_int_equal(out.first, 3);
    assert_int_equal(out.ack, 7);
    assert_int_equal(out.credit, 9);
    assert_true(crti_frame_next_record(&out.body, &record, &control));
    assert_int_equal(record.size, 2);
    assert_memory_equal(record.data, "ab", 2);
    assert_false(control);
    assert_true(crti_frame_next_record(&out.body, &record, &control));
    assert_memory_equal(record.data, "c", 1);
    assert_true(control);
    assert_false(crti_frame_next_record(&out.body, &record, &control));
}

static void every_wrong_length_is_malformed(void **state)
{
    unsigned char bytes[64] = {0};
    crti_frame_t out;
    size_t size = make_data(bytes);

    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(crti_frame_decode(bytes, cut, &out), CRT_ERR_PROTOCOL);
    assert_int_equal(crti_frame_decode(bytes, size + 1, &out), CRT_ERR_PROTOCOL);
    crti_frame_encode_size(3, false,
                           bytes + 40); /* the first swallows part of the second */
    assert_int_equal(crti_frame_decode(bytes, size, &out), CRT_ERR_PROTOCOL);
    crti_frame_encode_size(0x7fffffff, false, bytes + 40);
    assert_int_equal(crti_frame_decode(bytes, size, &out), CRT_ERR_PROTOCOL);
    crti_frame_encode_size(0, false, bytes + 40);
    assert_int_equal(crti_frame_decode(bytes, size, &out), CRT_ERR_PROTOCOL);
}

static void wrong_counts_and_types_are_malformed(void **state)
{
    unsigned char bytes[64];
    crti_frame_t out;
    size_t size = make_data(bytes);

    bytes[4] = 1; /* one record, but there are two */
    assert_int_equal(crti_frame_decode(bytes, size, &out), CRT_ERR_PROTOCOL);
    bytes[4] = 3;
    assert_int_equal(crti_frame_decode(bytes, size, &out), CRT_ERR_PROTOCOL);
    make_data(bytes);
    memset(bytes + 16, 0, 8); /* numbers begin at 1 */
    assert_int_equal(crti_frame_decode(bytes, size, &out), CRT_ERR_PROTOCOL);
    for (unsigned type = 0; type < 256; type++) {
        make_data(bytes);
        bytes[2] = (unsigned char)type;
        if (type != CRTI_FRAME_DATA && type != CRTI_FRAME_REFUSED)
            assert_int_equal(crti_frame_decode(bytes, size, &out), CRT_ERR_PROTOCOL);
    }
    bytes[0] ^= 1;
    assert_int_equal(crti_frame_decode(bytes, size, &out), CRT_ERR_PROTOCOL);
}

static void another_version_is_told_apart_and_names_its_session(void **state)
{
    crti_frame_t in = {.type = CRTI_FRAME_HELLO, .session = 11, .greeting = greeting},
                 out;
    unsigned char bytes[CRTI_FRAME_SMALL];
    size_t size = crti_frame_encode(&in, bytes);

    bytes[1] = CRTI_FRAME_VERSION + 1;
    assert_int_equal(crti_frame_decode(bytes, size, &out), CRT_ERR_UNSUPPORTED);
    assert_int_equal(out.type, CRTI_FRAME_HELLO);
    assert_int_equal(out.session, 11);
}

static void a_refusal_of_any_version_is_understood(void **state)
{
    crti_frame_t in = {.type = CRTI_FRAME_REFUSED,
                       .status = CRT_ERR_PROTOCOL,
                       .body = crti_span("no", 2)},
                 out;
    unsigned char bytes[CRTI_FRAME_SMALL];
    size_t size = crti_frame_encode(&in, bytes);

    bytes[1] = CRTI_FRAME_VERSION + 1;
    assert_int_equal(crti_frame_decode(bytes, size, &out), CRT_OK);
    assert_memory_equal(out.body.data, "no", 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_greeting_survives_the_wire),
        cmocka_unit_test(a_long_refusal_is_cut),
        cmocka_unit_test(records_come_out_in_order_with_their_marks),
        cmocka_unit_test(every_wrong_length_is_malformed),
        cmocka_unit_test(wrong_counts_and_types_are_malformed),
        cmocka_unit_test(another_version_is_told_apart_and_names_its_session),
        cmocka_unit_test(a_refusal_of_any_version_is_understood),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
