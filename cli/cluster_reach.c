/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to the head of a cluster file: a terminal (crt attach), and a port here that leads to its
 * dashboard (crt dashboard FILE).
 *
 * Where it sits
 *     -> [ cli/cluster_reach.c ] -> cli/ssh.c -> crt host
 * Failure
 *     A way stays until Ctrl-C, or until ssh finds that the host is gone (ServerAliveInterval).
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <crt_printable.h>

#include "cli/cluster.h"
#include "cli/cluster_file.h"
#include "cli/dashboard.h"
#include "cli/options.h"

int crti_cli_attach(int argc, char **argv)
{
    static const command_spec_t spec = {
        .name = "crt attach",
        .operands = "FILE",
        .summary = "Opens a terminal on the head of a cluster file, by ssh."};
    const char *path;
    json_t *file;
    int result;

    path = crti_cluster_parse(argc, argv, &spec, &result);
    if (!path)
        return result;
    if (crti_cluster_file_read(path, &file) == CRT_OK) {
        const json_t *head = json_array_get(json_object_get(file, "hosts"), 0);

        crti_ssh_become(file, json_string_value(json_object_get(head, "host")));
        json_decref(file);
    }
    return crti_cli_fail_detail(spec.name);
}

/* ---------------------------------------------------------------- the dashboard */

/* "http://HOST:PORT/#code=..." in parts. */
typedef struct parts {
    bool is_tls;
    char at[256]; /* HOST:PORT */
    unsigned port;
    char rest[DASHBOARD_LINK];
} parts_t;

static bool split(const char *link, parts_t *parts)
{
    const char *begin = strstr(link, "://"), *colon;
    size_t size;

    if (!begin)
        return false;
    parts->is_tls = strncmp(link, "https", 5) == 0;
    begin += 3;
    size = strcspn(begin, "/");
    if (size >= sizeof(parts->at))
        return false;
    snprintf(parts->at, sizeof(parts->at), "%.*s", (int)size, begin);
    snprintf(parts->rest, sizeof(parts->rest), "%s", begin + size);
    crt_make_printable(parts->rest);
    colon = strrchr(parts->at, ':');
    parts->port = colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
    return crti_option_is_address(parts->at);
}

/* That port of loopback when it is free, else any one; 0: there is none. */
static unsigned free_port(unsigned wanted)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)wanted),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_free = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
                   getsockname(fd, (struct sockaddr *)&at, &size) == 0;

    if (fd >= 0)
        close(fd);
    if (is_free)
        return ntohs(at.sin_port);
    return wanted ? free_port(0) : 0;
}

/* Asks the head for its link. 0, or an exit status after a sentence. */
static int find_dashboard(cluster_t *c, parts_t *parts)
{
    ssh_run_t run = crti_cluster_run(c);
    json_t *request = crti_cluster_request(c, 0, "dashboard"), *said;
    char reason[CLUSTER_REASON], text[CLUSTER_REASON];
    const char *link, *error;
    int result = 0;

    run.timeout_ms = 60000;
    json_object_set_new(request, "with_code", json_boolean(isatty(STDOUT_FILENO)));
    if (crti_cluster_prepare(c, 0, request) != CRT_OK)
        return crti_cli_fail_detail(c->command);
    crti_ssh_run(&run, c->calls, 1);
    said = crti_ssh_answer(&c->calls[0]);
    link = json_string_value(json_object_get(said, "link"));
    error = json_string_value(json_object_get(said, "error"));
    crti_ssh_reason(&run, &c->calls[0], reason, sizeof(reason));
    snprintf(text, sizeof(text), "%s", error ? error : "");
    if (run.interrupted)
        result = CLUSTER_INTERRUPTED;
    else if (!link)
        result =
            crti_cli_fail(c->command, "%s", error ? crt_make_printable(text) : reason);
    else if (!split(link, parts))
        result = crti_cli_fail(c->command, "the head has no dashboard");
    json_decref(said);
    crti_ssh_release(&c->calls[0]);
    return result;
}

static parts_t here; /* the link as it is on this host */

/* The answer comes when the port is forwarded. */
static void say_ready(ssh_call_t *call, bool is_error, const char *bytes, size_t size)
{
    if (is_error || !memmem(bytes, size, SSH_ANSWER, strlen(SSH_ANSWER)))
        return;
    printf("%s://127.0.0.1:%u%s\n", here.is_tls ? "https" : "http", here.port, here.rest);
    if (isatty(STDOUT_FILENO))
        printf("Ctrl-C ends the way there.\n");
    fflush(stdout);
}

static int forward(cluster_t *c, const parts_t *there)
{
    char ports[320], reason[CLUSTER_REASON];
    /* Of its own connection: a shared one would keep the port. */
    const char *const more[] = {
        "-o", "ControlPath=none", "-o", "ExitOnForwardFailure=yes", "-L", ports, NULL};
    ssh_run_t run = crti_cluster_run(c);

    run.more = more;
    run.on_output = say_ready;
    here = *there;
    here.port = free_port(there->port);
    snprintf(ports, sizeof(ports), "127.0.0.1:%u:%s", here.port, there->at);
    if (crti_cluster_prepare(c, 0, crti_cluster_request(c, 0, "hold")) != CRT_OK)
        return crti_cli_fail_detail(c->command);
    crti_ssh_run(&run, c->calls, 1);
    if (run.interrupted)
        return CLUSTER_INTERRUPTED;
    crti_ssh_reason(&run, &c->calls[0], reason, sizeof(reason));
    return crti_cli_fail(c->command, "%s", reason);
}

int crti_cluster_dashboard(const char *command, const char *path)
{
    cluster_t c;
    parts_t there;
    int result = crti_cluster_open(&c, command, path);

    if (result == 0)
        result = find_dashboard(&c, &there);
    if (result == 0)
        result = forward(&c, &there);
    crti_cluster_close(&c);
    return result;
}
