/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of lists as clients know them (control/rows/column_list.h): their filters as a query
 * in the head's columns, which looks at the rows where they are, and rows of the head's as clients
 * have them (docs/design/state.md).
 *
 * Where it sits
 *     http/state.c -> [ http/row_columns.c ] -> STATE_QUERY -> control/rows/row_query.c
 *     STATE_ANSWER -> http/state_views.c -> [ http/row_columns.c ] -> JSON for the client
 * Threads: any; no state.
 */
#ifndef CRTI_HTTP_ROW_COLUMNS_H
#define CRTI_HTTP_ROW_COLUMNS_H

#include "runtime/http/views.h"

typedef enum crti_column_kind {
    CRTI_COLUMN_TEXT,
    CRTI_COLUMN_TEXT_OR_NULL, /* "" of the head is null */
    CRTI_COLUMN_NUMBER,       /* or null */
    CRTI_COLUMN_NODE_NUMBER,  /* the same; only the question with all columns knows it */
    CRTI_COLUMN_COUNT,        /* a number: 0 where the head leaves it out */
    CRTI_COLUMN_TIME,         /* whole milliseconds, or null */
    CRTI_COLUMN_OBJECT,       /* JSON of the head */
    CRTI_COLUMN_BOOL,
    CRTI_COLUMN_ACTOR_STATE,  /* a text; clients know fewer states than there are */
    CRTI_COLUMN_FIXED,        /* `key` is a text that all rows have here; NULL: null */
    CRTI_COLUMN_FIXED_NUMBER, /* `key` is a number that all rows have here */
    CRTI_COLUMN_SEALED,       /* a bool, which clients know as a state */
    CRTI_COLUMN_HERE          /* made here of the row: the head can't look at it */
} crti_column_kind_t;

/* A column of a listing; a table of them ends with a name of NULL. First come those that a list has
 * without its details, in their order. */
typedef struct crti_column {
    const char *name; /* as clients say it */
    const char *key;  /* as the head does */
    crti_column_kind_t kind;
    crti_view_level_t level; /* from which on rows have it */
} crti_column_t;

extern const crti_column_t crti_actor_columns[], crti_task_columns[],
    crti_object_columns[], crti_job_columns[], crti_runtime_env_columns[],
    crti_event_columns[], crti_node_columns[], crti_worker_columns[];

/* How many columns rows without details have; 0: the head can't write such rows. */
size_t crti_columns_shown(const crti_column_t *columns);

/* A row as clients have it, of one of the head's. A new reference; NULL: no memory. */
json_t *crti_columns_row(const crti_column_t *columns, const json_t *entry,
                         crti_view_level_t level);
/* The state of an actor, as clients know it. */
const char *crti_view_actor_state(const json_t *actor);

/* The head can look at all columns that filters look at. */
bool crti_columns_know(const crti_column_t *columns, const json_t *filters);

/* Whether a filter looks at a column that nodes tell. */
bool crti_columns_need_nodes(const crti_column_t *columns, const json_t *filters);

/* What rows are counted by: columns of the head, ended by NULL, and one whose numbers are added up
 * (NULL: none). */
typedef struct crti_counting {
    const char *columns[6];
    const char *sum;
} crti_counting_t;

/* Which of the rows that match, and how they are written. */
typedef struct crti_row_page {
    size_t limit, offset;
    /* rows are the client's, of so many of the first columns; 0: the head's */
    size_t shown;
    const char *only; /* a column of the head that is true of them; NULL: any */
} crti_row_page_t;

/* The query for rows that match `filters` (http/filter.h; their columns are in the table), or with
 * `counting` for the numbers of rows. Caller frees it; NULL: no memory. */
char *crti_columns_query(const crti_column_t *columns, const json_t *filters,
                         crti_row_page_t page, const crti_counting_t *counting);

#endif
