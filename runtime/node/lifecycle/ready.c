/* SPDX-License-Identifier: Apache-2.0 */
/* The start of the node daemon as others see it: node.info, and what the parent hears.
 *
 * Where it sits
 *     head_link.c (registered, or refused), node.c -> [ node/lifecycle/ready.c ] -> node.info, the parent's pipe
 */
#include <string.h>
#include <unistd.h>

#include "runtime/node/node.h"

static crt_status_t write_info(crti_node_t *node)
{
    char pid[24], start[24], path[CRTI_NODE_PATH + 16];
    uint64_t started = 0;
    crt_status_t status = crti_process_start(getpid(), &started);

    if (status != CRT_OK)
        return status;
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    snprintf(start, sizeof(start), "%llu", (unsigned long long)started);
    snprintf(path, sizeof(path), "%s/node.info", node->run_dir);
    return crti_info_write(path,
                           (const crti_info_entry_t[]){
                               {"pid", pid},
                               {"start", start},
                               {"node", node->hex},
                               {"address", node->head_address},
                               {"node_ip", node->ip},
                               {"head_dir", node->options.head_dir},
                               {"http", node->http},
                               {"http_pin", node->http_pin},
                               {"key_file", node->options.key_file},
                               {"state_dir", node->own_state},
                               {"private", node->options.private_dir[0] ? "1" : "0"}},
                           11);
}

void crti_node_tell_parent(crti_node_t *node, const char *line)
{
    int fd = node->options.ready_fd;
    size_t size = strlen(line);

    node->options.ready_fd = -1;
    if (fd < 0)
        return;
    if (write(fd, line, size) != (ssize_t)size)
        crti_log(CRTI_LOG_WARN, "node", "the parent does not listen");
    close(fd);
}

/* True when it is another one. */
static bool take_text(char *text, size_t size, crti_span_t given)
{
    char before[288];

    snprintf(before, sizeof(before), "%s", text);
    snprintf(text, size, "%.*s", given.size < size ? (int)given.size : 0,
             given.size ? (const char *)given.data : "");
    return strcmp(before, text) != 0;
}

void crti_node_registered(crti_node_t *node, const crti_msg_node_registered_t *m)
{
    bool is_new = take_text(node->http, sizeof(node->http), m->http);
    char line[3 * CRTI_NODE_PATH + 128] = "ready";

    is_new = take_text(node->http_pin, sizeof(node->http_pin), m->http_pin) || is_new;
    if (node->ready) {
        if (is_new && write_info(node) != CRT_OK)
            crti_log(CRTI_LOG_WARN, "node", "%s", crt_error_detail());
        return;
    }
    crti_loop_cancel(node->loop, &node->start_timer);
    if (write_info(node) != CRT_OK) {
        crti_node_fail_start(node, crt_error_detail());
        return;
    }
    node->ready = true;
    crti_node_schedule_tick(node, crti_node_now(node));
    crti_ready_add(line, sizeof(line) - 1, "node", node->hex);
    crti_ready_add(line, sizeof(line) - 1, "run_dir", node->run_dir);
    strcat(line, "\n");
    crti_node_tell_parent(node, line);
}

void crti_node_fail_start(crti_node_t *node, const char *text)
{
    if (node->exit_status)
        return;
    snprintf(node->start_error, sizeof(node->start_error), "%s", text);
    crti_log(CRTI_LOG_ERROR, "node", "%s", text);
    node->exit_status = 1;
    crti_loop_stop(node->loop);
}
