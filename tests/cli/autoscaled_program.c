/* SPDX-License-Identifier: Apache-2.0 */
/* What test_autoscaler.py runs on a cluster that grows: autoscaled_program tasks COUNT SECONDS |
 * request COUNT CPUS | gang COUNT CPUS | train WORKERS STEPS. Each says when it has what it waited
 * for, and on how many nodes; "request" and "gang" then wait for a line of standard input; "train"
 * finds by gradients that y is 3 x. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <crt_define.h>

#define NODES_MAX 64
#define ID_SIZE   33 /* of a node, with the final zero */

static char nodes[NODES_MAX][ID_SIZE];
static size_t node_count;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

CRT_DEFINE_TASK(where, (double, seconds))
{
    struct timespec time = {.tv_sec = (time_t)seconds};

    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
    return crt_return(call, crt_node_id());
}

static void note(const char *node)
{
    for (size_t i = 0; i < node_count; i++)
        if (strcmp(nodes[i], node) == 0)
            return;
    if (node_count < NODES_MAX)
        snprintf(nodes[node_count++], sizeof(nodes[0]), "%s", node);
}

static void stay(void)
{
    fflush(stdout);
    while (getchar() != '\n' && !feof(stdin))
        continue;
}

static int run_tasks(size_t count, double seconds)
{
    crt_ref_t **refs = calloc(count, sizeof(*refs));
    double begin = now_s();

    for (size_t i = 0; i < count; i++)
        refs[i] = where_submit(NULL, seconds);
    for (size_t i = 0; i < count; i++) {
        const char *node;

        CRT_CHECK(crt_get(refs[i], &node));
        note(node);
        if (i == 0)
            printf("first %.3f\n", now_s() - begin);
        fflush(stdout);
    }
    printf("done %zu on %zu nodes after %.3f\n", count, node_count, now_s() - begin);
    crt_refs_drop(refs, count);
    free(refs);
    return 0;
}

static int request(size_t count, double cpus)
{
    crt_bundle_t *bundles = calloc(count, sizeof(*bundles));

    for (size_t i = 0; i < count; i++)
        bundles[i] = CRT_BUNDLE(.num_cpus = cpus);
    CRT_CHECK(crt_request_resources(bundles, count));
    printf("asked\n");
    free(bundles);
    stay();
    return 0;
}

static int reserve(size_t count, double cpus)
{
    crt_bundle_t *bundles = calloc(count, sizeof(*bundles));
    crt_placement_group_t *group;

    for (size_t i = 0; i < count; i++)
        bundles[i] = CRT_BUNDLE(.num_cpus = cpus);
    group = crt_placement_group_new(
        bundles, count,
        CRT_PLACEMENT_GROUP_OPTIONS(.strategy = CRT_PLACEMENT_STRICT_SPREAD));
    CRT_CHECK(crt_placement_group_wait(group, CRT_FOREVER));
    printf("reserved\n");
    crt_placement_group_drop(&group);
    free(bundles);
    stay();
    return 0;
}

struct shard {
    double x;
};

CRT_DEFINE_ACTOR(shard, struct shard, (double, x))
{
    self->x = x;
    return CRT_OK;
}

CRT_DEFINE_METHOD(shard, gradient, (double, weight))
{
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    return crt_return(call, 2 * (weight * self->x - 3 * self->x) * self->x);
}

static double take_step(crt_actor_t **actors, size_t count, double weight)
{
    crt_ref_t **refs = calloc(count, sizeof(crt_ref_t *));
    double sum = 0, gradient;

    for (size_t i = 0; i < count; i++)
        refs[i] = shard_gradient_call(actors[i], NULL, weight);
    for (size_t i = 0; i < count; i++) {
        CRT_CHECK(crt_get(refs[i], &gradient));
        sum += gradient;
    }
    crt_refs_drop(refs, count);
    free(refs);
    return weight - 0.1 * sum / (double)count;
}

/* Workers that die are made again elsewhere, and what they were asked for is done there. */
static int train(size_t count, int steps)
{
    crt_actor_t **actors = calloc(count, sizeof(*actors));
    double weight = 0;

    for (size_t i = 0; i < count; i++)
        actors[i] =
            shard_new(CRT_ACTOR_OPTIONS(.num_cpus = 1, .max_restarts = CRT_UNLIMITED,
                                        .max_task_retries = CRT_UNLIMITED),
                      1.0);
    for (int step = 1; step <= steps; step++) {
        weight = take_step(actors, count, weight);
        printf("step %d\n", step);
        fflush(stdout);
    }
    printf("weight %.3f\n", weight);
    for (size_t i = 0; i < count; i++)
        crt_actor_drop(&actors[i]);
    free(actors);
    return 0;
}

static int driver(int argc, char **argv)
{
    size_t count = argc > 2 ? (size_t)atoi(argv[2]) : 0;
    double amount = argc > 3 ? atof(argv[3]) : 0;

    if (argc > 1 && strcmp(argv[1], "tasks") == 0)
        return run_tasks(count, amount);
    if (argc > 1 && strcmp(argv[1], "request") == 0)
        return request(count, amount);
    if (argc > 1 && strcmp(argv[1], "train") == 0)
        return train(count, (int)amount);
    return reserve(count, amount);
}

CRT_MAIN(driver)
