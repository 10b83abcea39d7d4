/* SPDX-License-Identifier: Apache-2.0 */
/* crt status: nodes, resources, what waits and why, actors and jobs.
 *
 * Where it sits
 *     STATE_ANSWER (docs/design/state.md) by crt_cluster_query -> [ cli/status.c ] -> stdout
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "cli/answer.h"
#include "cli/cluster.h"
#include "cli/json_print.h"
#include "cli/options.h"
#include "cli/table.h"

#define NAME            "crt status"
#define ROWS_SHOWN      50
#define DECISIONS_SHOWN 5 /* without -v */

static bool verbose; /* of -v, one command per process */
#define LATE_MS 2000 /* a node is heard of every second */

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static bool is_alive(const json_t *node)
{
    return strcmp(crti_answer_text(node, "state"), "ALIVE") == 0;
}

static void format_bytes(double bytes, char *text, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;

    while (bytes >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, size, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

static void format_amount(const char *name, double amount, char *text, size_t size)
{
    if (strcmp(name, "memory") == 0)
        format_bytes(amount, text, size);
    else
        snprintf(text, size, "%.10g", amount);
}

/* ---------------------------------------------------------------- parts */

/* Each node is a resource of its own, which only who looks for it wants to see. */
static bool is_node(const char *name)
{
    return strncmp(name, "node:", 5) == 0;
}

static void format_use(const json_t *node, const char *used_key, const char *total_key,
                       char *text, size_t size)
{
    char used[24], total[24];

    format_bytes(number_of(node, used_key), used, sizeof(used));
    format_bytes(number_of(node, total_key), total, sizeof(total));
    snprintf(text, size, "%s/%s", used, total);
}

/* Why a node is not alive, else where it is, and what it lacks. */
static void remark(const json_t *node, double now_ms, char *text, size_t size)
{
    double ended = number_of(node, "memory_ended");
    double spilled = number_of(node, "spilled_objects");
    char bytes[24];
    double heard_ms = number_of(node, "heard_time");

    if (!is_alive(node)) {
        snprintf(text, size, "%s", crti_answer_text(node, "state_message"));
        return;
    }
    snprintf(text, size, "%s",
             json_is_true(json_object_get(node, "is_head_node"))
                 ? "head"
                 : crti_answer_text(node, "hostname"));
    if (heard_ms > 0 && now_ms - heard_ms > LATE_MS)
        snprintf(text + strlen(text), size - strlen(text), "; nothing heard for %.1f s",
                 (now_ms - heard_ms) / 1000);
    if (json_is_integer(json_object_get(node, "drain_ms")))
        snprintf(text + strlen(text), size - strlen(text),
                 "; drained, ends within %.0f s", number_of(node, "drain_ms") / 1000);
    if (number_of(node, "spilled_bytes") > 0) {
        format_bytes(number_of(node, "spilled_bytes"), bytes, sizeof(bytes));
        snprintf(text + strlen(text), size - strlen(text),
                 "; %s in %.0f object%s on disk", bytes, spilled, spilled > 1 ? "s" : "");
    }
    if (*crti_answer_text(node, "spill_trouble"))
        snprintf(text + strlen(text), size - strlen(text), "; %s",
                 crti_answer_text(node, "spill_trouble"));
    if (ended > 0)
        snprintf(text + strlen(text), size - strlen(text),
                 "; out of memory: %.0f worker%s ended", ended, ended > 1 ? "s" : "");
}

static void print_nodes(const json_t *nodes, double now_ms)
{
    static const table_column_t columns[] = {
        {"NODE", 0},  {"STATE", 0},   {"ADDRESS", 0}, {"CPU", 1},   {"MEMORY", 1},
        {"STORE", 1}, {"WORKERS", 1}, {"PID", 1},     {"REMARK", 0}};
    table_t *table = crti_table_new(columns, 9);

    printf("Nodes\n");
    if (json_array_size(nodes) == 0)
        printf(" (no node has joined)\n");
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        const json_t *total = json_object_get(node, "resources_total");
        const json_t *available = json_object_get(node, "resources_available");
        char id[16], cpu[48] = "", memory[64] = "", store[64] = "", workers[24] = "";
        char pid[24] = "", why[400];

        snprintf(id, sizeof(id), "%.8s", crti_answer_text(node, "node_id"));
        if (is_alive(node)) {
            snprintf(cpu, sizeof(cpu), "%.10g/%.10g",
                     number_of(total, "CPU") - number_of(available, "CPU"),
                     number_of(total, "CPU"));
            format_use(node, "memory_used", "memory_bytes", memory, sizeof(memory));
            format_use(node, "store_used", "store_bytes", store, sizeof(store));
            snprintf(workers, sizeof(workers), "%.0f", number_of(node, "workers"));
            snprintf(pid, sizeof(pid), "%.0f", number_of(node, "pid"));
        }
        remark(node, now_ms, why, sizeof(why));
        crti_table_row(table, (const char *const[]){id, crti_answer_text(node, "state"),
                                                    crti_answer_text(node, "ip"), cpu,
                                                    memory, store, workers, pid, why});
    }
    crti_table_print(table);
}

/* One line per resource, summed over the living nodes. */
static void print_resources(const json_t *nodes)
{
    json_t *totals = json_object();
    const char *name;
    json_t *amount;
    size_t i;

    printf("\nResources (used/total)\n");
    for (i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        json_t *available = json_object_get(node, "resources_available");

        if (!is_alive(node))
            continue;
        json_object_foreach(json_object_get(node, "resources_total"), name, amount)
        {
            const json_t *sum = json_object_get(totals, name);
            double all = json_number_value(amount);

            if (is_node(name))
                continue;
            json_object_set_new(
                totals, name,
                json_pack("{s:f, s:f}", "used",
                          number_of(sum, "used") + all - number_of(available, name),
                          "total", number_of(sum, "total") + all));
        }
    }
    if (json_object_size(totals) == 0)
        printf(" (none)\n");
    json_object_foreach(totals, name, amount)
    {
        char used[32], total[32];

        format_amount(name, number_of(amount, "used"), used, sizeof(used));
        format_amount(name, number_of(amount, "total"), total, sizeof(total));
        printf(" %s/%s %s\n", used, total, name);
    }
    json_decref(totals);
}

/* Of nodes where something is kept, or was not. */
static void print_lineage(const json_t *nodes)
{
    bool is_first = true;

    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        double forgotten = number_of(node, "lineage_forgotten");
        char use[64];

        if (!is_alive(node) || (number_of(node, "lineage_bytes") == 0 && forgotten == 0))
            continue;
        if (is_first)
            printf("\nKept to make lost objects again (CRT_LINEAGE_LIMIT)\n");
        is_first = false;
        format_use(node, "lineage_bytes", "lineage_limit", use, sizeof(use));
        printf(" %.8s %s", crti_answer_text(node, "node_id"), use);
        if (forgotten > 0)
            printf("; forgotten for lack of room: %.0f", forgotten);
        printf("\n");
    }
}

static void print_demand(const json_t *demand)
{
    printf("\nWaiting\n");
    if (json_array_size(demand) == 0)
        printf(" (nothing waits for resources)\n");
    for (size_t i = 0; i < json_array_size(demand); i++) {
        const json_t *entry = json_array_get(demand, i);
        const char *name, *separator = "", *reason = crti_answer_text(entry, "reason");
        json_t *amount;

        printf(" %.0f x %s %s {", number_of(entry, "count"),
               crti_answer_text(entry, "kind"), crti_answer_text(entry, "name"));
        json_object_foreach(json_object_get(entry, "resources"), name, amount)
        {
            char text[32];

            format_amount(name, json_number_value(amount), text, sizeof(text));
            printf("%s%s %s", separator, text, name);
            separator = ", ";
        }
        printf("}%s%s\n", *reason ? ": " : "", reason);
    }
}

static void print_type(table_t *table, const json_t *type)
{
    const json_t *counts = json_object_get(type, "instances");
    char min[24], max[24], there[24], coming[24], ending[24];

    snprintf(min, sizeof(min), "%.0f", number_of(type, "min"));
    snprintf(max, sizeof(max), "%.0f", number_of(type, "max"));
    snprintf(there, sizeof(there), "%.0f", number_of(counts, "RUNNING"));
    snprintf(coming, sizeof(coming), "%.0f",
             number_of(counts, "ASKED") + number_of(counts, "STARTING"));
    snprintf(ending, sizeof(ending), "%.0f",
             number_of(counts, "DRAINING") + number_of(counts, "ENDING"));
    crti_table_row(table, (const char *const[]){crti_answer_text(type, "name"), min, max,
                                                there, coming, ending,
                                                crti_answer_text(type, "message")});
}

/* What it has and wants, and the newest decisions with their reasons. */
static void print_autoscaler(const json_t *autoscaler, double now_ms)
{
    static const table_column_t columns[] = {
        {"NODE TYPE", 0}, {"MIN", 1},    {"MAX", 1},    {"NODES", 1},
        {"COMING", 1},    {"ENDING", 1}, {"MESSAGE", 0}};
    const json_t *types = json_object_get(autoscaler, "node_types");
    const json_t *decisions = json_object_get(autoscaler, "decisions");
    const char *waits = crti_answer_text(autoscaler, "waits");
    const char *provider = crti_answer_text(autoscaler, "provider_message");
    size_t shown = verbose ? SIZE_MAX : DECISIONS_SHOWN;
    table_t *table;

    if (!json_is_object(autoscaler))
        return;
    printf("\nAutoscaler (a node that is idle for %.10g s ends)\n",
           number_of(autoscaler, "idle_timeout"));
    table = crti_table_new(columns, 7);
    for (size_t i = 0; i < json_array_size(types); i++)
        print_type(table, json_array_get(types, i));
    crti_table_print(table);
    if (*waits)
        printf(" waits: %s\n", waits);
    if (*provider)
        printf(" the provider does not say which nodes it has: %s\n", provider);
    for (size_t i = 0; i < json_array_size(decisions) && i < shown; i++) {
        const json_t *decision = json_array_get(decisions, i);

        printf(" %.0f s ago: %s\n", (now_ms - number_of(decision, "time")) / 1000,
               crti_answer_text(decision, "message"));
    }
}

static void print_deadlock(const json_t *deadlock, double now_ms)
{
    const json_t *jobs = json_object_get(deadlock, "jobs");

    if (!json_is_object(deadlock))
        return;
    printf(
        "\nResource deadlock for %.0f s: none of these jobs can go on before one ends\n",
        (now_ms - number_of(deadlock, "start_time")) / 1000);
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        const json_t *job = json_array_get(jobs, i);

        printf(" %s holds %s and waits for %s\n", crti_answer_text(job, "name"),
               crti_answer_text(job, "holds"), crti_answer_text(job, "waits_for"));
    }
}

static void print_counts(const char *heading, const json_t *counts)
{
    const char *state, *separator = "";
    json_t *count;

    printf("\n%s: ", heading);
    if (json_object_size(counts) == 0)
        printf("none");
    json_object_foreach((json_t *)counts, state, count)
    {
        printf("%s%lld %s", separator, (long long)json_integer_value(count), state);
        separator = ", ";
    }
    printf("\n");
}

/* A fenced actor says so, and then what any would. */
static const char *message_of(const json_t *actor, char *text, size_t size)
{
    const char *message = crti_answer_text(actor, "message");

    if (!json_is_true(json_object_get(actor, "is_fenced")))
        return message;
    snprintf(text, size, *message ? "fenced; %s" : "fenced", message);
    return text;
}

/* Of an actor that is dead: that it was meant to end. */
static bool has_ended_well(const json_t *actor)
{
    return strcmp(crti_answer_text(actor, "state"), "DEAD") == 0 &&
           json_is_false(json_object_get(actor, "has_failed"));
}

static void print_actor(table_t *table, const json_t *actor)
{
    char id[40], node[16], pid[24] = "", message[600];

    snprintf(id, sizeof(id), "%.12s", crti_answer_text(actor, "actor_id"));
    snprintf(node, sizeof(node), "%.8s", crti_answer_text(actor, "node_id"));
    if (json_is_integer(json_object_get(actor, "pid")))
        snprintf(pid, sizeof(pid), "%.0f", number_of(actor, "pid"));
    crti_table_row(table,
                   (const char *const[]){
                       id, crti_answer_text(actor, "class_name"),
                       crti_answer_text(actor, "name"),
                       has_ended_well(actor) ? "ENDED" : crti_answer_text(actor, "state"),
                       node, pid, message_of(actor, message, sizeof(message))});
}

/* Of those that are shown here; NULL: with the detail set. */
static json_t *query_rows(const crt_cluster_info_t *cluster, const char *what,
                          const char *filters)
{
    char query[160];

    snprintf(query, sizeof(query), "{\"limit\":%d,\"filters\":[%s]}", ROWS_SHOWN,
             filters);
    return crti_answer_query(cluster, what, query);
}

/* {"actors": as many as are shown, "matched": how many could be}. Those that ended well are many,
 * and nothing is wrong with them: with -v only. NULL with the detail set. */
static json_t *ask_actors(const crt_cluster_info_t *cluster)
{
    json_t *living =
        query_rows(cluster, "actors", verbose ? "" : "[\"state\",true,[\"DEAD\"]]");
    json_t *failed = living && !verbose
                         ? query_rows(cluster, "actors", "[\"has_failed\",false,[true]]")
                         : json_object();
    json_t *list = json_array();
    json_int_t matched = json_integer_value(json_object_get(living, "matched")) +
                         json_integer_value(json_object_get(failed, "matched"));
    bool is_known = living && failed;

    json_array_extend(list, json_object_get(living, "actors"));
    json_array_extend(list, json_object_get(failed, "actors"));
    json_decref(living);
    json_decref(failed);
    if (is_known)
        return json_pack("{s:o, s:I}", "actors", list, "matched", matched);
    json_decref(list);
    return NULL;
}

static void print_actors(const json_t *answer)
{
    static const table_column_t columns[] = {{"ACTOR", 0},  {"CLASS", 0}, {"NAME", 0},
                                             {"STATE", 0},  {"NODE", 0},  {"PID", 1},
                                             {"MESSAGE", 0}};
    const json_t *actors = json_object_get(answer, "actors");
    json_int_t matched = json_integer_value(json_object_get(answer, "matched"));
    table_t *table = crti_table_new(columns, 7);
    size_t count = json_array_size(actors),
           shown = count < ROWS_SHOWN ? count : ROWS_SHOWN;

    for (size_t i = 0; i < shown; i++)
        print_actor(table, json_array_get(actors, i));
    crti_table_print(table);
    if (matched > (json_int_t)shown)
        printf(" and %lld more (crt status --json shows all)\n",
               (long long)(matched - (json_int_t)shown));
}

static void print_jobs(const json_t *answer)
{
    static const table_column_t columns[] = {{"JOB", 0}, {"STATE", 0}, {"ENTRYPOINT", 0}};
    const json_t *jobs = json_object_get(answer, "jobs");
    json_int_t matched = json_integer_value(json_object_get(answer, "matched"));
    size_t shown = json_array_size(jobs);
    table_t *table = crti_table_new(columns, 3);

    for (size_t i = 0; i < shown; i++) {
        const json_t *job = json_array_get(jobs, i);
        const char *id = crti_answer_text(job, "submission_id");

        crti_table_row(table,
                       (const char *const[]){*id ? id : crti_answer_text(job, "job_id"),
                                             crti_answer_text(job, "status"),
                                             crti_answer_text(job, "entrypoint")});
    }
    crti_table_print(table);
    if (matched > (json_int_t)shown)
        printf(" and %lld more (crt job list --all shows all)\n",
               (long long)(matched - (json_int_t)shown));
}

/* ---------------------------------------------------------------- the command */

static void print_text(const json_t *state, const json_t *actors, const json_t *jobs)
{
    time_t now = time(NULL);
    struct tm local;
    char when[32];

    localtime_r(&now, &local);
    strftime(when, sizeof(when), "%F %T", &local);
    printf("======== Cluster %s, crt %s: %s ========\n",
           crti_answer_text(state, "address"), crti_answer_text(state, "version"), when);
    print_nodes(json_object_get(state, "nodes"), number_of(state, "time"));
    print_resources(json_object_get(state, "nodes"));
    print_lineage(json_object_get(state, "nodes"));
    print_demand(json_object_get(state, "demand"));
    print_autoscaler(json_object_get(state, "autoscaler"), number_of(state, "time"));
    print_deadlock(json_object_get(state, "resource_deadlock"), number_of(state, "time"));
    print_counts("Actors", json_object_get(state, "actors"));
    print_actors(actors);
    print_counts("Jobs", json_object_get(state, "jobs"));
    print_jobs(jobs);
}

/* As crt_context_info gives them to a program. */
static json_t *addresses_of(const crt_cluster_info_t *c)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "address",
                     c->address, "node", c->node, "node_ip", c->node_ip, "http", c->http,
                     "object_store", c->object_store, "control_store", c->control_store,
                     "run_dir", c->run_dir, "head_dir", c->head_dir, "state_dir",
                     c->state_dir, "key_file", c->key_file);
}

static int show(const crt_cluster_info_t *cluster, bool as_json)
{
    json_t *state = crti_answer_query(cluster, "cluster", NULL);
    json_t *actors = !state    ? NULL
                     : as_json ? crti_answer_rows(cluster, "actors", "")
                               : ask_actors(cluster);
    json_t *jobs = !actors   ? NULL
                   : as_json ? crti_answer_rows(cluster, "jobs", "")
                             : query_rows(cluster, "jobs", "");
    int result = jobs ? 0 : crti_cli_fail_detail(NAME);

    if (jobs && as_json) {
        json_t *all = json_pack("{s:O, s:O, s:O, s:o}", "cluster", state, "actors",
                                actors, "jobs", jobs, "addresses", addresses_of(cluster));

        crti_json_print(all, stdout);
        json_decref(all);
    } else if (jobs) {
        print_text(state, actors, jobs);
    }
    json_decref(state);
    json_decref(actors);
    json_decref(jobs);
    return result;
}

int crti_cli_status(int argc, char **argv)
{
    static const char *address, *interval = "2";
    static bool as_json, watches;
    static const option_spec_t options[] = {
        {"address", 'a', "HOST:PORT", OPTION_ADDRESS, &address,
         "the cluster's head; default: the only cluster here"},
        {"json", 'j', NULL, OPTION_FLAG, &as_json, "everything as one JSON object"},
        {"verbose", 'v', NULL, OPTION_FLAG, &verbose,
         "also actors that ended with their job, or as their user wished"},
        {"watch", 'w', NULL, OPTION_FLAG, &watches, "again and again"},
        {"interval", 0, "SECONDS", OPTION_COUNT, &interval,
         "with --watch: between two looks; default 2"}};
    static const command_spec_t spec = {
        .name = NAME,
        .operands = "[FILE]",
        .summary =
            "Shows the nodes of a cluster, their resources, what waits for resources and "
            "why,\nactors and jobs; of a cluster file by ssh.",
        .options = options,
        .count = 5};
    crt_cluster_info_t cluster;
    unsigned long seconds;
    int first = crti_cli_parse(argc, argv, &spec);

    if (first <= 0)
        return -first;
    if (first < argc && address)
        return crti_cli_misused(NAME, "give --address or FILE");
    if (first < argc) {
        const char *path = crti_cluster_only_file(argc, argv, first, NAME);

        argv[0] = "status"; /* and all options stand before the file */
        return path ? crti_cluster_run_crt(NAME, path, argv, first) : CLI_USAGE;
    }
    if (crt_cluster_find(address, sizeof(cluster), &cluster) != CRT_OK)
        return crti_cli_fail_detail(NAME);
    if (!watches)
        return show(&cluster, as_json);
    seconds = strtoul(interval, NULL, 10);
    if (seconds < 1 || seconds > 3600)
        return crti_cli_misused(NAME, "--interval is 1 to 3600 seconds");
    for (;;) {
        if (isatty(STDOUT_FILENO))
            printf("\033[H\033[J");
        first = show(&cluster, as_json);
        fflush(stdout);
        if (first != 0 || ferror(stdout))
            return CLI_FAILED;
        nanosleep(&(struct timespec){.tv_sec = (time_t)seconds}, NULL);
    }
}
