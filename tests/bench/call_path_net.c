/* SPDX-License-Identifier: Apache-2.0 */
/* Calls through net. See call_path_net.h. */
#include "call_path_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bare_echo.h"

#define CHECK(x)                                                                         \
    do {                                                                                 \
        if (!(x)) {                                                                      \
            fprintf(stderr, "%s:%d: %s failed: %s\n", __FILE__, __LINE__, #x,            \
                    crt_error_detail());                                                 \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

static const unsigned char key[32] = "no secret: only for the bench";

typedef struct queued {
    crti_peer_t *peer;
    unsigned char data[ECHO_RECORD];
} queued_t;

static crti_net_t *net;
static crti_peer_t *peer;
static queued_t queue[4 * ECHO_BATCH];
static unsigned head, tail; /* of the queue */
static uint64_t answers, wanted;

static void on_call(void *user, crti_peer_t *from, const void *data, size_t size)
{
    queued_t *q = &queue[tail++ % (4 * ECHO_BATCH)];

    q->peer = from;
    memcpy(q->data, data, ECHO_RECORD);
}

static void on_answer(void *user, crti_peer_t *from, const void *data, size_t size)
{
    answers++;
}

static void on_lost(void *user, crti_peer_t *from, const crti_net_loss_t *loss)
{
    if (loss->status != CRT_ERR_CLOSED)
        fprintf(stderr, "call_path: %s\n", loss->detail);
}

static bool has_call(void *user)
{
    return head != tail;
}

static bool has_answers(void *user)
{
    return answers >= wanted;
}

static void make_net(const char *dir, bool tcp, crti_id_t node, bool late,
                     void (*on_record)(void *, crti_peer_t *, const void *, size_t))
{
    crti_net_config_t config = {.run_dir = dir,
                                .node = node,
                                .process = crti_id_random(),
                                .incarnation = 1,
                                .ip = tcp ? "127.0.0.1" : NULL,
                                .cluster_key = key,
                                .late_thread = late,
                                .handlers = {NULL, on_record, on_lost}};

    CHECK(crti_net_new(&config, &net) == CRT_OK);
    crti_net_lock(net);
}

void net_serve(const char *dir, bool tcp, int ready)
{
    make_net(dir, tcp, (crti_id_t){1, tcp ? 2 : 1}, true, on_call);
    CHECK(write(ready, crti_net_address(net), sizeof(crti_address_t)) > 0);
    while (crti_net_wait(net, has_call, NULL, CRTI_NET_NO_DEADLINE) == CRT_OK) {
        queued_t *q = &queue[head++ % (4 * ECHO_BATCH)];
        struct iovec part = {q->data, ECHO_RECORD};

        crti_net_busy(net, true);
        crti_net_unlock(net); /* here the user's function runs */
        crti_net_lock(net);
        crti_net_busy(net, false);
        CHECK(crti_net_send(net, q->peer, &part, 1, 0, CRTI_NET_NO_DEADLINE, NULL) ==
              CRT_OK);
    }
}

void net_dial(const char *dir, const crti_address_t *server)
{
    make_net(dir, server->tcp[0] != 0, (crti_id_t){1, 1}, false, on_answer);
    CHECK(crti_net_connect(net, server, &peer) == CRT_OK);
}

void net_hang_up(void)
{
    crti_peer_unref(peer);
    crti_net_unlock(net);
    crti_net_free(net);
}

static void send_one(void)
{
    char data[ECHO_RECORD] = {0};
    struct iovec part = {data, sizeof(data)};

    CHECK(crti_net_send(net, peer, &part, 1, 0, CRTI_NET_NO_DEADLINE, NULL) == CRT_OK);
    wanted++;
}

void net_calls(int count)
{
    for (int i = 0; i < count; i++) {
        send_one();
        CHECK(crti_net_wait(net, has_answers, NULL, CRTI_NET_NO_DEADLINE) == CRT_OK);
        crti_net_unlock(net);
        crti_net_lock(net);
    }
}

void net_batches(int count)
{
    for (int done = 0; done < count; done += ECHO_BATCH) {
        for (int i = 0; i < ECHO_BATCH; i++)
            send_one();
        CHECK(crti_net_wait(net, has_answers, NULL, CRTI_NET_NO_DEADLINE) == CRT_OK);
    }
}

void net_pause_ms(int ms)
{
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};

    crti_net_unlock(net);
    nanosleep(&t, NULL);
    crti_net_lock(net);
}
