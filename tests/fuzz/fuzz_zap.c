/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the ZAP handler (net/zmq_link.c) asked anything, and the routing ids and parts of
 * messages that arrive at a ROUTER of ours.
 *
 * First byte even: a request of the library for whether a key may enter; odd: a message of a peer.
 * Then parts, each a byte of what it is (see `known`; 0 with a size and bytes of its own). Whoever
 * does not show the cluster's key does not enter, whatever else it says. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/net/message.h"

/* Its sockets are to be talked to by others of the same context. */
#include "runtime/net/zmq_link.c"

#define PARTS 12

static crti_zmq_t *zmq;
static crti_socket_t *zap, *router;
static void *asker, *sender;

static const crti_key_t key = {{1}};

static void *connect_raw(int type, const char *endpoint)
{
    void *socket = api->socket_new(zmq->context, type);
    int none = 0;

    if (socket == NULL || api->set(socket, ZMQ_LINGER, &none, sizeof(none)) != 0 ||
        (type == ZMQ_DEALER && endpoint != NULL &&
         api->set(socket, ZMQ_ROUTING_ID, "c12345678", CRTI_ZMQ_ROUTE) != 0) ||
        api->connect_to(socket, endpoint) != 0)
        abort();
    return socket;
}

static void make(void)
{
    if (crti_zmq_new(&key, 1 << 20, 16, &zmq) != CRT_OK ||
        crti_zmq_serve_zap(zmq, &zap) != CRT_OK ||
        open_socket(zmq, ZMQ_ROUTER, &router) != CRT_OK || !set_router(router) ||
        api->bind_to(router->zmq, "inproc://router") != 0)
        abort();
    asker = connect_raw(ZMQ_DEALER, ZAP_ENDPOINT);
    sender = connect_raw(ZMQ_DEALER, "inproc://router");
}

typedef struct parts {
    crti_span_t part[PARTS];
    unsigned count;
} parts_t;

static const char *const known[] = {"1.0", "7", ZAP_DOMAIN, "10.0.0.1", "", "CURVE"};
#define KNOWN (sizeof(known) / sizeof(known[0]))

static void split(parts_t *p, const uint8_t *data, size_t size)
{
    while (size > 0 && p->count < PARTS) {
        unsigned what = *data++ % (KNOWN + 2);
        size_t length = 0;

        size--;
        if (what == 0 && size > 0) {
            length = *data++;
            length = length < size - 1 ? length : size - 1;
            p->part[p->count++] = crti_span(data, length);
            data += length;
            size -= length + 1;
        } else if (what == KNOWN + 1) {
            p->part[p->count++] = crti_span(zmq->client.public_key, 32);
        } else if (what > 0) {
            p->part[p->count++] = crti_str(known[what - 1]);
        }
    }
}

static void say(void *socket, const parts_t *p)
{
    for (unsigned i = 0; i < p->count; i++)
        if (api->send_bytes(socket, p->part[i].data, p->part[i].size,
                            (i + 1 < p->count ? ZMQ_SNDMORE : 0) | ZMQ_DONTWAIT) < 0)
            abort();
}

static bool part_equals(crti_span_t part, crti_span_t is)
{
    return part.size == is.size && memcmp(part.data, is.data, is.size) == 0;
}

/* Exactly this enters. */
static bool should_enter(const parts_t *p)
{
    return p->count == ZAP_PARTS && part_equals(p->part[0], crti_str("1.0")) &&
           part_equals(p->part[2], crti_str(ZAP_DOMAIN)) &&
           part_equals(p->part[5], crti_str("CURVE")) &&
           part_equals(p->part[6], crti_span(zmq->client.public_key, 32));
}

/* All parts of one answer: their number, and the third of them. */
static unsigned hear(char code[4])
{
    unsigned count = 0;
    int more = 1;

    while (more) {
        zmq_msg_t m;

        api->msg_init(&m);
        if (api->msg_recv(&m, asker, ZMQ_DONTWAIT) < 0)
            return 0;
        if (count == 3 && api->msg_size(&m) == 3)
            memcpy(code, api->msg_data(&m), 3);
        more = api->msg_more(&m);
        api->msg_close(&m);
        count++;
    }
    return count;
}

static void ask(parts_t *p)
{
    bool should = should_enter(p), accepted = !should;
    char code[4] = "";
    parts_t letter = {.count = 1}; /* what a REQ would put in front */

    letter.part[0] = crti_span("", 0);
    for (unsigned i = 0; i < p->count && letter.count < PARTS; i++)
        letter.part[letter.count++] = p->part[i];
    if (p->count == 0 || p->count == PARTS)
        return;
    say(asker, &letter);
    if (!crti_zmq_answer_zap(zap, &accepted) || accepted != should)
        abort();
    if (hear(code) != 7 || strcmp(code, should ? "200" : "400") != 0)
        abort(); /* the library would wait for it until its time is over */
    if (crti_zmq_answer_zap(zap, &accepted))
        abort();
}

static void arrive(const parts_t *p)
{
    crti_zmq_input_t input;
    volatile unsigned char sum = 0;

    if (p->count == 0)
        return;
    say(sender, p);
    if (!crti_zmq_receive(router, &input) || !input.routed ||
        memcmp(input.route, "c12345678", CRTI_ZMQ_ROUTE) != 0 ||
        input.is_single != (p->count == 1))
        abort();
    for (size_t i = 0; i < input.size; i++)
        sum ^= ((const unsigned char *)input.data)[i];
    (void)sum;
    if (input.is_single && input.size != p->part[0].size)
        abort();
    crti_zmq_release(&input);
    if (crti_zmq_receive(router, &input))
        abort(); /* of two, one was left behind */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parts_t parts = {.count = 0};

    if (!zmq)
        make();
    if (size < 2)
        return 0;
    split(&parts, data + 1, size - 1);
    if (data[0] & 1)
        arrive(&parts);
    else
        ask(&parts);
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    static const uint8_t request[] = {0, 1, 2, 3, 4, 5, 6, KNOWN + 1};
    static const uint8_t message[] = {1, 0, 5, 'h', 'e', 'l', 'l', 'o'};
    static const uint8_t parts[] = {1, 0, 1, 'a', 0, 2, 'b', 'c', 4};
    static const uint8_t other[] = {0, 1, 2, 3, 4, 5, 6, 0, 4, 'k', 'e', 'y', '!'};
    const uint8_t *const seeds[] = {request, message, parts, other};
    const size_t sizes[] = {sizeof(request), sizeof(message), sizeof(parts),
                            sizeof(other)};

    if (index >= 4 || room < sizeof(other))
        return 0;
    memcpy(out, seeds[index], sizes[index]);
    return sizes[index];
}
