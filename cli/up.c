/* SPDX-License-Identifier: Apache-2.0 */
/* crt up and down: a cluster on the hosts of a cluster file (docs/cluster-file.md).
 *
 * Where it sits
 *     crt up FILE -> [ cli/up.c ] -> cli/cluster.c, cli/ssh.c -> crt host on each host
 * Order
 *     up: the head, whose answer has the address and the key; then all others at a time. down: all
 *     others, then the head, so that nodes end in an orderly way.
 * Failure
 *     Each host has its line with the reason; the others go on. Without a head no node is begun.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crt_printable.h>

#include "cli/cluster.h"
#include "cli/folder_sync.h"
#include "cli/options.h"
#include "cli/shell_word.h"

static const char *host_name(const cluster_t *c, size_t index)
{
    return json_string_value(json_object_get(json_array_get(c->hosts, index), "host"));
}

static bool only_checks, only_plans; /* crt up --check, --dry-run */

static crt_status_t prepare_up(cluster_t *c, size_t index)
{
    json_t *host = json_array_get(c->hosts, index);
    json_t *request = crti_cluster_request(c, index, "up");

    json_object_set(request, "options", json_object_get(host, "options"));
    json_object_set(request, "setup", json_object_get(host, "setup"));
    json_object_set(request, "head", json_object_get(host, "head"));
    if (index == 0 && json_object_get(c->file, "autoscaler"))
        json_object_set(request, "autoscaler", json_object_get(c->file, "autoscaler"));
    json_object_set_new(
        request, "others",
        json_boolean(c->count > 1 || json_object_get(c->file, "autoscaler")));
    json_object_set_new(request, "check", json_boolean(only_checks));
    if (crti_folder_sync_files())
        json_object_set(request, "files", crti_folder_sync_files());
    if (index > 0 && c->key) {
        json_object_set_new(request, "address", json_string(c->address));
        json_object_set_new(request, "key", json_string(c->key));
    }
    return crti_cluster_prepare(c, index, request);
}

/* ---------------------------------------------------------------- what each host says */

static cluster_t *shown; /* whose calls end */
static const ssh_run_t *shown_run;

/* What a host says is printed, and does nothing else to the terminal. */
static void print_host(const cluster_t *c, const ssh_call_t *call, char *text)
{
    const char *host = json_string_value(json_object_get(call->host, "host"));
    bool is_head = json_is_true(json_object_get(call->host, "head"));

    printf("%s%s: %s\n", host, is_head && c->count > 1 ? " (head)" : "",
           crt_make_printable(text));
    fflush(stdout);
}

static void keep_head(cluster_t *c, const json_t *answer)
{
    const char *address = json_string_value(json_object_get(answer, "address"));
    const char *key = json_string_value(json_object_get(answer, "key"));

    if (!address || !key || !crti_option_is_address(address))
        return;
    c->address = strdup(address);
    c->key = strdup(key);
    explicit_bzero((char *)(uintptr_t)key, strlen(key));
}

static void describe_error(const ssh_call_t *call, const json_t *answer,
                           const char *error, char *text, size_t size)
{
    char line[512] = "";

    if (json_is_true(json_object_get(answer, "see_errors")))
        crti_ssh_last_line(call, line, sizeof(line));
    snprintf(text, size, "failed: %s%s%s", error, *error && *line ? ": " : "", line);
}

/* A line for each host, as it comes. */
static void show_end(ssh_call_t *call)
{
    json_t *answer = crti_ssh_answer(call);
    const char *error = json_string_value(json_object_get(answer, "error"));
    const char *did = json_string_value(json_object_get(answer, "did"));
    bool is_fine = call->is_refused && crti_hand_over_is_fine(call->words, &did);
    char text[2 * CLUSTER_REASON], reason[CLUSTER_REASON];

    if (did && !error) {
        if (!is_fine && json_is_true(json_object_get(call->host, "head")))
            keep_head(shown, answer);
        snprintf(text, sizeof(text), "%s", did);
        print_host(shown, call, text);
    } else {
        if (error) {
            describe_error(call, answer, error, text, sizeof(text));
        } else {
            crti_ssh_reason(shown_run, call, reason, sizeof(reason));
            snprintf(text, sizeof(text), "failed: %s", reason);
        }
        shown->failed++;
        print_host(shown, call, text);
    }
    json_decref(answer);
}

/* Calls from `first` on, as many as `count`. */
static void run_calls(cluster_t *c, size_t first, size_t count)
{
    ssh_run_t run = crti_cluster_run(c);

    run.mode = c->mode;
    run.timeout_ms = 1000 * json_integer_value(json_object_get(c->file, "timeout"));
    run.on_end = show_end;
    run.on_answer = crti_folder_sync_answer;
    run.fill = crti_folder_sync_fill;
    shown = c;
    shown_run = &run;
    crti_ssh_run(&run, &c->calls[first], count);
    c->interrupted = c->interrupted || run.interrupted;
}

/* ---------------------------------------------------------------- up */

/* What would be done, without asking a host. */
static void print_plan(const cluster_t *c)
{
    const json_t *item;
    size_t i, k;

    json_array_foreach(c->hosts, i, item)
    {
        bool is_head = json_is_true(json_object_get(item, "head"));
        const json_t *text;

        printf("%s%s:\n", host_name(c, i), is_head ? " (head)" : "");
        json_array_foreach(json_object_get(item, "setup"), k, text)
            printf("  %s\n", json_string_value(text));
        printf("  crt start %s", is_head ? "--head" : "--address HEAD --key-file KEY");
        json_array_foreach(json_object_get(item, "options"), k, text)
        {
            char word[8192];

            crti_shell_word(json_string_value(text), word, sizeof(word));
            printf(" %s", word);
        }
        if (is_head && json_object_get(c->file, "autoscaler"))
            printf(" --autoscaler SECTION");
        printf("\n");
    }
}

static int finish(const cluster_t *c, const char *done)
{
    if (c->interrupted) {
        crti_cli_fail(c->command, "interrupted; crt up goes on from here, crt down ends "
                                  "what runs");
        return CLUSTER_INTERRUPTED;
    }
    if (c->failed)
        return crti_cli_fail(c->command, "%zu of %zu hosts failed", c->failed, c->count);
    printf("%s", done);
    return 0;
}

/* The files of the program, which go to every host. */
static crt_status_t read_folder(const cluster_t *c)
{
    const char *folder = json_string_value(json_object_get(c->file, "folder"));

    return folder ? crti_folder_sync_open(folder) : CRT_OK;
}

static int bring_up(cluster_t *c)
{
    char done[512];

    if (!only_checks && read_folder(c) != CRT_OK)
        return crti_cli_fail_detail(c->command);
    c->mode = only_checks ? HAND_OVER_CHECKS : HAND_OVER_GIVES;
    if (prepare_up(c, 0) != CRT_OK)
        return crti_cli_fail_detail(c->command);
    run_calls(c, 0, 1);
    if (!c->interrupted && !c->key && !(only_checks && c->failed == 0)) {
        c->failed = c->failed ? c->failed : 1;
        return crti_cli_fail(c->command, "without its head nothing was begun on other "
                                         "hosts");
    }
    for (size_t i = 1; i < c->count && !c->interrupted; i++)
        if (prepare_up(c, i) != CRT_OK)
            return crti_cli_fail_detail(c->command);
    if (!c->interrupted && c->count > 1)
        run_calls(c, 1, c->count - 1);
    if (only_checks)
        return finish(c, "");
    snprintf(done, sizeof(done), "The cluster %s runs: %s, %zu host%s.\n",
             json_string_value(json_object_get(c->file, "name")),
             c->address ? c->address : "", c->count, c->count == 1 ? "" : "s");
    return finish(c, done);
}

static int plan_or_bring_up(cluster_t *c)
{
    if (!only_plans)
        return bring_up(c);
    print_plan(c);
    return 0;
}

/* A command of a cluster file. */
static int on_file(int argc, char **argv, const command_spec_t *spec,
                   int (*run)(cluster_t *c))
{
    cluster_t c;
    int result;
    const char *path = crti_cluster_parse(argc, argv, spec, &result);

    if (!path)
        return result;
    result = crti_cluster_open(&c, spec->name, path);
    if (result == 0)
        result = run(&c);
    crti_folder_sync_close();
    crti_cluster_close(&c);
    return result;
}

int crti_cli_up(int argc, char **argv)
{
    static const option_spec_t options[] = {
        {"dry-run", 0, NULL, OPTION_FLAG, &only_plans,
         "check the file and print what would be run, without asking a host"},
        {"check", 0, NULL, OPTION_FLAG, &only_checks,
         "ask each host what runs and what would be started, and change nothing"}};
    static const command_spec_t spec = {
        .name = "crt up",
        .operands = "FILE",
        .summary =
            "Starts a cluster on the hosts of a cluster file, by ssh. What runs already "
            "is left\nalone, what is missing is started.",
        .options = options,
        .count = sizeof(options) / sizeof(options[0])};

    return on_file(argc, argv, &spec, plan_or_bring_up);
}

/* ---------------------------------------------------------------- down */

static int bring_down(cluster_t *c)
{
    char done[512];

    c->mode = HAND_OVER_ENDS;
    for (size_t i = 0; i < c->count; i++)
        if (crti_cluster_prepare(c, i, crti_cluster_request(c, i, "down")) != CRT_OK)
            return crti_cli_fail_detail(c->command);
    if (c->count > 1)
        run_calls(c, 1, c->count - 1);
    if (!c->interrupted)
        run_calls(c, 0, 1);
    snprintf(done, sizeof(done), "The cluster %s has ended.\n",
             json_string_value(json_object_get(c->file, "name")));
    return finish(c, done);
}

int crti_cli_down(int argc, char **argv)
{
    static const command_spec_t spec = {
        .name = "crt down",
        .operands = "FILE",
        .summary = "Ends the cluster of a cluster file on all its hosts, and removes its "
                   "key there."};

    return on_file(argc, argv, &spec, bring_down);
}

/* ---------------------------------------------------------------- rsync */

static int send_folder(cluster_t *c)
{
    if (!json_object_get(c->file, "folder"))
        return crti_cli_fail(c->command, "the cluster file names no folder: folder: DIR");
    if (read_folder(c) != CRT_OK)
        return crti_cli_fail_detail(c->command);
    for (size_t i = 0; i < c->count; i++) {
        json_t *request = crti_cluster_request(c, i, "rsync");

        json_object_set(request, "files", crti_folder_sync_files());
        if (crti_cluster_prepare(c, i, request) != CRT_OK)
            return crti_cli_fail_detail(c->command);
    }
    run_calls(c, 0, c->count);
    return finish(c, "");
}

int crti_cli_rsync(int argc, char **argv)
{
    static const command_spec_t spec = {
        .name = "crt rsync",
        .operands = "FILE",
        .summary = "Sends the folder of a cluster file to all its hosts, of which only "
                   "files that differ.\nNothing is removed there."};

    return on_file(argc, argv, &spec, send_folder);
}
