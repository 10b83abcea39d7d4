/* SPDX-License-Identifier: Apache-2.0 */
/* Streams beside bare TCP over loopback, one way, payloads of 1 MiB: two threads, a loop each.
 * Printed: Gbit/s and CPU seconds per GB. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/net/stream.h"
#include "tests/net/loop_until.h"

#define PART  ((size_t)1 << 20)
#define PARTS 4096 /* 4 GiB */

static const crti_key_t key = {{1}};

static double cpu_seconds(void)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

static void report(const char *name, uint64_t begin_ns, double begin_cpu)
{
    double seconds = (double)(crti_now_ns() - begin_ns) / 1e9;
    double bytes = (double)PART * PARTS;

    printf("%-18s %6.1f Gbit/s, %.2f CPU s per GB\n", name, bytes * 8 / seconds / 1e9,
           (cpu_seconds() - begin_cpu) / bytes * 1e9);
}

/* ---------------------------------------------------------------- bare TCP */

static void *send_all(void *user)
{
    const char *data = calloc(1, PART);
    int fd = *(int *)user;

    for (size_t left = PART * PARTS; left;) {
        ssize_t n = send(fd, data, left < PART ? left : PART, MSG_NOSIGNAL);

        if (n <= 0)
            abort();
        left -= (size_t)n;
    }
    close(fd);
    free((char *)(uintptr_t)data);
    return NULL;
}

static void bare(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t size = sizeof(here);
    int listener = socket(AF_INET, SOCK_STREAM, 0), from, to;
    uint64_t begin = crti_now_ns();
    double cpu = cpu_seconds();
    char *buffer = malloc(PART);
    pthread_t thread;

    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&here, size) != 0 || listen(listener, 1) != 0)
        abort();
    getsockname(listener, (struct sockaddr *)&here, &size);
    from = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(from, (struct sockaddr *)&here, size) != 0)
        abort();
    to = accept(listener, NULL, NULL);
    pthread_create(&thread, NULL, send_all, &from);
    while (recv(to, buffer, PART, 0) > 0)
        continue;
    pthread_join(thread, NULL);
    report("bare TCP", begin, cpu);
    close(to);
    close(listener);
    free(buffer);
}

/* ---------------------------------------------------------------- streams */

typedef struct sender {
    crti_loop_t *loop;
    crti_stream_t *stream;
    crti_stream_context_t *context;
    char address[CRTI_STREAM_ADDRESS];
    char *data;
    int queued, done;
} sender_t;

static void fill(sender_t *s);

static void on_sent(void *user, crt_status_t status)
{
    sender_t *s = user;

    s->done++;
    fill(s);
}

static void fill(sender_t *s)
{
    crti_msg_object_data_t body = {.length = PART, .size = PART};

    while (s->queued < PARTS && s->queued - s->done < 4) {
        s->queued++;
        if (crti_stream_send_payload(s->stream, CRTI_MSG_OBJECT_DATA, 1, &body, s->data,
                                     on_sent, s) != CRT_OK)
            abort();
    }
}

static bool is_sent(void *user)
{
    const sender_t *s = user;

    return s->done == PARTS && crti_stream_queued(s->stream) == 0;
}

static void *send_stream(void *user)
{
    sender_t *s = user;
    crti_stream_handlers_t handlers = {.user = s};

    s->data = calloc(1, PART);
    if (crti_loop_new(&s->loop) != CRT_OK ||
        crti_stream_connect(s->loop, s->context, s->address, 5000, &handlers,
                            &s->stream) != CRT_OK)
        abort();
    fill(s);
    loop_until(s->loop, is_sent, s, UINT64_MAX);
    crti_stream_free(s->stream);
    crti_loop_free(s->loop);
    free(s->data);
    return NULL;
}

typedef struct receiver {
    crti_stream_t *stream;
    char *buffer;
    int received;
} receiver_t;

static void on_message(void *user, crti_stream_t *stream, const crti_message_t *message)
{
    crti_stream_receive(stream, ((receiver_t *)user)->buffer);
}

static void on_payload(void *user, crti_stream_t *stream, void *buffer, size_t size)
{
    ((receiver_t *)user)->received++;
}

static void on_accept(void *user, crti_stream_t *stream)
{
    crti_stream_handlers_t handlers = {
        .user = user, .on_message = on_message, .on_payload = on_payload};

    ((receiver_t *)user)->stream = stream;
    crti_stream_set_handlers(stream, &handlers);
}

static bool is_received(void *user)
{
    return ((receiver_t *)user)->received == PARTS;
}

static void streams(bool encrypt)
{
    receiver_t r = {.buffer = malloc(PART)};
    sender_t s = {0};
    crti_stream_listener_t *listener;
    crti_loop_t *loop;
    uint64_t begin = crti_now_ns();
    double cpu = cpu_seconds();
    pthread_t thread;

    if (crti_loop_new(&loop) != CRT_OK ||
        crti_stream_context_new(&key, encrypt, &s.context) != CRT_OK ||
        crti_stream_listen(loop, s.context, "127.0.0.1", 0, on_accept, &r, &listener) !=
            CRT_OK)
        abort();
    snprintf(s.address, sizeof(s.address), "127.0.0.1:%u",
             crti_stream_listener_port(listener));
    pthread_create(&thread, NULL, send_stream, &s);
    loop_until(loop, is_received, &r, UINT64_MAX);
    pthread_join(thread, NULL);
    report(encrypt ? "stream, encrypted" : "stream, plain", begin, cpu);
    crti_stream_free(r.stream);
    crti_stream_listener_free(listener);
    crti_stream_context_free(s.context);
    crti_loop_free(loop);
    free(r.buffer);
}

int main(void)
{
    for (int i = 0; i < 3; i++) {
        bare();
        streams(false);
        streams(true);
    }
    return 0;
}
