/* SPDX-License-Identifier: Apache-2.0 */
/* crt-node: the node daemon. Options are in docs/design/processes.md. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/node/node.h"

/* A start that failed before there was a node: the parent hears it here. */
static int fail(int ready_fd, const char *text)
{
    if (ready_fd >= 0)
        dprintf(ready_fd, "error %s\n", text);
    else
        dprintf(STDERR_FILENO, "crt-node: %s\n", text);
    return 1;
}

/* Leaves the terminal; what is logged goes to node.log. */
static void detach(const crti_node_t *node)
{
    char path[CRTI_NODE_PATH + 16];
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), log;

    setsid();
    snprintf(path, sizeof(path), "%s/node.log", node->own_state);
    log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        close(null);
    }
    if (log >= 0) {
        dup2(log, STDERR_FILENO);
        close(log);
    }
}

int main(int argc, char **argv)
{
    const char *selection = getenv("CRT_LOG");
    crti_options_t options = {.ready_fd = -1};
    crti_node_t *node = NULL;
    int status;

    crti_log_select(selection && *selection ? selection : "info");
    if (crti_options_parse(argc, argv, &options) != CRT_OK)
        return fail(crti_options_ready_fd(argc, argv), crt_error_detail());
    if (options.ready_fd >= 0)
        fcntl(options.ready_fd, F_SETFD, FD_CLOEXEC);
    if (crti_node_new(&options, &node) != CRT_OK)
        return 1; /* told by crti_node_free */
    if (options.ready_fd >= 0)
        detach(node);
    status = crti_node_run(node);
    crti_node_free(node);
    return status;
}
