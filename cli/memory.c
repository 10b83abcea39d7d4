/* SPDX-License-Identifier: Apache-2.0 */
/* crt memory: which process holds which object, how large it is, why it is kept and which line of a
 * program made it.
 *
 * Where it sits
 *     user -> [ cli/memory.c ] -> crt_cluster_query ("refs", "nodes") -> head -> nodes -> processes
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cli/answer.h"
#include "cli/json_print.h"
#include "cli/options.h"
#include "cli/table.h"

#define NAME  "crt memory"
#define SHOWN 100

static const char *address, *sort_by = "size", *group_by, *format = "table", *limit;

static long long number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* ---------------------------------------------------------------- order and groups */

static const struct {
    const char *name, *key;
} orders[] = {{"size", NULL},         {"place", "call_site"}, {"kind", "kind"},
              {"address", "ip"},      {"node", "node_id"},    {"process", "worker_id"},
              {"object", "object_id"}};

#define ORDERS (sizeof(orders) / sizeof(orders[0]))

static const char *sort_key;

/* By what was asked for; then the largest first. */
static int in_order(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    long long size_x = number_of(x, "size"), size_y = number_of(y, "size");
    int order = sort_key
                    ? strcmp(crti_answer_text(x, sort_key), crti_answer_text(y, sort_key))
                    : 0;

    return order ? order : (size_x < size_y) - (size_x > size_y);
}

static json_t *sorted(const json_t *rows)
{
    size_t count = json_array_size(rows);
    json_t **list = calloc(count + 1, sizeof(json_t *)), *result = json_array();

    for (size_t i = 0; list && i < count; i++)
        list[i] = json_array_get(rows, i);
    if (list)
        qsort(list, count, sizeof(json_t *), in_order);
    for (size_t i = 0; list && i < count; i++)
        json_array_append(result, list[i]);
    free(list);
    return result;
}

/* Those of one place or host. An object counts once in it, whoever holds it. */
static void add_to_group(json_t *groups, const char *name, json_t *row)
{
    json_t *group = json_object_get(groups, name);
    const char *id = crti_answer_text(row, "object_id");

    if (!group) {
        group = json_pack("{s:s, s:i, s:I, s:[], s:{}}", "name", name, "count", 0,
                          "bytes", (json_int_t)0, "refs", "seen");
        json_object_set_new(groups, name, group);
    }
    json_object_set_new(group, "count", json_integer(number_of(group, "count") + 1));
    if (!json_object_get(json_object_get(group, "seen"), id))
        json_object_set_new(
            group, "bytes",
            json_integer(number_of(group, "bytes") + number_of(row, "size")));
    json_object_set_new(json_object_get(group, "seen"), id, json_true());
    json_array_append(json_object_get(group, "refs"), row);
}

static int by_bytes(const void *a, const void *b)
{
    long long x = number_of(*(json_t *const *)a, "bytes"),
              y = number_of(*(json_t *const *)b, "bytes");

    return (x < y) - (x > y);
}

/* The largest group first. */
static json_t *grouped(const json_t *rows)
{
    const char *key = strcmp(group_by, "place") == 0 ? "call_site" : "ip", *name;
    json_t *groups = json_object(), *result = json_array(), *group, **list;
    size_t count = 0;

    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);

        name = crti_answer_text(row, key);
        add_to_group(groups, *name ? name : "unknown", row);
    }
    list = calloc(json_object_size(groups) + 1, sizeof(json_t *));
    json_object_foreach(groups, name, group)
    {
        json_object_del(group, "seen");
        if (list)
            list[count++] = group;
    }
    if (list)
        qsort(list, count, sizeof(json_t *), by_bytes);
    for (size_t i = 0; i < count; i++)
        json_array_append(result, list[i]);
    free(list);
    json_decref(groups);
    return result;
}

/* ---------------------------------------------------------------- printing */

/* 1.5 MB, or "-" of what is not there yet. */
static void size_text(const json_t *row, char text[32])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double size = (double)number_of(row, "size");
    size_t unit = 0;

    if (strcmp(crti_answer_text(row, "content"), "PENDING") == 0 ||
        strcmp(crti_answer_text(row, "content"), "FAILED") == 0) {
        snprintf(text, 32, "-");
        return;
    }
    for (; size >= 1000 && unit < 4; unit++)
        size /= 1000;
    snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
}

static void print_table(const json_t *rows, size_t *left)
{
    static const table_column_t columns[] = {{"OBJECT", 0}, {"SIZE", 1}, {"KEPT AS", 0},
                                             {"IN", 0},     {"PID", 1},  {"PROCESS", 0},
                                             {"NODE", 0},   {"PLACE", 0}};
    table_t *table = crti_table_new(columns, 8);

    for (size_t i = 0; i < json_array_size(rows) && *left; i++, (*left)--) {
        const json_t *row = json_array_get(rows, i);
        char size[32], pid[24], process[48];

        size_text(row, size);
        snprintf(pid, sizeof(pid), "%lld", number_of(row, "pid"));
        snprintf(process, sizeof(process), "%s %.8s",
                 strcmp(crti_answer_text(row, "worker_type"), "DRIVER") == 0 ? "driver"
                 : *crti_answer_text(row, "actor_id")                        ? "actor"
                                                                             : "worker",
                 crti_answer_text(row, *crti_answer_text(row, "actor_id") ? "actor_id"
                                                                          : "worker_id"));
        crti_table_row(table, (const char *const[]){crti_answer_text(row, "object_id"),
                                                    size, crti_answer_text(row, "kind"),
                                                    crti_answer_text(row, "content"), pid,
                                                    process, crti_answer_text(row, "ip"),
                                                    crti_answer_text(row, "call_site")});
    }
    crti_table_print(table);
}

static void print_groups(const json_t *groups, size_t *left)
{
    for (size_t i = 0; i < json_array_size(groups) && *left; i++) {
        const json_t *group = json_array_get(groups, i);

        printf("%s: %lld refs, %lld bytes\n", crti_answer_text(group, "name"),
               number_of(group, "count"), number_of(group, "bytes"));
        print_table(json_object_get(group, "refs"), left);
        putchar('\n');
    }
}

static void print_totals(const json_t *answer)
{
    const json_t *stores = json_object_get(answer, "stores");

    printf("%lld refs, %lld bytes of values\n", number_of(answer, "count"),
           number_of(answer, "bytes"));
    for (size_t i = 0; i < json_array_size(stores); i++) {
        const json_t *store = json_array_get(stores, i);

        printf("node %.8s (%s): %lld of %lld bytes of its store are used",
               crti_answer_text(store, "node_id"), crti_answer_text(store, "ip"),
               number_of(store, "used"), number_of(store, "bytes"));
        if (number_of(store, "spilled") > 0)
            printf(", %lld bytes are on disk", number_of(store, "spilled"));
        if (*crti_answer_text(store, "spill_trouble"))
            printf("; %s", crti_answer_text(store, "spill_trouble"));
        printf("\n");
    }
}

static void print_gaps(const json_t *answer, size_t shown)
{
    if (shown < (size_t)number_of(answer, "count"))
        fprintf(stderr, "%zu of %lld refs are shown (--limit N shows more)\n", shown,
                number_of(answer, "count"));
    if (number_of(answer, "silent_processes"))
        fprintf(stderr, "%lld processes did not answer\n",
                number_of(answer, "silent_processes"));
    if (number_of(answer, "silent_nodes"))
        fprintf(stderr, "%lld nodes did not answer\n", number_of(answer, "silent_nodes"));
}

static void print(const json_t *answer, const json_t *rows, const json_t *groups)
{
    size_t room = limit ? strtoul(limit, NULL, 10) : SHOWN, left = room;

    if (strcmp(format, "json") == 0) {
        crti_json_print(answer, stdout);
    } else if (strcmp(format, "yaml") == 0) {
        crti_yaml_print(answer, stdout);
    } else {
        if (groups)
            print_groups(groups, &left);
        else
            print_table(rows, &left);
        print_totals(answer);
        print_gaps(answer, room - left);
    }
}

/* ---------------------------------------------------------------- the command */

/* [{"node_id": ..., "ip": ..., "bytes": ..., "used": ...}, ...] of living nodes. */
static json_t *stores_of(const json_t *nodes)
{
    json_t *stores = json_array();

    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);

        if (strcmp(crti_answer_text(node, "state"), "ALIVE") == 0)
            json_array_append_new(
                stores,
                json_pack("{s:s, s:s, s:I, s:I, s:I, s:s}", "node_id",
                          crti_answer_text(node, "node_id"), "ip",
                          crti_answer_text(node, "ip"), "bytes",
                          (json_int_t)number_of(node, "store_bytes"), "used",
                          (json_int_t)number_of(node, "store_used"), "spilled",
                          (json_int_t)number_of(node, "spilled_bytes"), "spill_trouble",
                          crti_answer_text(node, "spill_trouble")));
    }
    return stores;
}

/* A table of the largest ones needs no others. */
static const char *query(char *text, size_t size)
{
    size_t shown = limit ? strtoul(limit, NULL, 10) : SHOWN;

    if (sort_key || group_by || strcmp(format, "table") != 0)
        return NULL;
    snprintf(text, size, "{\"limit\":%zu}", shown < INT32_MAX ? shown : INT32_MAX);
    return text;
}

static int show(void)
{
    crt_cluster_info_t cluster;
    json_t *answer, *nodes, *rows, *groups;
    char wanted[48];

    if (crt_cluster_find(address, sizeof(cluster), &cluster) != CRT_OK)
        return crti_cli_fail_detail(NAME);
    answer = crti_answer_query(&cluster, "refs", query(wanted, sizeof(wanted)));
    nodes = answer ? crti_answer_query(&cluster, "nodes", NULL) : NULL;
    if (!nodes) {
        json_decref(answer);
        return crti_cli_fail_detail(NAME);
    }
    rows = sorted(json_object_get(answer, "refs"));
    groups = group_by ? grouped(rows) : NULL;
    json_object_del(answer, "refs");
    json_object_set(answer, groups ? "groups" : "refs", groups ? groups : rows);
    json_object_set_new(answer, "stores", stores_of(nodes));
    print(answer, rows, groups);
    json_decref(groups);
    json_decref(rows);
    json_decref(nodes);
    json_decref(answer);
    return 0;
}

static bool find_order(void)
{
    for (size_t i = 0; i < ORDERS; i++)
        if (strcmp(orders[i].name, sort_by) == 0) {
            sort_key = orders[i].key;
            return true;
        }
    return false;
}

int crti_cli_memory(int argc, char **argv)
{
    static const option_spec_t options[] = {
        {"address", 'a', "HOST:PORT", OPTION_ADDRESS, &address,
         "the cluster's head; default: the only cluster here"},
        {"sort-by", 0, "KEY", OPTION_TEXT, &sort_by,
         "size (default), place, kind, address, node, process or object"},
        {"group-by", 0, "KEY", OPTION_TEXT, &group_by,
         "address: by host; place: by the line that made them; the largest group first"},
        {"limit", 'n', "N", OPTION_COUNT, &limit, "at most so many rows (100)"},
        {"format", 0, "FORMAT", OPTION_TEXT, &format, "table (default), json or yaml"}};
    static const command_spec_t spec = {
        .name = NAME,
        .summary = "Shows which process holds which objects, how large they are, why "
                   "they are kept, and which line\nof a program made them.",
        .options = options,
        .count = 5};
    int first = crti_cli_parse(argc, argv, &spec);

    if (first <= 0)
        return -first;
    if (!find_order())
        return crti_cli_misused(
            NAME, "--sort-by is size, place, kind, address, node, process or object");
    if (group_by && strcmp(group_by, "place") != 0 && strcmp(group_by, "address") != 0)
        return crti_cli_misused(NAME, "--group-by is address or place");
    if (strcmp(format, "table") != 0 && strcmp(format, "json") != 0 &&
        strcmp(format, "yaml") != 0)
        return crti_cli_misused(NAME, "--format is table, json or yaml");
    return show();
}
