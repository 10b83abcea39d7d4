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

#include "cli/daemon.h"
#include "cli/run_dirs.h"
#include "cli/stop.h"
#include "runtime/base/rundir.h"

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

/* For the nodes of a head that is elsewhere. */
static crt_status_t keep_key(crti_private_cluster_t *cluster, const char *key)
{
    snprintf(cluster->key_file, sizeof(cluster->key_file), "%s/cluster.key",
             cluster->directory);
    return write_key(cluster->key_file, key);
}

/* The head takes the key that it finds in its state directory. */
static crt_status_t give_key(const crti_private_cluster_t *cluster, const char *port,
                             const char *key)
{
    char path[sizeof(cluster->directory) + 64];
    int used = snprintf(path, sizeof(path), "%s/state", cluster->directory);

    if (mkdir(path, 0700) == 0) {
        used += snprintf(path + used, sizeof(path) - (size_t)used, "/head-%s", port);
        if (mkdir(path, 0700) == 0) {
            snprintf(path + used, sizeof(path) - (size_t)used, "/cluster.key");
            return write_key(path, key);
        }
    }
    return crt_raise(CRT_ERR_IO, "can't make %s: %s", path, strerror(errno));
}

crt_status_t crti_private_begin(crti_private_cluster_t *cluster,
                                crti_private_options_t *options, const char *key)
{
    crt_status_t status;

    *cluster = (crti_private_cluster_t)CRTI_PRIVATE_CLUSTER_NONE;
    options->start = crti_daemon_start;
    status = crti_dir_make_private(cluster->directory, sizeof(cluster->directory));
    if (status == CRT_OK && options->address)
        status = keep_key(cluster, key);
    else if (status == CRT_OK && key)
        status = give_key(cluster, options->port, key);
    if (status == CRT_OK)
        status = crti_private_start(cluster, options);
    if (status != CRT_OK)
        crti_private_end(cluster); /* keeps the detail: it raises nothing */
    return status;
}

/* A daemon that ended is a child of this process: reaped, it counts as gone. */
static void reap(crti_private_daemon_t *daemon)
{
    if (daemon->pid)
        waitpid(daemon->pid, NULL, WNOHANG);
    crti_private_daemon_forget(daemon);
}

static void add_run_dir(run_dir_t *dirs, size_t *count,
                        const crti_private_daemon_t *daemon, bool is_head)
{
    run_dir_t *run_dir = &dirs[*count];

    if (!daemon->pid || snprintf(run_dir->dir, sizeof(run_dir->dir), "%s",
                                 daemon->run_dir) >= (int)sizeof(run_dir->dir))
        return;
    run_dir->pid = daemon->pid;
    run_dir->is_head = is_head;
    run_dir->is_living = crti_dir_is_locked(daemon->run_dir);
    *count += 1;
}

int crti_private_end(crti_private_cluster_t *cluster)
{
    static run_dir_t dirs[CRTI_PRIVATE_NODES_MAX + 1];
    size_t count = 0;
    int result;

    if (cluster->lifeline >= 0)
        close(cluster->lifeline); /* all begin to end at once */
    cluster->lifeline = -1;
    for (unsigned i = 0; i < cluster->count; i++)
        add_run_dir(dirs, &count, &cluster->nodes[i], false);
    add_run_dir(dirs, &count, &cluster->head, true);
    result = crti_cli_end_run_dirs(dirs, count, false);
    reap(&cluster->head);
    for (unsigned i = 0; i < cluster->count; i++)
        reap(&cluster->nodes[i]);
    if (cluster->directory[0] && !crti_run_dir_remove(cluster->directory) && result == 0)
        result = crti_cli_fail("crt run", "can't remove %s: %s", cluster->directory,
                               strerror(errno));
    cluster->directory[0] = '\0';
    crti_run_dirs_remove_root();
    return result;
}
