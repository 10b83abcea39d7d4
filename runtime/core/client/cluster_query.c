/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to a running cluster from a process that does not join it: the command.
 *
 * Where it sits
 *     cli/ -> [ core/client/cluster_query.c ] -> net/channel.c -> RUN/head-PORT/head.sock
 *     (crt-head), or RUN/node-HEX8/node.sock (crt-node, which forwards to its head) where the head
 *     is elsewhere
 * One connection per question, closed after it. Threads: any; no state.
 */
#include "runtime/crt.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/copy_struct.h"
#include "runtime/core/client/bundles.h"
#include "runtime/net/channel.h"

#define CONNECT_TIMEOUT (3 * CRTI_S)
#define ANSWER_TIMEOUT  (10 * CRTI_S)
#define STACKS_TIMEOUT  (15 * CRTI_S)
#define LOG_PART        (1u << 20)

/* crti_channel_request delivers only other messages here; nothing is pushed on this link. */
static void ignore_message(void *user, crti_channel_t *channel,
                           const crti_message_t *message, int *fds, int fd_count)
{
}

static void ignore_closed(void *user, crti_channel_t *channel, crt_status_t status,
                          const char *detail)
{
}

static crt_status_t connect_to(const crt_cluster_info_t *cluster,
                               crti_channel_t **channel_out)
{
    static const crti_channel_handlers_t handlers = {.on_message = ignore_message,
                                                     .on_closed = ignore_closed};
    char path[128];
    crt_status_t status;

    if (cluster->head_dir[0])
        snprintf(path, sizeof(path), "%s/head.sock", cluster->head_dir);
    else
        snprintf(path, sizeof(path), "%s/node.sock", cluster->run_dir);
    status = crti_channel_connect(path, crti_now_ns() + CONNECT_TIMEOUT, &handlers,
                                  channel_out);
    if (status == CRT_ERR_NOT_FOUND && cluster->head_dir[0])
        return crt_raise(
            CRT_ERR_HEAD_LOST,
            "the head of %s does not answer; start it again with: crt start "
            "--head --port %s",
            cluster->address,
            strrchr(cluster->address, ':') ? strrchr(cluster->address, ':') + 1 : "PORT");
    return status;
}

/* Sends the request; the answer has kind `expected`. */
static crt_status_t ask(const crt_cluster_info_t *cluster, crti_message_kind_t kind,
                        const void *body, uint64_t timeout_ns,
                        crti_message_kind_t expected, crti_message_t *answer_out,
                        crti_buffer_t *storage)
{
    CRTI_AUTO(crti_channel_free) crti_channel_t *channel = NULL;
    crt_status_t status = connect_to(cluster, &channel);

    if (status != CRT_OK)
        return status;
    status = crti_channel_request(channel, kind, body, crti_now_ns() + timeout_ns,
                                  answer_out, storage, NULL, NULL);
    if (status != CRT_OK)
        return status;
    if (answer_out->kind != expected)
        return crt_raise(CRT_ERR_PROTOCOL, "%s was answered by %s",
                         crti_message_name(kind), crti_message_name(answer_out->kind));
    return CRT_OK;
}

crt_status_t crt_cluster_query(const crt_cluster_info_t *cluster, const char *what,
                               const char *filter, char **json_out)
{
    crti_msg_state_query_t query = {.what = crti_str(what), .filter = crti_str(filter)};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_message_t answer;
    crt_status_t status =
        ask(cluster, CRTI_MSG_STATE_QUERY, &query,
            strcmp(what, "stacks") == 0 ? STACKS_TIMEOUT : ANSWER_TIMEOUT,
            CRTI_MSG_STATE_ANSWER, &answer, &storage);

    if (status != CRT_OK)
        return status;
    *json_out = crti_str_dup(answer.state_answer.json);
    return *json_out ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
}

crt_status_t crt_cluster_drain(const crt_cluster_info_t *cluster, const char *node,
                               int64_t limit_ms)
{
    crti_msg_node_drain_t order = {.left_ms = (uint64_t)limit_ms};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_message_t answer;

    if (limit_ms < 0)
        return crt_raise(CRT_ERR_INVALID, "a drain that ends in %lld ms",
                         (long long)limit_ms);
    if (!node || !crti_id_parse(node, &order.node))
        return crt_raise(CRT_ERR_INVALID, "\"%s\" is no node id of 32 hex digits",
                         node ? node : "");
    return ask(cluster, CRTI_MSG_NODE_DRAIN, &order, ANSWER_TIMEOUT, CRTI_MSG_DONE,
               &answer, &storage);
}

crt_status_t crt_cluster_request_resources(const crt_cluster_info_t *cluster,
                                           const crt_bundle_t *bundles, size_t count)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crt_status_t status = crti_bundles_pack(bundles, count, &list);
    crti_msg_resource_request_t m = {.bundles = crti_span(list.data, list.size)};
    crti_message_t answer;

    return status == CRT_OK ? ask(cluster, CRTI_MSG_RESOURCE_REQUEST, &m, ANSWER_TIMEOUT,
                                  CRTI_MSG_DONE, &answer, &storage)
                            : status;
}

crt_status_t crt_cluster_log(const crt_cluster_info_t *cluster, const char *name,
                             uint64_t offset, int64_t wait_ms, size_t log_size,
                             crt_cluster_log_t *log_out)
{
    uint64_t wait = wait_ms > 0 ? (uint64_t)wait_ms : 0;
    crti_msg_log_read_t read = {
        .name = crti_str(name), .offset = offset, .limit = LOG_PART, .wait_ms = wait};
    crt_cluster_log_t log;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_message_t answer;
    crt_status_t status =
        ask(cluster, CRTI_MSG_LOG_READ, &read, ANSWER_TIMEOUT + wait * CRTI_MS,
            CRTI_MSG_LOG_DATA, &answer, &storage);

    if (status != CRT_OK)
        return status;
    log = (crt_cluster_log_t){.data = crti_str_dup(answer.log_data.data),
                              .size = answer.log_data.data.size,
                              .next = answer.log_data.next,
                              .ended = answer.log_data.ended};
    crti_give_struct(log_out, log_size, &log, sizeof(log));
    return log.data ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
}
