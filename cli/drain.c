/* SPDX-License-Identifier: Apache-2.0 */
/* crt drain: a node ends when what it has is done or moved; waits until it is gone. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "cli/answer.h"
#include "cli/options.h"
#include "cli/run_dirs.h"
#include "runtime/base/rundir.h"

#define NAME      "crt drain"
#define LOOK_MS   100
#define SPARE_MS  15000 /* behind the deadline, for what it still has to end */
#define MAX_S     (30 * 86400.0)
#define DEFAULT_S "3600"

static const char *address, *deadline;
static bool here, no_wait;

/* The node that is meant, or NULL after saying why: it owns its members. */
static json_t *find(const crt_cluster_info_t *cluster, const char *prefix, bool must_live)
{
    json_t *nodes = crti_answer_query(cluster, "nodes", NULL), *found = NULL;
    const json_t *row;

    if (nodes && crti_answer_node(nodes, prefix, must_live, &row) == CRT_OK)
        found = json_incref((json_t *)row);
    else
        crti_cli_fail_detail(NAME);
    json_decref(nodes);
    return found;
}

/* Until it is gone. */
static int await_end(const crt_cluster_info_t *cluster, const char *id)
{
    for (;;) {
        json_t *node = find(cluster, id, false);
        bool is_over = node && strcmp(crti_answer_text(node, "state"), "DEAD") == 0;

        if (is_over)
            printf("node %.8s has ended: %s\n", id,
                   crti_answer_text(node, "state_message"));
        json_decref(node);
        if (!node)
            return 1;
        if (is_over)
            return 0;
        nanosleep(&(struct timespec){0, LOOK_MS * 1000000L}, NULL);
    }
}

/* The node of this host answers no question when it has ended. */
static int await_end_here(const crt_cluster_info_t *cluster, double seconds)
{
    crti_run_dir_await_end(cluster->run_dir, (int64_t)(seconds * 1000) + SPARE_MS);
    if (crti_dir_is_locked(cluster->run_dir))
        return crti_cli_fail(NAME, "node %.8s does not end", cluster->node);
    printf("node %.8s has ended\n", cluster->node);
    return 0;
}

/* `prefix` NULL: the node of this host. */
static int drain(const char *prefix, double seconds)
{
    static crt_cluster_info_t cluster;
    char id[40];
    json_t *node;

    if (crt_cluster_find(address, sizeof(cluster), &cluster) != CRT_OK)
        return crti_cli_fail_detail(NAME);
    if (!prefix && !cluster.node[0])
        return crti_cli_fail(NAME, "no node of %s runs on this host", cluster.address);
    node = find(&cluster, prefix ? prefix : cluster.node, true);
    if (!node)
        return 1;
    snprintf(id, sizeof(id), "%s", crti_answer_text(node, "node_id"));
    json_decref(node);
    if (crt_cluster_drain(&cluster, id, (int64_t)(seconds * 1000)) != CRT_OK)
        return crti_cli_fail_detail(NAME);
    printf("node %.8s is drained; it ends in %g s at the latest\n", id, seconds);
    fflush(stdout);
    if (no_wait)
        return 0;
    return prefix ? await_end(&cluster, id) : await_end_here(&cluster, seconds);
}

int crti_cli_drain(int argc, char **argv)
{
    static const option_spec_t options[] = {
        {"address", 'a', "HOST:PORT", OPTION_ADDRESS, &address,
         "the cluster's head; default: the only cluster here"},
        {"deadline", 0, "SECONDS", OPTION_TEXT, &deadline,
         "by then it ends, whatever it still has; default: " DEFAULT_S},
        {"here", 0, NULL, OPTION_FLAG, &here,
         "the node of this host, in the place of NODE"},
        {"no-wait", 0, NULL, OPTION_FLAG, &no_wait, "do not wait until it has ended"}};
    static const command_spec_t spec = {
        .name = NAME,
        .operands = "NODE | --here",
        .summary =
            "Ends a node, by the begin of its id, its name or address, without loss: it "
            "takes no new work, actors that\nmay restart move to other nodes, what else "
            "runs "
            "ends, objects are copied away.",
        .options = options,
        .count = sizeof(options) / sizeof(options[0])};
    double seconds;
    char *end;
    int first = crti_cli_parse(argc, argv, &spec);

    if (first <= 0)
        return -first;
    if (here && first != argc)
        return crti_cli_misused(NAME, "give NODE or --here");
    if (!here && (first + 1 != argc || !*argv[first]))
        return crti_cli_misused(NAME, "which node? (crt status shows their ids)");
    seconds = strtod(deadline ? deadline : DEFAULT_S, &end);
    if (*end || !(seconds >= 0.001 && seconds <= MAX_S))
        return crti_cli_misused(NAME, "--deadline takes 0.001 to %g seconds, not \"%s\"",
                                MAX_S, deadline);
    return drain(here ? NULL : argv[first], seconds);
}
