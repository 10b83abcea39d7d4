/* SPDX-License-Identifier: Apache-2.0 */
/* Cluster files: which hosts a cluster has, and how each is started (docs/cluster-file.md).
 *
 * Where it sits
 *     cli/up.c -> [ cli/cluster_file.c ] -> cli/cluster_hosts.c, libyaml
 * What is read
 *     One JSON object, complete and checked:
 *     {"name", "crt" and "folder" (perhaps), "parallel", "timeout",     (seconds)
 *      "ssh": ["-l", "USER", "-p", "PORT", ...],
 *      "hosts": [{"host", "group", "head": true|false,
 *                 "options": ["--num-cpus", "4", ...],  (of crt start)
 *                 "environment": {NAME: VALUE}, "setup": ["COMMAND", ...]}]}
 *     The head is the first of the hosts.
 */
#ifndef CRTI_CLI_CLUSTER_FILE_H
#define CRTI_CLI_CLUSTER_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include <crt.h>
#include <jansson.h>

/* `*file_out` is released by json_decref. CRT_ERR_INVALID: the detail begins with
 * PATH:LINE:COLUMN. */
crt_status_t crti_cluster_file_read(const char *path, json_t **file_out);

/* The same of a text, that of a file at `path`, by which errors and names are told. Files that it
 * names are read. */
crt_status_t crti_cluster_file_parse(const char *path, const char *text, size_t size,
                                     json_t **file_out);

/* True of what a cluster may be called: it is a part of a path. */
bool crti_cluster_is_name(const char *text);

#endif
