/* SPDX-License-Identifier: Apache-2.0 */
/* Views: the state of the head (docs/design/state.md) in the shapes of the jobs and state API.
 *
 * Where it sits
 *     STATE_ANSWER -> http/endpoints.c -> [ http/views.c, http/status_text.c ] -> JSON for the
 *     client
 * Keys that the head leaves out become empty values: a row always has all its columns.
 * Ownership: each function gives a new reference; NULL when out of memory.
 * Threads: any; no state.
 */
#ifndef CRTI_HTTP_VIEWS_H
#define CRTI_HTTP_VIEWS_H

#include "runtime/base/crt_base.h"
#include "runtime/base/json_escape.h"

#include <jansson.h>

/* JobDetails of one entry of "jobs". */
json_t *crti_view_job(const json_t *job);
/* Rows of what programs count: of one job, or of all (`job` ""). A new reference; NULL: no
 * memory. */
json_t *crti_view_user_metrics(const json_t *answer, const char *job);
/* How the head knows the log of a submission: "job:ID", of one attempt alone where there may be
 * several. */
void crti_view_log_name(const json_t *job, char *name, size_t size);
bool crti_view_is_submission(const json_t *job);
bool crti_view_has_ended(const json_t *job);

/* Reply of GET /api/cluster_status from "cluster". `as_text`: clusterStatus is the text. */
json_t *crti_view_cluster(const json_t *cluster, bool as_text);

/* Which columns: Ray's clients refuse those that they do not know. */
typedef enum crti_view_level {
    CRTI_VIEW_BASE,
    CRTI_VIEW_DETAIL,
    CRTI_VIEW_ALL
} crti_view_level_t;

/* Appends a text like that of `ray status`. */
crt_status_t crti_status_text(const json_t *cluster, crti_buffer_t *out);

/* A member's text, "" when it is missing or no text; borrowed from `object`. */
const char *crti_view_text(const json_t *object, const char *key);

/* Appends `bytes` as valid UTF-8: what is none becomes U+FFFD. `*used_out` is how much was taken:
 * all of it if `final`, else a character that is cut at the end stays behind. */
crt_status_t crti_utf8_clean(crti_span_t bytes, bool final, crti_buffer_t *out,
                             size_t *used_out);

#endif
