/* SPDX-License-Identifier: Apache-2.0 */
/* JSON that is written by hand is JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/json_write.h"

static void expect(crti_json_writer_t *w, const char *text)
{
    char *taken = crti_json_take(w, CRT_OK);

    assert_non_null(taken);
    assert_string_equal(taken, text);
    free(taken);
    w->wants_comma = false;
}

static void commas_stand_between_members_and_entries(void **state)
{
    crti_buffer_t text = {0};
    crti_json_writer_t w = {.out = &text};

    crti_json_open(&w, '{');
    crti_json_key(&w, "a");
    crti_json_open(&w, '[');
    crti_json_close(&w, ']');
    crti_json_key(&w, "b");
    crti_json_open(&w, '[');
    crti_json_integer(&w, -1);
    crti_json_bool(&w, true);
    crti_json_null(&w);
    crti_json_open(&w, '{');
    crti_json_close(&w, '}');
    crti_json_close(&w, ']');
    crti_json_close(&w, '}');
    expect(&w, "{\"a\":[],\"b\":[-1,true,null,{}]}");
}

static void numbers_keep_what_they_are(void **state)
{
    crti_buffer_t text = {0};
    crti_json_writer_t w = {.out = &text};

    crti_json_real(&w, 0.5);
    crti_json_real(&w, 2);
    crti_json_real(&w, 1e-7);
    crti_json_ms(&w, UINT64_C(1763700000000125999));
    crti_json_ms(&w, 7000);
    expect(&w, "0.5,2.0,1e-07,1763700000000.125,0.007");
}

static void ids_are_hex_digits_or_nothing(void **state)
{
    crti_buffer_t text = {0};
    crti_json_writer_t w = {.out = &text};

    crti_json_id(&w, (crti_id_t){0, 0});
    crti_json_id(&w, (crti_id_t){1, 0xa});
    crti_json_object_id(&w, (crti_object_id_t){{1, 0xa}, 0});
    crti_json_object_id(&w, (crti_object_id_t){{1, 0xa}, 0xb});
    expect(&w, "\"\",\"0000000000000001000000000000000a\",\"\","
               "\"0000000000000001000000000000000a000000000000000b\"");
}

static void texts_of_users_become_valid_ones(void **state)
{
    static const char *const wrong[] = {"\xff",
                                        "\xc3",
                                        "\xc0\x80",
                                        "\xe0\x80\x80",
                                        "\xed\xa0\x80",
                                        "\xe2\x82",
                                        "\xf0\x80\x80\x80",
                                        "\xf4\x90\x80\x80",
                                        "\x80",
                                        "\xf5\x80\x80\x80"};
    crti_buffer_t text = {0};
    crti_json_writer_t w = {.out = &text};

    crti_json_text(&w, NULL);
    crti_json_text(&w, "a\"\\\n\x01");
    crti_json_text(&w, "gr\xc3\xbc\xc3\x9f\x65 \xe2\x82\xac \xf0\x9f\x98\x80");
    expect(&w, "\"\",\"a\\\"\\\\\\n\\u0001\",\"gr\xc3\xbc\xc3\x9f\x65 \xe2\x82\xac "
               "\xf0\x9f\x98\x80\"");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        crti_json_text(&w, wrong[i]);
        for (size_t k = 0; k < text.size; k++)
            assert_true(text.data[k] < 0x80);
        crti_buffer_fini(&text);
        w.wants_comma = false;
    }
}

static void what_failed_is_not_taken(void **state)
{
    crti_buffer_t text = {0};
    crti_json_writer_t w = {.out = &text};

    crti_json_integer(&w, 1);
    assert_null(crti_json_take(&w, CRT_ERR_INVALID));
    assert_null(text.data);
    w = (crti_json_writer_t){.out = &text, .status = CRT_ERR_NO_MEMORY};
    assert_null(crti_json_take(&w, CRT_OK));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_stand_between_members_and_entries),
        cmocka_unit_test(numbers_keep_what_they_are),
        cmocka_unit_test(ids_are_hex_digits_or_nothing),
        cmocka_unit_test(texts_of_users_become_valid_ones),
        cmocka_unit_test(what_failed_is_not_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
