/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a node daemon (runtime/node) whose processes, zygotes, head and fellow daemons have
 * gone mad: what each of them says, in any order.
 *
 * An input is a list of steps: what (see `step`), whose, two bytes of a length, and so many bytes,
 * most of them an encoded message. Under the daemon there is neither kernel nor network
 * (node_world.c). Whatever came: when all processes are dead and all links closed, no lease,
 * worker, watch or descriptor is left, and all resources are free. */
#include "fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "node_steps.h"
#include "node_world.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/node/dispatch/dispatch.h"
#include "runtime/node/host/exec.h"
#include "runtime/node/jobs/job_int.h"
#include "runtime/node/leases/bundle.h"
#include "runtime/node/leases/leases_int.h"
#include "runtime/node/links/links_int.h"
#include "runtime/node/node.h"
#include "runtime/node/process/process_int.h"

#define LOCALS      3
#define STEPS_MAX   200
#define STORE_BYTES ((size_t)8 << 20)
#define OPEN_FILES  128

typedef struct bed {
    crti_node_t *node;
    int locals[LOCALS]; /* the other ends; -1 */
} bed_t;

static int zygote = -1;      /* its end of the link */
static crti_id_t wished;     /* the process of the last FORK */
static uint64_t wish_number; /* its request */

/* ---------------------------------------------------------------- what is not the matter here */

crt_status_t crti_exec_start(const crti_exec_t *exec, pid_t *pid_out, int *report_out)
{
    if (exec->keep_fd >= 0) {
        if (zygote >= 0)
            close(zygote);
        zygote = dup(exec->keep_fd);
    }
    *pid_out = 1000000;
    return CRT_OK;
}

crt_status_t crti_exec_result(int *report_take, const char *path)
{
    return CRT_OK;
}

void crti_program_find(crti_job_t *job, const crti_program_spec_t *spec,
                       crti_program_found_t *on_found)
{
    on_found(job, CRT_OK, "");
}

void crti_program_cancel(crti_job_t *job)
{
}

void crti_program_free_all(crti_node_t *node)
{
}

bool crti_program_driver_died(crti_job_t *job)
{
    return false;
}

void crti_program_serve(crti_node_t *node, crti_stream_t *stream, uint64_t request,
                        const crti_msg_program_get_t *get)
{
}

void crti_submission_init(crti_node_t *node)
{
}

void crti_submission_start(crti_node_t *node, uint64_t request,
                           const crti_msg_job_start_t *start)
{
}

void crti_submission_stop(crti_node_t *node, uint64_t request, crti_id_t job)
{
}

void crti_submission_stop_all(crti_node_t *node)
{
}

void crti_submission_head_lost(crti_node_t *node)
{
}

void crti_submission_kill_all(crti_node_t *node)
{
}

bool crti_submission_has(crti_node_t *node, pid_t pid)
{
    return false;
}

size_t crti_submission_count(crti_node_t *node)
{
    return 0;
}

crt_status_t crti_submission_log(crti_node_t *node, const char *name, char *path,
                                 size_t size, bool *ended_out)
{
    return CRT_ERR_NOT_FOUND;
}

void crti_submission_free_all(crti_node_t *node)
{
}

/* ---------------------------------------------------------------- the daemon */

static void on_line(void *user, int level, const char *line)
{
}

static void give_up(const char *what) __attribute__((noreturn));
static void give_up(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, crt_error_detail());
    abort();
}

static void make(bed_t *bed)
{
    crti_node_t *node = crti_node_make();

    crti_log_set_sink(on_line, NULL);
    world_begin();
    *bed = (bed_t){.node = node, .locals = {-1, -1, -1}};
    node->options.given.ready_fd = node->options.given.lifeline_fd = -1;
    node->options.given.head_dir = node->options.given.private_dir = "";
    crti_resources_set(&node->options.resources, "CPU", 4 * CRTI_RESOURCE_ONE);
    node->id = (crti_id_t){0, 9};
    snprintf(node->ip, sizeof(node->ip), "10.0.0.1");
    snprintf(node->head_address, sizeof(node->head_address), "10.0.0.9:6380");
    snprintf(node->run_dir, sizeof(node->run_dir), "@crt-fuzz-%d", (int)getpid());
    snprintf(node->own_state, sizeof(node->own_state), "/nonexistent");
    if (crti_loop_new(&node->loop) != CRT_OK ||
        world_store(STORE_BYTES, CRTI_NODE_SLOTS, &node->store) != CRT_OK ||
        crti_node_init_parts(node) != CRT_OK || crti_local_listen(node) != CRT_OK)
        give_up("node");
    node->incarnation = 1;
    crti_node_start_ticks(node);
    node->ready = true;
    crti_registration_start(node);
}

/* ---------------------------------------------------------------- steps */

static void connect_local(bed_t *bed, unsigned which)
{
    char path[300];
    struct sockaddr_un address;
    socklen_t size;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(path, sizeof(path), "%s/node.sock", bed->node->run_dir);
    if (fd < 0 || crti_channel_address(path, &address, &size) != CRT_OK)
        give_up("connect");
    if (connect(fd, (struct sockaddr *)&address, size) != 0) {
        close(fd); /* it has stopped */
        return;
    }
    bed->locals[which] = fd;
}

/* What only one who listens could know. */
static void complete(crti_message_t *m)
{
    if (m->kind == CRTI_MSG_ATTACH) {
        if (m->attach.pid == OUR_PID)
            m->attach.pid = getpid();
        if (m->attach.process.high == OURS)
            m->attach.process = wished;
    } else if (m->kind == CRTI_MSG_FORKED) {
        if (m->forked.pid == OUR_PID)
            m->forked.pid = getpid();
        if (m->forked.process.high == OURS) {
            m->forked.process = wished;
            m->request = wish_number;
        }
    }
}

static void write_message(int fd, crti_span_t data)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crti_message_t m;
    uint32_t size;

    if (crti_message_decode(data.data, data.size, &m) == CRT_OK) {
        complete(&m);
        if (crti_message_encode(m.kind, m.request, &m.error, &bytes) != CRT_OK)
            return;
    } else if (crti_buffer_append(&bytes, data.data, data.size) != CRT_OK) {
        abort();
    }
    size = (uint32_t)bytes.size;
    if (send(fd, &size, sizeof(size), MSG_NOSIGNAL) == sizeof(size))
        (void)!send(fd, bytes.data, bytes.size, MSG_NOSIGNAL);
}

/* Reads what the daemon wrote there, descriptors and all. */
static void drain(int fd, bool is_zygote)
{
    static char bytes[1 << 18];
    char control[256];
    ssize_t n;

    do {
        struct iovec part = {bytes, sizeof(bytes)};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof(control)};
        uint32_t size = 0;
        crti_message_t m;

        n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        for (struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&message) : NULL; c;
             c = CMSG_NXTHDR(&message, c)) {
            int fds[8];
            size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

            memcpy(fds, CMSG_DATA(c), count * sizeof(int));
            for (size_t i = 0; i < count; i++)
                close(fds[i]);
        }
        for (ssize_t at = 0; is_zygote && n >= at + 4; at += 4 + (ssize_t)size) {
            memcpy(&size, bytes + at, sizeof(size));
            if (size <= (size_t)(n - at - 4) &&
                crti_message_decode(bytes + at + 4, size, &m) == CRT_OK &&
                m.kind == CRTI_MSG_FORK) {
                wished = m.fork.process;
                wish_number = m.request;
            }
        }
    } while (n > 0);
}

static void say_local(bed_t *bed, unsigned which, crti_span_t data)
{
    which %= LOCALS;
    if (bed->locals[which] < 0)
        connect_local(bed, which);
    if (bed->locals[which] >= 0)
        write_message(bed->locals[which], data);
}

static void close_local(bed_t *bed, unsigned which)
{
    which %= LOCALS;
    if (bed->locals[which] >= 0)
        close(bed->locals[which]);
    bed->locals[which] = -1;
}

static void close_zygote_link(void)
{
    if (zygote >= 0)
        close(zygote);
    zygote = -1;
}

static void say_stream(crti_stream_t *stream, crti_span_t data, bool is_answer)
{
    crti_message_t m;

    if (!stream || crti_message_decode(data.data, data.size, &m) != CRT_OK)
        return;
    world_open(stream);
    if (is_answer)
        m.request = stream->asked;
    if (!stream->is_freed)
        world_say(stream, &m);
}

/* A stream that is not the head's, of those that others made or that we made. */
static crti_stream_t *find_stream(bed_t *bed, unsigned which, bool is_ours)
{
    crti_stream_t *s;

    for (unsigned i = 0, k = 0; (s = world_stream(i)); i++)
        if (s != bed->node->head->stream && s->is_ours == is_ours && k++ == which % 4)
            return s;
    return NULL;
}

static void say_guest(bed_t *bed, unsigned which, crti_span_t data)
{
    crti_stream_t *s = find_stream(bed, which, false);

    say_stream(s ? s : world_guest(), data, false);
}

static void break_stream(bed_t *bed, unsigned which)
{
    crti_stream_t *s = which == 0 ? bed->node->head->stream : world_stream(which % 8);

    if (s)
        world_break(s);
}

static void settle(bed_t *bed, uint64_t ns)
{
    world_pass(ns);
    for (int i = 0; i < LOCALS; i++)
        if (bed->locals[i] >= 0)
            drain(bed->locals[i], false);
    if (zygote >= 0)
        drain(zygote, true);
    world_pass(0);
}

static void step(bed_t *bed, unsigned what, unsigned whose, crti_span_t data)
{
    crti_stream_t *head = bed->node->head->stream;
    uint64_t ns = 0;

    switch (what % STEPS) {
    case LOCAL: say_local(bed, whose, data); break;
    case CLOSE:
        if (whose == 255)
            close_zygote_link();
        else
            close_local(bed, whose);
        break;
    case ZYGOTE:
        if (zygote >= 0)
            write_message(zygote, data);
        break;
    case DIE: world_die(whose); break;
    case NEWS: say_stream(head, data, false); break;
    case ANSWER: say_stream(head, data, true); break;
    case GUEST: say_guest(bed, whose, data); break;
    case PEER: say_stream(find_stream(bed, whose, true), data, whose & 128); break;
    case BREAK: break_stream(bed, whose); break;
    case TICK: ns = whose * 20 * CRTI_MS; break;
    }
    settle(bed, ns);
}

/* ---------------------------------------------------------------- the end */

/* All nodes that it knows or seeks die. */
static void end_nodes(bed_t *bed)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t ids = {0};
    crti_map_t *maps[] = {&bed->node->peers->by_id};
    size_t cursor = 0;
    const void *key;
    void *value;

    while (crti_map_next(maps[0], &cursor, &key, &value))
        if (crti_buffer_append(&ids, key, sizeof(crti_id_t)) != CRT_OK)
            abort();
    for (size_t at = 0; at < ids.size; at += sizeof(crti_id_t)) {
        crti_msg_node_died_t died = {.text = crti_str("all end")};

        memcpy(&died.node, ids.data + at, sizeof(crti_id_t));
        crti_node_died(bed->node, &died);
    }
}

/* The head takes the daemon, if it has not, and knows nothing of what it is asked. */
static void end_questions(bed_t *bed)
{
    crti_head_t *head = bed->node->head;
    crti_message_t m = {.kind = CRTI_MSG_NODE_REGISTERED,
                        .request = 1,
                        .node_registered = {.headless_timeout_ms = 3600000}};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t numbers = {0};
    size_t cursor = 0;
    const void *key;
    void *value;

    if (!head->stream)
        return;
    world_open(head->stream);
    if (head->stream && !head->open)
        world_say(head->stream, &m);
    while (crti_map_next(&head->pending, &cursor, &key, &value))
        if (crti_buffer_append(&numbers, key, sizeof(uint64_t)) != CRT_OK)
            abort();
    m = (crti_message_t){
        .kind = CRTI_MSG_ERROR,
        .error = {.status = CRT_ERR_NOT_FOUND, .text = crti_str("not known")}};
    for (size_t at = 0; at < numbers.size && head->stream; at += sizeof(uint64_t)) {
        memcpy(&m.request, numbers.data + at, sizeof(uint64_t));
        world_say(head->stream, &m);
    }
}

static void show_processes(crti_node_t *node)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&node->processes->by_id, &cursor, NULL, &value)) {
        const crti_process_t *p = value;

        fprintf(stderr, "role %u, pid %d, pidfd %d%s%s%s%s%s, job in state %d\n", p->role,
                (int)p->pid, p->pidfd, p->is_watched ? ", watched" : "",
                p->dying ? ", dying" : "", p->reaped ? ", reaped" : "",
                p->local ? ", attached" : "", p->fork_request ? ", asked for" : "",
                p->job ? (int)p->job->state : -1);
    }
}

static void check_rest(crti_node_t *node)
{
    const crti_resources_t *all = crti_lease_table_resources(node->lease_table),
                           *free_ = crti_lease_table_available(node->lease_table);
    size_t cursor = 0;

    if (node->processes->by_id.count || crti_worker_table_count(node->workers) ||
        crti_lease_table_next(node->lease_table, &cursor) || node->leases->askers.count ||
        !crti_list_is_empty(&node->locals->all) ||
        !crti_list_is_empty(&node->peers->inbound) ||
        crti_resources_get(all, "CPU") != crti_resources_get(free_, "CPU")) {
        fprintf(stderr, "left: %zu processes, %zu workers, %s%zu askers, %s%s%lld CPU\n",
                (size_t)node->processes->by_id.count,
                crti_worker_table_count(node->workers), cursor ? "leases, " : "",
                (size_t)node->leases->askers.count,
                crti_list_is_empty(&node->locals->all) ? "" : "connections, ",
                crti_list_is_empty(&node->peers->inbound) ? "" : "inbound_links, ",
                (long long)crti_resources_get(free_, "CPU"));
        show_processes(node);
        abort();
    }
}

static void end(bed_t *bed)
{
    crti_stream_t *s;

    for (unsigned i = 0; i < LOCALS; i++)
        close_local(bed, i);
    close_zygote_link();
    for (int i = 0; i < 12; i++) {
        while ((s = find_stream(bed, 0, false)))
            world_break(s);
        while (world_die(0))
            settle(bed, 0);
        end_nodes(bed);
        end_questions(bed);
        settle(bed, 4 * CRTI_S);
        close_zygote_link();
    }
    crti_bundle_return_all(bed->node, "the end");
    check_rest(bed->node);
    crti_node_free(bed->node);
    world_end();
}

static unsigned open_files(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < OPEN_FILES; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned files = open_files();
    bed_t bed;
    fuzz_step_t next;

    make(&bed);
    for (int i = 0; i < STEPS_MAX && fuzz_step_next(&data, &size, &next); i++)
        step(&bed, next.what, next.whose, next.bytes);
    end(&bed);
    if (open_files() != files)
        abort();
    return 0;
}
