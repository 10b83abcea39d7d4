/* SPDX-License-Identifier: Apache-2.0 */
/* A server with one loop: clients, signals and results of the cluster are descriptors of one epoll.
 *
 *     epoll_server PATH          serves at the UNIX socket PATH until SIGTERM or SIGINT
 *
 * A client writes numbers, a line each. For each number n a task counts the primes below n
 * somewhere in the cluster, and the client gets "n PRIMES" when the task has ended: the result that
 * comes first is written first.
 *
 *     printf '100\n1000\n' | nc -U -W 2 PATH
 */
#include <crt.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static crt_status_t primes_run(crt_call_t *call)
{
    int64_t below, found = 0;
    char text[64];

    CRT_TRY(crt_args(call, &below));
    for (int64_t n = 2; n < below; n++) {
        bool is_prime = true;

        for (int64_t d = 2; is_prime && d * d <= n; d++)
            is_prime = n % d != 0;
        found += is_prime;
    }
    snprintf(text, sizeof(text), "%lld %lld\n", (long long)below, (long long)found);
    return crt_return(call, text);
}
static const crt_task_t primes =
    CRT_TASK(.name = "primes", .run = primes_run, .signature = "int");

/* ---------------------------------------------------------------- clients */

typedef struct client {
    LIST_ENTRY(client) link;
    int fd;
    char line[64]; /* what has come of one */
    size_t length;
} client_t;

static LIST_HEAD(, client) clients;
static crt_waitset_t *results; /* each with its client */
static int loop_fd;

static void watch(int fd, void *user)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = user};

    if (epoll_ctl(loop_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        perror("epoll_ctl");
        exit(1);
    }
}

/* The results of its calls come to nobody: they leave the set, so that no event has a pointer to
 * freed memory. */
static void end_client(client_t *client)
{
    (void)crt_waitset_remove(results, client);
    LIST_REMOVE(client, link);
    close(client->fd);
    free(client);
}

static void begin_client(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    client_t *client = fd >= 0 ? calloc(1, sizeof(*client)) : NULL;

    if (!client)
        return;
    client->fd = fd;
    LIST_INSERT_HEAD(&clients, client, link);
    watch(fd, client);
}

static void ask(client_t *client)
{
    crt_ref_t *ref = crt_submit(&primes, NULL, (int64_t)strtoll(client->line, NULL, 10));

    CRT_CHECK(crt_waitset_add_ref(results, ref, client));
    crt_ref_drop(&ref);
}

static void read_client(client_t *client)
{
    char bytes[512];
    ssize_t n = read(client->fd, bytes, sizeof(bytes));

    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        end_client(client);
        return;
    }
    for (ssize_t i = 0; i < n; i++) {
        if (bytes[i] == '\n') {
            client->line[client->length] = '\0';
            client->length = 0;
            ask(client);
        } else if (client->length + 1 < sizeof(client->line)) {
            client->line[client->length++] = bytes[i];
        }
    }
}

/* All that is ready. */
static void write_results(void)
{
    crt_event_t event = CRT_EVENT_INIT;

    while (crt_waitset_next(results, 0, &event) == CRT_OK) {
        client_t *client = event.user;
        const char *text;

        if (crt_get(event.ref, &text) != CRT_OK)
            text = "failed\n"; /* crt_error_detail() says why */
        if (send(client->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            shutdown(client->fd, SHUT_RDWR); /* its end is read next */
    }
}

/* ---------------------------------------------------------------- the loop */

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(fd, 64) != 0) {
        perror(path);
        exit(1);
    }
    return fd;
}

static int serve(int listener, int signals)
{
    struct epoll_event events[16];
    int results_fd;

    CRT_CHECK(crt_waitset_fd(results, &results_fd));
    watch(listener, &listener);
    watch(signals, &signals);
    watch(results_fd, results);
    for (;;) {
        int count = epoll_wait(loop_fd, events, 16, -1);

        for (int i = 0; i < count; i++) {
            void *user = events[i].data.ptr;

            if (user == &signals)
                return 0;
            if (user == &listener)
                begin_client(listener);
            else if (user == results)
                write_results();
            else
                read_client(user);
        }
    }
}

static int driver(int argc, char **argv)
{
    int listener, signals, result;
    sigset_t ends;

    if (argc != 2) {
        fprintf(stderr, "usage: epoll_server PATH\n");
        return 2;
    }
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    signals = signalfd(-1, &ends, SFD_CLOEXEC);
    loop_fd = epoll_create1(EPOLL_CLOEXEC);
    CRT_CHECK(crt_waitset_new(&results));
    listener = listen_at(argv[1]);
    result = serve(listener, signals);
    while (!LIST_EMPTY(&clients))
        end_client(LIST_FIRST(&clients));
    crt_waitset_drop(&results);
    unlink(argv[1]);
    return result;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&primes)), driver);
}
