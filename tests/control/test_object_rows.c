/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes and processes tell of objects and refs becomes a list of objects with those who hold
 * them, their numbers, and a list of refs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "runtime/base/object_records.h"
#include "runtime/control/rows/state_rows.h"
#include "runtime/net/message.h"

#define OWNER_HEX "000000000000000000000000000000aa"
#define OBJECT    OWNER_HEX "0000000000000001"

static const crti_id_t owner = {0, 0xaa}, borrower = {0, 0xbb}, job = {0, 0xcc},
                       host = {0, 0xdd};

/* A node's answer in the making. */
typedef struct scene {
    crti_buffer_t answers, node, told;
    crti_ref_records_t refs;
} scene_t;

static void begin_node(scene_t *s, uint32_t holders)
{
    crti_object_records_t records = {.node = host, .ip = "10.0.0.1", .holders = holders};

    *s = (scene_t){0};
    assert_int_equal(crti_object_records_begin(&records, &s->node), CRT_OK);
}

static void begin_process(scene_t *s, uint64_t count, uint64_t bytes)
{
    s->told.size = 0;
    s->refs = (crti_ref_records_t){.round = 1, .count = count, .bytes = bytes};
    assert_int_equal(crti_ref_records_begin(&s->refs, &s->told), CRT_OK);
}

static void add_ref(scene_t *s, uint64_t number, crti_ref_kind_t kind, const char *place)
{
    crti_ref_record_t ref = {.id = {owner, number},
                             .size = 1000 * number,
                             .handles = 1,
                             .calls = 2,
                             .borrowers = 1,
                             .kind = kind,
                             .value = CRTI_REF_STORED,
                             .is_owned = kind != CRTI_REF_BORROWED,
                             .place = place};

    assert_int_equal(crti_ref_records_add(&s->refs, &ref, &s->told), CRT_OK);
}

static void end_process(scene_t *s, crti_id_t worker)
{
    crti_holder_record_t holder = {.worker = worker,
                                   .job = job,
                                   .pid = 17,
                                   .is_driver = true,
                                   .told = crti_span(s->told.data, s->told.size)};

    assert_int_equal(crti_object_records_add_holder(&holder, &s->node), CRT_OK);
}

static void add_object(scene_t *s, uint64_t number, uint64_t size, bool is_copy)
{
    crti_object_record_t object = {.id = {owner, number},
                                   .size = size,
                                   .pins = 1,
                                   .owner_pid = 17,
                                   .is_of_driver = true,
                                   .is_sealed = number != 3,
                                   .is_copy = is_copy};

    assert_int_equal(crti_object_records_add(&object, &s->node), CRT_OK);
}

/* And one that is no answer. */
static crti_span_t end_node(scene_t *s)
{
    assert_int_equal(crti_list_pack(&s->answers, s->node.data, s->node.size), CRT_OK);
    assert_int_equal(crti_list_pack(&s->answers, "no records", 10), CRT_OK);
    return crti_span(s->answers.data, s->answers.size);
}

static void end_scene(scene_t *s)
{
    crti_buffer_fini(&s->answers);
    crti_buffer_fini(&s->node);
    crti_buffer_fini(&s->told);
}

/* The owner of object 1 and who borrows it, who is heard first; object 2, larger, and object 3,
 * being written, nobody holds. */
static crti_span_t two_processes(scene_t *s)
{
    begin_node(s, 2);
    begin_process(s, 1, 0);
    add_ref(s, 1, CRTI_REF_BORROWED, "lies.c:1");
    end_process(s, borrower);
    begin_process(s, 5, 2000);
    add_ref(s, 1, CRTI_REF_USED_BY_CALL, "a.c:7");
    end_process(s, owner);
    add_object(s, 2, 7000, true);
    add_object(s, 1, 1000, false);
    add_object(s, 3, 500, false);
    return end_node(s);
}

static json_t *load(char *text_take)
{
    json_t *json;

    assert_non_null(text_take);
    json = json_loads(text_take, 0, NULL);
    free(text_take);
    assert_non_null(json);
    return json;
}

static const char *text_of(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

static json_int_t number_of(const json_t *row, const char *key)
{
    return json_integer_value(json_object_get(row, key));
}

static void a_borrowed_ref_was_made_where_its_owner_says(void **state)
{
    scene_t s;
    json_t *all = load(crti_ref_rows_join(two_processes(&s), crti_str(""), 2));
    const json_t *refs = json_object_get(all, "refs");

    assert_int_equal(json_array_size(refs), 2);
    for (size_t i = 0; i < 2; i++)
        assert_string_equal(text_of(json_array_get(refs, i), "call_site"), "a.c:7");
    assert_string_equal(text_of(json_array_get(refs, 0), "kind"), "BORROWED_REFERENCE");
    assert_string_equal(text_of(json_array_get(refs, 0), "object_id"), OBJECT);
    assert_true(json_is_null(json_object_get(json_array_get(refs, 0), "calls")));
    assert_int_equal(number_of(json_array_get(refs, 1), "calls"), 2);
    assert_string_equal(text_of(json_array_get(refs, 1), "worker_type"), "DRIVER");
    assert_int_equal(number_of(all, "count"), 6);
    assert_int_equal(number_of(all, "bytes"), 2000);
    assert_int_equal(number_of(all, "silent_processes"), 0);
    assert_int_equal(number_of(all, "silent_nodes"), 2);
    json_decref(all);
    end_scene(&s);
}

static void a_query_picks_the_largest_refs(void **state)
{
    scene_t s;
    const json_t *refs;
    json_t *all;
    crti_span_t answers;

    begin_node(&s, 1);
    begin_process(&s, 3, 6000);
    for (uint64_t number = 1; number <= 3; number++)
        add_ref(&s, number, number == 3 ? CRTI_REF_LENT : CRTI_REF_LOCAL, "a.c:7");
    end_process(&s, owner);
    answers = end_node(&s);
    all = load(crti_ref_rows_join(answers, crti_str("{\"limit\":2}"), 0));
    refs = json_object_get(all, "refs");
    assert_int_equal(json_array_size(refs), 2);
    assert_int_equal(number_of(json_array_get(refs, 0), "size"), 3000);
    assert_int_equal(number_of(json_array_get(refs, 1), "size"), 2000);
    assert_int_equal(number_of(all, "matched"), 3);
    assert_int_equal(number_of(all, "count"), 3);
    json_decref(all);
    all = load(crti_ref_rows_join(
        answers, crti_str("{\"filters\":[[\"kind\",false,[\"lent_reference\"]]]}"), 0));
    assert_int_equal(number_of(all, "matched"), 1);
    json_decref(all);
    assert_int_equal(crti_ref_rows_check(crti_str("{\"count_by\":[\"kind\"]}")),
                     CRT_ERR_INVALID);
    assert_int_equal(crti_ref_rows_check(crti_str("{\"filters\":[[\"age\",false,[1]]]}")),
                     CRT_ERR_INVALID);
    end_scene(&s);
}

static void who_says_nothing_or_nonsense_is_counted(void **state)
{
    scene_t s;
    json_t *all;

    begin_node(&s, 3);
    s.told.size = 0;
    end_process(&s, borrower);
    assert_int_equal(crti_buffer_append(&s.told, "short", 5), CRT_OK);
    end_process(&s, borrower);
    begin_process(&s, 9, 9); /* a ref, and what is none */
    add_ref(&s, 1, CRTI_REF_LOCAL, "a.c:7");
    assert_int_equal(crti_buffer_append(&s.told, "\xff\xff\xff", 3), CRT_OK);
    end_process(&s, owner);
    all = load(crti_ref_rows_join(end_node(&s), crti_str(""), 0));
    assert_int_equal(json_array_size(json_object_get(all, "refs")), 1);
    assert_int_equal(number_of(all, "silent_processes"), 2);
    assert_int_equal(number_of(all, "count"), 9);
    json_decref(all);
    end_scene(&s);
}

static void an_object_has_all_who_hold_it(void **state)
{
    scene_t s;
    json_t *all = load(crti_object_rows_join(two_processes(&s), crti_str("")));
    const json_t *object = json_array_get(all, 1), *other = json_array_get(all, 0);

    assert_int_equal(json_array_size(all), 3);
    assert_string_equal(text_of(object, "object_id"), OBJECT);
    assert_string_equal(text_of(object, "call_site"), "a.c:7");
    assert_string_equal(text_of(object, "kind"), "USED_BY_PENDING_TASK");
    assert_string_equal(text_of(object, "reference_type"), "USED_BY_PENDING_TASK");
    assert_string_equal(text_of(object, "ip"), "10.0.0.1");
    assert_int_equal(number_of(object, "calls"), 2);
    assert_int_equal(json_array_size(json_object_get(object, "holders")), 2);
    assert_string_equal(text_of(other, "call_site"), "");
    assert_string_equal(text_of(other, "reference_type"), "PINNED_IN_MEMORY");
    assert_true(json_is_null(json_object_get(other, "calls")));
    assert_int_equal(json_array_size(json_object_get(other, "holders")), 0);
    json_decref(all);
    all = load(crti_object_rows_join(crti_span(s.answers.data, s.answers.size),
                                     crti_str(OBJECT)));
    assert_int_equal(json_array_size(all), 1);
    json_decref(all);
    end_scene(&s);
}

/* How many of the objects are shown, how many match, and how many hold those that are shown. */
static void expect_picked(const char *query, size_t shown, json_int_t matched,
                          size_t holders)
{
    scene_t s;
    json_t *all = load(crti_object_rows_join(two_processes(&s), crti_str(query)));
    const json_t *rows = json_object_get(all, "objects");
    size_t held = 0;

    for (size_t i = 0; i < json_array_size(rows); i++)
        held += json_array_size(json_object_get(json_array_get(rows, i), "holders"));
    if (json_array_size(rows) != shown || held != holders ||
        number_of(all, "matched") != matched)
        fail_msg("%s: %zu rows, %zu holders", query, json_array_size(rows), held);
    assert_int_equal(number_of(all, "all"), 3);
    json_decref(all);
    end_scene(&s);
}

static void a_query_picks_objects(void **state)
{
    expect_picked("{}", 3, 3, 2);
    expect_picked("{\"limit\":1}", 1, 3, 0);
    expect_picked("{\"limit\":2}", 2, 3, 2);
    expect_picked("{\"limit\":0}", 0, 3, 0);
    expect_picked("{\"filters\":[[\"size\",false,[7000]]]}", 1, 1, 0);
    expect_picked("{\"filters\":[[\"size\",true,[7000]]]}", 2, 2, 2);
    expect_picked("{\"filters\":[[\"is_copy\",false,[false]],"
                  "[\"object_id\",false,[\"" OBJECT "\"]]]}",
                  1, 1, 2);
}

/* Those who hold them were heard before. */
static void a_query_picks_objects_by_what_processes_say(void **state)
{
    expect_picked("{\"filters\":[[\"call_site\",false,[\"a.c:7\"]]]}", 1, 1, 2);
    expect_picked("{\"limit\":1,\"filters\":[[\"call_site\",true,[\"a.c:7\"]]]}", 1, 2,
                  0);
    expect_picked("{\"filters\":[[\"calls\",false,[2]]]}", 1, 1, 2);
    expect_picked("{\"filters\":[[\"call_site\",false,[\"lies.c:1\"]]]}", 0, 0, 0);
    expect_picked("{\"filters\":[[\"reference_type\",false,[\"PINNED_IN_MEMORY\"]]]}", 2,
                  2, 0);
}

static void objects_are_counted_and_their_sizes_added_up(void **state)
{
    scene_t s;
    json_t *all = load(crti_object_rows_join(
        two_processes(&s), crti_str("{\"count_by\":[\"call_site\",\"is_sealed\"],"
                                    "\"sum\":\"size\"}")));
    json_t *wanted = json_loads(
        "{\"groups\":[{\"call_site\":\"\",\"is_sealed\":true,\"count\":1,\"sum\":7000},"
        "{\"call_site\":\"a.c:7\",\"is_sealed\":true,\"count\":1,\"sum\":1000},"
        "{\"call_site\":\"\",\"is_sealed\":false,\"count\":1,\"sum\":500}],"
        "\"all\":3,\"matched\":3}",
        0, NULL);

    assert_non_null(wanted);
    assert_true(json_equal(all, wanted));
    json_decref(wanted);
    json_decref(all);
    end_scene(&s);
}

static void rows_have_the_shape_that_is_asked_for(void **state)
{
    scene_t s;
    json_t *all = load(crti_object_rows_join(
        two_processes(&s),
        crti_str("{\"limit\":2,\"show\":[[\"bytes\",\"size\"],[\"place\",\"call_site\","
                 "{\"\":null}],[\"state\",\"is_copy\",{\"true\":\"COPY\"}],"
                 "[\"age\",null,1],[\"none\",null,null]],"
                 "\"filters\":[[\"call_site\",true,[]]]}")));
    json_t *wanted = json_loads(
        "{\"objects\":[{\"bytes\":7000,\"place\":null,\"state\":\"COPY\",\"age\":1,"
        "\"none\":null},{\"bytes\":1000,\"place\":\"a.c:7\",\"state\":false,\"age\":1,"
        "\"none\":null}],\"all\":3,\"matched\":3}",
        0, NULL);

    assert_non_null(wanted);
    assert_true(json_equal(all, wanted));
    json_decref(wanted);
    json_decref(all);
    end_scene(&s);
}

static void a_query_that_is_none_is_refused(void **state)
{
    static const char *const bad[] = {"{\"filters\":[[\"age\",false,[\"a\"]]]}",
                                      "{\"count_by\":[\"holders\"]}",
                                      "{\"count_by\":[\"ip\"],\"sum\":\"age\"}",
                                      "{",
                                      "{\"show\":[[\"a\",\"age\"]]}",
                                      "{\"show\":[[\"a\\\"b\",\"ip\"]]}",
                                      "{\"show\":[[\"a\",\"ip\",{\"x\":1}]]}",
                                      "{\"show\":[[\"a\",null,{}]]}",
                                      "{\"show\":[[\"a\"]]}"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(crti_object_rows_check(crti_str(bad[i])), CRT_ERR_INVALID);
    assert_int_equal(crti_object_rows_check(crti_str("{}")), CRT_OK);
    assert_int_equal(crti_object_rows_check(crti_str(OBJECT)), CRT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_borrowed_ref_was_made_where_its_owner_says),
        cmocka_unit_test(a_query_picks_the_largest_refs),
        cmocka_unit_test(who_says_nothing_or_nonsense_is_counted),
        cmocka_unit_test(an_object_has_all_who_hold_it),
        cmocka_unit_test(a_query_picks_objects),
        cmocka_unit_test(a_query_picks_objects_by_what_processes_say),
        cmocka_unit_test(objects_are_counted_and_their_sizes_added_up),
        cmocka_unit_test(rows_have_the_shape_that_is_asked_for),
        cmocka_unit_test(a_query_that_is_none_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
