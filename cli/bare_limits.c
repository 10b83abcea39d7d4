/* SPDX-License-Identifier: Apache-2.0 */
/* Bare limits: raw ZeroMQ echo over ipc, memcpy into warm shared pages. See bare_limits.h. */
#include "cli/bare_limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/zmq_library.h"

CRTI_LATE_LIBRARY(crti_bare_zmq, CRTI_BARE_ZMQ_SYMBOLS, "libzmq.so.5",
                  "no bare limit can be measured")

extern char **environ;

static bool find_zmq(void)
{
    if (crti_bare_zmq_library() == CRT_OK)
        return true;
    fprintf(stderr, "crt microbenchmark: %s\n", crt_error_detail());
    return false;
}

/* Binds a socket; NULL after a message. */
static void *bind_socket(void *context, const char *endpoint)
{
    void *socket = context ? zmq_socket(context, ZMQ_ROUTER) : NULL;
    int none = 0;

    if (socket && !zmq_setsockopt(socket, ZMQ_SNDHWM, &none, sizeof(none)) &&
        !zmq_setsockopt(socket, ZMQ_RCVHWM, &none, sizeof(none)) &&
        !zmq_bind(socket, endpoint))
        return socket;
    fprintf(stderr, "crt microbenchmark: %s: %s\n", endpoint, zmq_strerror(errno));
    return NULL;
}

int bare_echo_serve(const char *endpoint)
{
    void *context = find_zmq() ? zmq_ctx_new() : NULL,
         *socket = context ? bind_socket(context, endpoint) : NULL;
    zmq_pollitem_t items[] = {{socket, 0, ZMQ_POLLIN, 0},
                              {NULL, STDIN_FILENO, ZMQ_POLLIN, 0}};
    char identity[256], body[64];

    if (socket == NULL)
        return 1;
    /* As fast as it goes: block in recv, look at standard input only when nothing came. */
    for (;;) {
        int length = zmq_recv(socket, identity, sizeof(identity), ZMQ_DONTWAIT), size;

        if (length < 0) {
            zmq_poll(items, 2, -1);
            if (items[1].revents)
                break;
            continue;
        }
        size = zmq_recv(socket, body, sizeof(body), 0);
        if (size < 0 || size > (int)sizeof(body))
            break;
        zmq_send(socket, identity, (size_t)length, ZMQ_SNDMORE);
        zmq_send(socket, body, (size_t)size, 0);
    }
    zmq_close(socket);
    zmq_ctx_term(context);
    return 0;
}

static bool start_partner(bare_echo_t *echo, const char *endpoint)
{
    char *arguments[] = {(char *)"crt", (char *)"microbenchmark", (char *)"--bare-echo",
                         (char *)endpoint, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2], failed;

    if (pipe2(ends, O_CLOEXEC)) {
        perror("crt microbenchmark: pipe");
        return false;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
    failed =
        posix_spawn(&echo->partner, "/proc/self/exe", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[0]);
    echo->lifeline = ends[1];
    if (failed)
        fprintf(stderr, "crt microbenchmark: can't start the echo partner: %s\n",
                strerror(failed));
    return !failed;
}

static void remove_socket(const bare_echo_t *echo)
{
    char path[96];

    snprintf(path, sizeof(path), "%s/echo", echo->directory);
    unlink(path);
    rmdir(echo->directory);
}

bool bare_echo_start(bare_echo_t *echo)
{
    char endpoint[128];
    int none = 0;

    *echo = (bare_echo_t){.lifeline = -1};
    if (!find_zmq())
        return false;
    snprintf(echo->directory, sizeof(echo->directory), "/tmp/crt-echo-XXXXXX");
    if (mkdtemp(echo->directory) == NULL) {
        perror("crt microbenchmark: /tmp");
        return false;
    }
    snprintf(endpoint, sizeof(endpoint), "ipc://%s/echo", echo->directory);
    echo->context = zmq_ctx_new();
    echo->socket = zmq_socket(echo->context, ZMQ_DEALER);
    zmq_setsockopt(echo->socket, ZMQ_SNDHWM, &none, sizeof(none));
    zmq_setsockopt(echo->socket, ZMQ_RCVHWM, &none, sizeof(none));
    zmq_setsockopt(echo->socket, ZMQ_LINGER, &none, sizeof(none));
    if (!start_partner(echo, endpoint))
        return false;
    if (zmq_connect(echo->socket, endpoint)) {
        fprintf(stderr, "crt microbenchmark: %s: %s\n", endpoint, zmq_strerror(errno));
        return false;
    }
    bare_echo_sync(echo); /* the partner is up once this comes back */
    remove_socket(echo);  /* connected: whoever is killed from now on leaves nothing */
    return true;
}

void bare_echo_stop(bare_echo_t *echo)
{
    if (echo->socket)
        zmq_close(echo->socket);
    if (echo->context)
        zmq_ctx_term(echo->context);
    if (echo->lifeline >= 0)
        close(echo->lifeline);
    if (echo->partner > 0)
        waitpid(echo->partner, NULL, 0);
    remove_socket(echo);
}

void bare_echo_pipelined(bare_echo_t *echo, int count)
{
    static const char message[8] = "1234567"; /* and its end */
    char back[64];

    for (int i = 0; i < count; i++)
        zmq_send(echo->socket, message, sizeof(message), 0);
    for (int i = 0; i < count; i++)
        if (zmq_recv(echo->socket, back, sizeof(back), 0) != (int)sizeof(message)) {
            fprintf(stderr, "crt microbenchmark: the echo partner answered wrongly: %s\n",
                    zmq_strerror(errno));
            exit(1);
        }
}

void bare_echo_sync(bare_echo_t *echo)
{
    bare_echo_pipelined(echo, 1);
}

void bare_copy(size_t size)
{
    static char *from, *to;
    static size_t room;

    if (room < size) {
        if (room) {
            munmap(from, room);
            munmap(to, room);
        }
        from =
            mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        to = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (from == MAP_FAILED || to == MAP_FAILED) {
            perror("crt microbenchmark: mmap");
            exit(1);
        }
        madvise(to, size, MADV_HUGEPAGE);
        memset(to, 1, size);
        memset(from, 0, size);
        room = size;
    }
    memcpy(to, from, size);
    /* The copy must happen though nobody reads it. */
    __asm__ volatile("" : : "r"(to) : "memory");
}

void pin_process(pid_t pid, int core)
{
    char path[64];
    cpu_set_t set;
    DIR *tasks;

    CPU_ZERO(&set);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (core < 0 || i == core)
            CPU_SET(i, &set);
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    tasks = opendir(path);
    if (tasks == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        if (entry->d_name[0] != '.')
            sched_setaffinity((pid_t)atoi(entry->d_name), sizeof(set), &set);
    closedir(tasks);
}
