/* SPDX-License-Identifier: Apache-2.0 */
/* Filters become a query in the head's columns. */
#include "runtime/http/row_columns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/cleanup.h"
#include "runtime/http/state_views.h"

static void json_decref_auto(json_t **json)
{
    json_decref(*json);
}

static void expect(const crti_column_t *columns, const char *key, bool is_not,
                   const char *value, const char *filter)
{
    CRTI_AUTO(json_decref)
    json_t *filters = json_pack("[[s, b, s]]", key, is_not, value);
    CRTI_AUTO(free)
    char *query =
        crti_columns_query(columns, filters, (crti_row_page_t){.limit = 7}, NULL);
    char wanted[256];

    snprintf(wanted, sizeof(wanted),
             "{\"limit\":7,\"offset\":0,\"filters\":[%s],\"count_by\":[]}", filter);
    assert_string_equal(query, wanted);
}

static void columns_have_the_names_of_the_head(void **state)
{
    expect(crti_actor_columns, "ray_namespace", false, "a",
           "[\"namespace\",false,[\"a\"]]");
    expect(crti_task_columns, "func_or_class_name", true, "f", "[\"name\",true,[\"f\"]]");
    expect(crti_task_columns, "start_time_ms", false, "5",
           "[\"start_time\",false,[5.0]]");
}

static void values_have_the_type_of_their_column(void **state)
{
    expect(crti_actor_columns, "pid", false, "12", "[\"pid\",false,[12.0]]");
    expect(crti_actor_columns, "pid", false, "12x", "[\"pid\",false,[]]");
    expect(crti_actor_columns, "pid", true, "", "[\"pid\",true,[]]");
    expect(crti_actor_columns, "is_detached", false, "True",
           "[\"is_detached\",false,[true]]");
    expect(crti_actor_columns, "is_detached", false, "perhaps",
           "[\"is_detached\",false,[]]");
    expect(crti_actor_columns, "name", false, "", "[\"name\",false,[\"\"]]");
}

static void nothing_equals_what_is_not_there(void **state)
{
    expect(crti_actor_columns, "node_id", false, "", "[\"node_id\",false,[]]");
    expect(crti_actor_columns, "repr_name", false, "x", "[\"actor_id\",false,[]]");
    expect(crti_actor_columns, "repr_name", true, "x", "[\"actor_id\",true,[]]");
}

static void columns_that_are_the_same_everywhere_match_all_or_none(void **state)
{
    expect(crti_task_columns, "language", false, "c", "[\"task_id\",true,[]]");
    expect(crti_task_columns, "language", true, "c", "[\"task_id\",false,[]]");
    expect(crti_task_columns, "language", false, "PYTHON", "[\"task_id\",false,[]]");
    expect(crti_actor_columns, "num_restarts_due_to_lineage_reconstruction", false, "0",
           "[\"actor_id\",true,[]]");
    expect(crti_actor_columns, "num_restarts_due_to_lineage_reconstruction", false, "1",
           "[\"actor_id\",false,[]]");
}

static void a_state_of_clients_is_two_of_the_head(void **state)
{
    expect(crti_actor_columns, "state", false, "pending_creation",
           "[\"state\",false,[\"PENDING\",\"STARTING\"]]");
    expect(crti_actor_columns, "state", false, "STARTING", "[\"state\",false,[]]");
    expect(crti_actor_columns, "state", true, "DEAD", "[\"state\",true,[\"DEAD\"]]");
}

static void several_filters_and_columns_to_count_by_are_one_query(void **state)
{
    static const crti_counting_t by = {.columns = {"class_name", "state"}},
                                 with_sum = {.columns = {"node_id"}, .sum = "size"};
    CRTI_AUTO(json_decref)
    json_t *filters = json_pack("[[s, b, s], [s, b, s]]", "name", 0, "a", "pid", 1, "1");
    CRTI_AUTO(free)
    char *query =
        crti_columns_query(crti_actor_columns, filters, (crti_row_page_t){0}, &by);
    CRTI_AUTO(free)
    char *summed =
        crti_columns_query(crti_object_columns, NULL, (crti_row_page_t){0}, &with_sum);

    assert_string_equal(query,
                        "{\"limit\":0,\"offset\":0,\"filters\":[[\"name\",false,[\"a\"]],"
                        "[\"pid\",true,[1.0]]],"
                        "\"count_by\":[\"class_name\",\"state\"]}");
    assert_string_equal(
        summed, "{\"limit\":0,\"offset\":0,\"filters\":[],\"count_by\":[\"node_id\"],"
                "\"sum\":\"size\"}");
}

static void only_queues_are_asked_of_nodes(void **state)
{
    CRTI_AUTO(json_decref)
    json_t *queue = json_pack("[[s, b, s]]", "queue_length", 0, "1");
    CRTI_AUTO(json_decref) json_t *name = json_pack("[[s, b, s]]", "name", 0, "1");

    assert_true(crti_columns_need_nodes(crti_actor_columns, queue));
    assert_false(crti_columns_need_nodes(crti_actor_columns, name));
    assert_false(crti_columns_need_nodes(crti_actor_columns, NULL));
}

static void what_clients_call_otherwise_is_asked_for_as_the_head_calls_it(void **state)
{
    CRTI_AUTO(json_decref)
    json_t *unknown = json_pack("[[s, b, s]]", "age", 0, "1");

    assert_false(crti_columns_know(crti_object_columns, unknown));
    assert_true(crti_columns_know(crti_object_columns, NULL));
    expect(crti_object_columns, "object_size", false, "7", "[\"size\",false,[7.0]]");
    expect(crti_object_columns, "task_status", true, "finished",
           "[\"is_sealed\",true,[true]]");
    expect(crti_object_columns, "task_status", false, "RUNNING",
           "[\"is_sealed\",false,[false]]");
    expect(crti_object_columns, "task_status", false, "FAILED",
           "[\"is_sealed\",false,[]]");
    expect(crti_object_columns, "attempt_number", false, "1", "[\"object_id\",true,[]]");
    expect(crti_object_columns, "attempt_number", false, "2", "[\"object_id\",false,[]]");
}

/* So that the head writes the same rows as this server makes of the head's. */
static void the_first_columns_are_those_of_rows_without_details(void **state)
{
    static const char *const names[] = {"actors", "tasks", "objects"};

    for (size_t i = 0; i < 3; i++) {
        const crti_listing_t *listing = crti_listing_find(names[i]);
        CRTI_AUTO(json_decref) json_t *entry = json_object();
        CRTI_AUTO(json_decref) json_t *row = listing->row(entry, CRTI_VIEW_BASE);
        size_t column = 0;
        const char *key;
        json_t *value;

        assert_int_equal(json_object_size(row), crti_columns_shown(listing->columns));
        json_object_foreach(row, key, value)
            assert_string_equal(listing->columns[column++].name, key);
    }
}

static void rows_are_asked_for_as_clients_have_them(void **state)
{
    CRTI_AUTO(free)
    char *objects = crti_columns_query(crti_object_columns, NULL,
                                       (crti_row_page_t){.limit = 1, .shown = 4}, NULL);
    CRTI_AUTO(free)
    char *actors = crti_columns_query(crti_actor_columns, NULL,
                                      (crti_row_page_t){.limit = 1, .shown = 3}, NULL);

    assert_non_null(strstr(
        objects, "\"show\":[[\"object_id\",\"object_id\"],[\"object_size\",\"size\"],"
                 "[\"task_status\",\"is_sealed\",{\"true\":\"FINISHED\",\"false\":"
                 "\"RUNNING\"}],[\"attempt_number\",null,1.0]]"));
    assert_non_null(strstr(actors, "[\"state\",\"state\",{\"PENDING\":\"PENDING_"
                                   "CREATION\",\"STARTING\":\"PENDING_CREATION\"}]]"));
}

/* What crti_view_check_filters lets through and the table does not have would be passed over. */
static void each_column_that_can_be_filtered_can_be_asked_for(void **state)
{
    static const char *const names[] = {"actors", "tasks", "objects"};

    for (size_t i = 0; i < 3; i++) {
        const crti_listing_t *listing = crti_listing_find(names[i]);
        CRTI_AUTO(json_decref) json_t *entry = json_pack("{s:s}", "state", "DEAD");
        CRTI_AUTO(json_decref) json_t *row = listing->row(entry, CRTI_VIEW_ALL);
        size_t known = 0, wanted = 0;
        const crti_column_t *at;
        const char *key;
        json_t *value;

        json_object_foreach(row, key, value)
        {
            const crti_column_t *column = listing->columns;

            if (json_is_object(value) || json_is_array(value))
                continue;
            wanted++;
            while (column->name && strcmp(column->name, key) != 0)
                column++;
            if (!column->name)
                fail_msg("%s of %s is in no query", key, names[i]);
        }
        for (at = listing->columns; at->name; at++)
            known += at->kind != CRTI_COLUMN_HERE;
        assert_int_equal(known, wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_have_the_names_of_the_head),
        cmocka_unit_test(values_have_the_type_of_their_column),
        cmocka_unit_test(nothing_equals_what_is_not_there),
        cmocka_unit_test(columns_that_are_the_same_everywhere_match_all_or_none),
        cmocka_unit_test(a_state_of_clients_is_two_of_the_head),
        cmocka_unit_test(the_first_columns_are_those_of_rows_without_details),
        cmocka_unit_test(rows_are_asked_for_as_clients_have_them),
        cmocka_unit_test(several_filters_and_columns_to_count_by_are_one_query),
        cmocka_unit_test(only_queues_are_asked_of_nodes),
        cmocka_unit_test(what_clients_call_otherwise_is_asked_for_as_the_head_calls_it),
        cmocka_unit_test(each_column_that_can_be_filtered_can_be_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
