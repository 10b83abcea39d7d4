/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of the head: its start, durable changes per second, and the time until one is
 * acknowledged.
 *
 *     bench_control_head CRT_HEAD
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/control/head_bed.h"

#define WRITES 40000

typedef struct run {
    fake_node_t *node;
    unsigned window;
    uint64_t sent, begun[WRITES];
    uint64_t took[WRITES];
} run_t;

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void send_one(run_t *run)
{
    char key[32];
    crti_msg_kv_put_t m = {.value = crti_str("0123456789abcdef0123456789abcdef"),
                           .overwrite = true};

    snprintf(key, sizeof(key), "key-%llu", (unsigned long long)run->sent % 5000);
    m.key = crti_str(key);
    run->begun[run->sent++] = crti_now_ns();
    node_send(run->node, CRTI_MSG_KV_PUT, &m);
}

static void writes(head_bed_t *bed, fake_node_t *node, unsigned window, uint64_t count)
{
    run_t *run = calloc(1, sizeof(*run));
    uint64_t begin = crti_now_ns(), seen = 0;

    run->node = node;
    node->answered = 0;
    while (run->sent < window)
        send_one(run);
    while (seen < count) {
        crti_loop_turn(bed->loop, crti_now_ns() + CRTI_S);
        for (; seen < node->answered; seen++) {
            run->took[seen] = crti_now_ns() - run->begun[seen];
            if (run->sent < count)
                send_one(run);
        }
    }
    begin = crti_now_ns() - begin;
    qsort(run->took, seen, sizeof(run->took[0]), compare);
    printf("%4u in flight: %8.0f acknowledged writes/s, p50 %.3f ms, p99 %.3f ms\n",
           window, (double)seen / ((double)begin / 1e9),
           (double)run->took[seen / 2] / 1e6, (double)run->took[seen * 99 / 100] / 1e6);
    free(run);
}

static void actors(head_bed_t *bed, fake_node_t *node, uint64_t count)
{
    uint64_t begin = crti_now_ns();

    node->answered = 0;
    for (uint64_t i = 0; i < count; i++) {
        crti_msg_actor_create_t m = node_actor(node, 100000 + i, 5, "");

        node_send(node, CRTI_MSG_ACTOR_CREATE, &m);
    }
    while (node->answered < count)
        crti_loop_turn(bed->loop, crti_now_ns() + CRTI_S);
    printf("actors: %8.0f durable creations/s, all at once\n",
           (double)count / ((double)(crti_now_ns() - begin) / 1e9));
}

int main(int argc, char **argv)
{
    head_bed_t *bed = head_bed_new();
    fake_node_t *node;
    uint64_t begin = crti_now_ns();

    head_program = argc > 1 ? argv[1] : "crt-head";
    signal(SIGPIPE, SIG_IGN);
    if (!head_start(bed, "0", NULL)) {
        printf("%s\n", bed->line);
        return 1;
    }
    printf("start until ready: %.1f ms\n", (double)(crti_now_ns() - begin) / 1e6);
    node = node_new(bed, 1);
    node_join(node);
    node_add_job(node, 5);
    node->count_only = true;
    writes(bed, node, 1, 3000);
    writes(bed, node, 16, WRITES);
    writes(bed, node, 128, WRITES);
    actors(bed, node, 5000);
    begin = crti_now_ns();
    head_kill(bed);
    if (!head_start(bed, head_port(bed), NULL))
        return 1;
    printf("kill -9 until it serves again, 5000 actors: %.1f ms\n",
           (double)(crti_now_ns() - begin) / 1e6);
    node_free(node);
    head_bed_free(bed);
    return 0;
}
