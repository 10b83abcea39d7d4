/* SPDX-License-Identifier: Apache-2.0 */
/* crt up, down and exec: a cluster on the hosts of a cluster file (docs/cluster-file.md).
 *
 * Where it sits
 *     crt up FILE -> [ cli/up.c ] -> cli/cluster_file.c; cli/ssh.c -> crt host on each host
 * Order
 *     up: the head, whose answer has the address and the key; then all others at a time. down: all
 *     others, then the head, so that nodes end in an orderly way.
 * Failure
 *     Each host has its line with the reason; the others go on. Without a head no node is begun.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cluster_file.h"
#include "cli/daemon.h"
#include "cli/options.h"
#include "cli/shell_word.h"
#include "cli/ssh.h"

#define INTERRUPTED 130
#define REASON_MOST 1024

typedef struct cluster {
    const char *command; /* "crt up" */
    json_t *file, *hosts;
    ssh_call_t *calls; /* one for each of the hosts */
    size_t count, failed;
    int signal_fd;
    bool interrupted;
    char *address, *key; /* of the head, once it is known */
} cluster_t;

static const char *host_name(const cluster_t *c, size_t index)
{
    return json_string_value(json_object_get(json_array_get(c->hosts, index), "host"));
}

/* ---------------------------------------------------------------- begin and end */

static int open_cluster(cluster_t *c, const char *command, const char *path)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

    *c = (cluster_t){.command = command, .signal_fd = -1};
    if (crti_cluster_file_read(path, &c->file) != CRT_OK)
        return crti_cli_fail_detail(command);
    c->hosts = json_object_get(c->file, "hosts");
    c->count = json_array_size(c->hosts);
    c->calls = calloc(c->count, sizeof(*c->calls));
    c->signal_fd =
        crti_daemon_watch_signals(signals, sizeof(signals) / sizeof(signals[0]), NULL);
    if (!c->calls || c->signal_fd < 0)
        return crti_cli_fail(command, "can't watch for Ctrl-C: %s", strerror(errno));
    signal(SIGPIPE, SIG_IGN); /* an ssh that has ended says why by itself */
    return 0;
}

static void close_cluster(cluster_t *c)
{
    for (size_t i = 0; i < c->count && c->calls; i++)
        crti_ssh_release(&c->calls[i]);
    free(c->calls);
    if (c->key)
        explicit_bzero(c->key, strlen(c->key));
    free(c->key);
    free(c->address);
    json_decref(c->file);
    if (c->signal_fd >= 0)
        close(c->signal_fd);
}

/* ---------------------------------------------------------------- requests */

/* What every request has: the version, the cluster and the environment of the host. */
static json_t *new_request(const cluster_t *c, size_t index, const char *what)
{
    const json_t *host = json_array_get(c->hosts, index);

    return json_pack("{s:s, s:s, s:O, s:O}", "version", crt_version(), "do", what, "name",
                     json_object_get(c->file, "name"), "environment",
                     json_object_get(host, "environment"));
}

/* Takes the reference of the request. */
static crt_status_t prepare(cluster_t *c, size_t index, json_t *request)
{
    crt_status_t status =
        crti_ssh_prepare(&c->calls[index], json_array_get(c->hosts, index), request);
    const char *key = json_string_value(json_object_get(request, "key"));

    if (key)
        explicit_bzero((char *)(uintptr_t)key, strlen(key));
    json_decref(request);
    return status;
}

static crt_status_t prepare_up(cluster_t *c, size_t index)
{
    json_t *host = json_array_get(c->hosts, index);
    json_t *request = new_request(c, index, "up");

    json_object_set(request, "options", json_object_get(host, "options"));
    json_object_set(request, "setup", json_object_get(host, "setup"));
    json_object_set(request, "head", json_object_get(host, "head"));
    json_object_set_new(request, "others", json_boolean(c->count > 1));
    if (index > 0) {
        json_object_set_new(request, "address", json_string(c->address));
        json_object_set_new(request, "key", json_string(c->key));
    }
    return prepare(c, index, request);
}

/* ---------------------------------------------------------------- what each host says */

static cluster_t *shown; /* whose calls end */
static const ssh_run_t *shown_run;

static void print_host(const cluster_t *c, const ssh_call_t *call, const char *text)
{
    const char *host = json_string_value(json_object_get(call->host, "host"));
    bool is_head = json_is_true(json_object_get(call->host, "head"));

    printf("%s%s: %s\n", host, is_head && c->count > 1 ? " (head)" : "", text);
    fflush(stdout);
}

static void keep_head(cluster_t *c, const json_t *answer)
{
    const char *address = json_string_value(json_object_get(answer, "address"));
    const char *key = json_string_value(json_object_get(answer, "key"));

    if (!address || !key)
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
    char text[2 * REASON_MOST], reason[REASON_MOST];

    if (did && !error) {
        if (json_is_true(json_object_get(call->host, "head")))
            keep_head(shown, answer);
        print_host(shown, call, did);
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
    ssh_run_t run = {.file = c->file,
                     .signal_fd = c->signal_fd,
                     .timeout_ms =
                         1000 * json_integer_value(json_object_get(c->file, "timeout")),
                     .on_end = show_end};

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
        printf("\n");
    }
}

static int finish(const cluster_t *c, const char *done)
{
    if (c->interrupted) {
        crti_cli_fail(c->command, "interrupted; crt up goes on from here, crt down ends "
                                  "what runs");
        return INTERRUPTED;
    }
    if (c->failed)
        return crti_cli_fail(c->command, "%zu of %zu hosts failed", c->failed, c->count);
    printf("%s", done);
    return 0;
}

static int bring_up(cluster_t *c)
{
    char done[512];

    if (prepare_up(c, 0) != CRT_OK)
        return crti_cli_fail_detail(c->command);
    run_calls(c, 0, 1);
    if (!c->interrupted && !c->key) {
        c->failed = c->failed ? c->failed : 1;
        return crti_cli_fail(c->command, "without its head nothing was begun on other "
                                         "hosts");
    }
    for (size_t i = 1; i < c->count && !c->interrupted; i++)
        if (prepare_up(c, i) != CRT_OK)
            return crti_cli_fail_detail(c->command);
    if (!c->interrupted && c->count > 1)
        run_calls(c, 1, c->count - 1);
    snprintf(done, sizeof(done), "The cluster %s runs: %s, %zu host%s.\n",
             json_string_value(json_object_get(c->file, "name")),
             c->address ? c->address : "", c->count, c->count == 1 ? "" : "s");
    return finish(c, done);
}

/* The one operand, NULL: usage was printed. */
static const char *only_file(int argc, char **argv, int first, const char *command)
{
    if (first + 1 == argc)
        return argv[first];
    crti_cli_misused(command, first < argc ? "unexpected argument %s" : "which file?%s",
                     first < argc ? argv[first + 1] : "");
    return NULL;
}

int crti_cli_up(int argc, char **argv)
{
    static bool is_dry;
    static const option_spec_t options[] = {
        {"dry-run", 0, NULL, OPTION_FLAG, &is_dry,
         "check the file and print what would be run, without asking a host"}};
    static const command_spec_t spec = {
        .name = "crt up",
        .operands = "FILE",
        .summary =
            "Starts a cluster on the hosts of a cluster file, by ssh. What runs already "
            "is left\nalone, what is missing is started.",
        .options = options,
        .count = sizeof(options) / sizeof(options[0])};
    const char *path;
    cluster_t c;
    int first, result;

    switch (crti_cli_parse(argc, argv, &spec, &first)) {
    case PARSE_DONE: return 0;
    case PARSE_WRONG: return CLI_USAGE;
    case PARSE_OK: break;
    }
    path = only_file(argc, argv, first, spec.name);
    if (!path)
        return CLI_USAGE;
    result = open_cluster(&c, spec.name, path);
    if (result == 0 && is_dry)
        print_plan(&c);
    else if (result == 0)
        result = bring_up(&c);
    close_cluster(&c);
    return result;
}

/* ---------------------------------------------------------------- down */

static int bring_down(cluster_t *c)
{
    char done[512];

    for (size_t i = 0; i < c->count; i++)
        if (prepare(c, i, new_request(c, i, "down")) != CRT_OK)
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
    const char *path;
    cluster_t c;
    int first, result;

    switch (crti_cli_parse(argc, argv, &spec, &first)) {
    case PARSE_DONE: return 0;
    case PARSE_WRONG: return CLI_USAGE;
    case PARSE_OK: break;
    }
    path = only_file(argc, argv, first, spec.name);
    if (!path)
        return CLI_USAGE;
    result = open_cluster(&c, spec.name, path);
    if (result == 0)
        result = bring_down(&c);
    close_cluster(&c);
    return result;
}

/* ---------------------------------------------------------------- exec */

#define LINE_MOST 8192

/* Lines that are not complete yet, of each host and stream. */
typedef struct partial {
    char text[LINE_MOST];
    size_t size;
} partial_t;

static partial_t *partials; /* two for each call; NULL: output is passed as it is */

static void print_partial(const ssh_call_t *call, partial_t *partial, FILE *to)
{
    fprintf(to, "%s: %.*s\n", json_string_value(json_object_get(call->host, "host")),
            (int)partial->size, partial->text);
    partial->size = 0;
}

static void pass_output(ssh_call_t *call, bool is_error, const char *bytes, size_t size)
{
    FILE *to = is_error ? stderr : stdout;
    partial_t *partial;

    if (!partials) {
        fwrite(bytes, 1, size, to);
        fflush(to);
        return;
    }
    partial = &partials[2 * (call - shown->calls) + is_error];
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != '\n')
            partial->text[partial->size++] = bytes[i];
        if (bytes[i] == '\n' || partial->size == LINE_MOST)
            print_partial(call, partial, to);
    }
    fflush(to);
}

/* A status other than 0 has its line, and what ssh itself has said is on standard error. */
static void end_exec(ssh_call_t *call)
{
    char reason[REASON_MOST];

    for (int is_error = 0; partials && is_error < 2; is_error++) {
        partial_t *partial = &partials[2 * (call - shown->calls) + is_error];

        if (partial->size > 0)
            print_partial(call, partial, is_error ? stderr : stdout);
    }
    fflush(stdout);
    shown->failed += call->status != 0;
    if (call->status == 0 || call->interrupted)
        return;
    crti_ssh_reason(shown_run, call, reason, sizeof(reason));
    if (call->status == SSH_FAILED || call->timed_out)
        crti_cli_fail("crt exec", "%s: %s",
                      json_string_value(json_object_get(call->host, "host")), reason);
    else if (shown->count > 1 && partials)
        crti_cli_fail("crt exec", "%s: ended with status %d",
                      json_string_value(json_object_get(call->host, "host")),
                      call->status);
}

static json_t *words(char **argv)
{
    json_t *list = json_array();

    for (; *argv; argv++)
        if (json_array_append_new(list, json_string(*argv)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* On the head, or on all hosts: the status is 0 when it was 0 on all. */
static int execute(cluster_t *c, char **argv, bool on_all)
{
    ssh_run_t run = {.file = c->file,
                     .signal_fd = c->signal_fd,
                     .on_output = pass_output,
                     .on_end = end_exec};
    size_t count = on_all ? c->count : 1;
    json_t *command = words(argv);

    if (!command)
        return crti_cli_fail(c->command, "the command is not UTF-8");
    for (size_t i = 0; i < count; i++) {
        json_t *request = new_request(c, i, "exec");

        json_object_set(request, "argv", command);
        if (prepare(c, i, request) != CRT_OK) {
            json_decref(command);
            return crti_cli_fail_detail(c->command);
        }
    }
    json_decref(command);
    partials = on_all ? calloc(2 * count, sizeof(*partials)) : NULL;
    if (on_all && !partials)
        return crti_cli_fail(c->command, "out of memory");
    shown = c;
    shown_run = &run;
    crti_ssh_run(&run, c->calls, count);
    free(partials);
    if (run.interrupted)
        return INTERRUPTED;
    if (!on_all)
        return c->calls[0].status == SSH_FAILED ? CLI_FAILED : c->calls[0].status;
    return c->failed ? CLI_FAILED : 0;
}

int crti_cli_exec(int argc, char **argv)
{
    static bool on_all;
    static const option_spec_t options[] = {
        {"all", 0, NULL, OPTION_FLAG, &on_all,
         "on all hosts at a time, each line behind the name of its host"}};
    static const command_spec_t spec = {
        .name = "crt exec",
        .operands = "FILE -- COMMAND [ARGUMENTS]",
        .summary = "Runs a command on the head of a cluster file, or on all its hosts, "
                   "by ssh, with the\nenvironment of the file, CRT_ADDRESS and "
                   "CRT_KEY_FILE. Its input is empty.",
        .options = options,
        .count = sizeof(options) / sizeof(options[0])};
    cluster_t c;
    int first, result;

    switch (crti_cli_parse(argc, argv, &spec, &first)) {
    case PARSE_DONE: return 0;
    case PARSE_WRONG: return CLI_USAGE;
    case PARSE_OK: break;
    }
    if (first + 1 >= argc)
        return crti_cli_misused(spec.name,
                                first < argc ? "which command?" : "which file?");
    result = open_cluster(&c, spec.name, argv[first]);
    if (result == 0)
        result = execute(&c, argv + first + 1, on_all);
    close_cluster(&c);
    return result;
}
