/* SPDX-License-Identifier: Apache-2.0 */
/* crt health-check: does the node of this host answer? For supervisors, such as the probes of
 * Kubernetes: a node whose head is away is healthy. A head has /api/healthz.
 */
#include <stdio.h>

#include "cli/options.h"

#define NAME       "crt health-check"
#define BEHIND_ALL (UINT64_C(1) << 48) /* no log is so long: nothing is read */

static const char *address;

/* A question that the daemon answers by itself, from its own loop. */
static int ask_node(crt_cluster_info_t *node)
{
    crt_cluster_log_t log = {0};
    char name[64];

    snprintf(name, sizeof(name), "node:%.32s", node->node);
    node->head_dir[0] = '\0'; /* not the head, though it may be here */
    if (crt_cluster_log(node, name, BEHIND_ALL, 0, sizeof(log), &log) != CRT_OK)
        return crti_cli_fail_detail(NAME);
    crt_free(log.data);
    printf("node %.8s answers\n", node->node);
    return 0;
}

int crti_cli_health_check(int argc, char **argv)
{
    static const option_spec_t options[] = {{"address", 'a', "HOST:PORT", OPTION_ADDRESS,
                                             &address,
                                             "the cluster's head; default: the only "
                                             "cluster here"}};
    static const command_spec_t spec = {
        .name = NAME,
        .summary =
            "Says whether the node of this host answers: the exit status is 0, else "
            "1. The head need\nnot be there.",
        .options = options,
        .count = sizeof(options) / sizeof(options[0])};
    static crt_cluster_info_t node;
    int first = crti_cli_parse(argc, argv, &spec);

    if (first <= 0)
        return -first;
    if (crt_cluster_find(address, sizeof(node), &node) != CRT_OK)
        return crti_cli_fail_detail(NAME);
    if (!node.node[0])
        return crti_cli_fail(NAME, "no node of %s runs on this host", node.address);
    return ask_node(&node);
}
