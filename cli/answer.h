/* SPDX-License-Identifier: Apache-2.0 */
/* Answer: what the head says of its cluster, as the commands that show it read it.
 *
 * Where it sits
 *     memory.c, stack.c, logs.c, top.c, status.c, drain.c, start.c, host_program.c -> [ answer ]
 *     -> crt_cluster_query
 */
#ifndef CRTI_CLI_ANSWER_H
#define CRTI_CLI_ANSWER_H

#include <stdbool.h>

#include <jansson.h>

#include <crt_cluster.h>

/* What crt_cluster_query gives, parsed; `filter` may be NULL. NULL: crt_error_detail says why. The
 * caller's. */
json_t *crti_answer_query(const crt_cluster_info_t *cluster, const char *what,
                          const char *filter);

/* How many of the nodes that are asked for live (`filter` NULL: of all); 0 without an answer. */
size_t crti_answer_living_nodes(const crt_cluster_info_t *cluster, const char *filter);

/* The rows of "actors" or "jobs" that match the filters of a query ("": all), page after page.
 * NULL: crt_error_detail says why. The caller's. */
json_t *crti_answer_rows(const crt_cluster_info_t *cluster, const char *what,
                         const char *filters);

/* The node that is meant among rows of nodes, of the head's answer or of the state API: whose id
 * begins so, else whose address or name it is, of several the living one. CRT_ERR_NOT_FOUND, and
 * CRT_ERR_INVALID where several are meant, say why. `must_live`: dead ones are none. The row is
 * borrowed from `nodes`. */
crt_status_t crti_answer_node(const json_t *nodes, const char *wanted, bool must_live,
                              const json_t **row_out);

/* A text of an object, borrowed from it; "" when there is none. It is printable from then on. */
const char *crti_answer_text(const json_t *object, const char *key);

/* The same of a text itself. */
const char *crti_answer_printable(const json_t *text);

#endif
