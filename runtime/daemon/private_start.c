/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the daemons of a private cluster. See private_start.h. */
#include "runtime/daemon/private_start.h"

#include <stdio.h>
#include <unistd.h>

#include "runtime/daemon/ready.h"

#define START_MS         30000
#define HEADLESS_SECONDS "30"
#define LOOPBACK         "127.0.0.1"

/* Whatever comes of it: a process that does not serve is the cluster's until it has ended. */
static crt_status_t start(crti_private_daemon_t *daemon, crti_starter_t *starter,
                          const crti_private_options_t *options)
{
    crt_status_t status = options->start(starter, START_MS, options->cancel_fd);

    daemon->pid = starter->pid;
    daemon->pidfd = starter->pidfd;
    if (status == CRT_OK)
        crti_ready_get(starter->ready, "run_dir", daemon->run_dir,
                       sizeof(daemon->run_dir));
    return status;
}

static crt_status_t start_head(crti_private_cluster_t *cluster,
                               const crti_private_options_t *options, int lifeline)
{
    crti_starter_t starter;

    crti_starter_init(&starter, "crt-head", lifeline);
    crti_starter_option(&starter, "--port", options->port ? options->port : "0");
    crti_starter_option(&starter, "--node-ip-address",
                        options->ip ? options->ip : LOOPBACK);
    crti_starter_option(&starter, "--dashboard-port", options->dashboard_port);
    if (!options->dashboard_port)
        crti_starter_flag(&starter, "--no-dashboard");
    if (options->ip) /* nodes elsewhere end when it is killed */
        crti_starter_option(&starter, "--headless-timeout", HEADLESS_SECONDS);
    crti_starter_option(&starter, "--private", cluster->directory);
    CRT_TRY(start(&cluster->head, &starter, options));
    crti_ready_get(starter.ready, "address", cluster->address, sizeof(cluster->address));
    crti_ready_get(starter.ready, "key_file", cluster->key_file,
                   sizeof(cluster->key_file));
    crti_ready_get(starter.ready, "head_dir", cluster->head.run_dir,
                   sizeof(cluster->head.run_dir));
    return CRT_OK;
}

static crt_status_t start_node(crti_private_cluster_t *cluster,
                               const crti_private_options_t *options, int lifeline)
{
    const char *head_dir = cluster->head.run_dir;
    crti_private_daemon_t *node = &cluster->nodes[cluster->count];
    crti_starter_t starter;
    char share[16];
    crt_status_t status;

    snprintf(share, sizeof(share), "%u", options->nodes);
    crti_starter_init(&starter, "crt-node", lifeline);
    crti_starter_option(&starter, "--address", cluster->address);
    crti_starter_option(&starter, "--key-file", cluster->key_file);
    crti_starter_option(&starter, "--node-ip-address",
                        options->ip        ? options->ip
                        : options->address ? NULL
                                           : LOOPBACK);
    crti_starter_option(&starter, "--head-dir", head_dir[0] ? head_dir : NULL);
    crti_starter_option(&starter, "--private", cluster->directory);
    crti_starter_option(&starter, "--share", share);
    crti_starter_option(&starter, "--num-cpus", options->num_cpus);
    crti_starter_option(&starter, "--num-gpus", options->num_gpus);
    crti_starter_option(&starter, "--resources", options->resources);
    crti_starter_option(&starter, "--object-store-memory", options->store_bytes);
    status = start(node, &starter, options);
    cluster->count += node->pid != 0;
    return status;
}

crt_status_t crti_private_start(crti_private_cluster_t *cluster,
                                const crti_private_options_t *options)
{
    crt_status_t status = CRT_OK;
    int lifeline[2];

    CRT_TRY(crti_starter_pipe(lifeline));
    if (cluster->lifeline >= 0)
        close(cluster->lifeline);
    cluster->lifeline = lifeline[1];
    if (options->address)
        snprintf(cluster->address, sizeof(cluster->address), "%s", options->address);
    else
        status = start_head(cluster, options, lifeline[0]);
    while (status == CRT_OK && cluster->count < options->nodes)
        status = start_node(cluster, options, lifeline[0]);
    close(lifeline[0]);
    return status;
}

void crti_private_daemon_forget(crti_private_daemon_t *daemon)
{
    if (daemon->pid && daemon->pidfd >= 0)
        close(daemon->pidfd);
    *daemon = (crti_private_daemon_t){.pidfd = -1};
}
