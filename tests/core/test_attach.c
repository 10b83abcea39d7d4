/* SPDX-License-Identifier: Apache-2.0 */
/* Attaching to a node daemon that the test plays: whatever it says before its answer, and after. */
#include "runtime/crt.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/base/blackboard.h"
#include "runtime/base/rundir.h"
#include "runtime/net/channel.h"
#include "runtime/net/key.h"
#include "runtime/net/loop.h"
#include "runtime/store/store.h"

typedef struct node {
    char run[64], dir[80];
    int lock_fd, listen_fd;
    pthread_t thread;
    crti_loop_t *loop;
    crti_channel_t *channel;
    crti_watch_t watch;
    bool ends_job; /* it says so before it answers */
    crti_store_t *store;
    bool takes_in;     /* whoever attaches; whose job has ended, as all nodes know */
    atomic_int leases; /* that were asked for */
} node_t;

/* ---------------------------------------------------------------- the node */

/* Deaths are told to all processes of a node, also to one that it does not know yet. */
static void on_attach(void *user, crti_channel_t *channel, const crti_message_t *m,
                      int *fds, int fd_count)
{
    node_t *node = user;
    crti_id_t some = {1, 2};
    crti_msg_peer_died_t died = {.process = some,
                                 .incarnation = 1,
                                 .node = some,
                                 .status = CRT_ERR_WORKER_DIED,
                                 .text = crti_str("it was killed")};
    crti_msg_node_died_t gone = {.node = some, .text = crti_str("silent")};
    crti_msg_actor_state_t state = {.actor = some, .text = crti_str("gone")};
    crti_msg_head_link_t link = {.up = false};
    crti_msg_shutdown_t end = {.text = crti_str("the job was deleted")};
    crti_msg_error_t full = {.status = CRT_ERR_BACKPRESSURE,
                             .text = crti_str("node is full")};

    crti_channel_send(channel, CRTI_MSG_PEER_DIED, 0, &died);
    crti_channel_send(channel, CRTI_MSG_NODE_DIED, 0, &gone);
    crti_channel_send(channel, CRTI_MSG_ACTOR_STATE, 0, &state);
    crti_channel_send(channel, CRTI_MSG_HEAD_LINK, 0, &link);
    if (node->ends_job)
        crti_channel_send(channel, CRTI_MSG_SHUTDOWN, 0, &end);
    crti_channel_send(channel, CRTI_MSG_ERROR, m->request, &full);
}

static void take_in(node_t *node, crti_channel_t *channel, uint64_t request)
{
    static const unsigned char key[CRTI_KEY_SIZE];
    crti_msg_attached_t attached = {.node = {1, 1},
                                    .cluster = {1, 2},
                                    .job = {1, 3},
                                    .slot = 1,
                                    .key = crti_span(key, sizeof(key)),
                                    .run_dir = crti_str(node->dir),
                                    .ip = crti_str("127.0.0.1")};
    int fds[2];

    assert_int_equal(crti_store_new(64 << 20, 4, &node->store), CRT_OK);
    fds[0] = crti_store_fd(node->store);
    fds[1] = memfd_create("blackboard", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fds[1], CRTI_BLACKBOARD_BYTES), 0);
    crti_channel_send_fds(channel, CRTI_MSG_ATTACHED, request, &attached, fds, 2);
    close(fds[1]);
}

static void on_message(void *user, crti_channel_t *channel, const crti_message_t *m,
                       int *fds, int fd_count)
{
    node_t *node = user;
    crti_msg_error_t ended = {.status = CRT_ERR_CANCELLED,
                              .text = crti_str("job 8dbf has ended")};

    if (m->kind == CRTI_MSG_ATTACH && node->takes_in) {
        take_in(node, channel, m->request);
    } else if (m->kind == CRTI_MSG_ATTACH) {
        on_attach(user, channel, m, fds, fd_count);
    } else if (m->kind == CRTI_MSG_LEASE_REQUEST) {
        node->leases++;
        crti_channel_send(channel, CRTI_MSG_ERROR, m->request, &ended);
    } else if (m->kind == CRTI_MSG_SHUTDOWN) {
        crti_channel_send(channel, CRTI_MSG_DONE, m->request, NULL);
    }
}

static void on_gone(void *user, crti_channel_t *channel, crt_status_t status,
                    const char *detail)
{
}

static void on_knock(void *user, uint32_t events)
{
    node_t *node = user;
    crti_channel_handlers_t handlers = {
        .user = node, .on_message = on_message, .on_closed = on_gone};
    int fd;

    if (crti_channel_accept(node->listen_fd, &fd) == CRT_OK &&
        crti_channel_new(&fd, &handlers, 1 << 16, &node->channel) == CRT_OK)
        crti_channel_attach(node->channel, node->loop);
}

static void *serve(void *user)
{
    node_t *node = user;

    crti_loop_run(node->loop);
    return NULL;
}

static int start_node(void **state)
{
    node_t *node = calloc(1, sizeof(*node));
    char path[100];

    *state = node;
    strcpy(node->run, "/tmp/crt-attach-XXXXXX");
    assert_non_null(mkdtemp(node->run));
    setenv("CRT_RUN_DIR", node->run, 1);
    snprintf(node->dir, sizeof(node->dir), "%s/node-1", node->run);
    assert_int_equal(crti_dir_make(node->dir), CRT_OK);
    assert_int_equal(crti_dir_lock(node->dir, &node->lock_fd), CRT_OK);
    snprintf(path, sizeof(path), "%s/node.info", node->dir);
    assert_int_equal(crti_info_write(path,
                                     (crti_info_entry_t[]){{"address", "h:1"},
                                                           {"pid", "77"},
                                                           {"node", "1"},
                                                           {"head_dir", ""},
                                                           {"http", ""},
                                                           {"private", "0"}},
                                     6),
                     CRT_OK);
    snprintf(path, sizeof(path), "%s/node.sock", node->dir);
    assert_int_equal(crti_channel_listen(path, &node->listen_fd), CRT_OK);
    assert_int_equal(crti_loop_new(&node->loop), CRT_OK);
    node->watch = (crti_watch_t){.on_ready = on_knock, .user = node};
    assert_int_equal(crti_loop_add(node->loop, &node->watch, node->listen_fd, EPOLLIN),
                     CRT_OK);
    return 0;
}

static int end_node(void **state)
{
    node_t *node = *state;

    crti_loop_stop(node->loop);
    pthread_join(node->thread, NULL);
    crti_channel_free(node->channel);
    crti_loop_free(node->loop);
    crti_store_detach(node->store);
    close(node->listen_fd);
    close(node->lock_fd);
    crti_dir_remove(node->run);
    free(node);
    return 0;
}

/* ---------------------------------------------------------------- the process */

static void a_driver_hears_of_deaths_while_it_attaches(void **state)
{
    node_t *node = *state;

    assert_int_equal(pthread_create(&node->thread, NULL, serve, node), 0);
    assert_int_equal(crt_init(1, (char *[]){"test", NULL}, CRT_OPTIONS(.address = "h:1")),
                     CRT_ERR_BACKPRESSURE);
    assert_non_null(strstr(crt_error_detail(), "node is full"));
}

static void a_driver_is_told_to_end_while_it_attaches(void **state)
{
    node_t *node = *state;

    node->ends_job = true;
    assert_int_equal(pthread_create(&node->thread, NULL, serve, node), 0);
    assert_true(crt_init(1, (char *[]){"test", NULL}, CRT_OPTIONS(.address = "h:1")) < 0);
    assert_non_null(strstr(crt_error_detail(), "node is full"));
}

static crt_status_t never_run(crt_call_t *call)
{
    return CRT_OK;
}

static const crt_task_t never =
    CRT_TASK(.name = "never", .run = never_run, .signature = "");

/* Its own node may hear of the end later than the one that is asked for a worker. */
static void tasks_of_a_job_that_has_ended_fail_and_ask_for_no_more_workers(void **state)
{
    enum { TASKS = 20 };
    node_t *node = *state;
    crt_ref_t *refs[TASKS];

    node->takes_in = true;
    assert_int_equal(pthread_create(&node->thread, NULL, serve, node), 0);
    assert_int_equal(crt_init(1, (char *[]){"test", NULL},
                              CRT_OPTIONS(.address = "h:1", .tasks = CRT_TASKS(&never))),
                     CRT_OK);
    for (int i = 0; i < TASKS; i++)
        refs[i] = crt_submit(&never, NULL);
    for (int i = 0; i < TASKS; i++) {
        assert_int_equal(crt_get_for(refs[i], 20000, NULL), CRT_ERR_CANCELLED);
        assert_non_null(strstr(crt_error_detail(), "job 8dbf has ended"));
        crt_ref_drop(&refs[i]);
    }
    assert_in_range(node->leases, 1, TASKS);
    crt_shutdown();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start_node, end_node)
        TEST(a_driver_hears_of_deaths_while_it_attaches),
        TEST(a_driver_is_told_to_end_while_it_attaches),
        TEST(tasks_of_a_job_that_has_ended_fail_and_ask_for_no_more_workers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
