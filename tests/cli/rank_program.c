/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of crt run --ranks run: rank_program MODE [RANK [STATUS]]
 *
 *     hello            prints its number and its arguments
 *     world            sums in the world
 *     lines            prints long lines, in parts
 *     return|exit|crash|kill RANK [STATUS]
 *                      that rank ends so, the others wait for it in a barrier
 *     told HOW RANK    that rank ends so while the others wait for it, and they print how they
 *     heard
 *     last             all return right after an operation
 *     leave RANK       that rank calls exit(0), the others print and return
 *     stay             says its pid, leaves a grandchild in a session of its own, and stays
 *     task             runs a task, which is no rank
 *     moments          takes part in a collective, and sends an object to the last rank's node;
 *     prints what the timeline has of both
 *     init             is a program that calls crt_init instead of crt_main */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <crt_collective.h>

static crt_status_t ask_run(crt_call_t *call)
{
    return crt_return(call, crt_world_rank() * 10 + crt_world_size());
}
static const crt_task_t ask = CRT_TASK(.name = "ask", .run = ask_run, .signature = "");

static crt_status_t take_run(crt_call_t *call)
{
    crt_bytes_t bytes;

    CRT_TRY(crt_args(call, &bytes));
    return crt_return(call, bytes.size);
}
static const crt_task_t take =
    CRT_TASK(.name = "take", .run = take_run, .signature = "bytes");

static int count_of(const char *text, const char *word)
{
    int count = 0;

    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        count++;
    return count;
}

static void send_to(const char *node)
{
    static char bytes[2000000];
    crt_ref_t *object = crt_put(((crt_bytes_t){bytes, sizeof(bytes)}));
    crt_ref_t *size = crt_submit(
        &take,
        CRT_TASK_OPTIONS(.scheduling = CRT_SCHEDULE_NODE_AFFINITY, .node_id = node),
        object);
    int64_t taken;

    CRT_CHECK(crt_get(size, &taken));
    crt_ref_drop(&size);
    crt_ref_drop(&object);
}

static int moments(void)
{
    static float values[1 << 20];
    crt_tensor_t many = crt_tensor_floats(values, 1 << 20);
    char node[33] = "", *tasks;
    int64_t shape[] = {sizeof(node)};
    crt_tensor_t id = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, node);
    crt_group_t *group;

    CRT_CHECK(crt_group_world(&group));
    snprintf(node, sizeof(node), "%s", crt_node_id());
    CRT_CHECK(crt_group_broadcast(group, &id, crt_world_size() - 1));
    CRT_CHECK(crt_group_allreduce(group, &many, &many, CRT_REDUCE_SUM));
    CRT_CHECK(crt_group_barrier(group));
    if (crt_world_rank() > 0)
        return crt_group_barrier(group) == CRT_OK ? 0 : 1;
    send_to(node);
    CRT_CHECK(crt_cluster_state("tasks", &tasks));
    printf("%d allreduces, %d transfers\n",
           count_of(tasks, "\"allreduce #2 of 2, 4194304 bytes\""),
           strcmp(node, crt_node_id()) ? count_of(tasks, "\"from_node_id\":") : -1);
    crt_free(tasks);
    return crt_group_barrier(group) == CRT_OK ? 0 : 1;
}

static int world(void)
{
    crt_group_t *group, *again;
    float sum = (float)crt_world_rank();
    crt_tensor_t view = crt_tensor_floats(&sum, 1);

    CRT_CHECK(crt_group_world(&group));
    CRT_CHECK(crt_group_world(&again));
    CRT_CHECK(crt_group_allreduce(group, &view, &view, CRT_REDUCE_SUM));
    printf("%d of %d%s: %g\n", crt_group_rank(group), crt_group_size(group),
           group == again ? "" : ", another", (double)sum);
    return 0;
}

static int lines(void)
{
    for (int i = 0; i < 150; i++) {
        printf("begin %d ", i);
        for (int k = 0; k < 40; k++)
            printf("%03d ", crt_world_rank());
        printf("end\n");
    }
    printf("the last one has no end");
    return 0;
}

static int end_by(const char *how, int status)
{
    if (strcmp(how, "exit") == 0)
        exit(status);
    if (strcmp(how, "crash") == 0) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer makes an exit status of it */
        raise(SIGSEGV);
    }
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    return status;
}

static int end_one(const char *how, int rank, int status)
{
    crt_group_t *group;

    CRT_CHECK(crt_group_world(&group));
    if (crt_world_rank() == rank)
        return end_by(how, status);
    return crt_group_barrier(group) == CRT_OK ? 0 : 9;
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int told(const char *how, int rank)
{
    bool joins = strncmp(how, "unjoined", 8) != 0;
    float x = 0;
    crt_tensor_t view = crt_tensor_floats(&x, 1);
    crt_group_t *group = NULL;
    crt_status_t status = CRT_OK;
    double begun;

    if (joins) {
        CRT_CHECK(crt_group_world(&group));
        CRT_CHECK(crt_group_barrier(group));
    }
    if (crt_world_rank() == rank && strstr(how, "exit"))
        exit(0);
    if (crt_world_rank() == rank)
        return 0;
    begun = seconds();
    if (!joins)
        status = crt_group_world(&group);
    else if (strcmp(how, "leave-message") == 0)
        status = crt_group_recv(group, &view, rank);
    else
        status = crt_group_allreduce(group, &view, &view, CRT_REDUCE_SUM);
    printf("%s: %s %s\n", seconds() - begun < 1 ? "told at once" : "told late",
           crt_status_name(status), status == CRT_OK ? "" : crt_error_detail());
    return 0;
}

static int last(const char *how)
{
    float x = 1;
    crt_tensor_t view = crt_tensor_floats(&x, 1);
    crt_group_t *group;

    CRT_CHECK(crt_group_world(&group));
    for (int i = 0; i < 20; i++)
        CRT_CHECK(crt_group_allreduce(group, &view, &view, CRT_REDUCE_SUM));
    return end_by(how, 0);
}

static int leave(int rank)
{
    if (crt_world_rank() == rank)
        exit(0);
    printf("rank %d ends\n", crt_world_rank());
    return 0;
}

static _Noreturn void stay(void)
{
    if (fork() == 0) {
        setsid();
        execl("/bin/sh", "sh", "-c", "trap '' TERM; while :; do sleep 1000; done",
              (char *)NULL);
        _exit(127);
    }
    printf("rank %d stays as %d\n", crt_world_rank(), (int)getpid());
    for (;;)
        pause();
}

static int task(void)
{
    crt_ref_t *ref = crt_submit(&ask, NULL);
    int answer;

    CRT_CHECK(crt_get(ref, &answer));
    crt_ref_drop(&ref);
    printf("a task says %d\n", answer);
    return 0;
}

static int driver(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "hello";
    int rank = argc > 2 ? atoi(argv[2]) : 0, status = argc > 3 ? atoi(argv[3]) : 0;

    if (strcmp(mode, "world") == 0)
        return world();
    if (strcmp(mode, "rest") == 0)
        return usleep(1000000);
    if (strcmp(mode, "moments") == 0)
        return moments();
    if (strcmp(mode, "lines") == 0)
        return lines();
    if (strcmp(mode, "told") == 0)
        return told(argv[2], atoi(argv[3]));
    if (strcmp(mode, "last") == 0)
        return last(argv[2]);
    if (strcmp(mode, "leave") == 0)
        return leave(rank);
    if (strcmp(mode, "stay") == 0)
        stay();
    if (strcmp(mode, "task") == 0)
        return task();
    if (strcmp(mode, "hello") != 0)
        return end_one(mode, rank, status);
    printf("rank %d of %d:", crt_world_rank(), crt_world_size());
    for (int i = 1; i < argc; i++)
        printf(" [%s]", argv[i]);
    printf("\n");
    return 0;
}

int main(int argc, char **argv)
{
    const crt_options_t *options = CRT_OPTIONS(.tasks = CRT_TASKS(&ask, &take));

    if (argc > 1 && strcmp(argv[1], "init") == 0) {
        if (crt_init(argc, argv, options) == CRT_OK)
            return 0;
        fprintf(stderr, "%s\n", crt_error_detail());
        return 4;
    }
    return crt_main(argc, argv, options, driver);
}
