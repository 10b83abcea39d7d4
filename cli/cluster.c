/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster file at work. See cluster.h. */
#include "cli/cluster.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cluster_file.h"
#include "cli/daemon.h"
#include "cli/options.h"

/* ---------------------------------------------------------------- begin and end */

int crti_cluster_open(cluster_t *c, const char *command, const char *path)
{
    json_t *file;

    *c = (cluster_t){.command = command, .signal_fd = -1};
    if (crti_cluster_file_read(path, &file) != CRT_OK)
        return crti_cli_fail_detail(command);
    return crti_cluster_open_object(c, command, file);
}

int crti_cluster_open_object(cluster_t *c, const char *command, json_t *file)
{
    *c = (cluster_t){.command = command, .file = file, .signal_fd = -1};
    if (!file)
        return crti_cli_fail(command, "out of memory");
    c->hosts = json_object_get(c->file, "hosts");
    c->count = json_array_size(c->hosts);
    c->calls = calloc(c->count, sizeof(*c->calls));
    c->signal_fd = crti_daemon_watch_ends();
    if (!json_object_get(c->file, "crt") && crti_crt_archive_open(&c->archive) != CRT_OK)
        return crti_cli_fail_detail(command);
    if (!c->calls || c->signal_fd < 0)
        return crti_cli_fail(command, "can't watch for Ctrl-C: %s", strerror(errno));
    signal(SIGPIPE, SIG_IGN); /* an ssh that has ended says why by itself */
    return 0;
}

void crti_cluster_close(cluster_t *c)
{
    for (size_t i = 0; i < c->count && c->calls; i++)
        crti_ssh_release(&c->calls[i]);
    free(c->calls);
    if (c->key)
        explicit_bzero(c->key, strlen(c->key));
    free(c->key);
    free(c->address);
    crti_crt_archive_close(&c->archive);
    json_decref(c->file);
    if (c->signal_fd >= 0)
        close(c->signal_fd);
}

static void say_handed(const ssh_call_t *call)
{
    fprintf(stderr, "%s: is handed crt\n",
            json_string_value(json_object_get(call->host, "host")));
}

ssh_run_t crti_cluster_run(const cluster_t *c)
{
    return (ssh_run_t){.file = c->file,
                       .archive = c->archive.bytes ? &c->archive : NULL,
                       .input_fd = -1,
                       .signal_fd = c->signal_fd,
                       .on_hand_over = say_handed};
}

/* ---------------------------------------------------------------- requests */

/* What every request has: the version, the cluster and the environment of the host. */
json_t *crti_cluster_request(const cluster_t *c, size_t index, const char *what)
{
    const json_t *host = json_array_get(c->hosts, index);
    const char *name = json_string_value(json_object_get(c->file, "name"));
    json_t *request =
        json_pack("{s:s, s:s, s:s, s:O}", "version", crt_version(), "do", what, "name",
                  name, "environment", json_object_get(host, "environment"));

    if (json_object_get(c->file, "folder"))
        json_object_set_new(request, "folder", json_sprintf("crt/%s", name));
    return request;
}

/* Takes the reference of the request. */
crt_status_t crti_cluster_prepare(cluster_t *c, size_t index, json_t *request)
{
    crt_status_t status =
        crti_ssh_prepare(&c->calls[index], json_array_get(c->hosts, index), request);
    const char *key = json_string_value(json_object_get(request, "key"));

    if (key)
        explicit_bzero((char *)(uintptr_t)key, strlen(key));
    json_decref(request);
    return status;
}

/* The one operand, NULL: usage was printed. */
const char *crti_cluster_only_file(int argc, char **argv, int first, const char *command)
{
    if (first + 1 == argc)
        return argv[first];
    crti_cli_misused(command, first < argc ? "unexpected argument %s" : "which file?%s",
                     first < argc ? argv[first + 1] : "");
    return NULL;
}

const char *crti_cluster_parse(int argc, char **argv, const command_spec_t *spec,
                               int *result_out)
{
    int first = crti_cli_parse(argc, argv, spec);

    *result_out = first > 0 ? CLI_USAGE : -first;
    return first > 0 ? crti_cluster_only_file(argc, argv, first, spec->name) : NULL;
}
