/* SPDX-License-Identifier: Apache-2.0 */
/* crt top: what the cluster's processes do, again each second.
 *
 * Where it sits
 *     user -> [ cli/top.c ] -> crt_cluster_query ("metrics", "workers", "actors") -> head -> nodes
 * What is shown is the difference between two looks: processor time of workers, calls of nodes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "cli/answer.h"
#include "cli/options.h"
#include "cli/table.h"
#include "runtime/base/clock.h"

#define NAME       "crt top"
#define ROWS_SHOWN 40
#define LIVING     "[\"state\",true,[\"DEAD\"]]"

/* One look. */
typedef struct look {
    json_t *metrics, *workers, *actors;
    int64_t at_ms;
} look_t;

/* A worker as it is shown. */
typedef struct row {
    const json_t *worker;
    double cpu;    /* percent of a core since the last look */
    double memory; /* bytes */
} row_t;

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void forget(look_t *look)
{
    json_decref(look->metrics);
    json_decref(look->workers);
    json_decref(look->actors);
    *look = (look_t){0};
}

static bool take_look(const crt_cluster_info_t *cluster, look_t *look)
{
    *look = (look_t){.metrics = crti_answer_query(cluster, "metrics", NULL)};
    look->at_ms = crti_now_ms();
    look->workers = look->metrics ? crti_answer_query(cluster, "workers", NULL) : NULL;
    look->actors = look->workers ? crti_answer_rows(cluster, "actors", LIVING) : NULL;
    return look->actors != NULL;
}

/* The entry of a list with that text; NULL: there is none. */
static const json_t *find(const json_t *list, const char *key, const char *text)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(crti_answer_text(json_array_get(list, i), key), text) == 0)
            return json_array_get(list, i);
    return NULL;
}

/* How much more it is than before, for each second. */
static double per_second(double now, double before, double seconds)
{
    return seconds > 0 && now > before ? (now - before) / seconds : 0;
}

static void bytes_text(double bytes, char *text, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;

    for (; bytes >= 1024 && unit < 4; unit++)
        bytes /= 1024;
    snprintf(text, size, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

/* ---------------------------------------------------------------- nodes */

static void print_nodes(const look_t *now, const look_t *before, double seconds)
{
    static const table_column_t columns[] = {
        {"NODE", 0},  {"HOST", 0},   {"CALLS/S", 1}, {"MADE/S", 1},
        {"STORE", 1}, {"MEMORY", 1}, {"WORKERS", 1}, {"FREE CPU", 1}};
    const json_t *figures = json_object_get(now->metrics, "nodes");
    const json_t *older = json_object_get(before->metrics, "nodes");
    const json_t *nodes =
        json_object_get(json_object_get(now->metrics, "cluster"), "nodes");
    table_t *table = crti_table_new(columns, 8);

    for (size_t i = 0; i < json_array_size(figures); i++) {
        const json_t *f = json_array_get(figures, i),
                     *calls = json_object_get(f, "calls");
        const char *id = crti_answer_text(f, "node_id");
        const json_t *was = json_object_get(find(older, "node_id", id), "calls");
        const json_t *node = find(nodes, "node_id", id);
        char run[24], made[24], store[24], memory[24], workers[24], cpu[24];

        snprintf(run, sizeof(run), "%.0f",
                 per_second(number_of(calls, "run"), number_of(was, "run"), seconds));
        snprintf(made, sizeof(made), "%.0f",
                 per_second(number_of(calls, "made"), number_of(was, "made"), seconds));
        bytes_text(number_of(node, "store_used"), store, sizeof(store));
        bytes_text(number_of(node, "memory_used"), memory, sizeof(memory));
        snprintf(workers, sizeof(workers), "%.0f", number_of(node, "workers"));
        snprintf(cpu, sizeof(cpu), "%g",
                 number_of(json_object_get(node, "resources_available"), "CPU"));
        crti_table_row(table,
                       (const char *const[]){id, crti_answer_text(node, "hostname"), run,
                                             made, store, memory, workers, cpu});
    }
    crti_table_print(table);
}

/* ---------------------------------------------------------------- workers */

static bool by_memory;

static int compare(const void *a, const void *b)
{
    const row_t *x = a, *y = b;
    double left = by_memory ? x->memory : x->cpu, right = by_memory ? y->memory : y->cpu;

    return left < right ? 1 : left > right ? -1 : 0;
}

static const char *kind_of(const look_t *look, const json_t *worker)
{
    const json_t *actor =
        find(look->actors, "actor_id", crti_answer_text(worker, "actor_id"));

    if (strcmp(crti_answer_text(worker, "worker_type"), "DRIVER") == 0)
        return "driver";
    return actor ? crti_answer_text(actor, "class_name") : "tasks";
}

static void print_workers(const look_t *now, const look_t *before, double seconds)
{
    static const table_column_t columns[] = {{"PID", 1},   {"NODE", 0},   {"RUNS", 0},
                                             {"CPU %", 1}, {"MEMORY", 1}, {"WORKER", 0}};
    size_t count = json_array_size(now->workers);
    row_t *rows = calloc(count + 1, sizeof(*rows));
    table_t *table;

    if (!rows)
        return;
    for (size_t i = 0; i < count; i++) {
        const json_t *w = json_array_get(now->workers, i);
        const json_t *was =
            find(before->workers, "worker_id", crti_answer_text(w, "worker_id"));

        rows[i] = (row_t){
            w,
            per_second(number_of(w, "cpu_us"),
                       was ? number_of(was, "cpu_us") : number_of(w, "cpu_us"), seconds) /
                1e4,
            number_of(w, "memory_bytes")};
    }
    qsort(rows, count, sizeof(*rows), compare);
    table = crti_table_new(columns, 6);
    for (size_t i = 0; i < count && i < ROWS_SHOWN; i++) {
        const json_t *w = rows[i].worker;
        char pid[24], cpu[24], memory[24];

        snprintf(pid, sizeof(pid), "%.0f", number_of(w, "pid"));
        snprintf(cpu, sizeof(cpu), "%.1f", rows[i].cpu);
        bytes_text(rows[i].memory, memory, sizeof(memory));
        crti_table_row(table, (const char *const[]){pid, crti_answer_text(w, "ip"),
                                                    kind_of(now, w), cpu, memory,
                                                    crti_answer_text(w, "worker_id")});
    }
    crti_table_print(table);
    if (count > ROWS_SHOWN)
        printf(" and %zu more\n", count - ROWS_SHOWN);
    free(rows);
}

/* ---------------------------------------------------------------- the command */

static void print_look(const look_t *now, const look_t *before)
{
    double seconds = (double)(now->at_ms - before->at_ms) / 1000;
    time_t at = time(NULL);
    struct tm local;
    char when[32];

    localtime_r(&at, &local);
    strftime(when, sizeof(when), "%F %T", &local);
    if (isatty(STDOUT_FILENO))
        printf("\033[H\033[J");
    printf("crt top: %s, %zu nodes, %zu processes\n", when,
           json_array_size(json_object_get(now->metrics, "nodes")),
           json_array_size(now->workers));
    print_nodes(now, before, seconds);
    print_workers(now, before, seconds);
    fflush(stdout);
}

static int run(const crt_cluster_info_t *cluster, unsigned long seconds,
               unsigned long count)
{
    look_t before, now;

    if (!take_look(cluster, &before)) {
        forget(&before);
        return crti_cli_fail_detail(NAME);
    }
    for (unsigned long i = 0; count == 0 || i < count; i++) {
        nanosleep(&(struct timespec){.tv_sec = (time_t)seconds}, NULL);
        if (!take_look(cluster, &now)) {
            forget(&before);
            forget(&now);
            return crti_cli_fail_detail(NAME);
        }
        print_look(&now, &before);
        forget(&before);
        before = now;
    }
    forget(&before);
    return 0;
}

int crti_cli_top(int argc, char **argv)
{
    static const char *address, *interval = "1", *count = "0", *sort = "cpu";
    static const option_spec_t options[] = {
        {"address", 'a', "HOST:PORT", OPTION_ADDRESS, &address,
         "the cluster's head; default: the only cluster here"},
        {"interval", 0, "SECONDS", OPTION_COUNT, &interval,
         "between two looks; default 1"},
        {"count", 0, "N", OPTION_COUNT, &count, "end after so many; default: go on"},
        {"sort", 0, "KEY", OPTION_TEXT, &sort, "cpu (default) or memory"}};
    static const command_spec_t spec = {
        .name = NAME,
        .summary =
            "Shows again and again which processes use processor and memory, and the "
            "calls per\nsecond of each node.",
        .options = options,
        .count = 4};
    crt_cluster_info_t cluster;
    unsigned long seconds;
    int first = crti_cli_parse(argc, argv, &spec);

    if (first <= 0)
        return -first;
    by_memory = strcmp(sort, "memory") == 0;
    if (!by_memory && strcmp(sort, "cpu") != 0)
        return crti_cli_misused(NAME, "--sort is cpu or memory");
    seconds = strtoul(interval, NULL, 10);
    if (seconds < 1 || seconds > 3600)
        return crti_cli_misused(NAME, "--interval is 1 to 3600 seconds");
    if (crt_cluster_find(address, sizeof(cluster), &cluster) != CRT_OK)
        return crti_cli_fail_detail(NAME);
    return run(&cluster, seconds, strtoul(count, NULL, 10));
}
