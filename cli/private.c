/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and ends the daemons of a private cluster. See private.h. */
#include "cli/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/run_dirs.h"
#include "cli/stop.h"

#define START_TIMEOUT    30000
#define HEADLESS_SECONDS "30"

static const char *ip_of(const private_options_t *options)
{
    return options->ip ? options->ip : "127.0.0.1";
}

static crt_status_t write_key(const char *path, const char *key)
{
    size_t size = strlen(key);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int failed =
        fd < 0 || write(fd, key, size) != (ssize_t)size || write(fd, "\n", 1) != 1 ? errno
                                                                                   : 0;

    if (fd >= 0)
        close(fd);
    return failed ? crt_raise(CRT_ERR_IO, "can't write %s: %s", path, strerror(failed))
                  : CRT_OK;
}

/* What a node needs of a head that is elsewhere. */
static crt_status_t take_head(private_cluster_t *c, const private_options_t *options)
{
    snprintf(c->address, sizeof(c->address), "%s", options->address);
    snprintf(c->key_file, sizeof(c->key_file), "%s/cluster.key", c->dir);
    return write_key(c->key_file, options->key);
}

/* The head takes the key that it finds in its state directory. */
static crt_status_t give_key(const private_cluster_t *c, const private_options_t *options)
{
    char path[sizeof(c->dir) + 64];
    int used = snprintf(path, sizeof(path), "%s/state", c->dir);

    if (mkdir(path, 0700) == 0) {
        used +=
            snprintf(path + used, sizeof(path) - (size_t)used, "/head-%s", options->port);
        if (mkdir(path, 0700) == 0) {
            snprintf(path + used, sizeof(path) - (size_t)used, "/cluster.key");
            return write_key(path, options->key);
        }
    }
    return crt_raise(CRT_ERR_IO, "can't make %s: %s", path, strerror(errno));
}

static crt_status_t start_head(private_cluster_t *c, const private_options_t *options,
                               int lifeline, int cancel_fd)
{
    crti_starter_t *d = &c->head;
    crt_status_t status;

    if (options->key)
        CRT_TRY(give_key(c, options));
    crti_starter_init(d, "crt-head", lifeline);
    crti_starter_option(d, "--port", options->port ? options->port : "0");
    crti_starter_option(d, "--node-ip-address", ip_of(options));
    crti_starter_flag(d, "--no-dashboard");
    if (options->ip) /* nodes elsewhere end when it is killed */
        crti_starter_option(d, "--headless-timeout", HEADLESS_SECONDS);
    crti_starter_option(d, "--private", c->dir);
    status = crti_daemon_start(d, START_TIMEOUT, cancel_fd);
    if (status != CRT_OK)
        return status;
    crti_ready_get(d->ready, "address", c->address, sizeof(c->address));
    crti_ready_get(d->ready, "key_file", c->key_file, sizeof(c->key_file));
    crti_ready_get(d->ready, "head_dir", c->head_dir, sizeof(c->head_dir));
    return CRT_OK;
}

static crt_status_t start_node(private_cluster_t *c, const private_options_t *options,
                               int lifeline, int cancel_fd)
{
    crti_starter_t *d = &c->nodes[c->count];
    char share[16];
    crt_status_t status;

    snprintf(share, sizeof(share), "%u", options->nodes);
    crti_starter_init(d, "crt-node", lifeline);
    crti_starter_option(d, "--address", c->address);
    crti_starter_option(d, "--key-file", c->key_file);
    crti_starter_option(d, "--node-ip-address", ip_of(options));
    crti_starter_option(d, "--head-dir", c->head_dir[0] ? c->head_dir : NULL);
    crti_starter_option(d, "--private", c->dir);
    crti_starter_option(d, "--share", share);
    crti_starter_option(d, "--num-cpus", options->num_cpus);
    crti_starter_option(d, "--num-gpus", options->num_gpus);
    crti_starter_option(d, "--resources", options->resources);
    crti_starter_option(d, "--object-store-memory", options->store_bytes);
    status = crti_daemon_start(d, START_TIMEOUT, cancel_fd);
    if (status != CRT_OK)
        return status;
    crti_ready_get(d->ready, "run_dir", c->run_dirs[c->count], sizeof(c->run_dirs[0]));
    c->count++;
    return CRT_OK;
}

crt_status_t crti_private_start(private_cluster_t *c, const private_options_t *options,
                                int cancel_fd)
{
    int lifeline[2] = {-1, -1};
    crt_status_t status;

    *c = (private_cluster_t){.lifeline = -1, .head = {.pidfd = -1}};
    status = crti_run_dirs_make_private(c->dir, sizeof(c->dir));
    if (status == CRT_OK)
        status = crti_starter_pipe(lifeline);
    c->lifeline = lifeline[1];
    if (status == CRT_OK)
        status = options->address ? take_head(c, options)
                                  : start_head(c, options, lifeline[0], cancel_fd);
    while (status == CRT_OK && c->count < options->nodes)
        status = start_node(c, options, lifeline[0], cancel_fd);
    if (lifeline[0] >= 0)
        close(lifeline[0]);
    if (status != CRT_OK)
        crti_private_end(c); /* keeps the detail: it raises nothing */
    return status;
}

/* A daemon that ended is a child of this process: reaped, it counts as gone. */
static void reap(private_cluster_t *c)
{
    if (c->head.pid)
        waitpid(c->head.pid, NULL, WNOHANG);
    crti_starter_release(&c->head);
    for (unsigned i = 0; i < c->count; i++) {
        waitpid(c->nodes[i].pid, NULL, WNOHANG);
        crti_starter_release(&c->nodes[i]);
    }
}

static void add_run_dir(run_dir_t *dirs, size_t *count, const char *dir, pid_t pid,
                        bool is_head)
{
    run_dir_t *run_dir = &dirs[*count];

    if (!pid || snprintf(run_dir->dir, sizeof(run_dir->dir), "%s", dir) >=
                    (int)sizeof(run_dir->dir))
        return;
    run_dir->pid = pid;
    run_dir->is_head = is_head;
    run_dir->is_living = crti_run_dir_is_living(dir);
    *count += 1;
}

int crti_private_end(private_cluster_t *c)
{
    static run_dir_t dirs[PRIVATE_NODES_MAX + 1];
    size_t count = 0;
    int result;

    if (c->lifeline >= 0)
        close(c->lifeline); /* all begin to end at once */
    c->lifeline = -1;
    for (unsigned i = 0; i < c->count; i++)
        add_run_dir(dirs, &count, c->run_dirs[i], c->nodes[i].pid, false);
    add_run_dir(dirs, &count, c->head_dir, c->head.pid, true);
    result = crti_cli_end_run_dirs(dirs, count, false);
    reap(c);
    if (c->dir[0] && !crti_run_dir_remove(c->dir) && result == 0)
        result = crti_cli_fail("crt run", "can't remove %s: %s", c->dir, strerror(errno));
    c->dir[0] = '\0';
    crti_run_dirs_remove_root();
    return result;
}
