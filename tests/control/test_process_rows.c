/* SPDX-License-Identifier: Apache-2.0 */
/* What processes tell of their refs becomes one list, and one of objects with those who hold them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "runtime/control/control_int.h"

#define OWNER    "000000000000000000000000000000aa"
#define BORROWER "000000000000000000000000000000bb"
#define OBJECT   OWNER "0000000000000001"

/* A process of a node's answer; `said`: JSON as a text. */
static json_t *process(const char *worker, const char *said)
{
    return json_pack("{s:s, s:i, s:s, s:s}", "worker_id", worker, "pid", 17, "node_id",
                     "n", "said", said);
}

/* One answer of a node with both, and one that is no JSON. */
static void pack(crti_buffer_t *list, json_t *first, json_t *second)
{
    json_t *answer = json_pack("{s:[o, o], s:[{s:s, s:i}]}", "processes", first, second,
                               "objects", "object_id", OBJECT, "size", 1000);
    CRTI_AUTO(free) char *text = json_dumps(answer, 0);

    assert_int_equal(crti_list_pack(list, text, strlen(text)), CRT_OK);
    assert_int_equal(crti_list_pack(list, "no JSON", 7), CRT_OK);
    json_decref(answer);
}

static json_t *load(char *text_take)
{
    json_t *json = json_loads(text_take, 0, NULL);

    free(text_take);
    assert_non_null(json);
    return json;
}

static const char *text_of(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

static const char owner_says[] =
    "{\"round\":1,\"refs\":[{\"object_id\":\"" OBJECT "\",\"size\":1000,\"handles\":1,"
    "\"calls\":2,\"borrower_count\":1,\"place\":\"a.c:7\",\"kind\":"
    "\"USED_BY_PENDING_TASK\",\"content\":\"STORED\"}],\"count\":5,\"bytes\":2000}";
static const char borrower_says[] =
    "{\"round\":1,\"refs\":[{\"object_id\":\"" OBJECT "\",\"size\":1000,\"handles\":1,"
    "\"place\":\"lies.c:1\",\"kind\":\"BORROWED_REFERENCE\",\"content\":\"STORED\"}],"
    "\"count\":1,\"bytes\":0}";

static void a_borrowed_ref_was_made_where_its_owner_says(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    const json_t *refs;
    json_t *all;

    pack(&list, process(BORROWER, borrower_says), process(OWNER, owner_says));
    all = load(crti_ref_rows_join(crti_span(list.data, list.size), 2));
    refs = json_object_get(all, "refs");
    assert_int_equal(json_array_size(refs), 2);
    for (size_t i = 0; i < 2; i++)
        assert_string_equal(text_of(json_array_get(refs, i), "call_site"), "a.c:7");
    assert_string_equal(text_of(json_array_get(refs, 0), "kind"), "BORROWED_REFERENCE");
    assert_int_equal(json_integer_value(json_object_get(all, "count")), 6);
    assert_int_equal(json_integer_value(json_object_get(all, "bytes")), 2000);
    assert_int_equal(json_integer_value(json_object_get(all, "silent_processes")), 0);
    assert_int_equal(json_integer_value(json_object_get(all, "silent_nodes")), 2);
    json_decref(all);
}

static void who_says_nothing_or_nonsense_is_counted(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    json_t *all;

    pack(&list, process(BORROWER, ""), process(OWNER, "{\"refs\":[17"));
    all = load(crti_ref_rows_join(crti_span(list.data, list.size), 0));
    assert_int_equal(json_array_size(json_object_get(all, "refs")), 0);
    assert_int_equal(json_integer_value(json_object_get(all, "silent_processes")), 2);
    json_decref(all);
    pack(&list, process(BORROWER, "{\"refs\":[17,null,{}]}"),
         process(OWNER, "{\"refs\":{},\"count\":\"many\"}"));
    all = load(crti_ref_rows_join(crti_span(list.data, list.size), 0));
    assert_int_equal(json_integer_value(json_object_get(all, "count")), 0);
    json_decref(all);
}

static void an_object_has_all_who_hold_it(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    const json_t *object;
    json_t *all;

    pack(&list, process(BORROWER, borrower_says), process(OWNER, owner_says));
    all = load(crti_object_rows_join(crti_span(list.data, list.size), crti_str("")));
    object = json_array_get(all, 0);
    assert_string_equal(text_of(object, "call_site"), "a.c:7");
    assert_string_equal(text_of(object, "kind"), "USED_BY_PENDING_TASK");
    assert_int_equal(json_array_size(json_object_get(object, "holders")), 2);
    json_decref(all);
}

/* Three objects, of which one has holders. */
static void expect_picked(const char *query, size_t shown, json_int_t matched,
                          size_t holders)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    json_t *answer =
        json_pack("{s:[o], s:[{s:s, s:i, s:b}, {s:s, s:i, s:b}, {}]}", "processes",
                  process(OWNER, owner_says), "objects", "object_id", OBJECT, "size",
                  1000, "is_copy", 0, "object_id", "other", "size", 7, "is_copy", 1);
    CRTI_AUTO(free) char *text = json_dumps(answer, 0);
    const json_t *rows;
    size_t held = 0;
    json_t *all;

    assert_int_equal(crti_list_pack(&list, text, strlen(text)), CRT_OK);
    json_decref(answer);
    all = load(crti_object_rows_join(crti_span(list.data, list.size), crti_str(query)));
    rows = json_object_get(all, "objects");
    for (size_t i = 0; i < json_array_size(rows); i++)
        held += json_array_size(json_object_get(json_array_get(rows, i), "holders"));
    if (json_array_size(rows) != shown || held != holders ||
        json_integer_value(json_object_get(all, "matched")) != matched)
        fail_msg("%s: %zu rows, %zu holders", query, json_array_size(rows), held);
    assert_int_equal(json_integer_value(json_object_get(all, "all")), 3);
    json_decref(all);
}

static void a_query_picks_objects_by_what_lies_in_the_store(void **state)
{
    expect_picked("{}", 3, 3, 1);
    expect_picked("{\"limit\":1}", 1, 3, 1);
    expect_picked("{\"limit\":0}", 0, 3, 0);
    expect_picked("{\"filters\":[[\"size\",false,[7]]]}", 1, 1, 0);
    expect_picked("{\"filters\":[[\"size\",true,[7]]]}", 2, 2, 1);
    expect_picked("{\"filters\":[[\"is_copy\",false,[false]],"
                  "[\"object_id\",false,[\"" OBJECT "\"]]]}",
                  1, 1, 1);
}

static void objects_are_not_picked_by_what_processes_say(void **state)
{
    static const char *const bad[] = {"{\"filters\":[[\"call_site\",false,[\"a\"]]]}",
                                      "{\"count_by\":[\"node_id\"]}", "{"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(crti_object_rows_check(crti_str(bad[i])), CRT_ERR_INVALID);
    assert_int_equal(crti_object_rows_check(crti_str("{}")), CRT_OK);
    assert_int_equal(crti_object_rows_check(crti_str(OBJECT)), CRT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_borrowed_ref_was_made_where_its_owner_says),
        cmocka_unit_test(who_says_nothing_or_nonsense_is_counted),
        cmocka_unit_test(an_object_has_all_who_hold_it),
        cmocka_unit_test(a_query_picks_objects_by_what_lies_in_the_store),
        cmocka_unit_test(objects_are_not_picked_by_what_processes_say),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
