/* SPDX-License-Identifier: Apache-2.0 */
/* Names of hosts, one by one and by range: node[01-16], rack[1-2]-[a,b]. Pure.
 *
 * Where it sits
 *     cli/cluster_file.c -> [ cli/cluster_hosts.c ]
 */
#ifndef CRTI_CLI_CLUSTER_HOSTS_H
#define CRTI_CLI_CLUSTER_HOSTS_H

#include <crt.h>
#include <jansson.h>

#define CLUSTER_HOSTS_MAX 4096
#define CLUSTER_HOST_NAME 256 /* bytes of a name with its final zero */

/* Adds the hosts that `text` means to the list of texts `hosts`, in the order of the text.
 * CRT_ERR_INVALID: the detail says what is wrong with it. */
crt_status_t crti_cluster_hosts_add(const char *text, json_t *hosts);

/* Adds the hosts of a list, one a line; "#" begins a comment. `*line_out` is the line that is
 * wrong. */
crt_status_t crti_cluster_hosts_add_lines(const char *text, json_t *hosts,
                                          size_t *line_out);

#endif
