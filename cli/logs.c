/* SPDX-License-Identifier: Apache-2.0 */
/* crt logs: the output of a worker or an actor, and the logs of daemons, wherever in the cluster
 * they run.
 *
 * Where it sits
 *     user -> [ cli/logs.c ] -> crt_cluster_log -> head -> the node that has the file
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "cli/answer.h"
#include "cli/options.h"
#include "cli/patience.h"
#include "cli/table.h"

#define NAME      "crt logs"
#define WAIT_MS   10000
#define DAEMON_MS 500

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
    json_t *actors = crti_answer_rows(cluster, "actors", "");
    json_t *workers = actors ? crti_answer_query(cluster, "workers", NULL) : NULL;
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
        crti_table_row(table,
                       (const char *const[]){"actor", crti_answer_text(actor, "actor_id"),
                                             crti_answer_text(actor, "class_name"),
                                             crti_answer_text(actor, "state"), pid});
    }
    for (size_t i = 0; i < json_array_size(workers); i++) {
        const json_t *worker = json_array_get(workers, i);

        pid_of(worker, pid, sizeof(pid));
        crti_table_row(
            table,
            (const char *const[]){
                strcmp(crti_answer_text(worker, "worker_type"), "DRIVER") == 0 ? "driver"
                                                                               : "worker",
                crti_answer_text(worker, "worker_id"), "",
                json_is_true(json_object_get(worker, "is_alive")) ? "ALIVE" : "DEAD",
                pid});
    }
    crti_table_print(table);
    json_decref(actors);
    json_decref(workers);
    return 0;
}

/* ---------------------------------------------------------------- which log */

static const char *address, *actor, *task, *node, *pid, *tail;
static bool follows, of_head, of_http, is_daemon;

/* Which part of the log is meant; all of it, unless it is that of a task. */
static struct {
    uint64_t from, to;
    bool is_task, is_open; /* the task runs: `to` is not known yet */
} part_of = {.to = UINT64_MAX};

/* "" when there is none. */
static crt_status_t find_node(const crt_cluster_info_t *cluster, const char *wanted,
                              char id[33])
{
    json_t *nodes = crti_answer_query(cluster, "nodes", NULL);
    const json_t *row;
    crt_status_t status =
        nodes ? crti_answer_node(nodes, wanted, false, &row) : CRT_ERR_UNREACHABLE;

    snprintf(id, 33, "%s", status == CRT_OK ? crti_answer_text(row, "node_id") : "");
    json_decref(nodes);
    return status;
}

static bool has_ended(const json_t *row)
{
    const char *state = crti_answer_text(row, "state");

    return strcmp(state, "FINISHED") == 0 || strcmp(state, "FAILED") == 0;
}

/* Where its lines are in the log of its worker. False: that is not known. */
static bool read_place(const json_t *row)
{
    const json_t *log = json_object_get(row, "log"), *from = json_object_get(log, "from"),
                 *to = json_object_get(log, "to");

    if (!json_is_integer(from) || (has_ended(row) && !json_is_integer(to)))
        return false;
    part_of.is_task = true;
    part_of.is_open = !has_ended(row);
    part_of.from = (uint64_t)json_integer_value(from);
    part_of.to = part_of.is_open ? UINT64_MAX : (uint64_t)json_integer_value(to);
    return true;
}

/* The newest attempt of the task; NULL: none is known. Caller drops it. False: nobody told. */
static bool find_row(const crt_cluster_info_t *cluster, json_t **row_out)
{
    json_t *answer = crti_answer_query(cluster, "tasks", task);
    bool is_told = answer != NULL;

    *row_out = json_incref(json_array_get(json_object_get(answer, "tasks"), 0));
    json_decref(answer);
    return is_told;
}

/* What a call has printed, or prints. */
static int find_task(const crt_cluster_info_t *cluster, char *name, size_t size)
{
    json_t *row;
    int failed = 0;

    if (!find_row(cluster, &row))
        return crti_cli_fail_detail(NAME);
    snprintf(name, size, "%s", crti_answer_text(row, "worker_id"));
    if (!*name)
        failed = crti_cli_fail(
            NAME, "no task %.60s is known, or it has not been sent to a worker", task);
    else if (!read_place(row))
        failed = crti_cli_fail(
            NAME,
            "where task %.60s has printed is not known: it has not begun, or its worker "
            "has forgotten it (a worker remembers its last calls only); all that its "
            "worker printed: crt logs %s",
            task, name);
    json_decref(row);
    return failed;
}

/* The task is followed: does it still run? One that is forgotten meanwhile ends at `offset`. */
static void look_again(const crt_cluster_info_t *cluster, uint64_t offset)
{
    json_t *row;

    if (!find_row(cluster, &row))
        return; /* the head is away: it is asked again when the next part has come */
    if (!row || !read_place(row)) {
        part_of.is_open = false;
        part_of.to = offset;
    }
    json_decref(row);
}

/* A living worker by its process id, of --node where that is given. */
static int find_pid(const crt_cluster_info_t *cluster, const char *node_id, char *name,
                    size_t size)
{
    json_t *workers = crti_answer_query(cluster, "workers", NULL);
    char text[24];

    name[0] = '\0';
    for (size_t i = 0; i < json_array_size(workers); i++) {
        const json_t *row = json_array_get(workers, i);

        pid_of(row, text, sizeof(text));
        if (strcmp(text, pid) == 0 &&
            strcmp(crti_answer_text(row, "worker_type"), "WORKER") == 0 &&
            (!node || strcmp(crti_answer_text(row, "node_id"), node_id) == 0))
            snprintf(name, size, "%s", crti_answer_text(row, "worker_id"));
    }
    json_decref(workers);
    return *name ? 0
                 : crti_cli_fail(NAME, "no living worker has the process id %.20s", pid);
}

/* A named actor becomes its id, by which its log is found also when it has ended and the name is
 * free. */
static void find_actor(const crt_cluster_info_t *cluster, char *name, size_t size)
{
    json_t *query = json_pack("{s:[[s, b, [s]], [s, b, [s]]]}", "filters", "name", 0,
                              actor, "state", 1, "DEAD");
    char *text = json_dumps(query, 0); /* NULL: no name is like that */
    json_t *answer = text ? crti_answer_query(cluster, "actors", text) : NULL;
    const json_t *rows = json_object_get(answer, "actors");

    snprintf(name, size, "%s", actor);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);

        if (strcmp(crti_answer_text(row, "name"), actor) == 0)
            snprintf(name, size, "%s", crti_answer_text(row, "actor_id"));
    }
    json_decref(answer);
    free(text);
    json_decref(query);
}

/* The name that the log has in the cluster. */
static int find_name(const crt_cluster_info_t *cluster, char *name, size_t size)
{
    char node_id[33] = "";

    is_daemon = of_head || of_http || (node && !pid);
    if (node) {
        if (find_node(cluster, node, node_id) != CRT_OK)
            return crti_cli_fail_detail(NAME);
    }
    if (task)
        return find_task(cluster, name, size);
    if (pid)
        return find_pid(cluster, node_id, name, size);
    if (node)
        snprintf(name, size, "node:%s", node_id);
    else if (of_head || of_http)
        snprintf(name, size, "%s", of_head ? "head:" : "http:");
    else
        find_actor(cluster, name, size);
    return 0;
}

/* ---------------------------------------------------------------- printing */

/* Where the last `lines` lines begin; the end of the last one need not be there yet. */
static size_t last_lines(const char *data, size_t size, size_t lines)
{
    size_t at = size;

    if (at > 0 && data[at - 1] == '\n')
        at--;
    for (; at > 0; at--)
        if (data[at - 1] == '\n' && --lines == 0)
            break;
    return at;
}

/* From `offset`, which it moves on; no more than what is meant. */
static crt_status_t read_part(const crt_cluster_info_t *cluster, const char *name,
                              uint64_t *offset, uint64_t wait_ms, crt_cluster_log_t *part)
{
    crt_status_t status =
        crt_cluster_log(cluster, name, *offset, wait_ms, sizeof(*part), part);
    uint64_t begin;

    if (status != CRT_OK)
        return status;
    begin = part->next - part->size; /* later than asked: the quota took what was there */
    if (begin > part_of.to)
        part->size = 0;
    else if (part->next > part_of.to)
        part->size = (size_t)(part_of.to - begin);
    *offset = part->next < part_of.to ? part->next : part_of.to;
    return CRT_OK;
}

/* A head that starts again, or a link that is cut: soon it can be read, or somebody knows why
 * not. */
static bool may_pass(crt_status_t status)
{
    return status == CRT_ERR_CLOSED || status == CRT_ERR_IO ||
           status == CRT_ERR_HEAD_LOST || status == CRT_ERR_UNREACHABLE ||
           status == CRT_ERR_TIMED_OUT;
}

/* The head of this host was ended, not killed: its directory went with it. */
static bool is_ended(const crt_cluster_info_t *cluster)
{
    return cluster->head_dir[0] && access(cluster->head_dir, F_OK) != 0;
}

/* The same; who follows goes on where a connection was cut. */
static crt_status_t read_patiently(const crt_cluster_info_t *cluster, const char *name,
                                   uint64_t *offset, uint64_t wait_ms,
                                   crt_cluster_log_t *part)
{
    patience_t patience = {0};
    crt_status_t status;

    do
        status = read_part(cluster, name, offset, wait_ms, part);
    while (status != CRT_OK && follows && may_pass(status) &&
           crti_patience_wait(&patience, NAME, is_ended(cluster)));
    if (status == CRT_OK)
        crti_patience_over(&patience, NAME);
    return status;
}

/* All but the last lines of what there is is passed over. Where to go on from. */
static int print_tail(const crt_cluster_info_t *cluster, const char *name, size_t lines,
                      uint64_t *offset)
{
    char *kept = NULL;
    size_t kept_size = 0;
    bool goes_on = true;

    while (goes_on) {
        uint64_t before = *offset;
        crt_cluster_log_t part;
        char *grown;
        size_t from;

        if (read_patiently(cluster, name, offset, 0, &part) != CRT_OK) {
            free(kept);
            return crti_cli_fail_detail(NAME);
        }
        goes_on = part.size > 0 && *offset > before;
        grown = realloc(kept, kept_size + part.size + 1);
        if (!grown) {
            crt_free(part.data);
            free(kept);
            return crti_cli_fail(NAME, "out of memory for the last lines of %.60s", name);
        }
        kept = grown;
        memcpy(kept + kept_size, part.data, part.size);
        kept_size += part.size;
        crt_free(part.data);
        from = lines ? last_lines(kept, kept_size, lines) : kept_size;
        kept_size -= from;
        memmove(kept, kept + from, kept_size);
    }
    fwrite(kept, 1, kept_size, stdout);
    fflush(stdout);
    free(kept);
    return 0;
}

/* A daemon does not tell when its log grows: it is looked at twice a second; and a task that runs,
 * whether it still does. */
static uint64_t wait_of(void)
{
    bool is_over = part_of.is_task && !part_of.is_open;

    return !follows || is_over ? 0 : is_daemon || part_of.is_task ? DAEMON_MS : WAIT_MS;
}

static int print(const crt_cluster_info_t *cluster, const char *name)
{
    uint64_t offset = part_of.from;
    int failed = tail ? print_tail(cluster, name, strtoul(tail, NULL, 10), &offset) : 0;

    if (failed || (tail && !follows))
        return failed;
    for (;;) {
        uint64_t before = offset;
        bool goes_on, is_bounded;
        crt_cluster_log_t part;

        if (follows && part_of.is_open)
            look_again(cluster, offset);
        is_bounded = !follows || (part_of.is_task && !part_of.is_open);
        if (read_patiently(cluster, name, &offset, wait_of(), &part) != CRT_OK)
            return crti_cli_fail_detail(NAME);
        fwrite(part.data, 1, part.size, stdout);
        fflush(stdout);
        goes_on = is_bounded ? part.size > 0 && offset > before && offset < part_of.to
                             : !part.ended;
        crt_free(part.data);
        if (!goes_on)
            return 0;
        if (!is_bounded &&
            part.size == 0) /* a head that does not wait is not asked without end */
            nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
}

int crti_cli_logs(int argc, char **argv)
{
    static const option_spec_t options[] = {
        {"address", 'a', "HOST:PORT", OPTION_ADDRESS, &address,
         "the cluster's head; default: the only cluster here"},
        {"follow", 'f', NULL, OPTION_FLAG, &follows, "go on until the process ends"},
        {"tail", 0, "N", OPTION_COUNT, &tail, "begin with the last N lines"},
        {"actor", 0, "ID", OPTION_TEXT, &actor, "of an actor: its id or name"},
        {"task", 0, "ID", OPTION_TEXT, &task, "what that task has printed"},
        {"pid", 0, "PID", OPTION_COUNT, &pid,
         "of the living worker with that process id; with --node, of that node"},
        {"node", 0, "NODE", OPTION_TEXT, &node,
         "node.log of a node: its id or the begin of it, its address or its name"},
        {"head", 0, NULL, OPTION_FLAG, &of_head, "head.log"},
        {"http", 0, NULL, OPTION_FLAG, &of_http, "http.log of the dashboard's server"}};
    static const command_spec_t spec = {
        .name = NAME,
        .operands = "[WORKER|ACTOR]",
        .summary =
            "Prints the output of a worker (its id) or an actor (its id or name), or "
            "the log of\na daemon, from any host of the cluster; without one, lists "
            "workers and actors.",
        .options = options,
        .count = sizeof(options) / sizeof(options[0])};
    crt_cluster_info_t cluster;
    char name[160];
    int first = crti_cli_parse(argc, argv, &spec);
    int failed, chosen;

    if (first <= 0)
        return -first;
    chosen = (argc > first) + (actor != NULL) + (task != NULL) + (pid || node) + of_head +
             of_http;
    if (argc - first > 1 || chosen > 1)
        return crti_cli_misused(NAME, "one log at a time");
    if (argc > first)
        actor = argv[first];
    if (crt_cluster_find(address, sizeof(cluster), &cluster) != CRT_OK)
        return crti_cli_fail_detail(NAME);
    if (chosen == 0)
        return list(&cluster);
    failed = find_name(&cluster, name, sizeof(name));
    return failed ? failed : print(&cluster, name);
}
