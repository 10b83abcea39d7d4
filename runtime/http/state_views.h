/* SPDX-License-Identifier: Apache-2.0 */
/* State views: what the head answers, as the lists, summaries and the timeline of Ray's state API.
 *
 * Where it sits
 *     STATE_ANSWER -> http/state.c -> [ http/state_views.c, state_summary.c, timeline.c ] -> JSON
 *     for the client
 * Ownership: each function gives a new reference; NULL when out of memory.
 * Threads: any; no state.
 */
#ifndef CRTI_HTTP_STATE_VIEWS_H
#define CRTI_HTTP_STATE_VIEWS_H

#include "runtime/base/buffer.h"
#include "runtime/http/row_columns.h"
#include "runtime/http/views.h"

/* A kind of thing that can be listed. */
typedef struct crti_listing {
    const char *name;   /* in paths: "placement_groups" */
    const char *what;   /* the question to the head; */
    const char *detail; /* that with all columns; NULL: the same */
    /* the member of its answer that has the entries; NULL: the answer */
    const char *list;
    json_t *(*row)(const json_t *entry, crti_view_level_t level);
    bool (*is_shown)(const json_t *entry); /* NULL: all are */
    /* the head picks and counts the rows by these; NULL: it tells all */
    const crti_column_t *columns;
    const char *only; /* column of the head that is true of its rows; NULL: of any */
} crti_listing_t;

/* NULL: there is none of that name. */
const crti_listing_t *crti_listing_find(const char *name);

/* Reply of GET /api/v0/NAME: at most `limit` of the rows that match all of `filters`
 * (http/filter.h; NULL: all do). */
json_t *crti_view_state(const crti_listing_t *resource, const json_t *answer,
                        const json_t *filters, size_t limit, crti_view_level_t level);
/* The same where the head wrote the rows as clients have them: its answer becomes the reply.
 * CRT_ERR_PROTOCOL: it is no such answer. */
crt_status_t crti_view_rows(const crti_listing_t *resource, crti_span_t answer,
                            size_t limit, crti_buffer_t *reply);
/* The rows alone, as a list. */
crt_status_t crti_view_row_list(const crti_listing_t *resource, crti_span_t answer,
                                crti_buffer_t *reply);
/* CRT_ERR_INVALID: a filter of a column that is not there. */
crt_status_t crti_view_check_filters(const crti_listing_t *resource,
                                     const json_t *filters);

/* What the head counts rows of tasks, actors or objects by, for a summary. */
const crti_counting_t *crti_summary_counting(const crti_listing_t *resource);
/* Reply of GET /api/v0/NAME/summarize, of one of them. */
json_t *crti_view_summary(const crti_listing_t *resource, const json_t *answer);

/* The answer to "tasks" as a trace for chrome://tracing and Perfetto: each call where it ran and
 * where it waited, with an arrow from one to the other. `job`: only of that job; "": of all. */
json_t *crti_view_timeline(const json_t *answer, const char *job);

#endif
