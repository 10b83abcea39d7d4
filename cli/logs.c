/* SPDX-License-Identifier: Apache-2.0 */
/* crt logs: the output of a worker or an actor, wherever in the cluster it runs.
 *
 * Where it sits
 *     user -> [ cli/logs.c ] -> crt_cluster_log -> head -> the node that has the file
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "cli/options.h"
#include "cli/table.h"

#define NAME    "crt logs"
#define WAIT_MS 10000

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static json_t *query(const crt_cluster_info_t *cluster, const char *what)
{
    char *text = NULL;
    json_t *json;

    if (crt_cluster_query(cluster, what, NULL, &text) != CRT_OK)
        return NULL;
    json = json_loads(text, JSON_DECODE_ANY, NULL);
    free(text);
    if (!json)
        crt_raise(CRT_ERR_PROTOCOL, "the head's answer is not JSON");
    return json;
}

/* "" when it is not known. */
static void pid_of(const json_t *object, char *text, size_t size)
{
    json_int_t pid = json_integer_value(json_object_get(object, "pid"));

    text[0] = '\0';
    if (pid > 0)
        snprintf(text, size, "%lld", (long long)pid);
}

/* Without a name: what there is to read. */
static int list(const crt_cluster_info_t *cluster)
{
    static const table_column_t columns[] = {
        {"KIND", 0}, {"ID", 0}, {"NAME", 0}, {"STATE", 0}, {"PID", 1}};
    json_t *actors = query(cluster, "actors");
    json_t *workers = actors ? query(cluster, "workers") : NULL;
    table_t *table;
    char pid[24];

    if (!workers) {
        json_decref(actors);
        return crti_cli_fail_detail(NAME);
    }
    if (json_array_size(actors) + json_array_size(workers) == 0)
        printf("No workers and no actors.\n");
    table = crti_table_new(columns, 5);
    for (size_t i = 0; i < json_array_size(actors); i++) {
        const json_t *actor = json_array_get(actors, i);

        pid_of(actor, pid, sizeof(pid));
        crti_table_row(table, (const char *const[]){"actor", text_of(actor, "actor_id"),
                                                    text_of(actor, "class_name"),
                                                    text_of(actor, "state"), pid});
    }
    for (size_t i = 0; i < json_array_size(workers); i++) {
        const json_t *worker = json_array_get(workers, i);

        pid_of(worker, pid, sizeof(pid));
        crti_table_row(
            table,
            (const char *const[]){
                strcmp(text_of(worker, "worker_type"), "DRIVER") == 0 ? "driver"
                                                                      : "worker",
                text_of(worker, "worker_id"), "",
                json_is_true(json_object_get(worker, "is_alive")) ? "ALIVE" : "DEAD",
                pid});
    }
    crti_table_print(table);
    json_decref(actors);
    json_decref(workers);
    return 0;
}

static int print(const crt_cluster_info_t *cluster, const char *name, bool follows)
{
    uint64_t offset = 0;

    for (;;) {
        crt_cluster_log_t part;
        bool goes_on;

        if (crt_cluster_log(cluster, name, offset, follows ? WAIT_MS : 0, &part) !=
            CRT_OK)
            return crti_cli_fail_detail(NAME);
        fwrite(part.data, 1, part.size, stdout);
        fflush(stdout);
        goes_on = follows ? !part.ended : part.size > 0 && part.next > offset;
        offset = part.next;
        free(part.data);
        if (!goes_on)
            return 0;
        if (follows &&
            part.size == 0) /* a head that does not wait is not asked without end */
            nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
}

int crti_cli_logs(int argc, char **argv)
{
    static const char *address;
    static bool follows;
    static const option_spec_t options[] = {
        {"address", 'a', "HOST:PORT", OPTION_ADDRESS, &address,
         "the cluster's head; default: the only cluster here"},
        {"follow", 'f', NULL, OPTION_FLAG, &follows, "go on until the process ends"}};
    static const command_spec_t spec = {.name = NAME,
                                        .operands = "[WORKER|ACTOR]",
                                        .summary =
                                            "Prints the output of a worker (its id) or "
                                            "an actor (its id or name); without "
                                            "one, lists them.",
                                        .options = options,
                                        .count = 2};
    crt_cluster_info_t cluster;
    int first;

    switch (crti_cli_parse(argc, argv, &spec, &first)) {
    case PARSE_DONE: return 0;
    case PARSE_WRONG: return CLI_USAGE;
    case PARSE_OK: break;
    }
    if (argc - first > 1)
        return crti_cli_misused(NAME, "one name at a time");
    if (crt_cluster_find(address, &cluster) != CRT_OK)
        return crti_cli_fail_detail(NAME);
    return argc == first ? list(&cluster) : print(&cluster, argv[first], follows);
}
