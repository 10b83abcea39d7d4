/* SPDX-License-Identifier: Apache-2.0 */
/* Options of crt start. See start_options.h. */
#include "cli/start_options.h"

#include <string.h>

start_given_t crti_start_given;

static const option_spec_t options[] = {
    {"head", 0, NULL, OPTION_FLAG, &crti_start_given.head,
     "start a new cluster: its head and a node"},
    {"address", 'a', "HOST:PORT", OPTION_ADDRESS, &crti_start_given.address,
     "join the cluster whose head is there"},
    {"key-file", 'k', "FILE", OPTION_TEXT, &crti_start_given.key_file,
     "key of the cluster to join (CRT_KEY_FILE)"},
    {"port", 'p', "PORT", OPTION_PORT, &crti_start_given.port,
     "port of the head; default 6380"},
    {"num-cpus", 0, "N", OPTION_AMOUNT, &crti_start_given.num_cpus,
     "CPUs of this node; default: those of the machine"},
    {"num-gpus", 0, "N", OPTION_AMOUNT, &crti_start_given.num_gpus,
     "GPUs of this node; default: those of CUDA_VISIBLE_DEVICES, or all that NVML has"},
    {"labels", 0, "K=V,...", OPTION_TEXT, &crti_start_given.labels,
     "labels of this node, by which tasks and actors choose it; the type of its GPUs is "
     "one"},
    {"resources", 0, "K=V,...", OPTION_RESOURCES, &crti_start_given.resources,
     "more resources of this node, for example tape=1,disk=2"},
    {"object-store-memory", 0, "BYTES", OPTION_BYTES, &crti_start_given.store_bytes,
     "size of this node's object store; default 30 % of memory"},
    {"spill-dir", 0, "DIR,...", OPTION_TEXT, &crti_start_given.spill_dirs,
     "where a store that fills writes objects; default: in the state directory"},
    {"spill-limit", 0, "BYTES", OPTION_BYTES, &crti_start_given.spill_limit,
     "so much at most; default: as the disk has room, but for a twentieth"},
    {"no-spill", 0, NULL, OPTION_FLAG, &crti_start_given.no_spill,
     "all objects stay in memory: a full store is an error"},
    {"node-ip-address", 0, "IP", OPTION_TEXT, &crti_start_given.node_ip,
     "address by which other hosts reach this one"},
    {"dashboard-host", 0, "HOST", OPTION_TEXT, &crti_start_given.dashboard_host,
     "where the dashboard listens; default 127.0.0.1"},
    {"dashboard-port", 0, "PORT", OPTION_PORT, &crti_start_given.dashboard_port,
     "its port; default 8265, 0: any free one"},
    {"dashboard-cert", 0, "FILE", OPTION_TEXT, &crti_start_given.dashboard_cert,
     "its certificate, PEM; default: one that follows from the cluster's key"},
    {"dashboard-key", 0, "FILE", OPTION_TEXT, &crti_start_given.dashboard_key,
     "the key of --dashboard-cert, PEM"},
    {"no-auth", 0, NULL, OPTION_FLAG, &crti_start_given.no_auth,
     "the dashboard wants no token: every user of this host can run programs as you"},
    {"max-running-jobs", 0, "N", OPTION_COUNT, &crti_start_given.max_jobs,
     "submitted jobs that run at a time, others wait; default: any number"},
    {"worker-port-range", 0, "LOW-HIGH", OPTION_RANGE, &crti_start_given.worker_ports,
     "ports of workers; default: any free ones"},
    {"headless-timeout", 0, "SECONDS", OPTION_COUNT, &crti_start_given.headless_timeout,
     "nodes end when the head is gone that long; default 600"},
    {"encrypt-streams", 0, "on|off", OPTION_ON_OFF, &crti_start_given.encrypt,
     "encrypt the bytes of objects between hosts; default on"},
    {"autoscaler", 0, "FILE", OPTION_TEXT, &crti_start_given.autoscaler,
     "nodes come and go as work does, by the rules in this YAML file"},
    {"fail-if-infeasible", 0, "on|off", OPTION_ON_OFF, &crti_start_given.infeasible,
     "what no node has the resources for fails; default off: it waits for one"},
    {"on-resource-deadlock", 0, "WHAT", OPTION_TEXT, &crti_start_given.deadlock,
     "when jobs hold what each other waits for: tell (default), or fail-youngest"},
    {"redis-address", 0, "HOST:PORT", OPTION_ADDRESS, &crti_start_given.redis,
     "keep the tables on this redis-server; default: one of its own"},
    {"redis-password-file", 0, "FILE", OPTION_TEXT, &crti_start_given.redis_password,
     "file with its password, readable by you alone"},
    {"redis-user", 0, "NAME", OPTION_TEXT, &crti_start_given.redis_user,
     "of its access list; default: its default user"},
    {"redis-tls", 0, NULL, OPTION_FLAG, &crti_start_given.redis_tls,
     "encrypt the way there, and check its certificate"},
    {"redis-ca-file", 0, "FILE", OPTION_TEXT, &crti_start_given.redis_ca,
     "authorities of its certificate; default: those of this host"},
    {"redis-prefix", 0, "PREFIX", OPTION_TEXT, &crti_start_given.redis_prefix,
     "of this cluster's keys there; default crt"},
    {"redis-plaintext-ok", 0, NULL, OPTION_FLAG, &crti_start_given.redis_plaintext,
     "it may be on another host: nothing encrypts the way there"},
    {"log-format", 0, "FORMAT", OPTION_TEXT, &crti_start_given.log_format,
     "of what the daemons log: text (default), or json: an object each line"},
    {"block", 0, NULL, OPTION_FLAG, &crti_start_given.block,
     "stay in the foreground; Ctrl-C ends what was started"},
    {"fresh", 0, NULL, OPTION_FLAG, &crti_start_given.fresh,
     "forget what an earlier head on this port knew"}};

const command_spec_t crti_start_spec = {
    .name = "crt start",
    .summary =
        "Starts a cluster on this host (--head), or adds this host to one (--address).\n"
        "Returns when it serves, and prints what to type next.",
    .options = options,
    .count = sizeof(options) / sizeof(options[0])};

const option_spec_t *crti_start_option(const char *name)
{
    for (size_t i = 0; i < crti_start_spec.count; i++)
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    return NULL;
}

bool crti_start_is_head_only(const char *name)
{
    static const char *const names[] = {"port",
                                        "dashboard-host",
                                        "dashboard-port",
                                        "dashboard-cert",
                                        "dashboard-key",
                                        "no-auth",
                                        "max-running-jobs",
                                        "headless-timeout",
                                        "encrypt-streams",
                                        "autoscaler",
                                        "fail-if-infeasible",
                                        "on-resource-deadlock",
                                        "redis-address",
                                        "redis-password-file",
                                        "redis-prefix",
                                        "redis-user",
                                        "redis-tls",
                                        "redis-ca-file",
                                        "redis-plaintext-ok",
                                        "fresh"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}
