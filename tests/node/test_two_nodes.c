/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and objects that go from one node daemon to another. */
#include "node_test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/store/store.h"

/* Nodes 0 and 1, which know each other, and a driver at each. */
static void start_both(scene_t *s)
{
    scene_start_node(s, 0, NULL);
    scene_start_node(s, 1, NULL);
    scene_attach(s, 0, 0);
    scene_attach(s, 1, 1);
    scene_send_views(s, 4);
}

static crti_store_t *attach_store(scene_t *s, int d)
{
    scene_driver_t *driver = &s->drivers[d];
    crti_store_t *store;

    assert_int_equal(
        crti_store_attach(driver->fds[0], driver->slot, driver->process, &store), CRT_OK);
    return store;
}

static void make_object(crti_store_t *store, crti_object_id_t object, size_t size)
{
    void *data;

    assert_int_equal(crti_store_create(store, object, size, &data), CRT_OK);
    memset(data, 1, size);
    assert_int_equal(crti_store_seal(store, object, true), CRT_OK);
}

/* A lease on the second node, whose job's program is at that path on the first one. */
static const crti_msg_lease_granted_t *lease_elsewhere(scene_t *s, const char *program)
{
    const crti_msg_lease_granted_t *granted;
    const crti_message_t *m;
    crti_msg_job_info_t info = {0};
    char self[4096], hex[65] = "";

    scene_start_node(s, 0, (const char *[]){"--num-cpus", "1", NULL});
    scene_start_node(s, 1, (const char *[]){"--num-cpus", "4", NULL});
    scene_attach(s, 0, 0);
    scene_send_views(s, 4);
    scene_lease(s, 0, 2);
    m = scene_wait(s, CRTI_MSG_JOB_GET); /* the other node learns of the job */
    self[readlink("/proc/self/exe", self, sizeof(self) - 1)] = '\0';
    for (int i = 0; i < s->logged; i++) { /* what the driver's node told the head */
        const crti_message_t *add = &s->log[i]->message;

        if (add->kind != CRTI_MSG_JOB_ADD)
            continue;
        crti_text(add->job_add.sha, hex, sizeof(hex));
        info = (crti_msg_job_info_t){.job = add->job_add.job,
                                     .driver = add->job_add.driver,
                                     .driver_node = add->job_add.node,
                                     .program = crti_str(program),
                                     .sha = add->job_add.sha,
                                     .argv = add->job_add.argv,
                                     .environment = add->job_add.environment,
                                     .directory = crti_str("/no/such/directory")};
    }
    assert_true(hex[0] != '\0');
    scene_head_send(s, 1, CRTI_MSG_JOB_INFO, m->request, &info);
    granted = &scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted;
    assert_true(crti_id_equal(granted->node, s->nodes[1].id));
    return granted;
}

static void a_request_without_room_goes_to_another_node_and_back(void **state)
{
    scene_t *s = *state;
    const crti_msg_lease_granted_t *granted = lease_elsewhere(s, "/gone/on/this/node");
    pid_t pid = scene_pid(granted);

    assert_true(
        node_test_contains(scene_wait(s, CRTI_MSG_LOG)->log.lines, "hello from fork"));
    kill(pid, SIGKILL); /* the owner's node is told by the other one */
    assert_true(crti_id_equal(scene_wait(s, CRTI_MSG_PEER_DIED)->peer_died.process,
                              granted->process));
}

/* Whoever may write where the program lies on the driver's host may put this there on another
 * one. */
static void a_fifo_in_the_place_of_a_program_keeps_nobody(void **state)
{
    scene_t *s = *state;
    char path[200];

    snprintf(path, sizeof(path), "%s/program", s->dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    lease_elsewhere(s, path);
    assert_true(
        node_test_contains(scene_wait(s, CRTI_MSG_LOG)->log.lines, "hello from fork"));
}

/* There, not where the driver is: a mount of the same name whose server is gone. */
static void a_program_is_fetched_when_its_file_server_does_not_answer(void **state)
{
    scene_t *s = *state;
    char path[200], program[250], options[500];
    int fuse;

    snprintf(path, sizeof(path), "%s/dead", s->dir);
    snprintf(program, sizeof(program), "%s/program", path);
    fuse = node_test_mount_dead(path);
    if (fuse < 0) {
        print_message("needs FUSE, and no chroot\n");
        skip();
    }
    /* The sanitizer's search for leaks waits for threads that hang. */
    snprintf(options, sizeof(options), "%s", getenv("ASAN_OPTIONS") ?: "");
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    lease_elsewhere(s, program);
    setenv("ASAN_OPTIONS", options, 1);
    assert_true(
        node_test_contains(scene_wait(s, CRTI_MSG_LOG)->log.lines, "hello from fork"));
    scene_stop_node(s, 1, SIGTERM); /* its thread still hangs */
    close(fuse);
    assert_int_equal(umount2(path, MNT_DETACH), 0);
}

static void a_request_of_a_job_that_has_ended_is_cancelled(void **state)
{
    scene_t *s = *state;
    crti_msg_error_t ended = {.status = CRT_ERR_NOT_FOUND,
                              .text = crti_str("job 8dbf has ended")};
    const crti_message_t *m;

    scene_start_node(s, 0, (const char *[]){"--num-cpus", "1", NULL});
    scene_start_node(s, 1, (const char *[]){"--num-cpus", "4", NULL});
    scene_attach(s, 0, 0);
    scene_send_views(s, 4);
    scene_lease(s, 0, 2);
    m = scene_wait(s, CRTI_MSG_JOB_GET);
    scene_head_send(s, 1, CRTI_MSG_ERROR, m->request, &ended);
    m = scene_wait(s, CRTI_MSG_ERROR);
    assert_int_equal(m->error.status, CRT_ERR_CANCELLED);
    assert_true(node_test_contains(m->error.text, "job 8dbf has ended"));
}

static void a_request_at_a_node_that_dies_comes_back(void **state)
{
    scene_t *s = *state;
    crti_id_t first, second;
    const crti_msg_lease_granted_t *granted;

    scene_start_node(s, 0, (const char *[]){"--num-cpus", "1", NULL});
    scene_start_node(s, 1, (const char *[]){"--num-cpus", "4", NULL});
    scene_attach(s, 0, 0);
    first = scene_lease(s, 0, 1);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
    scene_send_views(s, 4);
    kill(s->nodes[1].pid, SIGSTOP);
    second = scene_lease(s, 0, 1);
    assert_int_equal(scene_count(s, CRTI_MSG_LEASE_GRANTED, 100, 1), 0);
    scene_stop_node(s, 1, SIGKILL);
    node_test_return_lease(s, 0, first, s->nodes[0].id);
    granted = &scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted;
    assert_true(crti_id_equal(granted->lease, second));
    assert_true(crti_id_equal(granted->node, s->nodes[0].id));
}

/* What the head tells of node n when it is asked, or by itself (request 0). */
static void tell_view(scene_t *s, int to, uint64_t request, int n)
{
    crti_msg_node_view_t view = {.node = s->nodes[n].id,
                                 .endpoint = crti_str(s->nodes[n].endpoint)};

    if (request)
        scene_head_send(s, to, CRTI_MSG_NODE_VIEW, request, &view);
    else
        scene_send_view(s, to, &view);
}

static void watch_of_a_node_that_is_new(scene_t *s, bool asked)
{
    crti_msg_watch_t watch = {.incarnation = 1};
    const crti_message_t *m;

    scene_start_node(s, 0, NULL);
    scene_start_node(s, 1, NULL);
    scene_attach(s, 0, 0);
    scene_attach(s, 1, 1);
    watch.process = s->drivers[1].process;
    watch.node = s->nodes[1].id;
    tell_view(s, 1, 0, 0); /* who joins hears of the others at once */
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_WATCH, 0, &watch);
    m = scene_wait(s, CRTI_MSG_NODE_FIND);
    assert_true(crti_id_equal(m->node_find.node, s->nodes[1].id));
    assert_false(scene_seen(s, CRTI_MSG_PEER_DIED)); /* unknown is not gone */
    tell_view(s, 0, asked ? m->request : 0, 1);
    scene_turn(s, 50); /* the watch has arrived, or comes late: it is told either way */
    s->drivers[1].dies = true;
    scene_detach(s, 1);
    /* Its node tells the head, and the watcher's node, which tells the watcher. */
    assert_int_equal(scene_count(s, CRTI_MSG_PEER_DIED, 10000, 2), 2);
}

static void a_process_of_a_node_not_heard_of_yet_is_not_gone(void **state)
{
    watch_of_a_node_that_is_new(*state, true);
}

static void a_view_that_comes_by_itself_ends_the_search_for_a_node(void **state)
{
    watch_of_a_node_that_is_new(*state, false);
}

/* A node that the test plays: it hears what it is told on the second link only. */
typedef struct deaf {
    scene_t *scene;
    crti_stream_listener_t *listener;
    crti_stream_t *stream;
    int links, heard;
    crti_id_t id, lease;
} deaf_t;

static void on_deaf_message(void *user, crti_stream_t *stream, const crti_message_t *m)
{
    deaf_t *d = user;
    crti_msg_node_hello_t hello = {.protocol = CRTI_PROTOCOL_VERSION, .node = d->id};

    if (m->kind == CRTI_MSG_NODE_HELLO)
        crti_stream_send(stream, CRTI_MSG_NODE_HELLO, 0, &hello);
    if (m->kind != CRTI_MSG_LEASE_RETURN)
        return;
    assert_true(crti_id_equal(m->lease_return.lease, d->lease));
    d->heard++;
    if (d->links == 1)
        crti_stream_close(stream);
    else
        crti_stream_send(stream, CRTI_MSG_DONE, m->request, NULL);
}

static void on_deaf_closed(void *user, crti_stream_t *stream, crt_status_t status,
                           const char *text)
{
    ((deaf_t *)user)->stream = NULL;
    crti_stream_free(stream);
}

static void on_deaf_accept(void *user, crti_stream_t *stream)
{
    deaf_t *d = user;
    crti_stream_handlers_t handlers = {
        .user = d, .on_message = on_deaf_message, .on_closed = on_deaf_closed};

    d->links++;
    d->stream = stream;
    crti_stream_set_handlers(stream, &handlers);
}

static void await_heard(deaf_t *d, int count)
{
    uint64_t deadline = crti_now_ns() + 20 * CRTI_S;

    while (d->heard < count) {
        assert_true(crti_now_ns() < deadline);
        scene_turn(d->scene, 2);
    }
}

static void a_lease_given_back_is_told_again_when_the_link_broke(void **state)
{
    scene_t *s = *state;
    deaf_t d = {.scene = s, .id = {5, 5}, .lease = {6, 6}};
    crti_msg_lease_return_t back = {.lease = d.lease, .node = d.id};
    crti_msg_node_view_t view = {.node = d.id};
    char endpoint[64];

    assert_int_equal(crti_stream_listen(s->loop, s->context, "127.0.0.1", 0,
                                        on_deaf_accept, &d, &d.listener),
                     CRT_OK);
    snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u",
             (unsigned)crti_stream_listener_port(d.listener));
    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    view.endpoint = crti_str(endpoint);
    scene_send_view(s, 0, &view);
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_LEASE_RETURN, 0, &back);
    await_heard(&d, 2);
    assert_int_equal(d.links, 2);
    d.lease = back.lease = (crti_id_t){6, 7}; /* the first one was heard: no more of it */
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_LEASE_RETURN, 0, &back);
    await_heard(&d, 3);
    crti_stream_free(d.stream);
    crti_stream_listener_free(d.listener);
}

static void workers_of_an_owner_that_died_elsewhere_end(void **state)
{
    scene_t *s = *state;
    crti_msg_peer_died_t died = {.incarnation = 1, .status = CRT_ERR_WORKER_DIED};
    crti_msg_node_died_t gone = {.text = crti_str("silent")};
    pid_t pid;

    scene_start_node(s, 0, NULL);
    for (int i = 0; i < 2; i++) { /* the owner, then its whole node */
        scene_attach(s, 0, 0);
        s->foreign_owner = (crti_id_t){7, 7 + (uint64_t)i};
        scene_lease(s, 0, 1);
        pid = scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted);
        died.process = s->foreign_owner;
        died.node = gone.node = (crti_id_t){8, 8};
        if (i == 0)
            scene_head_send(s, 0, CRTI_MSG_PEER_DIED, 0, &died);
        else
            scene_head_send(s, 0, CRTI_MSG_NODE_DIED, 0, &gone);
        scene_wait_gone(s, pid);
        scene_detach(s, 0);
    }
}

static void pull(scene_t *s, int d, crti_object_id_t object, size_t size, int from,
                 uint64_t request)
{
    unsigned char nodes[16];
    crti_msg_pull_t message = {
        .object = object, .size = size, .nodes = crti_span(nodes, sizeof(nodes))};

    crti_id_pack(s->nodes[from].id, nodes);
    assert_int_equal(
        crti_channel_send(s->drivers[d].channel, CRTI_MSG_PULL, request, &message),
        CRT_OK);
}

static void pull_one_object(void **state)
{
    enum { SIZE = 5 << 20 };
    scene_t *s = *state;
    crti_object_id_t object, missing;
    crti_store_t *a, *b;
    crti_store_view_t view;
    unsigned char *data;
    unsigned char entry[40] = {0};
    crti_msg_free_t freed = {.objects = crti_span(entry, sizeof(entry))};

    start_both(s);
    a = attach_store(s, 0);
    b = attach_store(s, 1);
    object = (crti_object_id_t){s->drivers[0].process, 1};
    missing = (crti_object_id_t){s->drivers[0].process, 2};
    assert_int_equal(crti_store_create(a, object, SIZE, (void **)&data), CRT_OK);
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (unsigned char)(i * 7 + i / 4096);
    assert_int_equal(crti_store_seal(a, object, true), CRT_OK);
    pull(s, 1, object, SIZE, 0, 81);
    pull(s, 1, object, SIZE, 0, 82);
    scene_wait(s, CRTI_MSG_DONE);
    scene_wait(s, CRTI_MSG_DONE);
    assert_int_equal(crti_store_get(b, object, &view), CRT_OK);
    assert_int_equal(view.size, SIZE);
    for (size_t i = 0; i < SIZE; i++)
        if (((const unsigned char *)view.data)[i] != (unsigned char)(i * 7 + i / 4096))
            fail_msg("byte %zu differs", i);
    crti_store_release(b, &view);
    pull(s, 1, missing, 100, 0, 83);
    assert_int_equal(scene_wait(s, CRTI_MSG_ERROR)->error.status, CRT_ERR_OBJECT_LOST);
    /* Its owner frees it everywhere, by its own node. */
    crti_id_pack(object.owner, entry);
    entry[23] = 1;
    crti_id_pack(s->nodes[1].id, entry + 24);
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_FREE, 0, &freed);
    while (crti_store_contains(b, object))
        scene_turn(s, 2);
    crti_store_detach(a);
    crti_store_detach(b);
}

static void an_object_is_pulled_from_the_node_that_has_it(void **state)
{
    pull_one_object(state);
}

static void
an_object_is_pulled_without_encryption_where_the_cluster_has_none(void **state)
{
    ((scene_t *)*state)->plain = true;
    pull_one_object(state);
}

static void an_object_of_a_node_not_heard_of_yet_is_pulled_when_it_is(void **state)
{
    scene_t *s = *state;
    crti_msg_error_t none = {.status = CRT_ERR_NODE_LOST, .text = crti_str("no such")};
    crti_object_id_t object;
    crti_store_t *a;

    scene_start_node(s, 0, NULL);
    scene_start_node(s, 1, NULL);
    scene_attach(s, 0, 0);
    scene_attach(s, 1, 1);
    a = attach_store(s, 0);
    object = (crti_object_id_t){s->drivers[0].process, 1};
    make_object(a, object, 1000);
    crti_store_detach(a);
    pull(s, 1, object, 1000, 0, 81);
    tell_view(s, 1, scene_wait(s, CRTI_MSG_NODE_FIND)->request, 0);
    assert_int_equal(scene_wait(s, CRTI_MSG_DONE)->request, 81);
    object.number = 2;
    s->nodes[0].id.low ^= 1; /* no such node */
    pull(s, 1, object, 1000, 0, 82);
    scene_head_send(s, 1, CRTI_MSG_ERROR, scene_wait(s, CRTI_MSG_NODE_FIND)->request,
                    &none);
    assert_int_equal(scene_wait(s, CRTI_MSG_ERROR)->error.status, CRT_ERR_OBJECT_LOST);
    s->nodes[0].id.low ^= 1;
}

static crti_object_id_t seal_for(crti_store_t *store, crti_id_t owner)
{
    crti_object_id_t object = {owner, 1};

    make_object(store, object, 1000);
    return object;
}

static void await_drop(scene_t *s, crti_store_t *store, crti_object_id_t object)
{
    uint64_t deadline = crti_now_ns() + 20 * CRTI_S;

    while (crti_store_contains(store, object)) {
        assert_true(crti_now_ns() < deadline);
        scene_turn(s, 2);
    }
}

/* A worker may seal a result when its owner is dead already, and words get lost. */
static void no_object_stays_longer_than_its_owner(void **state)
{
    scene_t *s = *state;
    crti_id_t gone_node = {9, 9};
    crti_msg_node_died_t gone = {.node = gone_node, .text = crti_str("silent")};
    crti_object_id_t of_ended, of_ended_there, of_living, of_node;
    crti_store_t *store;

    start_both(s);
    store = attach_store(s, 1);
    of_ended = seal_for(store, crti_id_of_node(s->nodes[1].id));
    of_ended_there = seal_for(store, crti_id_of_node(s->nodes[0].id));
    of_living = seal_for(store, s->drivers[0].process);
    of_node = seal_for(store, crti_id_of_node(gone_node));
    await_drop(s, store, of_ended);
    await_drop(s, store, of_ended_there);
    assert_true(crti_store_contains(store, of_node)); /* not heard of, not gone */
    scene_head_send(s, 1, CRTI_MSG_NODE_DIED, 0, &gone);
    await_drop(s, store, of_node);
    of_node = seal_for(store, crti_id_of_node(gone_node));
    await_drop(s, store, of_node);
    assert_true(crti_store_contains(store, of_living));
    scene_detach(s, 0);
    await_drop(s, store, of_living);
    crti_store_detach(store);
}

/* A node that the test plays: it takes WATCH and never says anything by itself; who wants an object
 * or a program is cut off. */
typedef struct mute {
    crti_id_t id;
    crti_stream_listener_t *listener;
    char endpoint[64];
    int watches, links, gets;
} mute_t;

static void on_mute_message(void *user, crti_stream_t *stream, const crti_message_t *m)
{
    mute_t *mute = user;
    crti_msg_node_hello_t hello = {.protocol = CRTI_PROTOCOL_VERSION, .node = mute->id};

    if (m->kind == CRTI_MSG_NODE_HELLO)
        crti_stream_send(stream, CRTI_MSG_NODE_HELLO, 0, &hello);
    else if (m->kind == CRTI_MSG_WATCH)
        mute->watches++;
    else if (m->kind == CRTI_MSG_OBJECT_GET || m->kind == CRTI_MSG_PROGRAM_GET) {
        mute->gets++;
        mute->links--;
        crti_stream_free(stream);
    }
}

static void on_mute_closed(void *user, crti_stream_t *stream, crt_status_t status,
                           const char *text)
{
    ((mute_t *)user)->links--;
    crti_stream_free(stream);
}

static void on_mute_accept(void *user, crti_stream_t *stream)
{
    crti_stream_handlers_t handlers = {
        .user = user, .on_message = on_mute_message, .on_closed = on_mute_closed};

    ((mute_t *)user)->links++;
    crti_stream_set_handlers(stream, &handlers);
}

/* A connection to this address fails at once: TCP has no broadcast. */
#define NOWHERE "255.255.255.255:1"

static void tell_where(scene_t *s, const mute_t *mute, const char *endpoint)
{
    crti_msg_node_view_t view = {.node = mute->id, .endpoint = crti_str(endpoint)};

    scene_send_view(s, 1, &view);
}

/* Node 1 knows it, and driver 1 is there. */
static void begin_mute(scene_t *s, mute_t *mute)
{
    assert_int_equal(crti_stream_listen(s->loop, s->context, "127.0.0.1", 0,
                                        on_mute_accept, mute, &mute->listener),
                     CRT_OK);
    snprintf(mute->endpoint, sizeof(mute->endpoint), "127.0.0.1:%u",
             (unsigned)crti_stream_listener_port(mute->listener));
    scene_start_node(s, 1, NULL);
    scene_attach(s, 1, 1);
    tell_where(s, mute, mute->endpoint);
}

static void end_mute(scene_t *s, mute_t *mute)
{
    scene_stop_node(s, 1, SIGTERM);
    crti_stream_listener_free(mute->listener);
    while (mute->links)
        scene_turn(s, 2);
}

static void await_count(scene_t *s, const int *count, int wanted)
{
    uint64_t end = crti_now_ns() + 40 * CRTI_S;

    while (*count < wanted) {
        assert_true(crti_now_ns() < end);
        scene_turn(s, 20);
    }
}

/* The word of a death is lost when the link that it came by breaks, and the next break may take
 * that of the head along. */
static void a_process_elsewhere_is_asked_after_again_and_again(void **state)
{
    scene_t *s = *state;
    mute_t mute = {.id = {5, 5}};
    crti_object_id_t object;
    crti_store_t *store;

    begin_mute(s, &mute);
    store = attach_store(s, 1);
    object = seal_for(store, crti_id_of_node(mute.id));
    await_count(s, &mute.watches, 2);
    assert_true(crti_store_contains(store, object));
    crti_store_detach(store);
    end_mute(s, &mute);
}

static void pass_time(scene_t *s, uint64_t ms)
{
    for (uint64_t end = crti_now_ns() + ms * CRTI_MS; crti_now_ns() < end;)
        scene_turn(s, 20);
}

static void pull_of_mute(scene_t *s, const mute_t *mute)
{
    crti_msg_pull_t pull_body = {.object = {crti_id_of_node(mute->id), 1}, .size = 1000};
    unsigned char node[16];

    crti_id_pack(mute->id, node);
    pull_body.nodes = crti_span(node, sizeof(node));
    crti_channel_send(s->drivers[1].channel, CRTI_MSG_PULL, 91, &pull_body);
}

static void a_pull_that_is_tried_again_ends_with_who_wanted_it(void **state)
{
    enum { REST = 3 }; /* tries that may be under way when it ends */
    scene_t *s = *state;
    mute_t mute = {.id = {5, 5}};
    int before;

    begin_mute(s, &mute);
    pull_of_mute(s, &mute);
    await_count(s, &mute.gets, 3);
    pass_time(s, 80); /* the next try comes later than that */
    s->drivers[1].dies = true;
    scene_detach(s, 1);
    before = mute.gets;
    pass_time(s, 2000);
    assert_in_range(mute.gets, before, before + REST);
    end_mute(s, &mute);
}

static void a_pull_from_where_no_connection_can_be_made_is_tried_again(void **state)
{
    scene_t *s = *state;
    mute_t mute = {.id = {5, 5}};
    crti_msg_node_died_t gone = {.node = mute.id, .text = crti_str("it was killed")};

    begin_mute(s, &mute);
    tell_where(s, &mute, NOWHERE);
    pull_of_mute(s, &mute);
    pass_time(s, 500);
    assert_false(scene_seen(s, CRTI_MSG_ERROR));
    tell_where(s, &mute, mute.endpoint);
    await_count(s, &mute.gets, 1);
    tell_where(s, &mute, NOWHERE);
    pass_time(s, 500);
    assert_false(scene_seen(s, CRTI_MSG_ERROR));
    scene_head_send(s, 1, CRTI_MSG_NODE_DIED, 0, &gone);
    assert_int_equal(scene_wait(s, CRTI_MSG_ERROR)->error.status, CRT_ERR_OBJECT_LOST);
    end_mute(s, &mute);
}

/* Actor 1, as request 77, of a job whose program that node has. */
static void start_of_mute(scene_t *s, const mute_t *mute)
{
    crti_msg_actor_start_t start = node_test_actor_start(s, 1);
    crti_msg_job_info_t info = {
        .job = {9, 9},
        .driver_node = mute->id,
        .program = crti_str("/gone/on/this/node"),
        .sha = crti_str("00112233445566778899aabbccddeeff"
                        "00112233445566778899aabbccddeeff"),
        .directory = crti_str("/no/such/directory"),
    };
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t argv = {0};

    crti_list_pack(&argv, "program", 7);
    info.argv = crti_span(argv.data, argv.size);
    start.job = info.job;
    scene_head_send(s, 1, CRTI_MSG_ACTOR_START, 77, &start);
    scene_head_send(s, 1, CRTI_MSG_JOB_INFO, scene_wait(s, CRTI_MSG_JOB_GET)->request,
                    &info);
}

static void mute_dies(scene_t *s, mute_t *mute)
{
    crti_msg_node_died_t gone = {.node = mute->id, .text = crti_str("it was killed")};
    const crti_message_t *m;

    scene_head_send(s, 1, CRTI_MSG_NODE_DIED, 0, &gone);
    m = scene_wait(s, CRTI_MSG_ERROR);
    assert_int_equal(m->request, 77);
    assert_int_equal(m->error.status, CRT_ERR_NOT_FOUND);
    assert_true(node_test_contains(m->error.text, "the program can't be fetched"));
    end_mute(s, mute);
}

static void a_program_is_asked_for_until_its_node_is_dead(void **state)
{
    scene_t *s = *state;
    mute_t mute = {.id = {5, 5}};

    begin_mute(s, &mute);
    start_of_mute(s, &mute);
    await_count(s, &mute.gets, 3);
    mute_dies(s, &mute);
}

static void a_program_is_asked_for_again_when_no_connection_can_be_made(void **state)
{
    scene_t *s = *state;
    mute_t mute = {.id = {5, 5}};

    begin_mute(s, &mute);
    tell_where(s, &mute, NOWHERE);
    start_of_mute(s, &mute);
    pass_time(s, 500);
    assert_false(scene_seen(s, CRTI_MSG_ERROR));
    tell_where(s, &mute, mute.endpoint);
    await_count(s, &mute.gets, 1);
    tell_where(s, &mute, NOWHERE);
    pass_time(s, 500);
    assert_false(scene_seen(s, CRTI_MSG_ERROR));
    mute_dies(s, &mute);
}

static void a_source_that_dies_in_the_middle_fails_the_pull(void **state)
{
    enum { SIZE = 40 << 20 };
    scene_t *s = *state;
    crti_object_id_t object;
    crti_msg_node_died_t gone = {.text = crti_str("it was killed")};
    crti_store_t *a;

    start_both(s);
    a = attach_store(s, 0);
    object = (crti_object_id_t){s->drivers[0].process, 1};
    make_object(a, object, SIZE);
    crti_store_detach(a);
    kill(s->nodes[0].pid, SIGSTOP); /* it will not send a byte */
    pull(s, 1, object, SIZE, 0, 81);
    scene_turn(s, 20);
    scene_stop_node(s, 0, SIGKILL);
    /* That it can't be reached does not mean that it is gone: the head knows. */
    gone.node = s->nodes[0].id;
    scene_turn(s, 500);
    scene_head_send(s, 1, CRTI_MSG_NODE_DIED, 0, &gone);
    assert_int_equal(scene_wait(s, CRTI_MSG_ERROR)->error.status, CRT_ERR_OBJECT_LOST);
}

/* To find out that there is none, all objects are looked at: not for each of those who wait. */
static void a_thousand_pulls_wait_for_room_and_cost_little(void **state)
{
    enum { SMALL = 40000, PULLS = 1000, SIZE = 8 << 20 };
    scene_t *s = *state;
    crti_object_id_t object;
    crti_store_t *store;
    double since;

    start_both(s);
    store = attach_store(s, 1);
    object = (crti_object_id_t){s->drivers[1].process, 1};
    make_object(store, object, 52 << 20);
    for (uint64_t i = 0; i < SMALL; i++) {
        object.number++;
        make_object(store, object, 64);
    }
    since = node_test_cpu_seconds(s->nodes[1].pid);
    for (uint64_t i = 0; i < PULLS; i++)
        pull(s, 1, (crti_object_id_t){s->drivers[0].process, 1 + i}, SIZE, 0, 1000 + i);
    scene_turn(s, 500);
    scene_lease(s, 1, 1);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
    assert_true(node_test_cpu_seconds(s->nodes[1].pid) - since < 1);
    crti_store_detach(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NODE_TEST(a_process_of_a_node_not_heard_of_yet_is_not_gone),
        NODE_TEST(a_view_that_comes_by_itself_ends_the_search_for_a_node),
        NODE_TEST(a_request_without_room_goes_to_another_node_and_back),
        NODE_TEST(a_program_is_fetched_when_its_file_server_does_not_answer),
        NODE_TEST(a_fifo_in_the_place_of_a_program_keeps_nobody),
        NODE_TEST(a_request_of_a_job_that_has_ended_is_cancelled),
        NODE_TEST(a_request_at_a_node_that_dies_comes_back),
        NODE_TEST(a_lease_given_back_is_told_again_when_the_link_broke),
        NODE_TEST(workers_of_an_owner_that_died_elsewhere_end),
        NODE_TEST(an_object_is_pulled_from_the_node_that_has_it),
        NODE_TEST(an_object_is_pulled_without_encryption_where_the_cluster_has_none),
        NODE_TEST(an_object_of_a_node_not_heard_of_yet_is_pulled_when_it_is),
        NODE_TEST(no_object_stays_longer_than_its_owner),
        NODE_TEST(a_process_elsewhere_is_asked_after_again_and_again),
        NODE_TEST(a_pull_that_is_tried_again_ends_with_who_wanted_it),
        NODE_TEST(a_pull_from_where_no_connection_can_be_made_is_tried_again),
        NODE_TEST(a_program_is_asked_for_until_its_node_is_dead),
        NODE_TEST(a_program_is_asked_for_again_when_no_connection_can_be_made),
        NODE_TEST(a_source_that_dies_in_the_middle_fails_the_pull),
        NODE_TEST(a_thousand_pulls_wait_for_room_and_cost_little),
    };

    return node_test_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
