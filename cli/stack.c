/* SPDX-License-Identifier: Apache-2.0 */
/* crt stack: the stacks of all threads of drivers and workers, and what each thread waits for.
 *
 * Where it sits
 *     user -> [ cli/stack.c ] -> crt_cluster_query ("stacks") -> head -> nodes -> processes,
 *     crt-stack
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cli/answer.h"
#include "cli/json_print.h"
#include "cli/options.h"

#define NAME "crt stack"

static const char *address, *pid, *format;

static long long number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* ---------------------------------------------------------------- which processes */

static bool begins(const char *text, const char *start)
{
    return *start && strncmp(text, start, strlen(start)) == 0;
}

static bool is_node(const json_t *row, const char *wanted)
{
    return begins(crti_answer_text(row, "node_id"), wanted) ||
           strcmp(crti_answer_text(row, "ip"), wanted) == 0 ||
           strcmp(crti_answer_text(row, "hostname"), wanted) == 0;
}

static bool is_worker(const json_t *row, const char *wanted)
{
    return begins(crti_answer_text(row, "worker_id"), wanted);
}

static bool is_actor(const json_t *row, const char *wanted)
{
    return begins(crti_answer_text(row, "actor_id"), wanted) ||
           strcmp(crti_answer_text(row, "name"), wanted) == 0;
}

/* The id of what is meant, among nodes, workers and actors; false: there is none. */
static bool find(const crt_cluster_info_t *cluster, const char *wanted, char id[33])
{
    static const struct {
        const char *what, *key;
        bool (*is)(const json_t *row, const char *wanted);
    } kinds[] = {{"nodes", "node_id", is_node},
                 {"workers", "worker_id", is_worker},
                 {"actors", "actor_id", is_actor}};

    id[0] = '\0';
    for (size_t k = 0; k < 3 && !*id; k++) {
        json_t *rows = crti_answer_query(cluster, kinds[k].what, NULL), *row;
        size_t i;

        json_array_foreach(rows, i, row) if (kinds[k].is(row, wanted))
            snprintf(id, 33, "%s", crti_answer_text(row, kinds[k].key));
        json_decref(rows);
    }
    return *id != '\0';
}

static bool has_pid(const json_t *process)
{
    char text[24];

    snprintf(text, sizeof(text), "%lld", number_of(process, "pid"));
    return !pid || strcmp(text, pid) == 0;
}

/* ---------------------------------------------------------------- printing */

static const json_t *process_of(const json_t *processes, const char *worker)
{
    for (size_t i = 0; i < json_array_size(processes); i++)
        if (*worker && strcmp(crti_answer_text(json_array_get(processes, i), "worker_id"),
                              worker) == 0)
            return json_array_get(processes, i);
    return NULL;
}

/* " of worker 3f2a... (pid 17)" */
static void print_process(const json_t *processes, const char *word, const char *worker)
{
    const json_t *process = process_of(processes, worker);

    if (*worker)
        printf(" %s %.8s", word, worker);
    if (process)
        printf(" (pid %lld, %s)", number_of(process, "pid"),
               crti_answer_text(process, "ip"));
}

static void print_wait(const json_t *processes, const json_t *wait)
{
    const json_t *for_ms = json_object_get(wait, "for_ms");
    const char *call = crti_answer_text(wait, "call"),
               *actor = crti_answer_text(wait, "actor_id");

    printf("    waits for %s", crti_answer_text(wait, "what"));
    if (json_is_number(for_ms))
        printf(" since %.3f s", json_number_value(for_ms) / 1000);
    if (*crti_answer_text(wait, "object_id"))
        printf(": %s", crti_answer_text(wait, "object_id"));
    if (*call)
        printf(", the result of %s", call);
    if (*actor)
        printf(" of actor %.8s", actor);
    if (*crti_answer_text(wait, "call_state"))
        printf(", %s", crti_answer_text(wait, "call_state"));
    if (*crti_answer_text(wait, "reason"))
        printf(": %s", crti_answer_text(wait, "reason"));
    print_process(processes, "to", crti_answer_text(wait, "worker_id"));
    print_process(processes, "of", crti_answer_text(wait, "owner_id"));
    putchar('\n');
}

static void print_waits(const json_t *processes, const json_t *process, long long tid)
{
    const json_t *waits = json_object_get(json_object_get(process, "said"), "waits");

    for (size_t i = 0; i < json_array_size(waits); i++)
        if (number_of(json_array_get(waits, i), "tid") == tid)
            print_wait(processes, json_array_get(waits, i));
}

static void print_thread(const json_t *processes, const json_t *process,
                         const json_t *thread)
{
    const json_t *frames = json_object_get(thread, "frames");
    long long tid = number_of(thread, "tid");

    printf("  thread %lld \"%s\"\n", tid, crti_answer_text(thread, "name"));
    print_waits(processes, process, tid);
    for (size_t i = 0; i < json_array_size(frames); i++)
        printf("    #%zu %s\n", i, crti_answer_printable(json_array_get(frames, i)));
    if (*crti_answer_text(thread, "error"))
        printf("    %s\n", crti_answer_text(thread, "error"));
}

static void print_one(const json_t *processes, const json_t *process)
{
    const json_t *stack = json_object_get(process, "stack");
    const json_t *threads = json_object_get(stack, "threads");
    const char *running = crti_answer_text(process, "running"),
               *actor = crti_answer_text(process, "actor_id");

    printf("%s %s, pid %lld, node %.8s (%s)",
           strcmp(crti_answer_text(process, "worker_type"), "DRIVER") == 0 ? "driver"
                                                                           : "worker",
           crti_answer_text(process, "worker_id"), number_of(process, "pid"),
           crti_answer_text(process, "node_id"), crti_answer_text(process, "ip"));
    if (*actor)
        printf(", actor %.8s", actor);
    if (*running)
        printf(", runs %s", running);
    putchar('\n');
    if (!json_is_object(json_object_get(process, "said")))
        printf("  it did not say within 1 s what it waits for\n");
    if (*crti_answer_text(stack, "error"))
        printf("  %s\n", crti_answer_text(stack, "error"));
    for (size_t i = 0; i < json_array_size(threads); i++)
        print_thread(processes, process, json_array_get(threads, i));
}

static int print(const json_t *answer)
{
    const json_t *processes = json_object_get(answer, "processes"),
                 *errors = json_object_get(answer, "errors");
    json_t *chosen = json_array(), *process;
    size_t i, count;
    bool is_text = !format || strcmp(format, "text") == 0;

    json_array_foreach((json_t *)processes, i, process) if (has_pid(process))
        json_array_append(chosen, process);
    count = json_array_size(chosen);
    if (is_text)
        for (i = 0; i < count; i++)
            print_one(processes, json_array_get(chosen, i));
    else if (strcmp(format, "json") == 0) {
        crti_json_print(chosen, stdout);
    } else {
        crti_yaml_print(chosen, stdout);
    }
    json_decref(chosen);
    for (i = 0; i < json_array_size(errors); i++)
        fprintf(stderr, NAME ": %s\n", crti_answer_printable(json_array_get(errors, i)));
    if (number_of(answer, "silent_nodes"))
        fprintf(stderr, NAME ": %lld nodes did not answer in time\n",
                number_of(answer, "silent_nodes"));
    if (count == 0)
        return crti_cli_fail(NAME, "there is no such process");
    return json_array_size(errors) || number_of(answer, "silent_nodes") ? CLI_FAILED : 0;
}

/* ---------------------------------------------------------------- the command */

static int run(const char *wanted)
{
    crt_cluster_info_t cluster;
    char id[33] = "";
    json_t *answer;
    int result;

    if (crt_cluster_find(address, sizeof(cluster), &cluster) != CRT_OK)
        return crti_cli_fail_detail(NAME);
    if (wanted && !find(&cluster, wanted, id))
        return crti_cli_fail(NAME, "there is no node, worker or actor %.60s", wanted);
    answer = crti_answer_query(&cluster, "stacks", id);
    if (!answer)
        return crti_cli_fail_detail(NAME);
    result = print(answer);
    json_decref(answer);
    return result;
}

int crti_cli_stack(int argc, char **argv)
{
    static const option_spec_t options[] = {
        {"address", 'a', "HOST:PORT", OPTION_ADDRESS, &address,
         "the cluster's head; default: the only cluster here"},
        {"pid", 0, "PID", OPTION_COUNT, &pid, "only of processes with that process id"},
        {"format", 0, "FORMAT", OPTION_TEXT, &format, "text (default), json or yaml"}};
    static const command_spec_t spec = {
        .name = NAME,
        .operands = "[NODE|WORKER|ACTOR]",
        .summary = "Prints the stacks of all threads of drivers and workers, and what "
                   "each waits for: of a node,\nof one worker or actor, or of the whole "
                   "cluster.",
        .options = options,
        .count = 3};
    int first = crti_cli_parse(argc, argv, &spec);

    if (first <= 0)
        return -first;
    if (argc - first > 1)
        return crti_cli_misused(NAME, "one node, worker or actor at a time");
    if (format && strcmp(format, "text") != 0 && strcmp(format, "json") != 0 &&
        strcmp(format, "yaml") != 0)
        return crti_cli_misused(NAME, "--format is text, json or yaml");
    return run(argc > first ? argv[first] : NULL);
}
