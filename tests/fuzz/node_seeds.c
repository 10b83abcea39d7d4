/* SPDX-License-Identifier: Apache-2.0 */
/* Valid inputs of fuzz_node.c: a daemon with a head, a driver, and a worker that it leases; then
 * one message of each kind from each side. */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/buffer.h"
#include "runtime/net/message.h"

#include "fuzz.h"
#include "node_steps.h"

/* One id for everything, so that each message is about what is there. */
static void set_ID(crti_id_t *id)
{
    *id = (crti_id_t){0, 5};
}
static void set_U64(uint64_t *number)
{
    *number = 1;
}
static void set_I64(int64_t *number)
{
    *number = 1;
}
static void set_F64(double *number)
{
    *number = 1;
}
static void set_BOOL(bool *flag)
{
    *flag = true;
}
static void set_OBJECT(crti_object_id_t *object)
{
    *object = (crti_object_id_t){{0, 5}, 5};
}
static void set_STR(crti_span_t *text)
{
    *text = crti_str("10.0.0.2:5");
}
static void set_BIN(crti_span_t *bytes)
{
    static const unsigned char ids[48] = {[15] = 5, [31] = 10, [47] = 5};

    *bytes = crti_span(ids, sizeof(ids));
}

#include "message_kinds.h"

static void put_body(text_t *t, uint8_t what, uint8_t whose, crti_message_kind_t kind,
                     uint64_t request, const void *body)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};

    if (crti_message_encode(kind, request, body, &bytes) != CRT_OK)
        abort();
    fuzz_step_put(t, what, whose, bytes.data, bytes.size);
}

static void put_kind(text_t *t, uint8_t what, uint8_t whose, unsigned index)
{
    crti_message_t m = {.kind = kinds[index].kind};

    kinds[index].fill(&m.error);
    if (m.kind == CRTI_MSG_ERROR)
        m.error.status = CRT_ERR_BACKPRESSURE;
    if (m.kind == CRTI_MSG_NODE_HELLO)
        m.node_hello.node = (crti_id_t){0, 10};
    put_body(t, what, whose, m.kind, what == NEWS ? 0 : 3, &m.error);
}

static void put_view(text_t *t)
{
    crti_msg_node_view_t view = {.node = {0, 10}, .endpoint = crti_str("10.0.0.2:5")};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t row = {0}, rows = {0};
    crti_msg_node_views_t news = {.begins = true, .ends = true, .is_complete = true};

    crti_resources_set(&view.resources, "CPU", 8 * CRTI_RESOURCE_ONE);
    crti_resources_set(&view.available, "CPU", 8 * CRTI_RESOURCE_ONE);
    crti_message_encode(CRTI_MSG_NODE_VIEW, 0, &view, &row);
    crti_list_pack(&rows, row.data, row.size);
    news.rows = crti_span(rows.data, rows.size);
    put_body(t, NEWS, 0, CRTI_MSG_NODE_VIEWS, 0, &news);
}

static void put_driver(text_t *t)
{
    crti_msg_node_registered_t registered = {.cluster = {1, 1},
                                             .headless_timeout_ms = 60000};
    crti_msg_attach_t attach = {.protocol = CRTI_PROTOCOL_VERSION,
                                .role = CRTI_ROLE_DRIVER,
                                .process = {0, 5},
                                .incarnation = 1,
                                .pid = OUR_PID,
                                .job = {0, 5},
                                .program = crti_str("/nonexistent/p"),
                                .sha = crti_str("00")};
    crti_msg_ready_t ready = {.ipc = crti_str("@x"), .tcp = crti_str("10.0.0.1:7")};

    put_body(t, NEWS, 0, CRTI_MSG_NODE_REGISTERED, 1, &registered);
    put_body(t, LOCAL, 0, CRTI_MSG_ATTACH, 1, &attach);
    put_body(t, ANSWER, 0, CRTI_MSG_DONE, 0, NULL);
    put_body(t, LOCAL, 0, CRTI_MSG_READY, 0, &ready);
}

static void put_lease(text_t *t, uint8_t what, uint8_t whose, int64_t cpus)
{
    crti_msg_lease_request_t ask = {.lease = {0, 5},
                                    .job = {0, 5},
                                    .owner = {0, 5},
                                    .owner_node = {0, what == LOCAL ? 9 : 10},
                                    .function = crti_str("f")};

    crti_resources_set(&ask.resources, "CPU", cpus * CRTI_RESOURCE_ONE);
    put_body(t, what, whose, CRTI_MSG_LEASE_REQUEST, 2, &ask);
}

static void put_worker(text_t *t)
{
    crti_msg_zygote_ready_t zygote = {.problem = crti_str("")};
    crti_msg_forked_t forked = {.process = {OURS, 0}, .pid = OUR_PID};
    crti_msg_attach_t attach = {.protocol = CRTI_PROTOCOL_VERSION,
                                .role = CRTI_ROLE_WORKER,
                                .process = {OURS, 0},
                                .incarnation = 2,
                                .pid = OUR_PID};
    crti_msg_ready_t ready = {.ipc = crti_str("@y"), .tcp = crti_str("10.0.0.1:8")};

    put_body(t, ZYGOTE, 0, CRTI_MSG_ZYGOTE_READY, 0, &zygote);
    put_body(t, ZYGOTE, 0, CRTI_MSG_FORKED, 1, &forked);
    put_body(t, LOCAL, 1, CRTI_MSG_ATTACH, 1, &attach);
    put_body(t, LOCAL, 1, CRTI_MSG_READY, 0, &ready);
}

static void put_guest(text_t *t)
{
    crti_msg_node_hello_t hello = {
        .protocol = CRTI_PROTOCOL_VERSION, .node = {0, 10}, .incarnation = 1};

    put_body(t, GUEST, 0, CRTI_MSG_NODE_HELLO, 0, &hello);
}

/* An actor instead of a lease. */
static void put_actor(text_t *t)
{
    crti_msg_actor_start_t start = {.actor = {0, 5},
                                    .actor_incarnation = 1,
                                    .job = {0, 5},
                                    .class_name = crti_str("A"),
                                    .name = crti_str(""),
                                    .creation = crti_str("x")};

    put_body(t, NEWS, 0, CRTI_MSG_ACTOR_START, 7, &start);
}

/* An object that is asked of another daemon, and what that says. */
static void put_pull(text_t *t)
{
    unsigned char node[16] = {[15] = 10};
    crti_msg_pull_t pull = {
        .object = {{0, 5}, 5}, .size = 100000, .nodes = crti_span(node, sizeof(node))};
    crti_msg_copy_make_t make = {
        .object = {{0, 5}, 6}, .size = 9, .nodes = pull.nodes, .avoid = pull.nodes};
    crti_msg_object_keep_t keep = {.object = {{0, 5}, 7}, .size = 9, .nodes = pull.nodes};
    crti_msg_node_hello_t hello = {
        .protocol = CRTI_PROTOCOL_VERSION, .node = {0, 10}, .incarnation = 1};
    crti_msg_object_data_t data = {
        .object = {{0, 5}, 5}, .offset = 0, .length = 100000, .size = 100000};

    put_body(t, LOCAL, 0, CRTI_MSG_PULL, 4, &pull);
    put_body(t, LOCAL, 0, CRTI_MSG_COPY_MAKE, 5, &make);
    put_body(t, GUEST, 0, CRTI_MSG_OBJECT_KEEP, 6, &keep);
    put_body(t, PEER, 0, CRTI_MSG_NODE_HELLO, 0, &hello);
    put_body(t, PEER, 128, CRTI_MSG_OBJECT_DATA, 0, &data);
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    static const uint8_t from[] = {LOCAL, NEWS, ANSWER, GUEST, PEER, ZYGOTE};
    text_t t = {.out = out, .room = room};
    uint8_t what = from[index % sizeof(from)];

    if (index >= 120)
        return 0;
    put_driver(&t);
    put_view(&t);
    if (index % 5 == 4)
        put_actor(&t);
    else
        put_lease(&t, index % 5 == 3 ? GUEST : LOCAL, 0, index % 5 == 2 ? 6 : 1);
    put_worker(&t);
    put_guest(&t);
    if (index % 4 == 1)
        put_pull(&t);
    put_kind(&t, what, what == LOCAL ? index & 1 : what == PEER ? 128 : 0, index % KINDS);
    put_kind(&t, what, what == LOCAL ? !(index & 1) : 0, (index * 7 + 3) % KINDS);
    fuzz_step_put(&t, TICK, (uint8_t)index, NULL, 0);
    fuzz_step_put(&t, index % 3 ? DIE : CLOSE, (uint8_t)(index % 3), NULL, 0);
    return t.size;
}
