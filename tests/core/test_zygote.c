/* SPDX-License-Identifier: Apache-2.0 */
/* The zygote: this test plays the node daemon on the other end of the link. */
#include "runtime/core/client/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/net/channel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

typedef struct node {
    pid_t zygote;
    crti_channel_t *channel;
    char problem[256];
    bool ready;
    pid_t reaped;
    int wait_status;
    int printed; /* the zygote's stdout */
} node_t;

#define PRINTED "printed before there is a zygote\n"

static void on_message(void *user, crti_channel_t *channel, const crti_message_t *message,
                       int *fds, int fd_count)
{
    node_t *node = user;

    if (message->kind == CRTI_MSG_ZYGOTE_READY) {
        crti_text(message->zygote_ready.problem, node->problem, sizeof(node->problem));
        node->ready = true;
    } else if (message->kind == CRTI_MSG_REAPED) {
        node->reaped = (pid_t)message->reaped.pid;
        node->wait_status = (int)message->reaped.wait_status;
    }
}

static void on_closed(void *user, crti_channel_t *channel, crt_status_t status,
                      const char *detail)
{
}

/* What a worker of these tests does: says who it is, reads its orders from its stdin's end. */
static void worker_main(const crti_worker_identity_t *identity)
{
    char id[CRTI_ID_HEX];

    printf("worker %s group %d", crti_id_hex(identity->process, id),
           getpgrp() == getpid());
    putchar('\n');
    fprintf(stderr, "to stderr\n");
    if (identity->process.low == 7)
        raise(SIGKILL);
    if (identity->process.low == 8)
        pause(); /* until the zygote dies */
    _exit(3);
}

static void *idle_thread(void *unused)
{
    pause();
    return NULL;
}

/* Of a program that has printed before; what it printed may still be in its buffer. */
static void start_zygote(node_t *node, bool flushes, bool with_thread)
{
    crti_channel_handlers_t handlers = {
        .user = node, .on_message = on_message, .on_closed = on_closed};
    int fds[2], printed[2];

    *node = (node_t){0};
    assert_int_equal(crti_channel_pair(fds), CRT_OK);
    assert_int_equal(pipe2(printed, O_CLOEXEC), 0);
    node->printed = printed[0];
    fflush(NULL); /* what is buffered here is not the zygote's */
    node->zygote = fork();
    assert_true(node->zygote >= 0);
    if (node->zygote == 0) {
        crti_worker_identity_t identity = {0};
        pthread_t thread;

        close(fds[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(printed[1], STDOUT_FILENO);
        printf(PRINTED);
        if (flushes)
            fflush(stdout);
        if (with_thread)
            pthread_create(&thread, NULL, idle_thread, NULL);
        crti_zygote_serve(fds[1], &identity);
        worker_main(&identity);
    }
    close(fds[1]);
    close(printed[1]);
    assert_int_equal(crti_channel_new(&fds[0], &handlers, 0, &node->channel), CRT_OK);
}

static void read_all(int fd, char *text, size_t size)
{
    size_t used = 0;
    ssize_t n;

    while (used < size - 1 && (n = read(fd, text + used, size - 1 - used)) > 0)
        used += (size_t)n;
    text[used] = '\0';
    close(fd);
}

static void pump_until(node_t *node, const bool *flag, const pid_t *number)
{
    uint64_t deadline = crti_now_ns() + 20 * CRTI_S;

    while (!(flag && *flag) && !(number && *number)) {
        struct pollfd fd = {.fd = crti_channel_fd(node->channel),
                            .events = (short)crti_channel_events(node->channel)};

        assert_true(crti_now_ns() < deadline);
        if (poll(&fd, 1, 1000) > 0)
            crti_channel_process(node->channel, (uint32_t)fd.revents);
    }
}

static void stop_zygote(node_t *node)
{
    char text[256];
    int status;

    crti_channel_free(node->channel);
    assert_int_equal(waitpid(node->zygote, &status, 0), node->zygote);
    assert_true(WIFEXITED(status));
    read_all(node->printed, text, sizeof(text));
    assert_string_equal(text, PRINTED); /* once, and by no worker */
}

/* Forks a worker; gives the read ends of its streams. */
static void fork_worker(node_t *node, uint64_t low, int *out, int *err)
{
    crti_msg_fork_t request = {.process = {1, low}};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    int streams[2][2], fds[2];
    crti_message_t answer;

    assert_int_equal(pipe2(streams[0], O_CLOEXEC), 0);
    assert_int_equal(pipe2(streams[1], O_CLOEXEC), 0);
    fds[0] = streams[0][1];
    fds[1] = streams[1][1];
    assert_int_equal(
        crti_channel_send_fds(node->channel, CRTI_MSG_FORK, 99, &request, fds, 2),
        CRT_OK);
    close(fds[0]);
    close(fds[1]);
    *out = streams[0][0];
    *err = streams[1][0];
    /* A request without descriptors is answered after the fork: ERROR, and the link lives. */
    assert_int_equal(crti_channel_request(node->channel, CRTI_MSG_FORK, &request,
                                          crti_now_ns() + 20 * CRTI_S, &answer, &storage,
                                          NULL, NULL),
                     CRT_ERR_PROTOCOL);
}

static void a_zygote_forks_workers_with_streams_and_groups_of_their_own(void **state)
{
    char text[256];
    int out, err;
    node_t node;

    start_zygote(&node, false, false);
    pump_until(&node, &node.ready, NULL);
    assert_string_equal(node.problem, "");
    fork_worker(&node, 5, &out, &err);
    read_all(out, text, sizeof(text));
    assert_string_equal(text, "worker 00000000000000010000000000000005 group 1\n");
    read_all(err, text, sizeof(text));
    assert_string_equal(text, "to stderr\n");
    pump_until(&node, NULL, &node.reaped);
    assert_true(WIFEXITED(node.wait_status));
    assert_int_equal(WEXITSTATUS(node.wait_status), 3);
    stop_zygote(&node);
}

static void
a_killed_worker_is_reported_with_its_signal_and_what_it_printed_is_read(void **state)
{
    char text[256];
    int out, err;
    node_t node;

    start_zygote(&node, true, false);
    fork_worker(&node, 7, &out, &err);
    pump_until(&node, NULL, &node.reaped);
    assert_true(WIFSIGNALED(node.wait_status));
    assert_int_equal(WTERMSIG(node.wait_status), SIGKILL);
    read_all(out, text, sizeof(text));
    assert_string_equal(text, "worker 00000000000000010000000000000007 group 1\n");
    close(err);
    stop_zygote(&node);
}

static void workers_end_with_their_zygote(void **state)
{
    char text[256];
    int out, err;
    node_t node;

    start_zygote(&node, true, false);
    fork_worker(&node, 8, &out, &err);
    kill(node.zygote, SIGKILL);
    read_all(out, text, sizeof(text)); /* ends only when the worker is gone, too */
    close(err);
    close(node.printed);
    crti_channel_free(node.channel);
    assert_int_equal(waitpid(node.zygote, NULL, 0), node.zygote);
}

static void a_second_thread_is_a_reason_not_to_fork(void **state)
{
    node_t node;

    start_zygote(&node, false, true);
    pump_until(&node, &node.ready, NULL);
    assert_string_equal(node.problem, "2 threads run before crt_main or crt_init");
    stop_zygote(&node);
}

/* gcc's thread sanitizer runs a thread of its own in every program: there, nothing may fork. */
#ifdef __SANITIZE_THREAD__
#    define TOOL_THREADS 1
#else
#    define TOOL_THREADS 0
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_killed_worker_is_reported_with_its_signal_and_what_it_printed_is_read),
        cmocka_unit_test(workers_end_with_their_zygote),
    };
    const struct CMUnitTest counting_threads[] = {
        cmocka_unit_test(a_zygote_forks_workers_with_streams_and_groups_of_their_own),
        cmocka_unit_test(a_second_thread_is_a_reason_not_to_fork),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    if (!TOOL_THREADS)
        failed += cmocka_run_group_tests(counting_threads, NULL, NULL);
    return failed;
}
