/* SPDX-License-Identifier: Apache-2.0 */
/* crt list, get, summary and timeline: the state of the cluster, by the state API of its HTTP
 * server.
 *
 * Where it sits
 *     GET /api/v0/... (docs/design/http.md) by cli/http_client.c -> [ cli/state.c ] -> stdout
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/answer.h"
#include "cli/http_client.h"
#include "cli/json_print.h"
#include "cli/options.h"
#include "cli/table.h"

#define CELL_MAX 60   /* bytes of a text in a table, */
#define TEXT_MAX 1024 /* and of any */
#define TEXT_CUT ((size_t)TEXT_MAX - 8)

static const char *address, *format, *limit, *output, *job;
static const char *filters[OPTION_LIST_MAX];
static bool detail;

#define ADDRESS_OPTION                                                                   \
    {                                                                                    \
        "address", 'a', "HOST:PORT", OPTION_ADDRESS, &address,                           \
            "the cluster's head; default: the only cluster here"                         \
    }
#define FORMAT_OPTION                                                                    \
    {                                                                                    \
        "format", 0, "FORMAT", OPTION_TEXT, &format, "table (default), json or yaml"     \
    }
#define FILTER_OPTION                                                                    \
    {                                                                                    \
        "filter", 'f', "KEY=VALUE", OPTION_LIST, filters,                                \
            "only rows in which it is so; KEY!=VALUE: not so; may be given again"        \
    }

/* What can be listed, as people write it and as the paths do; and the column that names one. */
static const struct {
    const char *name, *path, *id;
} resources[] = {{"actors", "actors", "actor_id"},
                 {"tasks", "tasks", "task_id"},
                 {"objects", "objects", "object_id"},
                 {"nodes", "nodes", "node_id"},
                 {"workers", "workers", "worker_id"},
                 {"jobs", "jobs", "submission_id"},
                 {"placement-groups", "placement_groups", "placement_group_id"},
                 {"runtime-envs", "runtime_envs", NULL},
                 {"cluster-events", "cluster_events", NULL}};

#define RESOURCES (sizeof(resources) / sizeof(resources[0]))

/* Its index; RESOURCES: there is none. Ray's spelling is taken, too. */
static size_t find_resource(const char *name)
{
    for (size_t i = 0; i < RESOURCES; i++)
        if (strcmp(resources[i].name, name) == 0 || strcmp(resources[i].path, name) == 0)
            return i;
    return RESOURCES;
}

/* ---------------------------------------------------------------- the question */

static void add_argument(char *path, size_t size, const char *key, const char *value)
{
    char *escaped = crti_client_escape(value);
    size_t at = strlen(path);

    if (escaped && at < size)
        snprintf(path + at, size - at, "&%s=%s", key, escaped);
    crti_client_escape_free(escaped);
}

/* KEY=VALUE or KEY!=VALUE. */
static bool add_filter(char *path, size_t size, const char *filter)
{
    const char *equals = strchr(filter, '=');
    bool is_not = equals && equals > filter && equals[-1] == '!';
    char key[64];
    int length;

    if (!equals)
        return false;
    length = (int)(equals - filter) - is_not;
    if (length <= 0 || length >= (int)sizeof(key))
        return false;
    snprintf(key, sizeof(key), "%.*s", length, filter);
    add_argument(path, size, "filter_keys", key);
    add_argument(path, size, "filter_predicates", is_not ? "!=" : "=");
    add_argument(path, size, "filter_values", equals + 1);
    return true;
}

/* The inner result of an answer; NULL with the detail set. Caller owns it. */
static json_t *ask(const char *path)
{
    http_client_t *client;
    json_t *answer, *result;

    if (crti_client_new(address, &client) != CRT_OK)
        return NULL;
    answer = crti_client_json(client, "GET", path, NULL, NULL);
    crti_client_free(client);
    result = json_incref(json_object_get(json_object_get(answer, "data"), "result"));
    if (answer && !result)
        crt_raise(CRT_ERR_PROTOCOL, "the answer is not that of the state API");
    json_decref(answer);
    return result;
}

/* ---------------------------------------------------------------- the answer */

static bool format_is(const char *name)
{
    return format && strcmp(format, name) == 0;
}

static bool check_format(void)
{
    return !format || format_is("table") || format_is("json") || format_is("yaml");
}

static void cell_text(const json_t *value, char *text, size_t size)
{
    char *dumped;

    text[0] = '\0';
    if (json_is_string(value))
        snprintf(text, size, "%s", json_string_value(value));
    else if (json_is_number(value) && !json_is_integer(value))
        snprintf(text, size, "%.10g", json_number_value(value));
    else if (value && !json_is_null(value)) {
        dumped = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | CRTI_JSON_DIGITS);
        snprintf(text, size, "%s", dumped ? dumped : "");
        free(dumped);
    }
    for (char *at = text; *at; at++)
        if (*at == '\n')
            *at = ' ';
}

/* One column for each member of the first row. Texts are cut to `most` bytes. */
static void print_table(const json_t *rows, size_t most)
{
    json_t *first = json_array_get(rows, 0), *value;
    size_t count = json_object_size(first), column = 0;
    table_column_t *columns = calloc(count + 1, sizeof(*columns));
    char(*texts)[TEXT_MAX] = calloc(count + 1, sizeof(*texts));
    const char **cells = calloc(count + 1, sizeof(*cells));
    table_t *table;
    const char *key;

    if (columns && texts && cells) {
        json_object_foreach(first, key, value) columns[column++] =
            (table_column_t){key, json_is_number(value)};
        table = crti_table_new(columns, count);
        for (size_t i = 0; i < json_array_size(rows); i++) {
            for (size_t k = 0; k < count; k++) {
                cell_text(json_object_get(json_array_get(rows, i), columns[k].name),
                          texts[k], TEXT_MAX);
                crti_table_cut(texts[k], most);
                cells[k] = texts[k];
            }
            crti_table_row(table, cells);
        }
        crti_table_print(table);
    }
    free(columns);
    free(texts);
    free(cells);
}

static void print_rows(const json_t *rows, size_t most)
{
    if (format_is("json")) {
        crti_json_print(rows, stdout);
    } else if (format_is("yaml") || (detail && !format)) {
        crti_yaml_print(rows, stdout);
    } else if (json_array_size(rows) == 0) {
        printf("None.\n");
    } else {
        print_table(rows, most);
    }
}

/* What was left out, for people, who read it beside the table. */
static void tell_gaps(const json_t *result)
{
    json_int_t all = json_integer_value(json_object_get(result, "num_filtered"));
    size_t shown = json_array_size(json_object_get(result, "result"));
    const char *gaps =
        json_string_value(json_object_get(result, "partial_failure_warning"));

    if ((size_t)all > shown)
        fprintf(stderr, "%zu of %lld are shown (--limit N shows more)\n", shown,
                (long long)all);
    if (gaps && *gaps)
        fprintf(stderr, "%s\n", gaps);
}

/* ---------------------------------------------------------------- crt list, crt get */

/* A node may be meant by its name, too. */
static int get_node(const char *name, const char *wanted)
{
    json_t *result = ask("/api/v0/nodes?limit=10000&detail=crt"), *rows;
    const json_t *row;

    if (!result || crti_answer_node(json_object_get(result, "result"), wanted, false,
                                    &row) != CRT_OK) {
        json_decref(result);
        return crti_cli_fail_detail(name);
    }
    rows = json_pack("[O]", row);
    print_rows(rows, CELL_MAX);
    json_decref(rows);
    json_decref(result);
    return 0;
}

static int list(const char *name, size_t resource, const char *id)
{
    char path[8192];
    json_t *result;

    snprintf(path, sizeof(path), "/api/v0/%s?limit=%s&detail=%s",
             resources[resource].path, limit ? limit : "100", detail ? "crt" : "False");
    for (size_t i = 0; filters[i]; i++)
        if (!add_filter(path, sizeof(path), filters[i]))
            return crti_cli_misused(name, "--filter is KEY=VALUE or KEY!=VALUE, not %s",
                                    filters[i]);
    if (id) {
        add_argument(path, sizeof(path), "filter_keys", resources[resource].id);
        add_argument(path, sizeof(path), "filter_predicates", "=");
        add_argument(path, sizeof(path), "filter_values", id);
    }
    if (strlen(path) == sizeof(path) - 1)
        return crti_cli_misused(name, "these are too many filters");
    result = ask(path);
    if (!result)
        return crti_cli_fail_detail(name);
    if (id && json_array_size(json_object_get(result, "result")) == 0) {
        json_decref(result);
        return crti_cli_fail(name, "there is none of %s with the %s %s",
                             resources[resource].name, resources[resource].id, id);
    }
    print_rows(json_object_get(result, "result"), CELL_MAX);
    tell_gaps(result);
    json_decref(result);
    return 0;
}

/* Parses as crti_cli_parse does; `count` operands are wanted, the first of which is a resource. */
static int parse(int argc, char **argv, const command_spec_t *spec, int count,
                 size_t *resource)
{
    int first = crti_cli_parse(argc, argv, spec);

    if (first <= 0)
        return first;
    if (argc - first != count)
        return -crti_cli_misused(spec->name, "%s", spec->operands);
    *resource = find_resource(argv[first]);
    if (*resource == RESOURCES)
        return -crti_cli_misused(spec->name,
                                 "there is no list of %s; there is one of actors, tasks, "
                                 "objects, nodes, workers, jobs, placement-groups, "
                                 "runtime-envs and cluster-events",
                                 argv[first]);
    if (!check_format())
        return -crti_cli_misused(spec->name, "--format is table, json or yaml");
    return first;
}

int crti_cli_list(int argc, char **argv)
{
    static const option_spec_t options[] = {
        ADDRESS_OPTION,
        FILTER_OPTION,
        {"limit", 'n', "N", OPTION_COUNT, &limit, "at most so many (100; up to 10000)"},
        {"detail", 0, NULL, OPTION_FLAG, &detail, "all columns, as YAML"},
        FORMAT_OPTION};
    static const command_spec_t spec = {
        .name = "crt list",
        .operands = "RESOURCE",
        .summary =
            "Lists actors, tasks, objects, nodes, workers, jobs, placement-groups, "
            "runtime-envs or cluster-events.",
        .options = options,
        .count = 5};
    size_t resource;
    int first = parse(argc, argv, &spec, 1, &resource);

    return first > 0 ? list(spec.name, resource, NULL) : -first;
}

int crti_cli_get(int argc, char **argv)
{
    static const option_spec_t options[] = {ADDRESS_OPTION, FORMAT_OPTION};
    static const command_spec_t spec = {
        .name = "crt get",
        .operands = "RESOURCE ID",
        .summary =
            "Shows everything that is known of one actor, task (all its attempts), "
            "object, node, worker, job or placement group.",
        .options = options,
        .count = 2};
    size_t resource;
    int first = parse(argc, argv, &spec, 2, &resource);

    if (first <= 0)
        return -first;
    if (!resources[resource].id)
        return crti_cli_misused(spec.name, "%s have no ids", resources[resource].name);
    detail = true;
    if (strcmp(resources[resource].path, "nodes") == 0)
        return get_node(spec.name, argv[first + 1]);
    return list(spec.name, resource, argv[first + 1]);
}

/* ---------------------------------------------------------------- crt summary */

/* {"FINISHED": 3, "RUNNING": 1} as "FINISHED 3, RUNNING 1". */
static json_t *counts_text(const json_t *counts)
{
    char text[TEXT_MAX] = "";
    size_t used = 0;
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)counts, key, value) if (used < sizeof(text)) used +=
        (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %lld", used ? ", " : "",
                         key, (long long)json_integer_value(value));
    return json_string(text);
}

static void print_summary(const json_t *cluster)
{
    json_t *groups = json_object_get(cluster, "summary"), *group, *value;
    json_t *rows = json_array(), *all;
    const char *name, *key;

    if (format_is("json") || format_is("yaml")) {
        all = json_pack("[O]", cluster);
        print_rows(all, TEXT_CUT);
        json_decref(all);
        json_decref(rows);
        return;
    }
    json_object_foreach(groups, name, group)
    {
        json_t *row = json_pack("{s:s}", "name", name);

        json_object_foreach(group, key,
                            value) if (strcmp(key, "func_or_class_name") != 0 &&
                                       strcmp(key, "class_name") != 0)
            json_object_set_new(row, key,
                                json_is_object(value) ? counts_text(value)
                                                      : json_incref(value));
        json_array_append_new(rows, row);
    }
    print_rows(rows, TEXT_CUT);
    json_decref(rows);
    json_object_foreach((json_t *)cluster, key, value) if (json_is_number(value))
        printf("%s: %.10g\n", key, json_number_value(value));
}

int crti_cli_summary(int argc, char **argv)
{
    static const option_spec_t options[] = {ADDRESS_OPTION, FILTER_OPTION, FORMAT_OPTION};
    static const command_spec_t spec = {
        .name = "crt summary",
        .operands = "RESOURCE",
        .summary = "Counts tasks by function and state, actors by class and state, or "
                   "objects.",
        .options = options,
        .count = 3};
    size_t resource;
    int first = parse(argc, argv, &spec, 1, &resource);
    char path[8192];
    json_t *answer;

    if (first <= 0)
        return -first;
    if (strcmp(resources[resource].path, "tasks") != 0 &&
        strcmp(resources[resource].path, "actors") != 0 &&
        strcmp(resources[resource].path, "objects") != 0)
        return crti_cli_misused(spec.name,
                                "there is a summary of tasks, actors, objects");
    snprintf(path, sizeof(path), "/api/v0/%s/summarize?timeout=30",
             resources[resource].path);
    for (size_t i = 0; filters[i]; i++)
        if (!add_filter(path, sizeof(path), filters[i]))
            return crti_cli_misused(spec.name, "--filter is KEY=VALUE, not %s",
                                    filters[i]);
    answer = ask(path);
    if (!answer)
        return crti_cli_fail_detail(spec.name);
    print_summary(json_object_get(
        json_object_get(json_object_get(answer, "result"), "node_id_to_summary"),
        "cluster"));
    json_decref(answer);
    return 0;
}

/* ---------------------------------------------------------------- crt timeline */

int crti_cli_timeline(int argc, char **argv)
{
    static const option_spec_t options[] = {
        ADDRESS_OPTION,
        {"output", 'o', "FILE", OPTION_TEXT, &output, "there instead of to stdout"},
        {"job", 0, "ID", OPTION_TEXT, &job, "only the calls of that job (its job id)"}};
    static const command_spec_t spec = {
        .name = "crt timeline",
        .summary = "Prints what calls did when, as a trace for chrome://tracing or "
                   "ui.perfetto.dev.",
        .options = options,
        .count = 3};
    http_client_t *client;
    char path[512] = "/api/v0/tasks/timeline?download=1";
    json_t *trace;
    int first = crti_cli_parse(argc, argv, &spec);
    int result = 0;

    if (first <= 0)
        return -first;
    if (job)
        add_argument(path, sizeof(path), "job_id", job);
    if (crti_client_new(address, &client) != CRT_OK)
        return crti_cli_fail_detail(spec.name);
    trace = crti_client_json(client, "GET", path, NULL, NULL);
    crti_client_free(client);
    if (!trace)
        return crti_cli_fail_detail(spec.name);
    if (output ? json_dump_file(trace, output, JSON_COMPACT) != 0
               : json_dumpf(trace, stdout, JSON_COMPACT) != 0)
        result = crti_cli_fail(spec.name, "%s could not be written",
                               output ? output : "the trace");
    else if (output)
        printf("%zu events in %s\n", json_array_size(trace), output);
    json_decref(trace);
    return result;
}
