/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages: every kind goes through the encoder and back; damaged bytes are refused. */
#include "runtime/net/message.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t seed = 1;

static uint64_t draw(void)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return seed >> 16;
}

/* Text and bytes that live as long as the test program: borrowed by messages. */
static crti_span_t draw_bytes(bool text)
{
    static unsigned char pool[4096];
    size_t size = draw() % 300, at = draw() % (sizeof(pool) - 300);

    if (pool[0] == 0)
        for (size_t i = 0; i < sizeof(pool); i++)
            pool[i] = (unsigned char)(1 + draw() % 255);
    (void)text; /* no byte of the pool is zero, so all of it is text too */
    return crti_span(pool + at, size);
}

static crti_resources_t draw_resources(int64_t least)
{
    crti_resources_t r = {0};
    unsigned count = draw() % (CRTI_RESOURCES_MAX + 1);

    for (unsigned i = 0; i < count; i++) {
        char name[8];

        snprintf(name, sizeof(name), "r%u", i);
        crti_resources_set(&r, name, (int64_t)(draw() % 100000) + least);
    }
    return r;
}

#define DRAW_U64      draw()
#define DRAW_I64      (int64_t)(draw() << 20)
#define DRAW_F64      (double)draw() / 3
#define DRAW_BOOL     (draw() & 1)
#define DRAW_ID       ((crti_id_t){draw(), draw()})
#define DRAW_OBJECT   ((crti_object_id_t){{draw(), draw()}, draw()})
#define DRAW_STR      draw_bytes(true)
#define DRAW_BIN      draw_bytes(false)
#define DRAW_RES      draw_resources(0)
#define DRAW_ROOM     draw_resources(-1000)
#define SET(type, at) body->at = DRAW_##type;

#define SAME_U64(a, b)    assert_true(a == b)
#define SAME_I64(a, b)    assert_true(a == b)
#define SAME_F64(a, b)    assert_true(a >= b && a <= b)
#define SAME_BOOL(a, b)   assert_true(a == b)
#define SAME_ID(a, b)     assert_true(crti_id_equal(a, b))
#define SAME_OBJECT(a, b) assert_true(crti_object_id_equal(a, b))
#define SAME_STR(a, b)                                                                   \
    assert_true(a.size == b.size && (!a.size || !memcmp(a.data, b.data, a.size)))
#define SAME_BIN(a, b) SAME_STR(a, b)
#define SAME_RES(a, b)                                                                   \
    assert_int_equal(a.count, b.count);                                                  \
    for (unsigned r = 0; r < a.count; r++)                                               \
    assert_true(crti_resources_get(&b, a.item[r].name) == a.item[r].amount)
#define SAME_ROOM(a, b) SAME_RES(a, b)
#define SAME(type, at)  SAME_##type(body->at, back->at);

/* One function per kind that fills, encodes, decodes and compares. */
#define ROUND(NAME, name, number)                                                        \
    static void round_##name(crti_buffer_t *out)                                         \
    {                                                                                    \
        crti_message_t from = {.kind = CRTI_MSG_##NAME}, to;                             \
        crti_msg_##name##_t *body = &from.name, *back = &to.name;                        \
        uint64_t request = draw();                                                       \
                                                                                         \
        CRTI_FIELDS_##NAME(SET) body->unused = 0;                                        \
        assert_int_equal(crti_message_encode(CRTI_MSG_##NAME, request, &from.name, out), \
                         CRT_OK);                                                        \
        assert_int_equal(crti_message_decode(out->data, out->size, &to), CRT_OK);        \
        assert_int_equal(to.kind, CRTI_MSG_##NAME);                                      \
        assert_true(to.request == request);                                              \
        CRTI_FIELDS_##NAME(SAME) back->unused = 0;                                       \
    }
CRTI_MESSAGE_MAP(ROUND)

static const struct {
    crti_message_kind_t kind;
    void (*round)(crti_buffer_t *out);
} kinds[] = {
#define ENTRY(NAME, name, number) {CRTI_MSG_##NAME, round_##name},
    CRTI_MESSAGE_MAP(ENTRY)
#undef ENTRY
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void every_kind_comes_back_as_it_was(void **state)
{
    for (int round = 0; round < 50; round++)
        for (size_t i = 0; i < KINDS; i++) {
            CRTI_AUTO(crti_buffer_fini) crti_buffer_t out = {0};

            kinds[i].round(&out);
        }
}

static void numbers_at_every_edge_come_back(void **state)
{
    for (int shift = 0; shift < 64; shift++)
        for (int64_t near = -2; near <= 2; near++)
            for (int sign = 0; sign < 2; sign++) {
                CRTI_AUTO(crti_buffer_fini) crti_buffer_t out = {0};
                uint64_t bits = (1ull << shift) + (uint64_t)near;
                int64_t number = (int64_t)(sign ? 0 - bits : bits);
                crti_msg_reaped_t body = {
                    .pid = number, .wait_status = number == INT64_MIN ? 0 : -number};
                crti_message_t message;

                if (number == INT64_MIN)
                    body.wait_status = INT64_MAX;
                assert_int_equal(crti_message_encode(CRTI_MSG_REAPED, bits, &body, &out),
                                 CRT_OK);
                assert_int_equal(crti_message_decode(out.data, out.size, &message),
                                 CRT_OK);
                assert_true(message.request == bits);
                assert_true(message.reaped.pid == body.pid);
                assert_true(message.reaped.wait_status == body.wait_status);
            }
}

/* The one field of the message that has resources holds `amount`. */
#define SPOIL_U64(at)
#define SPOIL_I64(at)
#define SPOIL_F64(at)
#define SPOIL_BOOL(at)
#define SPOIL_ID(at)
#define SPOIL_OBJECT(at)
#define SPOIL_STR(at)
#define SPOIL_BIN(at)
#define SPOIL_RES(at)   *spoiled += spoil(&body->at, wants_room, false, amount);
#define SPOIL_ROOM(at)  *spoiled += spoil(&body->at, wants_room, true, amount);
#define SPOIL(type, at) SPOIL_##type(at)
#define SPOILED(NAME, name, number)                                                      \
    static crt_status_t spoiled_##name(bool wants_room, int64_t amount, int *spoiled)    \
    {                                                                                    \
        CRTI_AUTO(crti_buffer_fini) crti_buffer_t out = {0};                             \
        crti_message_t from = {.kind = CRTI_MSG_##NAME}, to;                             \
        crti_msg_##name##_t *body = &from.name;                                          \
                                                                                         \
        body->unused = wants_room && amount && spoiled;                                  \
        CRTI_FIELDS_##NAME(SPOIL) assert_int_equal(                                      \
            crti_message_encode(CRTI_MSG_##NAME, 1, &from.name, &out), CRT_OK);          \
        return crti_message_decode(out.data, out.size, &to);                             \
    }

static int spoil(crti_resources_t *r, bool wants_room, bool is_room, int64_t amount)
{
    if (is_room != wants_room)
        return 0;
    *r = (crti_resources_t){.count = 1, .item = {{"CPU", amount}}};
    return 1;
}
CRTI_MESSAGE_MAP(SPOILED)

/* How many kinds hold such an amount; what the decoder says must be the same for all. */
static int kinds_with(bool is_room, int64_t amount, crt_status_t expected)
{
    static crt_status_t (*const functions[])(bool, int64_t, int *) = {
#define ENTRY(NAME, name, number) spoiled_##name,
        CRTI_MESSAGE_MAP(ENTRY)
#undef ENTRY
    };
    int found = 0;

    for (size_t i = 0; i < KINDS; i++) {
        int spoiled = 0;
        crt_status_t status = functions[i](is_room, amount, &spoiled);

        assert_int_equal(status, spoiled ? expected : CRT_OK);
        found += spoiled;
    }
    return found;
}

static void an_amount_that_is_none_is_refused_in_every_message(void **state)
{
    static const int64_t wrong[] = {-1, -100 * CRTI_RESOURCE_ONE, INT64_MIN,
                                    CRTI_RESOURCE_MAX + 1, INT64_MAX};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_true(kinds_with(false, wrong[i], CRT_ERR_PROTOCOL) >= 9);
    assert_non_null(strstr(crt_error_detail(), "BUNDLE")); /* the last of the list */
    assert_non_null(strstr(crt_error_detail(), "amount"));
    assert_true(kinds_with(false, CRTI_RESOURCE_MAX, CRT_OK) >= 9);
}

static void what_is_available_may_be_below_zero_but_not_beyond_the_largest(void **state)
{
    static const int64_t wrong[] = {CRTI_RESOURCE_MAX + 1, INT64_MAX, INT64_MIN,
                                    -CRTI_RESOURCE_MAX - 1};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(kinds_with(true, wrong[i], CRT_ERR_PROTOCOL), 5);
    assert_int_equal(kinds_with(true, -CRTI_RESOURCE_MAX, CRT_OK), 5);
}

static void every_shorter_prefix_is_refused(void **state)
{
    for (size_t i = 0; i < KINDS; i++) {
        CRTI_AUTO(crti_buffer_fini) crti_buffer_t out = {0};
        crti_message_t message;

        kinds[i].round(&out);
        for (size_t size = 0; size < out.size; size++)
            assert_int_equal(crti_message_decode(out.data, size, &message),
                             CRT_ERR_PROTOCOL);
    }
}

static void bytes_behind_a_message_are_refused(void **state)
{
    for (size_t i = 0; i < KINDS; i++) {
        CRTI_AUTO(crti_buffer_fini) crti_buffer_t out = {0};
        crti_message_t message;

        kinds[i].round(&out);
        assert_int_equal(crti_buffer_append(&out, "\xc0", 1), CRT_OK);
        assert_int_equal(crti_message_decode(out.data, out.size, &message),
                         CRT_ERR_PROTOCOL);
    }
}

static void a_body_of_null_is_all_zero(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t out = {0};
    crti_message_t message;

    for (size_t i = 0; i < KINDS; i++) {
        out.size = 0;
        assert_int_equal(crti_message_encode(kinds[i].kind, 7, NULL, &out), CRT_OK);
        assert_int_equal(crti_message_decode(out.data, out.size, &message), CRT_OK);
        assert_int_equal(message.kind, kinds[i].kind);
    }
}

static void an_unknown_kind_is_named_in_the_error(void **state)
{
    const unsigned char bytes[] = {0x92, 0xcd, 0x03, 0xe7, 0x01}; /* [999, 1] */
    crti_message_t message;

    assert_int_equal(crti_message_decode(bytes, sizeof(bytes), &message),
                     CRT_ERR_PROTOCOL);
    assert_non_null(strstr(crt_error_detail(), "999"));
    assert_int_equal(
        crti_message_encode((crti_message_kind_t)999, 1, NULL, &(crti_buffer_t){0}),
        CRT_ERR_INVALID);
}

static void text_with_a_zero_byte_is_refused(void **state)
{
    crti_msg_actor_find_t body = {.name = crti_span("a\0b", 3)};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t out = {0};
    crti_message_t message;

    assert_int_equal(crti_message_encode(CRTI_MSG_ACTOR_FIND, 1, &body, &out), CRT_OK);
    assert_int_equal(crti_message_decode(out.data, out.size, &message), CRT_ERR_PROTOCOL);
}

static void an_array_inside_is_refused_before_it_is_allocated(void **state)
{
    /* [33, 1, array of 2^32 - 1 elements] */
    const unsigned char bytes[] = {0x93, 33, 1, 0xdd, 0xff, 0xff, 0xff, 0xff};
    crti_message_t message;

    assert_int_equal(crti_message_decode(bytes, sizeof(bytes), &message),
                     CRT_ERR_PROTOCOL);
}

static void lists_give_back_their_entries_and_refuse_bad_lengths(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    crti_span_t rest, entry;

    assert_int_equal(crti_list_pack(&list, "one", 3), CRT_OK);
    assert_int_equal(crti_list_pack(&list, "", 0), CRT_OK);
    assert_int_equal(crti_list_pack(&list, "three", 5), CRT_OK);
    rest = crti_span(list.data, list.size);
    assert_int_equal(crti_list_unpack(&rest, &entry), CRT_OK);
    assert_true(crti_str_equal(entry, "one"));
    assert_int_equal(crti_list_unpack(&rest, &entry), CRT_OK);
    assert_int_equal(entry.size, 0);
    assert_int_equal(crti_list_unpack(&rest, &entry), CRT_OK);
    assert_true(crti_str_equal(entry, "three"));
    assert_int_equal(crti_list_unpack(&rest, &entry), CRT_ERR_NOT_FOUND);
    rest = crti_span("\xff\xff\xff\x7fxx", 6);
    assert_int_equal(crti_list_unpack(&rest, &entry), CRT_ERR_PROTOCOL);
    rest = crti_span("\x01", 1);
    assert_int_equal(crti_list_unpack(&rest, &entry), CRT_ERR_PROTOCOL);
}

static void a_copy_has_its_texts_behind_it_each_ended_by_a_zero(void **state)
{
    char name[] = "counter";
    crti_msg_actor_create_t m = {
        .name = crti_str(name), .creation = crti_span("a\0b", 3), .max_restarts = 3};
    crti_msg_actor_create_t *copy = crti_message_copy(CRTI_MSG_ACTOR_CREATE, &m);

    assert_non_null(copy);
    memset(name, 'x', sizeof(name));
    assert_string_equal(crti_copied_text(copy->name), "counter");
    assert_string_equal(crti_copied_text(copy->class_name), "");
    assert_int_equal(copy->creation.size, 3);
    assert_memory_equal(copy->creation.data, "a\0b", 4);
    assert_int_equal(copy->max_restarts, 3);
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_comes_back_as_it_was),
        cmocka_unit_test(numbers_at_every_edge_come_back),
        cmocka_unit_test(an_amount_that_is_none_is_refused_in_every_message),
        cmocka_unit_test(what_is_available_may_be_below_zero_but_not_beyond_the_largest),
        cmocka_unit_test(every_shorter_prefix_is_refused),
        cmocka_unit_test(bytes_behind_a_message_are_refused),
        cmocka_unit_test(a_body_of_null_is_all_zero),
        cmocka_unit_test(an_unknown_kind_is_named_in_the_error),
        cmocka_unit_test(text_with_a_zero_byte_is_refused),
        cmocka_unit_test(an_array_inside_is_refused_before_it_is_allocated),
        cmocka_unit_test(lists_give_back_their_entries_and_refuse_bad_lengths),
        cmocka_unit_test(a_copy_has_its_texts_behind_it_each_ended_by_a_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
