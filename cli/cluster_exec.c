/* SPDX-License-Identifier: Apache-2.0 */
/* crt exec: a command on the head of a cluster file, or on all its hosts; and commands of crt that
 * take a cluster file.
 *
 * Where it sits
 *     crt exec FILE, crt status FILE -> [ cli/cluster_exec.c ] -> cli/ssh.c -> crt host
 * Failure
 *     The exit status is that of the command. Ctrl-C ends it: crt host sees the end of its input.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cluster.h"
#include "cli/options.h"

#define LINE_MOST 8192

/* Lines that are not complete yet, of each host and stream. */
typedef struct partial {
    char text[LINE_MOST];
    size_t size;
} partial_t;

static cluster_t *shown; /* whose calls end */
static const ssh_run_t *shown_run;
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
    char reason[CLUSTER_REASON];

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
    if (call->status == SSH_FAILED || call->timed_out || call->is_refused)
        crti_cli_fail(shown->command, "%s: %s",
                      json_string_value(json_object_get(call->host, "host")), reason);
    else if (shown->count > 1 && partials)
        crti_cli_fail(shown->command, "%s: ended with status %d",
                      json_string_value(json_object_get(call->host, "host")),
                      call->status);
}

static ssh_run_t *fed; /* whose input is this command's */

/* The next part, as crt host takes it: its size in four hexadecimal digits, its bytes. */
static size_t read_input(ssh_call_t *call, char *bytes, size_t room)
{
    char size[5];
    ssize_t n = read(fed->input_fd, bytes + 4, room - 4 < 0xffff ? room - 4 : 0xffff);

    call->has_more = false; /* until there is more */
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    n = n < 0 ? 0 : n;
    snprintf(size, sizeof(size), "%04zx", (size_t)n);
    memcpy(bytes, size, 4);
    if (n == 0)
        fed->input_fd = -1;
    return (size_t)n + 4;
}

static json_t *words(char **argv, int count)
{
    json_t *list = json_array();

    for (int i = 0; i < count; i++)
        if (json_array_append_new(list, json_string(argv[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* On the head, or on all hosts: the status is 0 when it was 0 on all. */
static int execute(cluster_t *c, json_t *command, bool on_all, bool is_crt)
{
    ssh_run_t run = crti_cluster_run(c);
    size_t count = on_all ? c->count : 1;
    bool has_input = !on_all && !is_crt;

    for (size_t i = 0; i < count; i++) {
        json_t *request = crti_cluster_request(c, i, "exec");

        json_object_set(request, "argv", command);
        json_object_set_new(request, "of_crt", json_boolean(is_crt));
        json_object_set_new(request, "input", json_boolean(has_input));
        if (crti_cluster_prepare(c, i, request) != CRT_OK)
            return crti_cli_fail_detail(c->command);
    }
    partials = on_all ? calloc(2 * count, sizeof(*partials)) : NULL;
    if (on_all && !partials)
        return crti_cli_fail(c->command, "out of memory");
    shown = c;
    shown_run = &run;
    run.on_output = pass_output;
    if (has_input) {
        fed = &run;
        run.input_fd = STDIN_FILENO;
        run.fill = read_input;
    }
    run.on_end = end_exec;
    crti_ssh_run(&run, c->calls, count);
    free(partials);
    if (run.interrupted)
        return CLUSTER_INTERRUPTED;
    if (!on_all)
        return c->calls[0].status == SSH_FAILED ? CLI_FAILED : c->calls[0].status;
    return c->failed ? CLI_FAILED : 0;
}

static int open_and_execute(const char *name, const char *path, char **argv, int argc,
                            bool on_all, bool is_crt)
{
    cluster_t c;
    json_t *command = words(argv, argc);
    int result = crti_cluster_open(&c, name, path);

    if (result == 0 && !command)
        result = crti_cli_fail(name, "the command is not UTF-8");
    if (result == 0)
        result = execute(&c, command, on_all, is_crt);
    json_decref(command);
    crti_cluster_close(&c);
    return result;
}

int crti_cluster_run_crt(const char *command, const char *path, char **argv, int argc)
{
    return open_and_execute(command, path, argv, argc, false, true);
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
                   "CRT_KEY_FILE. Its input is that of crt exec; on all hosts there is "
                   "none.",
        .options = options,
        .count = sizeof(options) / sizeof(options[0])};
    int first = crti_cli_parse(argc, argv, &spec);

    if (first <= 0)
        return -first;
    if (first + 1 >= argc)
        return crti_cli_misused(spec.name,
                                first < argc ? "which command?" : "which file?");
    return open_and_execute(spec.name, argv[first], argv + first + 1, argc - first - 1,
                            on_all, false);
}
