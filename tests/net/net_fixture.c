/* SPDX-License-Identifier: Apache-2.0 */
#include "net_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sodium.h>

/* ---------------------------------------------------------------- directory */

void fixture_init(fixture_t *f)
{
    assert_true(sodium_init() >= 0);
    snprintf(f->dir, sizeof(f->dir), "/tmp/crt-net-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    randombytes_buf(f->key, sizeof(f->key));
    f->here = crti_id_random();
    f->elsewhere = crti_id_random();
}

void fixture_fini(fixture_t *f)
{
    DIR *dir = opendir(f->dir);
    struct dirent *entry;
    char path[400];

    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        snprintf(path, sizeof(path), "%s/%s", f->dir, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    closedir(dir);
    assert_int_equal(rmdir(f->dir), 0);
}

int open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* ---------------------------------------------------------------- journal */

journal_t *journal_open(const fixture_t *f)
{
    char path[100];
    journal_t *journal;
    int fd;

    snprintf(path, sizeof(path), "%s/journal", f->dir);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, sizeof(*journal)), 0);
    journal = mmap(NULL, sizeof(*journal), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(journal != MAP_FAILED);
    close(fd);
    return journal;
}

void journal_close(journal_t *journal)
{
    munmap(journal, sizeof(*journal));
}

/* ---------------------------------------------------------------- child */

typedef struct job {
    struct job *next;
    crti_peer_t *peer;
    size_t size;
    char data[];
} job_t;

typedef struct server {
    crti_net_t *net;
    job_t *first, **last;
    bool ends;
    uint64_t count;
    size_t held;
    crti_peer_t *holder;
    uint64_t incarnation;
    journal_t *journal;
} server_t;

static void write_down(server_t *s, const void *data, size_t size)
{
    uint64_t number, at = atomic_load(&s->journal->count);

    if (size < 1 + sizeof(number) || at >= JOURNAL_MAX)
        abort();
    memcpy(&number, (const char *)data + 1, sizeof(number));
    s->journal->entry[at] = s->incarnation << 32 | number;
    atomic_store(&s->journal->count, at + 1);
}

static void server_on_record(void *user, crti_peer_t *peer, const void *data, size_t size)
{
    server_t *s = user;
    job_t *job;

    if (size > 0 && *(const char *)data == 'h') {
        crti_net_hold(s->net, peer, size);
        s->held += size;
        s->holder = peer;
        s->count++;
        return;
    }
    if (size > 0 && *(const char *)data == 'j')
        write_down(s, data, size);
    job = malloc(sizeof(*job) + size);
    job->next = NULL;
    job->peer = crti_peer_ref(peer);
    job->size = size;
    memcpy(job->data, data, size);
    *s->last = job;
    s->last = &job->next;
}

static void server_on_lost(void *user, crti_peer_t *peer, const crti_net_loss_t *loss)
{
}

static void server_on_lifeline(void *user, int fd, uint32_t events)
{
    ((server_t *)user)->ends = true;
}

static bool server_has_work(void *user)
{
    const server_t *s = user;

    return s->first || s->ends;
}

static void compute(crti_net_t *net, uint32_t ms)
{
    uint64_t end = crti_now_ns() + ms * CRTI_MS;

    crti_net_busy(net, true);
    crti_net_unlock(net);
    while (crti_now_ns() < end) {
    }
    crti_net_lock(net);
    crti_net_busy(net, false);
}

static void server_send(server_t *s, const job_t *job, const void *data, size_t size)
{
    struct iovec part = {(void *)(uintptr_t)data, size};

    crti_net_send(s->net, job->peer, &part, 1, 0, CRTI_NET_NO_DEADLINE, NULL);
}

static void serve(server_t *s, const job_t *job)
{
    uint32_t ms;

    s->count++;
    switch (job->data[0]) {
    case 'b':
        memcpy(&ms, job->data + 1, sizeof(ms));
        compute(s->net, ms);
        server_send(s, job, job->data, job->size);
        break;
    case 'n': server_send(s, job, &s->count, sizeof(s->count)); break;
    case 'k': raise(SIGKILL); break;
    case 'r':
        crti_net_release(s->net, s->holder, s->held);
        s->held = 0;
        break;
    case 'c': break;
    default: server_send(s, job, job->data, job->size); break;
    }
}

static void server_loop(server_t *s)
{
    while (crti_net_wait(s->net, server_has_work, s, CRTI_NET_NO_DEADLINE) == CRT_OK) {
        job_t *job = s->first;

        if (!job)
            return;
        s->first = job->next;
        if (!s->first)
            s->last = &s->first;
        serve(s, job);
        crti_peer_unref(job->peer);
        free(job);
    }
}

/* What a child is told, as the second argument of its program. */
typedef struct orders {
    fixture_t fixture;
    bool tcp;
    crti_id_t process;
    uint64_t incarnation;
    int ready, lifeline;
} orders_t;

static int child_main(const orders_t *o)
{
    server_t s = {.last = &s.first,
                  .incarnation = o->incarnation,
                  .journal = journal_open(&o->fixture)};
    crti_net_config_t config = {
        .run_dir = o->fixture.dir,
        .node = o->tcp ? o->fixture.elsewhere : o->fixture.here,
        .process = o->process,
        .incarnation = o->incarnation,
        .ip = o->tcp ? "127.0.0.1" : NULL,
        .cluster_key = o->fixture.key,
        .late_thread = true, /* as a worker */
        .handlers = {&s, server_on_record, server_on_lost},
    };

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (crti_net_new(&config, &s.net) != CRT_OK) {
        fprintf(stderr, "child: %s\n", crt_error_detail());
        return 1;
    }
    crti_net_lock(s.net);
    crti_net_add_fd(s.net, o->lifeline, EPOLLIN, server_on_lifeline, &s);
    if (write(o->ready, crti_net_address(s.net), sizeof(crti_address_t)) < 0)
        return 1;
    server_loop(&s);
    crti_net_unlock(s.net);
    crti_net_free(s.net);
    return 0;
}

int fixture_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    orders_t orders;

    if (argc == 3 && strcmp(argv[1], "--serve") == 0) {
        if (sodium_hex2bin((unsigned char *)&orders, sizeof(orders), argv[2],
                           strlen(argv[2]), NULL, NULL, NULL) != 0)
            return 2;
        return child_main(&orders);
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return _cmocka_run_group_tests("net", tests, count, NULL, NULL);
}

/* A program of its own: a fork of a process with threads can't make threads under TSan. */
void child_start_as(fixture_t *f, bool tcp, crti_id_t process, uint64_t incarnation,
                    child_t *child)
{
    char text[2 * sizeof(orders_t) + 1];
    char *argv[] = {"child", "--serve", text, NULL};
    int ready[2], lifeline[2];
    orders_t orders;

    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    assert_int_equal(pipe2(lifeline, O_CLOEXEC), 0);
    memset(&orders, 0, sizeof(orders));
    orders = (orders_t){*f, tcp, process, incarnation, ready[1], lifeline[0]};
    sodium_bin2hex(text, sizeof(text), (unsigned char *)&orders, sizeof(orders));
    child->pid = fork();
    assert_true(child->pid >= 0);
    if (child->pid == 0) {
        fcntl(ready[1], F_SETFD, 0);
        fcntl(lifeline[0], F_SETFD, 0);
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    close(ready[1]);
    close(lifeline[0]);
    assert_int_equal(read(ready[0], &child->address, sizeof(child->address)),
                     sizeof(child->address));
    close(ready[0]);
    child->lifeline = lifeline[1];
}

void child_start(fixture_t *f, bool tcp, child_t *child)
{
    child_start_as(f, tcp, crti_id_random(), 1, child);
}

void child_stop(child_t *child)
{
    int status = 0;

    if (child->pid == 0)
        return;
    close(child->lifeline);
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    child->pid = 0;
    assert_true(WIFEXITED(status) ? WEXITSTATUS(status) == 0
                                  : WTERMSIG(status) == SIGKILL);
}

void child_kill(child_t *child)
{
    kill(child->pid, SIGKILL);
    child_stop(child);
}

/* ---------------------------------------------------------------- party */

static void party_on_record(void *user, crti_peer_t *peer, const void *data, size_t size)
{
    party_t *p = user;
    uint64_t number;

    p->count++;
    p->bytes += size;
    free(p->last);
    p->last = malloc(size);
    memcpy(p->last, data, size);
    p->last_size = size;
    if (size < 1 + sizeof(number))
        return;
    memcpy(&number, p->last + 1, sizeof(number));
    if (number != p->next_number)
        p->out_of_order = true;
    p->next_number++;
}

static void party_on_lost(void *user, crti_peer_t *peer, const crti_net_loss_t *loss)
{
    party_t *p = user;

    p->lost++;
    p->loss_status = loss->status;
    p->acked = loss->acked;
    p->handed = loss->handed;
    snprintf(p->loss_detail, sizeof(p->loss_detail), "%s", loss->detail);
}

static void party_on_room(void *user, crti_peer_t *peer)
{
    ((party_t *)user)->rooms++;
}

void party_start(fixture_t *f, bool tcp, size_t window, party_t *party)
{
    crti_net_config_t config = {
        .run_dir = f->dir,
        .node = f->here,
        .process = crti_id_random(),
        .incarnation = 1,
        .ip = tcp ? "127.0.0.1" : NULL,
        .cluster_key = f->key,
        .window_bytes = window,
        .handlers = {.user = party,
                     .on_record = party_on_record,
                     .on_peer_lost = party_on_lost,
                     .on_room = party_on_room},
    };

    *party = (party_t){0};
    assert_int_equal(crti_net_new(&config, &party->net), CRT_OK);
    crti_net_lock(party->net);
}

void party_start_late(fixture_t *f, party_t *party)
{
    crti_net_config_t config = {.run_dir = f->dir,
                                .node = f->here,
                                .process = crti_id_random(),
                                .incarnation = 1,
                                .late_thread = true,
                                .handlers = {.user = party}};

    *party = (party_t){0};
    assert_int_equal(crti_net_new(&config, &party->net), CRT_OK);
    crti_net_lock(party->net);
}

static void count_byte(void *user, int fd, uint32_t events)
{
    char byte;

    assert_int_equal(read(fd, &byte, 1), 1);
    ((party_t *)user)->count++;
}

void party_watch(party_t *party, int fds[2])
{
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(crti_net_add_fd(party->net, fds[0], EPOLLIN, count_byte, party),
                     CRT_OK);
}

void party_unwatch(party_t *party, const int fds[2])
{
    crti_net_remove_fd(party->net, fds[0]);
    close(fds[0]);
    close(fds[1]);
}

void party_stop(party_t *party)
{
    crti_net_unlock(party->net);
    crti_net_free(party->net);
    free(party->last);
}

crti_peer_t *party_connect(party_t *party, const crti_address_t *to)
{
    crti_peer_t *peer = NULL;

    assert_int_equal(crti_net_connect(party->net, to, &peer), CRT_OK);
    return peer;
}

void pair_open(pair_t *s, bool tcp, size_t window)
{
    fixture_init(&s->f);
    child_start(&s->f, tcp, &s->child);
    party_start(&s->f, tcp, window, &s->party);
    s->peer = party_connect(&s->party, &s->child.address);
}

void pair_close(pair_t *s)
{
    crti_peer_unref(s->peer);
    party_stop(&s->party);
    child_stop(&s->child);
    fixture_fini(&s->f);
}

void party_send(party_t *party, crti_peer_t *peer, char what, const void *data,
                size_t size)
{
    struct iovec parts[2] = {{&what, 1}, {(void *)(uintptr_t)data, size}};

    assert_int_equal(crti_net_send(party->net, peer, parts, 2,
                                   what == 'r' ? CRTI_SEND_CONTROL : 0, DEADLINE, NULL),
                     CRT_OK);
}

static bool has_count(void *user)
{
    const party_t *p = user;

    return p->count >= p->target;
}

void party_wait_count(party_t *party, size_t count)
{
    party->target = count;
    assert_int_equal(crti_net_wait(party->net, has_count, party, DEADLINE), CRT_OK);
}

static bool has_lost(void *user)
{
    const party_t *p = user;

    return (size_t)p->lost >= p->target;
}

void party_wait_lost(party_t *party, int lost)
{
    party->target = (size_t)lost;
    assert_int_equal(crti_net_wait(party->net, has_lost, party, DEADLINE), CRT_OK);
}

void party_stream(party_t *party, crti_peer_t *peer, size_t count, size_t extra)
{
    size_t target = party->count + count;
    char *data = calloc(1, sizeof(uint64_t) + extra);

    party->next_number = 0;
    for (uint64_t i = 0; i < count; i++) {
        memcpy(data, &i, sizeof(i));
        party_send(party, peer, 'e', data, sizeof(uint64_t) + extra);
    }
    party_wait_count(party, target);
    free(data);
    assert_false(party->out_of_order);
    assert_int_equal(party->count, target);
}
