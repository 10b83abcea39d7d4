/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: which rows a STATE_QUERY wants (control/rows/row_query.c). */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "runtime/control/rows/row_query.h"

static const char *const columns[] = {"name", "size", "is_old", "nothing", NULL};

static crti_cell_t cell_of(void *user, const void *row, size_t column)
{
    return column == 0   ? crti_cell_text(row)
           : column == 1 ? crti_cell_number((double)strlen(row))
           : column == 2 ? crti_cell_bool(*(const char *)row == 'a')
                         : (crti_cell_t){0};
}

static void check_shape(const crti_row_query_t *query, const crti_row_table_t *table,
                        const char *row)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t text = {0};
    crti_json_writer_t w = {.out = &text};
    json_t *json;

    crti_row_query_write(query, table, row, &w);
    json = w.status == CRT_OK ? json_loadb((const char *)text.data, text.size, 0, NULL)
                              : NULL;
    if (!json_is_object(json) || json_object_size(json) > query->shown_count)
        abort();
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const rows[] = {"a", "b", "abc", "\xff", ""};
    const crti_row_table_t table = {.name = "rows", .columns = columns, .cell = cell_of};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t text = {0};
    crti_json_writer_t w = {.out = &text};
    crti_row_counts_t counts;
    crti_row_query_t query;
    size_t matched = 0;
    json_t *groups;

    crti_row_query_is(crti_span(data, size));
    if (crti_row_query_parse(crti_span(data, size), &table, &query) != CRT_OK)
        return 0;
    crti_row_counts_init(&counts);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!crti_row_query_matches(&query, &table, rows[i]))
            continue;
        matched++;
        check_shape(&query, &table, rows[i]);
        if (crti_row_counts_add(&counts, &query, &table, rows[i]) != CRT_OK)
            abort();
    }
    crti_row_counts_write(&counts, &query, &table, &w);
    groups = w.status == CRT_OK ? json_loadb((const char *)text.data, text.size, 0, NULL)
                                : NULL;
    if (!groups || json_array_size(groups) > matched)
        abort();
    json_decref(groups);
    crti_row_counts_fini(&counts);
    crti_row_query_fini(&query);
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    static const char *const seeds[] = {
        "{\"limit\":3,\"filters\":[[\"name\",false,[\"a\",\"b\"]],[\"size\",true,[3]]],"
        "\"count_by\":[\"name\",\"is_old\"]}",
        "{\"filters\":[[\"is_old\",true,[true]],[\"nothing\",true,[]]]}",
        "{\"show\":[[\"a\",\"name\",{\"a\":\"b\",\"\":null}],[\"b\",\"is_old\",{\"true\":"
        "\"x\"}],[\"c\",null,1]],\"count_by\":[\"name\"],\"sum\":\"size\"}",
        "{\"limit\":1,\"offset\":2,\"filters\":[]}"};

    if (index >= sizeof(seeds) / sizeof(seeds[0]) || strlen(seeds[index]) > room)
        return 0;
    memcpy(out, seeds[index], strlen(seeds[index]));
    return strlen(seeds[index]);
}
