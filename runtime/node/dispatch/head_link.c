/* SPDX-License-Identifier: Apache-2.0 */
/* The link to the head: connection, registration, heartbeats.
 *
 * Where it sits
 *     [ node/dispatch/head_link.c ] <-> net/stream.c <-> crt-head
 *         -> head.c (answers), head_dispatch.c (orders and news)
 * Rules
 *     A broken link is made anew at once, then every reconnect_pause. Silence for heartbeat_timeout
 *     breaks the link; so does no answer to NODE_REGISTER for twice as long. Without a head for
 *     `headless_ns` the node stops. A head that says this node was dead gets a new incarnation of
 *     it, with all old workers gone; one that can't tell this node from another one gets a node
 *     with another id.
 */

#include "crt_config.h"
#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/node/actors/actor.h"
#include "runtime/node/dispatch/dispatch_int.h"
#include "runtime/node/jobs/job.h"
#include "runtime/node/leases/bundle.h"
#include "runtime/node/leases/lease.h"
#include "runtime/node/leases/lease_table.h"
#include "runtime/node/leases/worker_table.h"
#include "runtime/node/lifecycle/drain.h"
#include "runtime/node/lifecycle/lifecycle.h"
#include "runtime/node/links/head.h"
#include "runtime/node/objects/spill.h"
#include "runtime/node/process/metric_totals.h"
#include "runtime/node/watches/watch.h"

#define HEADLESS   (600 * CRTI_S) /* until the head says otherwise */
#define DEMAND_MAX 100            /* waiting requests that the head is told of */

/* ---------------------------------------------------------------- a link that breaks */

/* Of an attempt that failed: once, though the next ones fail alike. */
static void note_why(crti_node_t *node, const char *why)
{
    crti_registration_t *r = node->registration;
    char text[sizeof(r->why)];

    snprintf(text, sizeof(text), "%s", why);
    if (strcmp(text, r->why) == 0)
        return;
    memcpy(r->why, text, sizeof(text));
    crti_log(CRTI_LOG_WARN, "head", "not registered with %s: %s", node->head_address,
             text);
}

static void lose(crti_node_t *node, const char *why)
{
    crti_registration_t *r = node->registration;
    uint64_t now = crti_node_now(node);
    bool was_open = crti_head_is_open(node);
    crti_msg_head_link_t link = {.up = false, .text = crti_str(why)};

    crti_head_close(node);
    crti_submission_head_lost(node);
    crti_actor_head_lost(node);
    crti_loop_cancel(node->loop, &r->beat);
    crti_loop_cancel(node->loop, &r->unanswered);
    if (node->stopping)
        return;
    if (r->lost_ns == 0)
        r->lost_ns = now;
    if (was_open) {
        crti_log(CRTI_LOG_WARN, "head", "no link to the head at %s: %s",
                 node->head_address, why);
        crti_local_broadcast(node, CRTI_MSG_HEAD_LINK, &link);
        crti_lease_table_head(node->lease_table, true, now);
        crti_lease_act(node);
    } else {
        note_why(node, why);
    }
    if (r->ever && now - r->lost_ns > r->headless_ns) {
        crti_node_stop(node, "no head for longer than the headless timeout");
        return;
    }
    /* The first attempt at once, also when the head was merely restarted. */
    crti_loop_start(node->loop, &r->retry,
                    r->attempts ? now + CRTI_LIMIT(reconnect_pause) : now);
}

/* ---------------------------------------------------------------- heartbeats */

static crt_status_t list_demand(crti_node_t *node, crti_buffer_t *list)
{
    const crti_lease_t *lease;
    size_t cursor = 0, count = 0;
    crt_status_t status = CRT_OK;

    while (status == CRT_OK && count < DEMAND_MAX &&
           (lease = crti_lease_table_next(node->lease_table, &cursor)) != NULL) {
        crti_msg_lease_request_t ask = {.lease = lease->id,
                                        .job = lease->job,
                                        .owner = lease->owner,
                                        .owner_node = lease->owner_node,
                                        .resources = lease->resources,
                                        .function = crti_str(lease->function),
                                        .spillbacks = lease->spillbacks,
                                        CRTI_SCHEDULING_FIELDS(&lease->how)};

        if (lease->state != CRTI_LEASE_WAITING)
            continue;
        count++;
        status = crti_head_pack(list, CRTI_MSG_LEASE_REQUEST, &ask);
    }
    return status;
}

static void beat(crti_node_t *node)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t demand = {0}, uses = {0};
    crti_lineage_figures_t lineage = crti_metric_lineage(node);
    struct crti_store_stats stats;
    char trouble[300];
    crti_msg_heartbeat_t heartbeat = {.sequence = ++node->registration->beat_sent,
                                      .available =
                                          *crti_lease_table_available(node->lease_table),
                                      .workers = crti_worker_table_count(node->workers)};

    crti_store_stats(node->store, &stats);
    heartbeat.store_used = stats.used;
    heartbeat.spilled_objects = stats.spilled_objects;
    heartbeat.spilled_bytes = stats.spilled_bytes;
    heartbeat.lineage_bytes = lineage.bytes;
    heartbeat.lineage_limit = lineage.limit;
    heartbeat.lineage_forgotten = lineage.forgotten;
    heartbeat.spill_trouble =
        crti_str(crti_spill_trouble(node, trouble, sizeof(trouble)));
    crti_memory_figures(node, &heartbeat.memory_used, &heartbeat.memory_bytes,
                        &heartbeat.memory_ended);
    for (unsigned i = 0; i < heartbeat.available.count; i++)
        if (heartbeat.available.item[i].amount < 0)
            heartbeat.available.item[i].amount = 0; /* lent CPUs that are wanted back */
    if (list_demand(node, &demand) == CRT_OK)
        heartbeat.demand = crti_span(demand.data, demand.size);
    if (crti_lease_uses(node, &uses) == CRT_OK)
        heartbeat.uses = crti_span(uses.data, uses.size);
    heartbeat.is_busy = crti_drain_is_busy(node);
    crti_fence_sent(node, heartbeat.sequence);
    crti_head_send(node, CRTI_MSG_HEARTBEAT, 0, &heartbeat);
    node->registration->changed = false;
    node->registration->beat_ns = crti_node_now(node);
}

void crti_head_changed(crti_node_t *node)
{
    uint64_t at = node->registration->beat_ns + CRTI_LIMIT(report_delay);

    if (!crti_head_is_open(node) || node->registration->changed)
        return;
    node->registration->changed = true;
    crti_loop_start(node->loop, &node->registration->beat, at);
}

static void on_beat(void *user)
{
    crti_node_t *node = user;
    uint64_t now = crti_node_now(node);

    if (!crti_head_is_open(node) || node->stopping)
        return;
    if (now - node->registration->heard_ns > CRTI_LIMIT(heartbeat_timeout)) {
        char why[64];

        snprintf(why, sizeof(why), "the head was silent for %s",
                 CRTI_LIMIT_SAID(heartbeat_timeout));
        lose(node, why);
        return;
    }
    beat(node);
    crti_loop_start(node->loop, &node->registration->beat,
                    now + CRTI_LIMIT(heartbeat_interval));
}

/* ---------------------------------------------------------------- registration */

/* The head takes links once it has loaded its tables, and then answers at once. Longer than its
 * heartbeats, because after its start all nodes register. */
static void await_answer(crti_node_t *node)
{
    crti_loop_start(node->loop, &node->registration->unanswered,
                    crti_node_now(node) + 2 * CRTI_LIMIT(heartbeat_timeout));
}

static void on_unanswered(void *user)
{
    lose(user, "the head does not answer NODE_REGISTER");
}

static crt_status_t register_node(crti_node_t *node)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t actors = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t jobs = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bundles = {0};
    crti_msg_node_register_t message = {
        .protocol = CRTI_PROTOCOL_VERSION,
        .version = crti_str(CRTI_VERSION),
        .node = node->id,
        .incarnation = node->incarnation,
        .ip = crti_str(node->ip),
        .hostname = crti_str(node->hostname),
        .endpoint = crti_str(crti_peer_endpoint(node)),
        .pid = getpid(),
        .is_head_host = node->has_head_cache,
        .resources = *crti_lease_table_resources(node->lease_table),
        .available = *crti_lease_table_available(node->lease_table),
        .store_bytes = node->store_bytes,
        .labels = crti_str(node->options.labels),
        .drain_ms = crti_drain_left(node)};
    crt_status_t status = crti_actor_list(node, &actors);

    if (status == CRT_OK)
        status = crti_job_list(node, &jobs);
    if (status == CRT_OK)
        status = crti_bundle_list(node, &bundles);
    if (status != CRT_OK)
        return status;
    message.actors = crti_span(actors.data, actors.size);
    message.jobs = crti_span(jobs.data, jobs.size);
    message.bundles = crti_span(bundles.data, bundles.size);
    return crti_head_register(node, &message);
}

static void end_ids(crti_node_t *node, crti_span_t list, bool actors)
{
    for (size_t at = 0; at + 16 <= list.size; at += 16) {
        crti_id_t id = crti_id_unpack((const unsigned char *)list.data + at);

        if (actors)
            crti_actor_end_id(node, id, "the head ended it: it was placed elsewhere");
        else
            crti_job_end(node, id, "the head ended the job");
    }
}

static void on_registered(crti_node_t *node, const crti_msg_node_registered_t *m)
{
    if (crti_limits_take(m->limits.data, m->limits.size) != CRT_OK) {
        crti_node_fail_start(node, crt_error_detail());
        return;
    }
    node->registration->cluster = m->cluster;
    if (m->encrypt_streams != crti_peer_encrypts(node) &&
        crti_peer_listen_again(node, m->encrypt_streams) != CRT_OK) {
        crti_node_fail_start(node, crt_error_detail());
        return;
    }
    node->registration->headless_ns = m->headless_timeout_ms < UINT64_MAX / CRTI_MS
                                          ? m->headless_timeout_ms * CRTI_MS
                                          : UINT64_MAX;
    crti_loop_cancel(node->loop, &node->registration->unanswered);
    crti_head_open(node);
    node->registration->ever = true;
    node->registration->why[0] = '\0';
    node->registration->lost_ns = 0;
    node->registration->attempts = 0;
    node->registration->changed = false;
    crti_lease_default(node, m->fail_if_infeasible, m->may_grow);
    node->registration->hears_all = false;
    /* Until the head has told of all nodes (node_news.c). */
    crti_lease_table_head(node->lease_table, true, crti_node_now(node));
    crti_lease_act(node);
    end_ids(node, m->actors_to_end, true);
    end_ids(node, m->jobs_to_end, false);
    crti_log(CRTI_LOG_INFO, "head", "registered with %s", node->head_address);
    beat(node);
    crti_loop_start(node->loop, &node->registration->beat,
                    crti_node_now(node) + CRTI_LIMIT(heartbeat_interval));
    crti_head_registered(node);
    crti_actor_watch_again(node); /* behind them: these are sent as they are asked */
    crti_local_broadcast(node, CRTI_MSG_HEAD_LINK, &(crti_msg_head_link_t){.up = true});
    crti_node_registered(node, m);
}

/* The head took this node for dead: what ran here is placed elsewhere by now. */
static void rejoin(crti_node_t *node)
{
    crti_worker_t *worker;
    size_t cursor = 0;

    crti_log(CRTI_LOG_WARN, "head",
             "the head took this node for dead: its workers end, it joins again");
    node->incarnation++;
    while ((worker = crti_worker_table_next(node->workers, &cursor)) != NULL)
        if (worker->io) {
            crti_process_t *p = worker->io;

            crti_process_explain(p,
                                 "the node was cut off from the head and taken for dead");
            crti_fence_shut(p);
            crti_process_kill(p);
        }
    crti_submission_stop_all(node);
    crti_bundle_return_all(node, "the node was cut off from the head and taken for dead");
    lose(node, "the head took this node for dead");
}

static void on_register_error(crti_node_t *node, const crti_msg_error_t *error)
{
    char text[512];

    crti_text(error->text, text, sizeof(text));
    if (error->status == CRT_ERR_NODE_LOST) {
        rejoin(node);
        return;
    }
    if (error->status == CRT_ERR_EXISTS) {
        crti_node_clash(node, text);
        return;
    }
    if (!node->ready) {
        crti_node_fail_start(node, text);
        return;
    }
    crti_log(CRTI_LOG_ERROR, "head", "the head refuses this node: %s", text);
    lose(node, text);
}

/* ---------------------------------------------------------------- messages */

static void on_message(void *user, crti_stream_t *stream, const crti_message_t *m)
{
    crti_node_t *node = user;

    node->registration->heard_ns = crti_node_now(node);
    if (!crti_head_is_open(node)) {
        if (m->kind == CRTI_MSG_NODE_REGISTERED)
            on_registered(node, &m->node_registered);
        else if (m->kind == CRTI_MSG_ERROR)
            on_register_error(node, &m->error);
        return;
    }
    if (crti_head_dispatch_order(node, m))
        return;
    if (m->request)
        crti_head_answered(node, m);
    else if (m->kind == CRTI_MSG_NODE_DIED && crti_id_equal(m->node_died.node, node->id))
        rejoin(node);
    else if (!crti_head_dispatch_news(node, m))
        crti_log(CRTI_LOG_WARN, "head", "unexpected %s from the head",
                 crti_message_name(m->kind));
}

/* ---------------------------------------------------------------- the link */

static void on_open(void *user, crti_stream_t *stream)
{
    crti_node_t *node = user;
    crt_status_t status = CRT_OK;

    node->registration->heard_ns = crti_node_now(node);
    if (node->ip[0] == '\0')
        status = crti_stream_local_ip(stream, node->ip, sizeof(node->ip));
    crti_lease_add_own(node);
    if (status == CRT_OK && !crti_peer_is_listening(node))
        status = crti_peer_listen(node);
    if (status != CRT_OK)
        crti_node_fail_start(node, crt_error_detail());
    else if (register_node(node) == CRT_OK)
        await_answer(node);
    else
        lose(node, crt_error_detail());
}

static void on_closed(void *user, crti_stream_t *stream, crt_status_t status,
                      const char *text)
{
    crti_node_t *node = user;
    char reason[512];

    /* After the handshake the two agree: then a head that dies, or a line, is not a refusal. */
    if (!node->registration->ever && !crti_head_is_registering(node) &&
        status != CRT_ERR_UNREACHABLE && status != CRT_ERR_TIMED_OUT) {
        snprintf(reason, sizeof(reason), "the head at %s does not take this node: %s",
                 node->head_address, text);
        crti_node_fail_start(node, reason);
        return;
    }
    lose(node, text);
}

void crti_registration_start(crti_node_t *node)
{
    crti_stream_handlers_t handlers = {.user = node,
                                       .on_open = on_open,
                                       .on_message = on_message,
                                       .on_closed = on_closed};
    crt_status_t status;

    if (crti_head_is_linked(node) || node->stopping)
        return;
    if (node->registration->lost_ns == 0)
        node->registration->lost_ns = crti_node_now(node);
    node->registration->attempts++;
    status =
        crti_head_connect(node, CRTI_LIMIT(head_connect_timeout) / CRTI_MS, &handlers);
    if (status != CRT_OK)
        lose(node, crt_error_detail());
}

static void on_retry(void *user)
{
    crti_registration_start(user);
}

const char *crti_registration_why(const crti_node_t *node)
{
    return node->registration->why;
}

uint64_t crti_registration_beat_ns(const crti_node_t *node)
{
    return node->registration->beat_ns;
}

void crti_registration_init(crti_node_t *node)
{
    node->incarnation = (uint64_t)crti_wall_ms();
    *node->registration =
        (crti_registration_t){.headless_ns = HEADLESS,
                              .retry = {.on_expired = on_retry, .user = node},
                              .beat = {.on_expired = on_beat, .user = node},
                              .unanswered = {.on_expired = on_unanswered, .user = node}};
}
