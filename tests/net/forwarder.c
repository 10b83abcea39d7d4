/* SPDX-License-Identifier: Apache-2.0 */
/* Forwarder. See forwarder.h. */
#include "forwarder.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/list.h"

#define LINKS_MAX 16
#define CHUNK     65536
#define LATE_MS   60
#define MUST(x)                                                                          \
    do {                                                                                 \
        if (!(x)) {                                                                      \
            perror("forwarder: " #x);                                                    \
            abort();                                                                     \
        }                                                                                \
    } while (0)

typedef struct way {
    int from, to; /* -1: closed */
    unsigned char held[CHUNK];
    size_t size;
    uint64_t due_ns;
} way_t;

/* One connection: client to server, and back. */
typedef struct carried {
    bool used;
    bool is_late; /* it was cut: only what is held for the server is left */
    int client, server;
    size_t budget; /* bytes until the next cut */
    way_t way[2];
} carried_t;

struct forwarder {
    forwarder_faults_t faults;
    uint64_t random;
    int listener, wake[2];
    pthread_t thread;
    pthread_mutex_t lock; /* what follows */
    pthread_cond_t obeyed;
    uint16_t port; /* where to */
    unsigned cuts;
    bool cut_asked, ends;
    carried_t carried[LINKS_MAX];
};

static uint64_t draw(forwarder_t *f, uint64_t below)
{
    f->random ^= f->random << 13;
    f->random ^= f->random >> 7;
    f->random ^= f->random << 17;
    return below ? f->random % below : 0;
}

static uint16_t port_of(const crti_address_t *address)
{
    return (uint16_t)atoi(strrchr(address->tcp, ':') + 1);
}

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons(port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* ---------------------------------------------------------------- connections */

static void end_link(carried_t *c)
{
    if (c->client >= 0)
        close(c->client);
    close(c->server);
    *c = (carried_t){.client = -1};
}

static size_t next_budget(forwarder_t *f)
{
    return f->faults.cut_bytes ? 1 + (size_t)draw(f, 2 * f->faults.cut_bytes) : SIZE_MAX;
}

static void begin_link(forwarder_t *f)
{
    struct sockaddr_in to = loopback(f->port);
    int client = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC), one = 1;
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    carried_t *c = f->carried;

    while (c < f->carried + LINKS_MAX && c->used)
        c++;
    if (client < 0 || c == f->carried + LINKS_MAX ||
        connect(server, (struct sockaddr *)&to, sizeof(to)) != 0) {
        close(client); /* nobody is there at the moment */
        close(server);
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    *c = (carried_t){
        .used = true, .client = client, .server = server, .budget = next_budget(f)};
    c->way[0].from = c->way[1].to = client;
    c->way[0].to = c->way[1].from = server;
}

static bool send_all(int fd, const void *data, size_t size)
{
    const unsigned char *at = data;

    while (size > 0) {
        ssize_t n = send(fd, at, size, MSG_NOSIGNAL);

        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

/* In the middle of what is held, as a rule. */
static void cut(forwarder_t *f, carried_t *c)
{
    way_t *out = &c->way[0];
    size_t part = out->size ? (size_t)draw(f, out->size) : 0;

    f->cuts++;
    if (!send_all(c->server, out->held, part) || !f->faults.late || part == out->size) {
        end_link(c);
        return;
    }
    memmove(out->held, out->held + part, out->size - part);
    out->size -= part;
    out->due_ns = crti_now_ns() + (1 + draw(f, LATE_MS)) * CRTI_MS;
    close(c->client);
    c->client = -1;
    c->is_late = true;
}

/* What is due leaves. False: the connection has ended. */
static bool release(forwarder_t *f, carried_t *c, way_t *w)
{
    size_t size = w->size;

    w->size = 0;
    if (!send_all(w->to, w->held, size) || c->is_late) {
        end_link(c);
        return false;
    }
    return true;
}

/* False: the connection has ended. */
static bool take(forwarder_t *f, carried_t *c, way_t *w)
{
    ssize_t n = recv(w->from, w->held, 1 + draw(f, CHUNK), 0);

    if (n <= 0) {
        end_link(c);
        return false;
    }
    w->size = (size_t)n;
    w->due_ns =
        crti_now_ns() + (f->faults.delay_ms ? draw(f, f->faults.delay_ms * CRTI_MS) : 0);
    if (c->budget > (size_t)n) {
        c->budget -= c->budget == SIZE_MAX ? 0 : (size_t)n;
        return true;
    }
    cut(f, c);
    return false;
}

/* ---------------------------------------------------------------- the thread */

static void work_off(forwarder_t *f, carried_t *c, const struct pollfd *ready)
{
    uint64_t now = crti_now_ns();

    for (int i = 0; i < 2 && c->used; i++) {
        way_t *w = &c->way[i];

        if (c->is_late && i == 1)
            return;
        if (w->size > 0 && w->due_ns <= now && !release(f, c, w))
            return;
        if (w->size == 0 && ready[i].revents && !take(f, c, w))
            return;
    }
}

static void obey(forwarder_t *f)
{
    if (!f->cut_asked)
        return;
    for (carried_t *c = f->carried; c < f->carried + LINKS_MAX; c++)
        if (c->used && !c->is_late)
            cut(f, c);
    f->cut_asked = false;
    pthread_cond_broadcast(&f->obeyed);
}

/* Until when to sleep at most, in ms; -1: until something comes. */
static int fill(const forwarder_t *f, struct pollfd *p)
{
    uint64_t now = crti_now_ns(), first = UINT64_MAX;

    p[0] = (struct pollfd){.fd = f->listener, .events = POLLIN};
    p[1] = (struct pollfd){.fd = f->wake[0], .events = POLLIN};
    for (int i = 0; i < 2 * LINKS_MAX; i++) {
        const carried_t *c = &f->carried[i / 2];
        const way_t *w = &c->way[i % 2];

        p[2 + i] = (struct pollfd){.fd = -1};
        if (!c->used || (c->is_late && i % 2))
            continue;
        if (w->size > 0)
            first = w->due_ns < first ? w->due_ns : first;
        else
            p[2 + i] = (struct pollfd){.fd = w->from, .events = POLLIN};
    }
    if (first == UINT64_MAX)
        return -1;
    return first <= now ? 0 : (int)((first - now + CRTI_MS - 1) / CRTI_MS);
}

static void *forwarder_main(void *user)
{
    forwarder_t *f = user;
    struct pollfd p[2 + 2 * LINKS_MAX];
    char byte;

    pthread_mutex_lock(&f->lock);
    while (!f->ends) {
        int timeout = fill(f, p);

        pthread_mutex_unlock(&f->lock);
        poll(p, 2 + 2 * LINKS_MAX, timeout);
        pthread_mutex_lock(&f->lock);
        if (p[1].revents)
            MUST(read(f->wake[0], &byte, 1) == 1);
        obey(f);
        for (int i = 0; i < LINKS_MAX; i++)
            if (f->carried[i].used)
                work_off(f, &f->carried[i], &p[2 + 2 * i]);
        if (p[0].revents)
            begin_link(f);
    }
    for (carried_t *c = f->carried; c < f->carried + LINKS_MAX; c++)
        if (c->used)
            end_link(c);
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

static void wake(forwarder_t *f)
{
    MUST(write(f->wake[1], "w", 1) == 1);
}

/* ---------------------------------------------------------------- for the test */

forwarder_t *forwarder_start(const crti_address_t *to, const forwarder_faults_t *faults,
                             crti_address_t *address_out)
{
    forwarder_t *f = calloc(1, sizeof(*f));
    struct sockaddr_in here = loopback(0);
    socklen_t length = sizeof(here);

    MUST(f != NULL);
    f->faults = *faults;
    f->random = faults->seed * 0x9e3779b97f4a7c15u + 1;
    f->port = port_of(to);
    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(bind(f->listener, (struct sockaddr *)&here, sizeof(here)) == 0);
    MUST(listen(f->listener, 10) == 0);
    MUST(getsockname(f->listener, (struct sockaddr *)&here, &length) == 0);
    MUST(pipe2(f->wake, O_CLOEXEC) == 0);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->obeyed, NULL);
    MUST(pthread_create(&f->thread, NULL, forwarder_main, f) == 0);
    *address_out = *to;
    address_out->ipc[0] = '\0';
    snprintf(address_out->tcp, sizeof(address_out->tcp), "127.0.0.1:%u",
             ntohs(here.sin_port));
    return f;
}

void forwarder_aim(forwarder_t *f, const crti_address_t *to)
{
    pthread_mutex_lock(&f->lock);
    f->port = port_of(to);
    pthread_mutex_unlock(&f->lock);
}

void forwarder_cut(forwarder_t *f)
{
    pthread_mutex_lock(&f->lock);
    f->cut_asked = true;
    wake(f);
    while (f->cut_asked)
        pthread_cond_wait(&f->obeyed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

unsigned forwarder_cuts(forwarder_t *f)
{
    unsigned cuts;

    pthread_mutex_lock(&f->lock);
    cuts = f->cuts;
    pthread_mutex_unlock(&f->lock);
    return cuts;
}

void forwarder_stop(forwarder_t *f)
{
    pthread_mutex_lock(&f->lock);
    f->ends = true;
    wake(f);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
    close(f->listener);
    close(f->wake[0]);
    close(f->wake[1]);
    free(f);
}
