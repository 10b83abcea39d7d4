/* SPDX-License-Identifier: Apache-2.0 */
/* The link to the head: registration, heartbeats, questions that survive reconnects, and the
 * head's orders.
 *
 * Where it sits
 *     local.c, job.c (questions) -> [ node/head.c ] <-> net/stream.c <-> crt-head
 *         -> actor.c, submission.c, death.c, peer.c, logs.c (orders and news)
 * Rules
 *     A broken link is made anew at once, then every RETRY_NS. Questions wait meanwhile and are
 *     sent again in their order once NODE_REGISTERED came, behind the deaths that were not told;
 *     those of a process that ended are dropped. Silence for SILENCE_NS breaks the
 *     link. Without a head for `headless_ns` the node stops. A head that says this node was dead
 *     gets a new incarnation of it, with all old workers gone; one that can't tell this node from
 *     another one gets a node with another id.
 */
#include <string.h>

#include "crt_config.h"
#include "runtime/node/node.h"

#define CONNECT_MS 5000
#define RETRY_NS   (200 * CRTI_MS)
#define BEAT_NS    (1 * CRTI_S)
#define GATHER_NS  (50 * CRTI_MS)
#define SILENCE_NS (5 * CRTI_S)
#define HEADLESS   (600 * CRTI_S) /* until the head says otherwise */
#define UNTOLD_MAX 4096 /* deaths that are kept for the head, as many as it keeps */

typedef struct question {
    uint64_t number;
    crti_message_kind_t kind;
    crti_buffer_t bytes; /* the encoded message */
    crti_head_answer_t *on_answer;
    crti_id_t id;
    uint64_t token;
    crti_list_t link;
} question_t;

static void on_retry(void *user);
static void on_beat(void *user);

/* ---------------------------------------------------------------- questions */

static void free_question(crti_node_t *node, question_t *q)
{
    crti_map_remove(&node->head.pending, &q->number);
    crti_list_remove(&q->link);
    crti_buffer_fini(&q->bytes);
    free(q);
}

static void put_on_link(crti_node_t *node, const question_t *q)
{
    crti_message_t message;

    if (crti_message_decode(q->bytes.data, q->bytes.size, &message) == CRT_OK)
        crti_stream_send(node->head.stream, message.kind, q->number, &message.error);
}

crt_status_t crti_head_ask(crti_node_t *node, crti_message_kind_t kind, const void *body,
                           crti_head_answer_t *on_answer, crti_id_t id, uint64_t token)
{
    question_t *q = calloc(1, sizeof(*q));
    crt_status_t status;

    if (q == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "question to the head");
    q->number = ++node->head.requests;
    q->kind = kind;
    q->on_answer = on_answer;
    q->id = id;
    q->token = token;
    crti_list_append(&node->head.order, &q->link);
    status = crti_message_encode(kind, q->number, body, &q->bytes);
    if (status == CRT_OK)
        status = crti_map_put(&node->head.pending, &q->number, q);
    if (status != CRT_OK) {
        free_question(node, q);
        return status;
    }
    if (node->head.open)
        put_on_link(node, q);
    return CRT_OK;
}

static void answered(crti_node_t *node, const crti_message_t *message)
{
    question_t *q = crti_map_get(&node->head.pending, &message->request);
    question_t copy;

    if (q == NULL)
        return; /* asked twice across a reconnect */
    copy = *q;
    free_question(node, q);
    copy.on_answer(node, copy.id, copy.token, message);
}

void crti_head_drop(crti_node_t *node, crti_message_kind_t kind, crti_id_t id)
{
    CRTI_LIST_FOREACH_SAFE (item, &node->head.order) {
        question_t *q = CRTI_CONTAINER(item, question_t, link);

        if (q->kind == kind && crti_id_equal(q->id, id))
            free_question(node, q);
    }
}

void crti_head_send(crti_node_t *node, crti_message_kind_t kind, uint64_t request,
                    const void *body)
{
    /* An answer belongs to the link that the request came on. */
    if (node->head.open || (node->head.registering && request == 0))
        crti_stream_send(node->head.stream, kind, request, body);
}

/* ---------------------------------------------------------------- deaths */

typedef struct untold {
    crti_buffer_t bytes; /* the encoded PEER_DIED */
    crti_list_t link;
} untold_t;

/* The oldest. */
static void forget_untold(crti_node_t *node)
{
    crti_list_t *item = crti_list_pop(&node->head.untold);
    untold_t *u;

    if (item == NULL)
        return;
    u = CRTI_CONTAINER(item, untold_t, link);
    node->head.untold_count--;
    crti_buffer_fini(&u->bytes);
    free(u);
}

void crti_head_tell_death(crti_node_t *node, const crti_msg_peer_died_t *died)
{
    untold_t *u;

    if (node->head.open || node->head.registering) {
        crti_head_send(node, CRTI_MSG_PEER_DIED, 0, died);
        return;
    }
    u = calloc(1, sizeof(*u));
    if (u == NULL ||
        crti_message_encode(CRTI_MSG_PEER_DIED, 0, died, &u->bytes) != CRT_OK) {
        crti_log(CRTI_LOG_ERROR, "head", "out of memory: a death is not told");
        free(u);
        return;
    }
    crti_list_append(&node->head.untold, &u->link);
    if (++node->head.untold_count > UNTOLD_MAX)
        forget_untold(node);
}

static void tell_deaths(crti_node_t *node)
{
    while (!crti_list_is_empty(&node->head.untold)) {
        const untold_t *u = CRTI_CONTAINER(node->head.untold.next, untold_t, link);
        crti_message_t message;

        if (crti_message_decode(u->bytes.data, u->bytes.size, &message) == CRT_OK)
            crti_head_send(node, CRTI_MSG_PEER_DIED, 0, &message.peer_died);
        forget_untold(node);
    }
}

void crti_head_send_error(crti_node_t *node, uint64_t request, crt_status_t status,
                          const char *text)
{
    crti_msg_error_t error = {.status = status, .text = crti_str(text)};

    if (request)
        crti_head_send(node, CRTI_MSG_ERROR, request, &error);
}

static void pass_answer(crti_node_t *node, crti_id_t id, uint64_t request,
                        const crti_message_t *answer)
{
    crti_local_t *local = crti_local_get(node, id.low);

    if (local && answer && request)
        crti_channel_send(local->channel, answer->kind, request, &answer->error);
    if (answer && answer->kind == CRTI_MSG_ACTOR_STATE &&
        answer->actor_state.state == CRTI_ACTOR_DEAD)
        crti_actor_state(node, &answer->actor_state); /* who else watched hears it, too */
}

/* The connection's number in an id's clothes: it is what the answer is found by. */
static crti_id_t asker(const crti_local_t *local)
{
    return (crti_id_t){.high = 0, .low = local->number};
}

void crti_head_local_closed(const crti_local_t *local)
{
    CRTI_LIST_FOREACH_SAFE (item, &local->node->head.order) {
        question_t *q = CRTI_CONTAINER(item, question_t, link);

        if (q->on_answer == pass_answer && crti_id_equal(q->id, asker(local)))
            free_question(local->node, q);
    }
}

void crti_head_forward(crti_local_t *local, const crti_message_t *message)
{
    if (crti_head_ask(local->node, message->kind, &message->error, pass_answer,
                      asker(local), message->request) != CRT_OK)
        crti_channel_send_error(local->channel, message->request, CRT_ERR_NO_MEMORY);
}

/* ---------------------------------------------------------------- heartbeats */

static void beat(crti_node_t *node)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t demand = {0};
    struct crti_store_stats stats;
    crti_msg_heartbeat_t heartbeat = {.sequence = ++node->head.beat_sent,
                                      .available =
                                          *crti_lease_table_available(node->leases),
                                      .workers = crti_worker_table_count(node->workers)};

    crti_store_stats(node->store, &stats);
    heartbeat.store_used = stats.used;
    heartbeat.memory_used = node->memory.used;
    heartbeat.memory_bytes = node->memory.total;
    heartbeat.memory_ended = node->memory.ended;
    for (unsigned i = 0; i < heartbeat.available.count; i++)
        if (heartbeat.available.item[i].amount < 0)
            heartbeat.available.item[i].amount = 0; /* lent CPUs that are wanted back */
    if (crti_lease_demand(node, &demand) == CRT_OK)
        heartbeat.demand = crti_span(demand.data, demand.size);
    crti_fence_sent(node, heartbeat.sequence);
    crti_stream_send(node->head.stream, CRTI_MSG_HEARTBEAT, 0, &heartbeat);
    node->head.changed = false;
    node->head.beat_ns = crti_node_now(node);
}

void crti_head_changed(crti_node_t *node)
{
    uint64_t at = node->head.beat_ns + GATHER_NS;

    if (!node->head.open || node->head.changed)
        return;
    node->head.changed = true;
    crti_loop_start(node->loop, &node->head.beat, at);
}

static void on_beat(void *user)
{
    crti_node_t *node = user;
    uint64_t now = crti_node_now(node);

    if (!node->head.open)
        return;
    if (now - node->head.heard_ns > SILENCE_NS) {
        crti_head_lost(node, "the head was silent for 5 s");
        return;
    }
    beat(node);
    crti_loop_start(node->loop, &node->head.beat, now + BEAT_NS);
}

/* ---------------------------------------------------------------- registration */

static void register_node(crti_node_t *node)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t actors = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t jobs = {0};
    crti_msg_node_register_t message = {
        .protocol = CRTI_PROTOCOL_VERSION,
        .version = crti_str(CRT_VERSION),
        .node = node->id,
        .incarnation = node->incarnation,
        .ip = crti_str(node->ip),
        .hostname = crti_str(node->hostname),
        .endpoint = crti_str(node->endpoint),
        .pid = getpid(),
        .is_head_host = node->options.head_dir[0] != '\0',
        .resources = *crti_lease_table_resources(node->leases),
        .available = *crti_lease_table_available(node->leases),
        .store_bytes = node->store_bytes};

    if (crti_actor_list(node, &actors) != CRT_OK || crti_job_list(node, &jobs) != CRT_OK)
        return;
    message.actors = crti_span(actors.data, actors.size);
    message.jobs = crti_span(jobs.data, jobs.size);
    node->head.registering = crti_stream_send(node->head.stream, CRTI_MSG_NODE_REGISTER,
                                              CRTI_REGISTER_REQUEST, &message) == CRT_OK;
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
    node->cluster = m->cluster;
    if (m->encrypt_streams != node->encrypt &&
        crti_peer_listen_again(node, m->encrypt_streams) != CRT_OK) {
        crti_node_fail_start(node, crt_error_detail());
        return;
    }
    node->head.headless_ns = m->headless_timeout_ms < UINT64_MAX / CRTI_MS
                                 ? m->headless_timeout_ms * CRTI_MS
                                 : UINT64_MAX;
    node->head.open = node->head.ever = true;
    node->head.lost_ns = 0;
    node->head.attempts = 0;
    node->head.changed = false;
    crti_lease_table_head(node->leases, false, crti_node_now(node));
    crti_lease_act(node);
    end_ids(node, m->actors_to_end, true);
    end_ids(node, m->jobs_to_end, false);
    crti_log(CRTI_LOG_INFO, "head", "registered with %s", node->head_address);
    beat(node);
    crti_loop_start(node->loop, &node->head.beat, crti_node_now(node) + BEAT_NS);
    tell_deaths(node);
    CRTI_LIST_FOREACH (item, &node->head.order) {
        put_on_link(node, CRTI_CONTAINER(item, question_t, link));
    }
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

            snprintf(p->end_text, sizeof(p->end_text),
                     "the node was cut off from the head and taken for dead");
            crti_fence_shut(p);
            crti_process_kill(p);
        }
    crti_submission_stop_all(node);
    crti_head_lost(node, "the head took this node for dead");
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
    crti_head_lost(node, text);
}

/* ---------------------------------------------------------------- orders and news */

static void on_log(crti_node_t *node, const crti_msg_log_t *log)
{
    crti_job_t *job = crti_job_find(node, log->job);

    if (job && crti_job_logs(job))
        crti_local_send(crti_process_get(node, crti_job_driver(job)), CRTI_MSG_LOG, 0,
                        log);
}

static bool on_order(crti_node_t *node, const crti_message_t *m)
{
    switch (m->kind) {
    case CRTI_MSG_ACTOR_START:
        crti_actor_start(node, m->request, &m->actor_start);
        return true;
    case CRTI_MSG_ACTOR_STOP:
        crti_actor_stop(node, m->request, &m->actor_stop);
        return true;
    case CRTI_MSG_JOB_START:
        crti_submission_start(node, m->request, &m->job_start);
        return true;
    case CRTI_MSG_JOB_STOP:
        crti_submission_stop(node, m->request, m->job_stop.job);
        return true;
    case CRTI_MSG_LOG_READ:
        crti_logs_read(node, 0, m->request, &m->log_read);
        return true;
    case CRTI_MSG_STATE_QUERY:
        crti_state_asked(node, m->request, &m->state_query);
        return true;
    default: return false;
    }
}

static void on_node_died(crti_node_t *node, const crti_msg_node_died_t *died)
{
    if (crti_id_equal(died->node, node->id))
        rejoin(node);
    else
        crti_node_died(node, died);
}

static bool on_news(crti_node_t *node, const crti_message_t *m)
{
    char text[256];

    switch (m->kind) {
    case CRTI_MSG_HEARTBEAT_ACK:
        crti_fence_acknowledged(node, m->heartbeat_ack.sequence);
        return true;
    case CRTI_MSG_NODE_VIEW: crti_node_view(node, &m->node_view); return true;
    case CRTI_MSG_NODE_DIED: on_node_died(node, &m->node_died); return true;
    case CRTI_MSG_PEER_DIED:
        if (!crti_id_equal(m->peer_died.node, node->id)) /* our own come back */
            crti_process_died(node, &m->peer_died);
        return true;
    case CRTI_MSG_ACTOR_STATE: crti_actor_state(node, &m->actor_state); return true;
    case CRTI_MSG_JOB_END:
        crti_job_end(node, m->job_end.job,
                     crti_text(m->job_end.text, text, sizeof(text)));
        return true;
    case CRTI_MSG_LOG: on_log(node, &m->log); return true;
    case CRTI_MSG_SHUTDOWN:
        crti_node_stop(node, crti_text(m->shutdown.text, text, sizeof(text)));
        return true;
    default: return false;
    }
}

static bool is_request(crti_message_kind_t kind)
{
    return kind == CRTI_MSG_ACTOR_START || kind == CRTI_MSG_ACTOR_STOP ||
           kind == CRTI_MSG_JOB_START || kind == CRTI_MSG_JOB_STOP ||
           kind == CRTI_MSG_LOG_READ || kind == CRTI_MSG_STATE_QUERY;
}

static void on_message(void *user, crti_stream_t *stream, const crti_message_t *m)
{
    crti_node_t *node = user;

    node->head.heard_ns = crti_node_now(node);
    if (!node->head.open) {
        if (m->kind == CRTI_MSG_NODE_REGISTERED)
            on_registered(node, &m->node_registered);
        else if (m->kind == CRTI_MSG_ERROR)
            on_register_error(node, &m->error);
        return;
    }
    if (is_request(m->kind))
        on_order(node, m);
    else if (m->request)
        answered(node, m);
    else if (!on_news(node, m))
        crti_log(CRTI_LOG_WARN, "head", "unexpected %s from the head",
                 crti_message_name(m->kind));
}

/* ---------------------------------------------------------------- the link */

static void on_open(void *user, crti_stream_t *stream)
{
    crti_node_t *node = user;
    crt_status_t status = CRT_OK;

    node->head.heard_ns = crti_node_now(node);
    if (node->ip[0] == '\0')
        status = crti_stream_local_ip(stream, node->ip, sizeof(node->ip));
    if (status == CRT_OK && node->listener == NULL)
        status = crti_peer_listen(node);
    if (status != CRT_OK)
        crti_node_fail_start(node, crt_error_detail());
    else
        register_node(node);
}

static void on_closed(void *user, crti_stream_t *stream, crt_status_t status,
                      const char *text)
{
    crti_node_t *node = user;
    char reason[512];

    /* After the handshake the two agree: then a head that dies, or a line, is not a refusal. */
    if (!node->head.ever && !node->head.registering && status != CRT_ERR_UNREACHABLE &&
        status != CRT_ERR_TIMED_OUT) {
        snprintf(reason, sizeof(reason), "the head at %s does not take this node: %s",
                 node->head_address, text);
        crti_node_fail_start(node, reason);
        return;
    }
    crti_head_lost(node, text);
}

void crti_head_lost(crti_node_t *node, const char *why)
{
    crti_head_t *head = &node->head;
    uint64_t now = crti_node_now(node);
    bool was_open = head->open;
    crti_msg_head_link_t link = {.up = false, .text = crti_str(why)};

    crti_stream_free(head->stream);
    head->stream = NULL;
    head->open = head->registering = false;
    crti_submission_head_lost(node);
    crti_loop_cancel(node->loop, &head->beat);
    if (node->stopping)
        return;
    if (head->lost_ns == 0)
        head->lost_ns = now;
    if (was_open) {
        crti_log(CRTI_LOG_WARN, "head", "no link to the head at %s: %s",
                 node->head_address, why);
        crti_local_broadcast(node, CRTI_MSG_HEAD_LINK, &link);
        crti_lease_table_head(node->leases, true, now);
        crti_lease_act(node);
    } else if (!node->ready) {
        snprintf(head->why, sizeof(head->why), "%s", why);
    }
    if (head->ever && now - head->lost_ns > head->headless_ns) {
        crti_node_stop(node, "no head for longer than the headless timeout");
        return;
    }
    /* The first attempt at once, also when the head was merely restarted. */
    crti_loop_start(node->loop, &head->retry, head->attempts ? now + RETRY_NS : now);
}

static void on_retry(void *user)
{
    crti_head_connect(user);
}

void crti_head_connect(crti_node_t *node)
{
    crti_stream_handlers_t handlers = {.user = node,
                                       .on_open = on_open,
                                       .on_message = on_message,
                                       .on_closed = on_closed};
    crt_status_t status;

    if (node->head.stream || node->stopping)
        return;
    if (node->head.lost_ns == 0)
        node->head.lost_ns = crti_node_now(node);
    node->head.attempts++;
    status = crti_stream_connect(node->loop, node->context, node->head_address,
                                 CONNECT_MS, &handlers, &node->head.stream);
    if (status != CRT_OK)
        crti_head_lost(node, crt_error_detail());
}

void crti_head_init(crti_node_t *node)
{
    crti_map_init(&node->head.pending, sizeof(uint64_t));
    crti_list_init(&node->head.order);
    crti_list_init(&node->head.untold);
    crti_fence_init(node);
    node->head.requests = CRTI_REGISTER_REQUEST;
    node->head.headless_ns = HEADLESS;
    node->head.retry = (crti_timer_t){.on_expired = on_retry, .user = node};
    node->head.beat = (crti_timer_t){.on_expired = on_beat, .user = node};
}

void crti_head_leave(crti_node_t *node, const char *why)
{
    crti_msg_node_leave_t leave = {.text = crti_str(why)};

    crti_loop_cancel(node->loop, &node->head.retry);
    crti_loop_cancel(node->loop, &node->head.beat);
    if (node->head.open)
        crti_stream_send(node->head.stream, CRTI_MSG_NODE_LEAVE, 0, &leave);
}

void crti_head_free(crti_node_t *node)
{
    crti_stream_free(node->head.stream);
    node->head.stream = NULL;
    while (!crti_list_is_empty(&node->head.order))
        free_question(node, CRTI_CONTAINER(node->head.order.next, question_t, link));
    crti_map_fini(&node->head.pending);
    while (!crti_list_is_empty(&node->head.untold))
        forget_untold(node);
}
