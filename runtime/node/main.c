/* SPDX-License-Identifier: Apache-2.0 */
/* crt-node: the node daemon. Options are in docs/design/processes.md. */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "runtime/base/rundir.h"
#include "runtime/daemon/lifeline.h"
#include "runtime/daemon/ready.h"
#include "runtime/node/lifecycle/lifecycle.h"
#include "runtime/node/node.h"
#include "runtime/node/options.h"
#include "runtime/node/process/context.h"

/* A start that failed before there was a node: the parent hears it here. */
static int fail(int ready_fd, const char *text)
{
    if (ready_fd >= 0)
        crti_ready_fail(&ready_fd, text);
    else
        dprintf(STDERR_FILENO, "crt-node: %s\n", text);
    return 1;
}

/* Leaves the terminal; what is logged goes to node.log. */
static void detach(const crti_node_t *node)
{
    char path[CRTI_NODE_PATH + 16];
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    setsid();
    snprintf(path, sizeof(path), "%s/node.log", node->own_state);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        close(null);
    }
    crti_daemon_log_to(path, "node");
}

/* Whoever reads them has them, and between two nodes they wait: none is lost, none ends a node that
 * undoes what it made. */
static void block_ends(void)
{
    sigset_t ends;

    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
}

/* One node, from its id to its end. True: its id was another node's, the next one draws another. */
static bool serve(crti_options_t *options, bool is_daemon, int *status_out)
{
    crti_node_t *node = NULL;
    bool is_again;

    *status_out = 1;
    if (crti_node_new(options, &node) != CRT_OK)
        return false; /* told by crti_node_free */
    if (is_daemon)
        detach(node);
    *status_out = crti_node_run(node);
    is_again = crti_node_begins_anew(node, options);
    crti_node_free(node);
    return is_again;
}

int main(int argc, char **argv)
{
    crti_options_t options;
    bool is_daemon;
    int status;

    crti_daemon_log_select();
    if (crti_options_parse(argc, argv, &options) != CRT_OK)
        return fail(options.given.ready_fd, crt_error_detail());
    is_daemon = options.given.ready_fd >= 0;
    if (is_daemon)
        crti_close_inherited(options.given.ready_fd, options.given.lifeline_fd);
    block_ends();
    while (serve(&options, is_daemon, &status))
        continue;
    return status;
}
