/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and ends the daemons of a private cluster. See private_cluster.h. */
#include "runtime/core/client/private_cluster.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/number_text.h"
#include "runtime/base/rundir.h"
#include "runtime/core/types.h"
#include "runtime/crt_tools.h"
#include "runtime/daemon/ready.h"
#include "runtime/daemon/starter.h"

#define START_MS      30000
#define STOP_DEADLINE (10 * CRTI_S)

static crt_status_t start_daemon(crti_starter_t *starter, pid_t *pid_out)
{
    char path[PATH_MAX];
    crt_status_t status = crti_daemon_path(starter->argv[0], path, sizeof(path));

    if (status == CRT_OK)
        status = crti_starter_spawn(starter, path);
    *pid_out = starter->pid; /* reaped when the cluster ends */
    if (status == CRT_OK)
        status = crti_starter_wait(starter, START_MS, -1);
    crti_starter_close(starter);
    crti_starter_release(starter);
    return status;
}

static crt_status_t start_head(crti_private_cluster_t *cluster, int lifeline,
                               bool has_dashboard, char *head_dir, size_t size)
{
    crti_starter_t d;
    const char *colon = strrchr(cluster->address, ':');
    char port[8] = "0";

    crti_starter_init(&d, "crt-head", lifeline);
    if (colon) /* of one that was killed */
        snprintf(port, sizeof(port), "%s", colon + 1);
    crti_starter_option(&d, "--port", port);
    crti_starter_option(&d, "--node-ip-address", "127.0.0.1");
    if (has_dashboard)
        crti_starter_option(&d, "--dashboard-port", "0");
    else
        crti_starter_flag(&d, "--no-dashboard");
    crti_starter_option(&d, "--private", cluster->directory);
    CRT_TRY(start_daemon(&d, &cluster->head));
    crti_ready_get(d.ready, "address", cluster->address, sizeof(cluster->address));
    crti_ready_get(d.ready, "key_file", cluster->key_file, sizeof(cluster->key_file));
    crti_ready_get(d.ready, "head_dir", head_dir, size);
    return CRT_OK;
}

static void add_resources(crti_starter_t *d, const crti_private_wish_t *wish,
                          char amounts[2][32])
{
    if (wish->num_cpus != 0) {
        crti_format(amounts[0], 32, "%.4f", wish->num_cpus > 0 ? wish->num_cpus : 0.0);
        crti_starter_option(d, "--num-cpus", amounts[0]);
    }
    if (wish->resources && wish->resources[0])
        crti_starter_option(d, "--resources", wish->resources);
    if (wish->store_bytes) {
        snprintf(amounts[1], 32, "%llu", (unsigned long long)wish->store_bytes);
        crti_starter_option(d, "--object-store-memory", amounts[1]);
    }
}

/* The address of one that joins a head elsewhere is the one by which it reaches that head. */
static crt_status_t start_node(crti_private_cluster_t *cluster, int lifeline,
                               const crti_private_wish_t *wish, const char *head_dir)
{
    crti_starter_t d;
    char amounts[2][32], share[16];
    crt_status_t status;

    snprintf(share, sizeof(share), "%u", wish->nodes);
    crti_starter_init(&d, "crt-node", lifeline);
    crti_starter_option(&d, "--address", cluster->address);
    crti_starter_option(&d, "--key-file", cluster->key_file);
    if (!wish->address) {
        crti_starter_option(&d, "--node-ip-address", "127.0.0.1");
        crti_starter_option(&d, "--head-dir", head_dir);
    }
    crti_starter_option(&d, "--private", cluster->directory);
    crti_starter_option(&d, "--share", share);
    add_resources(&d, wish, amounts);
    status = start_daemon(&d, &cluster->nodes[cluster->count]);
    cluster->count += cluster->nodes[cluster->count] != 0;
    if (status != CRT_OK)
        return status;
    if (cluster->count == 1)
        crti_ready_get(d.ready, "run_dir", cluster->run_dir, sizeof(cluster->run_dir));
    return CRT_OK;
}

static crt_status_t make_directory(crti_private_cluster_t *cluster)
{
    char run[PATH_MAX];
    crt_status_t status = crti_run_dir(run, sizeof(run));

    if (status == CRT_OK)
        status = crti_dir_make(run);
    if (status != CRT_OK)
        return status;
    if (snprintf(cluster->directory, sizeof(cluster->directory), "%s/private-XXXXXX",
                 run) >= (int)sizeof(cluster->directory)) {
        cluster->directory[0] = '\0';
        return crt_raise(CRT_ERR_TOO_LARGE,
                         "%s is too long for sockets below it: set CRT_RUN_DIR", run);
    }
    if (mkdtemp(cluster->directory) == NULL) {
        cluster->directory[0] = '\0';
        return crt_raise(CRT_ERR_IO, "private cluster: directory below %s: %s", run,
                         strerror(errno));
    }
    return CRT_OK;
}

static crt_status_t take_head(crti_private_cluster_t *cluster,
                              const crti_private_wish_t *wish)
{
    char path[PATH_MAX];

    if (!realpath(wish->key_file, path))
        return crt_raise(CRT_ERR_NOT_FOUND, "the key file %s: %s", wish->key_file,
                         strerror(errno));
    if (snprintf(cluster->key_file, sizeof(cluster->key_file), "%s", path) >=
        (int)sizeof(cluster->key_file))
        return crt_raise(CRT_ERR_TOO_LARGE, "the path of the key file %s is too long",
                         path);
    snprintf(cluster->address, sizeof(cluster->address), "%s", wish->address);
    return CRT_OK;
}

crt_status_t crti_private_cluster_make(const crti_private_wish_t *wish,
                                       crti_private_cluster_t *cluster_out)
{
    crti_private_cluster_t cluster = {.lifeline = -1};
    char head_dir[96] = "";
    int lifeline[2] = {-1, -1};
    crt_status_t status = make_directory(&cluster);

    if (status == CRT_OK)
        status = crti_starter_pipe(lifeline);
    cluster.lifeline = lifeline[1];
    if (status == CRT_OK && wish->address)
        status = take_head(&cluster, wish);
    else if (status == CRT_OK)
        status = start_head(&cluster, lifeline[0], wish->has_dashboard, head_dir,
                            sizeof(head_dir));
    while (status == CRT_OK && cluster.count < wish->nodes)
        status = start_node(&cluster, lifeline[0], wish, head_dir);
    crti_close_auto(&lifeline[0]);
    if (status != CRT_OK) {
        crti_private_cluster_stop(&cluster); /* keeps the detail: it raises nothing */
        return status;
    }
    *cluster_out = cluster;
    return CRT_OK;
}

crt_status_t crti_private_cluster_start(const crt_options_t *options,
                                        crti_private_cluster_t *cluster_out)
{
    crti_private_wish_t wish = {.nodes = 1};

    if (options) {
        wish.num_cpus = options->num_cpus;
        wish.resources = options->resources;
        wish.store_bytes = options->object_store_memory;
    }
    return crti_private_cluster_make(&wish, cluster_out);
}

crt_status_t crti_private_head_start(crti_private_cluster_t *cluster)
{
    int lifeline[2] = {-1, -1};
    char head_dir[96];
    crt_status_t status = cluster->directory[0] ? CRT_OK : make_directory(cluster);

    if (status == CRT_OK)
        status = crti_starter_pipe(lifeline);
    crti_close_auto(&cluster->lifeline);
    cluster->lifeline = lifeline[1];
    if (status == CRT_OK)
        status = start_head(cluster, lifeline[0], false, head_dir, sizeof(head_dir));
    crti_close_auto(&lifeline[0]);
    return status;
}

static void await_end(pid_t pid, uint64_t deadline)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);

    crti_starter_await_end(pid, fd, deadline);
    if (fd >= 0)
        close(fd);
}

static int remove_entry(const char *path, const struct stat *unused_stat, int type,
                        struct FTW *walk)
{
    remove(path); /* go on after a failure: what stays can be seen there */
    return 0;
}

void crti_private_cluster_stop(crti_private_cluster_t *cluster)
{
    uint64_t deadline = crti_now_ns() + STOP_DEADLINE;

    crti_close_auto(&cluster->lifeline);
    cluster->lifeline = -1;
    for (unsigned i = 0; i < cluster->count; i++)
        await_end(cluster->nodes[i], deadline);
    if (cluster->head)
        await_end(cluster->head, deadline);
    if (cluster->directory[0])
        nftw(cluster->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    *cluster = (crti_private_cluster_t){.lifeline = -1};
}
