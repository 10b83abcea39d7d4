/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime environment of a job, from a file of its user.
 *
 * Where it sits
 *     cli/job_body.c -> [ cli/runtime_env.c ] -> cli/yaml_reader.c, jansson
 * Rules
 *     A file that begins with "{" is JSON, unless its name ends with .yaml or .yml; any other is
 *     YAML. Keys are those of Ray, and setup. In YAML one that is unknown or not supported is
 *     refused with its line and column; in JSON crt-http refuses it.
 */
#ifndef CRTI_CLI_RUNTIME_ENV_H
#define CRTI_CLI_RUNTIME_ENV_H

#include <jansson.h>

#include <crt.h>

/* An object as POST /api/jobs/ takes it, which the caller owns; of YAML without the keys that are
 * null. CRT_ERR_PERMISSION: every user of this host can write the file. CRT_ERR_INVALID: its form,
 * or a key. */
crt_status_t crti_runtime_env_read(const char *path, json_t **env_out);

/* The same of what that file holds. */
crt_status_t crti_runtime_env_parse(const char *path, const char *text, json_t **env_out);

/* Where pip or uv names a file of requirements here, its lines take the place of the name. */
crt_status_t crti_runtime_env_read_requirements(json_t *env);

/* Takes out what Ray passes over too (num_cpus, num_gpus, resources), and prints a line when there
 * was something, for `command`. */
void crti_runtime_env_pass_over(const char *command, json_t *env);

#endif
