/* SPDX-License-Identifier: Apache-2.0 */
/* What crt start tells crt-head of the autoscaler: one JSON object, checked by the command, of
 * which the head takes the rules and crt-scaler the commands.
 *
 * Where it sits
 *     cli/autoscaler_file.c -> a file in memory -> [ control/scale_file.c ] -> autoscaler.h, and
 *         scaler.c
 * Form
 *     {"provider": "local" | "ssh" | "slurm" | "kubernetes" | "commands",
 *      "idle_timeout", "start_timeout", "command_timeout",
 *      (seconds) "upscaling_speed", "downscaling_speed", "crt": path of the command,
 *      "ask", "list", "end": commands of the user,
 *      "pool": of ssh: {"hosts": [NAME], "ssh": [ARGUMENT], "setup": [COMMAND], "crt": PATH},
 *      "slurm_options": [ARGUMENT of sbatch], "slurm_key_file": PATH,
 *      "kubernetes": {"server": URL, "service_account": FOLDER, "namespace": NAME (all of them may
 *                     be missing), "deployments": {NODE TYPE: NAME}},
 *      "node_types": [{"name", "min", "max", "resources": {NAME: AMOUNT}, "labels": "K=V,...",
 *                      "options": ["--num-cpus", "2", ...] (of crt start)}]}
 */
#ifndef CRTI_CONTROL_SCALE_FILE_H
#define CRTI_CONTROL_SCALE_FILE_H

#include <jansson.h>

#include "runtime/control/autoscale/autoscaler.h"

/* Reads it from the beginning of `fd`, which stays open; `*file_out` is released by json_decref. */
crt_status_t crti_scale_file_read(int fd, json_t **file_out);

/* The rules; `types` has room for CRTI_NODE_TYPES_MAX and is what `config_out->types` points to. */
crt_status_t crti_scale_file_rules(const json_t *file, crti_node_type_t *types,
                                   crti_scale_config_t *config_out);

#endif
