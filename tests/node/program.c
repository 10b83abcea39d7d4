/* SPDX-License-Identifier: Apache-2.0 */
/* A program of a job, as small as it can be: a zygote and workers that attach, say a line, and
 * do what signals tell them. Its mode is its first argument.
 *
 *     fork          an ordinary zygote
 *     threads       has a thread, so that it is executed once per worker
 *     early         ends before it is a zygote
 *     old           its workers speak another protocol
 *     mute          its workers never attach
 *     holds         its workers stop inside a change of the object store
 *
 * A worker's READY says "pid:N" as its ipc address. SIGUSR1: prints a line on stderr and starts
 * a child that holds the worker's stdout open and never ends. SIGUSR2: starts one that leaves the
 * session and the process group, as a daemon does. Both by _Fork: a handler may have interrupted an
 * allocation, and fork waits for the locks of a sanitizer's allocator.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "scene.h"

#include "runtime/base/blackboard.h"
#include "runtime/base/clock.h"
#include "runtime/core/client/zygote.h"
#include "runtime/net/channel.h"

static const char *mode = "fork";
static bool ended;

static void on_usr1(int number)
{
    static const char line[] = "on demand\n";

    if (write(STDERR_FILENO, line, sizeof(line) - 1) > 0 && _Fork() == 0) {
        sigset_t none;

        sigemptyset(&none);
        for (;;)
            sigsuspend(&none);
    }
}

static void on_usr2(int number)
{
    if (_Fork() == 0) {
        setsid();
        for (;;)
            pause();
    }
}

static void on_message(void *user, crti_channel_t *channel, const crti_message_t *message,
                       int *fds, int fd_count)
{
    if (message->kind == CRTI_MSG_SHUTDOWN)
        ended = true;
}

static void on_closed(void *user, crti_channel_t *channel, crt_status_t status,
                      const char *detail)
{
    ended = true;
}

static void use_board(int fd, const crti_message_t *attached)
{
    char name[128];
    crti_blackboard_t *board =
        mmap(NULL, CRTI_BLACKBOARD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (board == MAP_FAILED)
        abort();
    snprintf(name, sizeof(name), "%.*s.run", (int)attached->attached.class_name.size,
             (const char *)attached->attached.class_name.data);
    crti_blackboard_name(board, name[0] == '.' ? "task.run" : name);
    crti_blackboard_enter(board);
}

static int serve(const crti_worker_identity_t *identity)
{
    crti_channel_handlers_t handlers = {.on_message = on_message, .on_closed = on_closed};
    crti_msg_attach_t attach = {.protocol = CRTI_PROTOCOL_VERSION,
                                .role = CRTI_ROLE_WORKER,
                                .process = identity->process,
                                .incarnation = 77,
                                .pid = getpid()};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    uint64_t deadline = crti_now_ns() + 20 * CRTI_S;
    crti_channel_t *channel;
    crti_message_t answer;
    crti_msg_ready_t ready;
    char ipc[32];
    int fds[CRTI_CHANNEL_FDS], count = 0;
    crti_loop_t *loop;

    signal(SIGUSR1, on_usr1);
    signal(SIGUSR2, on_usr2);
    if (strcmp(mode, "mute") == 0)
        pause();
    attach.protocol += strcmp(mode, "old") == 0;
    if (crti_channel_connect(identity->node_socket, deadline, &handlers, &channel) !=
            CRT_OK ||
        crti_channel_request(channel, CRTI_MSG_ATTACH, &attach, deadline, &answer,
                             &storage, fds, &count) != CRT_OK) {
        fprintf(stderr, "no attach: %s\n", crt_error_detail());
        return 1;
    }
    if (count != 2)
        abort();
    use_board(fds[1], &answer);
    printf("hello from %s\n", mode);
    fflush(stdout);
    snprintf(ipc, sizeof(ipc), "pid:%d", (int)getpid());
    ready = (crti_msg_ready_t){.ipc = crti_str(ipc), .tcp = crti_str("tcp")};
    if (crti_channel_send(channel, CRTI_MSG_READY, 0, &ready) != CRT_OK ||
        crti_loop_new(&loop) != CRT_OK || crti_channel_attach(channel, loop) != CRT_OK)
        abort();
    if (strcmp(mode, "holds") == 0)
        program_stop_inside(fds[0], (unsigned)answer.attached.slot, identity->process);
    while (!ended)
        crti_loop_turn(loop, UINT64_MAX);
    crti_channel_free(channel);
    crti_loop_free(loop);
    close(fds[0]);
    close(fds[1]);
    return 0;
}

static void *idle(void *user)
{
    for (;;)
        pause();
    return NULL;
}

int program_main(int argc, char **argv)
{
    crti_worker_identity_t identity;
    pthread_t thread;
    int fd = -1;

    mode = argc > 1 ? argv[1] : mode;
    if (strcmp(mode, "early") == 0) {
        fprintf(stderr, "I do not feel well\n");
        return 3;
    }
    if (strcmp(mode, "threads") == 0)
        pthread_create(&thread, NULL, idle, NULL);
    switch (crti_process_role(&identity, &fd)) {
    case CRTI_PROCESS_DRIVER: return 2;
    case CRTI_PROCESS_ZYGOTE: crti_zygote_serve(fd, &identity); break;
    case CRTI_PROCESS_WORKER: break;
    }
    /* What a worker leaves at its end is not this test's business. */
    fflush(stdout);
    _exit(serve(&identity));
}
