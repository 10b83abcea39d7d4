/* SPDX-License-Identifier: Apache-2.0 */
/* The node daemon as a process, with a head that the test plays. */
#include "scene.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/rundir.h"
#include "runtime/store/store.h"

static int setup(void **state)
{
    scene_t *s = calloc(1, sizeof(*s));

    scene_begin(s);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    scene_end(*state);
    free(*state);
    return 0;
}

static bool contains(crti_span_t text, const char *part)
{
    return memmem(text.data, text.size, part, strlen(part)) != NULL;
}

static void return_lease(scene_t *s, int d, crti_id_t lease, crti_id_t node)
{
    crti_msg_lease_return_t back = {.lease = lease, .node = node};

    assert_int_equal(
        crti_channel_send(s->drivers[d].channel, CRTI_MSG_LEASE_RETURN, 0, &back),
        CRT_OK);
}

static crti_msg_actor_start_t actor_start(scene_t *s, uint64_t number)
{
    crti_msg_actor_start_t start = {.actor = {6, number},
                                    .actor_incarnation = 1,
                                    .job = s->drivers[0].job,
                                    .class_name = crti_str("Counter"),
                                    .name = crti_str(""),
                                    .creation = crti_str("args")};

    return start;
}

/* ---------------------------------------------------------------- start and stop */

static void a_node_registers_says_ready_and_leaves_nothing_behind(void **state)
{
    scene_t *s = *state;
    const crti_msg_node_register_t *r;
    CRTI_AUTO(free) char *info = NULL;
    char path[300], value[200];
    struct stat st;

    scene_start_node(s, 0,
                     (const char *[]){"--num-cpus", "3", "--resources", "x=2", NULL});
    r = &scene_wait(s, CRTI_MSG_NODE_REGISTER)->node_register;
    assert_int_equal(crti_resources_get(&r->resources, "CPU"), 30000);
    assert_int_equal(crti_resources_get(&r->resources, "x"), 20000);
    assert_int_equal(r->pid, s->nodes[0].pid);
    assert_true(crti_str_equal(r->ip, "127.0.0.1"));
    snprintf(path, sizeof(path), "%s/node.info", s->nodes[0].run_dir);
    assert_int_equal(crti_info_read(path, &info), CRT_OK);
    assert_int_equal(crti_info_int(info, "pid"), s->nodes[0].pid);
    assert_string_equal(crti_info_get(info, "address", value, sizeof(value)), s->address);
    snprintf(path, sizeof(path), "%s/node.sock", s->nodes[0].run_dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(scene_stop_node(s, 0, SIGTERM), 0);
    scene_wait(s, CRTI_MSG_NODE_LEAVE);
    assert_int_not_equal(stat(s->nodes[0].run_dir, &st), 0);
}

static void every_failure_before_ready_is_one_sentence(void **state)
{
    scene_t *s = *state;
    char line[400], other[128];
    crti_key_t key;

    scene_start_fails(s, (const char *[]){"--num-cpus", "many", NULL}, line,
                      sizeof(line));
    assert_string_equal(line, "error --num-cpus \"many\" is not a number of CPUs\n");
    scene_start_fails(s, (const char *[]){"--nonsense", NULL}, line, sizeof(line));
    assert_non_null(strstr(line, "--nonsense"));
    scene_start_fails(s, (const char *[]){"--key-file", "/no/such/key", NULL}, line,
                      sizeof(line));
    assert_non_null(strstr(line, "/no/such/key"));
    snprintf(other, sizeof(other), "%s/other", s->dir);
    assert_int_equal(crti_key_create(other, &key), CRT_OK);
    scene_start_fails(s, (const char *[]){"--key-file", other, NULL}, line, sizeof(line));
    assert_non_null(strstr(line, "does not take this node"));
    scene_start_fails(s,
                      (const char *[]){"--object-store-memory", "900000000000000", NULL},
                      line, sizeof(line));
    assert_int_equal(strncmp(line, "error ", 6), 0);
    assert_null(strchr(line, '\n')[1] ? line : NULL);
}

static void a_head_that_is_not_there_is_named(void **state)
{
    scene_t *s = *state;
    char line[400];

    scene_head_down(s);
    scene_start_fails(s, NULL, line, sizeof(line));
    assert_non_null(strstr(line, s->address));
    assert_non_null(strstr(line, "can't be reached"));
    scene_head_up(s);
}

static void the_end_of_the_lifeline_ends_the_node(void **state)
{
    scene_t *s = *state;
    int status;

    scene_start_node(s, 0, NULL);
    close(s->nodes[0].lifeline);
    while (waitpid(s->nodes[0].pid, &status, WNOHANG) == 0)
        scene_turn(s, 2);
    assert_int_equal(status, 0);
    s->nodes[0].pid = 0;
}

static double cpu_seconds(pid_t pid)
{
    char path[64], line[1024], *at;
    unsigned long user = 0, system = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    at = strrchr(line, ')');
    assert_int_equal(sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                            &user, &system),
                     2);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static void an_idle_node_uses_no_processor(void **state)
{
    scene_t *s = *state;
    uint64_t end;
    double before;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
    before = cpu_seconds(s->nodes[0].pid);
    for (end = crti_now_ns() + 2 * CRTI_S; crti_now_ns() < end;)
        scene_turn(s, 100);
    assert_true(cpu_seconds(s->nodes[0].pid) - before < 0.2);
}

/* ---------------------------------------------------------------- leases */

static void a_lease_gives_a_forked_worker_and_takes_it_again(void **state)
{
    scene_t *s = *state;
    const crti_msg_lease_granted_t *granted;
    const crti_msg_log_t *log;
    crti_id_t lease;
    pid_t first;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    assert_true(s->drivers[0].slot > 0);
    lease = scene_lease(s, 0, 1);
    granted = &scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted;
    assert_true(crti_id_equal(granted->lease, lease));
    assert_int_equal(granted->incarnation, 77);
    first = scene_pid(granted);
    assert_true(scene_is_alive(first));
    assert_int_equal(getpgid(first), first);
    log = &scene_wait(s, CRTI_MSG_LOG)->log;
    assert_true(crti_str_equal(log->lines, "hello from fork\n"));
    assert_true(contains(log->prefix, "(work pid="));
    return_lease(s, 0, lease, s->nodes[0].id);
    scene_lease(s, 0, 1);
    granted = &scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted;
    assert_int_equal(scene_pid(granted), first); /* it was kept */
}

static void requests_beyond_the_node_wait_and_hear_why(void **state)
{
    scene_t *s = *state;
    const crti_msg_lease_waiting_t *waiting;
    crti_id_t first;

    scene_start_node(s, 0, (const char *[]){"--num-cpus", "2", NULL});
    scene_attach(s, 0, 0);
    first = scene_lease(s, 0, 2);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
    scene_lease(s, 0, 3);
    waiting = &scene_wait(s, CRTI_MSG_LEASE_WAITING)->lease_waiting;
    assert_true(crti_str_equal(waiting->text, "needs 3 CPU, the cluster has 2 CPU"));
    scene_lease(s, 0, 1);
    waiting = &scene_wait(s, CRTI_MSG_LEASE_WAITING)->lease_waiting;
    assert_true(crti_str_equal(waiting->text, "needs 1 CPU, all in use"));
    return_lease(s, 0, first, (crti_id_t){0});
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
}

static void a_cancelled_request_is_answered_and_its_room_is_free(void **state)
{
    scene_t *s = *state;
    crti_msg_lease_cancel_t cancel = {0};
    crti_id_t lease;

    scene_start_node(s, 0, (const char *[]){"--num-cpus", "1", NULL});
    scene_attach(s, 0, 0);
    lease = scene_lease(s, 0, 1);
    cancel.lease = lease;
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_LEASE_CANCEL, 0, &cancel);
    assert_int_equal(scene_wait(s, CRTI_MSG_ERROR)->error.status, CRT_ERR_CANCELLED);
    scene_lease(s, 0, 1);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
}

static void a_program_with_threads_is_executed_per_worker_with_a_warning(void **state)
{
    scene_t *s = *state;
    const crti_msg_log_t *log;

    s->mode = "threads";
    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    log = &scene_wait(s, CRTI_MSG_LOG)->log;
    assert_true(contains(log->lines, "2 threads run"));
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
    log = &scene_wait(s, CRTI_MSG_LOG)->log;
    assert_true(crti_str_equal(log->lines, "hello from threads\n"));
}

static void a_program_that_ends_early_fails_the_lease_with_its_last_words(void **state)
{
    scene_t *s = *state;
    const crti_msg_error_t *error;

    s->mode = "early";
    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    for (int i = 0; i < 2; i++) { /* the second request tries again */
        scene_lease(s, 0, 1);
        error = &scene_wait(s, CRTI_MSG_ERROR)->error;
        assert_true(contains(error->text, "exited with status 3"));
        assert_true(contains(error->text, "I do not feel well"));
    }
}

static void a_worker_of_another_version_is_one_clear_error(void **state)
{
    scene_t *s = *state;
    const crti_msg_error_t *error;

    s->mode = "old";
    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    error = &scene_wait(s, CRTI_MSG_ERROR)->error;
    assert_true(contains(error->text, "protocol"));
}

static void a_limit_that_is_reached_is_named(void **state)
{
    scene_t *s = *state;

    s->file_limit = 90;
    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    for (int i = 0; i < 30 && !scene_seen(s, CRTI_MSG_ERROR); i++) {
        scene_lease(s, 0, 0);
        scene_count(s, CRTI_MSG_LEASE_GRANTED, 300, 1);
    }
    assert_true(contains(scene_wait(s, CRTI_MSG_ERROR)->error.text, "(ulimit -n)"));
}

/* A copy of this program, spoilt, in the content cache; answers JOB_GET with it. */
static void serve_spoilt_program(scene_t *s, const char *part, const char *spoilt)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t argv = {0};
    crti_msg_actor_start_t start = actor_start(s, 1);
    crti_msg_job_info_t info;
    const crti_message_t *get;
    char path[300], sha[65];
    size_t size;
    char *bytes = scene_read_program(&size), *at;
    FILE *file;

    at = part ? memmem(bytes, size, part, strlen(part)) : bytes + 18; /* e_machine */
    assert_non_null(at);
    memcpy(at, spoilt, part ? strlen(spoilt) : 1);
    scene_sha(bytes, size, sha);
    snprintf(path, sizeof(path), "%s/programs", s->dir);
    assert_int_equal(crti_dir_make(path), CRT_OK);
    snprintf(path, sizeof(path), "%s/programs/%s", s->dir, sha);
    file = fopen(path, "we");
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    chmod(path, 0700);
    free(bytes);
    start.job = start.actor = crti_id_random();
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 31, &start);
    get = scene_wait(s, CRTI_MSG_JOB_GET);
    crti_list_pack(&argv, "program", 7);
    info = (crti_msg_job_info_t){.job = start.job,
                                 .driver = {1, 1},
                                 .driver_node = {1, 2},
                                 .program = crti_str("/no/such/file"),
                                 .sha = crti_str(sha),
                                 .argv = crti_span(argv.data, argv.size)};
    scene_head_send(s, 0, CRTI_MSG_JOB_INFO, get->request, &info);
}

static void a_missing_library_and_a_wrong_processor_are_one_clear_error(void **state)
{
    scene_t *s = *state;
    const crti_msg_error_t *error;

    scene_start_node(s, 0, NULL);
    serve_spoilt_program(s, "libsodium.so", "libabsent.so");
    error = &scene_wait(s, CRTI_MSG_ERROR)->error;
    assert_true(contains(error->text, "error while loading shared libraries: libabsent"));
    serve_spoilt_program(s, NULL, "\x28");
    error = &scene_wait(s, CRTI_MSG_ERROR)->error;
    assert_true(contains(error->text, "is not a program for this node's processor"));
}

/* ---------------------------------------------------------------- deaths */

static void a_killed_worker_is_reported_with_signal_method_and_last_lines(void **state)
{
    scene_t *s = *state;
    const crti_msg_lease_granted_t *granted;
    const crti_msg_peer_died_t *died;
    uint64_t begin;
    pid_t pid;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    granted = &scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted;
    scene_wait(s, CRTI_MSG_LOG);
    pid = scene_pid(granted);
    begin = crti_now_ns();
    kill(pid, SIGABRT);
    died = &scene_wait(s, CRTI_MSG_PEER_DIED)->peer_died;
    print_message("death report after %.2f ms\n", (double)(crti_now_ns() - begin) / 1e6);
    assert_true(crti_id_equal(died->process, granted->process));
    assert_int_equal(died->status, CRT_ERR_WORKER_DIED);
    print_message("%.*s\n", (int)died->text.size, (const char *)died->text.data);
    assert_true(contains(died->text, "killed by signal 6 (Aborted) in task.run"));
    assert_true(contains(died->text, "last output: hello from fork"));
    scene_wait(s,
               CRTI_MSG_PEER_DIED); /* the driver, without having asked; and the head */
    assert_int_equal(scene_count(s, CRTI_MSG_PEER_DIED, 50, 1), 0);
}

static void grandchildren_end_with_their_worker_and_do_not_delay_the_report(void **state)
{
    scene_t *s = *state;
    const crti_msg_lease_granted_t *granted;
    const crti_msg_peer_died_t *died;
    pid_t pid;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    granted = &scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted;
    scene_wait(s, CRTI_MSG_LOG);
    pid = scene_pid(granted);
    kill(pid, SIGUSR1);
    assert_true(crti_str_equal(scene_wait(s, CRTI_MSG_LOG)->log.lines, "on demand\n"));
    while (scene_processes(s, 0) < 3) /* zygote, worker, grandchild */
        scene_turn(s, 2);
    kill(pid, SIGKILL);
    died = &scene_wait(s, CRTI_MSG_PEER_DIED)->peer_died;
    assert_true(contains(died->text, "killed by signal 9"));
    assert_true(contains(died->text, "hello from fork | on demand"));
    while (scene_processes(s, 0) > 1)
        scene_turn(s, 2);
}

static void a_driver_that_leaves_takes_its_workers_along(void **state)
{
    scene_t *s = *state;
    const crti_msg_job_end_t *end;
    pid_t pid;

    scene_start_node(s, 0, NULL);
    for (int i = 0; i < 2; i++) { /* on purpose, and without a word */
        scene_attach(s, 0, 0);
        scene_lease(s, 0, 1);
        pid = scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted);
        s->drivers[0].dies = i == 1;
        scene_detach(s, 0);
        scene_wait_gone(s, pid);
        end = &scene_wait(s, CRTI_MSG_JOB_END)->job_end;
        assert_true(crti_id_equal(end->job, s->drivers[0].job));
        assert_int_equal(end->text.size > 0, i == 1);
        while (scene_processes(s, 0) > 0) /* the zygote too */
            scene_turn(s, 2);
    }
}

static void a_killed_daemon_takes_its_zygotes_and_workers_along(void **state)
{
    scene_t *s = *state;
    uint64_t begin;
    pid_t pid;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    pid = scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted);
    begin = crti_now_ns();
    scene_stop_node(s, 0, SIGKILL);
    scene_wait_gone(s, pid);
    while (scene_processes(s, 0) > 0)
        scene_turn(s, 2);
    assert_true(crti_now_ns() - begin < 5 * CRTI_S);
}

static void a_watched_process_that_is_gone_already_is_told_at_once(void **state)
{
    scene_t *s = *state;
    crti_msg_watch_t watch = {.process = {1, 2}, .incarnation = 3};

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    watch.node = s->nodes[0].id;
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_WATCH, 0, &watch);
    assert_true(crti_id_equal(scene_wait(s, CRTI_MSG_PEER_DIED)->peer_died.process,
                              watch.process));
}

static void a_process_of_a_node_that_the_head_does_not_know_is_gone(void **state)
{
    scene_t *s = *state;
    crti_msg_watch_t watch = {.process = {1, 2}, .incarnation = 3, .node = {8, 8}};
    crti_msg_error_t none = {.status = CRT_ERR_NODE_LOST, .text = crti_str("no such")};
    const crti_msg_peer_died_t *died;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_WATCH, 0, &watch);
    scene_wait(s, CRTI_MSG_NODE_FIND);
    scene_head_down(s); /* before the answer: the question is asked again */
    scene_head_up(s);
    scene_head_send(s, 0, CRTI_MSG_ERROR, scene_wait(s, CRTI_MSG_NODE_FIND)->request,
                    &none);
    died = &scene_wait(s, CRTI_MSG_PEER_DIED)->peer_died;
    assert_true(crti_id_equal(died->process, watch.process));
    assert_int_equal(died->incarnation, 3);
    assert_int_equal(died->status, CRT_ERR_NODE_LOST);
    assert_true(crti_str_equal(died->text, "no such"));
}

static void garbage_on_the_socket_costs_nobody_else_anything(void **state)
{
    scene_t *s = *state;
    crti_channel_handlers_t none = {0};
    crti_channel_t *stranger;
    char path[300];
    pid_t pid;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    pid = scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted);
    snprintf(path, sizeof(path), "%s/node.sock", s->nodes[0].run_dir);
    for (int i = 0; i < 2; i++) {
        crti_msg_attach_t attach = {.protocol = i ? 99 : CRTI_PROTOCOL_VERSION,
                                    .role = CRTI_ROLE_DRIVER,
                                    .process = {1, 1},
                                    .incarnation = 1,
                                    .pid = 1};
        CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
        crti_message_t answer;

        assert_int_equal(
            crti_channel_connect(path, crti_now_ns() + CRTI_S, &none, &stranger), CRT_OK);
        assert_int_equal(crti_channel_request(stranger, CRTI_MSG_ATTACH, &attach,
                                              crti_now_ns() + 5 * CRTI_S, &answer,
                                              &storage, NULL, NULL),
                         i ? CRT_ERR_PROTOCOL : CRT_ERR_PERMISSION);
        if (send(crti_channel_fd(stranger), "\xff\xff\xff\xffgarbage", 11, MSG_NOSIGNAL) <
            0)
            fail();
        crti_channel_free(stranger);
    }
    scene_lease(s, 0, 0.5);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
    assert_true(scene_is_alive(pid));
}

/* What the link takes; the rest would only close it, which the end of the round does. */
static void send_on_channel(void *user, crti_message_kind_t kind, uint64_t request,
                            const void *body)
{
    if (kind != CRTI_MSG_ATTACH && kind > CRTI_MSG_ATTACHED &&
        kind < CRTI_MSG_ZYGOTE_READY && kind != CRTI_MSG_LEASE_GRANTED &&
        kind != CRTI_MSG_LEASE_WAITING && kind != CRTI_MSG_PEER_DIED &&
        kind != CRTI_MSG_NODE_DIED && kind != CRTI_MSG_LOG &&
        kind != CRTI_MSG_ACTOR_STATE && kind != CRTI_MSG_KV_VALUE &&
        kind != CRTI_MSG_STATE_ANSWER && kind != CRTI_MSG_HEAD_LINK)
        crti_channel_send(user, kind, request, body);
}

static void send_on_stream(void *user, crti_message_kind_t kind, uint64_t request,
                           const void *body)
{
    static const crti_message_kind_t taken[] = {
        CRTI_MSG_LEASE_REQUEST, CRTI_MSG_LEASE_RETURN, CRTI_MSG_LEASE_CANCEL,
        CRTI_MSG_WATCH,         CRTI_MSG_UNWATCH,      CRTI_MSG_PEER_DIED,
        CRTI_MSG_FREE,          CRTI_MSG_LOG,          CRTI_MSG_OBJECT_GET,
        CRTI_MSG_PROGRAM_GET};

    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
        if (kind == taken[i])
            crti_stream_send(user, kind, request, body);
}

static void ignore_message(void *user, crti_stream_t *stream, const crti_message_t *m)
{
}

static void ignore_close(void *user, crti_stream_t *stream, crt_status_t status,
                         const char *text)
{
    *(bool *)user = true;
}

/* A process with the cluster key that talks nonsense to the node's port. */
static void talk_nonsense_as_a_node(scene_t *s, unsigned seed, bool with_hello)
{
    bool closed = false;
    crti_stream_handlers_t handlers = {
        .user = &closed, .on_message = ignore_message, .on_closed = ignore_close};
    crti_msg_node_hello_t hello = {.protocol = CRTI_PROTOCOL_VERSION, .node = {3, 3}};
    uint64_t end = crti_now_ns() + 100 * CRTI_MS;
    crti_stream_t *stream;

    assert_int_equal(crti_stream_connect(s->loop, s->context, s->nodes[0].endpoint, 5000,
                                         &handlers, &stream),
                     CRT_OK);
    if (with_hello)
        crti_stream_send(stream, CRTI_MSG_NODE_HELLO, 0, &hello);
    for (unsigned i = 0; i < 10; i++)
        scene_every_message(s, seed * 100 + i, send_on_stream, stream);
    crti_stream_send(stream, CRTI_MSG_JOB_END, 0, &(crti_msg_job_end_t){0});
    while (!closed && crti_now_ns() < end)
        scene_turn(s, 5);
    crti_stream_free(stream);
}

static void nonsense_of_every_kind_on_every_link_leaves_the_node_serving(void **state)
{
    scene_t *s = *state;
    crti_channel_handlers_t none = {0};
    char path[300];

    s->quiet = true;
    scene_start_node(s, 0, (const char *[]){"--num-cpus", "2", NULL});
    snprintf(path, sizeof(path), "%s/node.sock", s->nodes[0].run_dir);
    for (unsigned seed = 1; seed <= 8; seed++) {
        crti_channel_t *stranger;

        scene_attach(s, 0, 0);
        scene_lease(s, 0, 1);
        for (unsigned i = 0; i < 10; i++) {
            scene_every_message(s, seed * 100 + i, send_on_channel,
                                s->drivers[0].channel);
            scene_turn(s, i);
        }
        crti_channel_send(s->drivers[0].channel, CRTI_MSG_JOB_END, 0, NULL);
        assert_int_equal(
            crti_channel_connect(path, crti_now_ns() + CRTI_S, &none, &stranger), CRT_OK);
        scene_every_message(s, seed + 100, send_on_channel, stranger);
        talk_nonsense_as_a_node(s, seed, seed % 2);
        crti_channel_free(stranger);
        scene_turn(s, 20);
        scene_detach(s, 0);
    }
    s->quiet = false;
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
}

/* ---------------------------------------------------------------- actors */

static void an_actor_is_started_stopped_and_its_death_reported(void **state)
{
    scene_t *s = *state;
    crti_msg_actor_start_t start;
    const crti_msg_actor_started_t *started;
    const crti_msg_actor_died_t *died;
    crti_msg_actor_stop_t stop = {.actor_incarnation = 1, .text = crti_str("enough")};
    const crti_message_t *message;
    crti_msg_lease_granted_t granted;

    scene_start_node(s, 0, (const char *[]){"--num-cpus", "1", NULL});
    scene_attach(s, 0, 0);
    start = actor_start(s, 1);
    crti_resources_set(&start.resources, "CPU", CRTI_RESOURCE_ONE);
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 31, &start);
    message = scene_wait(s, CRTI_MSG_ACTOR_STARTED);
    assert_int_equal(message->request, 31);
    started = &message->actor_started;
    assert_true(contains(scene_wait(s, CRTI_MSG_LOG)->log.prefix, "(Counter pid="));
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 32, &start); /* again: the same answer */
    assert_int_equal(scene_wait(s, CRTI_MSG_ACTOR_STARTED)->request, 32);
    start.actor.low = 2; /* no room for another */
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 33, &start);
    message = scene_wait(s, CRTI_MSG_ERROR);
    assert_int_equal(message->request, 33);
    assert_int_equal(message->error.status, CRT_ERR_BACKPRESSURE);
    granted.ipc = started->ipc;
    kill(scene_pid(&granted), SIGKILL);
    died = &scene_wait(s, CRTI_MSG_ACTOR_DIED)->actor_died;
    assert_true(died->created);
    assert_int_equal(died->status, CRT_ERR_ACTOR_DIED);
    assert_true(contains(died->text, "(Counter, pid"));
    assert_true(contains(died->text, "in Counter.run"));
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 34, &start); /* its room is free again */
    scene_wait(s, CRTI_MSG_ACTOR_STARTED);
    stop.actor = start.actor;
    scene_head_send(s, 0, CRTI_MSG_ACTOR_STOP, 35, &stop);
    assert_int_equal(scene_wait(s, CRTI_MSG_DONE)->request, 35);
    died = &scene_wait(s, CRTI_MSG_ACTOR_DIED)->actor_died;
    assert_true(crti_str_equal(died->text, "enough"));
    scene_head_send(s, 0, CRTI_MSG_ACTOR_STOP, 36, &stop); /* it is gone: done as well */
    assert_int_equal(scene_wait(s, CRTI_MSG_DONE)->request, 36);
}

static void a_driver_that_leaves_hears_when_what_ran_for_it_has_ended(void **state)
{
    scene_t *s = *state;
    crti_msg_actor_start_t start;
    crti_msg_actor_stop_t stop = {.actor_incarnation = 1, .text = crti_str("job ended")};
    crti_msg_error_t ended = {.status = CRT_ERR_NOT_FOUND, .text = crti_str("has ended")};
    crti_msg_lease_granted_t granted;
    const crti_message_t *get, *done;
    pid_t pids[3];

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    pids[0] = scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted);
    for (int i = 1; i < 3; i++) { /* 1 is the driver's, 2 is detached */
        start = actor_start(s, (uint64_t)i);
        scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 30, &start);
        granted.ipc = scene_wait(s, CRTI_MSG_ACTOR_STARTED)->actor_started.ipc;
        pids[i] = scene_pid(&granted);
    }
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_SHUTDOWN, 77, NULL);
    scene_wait(s, CRTI_MSG_JOB_END);
    get = scene_wait(s, CRTI_MSG_JOB_GET);
    assert_false(scene_seen(s, CRTI_MSG_DONE));
    stop.actor = (crti_id_t){6, 1};
    scene_head_send(s, 0, CRTI_MSG_ACTOR_STOP, 35, &stop);
    scene_head_send(s, 0, CRTI_MSG_ERROR, get->request, &ended);
    do
        done = scene_wait(s, CRTI_MSG_DONE);
    while (done->request == 35);
    assert_int_equal(done->request, 77);
    assert_false(scene_is_alive(pids[0]));
    assert_false(scene_is_alive(pids[1]));
    assert_true(scene_is_alive(pids[2]));
}

static void without_a_head_a_driver_leaves_all_the_same(void **state)
{
    scene_t *s = *state;
    pid_t pid;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    pid = scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted);
    scene_head_down(s);
    assert_false(scene_wait(s, CRTI_MSG_HEAD_LINK)->head_link.up);
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_SHUTDOWN, 78, NULL);
    assert_int_equal(scene_wait(s, CRTI_MSG_DONE)->request, 78);
    assert_false(scene_is_alive(pid));
    scene_head_up(s);
}

static void a_job_that_the_head_ends_is_over_for_its_driver_too(void **state)
{
    scene_t *s = *state;
    crti_msg_job_end_t end = {.text = crti_str("deleted")};
    pid_t pid;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    pid = scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted);
    end.job = s->drivers[0].job;
    scene_head_send(s, 0, CRTI_MSG_JOB_END, 0, &end);
    assert_true(
        crti_str_equal(scene_wait(s, CRTI_MSG_SHUTDOWN)->shutdown.text, "deleted"));
    scene_wait_gone(s, pid);
    scene_lease(s, 0, 1);
    assert_true(contains(scene_wait(s, CRTI_MSG_ERROR)->error.text, "the job has ended"));
}

static void
an_actor_of_an_unknown_job_asks_the_head_and_fails_with_its_answer(void **state)
{
    scene_t *s = *state;
    crti_msg_actor_start_t start;
    crti_msg_error_t error = {.status = CRT_ERR_NOT_FOUND,
                              .text = crti_str("no such job")};
    const crti_message_t *get;

    scene_start_node(s, 0, NULL);
    start = actor_start(s, 1);
    start.job = (crti_id_t){3, 3};
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 31, &start);
    get = scene_wait(s, CRTI_MSG_JOB_GET);
    assert_true(crti_id_equal(get->job_get.job, start.job));
    scene_head_send(s, 0, CRTI_MSG_ERROR, get->request, &error);
    assert_true(contains(scene_wait(s, CRTI_MSG_ERROR)->error.text, "no such job"));
}

/* ---------------------------------------------------------------- what outlives its maker */

static void await_processes(scene_t *s, int count)
{
    uint64_t deadline = crti_now_ns() + 20 * CRTI_S;

    while (scene_processes(s, 0) != count) {
        assert_true(crti_now_ns() < deadline);
        scene_turn(s, 2);
    }
}

/* A node, a zygote, a worker, and a child of it that is a daemon of its own. */
static void start_litter(scene_t *s)
{
    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    kill(scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted), SIGUSR2);
    await_processes(s, 3);
}

static void grandchildren_end_with_a_node_that_is_killed(void **state)
{
    scene_t *s = *state;
    int fd;

    start_litter(s);
    scene_stop_node(s, 0, SIGKILL);
    await_processes(s, 0);
    for (int i = 0; crti_dir_lock(s->nodes[0].run_dir, &fd) != CRT_OK; i++) {
        assert_true(i < 10000);
        scene_turn(s, 2);
    }
    close(fd);
}

static void grandchildren_end_with_a_node_that_is_stopped(void **state)
{
    scene_t *s = *state;

    start_litter(s);
    assert_int_equal(scene_stop_node(s, 0, SIGTERM), 0);
    assert_int_equal(scene_processes(s, 0), 0);
}

/* ---------------------------------------------------------------- the head comes and goes */

static void requests_wait_for_the_head_and_running_things_are_told_again(void **state)
{
    scene_t *s = *state;
    crti_msg_actor_start_t start;
    crti_msg_kv_get_t get = {.key = crti_str("k")};
    crti_msg_kv_value_t value = {.found = true, .value = crti_str("v")};
    const crti_msg_node_register_t *r;
    const crti_message_t *m;
    uint64_t begin;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    start = actor_start(s, 1);
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 31, &start);
    scene_wait(s, CRTI_MSG_ACTOR_STARTED);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    scene_head_down(s);
    assert_false(scene_wait(s, CRTI_MSG_HEAD_LINK)->head_link.up);
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_KV_GET, 55, &get);
    scene_lease(s, 0, 1); /* needs no head */
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
    begin = crti_now_ns();
    scene_head_up(s);
    r = &scene_wait(s, CRTI_MSG_NODE_REGISTER)->node_register;
    print_message("registered again after %.0f ms\n",
                  (double)(crti_now_ns() - begin) / 1e6);
    assert_true(r->actors.size > 0 && r->jobs.size > 0);
    assert_true(scene_wait(s, CRTI_MSG_HEAD_LINK)->head_link.up);
    m = scene_wait(s, CRTI_MSG_KV_GET);
    scene_head_send(s, 0, CRTI_MSG_KV_VALUE, m->request, &value);
    m = scene_wait(s, CRTI_MSG_KV_VALUE);
    assert_int_equal(m->request, 55);
    assert_true(crti_str_equal(m->kv_value.value, "v"));
}

static void a_node_taken_for_dead_ends_its_workers_and_joins_anew(void **state)
{
    scene_t *s = *state;
    crti_msg_node_died_t died = {.text = crti_str("silent")};
    uint64_t before;
    pid_t pid;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    pid = scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted);
    before = s->nodes[0].incarnation;
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    died.node = s->nodes[0].id;
    scene_head_send(s, 0, CRTI_MSG_NODE_DIED, 0, &died);
    scene_wait_gone(s, pid);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    assert_true(s->nodes[0].incarnation > before);
    before = s->nodes[0].incarnation;
    s->refuse = true; /* or it hears it when it registers */
    scene_head_down(s);
    scene_head_up(s);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    assert_true(s->nodes[0].incarnation > before);
    scene_lease(s, 0, 1);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
}

static void a_node_without_a_head_ends_after_its_time(void **state)
{
    scene_t *s = *state;
    int status = -1;

    s->headless_ms = 300;
    scene_start_node(s, 0, NULL);
    scene_head_down(s);
    while (waitpid(s->nodes[0].pid, &status, WNOHANG) == 0)
        scene_turn(s, 5);
    assert_int_equal(status, 0);
    s->nodes[0].pid = 0;
    close(s->nodes[0].lifeline);
    scene_head_up(s);
}

static void a_silent_head_is_given_up_and_joined_anew(void **state)
{
    scene_t *s = *state;
    uint64_t begin;

    scene_start_node(s, 0, NULL);
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
    s->silent = true;
    begin = crti_now_ns();
    while (s->nodes[0].stream && crti_now_ns() - begin < 10 * CRTI_S)
        scene_turn(s, 20);
    assert_true(crti_now_ns() - begin > 4 * CRTI_S);
    assert_true(crti_now_ns() - begin < 8 * CRTI_S);
    s->silent = false;
    scene_wait(s, CRTI_MSG_NODE_REGISTER);
}

static void actor_states_reach_the_processes_that_watch(void **state)
{
    scene_t *s = *state;
    crti_msg_actor_watch_t watch = {.actor = {6, 1}};
    crti_msg_actor_state_t alive = {.actor = {6, 1}, .state = CRTI_ACTOR_ALIVE};
    crti_msg_actor_unwatch_t unwatch = {.actor = {6, 1}};
    const crti_message_t *m;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_ACTOR_WATCH, 70, &watch);
    m = scene_wait(s, CRTI_MSG_ACTOR_WATCH);
    scene_head_send(s, 0, CRTI_MSG_ACTOR_STATE, m->request, &alive);
    assert_int_equal(scene_wait(s, CRTI_MSG_ACTOR_STATE)->request, 70);
    alive.restarts = 1;
    scene_head_send(s, 0, CRTI_MSG_ACTOR_STATE, 0, &alive);
    m = scene_wait(s, CRTI_MSG_ACTOR_STATE);
    assert_int_equal(m->request, 0);
    assert_int_equal(m->actor_state.restarts, 1);
    scene_head_down(s);
    scene_head_up(s);
    m = scene_wait(s, CRTI_MSG_ACTOR_WATCH); /* asked again by itself */
    scene_head_send(s, 0, CRTI_MSG_ACTOR_STATE, m->request, &alive);
    assert_int_equal(scene_wait(s, CRTI_MSG_ACTOR_STATE)->request, 0);
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_ACTOR_UNWATCH, 0, &unwatch);
    scene_wait(s, CRTI_MSG_ACTOR_UNWATCH);
}

/* ---------------------------------------------------------------- two nodes */

static void a_request_without_room_goes_to_another_node_and_back(void **state)
{
    scene_t *s = *state;
    const crti_msg_lease_granted_t *granted;
    const crti_message_t *m;
    crti_msg_job_info_t info = {0};
    char self[4096], hex[65] = "";
    pid_t pid;

    scene_start_node(s, 0, (const char *[]){"--num-cpus", "1", NULL});
    scene_start_node(s, 1, (const char *[]){"--num-cpus", "4", NULL});
    scene_attach(s, 0, 0);
    scene_send_views(s, 4);
    scene_lease(s, 0, 2);
    m = scene_wait(s, CRTI_MSG_JOB_GET); /* the other node learns of the job */
    self[readlink("/proc/self/exe", self, sizeof(self) - 1)] = '\0';
    for (int i = 0; i < s->logged; i++) { /* what the driver's node told the head */
        const crti_message_t *add = &s->log[i].message;

        if (add->kind != CRTI_MSG_JOB_ADD)
            continue;
        crti_text(add->job_add.sha, hex, sizeof(hex));
        info = (crti_msg_job_info_t){.job = add->job_add.job,
                                     .driver = add->job_add.driver,
                                     .driver_node = add->job_add.node,
                                     .program = crti_str("/gone/on/this/node"),
                                     .sha = add->job_add.sha,
                                     .argv = add->job_add.argv,
                                     .environment = add->job_add.environment,
                                     .directory = crti_str("/no/such/directory")};
    }
    assert_true(hex[0] != '\0');
    scene_head_send(s, 1, CRTI_MSG_JOB_INFO, m->request, &info);
    granted = &scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted;
    assert_true(crti_id_equal(granted->node, s->nodes[1].id));
    pid = scene_pid(granted);
    assert_true(contains(scene_wait(s, CRTI_MSG_LOG)->log.lines, "hello from fork"));
    kill(pid, SIGKILL); /* the owner's node is told by the other one */
    assert_true(crti_id_equal(scene_wait(s, CRTI_MSG_PEER_DIED)->peer_died.process,
                              granted->process));
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
    return_lease(s, 0, first, s->nodes[0].id);
    granted = &scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted;
    assert_true(crti_id_equal(granted->lease, second));
    assert_true(crti_id_equal(granted->node, s->nodes[0].id));
}

/* What the head tells of node n when it is asked, or by itself (request 0). */
static void tell_view(scene_t *s, int to, uint64_t request, int n)
{
    crti_msg_node_view_t view = {.node = s->nodes[n].id,
                                 .endpoint = crti_str(s->nodes[n].endpoint)};

    scene_head_send(s, to, CRTI_MSG_NODE_VIEW, request, &view);
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

    scene_start_node(s, 0, NULL);
    scene_start_node(s, 1, NULL);
    scene_attach(s, 0, 0);
    scene_attach(s, 1, 1);
    scene_send_views(s, 4);
    assert_int_equal(crti_store_attach(s->drivers[0].fds[0], s->drivers[0].slot,
                                       s->drivers[0].process, &a),
                     CRT_OK);
    assert_int_equal(crti_store_attach(s->drivers[1].fds[0], s->drivers[1].slot,
                                       s->drivers[1].process, &b),
                     CRT_OK);
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
    void *data;

    scene_start_node(s, 0, NULL);
    scene_start_node(s, 1, NULL);
    scene_attach(s, 0, 0);
    scene_attach(s, 1, 1);
    assert_int_equal(crti_store_attach(s->drivers[0].fds[0], s->drivers[0].slot,
                                       s->drivers[0].process, &a),
                     CRT_OK);
    object = (crti_object_id_t){s->drivers[0].process, 1};
    assert_int_equal(crti_store_create(a, object, 1000, &data), CRT_OK);
    memset(data, 1, 1000);
    assert_int_equal(crti_store_seal(a, object, true), CRT_OK);
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

static void a_source_that_dies_in_the_middle_fails_the_pull(void **state)
{
    enum { SIZE = 40 << 20 };
    scene_t *s = *state;
    crti_object_id_t object;
    crti_store_t *a;
    void *data;

    scene_start_node(s, 0, NULL);
    scene_start_node(s, 1, NULL);
    scene_attach(s, 0, 0);
    scene_attach(s, 1, 1);
    scene_send_views(s, 4);
    assert_int_equal(crti_store_attach(s->drivers[0].fds[0], s->drivers[0].slot,
                                       s->drivers[0].process, &a),
                     CRT_OK);
    object = (crti_object_id_t){s->drivers[0].process, 1};
    assert_int_equal(crti_store_create(a, object, SIZE, &data), CRT_OK);
    memset(data, 1, SIZE);
    assert_int_equal(crti_store_seal(a, object, true), CRT_OK);
    crti_store_detach(a);
    kill(s->nodes[0].pid, SIGSTOP); /* it will not send a byte */
    pull(s, 1, object, SIZE, 0, 81);
    scene_turn(s, 20);
    scene_stop_node(s, 0, SIGKILL);
    assert_int_equal(scene_wait(s, CRTI_MSG_ERROR)->error.status, CRT_ERR_OBJECT_LOST);
}

/* ---------------------------------------------------------------- jobs and logs */

static void make_head_dir(scene_t *s, char *head_dir, size_t size)
{
    char path[200];

    snprintf(head_dir, size, "%s/head-1", s->dir);
    assert_int_equal(crti_dir_make(head_dir), CRT_OK);
    snprintf(path, sizeof(path), "%s/head.info", head_dir);
    assert_int_equal(crti_info_write(path,
                                     (const crti_info_entry_t[]){{"state_dir", head_dir},
                                                                 {"http", "1.2.3.4:5"}},
                                     2),
                     CRT_OK);
}

static void put_script(scene_t *s, const char *sha)
{
    char path[200], target[300];

    snprintf(path, sizeof(path), "%s/programs", s->dir);
    assert_int_equal(crti_dir_make(path), CRT_OK);
    snprintf(target, sizeof(target), "%s/%s", path, sha);
    assert_int_equal(symlink("/bin/sh", target), 0);
}

static void a_submitted_job_runs_is_logged_and_stopped(void **state)
{
    static const char sha[] =
        "00000000000000000000000000000000000000000000000000000000000000aa";
    scene_t *s = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t argv = {0};
    crti_msg_job_start_t start = {.submission = crti_str("sub-1"),
                                  .job = {5, 1},
                                  .entrypoint = crti_str("sh -c x"),
                                  .sha = crti_str(sha)};
    crti_msg_log_read_t read = {.name = crti_str("job:sub-1"), .limit = 10000};
    crti_msg_job_stop_t stop = {.submission = crti_str("sub-1")};
    const crti_msg_log_data_t *data;
    const crti_msg_job_exited_t *exited;
    static const char script[] = "trap '' TERM; echo $CRT_SUBMISSION; pwd; "
                                 "sleep 1000 & while :; do wait; done";
    char head_dir[128];
    uint64_t next;

    make_head_dir(s, head_dir, sizeof(head_dir));
    put_script(s, sha);
    scene_start_node(s, 0, (const char *[]){"--head-dir", head_dir, NULL});
    crti_list_pack(&argv, "sh", 2);
    crti_list_pack(&argv, "-c", 2);
    crti_list_pack(&argv, script, strlen(script));
    start.argv = crti_span(argv.data, argv.size);
    scene_head_send(s, 0, CRTI_MSG_JOB_START, 41, &start);
    assert_int_equal(scene_wait(s, CRTI_MSG_DONE)->request, 41);
    scene_head_send(s, 0, CRTI_MSG_LOG_READ, 42, &read);
    data = &scene_wait(s, CRTI_MSG_LOG_DATA)->log_data;
    assert_true(contains(data->data, "Running entrypoint for job sub-1: sh -c x\n"));
    assert_false(data->ended);
    next = data->next;
    read.wait_ms = 5000;
    for (bool found = contains(data->data, "/jobs/sub-1/cwd"); !found;) {
        read.offset = next;
        scene_head_send(s, 0, CRTI_MSG_LOG_READ, 43, &read);
        data = &scene_wait(s, CRTI_MSG_LOG_DATA)->log_data;
        next = data->next;
        found = contains(data->data, "/jobs/sub-1/cwd");
    }
    scene_head_send(s, 0, CRTI_MSG_JOB_STOP, 44, &stop);
    assert_int_equal(scene_wait(s, CRTI_MSG_DONE)->request, 44);
    exited = &scene_wait(s, CRTI_MSG_JOB_EXITED)->job_exited; /* it ignores SIGTERM */
    assert_true(WIFSIGNALED((int)exited->wait_status));
    assert_int_equal(WTERMSIG((int)exited->wait_status), SIGKILL);
    assert_true(contains(exited->text, "\nsub-1\n"));
    while (scene_processes(s, 0) > 0) /* its sleep too */
        scene_turn(s, 2);
    read.offset = next;
    scene_head_send(s, 0, CRTI_MSG_LOG_READ, 45, &read);
    data = &scene_wait(s, CRTI_MSG_LOG_DATA)->log_data;
    assert_true(data->ended);
    stop.submission = crti_str("sub-2");
    scene_head_send(s, 0, CRTI_MSG_JOB_STOP, 46, &stop);
    assert_int_equal(scene_wait(s, CRTI_MSG_ERROR)->error.status, CRT_ERR_NOT_FOUND);
}

/* Follows job "sub-1" from `offset` to its end; how many bytes came, `first` is the first line. */
static size_t follow_job(scene_t *s, uint64_t *offset, char *first, size_t size)
{
    crti_msg_log_read_t read = {
        .name = crti_str("job:sub-1"), .limit = 5000, .wait_ms = 5000};
    size_t total = 0;

    for (bool ended = false; !ended;) {
        const crti_msg_log_data_t *data;

        read.offset = *offset;
        scene_head_send(s, 0, CRTI_MSG_LOG_READ, 60, &read);
        data = &scene_wait(s, CRTI_MSG_LOG_DATA)->log_data;
        if (total == 0)
            snprintf(first, size, "%.*s",
                     (int)((const char *)memchr(data->data.data, '\n', data->data.size) -
                           (const char *)data->data.data),
                     (const char *)data->data.data);
        total += data->data.size;
        *offset = data->next;
        ended = data->ended;
    }
    return total;
}

static void a_jobs_log_beyond_its_limit_is_read_to_its_end(void **state)
{
    static const char script[] =
        "i=0; while [ $i -lt 30000 ]; do echo line $i; i=$((i+1)); done";
    static const char sha[] =
        "00000000000000000000000000000000000000000000000000000000000000aa";
    scene_t *s = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t argv = {0};
    crti_msg_job_start_t start = {.submission = crti_str("sub-1"),
                                  .job = {5, 1},
                                  .entrypoint = crti_str("sh"),
                                  .sha = crti_str(sha)};
    uint64_t followed = 0, again = 0;
    char head_dir[128], first[100];

    make_head_dir(s, head_dir, sizeof(head_dir));
    put_script(s, sha);
    setenv("CRT_LOG_LIMIT", "50000", 1);
    scene_start_node(s, 0, (const char *[]){"--head-dir", head_dir, NULL});
    unsetenv("CRT_LOG_LIMIT");
    crti_list_pack(&argv, "sh", 2);
    crti_list_pack(&argv, "-c", 2);
    crti_list_pack(&argv, script, strlen(script));
    start.argv = crti_span(argv.data, argv.size);
    scene_head_send(s, 0, CRTI_MSG_JOB_START, 41, &start);
    assert_int_equal(scene_wait(s, CRTI_MSG_DONE)->request, 41);
    follow_job(s, &followed, first, sizeof(first));
    /* 10 lines of 7 bytes, 90 of 8, ..., 20000 of 11, behind the first one */
    assert_int_equal(followed, 37 + 70 + 720 + 8100 + 90000 + 220000);
    assert_true(follow_job(s, &again, first, sizeof(first)) < 60000);
    assert_true(strncmp(first, "--- ", 4) == 0 && strstr(first, "by the log quota ---"));
    assert_int_equal(again, followed);
}

static void a_workers_log_is_read_by_its_id_after_its_death_too(void **state)
{
    scene_t *s = *state;
    const crti_msg_lease_granted_t *granted;
    crti_msg_log_read_t read = {.limit = 100};
    char hex[33];

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    granted = &scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted;
    scene_wait(s, CRTI_MSG_LOG);
    read.name = crti_str(crti_id_hex(granted->process, hex));
    scene_head_send(s, 0, CRTI_MSG_LOG_READ, 51, &read);
    assert_true(crti_str_equal(scene_wait(s, CRTI_MSG_LOG_DATA)->log_data.data,
                               "hello from fork\n"));
    kill(scene_pid(granted), SIGKILL);
    scene_wait(s, CRTI_MSG_PEER_DIED);
    scene_head_send(s, 0, CRTI_MSG_LOG_READ, 52, &read);
    assert_true(scene_wait(s, CRTI_MSG_LOG_DATA)->log_data.ended);
    read.name = crti_str("0123456789abcdef");
    scene_head_send(s, 0, CRTI_MSG_LOG_READ, 53, &read);
    assert_int_equal(scene_wait(s, CRTI_MSG_ERROR)->error.status, CRT_ERR_NOT_FOUND);
}

/* ---------------------------------------------------------------- figures */

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void a_new_actor_is_ready_within_milliseconds(void **state)
{
    enum { COUNT = 50 };
    scene_t *s = *state;
    uint64_t times[COUNT];

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    for (uint64_t i = 0; i < COUNT; i++) {
        crti_msg_actor_start_t start = actor_start(s, 100 + i);
        uint64_t begin = crti_now_ns();

        scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 100 + i, &start);
        scene_wait(s, CRTI_MSG_ACTOR_STARTED);
        times[i] = crti_now_ns() - begin;
    }
    qsort(times, COUNT, sizeof(times[0]), compare);
    print_message("ACTOR_START to ACTOR_STARTED: p50 %.2f ms, p90 %.2f ms, max %.2f ms\n",
                  (double)times[COUNT / 2] / 1e6, (double)times[COUNT * 9 / 10] / 1e6,
                  (double)times[COUNT - 1] / 1e6);
    assert_true(times[COUNT / 2] < 500 * CRTI_MS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_node_registers_says_ready_and_leaves_nothing_behind),
        TEST(every_failure_before_ready_is_one_sentence),
        TEST(a_head_that_is_not_there_is_named),
        TEST(the_end_of_the_lifeline_ends_the_node),
        TEST(an_idle_node_uses_no_processor),
        TEST(a_lease_gives_a_forked_worker_and_takes_it_again),
        TEST(requests_beyond_the_node_wait_and_hear_why),
        TEST(a_cancelled_request_is_answered_and_its_room_is_free),
        TEST(a_program_with_threads_is_executed_per_worker_with_a_warning),
        TEST(a_program_that_ends_early_fails_the_lease_with_its_last_words),
        TEST(a_worker_of_another_version_is_one_clear_error),
        TEST(a_limit_that_is_reached_is_named),
        TEST(a_missing_library_and_a_wrong_processor_are_one_clear_error),
        TEST(a_killed_daemon_takes_its_zygotes_and_workers_along),
        TEST(a_killed_worker_is_reported_with_signal_method_and_last_lines),
        TEST(grandchildren_end_with_their_worker_and_do_not_delay_the_report),
        TEST(a_driver_that_leaves_takes_its_workers_along),
        TEST(a_watched_process_that_is_gone_already_is_told_at_once),
        TEST(a_process_of_a_node_that_the_head_does_not_know_is_gone),
        TEST(a_process_of_a_node_not_heard_of_yet_is_not_gone),
        TEST(a_view_that_comes_by_itself_ends_the_search_for_a_node),
        TEST(garbage_on_the_socket_costs_nobody_else_anything),
        TEST(nonsense_of_every_kind_on_every_link_leaves_the_node_serving),
        TEST(an_actor_is_started_stopped_and_its_death_reported),
        TEST(a_driver_that_leaves_hears_when_what_ran_for_it_has_ended),
        TEST(without_a_head_a_driver_leaves_all_the_same),
        TEST(a_job_that_the_head_ends_is_over_for_its_driver_too),
        TEST(an_actor_of_an_unknown_job_asks_the_head_and_fails_with_its_answer),
        TEST(grandchildren_end_with_a_node_that_is_killed),
        TEST(grandchildren_end_with_a_node_that_is_stopped),
        TEST(requests_wait_for_the_head_and_running_things_are_told_again),
        TEST(a_node_taken_for_dead_ends_its_workers_and_joins_anew),
        TEST(a_node_without_a_head_ends_after_its_time),
        TEST(a_silent_head_is_given_up_and_joined_anew),
        TEST(actor_states_reach_the_processes_that_watch),
        TEST(a_request_without_room_goes_to_another_node_and_back),
        TEST(a_request_at_a_node_that_dies_comes_back),
        TEST(workers_of_an_owner_that_died_elsewhere_end),
        TEST(an_object_is_pulled_from_the_node_that_has_it),
        TEST(an_object_is_pulled_without_encryption_where_the_cluster_has_none),
        TEST(an_object_of_a_node_not_heard_of_yet_is_pulled_when_it_is),
        TEST(a_source_that_dies_in_the_middle_fails_the_pull),
        TEST(a_submitted_job_runs_is_logged_and_stopped),
        TEST(a_jobs_log_beyond_its_limit_is_read_to_its_end),
        TEST(a_workers_log_is_read_by_its_id_after_its_death_too),
        TEST(a_new_actor_is_ready_within_milliseconds),
    };

    if (program_is_meant())
        return program_main(argc, argv);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
