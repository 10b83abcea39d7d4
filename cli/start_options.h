/* SPDX-License-Identifier: Apache-2.0 */
/* Options of crt start: its table, and what was given. Cluster files have the same options as keys.
 *
 * Where it sits
 *     cli/start.c, cli/cluster_file.c -> [ cli/start_options.c ] -> cli/options.c
 */
#ifndef CRTI_CLI_START_OPTIONS_H
#define CRTI_CLI_START_OPTIONS_H

#include "cli/options.h"

typedef struct start_given {
    bool head, block, fresh;
    const char *address, *key_file, *port, *num_cpus, *num_gpus, *labels, *resources,
        *node_ip;
    const char *dashboard_host, *dashboard_port, *worker_ports, *headless_timeout,
        *encrypt, *infeasible, *deadlock, *dashboard_cert, *dashboard_key, *log_format;
    const char *max_jobs, *autoscaler;
    const char *redis, *redis_password, *redis_prefix, *redis_user, *redis_ca;
    bool redis_plaintext, redis_tls, no_auth, no_spill;
    uint64_t store_bytes, spill_limit;
    const char *spill_dirs;
} start_given_t;

extern start_given_t crti_start_given;
extern const command_spec_t crti_start_spec;

/* The option of that name, NULL: there is none. */
const option_spec_t *crti_start_option(const char *name);

/* True of an option that goes with --head alone. */
bool crti_start_is_head_only(const char *name);

#endif
