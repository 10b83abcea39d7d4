/* SPDX-License-Identifier: Apache-2.0 */
/* Answer: see answer.h. */
#include "cli/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crt_printable.h>

#define PAGE      10000 /* rows that are asked for at once */
#define PAGES_MAX 100

json_t *crti_answer_query(const crt_cluster_info_t *cluster, const char *what,
                          const char *filter)
{
    char *text = NULL;
    json_t *json;

    if (crt_cluster_query(cluster, what, filter, &text) != CRT_OK)
        return NULL;
    json = json_loads(text, JSON_DECODE_ANY, NULL);
    crt_free(text);
    if (!json)
        crt_raise(CRT_ERR_PROTOCOL, "the head's answer is not JSON");
    return json;
}

size_t crti_answer_living_nodes(const crt_cluster_info_t *cluster, const char *filter)
{
    json_t *nodes = crti_answer_query(cluster, "nodes", filter);
    size_t count = 0;

    for (size_t i = 0; i < json_array_size(nodes); i++)
        count +=
            strcmp(crti_answer_text(json_array_get(nodes, i), "state"), "ALIVE") == 0;
    json_decref(nodes);
    return count;
}

static bool has_id(const json_t *row, const char *wanted)
{
    return *wanted &&
           strncmp(crti_answer_text(row, "node_id"), wanted, strlen(wanted)) == 0;
}

/* By the keys of both answers. */
static bool has_name(const json_t *row, const char *wanted)
{
    static const char *const keys[] = {"hostname", "node_name", "ip", "node_ip"};

    for (size_t i = 0; *wanted && i < sizeof(keys) / sizeof(keys[0]); i++)
        if (strcmp(crti_answer_text(row, keys[i]), wanted) == 0)
            return true;
    return false;
}

/* How many there are, and the last of them. */
static size_t find_nodes(const json_t *nodes, const char *wanted, bool is_living,
                         bool (*is)(const json_t *row, const char *wanted),
                         const json_t **row_out)
{
    size_t count = 0;

    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *row = json_array_get(nodes, i);

        if (is(row, wanted) &&
            (!is_living || strcmp(crti_answer_text(row, "state"), "DEAD") != 0)) {
            *row_out = row;
            count++;
        }
    }
    return count;
}

crt_status_t crti_answer_node(const json_t *nodes, const char *wanted, bool must_live,
                              const json_t **row_out)
{
    size_t count = find_nodes(nodes, wanted, must_live, has_id, row_out);

    if (count > 1)
        return crt_raise(CRT_ERR_INVALID, "%zu nodes have an id that begins with %s",
                         count, wanted);
    if (count == 0)
        count = find_nodes(nodes, wanted, true, has_name, row_out);
    if (count == 0 && !must_live)
        count = find_nodes(nodes, wanted, false, has_name, row_out);
    if (count > 1)
        return crt_raise(CRT_ERR_INVALID,
                         "%zu nodes have the name or address %s; give the begin of an id",
                         count, wanted);
    return count == 1 ? CRT_OK
                      : crt_raise(CRT_ERR_NOT_FOUND,
                                  "no node has an id that begins with %s, or that name "
                                  "or address",
                                  wanted);
}

json_t *crti_answer_rows(const crt_cluster_info_t *cluster, const char *what,
                         const char *filters)
{
    json_t *all = json_array();
    json_int_t matched;
    char query[512];
    size_t came, pages = 0;

    do {
        json_t *page;

        snprintf(query, sizeof(query), "{\"limit\":%d,\"offset\":%zu,\"filters\":[%s]}",
                 PAGE, json_array_size(all), filters);
        page = crti_answer_query(cluster, what, query);
        if (!page) {
            json_decref(all);
            return NULL;
        }
        came = json_array_size(json_object_get(page, what));
        matched = json_integer_value(json_object_get(page, "matched"));
        json_array_extend(all, json_object_get(page, what));
        json_decref(page);
    } while (came > 0 && (json_int_t)json_array_size(all) < matched &&
             ++pages < PAGES_MAX);
    return all;
}

const char *crti_answer_text(const json_t *object, const char *key)
{
    return crti_answer_printable(json_object_get(object, key));
}

/* In its place: as long as it was, and programs that read JSON are not given what was shown. */
const char *crti_answer_printable(const json_t *text)
{
    const char *shown = json_string_value(text);

    return shown ? crt_make_printable((char *)shown) : "";
}
