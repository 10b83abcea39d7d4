/* SPDX-License-Identifier: Apache-2.0 */
/* A group whose members are on several hosts: what it costs, and how its failures are told.
 *
 *     group_member measure MEMBERS PER_HOST BACKEND COUNT   figures, one a line
 *     group_member fail MEMBERS PER_HOST BACKEND COUNT      sums until a member is lost; then
 *                                                           the others say so and go on alone
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <crt.h>
#include <crt_collective.h>

#define MOST   16
#define ROUNDS 5
#define ECHOES 200

struct member {
    crt_group_t *group;
    float *values;
    size_t room;
};

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Bytes that this host has sent to others. */
static double bytes_sent(void)
{
    FILE *file = fopen("/proc/net/dev", "r");
    char line[512], name[32];
    double total = 0, sent;

    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, " %31[^:]: %*f %*f %*f %*f %*f %*f %*f %*f %lf", name, &sent) ==
                2 &&
            strcmp(name, "lo") != 0)
            total += sent;
    if (file)
        fclose(file);
    return total;
}

static void member_destroy(void *self)
{
    struct member *m = self;

    crt_group_drop(&m->group);
    crt_group_free(m->values);
}

static crt_status_t join_run(void *self, crt_call_t *call)
{
    struct member *m = self;
    const char *backend;
    int size, rank;

    CRT_TRY(crt_args(call, &backend, &size, &rank));
    return crt_group_join(
        size, rank,
        CRT_GROUP_OPTIONS(.name = "hosts", .backend = backend, .limit_ms = 60000),
        &m->group);
}
static const crt_method_t join =
    CRT_METHOD(.name = "join", .run = join_run, .signature = "string, int, int");

static crt_status_t rebuild_run(void *self, crt_call_t *call)
{
    return crt_group_rebuild(((struct member *)self)->group, 0);
}
static const crt_method_t rebuild =
    CRT_METHOD(.name = "rebuild", .run = rebuild_run, .signature = "");

/* Ones of all members are summed. */
static crt_status_t sum(struct member *m, size_t count)
{
    crt_tensor_t view;

    if (m->room < count) {
        crt_group_free(m->values);
        m->values = NULL;
        CRT_TRY(crt_group_alloc(count * sizeof(float), (void **)&m->values));
        m->room = count;
    }
    for (size_t i = 0; i < count; i++)
        m->values[i] = 1;
    view = crt_tensor_floats(m->values, count);
    CRT_TRY(crt_group_allreduce(m->group, &view, &view, CRT_REDUCE_SUM));
    for (size_t i = 0; i < count; i += 997)
        if (m->values[i] != (float)crt_group_size(m->group))
            return crt_raise(CRT_ERR_CORRUPT, "element %zu is %f", i,
                             (double)m->values[i]);
    return CRT_OK;
}

static crt_status_t once_run(void *self, crt_call_t *call)
{
    int64_t count;

    CRT_TRY(crt_args(call, &count));
    return sum(self, (size_t)count);
}
static const crt_method_t once =
    CRT_METHOD(.name = "once", .run = once_run, .signature = "int");

/* Microseconds of an allreduce, median of the rounds, one after the other. */
static crt_status_t timed_run(void *self, crt_call_t *call)
{
    struct member *m = self;
    double times[1000];
    int64_t count;
    int rounds;

    CRT_TRY(crt_args(call, &count, &rounds));
    CRT_TRY(sum(m, (size_t)count));
    CRT_TRY(crt_group_barrier(m->group));
    for (int i = 0; i < rounds && i < 1000; i++) {
        crt_tensor_t view = crt_tensor_floats(m->values, (size_t)count);
        double begin = now_us();

        CRT_TRY(crt_group_allreduce(m->group, &view, &view, CRT_REDUCE_MAX));
        times[i] = now_us() - begin;
    }
    qsort(times, (size_t)rounds, sizeof(times[0]), compare);
    return crt_return(call, times[rounds / 2]);
}
static const crt_method_t timed =
    CRT_METHOD(.name = "timed", .run = timed_run, .signature = "int, int");

/* Bytes that this host sends for one allreduce. */
static crt_status_t traffic_run(void *self, crt_call_t *call)
{
    struct member *m = self;
    int64_t count;
    double before;

    CRT_TRY(crt_args(call, &count));
    CRT_TRY(sum(m, (size_t)count));
    CRT_TRY(crt_group_barrier(m->group));
    before = bytes_sent();
    CRT_TRY(sum(m, (size_t)count));
    CRT_TRY(crt_group_barrier(m->group));
    return crt_return(call, bytes_sent() - before);
}
static const crt_method_t traffic =
    CRT_METHOD(.name = "traffic", .run = traffic_run, .signature = "int");

/* Sums until the group fails; gives the text. */
static crt_status_t until_failure_run(void *self, crt_call_t *call)
{
    struct member *m = self;
    crt_status_t status = CRT_OK;
    char text[1200];
    int64_t count;

    CRT_TRY(crt_args(call, &count));
    while (status == CRT_OK)
        status = sum(m, (size_t)count);
    snprintf(text, sizeof(text), "%s: %s", crt_status_name(status), crt_error_detail());
    return crt_return(call, (const char *)text);
}
static const crt_method_t until_failure =
    CRT_METHOD(.name = "until_failure", .run = until_failure_run, .signature = "int");

/* ---------------------------------------------------------------- a bare echo */

#define ECHO_PORT 7777

static int echo_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    return fd;
}

static crt_status_t echo_serve_run(void *self, crt_call_t *call)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(ECHO_PORT)};
    int fd = echo_socket(), peer, one = 1;
    char bytes[4];

    if (bind(fd, (struct sockaddr *)&here, sizeof(here)) != 0 || listen(fd, 1) != 0)
        return crt_raise(CRT_ERR_IO, "echo: cannot listen");
    peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    while (recv(peer, bytes, 4, MSG_WAITALL) == 4)
        if (send(peer, bytes, 4, MSG_NOSIGNAL) != 4)
            break;
    close(peer);
    close(fd);
    return CRT_OK;
}
static const crt_method_t echo_serve =
    CRT_METHOD(.name = "echo_serve", .run = echo_serve_run, .signature = "");

static crt_status_t echo_run(void *self, crt_call_t *call)
{
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(ECHO_PORT)};
    double times[ECHOES], deadline = now_us() + 10e6;
    char bytes[4] = "abc";
    const char *ip;
    int fd;

    CRT_TRY(crt_args(call, &ip));
    inet_pton(AF_INET, ip, &there.sin_addr);
    for (;;) { /* it may not listen yet */
        fd = echo_socket();
        if (connect(fd, (struct sockaddr *)&there, sizeof(there)) == 0)
            break;
        close(fd);
        if (now_us() > deadline)
            return crt_raise(CRT_ERR_TIMED_OUT, "echo: nobody listens at %s", ip);
    }
    for (int i = 0; i < ECHOES; i++) {
        double begin = now_us();

        if (send(fd, bytes, 4, MSG_NOSIGNAL) != 4 || recv(fd, bytes, 4, MSG_WAITALL) != 4)
            return crt_raise(CRT_ERR_IO, "echo: broken");
        times[i] = now_us() - begin;
    }
    close(fd);
    qsort(times, ECHOES, sizeof(times[0]), compare);
    return crt_return(call, times[ECHOES / 2]);
}
static const crt_method_t echo =
    CRT_METHOD(.name = "echo", .run = echo_run, .signature = "string");

/* This host's address: of its way to anywhere. */
static crt_status_t ip_run(void *self, crt_call_t *call)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    socklen_t size = sizeof(to);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    char text[INET_ADDRSTRLEN] = "";
    const char *near;

    CRT_TRY(crt_args(call, &near));
    inet_pton(AF_INET, near, &to.sin_addr);
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 &&
        getsockname(fd, (struct sockaddr *)&to, &size) == 0)
        inet_ntop(AF_INET, &to.sin_addr, text, sizeof(text));
    close(fd);
    return crt_return(call, (const char *)text);
}
static const crt_method_t ip =
    CRT_METHOD(.name = "ip", .run = ip_run, .signature = "string");

static const crt_actor_class_t member_class =
    CRT_ACTOR_CLASS(.name = "Member", .size = sizeof(struct member),
                    .destroy = member_destroy,
                    .methods = CRT_METHODS(&join, &rebuild, &once, &timed, &traffic,
                                           &until_failure, &echo_serve, &echo, &ip));

/* ---------------------------------------------------------------- driver */

static crt_actor_t *members[MOST];
static int size;

static void wait_all(crt_ref_t **refs, int count)
{
    for (int i = 0; i < count; i++) {
        const crt_error_t *error;
        size_t ready;

        CRT_CHECK(crt_wait(&refs[i], 1, 1, 120000, NULL, &ready));
        error = crt_ref_error(refs[i]);
        if (error) {
            fprintf(stderr, "member %d: %s\n", i, error->text);
            exit(1);
        }
        crt_ref_drop(&refs[i]);
    }
}

/* The largest answer of all. */
static double most(crt_ref_t **refs)
{
    double largest = 0;

    for (int i = 0; i < size; i++) {
        double value;

        CRT_CHECK(crt_get(refs[i], &value));
        largest = value > largest ? value : largest;
        crt_ref_drop(&refs[i]);
    }
    return largest;
}

static void measure(int64_t count)
{
    crt_ref_t *refs[MOST], *server;
    const char *address;
    double value;

    for (int i = 0; i < size; i++)
        refs[i] = crt_call(members[i], &timed, count, ROUNDS);
    printf("large %.0f us\n", most(refs));
    for (int i = 0; i < size; i++)
        refs[i] = crt_call(members[i], &traffic, count);
    printf("traffic %.0f bytes\n", most(refs));
    for (int i = 0; i < size; i++)
        refs[i] = crt_call(members[i], &timed, (int64_t)1, 200);
    printf("small %.1f us\n", most(refs));
    refs[0] = crt_call(members[size - 1], &ip, "10.77.0.1");
    CRT_CHECK(crt_get(refs[0], &address));
    server = crt_call(members[size - 1], &echo_serve);
    refs[1] = crt_call(members[0], &echo, address);
    CRT_CHECK(crt_get(refs[1], &value));
    printf("echo %.1f us\n", value);
    crt_ref_drop(&refs[0]);
    crt_ref_drop(&refs[1]);
    wait_all(&server, 1);
}

/* Somebody kills a member meanwhile. */
static void fail(int64_t count)
{
    crt_ref_t *refs[MOST];
    crt_actor_t *left[MOST];
    int survivors = 0;

    for (int i = 0; i < size; i++)
        refs[i] = crt_call(members[i], &once, count);
    wait_all(refs, size);
    for (int i = 0; i < size; i++)
        refs[i] = crt_call(members[i], &until_failure, count);
    printf("summing\n");
    for (int i = 0; i < size; i++) {
        const char *text;

        if (crt_get(refs[i], &text) == CRT_OK) {
            printf("member %d was told: %s\n", i, text);
            left[survivors++] = members[i];
        } else {
            printf("member %d is gone: %s\n", i, crt_error_detail());
        }
        crt_ref_drop(&refs[i]);
    }
    for (int i = 0; i < survivors; i++)
        refs[i] = crt_call(left[i], &rebuild);
    wait_all(refs, survivors);
    for (int i = 0; i < survivors; i++)
        refs[i] = crt_call(left[i], &once, count);
    wait_all(refs, survivors);
    printf("%d go on\n", survivors);
}

static int driver(int argc, char **argv)
{
    crt_ref_t *refs[MOST];

    if (argc != 6 || atoi(argv[2]) < 1 || atoi(argv[2]) > MOST) {
        fprintf(stderr, "group_member measure|fail MEMBERS PER_HOST BACKEND COUNT\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    size = atoi(argv[2]);
    for (int i = 0; i < size; i++)
        members[i] = crt_actor_new(&member_class,
                                   CRT_ACTOR_OPTIONS(.num_cpus = 1.0 / atoi(argv[3])));
    for (int i = 0; i < size; i++)
        refs[i] = crt_call(members[i], &join, (const char *)argv[4], size, i);
    wait_all(refs, size);
    if (strcmp(argv[1], "measure") == 0)
        measure(atoll(argv[5]));
    else
        fail(atoll(argv[5]));
    for (int i = 0; i < size; i++)
        crt_actor_drop(&members[i]);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.classes = CRT_CLASSES(&member_class)),
                    driver);
}
