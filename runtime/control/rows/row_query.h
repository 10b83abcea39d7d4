/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows of a table are wanted: the filter of a STATE_QUERY that is an object of JSON
 * (docs/design/state.md).
 *
 *     {"limit": 100, "offset": 0, "filters": [["state", false, ["PENDING", "STARTING"]], ...],
 *     "count_by": ["class_name", "state"],
 *      "sum": "size", "show": [["class", "class_name"], ["state", "state", {"PENDING": "WAITS"}],
 *      ["age", null, 1]]}
 *
 * Where it sits
 *     STATE_QUERY -> [ control/rows/row_query.c ] <- actor_rows.c, job_rows.c, task_rows.c,
 *     object_rows.c (cells of their rows)
 * Rows are looked at where they are; those that match are written, or counted by their cells.
 * Trust: the text is anybody's who may ask; it is refused with a sentence.
 */
#ifndef CRTI_CONTROL_ROW_QUERY_H
#define CRTI_CONTROL_ROW_QUERY_H

#include "runtime/base/buffer.h"
#include "runtime/base/id.h"
#include "runtime/base/json_write.h"
#include "runtime/base/map.h"

#define CRTI_ROW_FILTERS 16
#define CRTI_ROW_VALUES  4  /* of one filter */
#define CRTI_ROW_GROUPED 5  /* columns by which rows are counted */
#define CRTI_ROW_SHOWN   20 /* members of a row in the asker's shape */

/* Rows of an answer take at most so many bytes: the others are counted only, and asked for by
 * "offset". */
#define CRTI_ROWS_BYTES ((size_t)12 << 20)

/* A text in a list: what is longer is cut at a character, and ends with "...". */
#define CRTI_LIST_TEXT 304
const char *crti_list_text(const char *text, char cut[CRTI_LIST_TEXT]);

typedef enum crti_cell_kind {
    CRTI_CELL_NULL,
    CRTI_CELL_TEXT,
    CRTI_CELL_NUMBER,
    CRTI_CELL_BOOL,
    CRTI_CELL_JSON /* `text` is JSON; it equals nothing */
} crti_cell_kind_t;

/* What a row has in a column. */
typedef struct crti_cell {
    crti_cell_kind_t kind;
    const char *text; /* borrowed */
    double number;    /* of BOOL: not 0 */
} crti_cell_t;

static inline crti_cell_t crti_cell_text(const char *text)
{
    return (crti_cell_t){.kind = CRTI_CELL_TEXT, .text = text};
}
static inline crti_cell_t crti_cell_id(crti_id_t id, char text[CRTI_ID_HEX])
{
    return crti_cell_text(crti_id_is_zero(id) ? "" : crti_id_hex(id, text));
}
static inline crti_cell_t crti_cell_number(double number)
{
    return (crti_cell_t){.kind = CRTI_CELL_NUMBER, .number = number};
}
static inline crti_cell_t crti_cell_json(const char *json)
{
    return (crti_cell_t){.kind = CRTI_CELL_JSON, .text = json};
}
static inline crti_cell_t crti_cell_bool(bool yes)
{
    return (crti_cell_t){.kind = CRTI_CELL_BOOL, .number = yes};
}

#define CRTI_OBJECT_HEX (CRTI_ID_HEX + 16) /* bytes of an object's id as a text */

/* The name of an object; number 0: none. */
crti_cell_t crti_cell_object(crti_object_id_t id, char text[CRTI_OBJECT_HEX]);

/* A table: `cell` tells what `row` has in a column; its text stays until the next cell of that
 * column is asked for. */
typedef struct crti_row_table {
    const char *name;           /* for people: "actors" */
    const char *const *columns; /* ended by NULL */
    crti_cell_t (*cell)(void *user, const void *row, size_t column);
    void *user;
} crti_row_table_t;

/* Is equal, or not, to one of the values. */
typedef struct crti_row_filter {
    size_t column;
    bool is_not;
    size_t count;
    crti_cell_t values[CRTI_ROW_VALUES];
} crti_row_filter_t;

/* A member of rows in the asker's own shape: a column under another name, or a constant. */
typedef struct crti_row_shown {
    const char *name;
    size_t column;
    bool is_constant;
    crti_cell_t constant;
    /* what stands for some of its texts (or "true" and "false"); NULL: nothing does */
    const struct json_t *instead;
} crti_row_shown_t;

typedef struct crti_row_query {
    struct json_t *source; /* that texts of values are borrowed from */
    size_t limit, offset;  /* the first `offset` rows that match are left out */
    size_t filter_count, grouped_count; /* grouped 0: rows are wanted, not numbers */
    size_t shown_count;                 /* 0: rows have the table's shape */
    crti_row_filter_t filters[CRTI_ROW_FILTERS];
    size_t grouped[CRTI_ROW_GROUPED];
    crti_row_shown_t shown[CRTI_ROW_SHOWN];
    bool has_sum;
    size_t summed; /* column whose numbers are added up for each group */
} crti_row_query_t;

/* A query begins with '{'; any other filter is an id, or nothing. */
bool crti_row_query_is(crti_span_t filter);

/* CRT_ERR_INVALID: it is none, or names what the table does not have. Caller ends it with
 * crti_row_query_fini. */
crt_status_t crti_row_query_parse(crti_span_t filter, const crti_row_table_t *table,
                                  crti_row_query_t *query_out);
void crti_row_query_fini(crti_row_query_t *query);
/* The same of a filter that need be no query. */
crt_status_t crti_row_query_check(crti_span_t filter, const crti_row_table_t *table);

/* All filters match. Texts are compared without looking at case; what is not there equals
 * nothing. */
bool crti_row_query_matches(const crti_row_query_t *query, const crti_row_table_t *table,
                            const void *row);

/* Rows of one value of `column` alone are wanted. */
bool crti_row_query_is_of_one(const crti_row_query_t *query, size_t column);

/* A row in the asker's shape: the query's shown_count is not 0. */
void crti_row_query_write(const crti_row_query_t *query, const crti_row_table_t *table,
                          const void *row, crti_json_writer_t *w);

/* A text as a text, a number as a whole one. */
void crti_cell_write(crti_json_writer_t *w, const crti_cell_t *cell);
/* As a member that has the column's name. */
void crti_row_column_write(crti_json_writer_t *w, const crti_row_table_t *table,
                           const void *row, size_t column);
/* The first `count` columns. */
void crti_row_columns_write(crti_json_writer_t *w, const crti_row_table_t *table,
                            const void *row, size_t count);

/* Rows counted by what they have in the query's columns. */
typedef struct crti_row_counts {
    crti_map_t by_name;
    crti_buffer_t groups; /* pointers to them, in the order in which they came */
} crti_row_counts_t;

void crti_row_counts_init(crti_row_counts_t *counts);
void crti_row_counts_fini(crti_row_counts_t *counts);
crt_status_t crti_row_counts_add(crti_row_counts_t *counts, const crti_row_query_t *query,
                                 const crti_row_table_t *table, const void *row);
/* [{"class_name": "A", "state": "ALIVE", "count": 3}, ...]; with a sum: "sum": 17 */
void crti_row_counts_write(const crti_row_counts_t *counts, const crti_row_query_t *query,
                           const crti_row_table_t *table, crti_json_writer_t *w);

/* The rows of an answer, offered one after the other: they are picked, and written or counted as
 * the query says. */
typedef struct crti_row_picker {
    const crti_row_table_t *table;
    const crti_row_query_t *query; /* NULL: all are written */
    void (*write)(void *user, crti_json_writer_t *w,
                  const void *row); /* of table->user */
    crti_json_writer_t *w;
    /* Private. */
    crti_row_counts_t counts;
    size_t all, matched, shown;
} crti_row_picker_t;

/* Members of the answer, whose brackets are the caller's: "NAME": [rows], "groups": [...], "all":
 * 12, "matched": 3. A list without a query that takes more than CRTI_ROWS_BYTES is refused
 * (CRT_ERR_TOO_LARGE). */
void crti_row_picker_begin(crti_row_picker_t *picker);
void crti_row_picker_offer(crti_row_picker_t *picker, const void *row);
void crti_row_picker_end(crti_row_picker_t *picker);

#endif
