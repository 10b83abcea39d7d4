/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and ends the daemons of a private cluster. See private_cluster.h. */
#include "runtime/core/client/private_cluster.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/number_text.h"
#include "runtime/base/rundir.h"
#include "runtime/core/types.h"
#include "runtime/crt_tools.h"

#define STOP_DEADLINE (10 * CRTI_S)

static crt_status_t start_daemon(crti_starter_t *starter, int64_t timeout_ms,
                                 int cancel_fd)
{
    char path[PATH_MAX];
    crt_status_t status = crti_daemon_path(starter->argv[0], path, sizeof(path));

    if (status == CRT_OK)
        status = crti_starter_spawn(starter, path);
    if (status == CRT_OK)
        status = crti_starter_wait(starter, timeout_ms, cancel_fd);
    crti_starter_close(starter);
    return status;
}

static crt_status_t take_key(crti_private_cluster_t *cluster, const char *key_file)
{
    char path[PATH_MAX];

    if (!realpath(key_file, path))
        return crt_raise(CRT_ERR_NOT_FOUND, "the key file %s: %s", key_file,
                         strerror(errno));
    if (snprintf(cluster->key_file, sizeof(cluster->key_file), "%s", path) >=
        (int)sizeof(cluster->key_file))
        return crt_raise(CRT_ERR_TOO_LARGE, "the path of the key file %s is too long",
                         path);
    return CRT_OK;
}

crt_status_t crti_private_cluster_make(const crti_private_spec_t *spec,
                                       crti_private_cluster_t *cluster_out)
{
    crti_private_cluster_t cluster = CRTI_PRIVATE_CLUSTER_NONE;
    char cpus[32], store_bytes[32];
    crti_private_options_t options = {.nodes = spec->nodes,
                                      .address = spec->address,
                                      .dashboard_port = spec->has_dashboard ? "0" : NULL,
                                      .cancel_fd = -1,
                                      .start = start_daemon};
    crt_status_t status =
        crti_dir_make_private(cluster.directory, sizeof(cluster.directory));

    crti_format(cpus, sizeof(cpus), "%.4f", spec->num_cpus > 0 ? spec->num_cpus : 0.0);
    snprintf(store_bytes, sizeof(store_bytes), "%llu",
             (unsigned long long)spec->store_bytes);
    if (spec->num_cpus != 0)
        options.num_cpus = cpus;
    if (spec->resources && spec->resources[0])
        options.resources = spec->resources;
    if (spec->store_bytes)
        options.store_bytes = store_bytes;
    if (status == CRT_OK && spec->address)
        status = take_key(&cluster, spec->key_file);
    if (status == CRT_OK)
        status = crti_private_start(&cluster, &options);
    if (status != CRT_OK)
        crti_private_cluster_stop(&cluster); /* keeps the detail: it raises nothing */
    else
        *cluster_out = cluster;
    return status;
}

crt_status_t crti_private_cluster_start(const crt_options_t *options,
                                        crti_private_cluster_t *cluster_out)
{
    crti_private_spec_t spec = {.nodes = 1};

    if (options) {
        spec.num_cpus = options->num_cpus;
        spec.resources = options->resources;
        spec.store_bytes = options->object_store_memory;
    }
    return crti_private_cluster_make(&spec, cluster_out);
}

crt_status_t crti_private_head_start(crti_private_cluster_t *cluster)
{
    const char *colon = strrchr(cluster->address, ':');
    char port[8] = "0"; /* of one that was killed */
    crti_private_options_t options = {
        .port = port, .cancel_fd = -1, .start = start_daemon};
    crt_status_t status =
        cluster->directory[0]
            ? CRT_OK
            : crti_dir_make_private(cluster->directory, sizeof(cluster->directory));

    if (colon)
        snprintf(port, sizeof(port), "%s", colon + 1);
    return status == CRT_OK ? crti_private_start(cluster, &options) : status;
}

static void await_end(crti_private_daemon_t *daemon, uint64_t deadline)
{
    if (daemon->pid)
        crti_starter_await_end(daemon->pid, daemon->pidfd, deadline);
    crti_private_daemon_forget(daemon);
}

void crti_private_cluster_stop(crti_private_cluster_t *cluster)
{
    uint64_t deadline = crti_now_ns() + STOP_DEADLINE;

    crti_close_auto(&cluster->lifeline); /* all begin to end at once */
    cluster->lifeline = -1;
    for (unsigned i = 0; i < cluster->count; i++)
        await_end(&cluster->nodes[i], deadline);
    await_end(&cluster->head, deadline);
    if (cluster->directory[0])
        crti_dir_remove(cluster->directory);
    *cluster = (crti_private_cluster_t)CRTI_PRIVATE_CLUSTER_NONE;
}
