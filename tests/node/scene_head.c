/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a scene: a listener of the test that registers nodes, answers heartbeats, and does so
 * late or not at all when a test wants it. */
#include "scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static scene_node_t *node_of(scene_t *s, crti_id_t id)
{
    for (int i = 0; i < SCENE_NODES; i++)
        if (crti_id_equal(s->nodes[i].id, id))
            return &s->nodes[i];
    return NULL;
}

void scene_welcome(scene_t *s, int n)
{
    crti_msg_node_registered_t registered = {.cluster = {1, 2},
                                             .head_incarnation = 5,
                                             .encrypt_streams = !s->plain,
                                             .headless_timeout_ms = s->headless_ms};
    crti_msg_node_views_t all = {.begins = true, .ends = true};

    scene_head_send(s, n, CRTI_MSG_NODE_REGISTERED, s->nodes[n].register_request,
                    &registered);
    if (!s->hides)
        scene_head_send(s, n, CRTI_MSG_NODE_VIEWS, 0, &all);
}

static void answer_register(scene_t *s, crti_stream_t *stream, const crti_message_t *m)
{
    crti_msg_error_t lost = {.status = CRT_ERR_NODE_LOST, .text = crti_str("was dead")};
    crti_msg_error_t clash = {.status = CRT_ERR_EXISTS, .text = crti_str("clash")};
    scene_node_t *node = node_of(s, m->node_register.node);

    if (s->clashes && s->clashes--) {
        if (node)
            node->id = (crti_id_t){0}; /* it comes with another */
        crti_stream_send(stream, CRTI_MSG_ERROR, m->request, &clash);
        return;
    }
    for (int i = 0; node == NULL && i < SCENE_NODES; i++)
        if (s->nodes[i].pid && crti_id_is_zero(s->nodes[i].id))
            node = &s->nodes[i];
    assert_non_null(node);
    for (int i = 0; i < 8; i++)
        if (s->unknown[i] == stream)
            s->unknown[i] = NULL;
    crti_stream_free(node->stream);
    node->stream = stream;
    node->id = m->node_register.node;
    node->incarnation = m->node_register.incarnation;
    node->registrations++;
    crti_text(m->node_register.endpoint, node->endpoint, sizeof(node->endpoint));
    if (s->refuse) {
        s->refuse = false;
        crti_stream_send(stream, CRTI_MSG_ERROR, m->request, &lost);
        return;
    }
    if (s->dies_early) {
        s->dies_early = false;
        crti_stream_close(stream);
        return;
    }
    node->register_request = m->request;
    if (!s->hesitates)
        scene_welcome(s, (int)(node - s->nodes));
}

static void answer_exited(scene_t *s, crti_stream_t *stream, uint64_t request)
{
    crti_msg_error_t error = {.status = CRT_ERR_IO, .text = crti_str("disk full")};

    if (s->exits_refused-- > 0)
        crti_stream_send(stream, CRTI_MSG_ERROR, request, &error);
    else
        crti_stream_send(stream, CRTI_MSG_DONE, request, NULL);
}

static void on_head_message(void *user, crti_stream_t *stream, const crti_message_t *m)
{
    scene_t *s = user;
    crti_msg_heartbeat_ack_t ack = {.sequence = 0};
    int node = -1;

    if (s->silent)
        return;
    for (int i = 0; i < SCENE_NODES; i++)
        if (s->nodes[i].stream == stream)
            node = i;
    if (m->kind == CRTI_MSG_HEARTBEAT) {
        ack.sequence = m->heartbeat.sequence;
        crti_stream_send(stream, CRTI_MSG_HEARTBEAT_ACK, 0, &ack);
        return;
    }
    scene_keep(s, node, m);
    if (m->kind == CRTI_MSG_NODE_REGISTER)
        answer_register(s, stream, m);
    else if (m->kind == CRTI_MSG_JOB_EXITED)
        answer_exited(s, stream, m->request);
    else if (m->kind == CRTI_MSG_JOB_ADD)
        crti_stream_send(stream, CRTI_MSG_DONE, m->request, NULL);
}

static void on_head_closed(void *user, crti_stream_t *stream, crt_status_t status,
                           const char *text)
{
    scene_t *s = user;

    for (int i = 0; i < SCENE_NODES; i++)
        if (s->nodes[i].stream == stream)
            s->nodes[i].stream = NULL;
    for (int i = 0; i < 8; i++)
        if (s->unknown[i] == stream)
            s->unknown[i] = NULL;
    crti_stream_free(stream);
}

static void on_accept(void *user, crti_stream_t *stream)
{
    scene_t *s = user;
    crti_stream_handlers_t handlers = {
        .user = s, .on_message = on_head_message, .on_closed = on_head_closed};

    for (int i = 0; i < 8; i++)
        if (s->unknown[i] == NULL) {
            s->unknown[i] = stream;
            crti_stream_set_handlers(stream, &handlers);
            return;
        }
    fail_msg("too many links to the head");
}

void scene_head_up(scene_t *s)
{
    const char *colon = strrchr(s->address, ':');
    uint16_t port = colon ? (uint16_t)atoi(colon + 1) : 0;

    assert_int_equal(crti_stream_listen(s->loop, s->context, "127.0.0.1", port, on_accept,
                                        s, &s->listener),
                     CRT_OK);
    snprintf(s->address, sizeof(s->address), "127.0.0.1:%u",
             (unsigned)crti_stream_listener_port(s->listener));
}

void scene_head_down(scene_t *s)
{
    crti_stream_listener_free(s->listener);
    s->listener = NULL;
    for (int i = 0; i < 8; i++) {
        crti_stream_free(s->unknown[i]);
        s->unknown[i] = NULL;
    }
    for (int i = 0; i < SCENE_NODES; i++) {
        crti_stream_free(s->nodes[i].stream);
        s->nodes[i].stream = NULL;
    }
}

void scene_head_send(scene_t *s, int n, crti_message_kind_t kind, uint64_t request,
                     const void *body)
{
    assert_non_null(s->nodes[n].stream);
    assert_int_equal(crti_stream_send(s->nodes[n].stream, kind, request, body), CRT_OK);
}

void scene_send_view(scene_t *s, int to, const crti_msg_node_view_t *view)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t row = {0}, rows = {0};
    crti_msg_node_views_t m = {.ends = true};

    assert_int_equal(crti_message_encode(CRTI_MSG_NODE_VIEW, 0, view, &row), CRT_OK);
    assert_int_equal(crti_list_pack(&rows, row.data, row.size), CRT_OK);
    m.rows = crti_span(rows.data, rows.size);
    scene_head_send(s, to, CRTI_MSG_NODE_VIEWS, 0, &m);
}

void scene_send_views(scene_t *s, double cpus_free)
{
    for (int to = 0; to < SCENE_NODES; to++)
        for (int of = 0; of < SCENE_NODES; of++) {
            crti_msg_node_view_t view = {.node = s->nodes[of].id,
                                         .endpoint = crti_str(s->nodes[of].endpoint)};

            if (s->nodes[to].stream == NULL || s->nodes[of].stream == NULL)
                continue;
            crti_resources_set(&view.resources, "CPU", 4 * CRTI_RESOURCE_ONE);
            crti_resources_set(&view.available, "CPU",
                               (int64_t)(cpus_free * CRTI_RESOURCE_ONE));
            scene_send_view(s, to, &view);
        }
    /* A question on the same link: when it is answered the views have arrived. */
    for (int to = 0; to < SCENE_NODES; to++) {
        crti_msg_log_read_t read = {.name = crti_str("none")};

        if (s->nodes[to].stream == NULL)
            continue;
        scene_head_send(s, to, CRTI_MSG_LOG_READ, 1, &read);
        scene_wait(s, CRTI_MSG_ERROR);
    }
}
