/* SPDX-License-Identifier: Apache-2.0 */
/* Soak: many actor calls, many put/get/drop rounds and many actors that live for one call, and
 * whether anything grows meanwhile.
 *
 * Usage: soak [--calls N] [--rounds N] [--actors N]
 *
 * Samples every process of the cluster (head, redis, http, node, zygotes, workers, this driver)
 * at 30 % and at 100 % of the run: anonymous private memory, open files, threads; and what the
 * node's store holds. "Flat" means that nothing grew by more than max(1 %, 128 KiB) and 8 bytes for
 * each short actor between the samples (what malloc has ready comes and goes, and the smallest
 * thing that can be lost is 32 bytes), threads not at all, files by no more than 2: a doorbell is
 * kept for each 16 lanes that were open at once. Exit status 1 when something did. The keys of
 * redis can't be counted from outside; its memory shows them, and its threads are not counted: its
 * allocator starts some when it likes. Two things are full only after about 20,000 actors, and seem
 * to grow in a run with fewer than 70,000: what the head remembers of dead actors, and
 * redis-server, which keeps some 140 KiB from the first time that it writes its log anew (16 MiB).
 */
#include <crt.h>

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "options.h"
#include "own_cluster.h"

#define PROCESSES_MAX  64
#define BATCH          1000
#define ACTORS_AT_ONCE 20
#define WARM_TENTHS    3
#define BELLS_MORE     2

struct counter {
    int64_t sum;
};

static crt_status_t counter_add_run(void *self, crt_call_t *call)
{
    struct counter *counter = self;
    int64_t amount;

    CRT_TRY(crt_args(call, &amount));
    counter->sum += amount;
    return crt_return(call, counter->sum);
}

static crt_status_t counter_pid_run(void *self, crt_call_t *call)
{
    return crt_return(call, (int64_t)getpid());
}

/* Keeps the actor busy, so that a whole batch of calls queues behind it: the deepest queue comes
 * before the first sample, not by chance somewhere behind it. */
static crt_status_t counter_stall_run(void *self, crt_call_t *call)
{
    struct timespec start, now;

    clock_gettime(CLOCK_MONOTONIC, &start);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 <
           100);
    return CRT_OK;
}

static const crt_method_t counter_stall =
    CRT_METHOD(.name = "stall", .run = counter_stall_run, .signature = "");
static const crt_method_t counter_add =
    CRT_METHOD(.name = "add", .run = counter_add_run, .signature = "int");
static const crt_method_t counter_pid =
    CRT_METHOD(.name = "pid", .run = counter_pid_run, .signature = "");
static const crt_actor_class_t counter_class =
    CRT_ACTOR_CLASS(.name = "Counter", .size = sizeof(struct counter),
                    .methods = CRT_METHODS(&counter_add, &counter_pid, &counter_stall));

struct sample {
    pid_t pid;
    char name[32];
    long anonymous_kib;
    long files;
    long threads;
};

static long status_number(pid_t pid, const char *file, const char *key)
{
    char path[64], line[256];
    long value = -1;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    f = fopen(path, "re");
    if (f == NULL)
        return -1;
    while (value < 0 && fgets(line, sizeof(line), f))
        if (strncmp(line, key, strlen(key)) == 0)
            value = atol(line + strlen(key));
    fclose(f);
    return value;
}

static long count_files(pid_t pid)
{
    char path[64];
    long count = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    if (dir == NULL)
        return -1;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += isdigit((unsigned char)entry->d_name[0]) != 0;
    closedir(dir);
    return count;
}

static void read_name(pid_t pid, char *name, size_t size)
{
    char path[64];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    f = fopen(path, "re");
    name[0] = '\0';
    if (f && fgets(name, (int)size, f))
        name[strcspn(name, "\n")] = '\0';
    if (f)
        fclose(f);
}

static void take_sample(pid_t pid, struct sample *sample)
{
    sample->pid = pid;
    read_name(pid, sample->name, sizeof(sample->name));
    sample->anonymous_kib = status_number(pid, "smaps_rollup", "Anonymous:");
    sample->files = count_files(pid);
    sample->threads = status_number(pid, "status", "Threads:");
}

/* A number from one of the "key value" files of a run directory; 0 when it is not there. */
static pid_t info_pid(const char *dir, const char *file, const char *key)
{
    char path[256], line[512];
    pid_t pid = 0;
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, file);
    f = fopen(path, "re");
    if (f == NULL)
        return 0;
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ' ')
            pid = (pid_t)atoi(line + strlen(key) + 1);
    fclose(f);
    return pid;
}

static int find_processes(pid_t worker, struct sample *samples)
{
    crt_cluster_info_t infos[8];
    size_t count = 0;
    pid_t pids[PROCESSES_MAX] = {getpid(), worker};
    int n = 2, kept = 0;

    CRT_CHECK(crt_cluster_list(infos, sizeof(infos[0]), 8, &count));
    for (size_t i = 0; i < count && i < 8 && n < PROCESSES_MAX - 4; i++) {
        if (strcmp(infos[i].node, crt_node_id()) != 0)
            continue;
        pids[n++] = (pid_t)infos[i].pid;
        pids[n++] = info_pid(infos[i].head_dir, "head.info", "pid");
        pids[n++] = info_pid(infos[i].head_dir, "head.info", "redis_pid");
        pids[n++] = info_pid(infos[i].head_dir, "head.info", "http_pid");
    }
    for (int i = 0; i < n; i++)
        if (pids[i] > 0)
            take_sample(pids[i], &samples[kept++]);
    return kept;
}

/* Bytes of objects in the store of this node, once it has told the head so for two reports that
 * follow each other: what was dropped last is given back a moment later. */
static long store_kib(void)
{
    static const struct timespec report = {.tv_sec = 1, .tv_nsec = 200000000};
    long now = -1, before;

    do {
        const char *at;
        char *json;

        before = now;
        nanosleep(&report, NULL);
        CRT_CHECK(crt_cluster_state("nodes", &json));
        at = strstr(json, "\"store_used\":");
        now = at ? atol(at + strlen("\"store_used\":")) / 1024 : 0;
        crt_free(json);
    } while (now != before);
    return now;
}

static int64_t calls = 10000000, rounds = 100000, short_lived = 100000;

static long growth_limit_kib(const struct sample *before)
{
    long one_percent = before->anonymous_kib / 100;
    int64_t ready = short_lived * (10 - WARM_TENTHS) / 10 * 8 / 1024;

    return (one_percent > 128 ? one_percent : 128) + (long)ready;
}

static int report_store(long before, long after)
{
    int bad = after - before > (before / 100 > 128 ? before / 100 : 128);

    printf("%-16s %8s %10ld -> %8ld %37s\n", "objects, KiB", "", before, after,
           bad ? "GREW" : "flat");
    return bad;
}

static int report_growth(const struct sample *before, const struct sample *after,
                         int count)
{
    int grown = 0;

    printf("%-16s %8s %22s %14s %10s\n", "process", "pid", "anonymous KiB", "files",
           "threads");
    for (int i = 0; i < count; i++) {
        const struct sample *a = &before[i], *b = &after[i];
        int more_threads = b->threads > a->threads && strcmp(a->name, "redis-server");
        int bad = b->anonymous_kib - a->anonymous_kib > growth_limit_kib(a) ||
                  b->files > a->files + BELLS_MORE || more_threads ||
                  b->anonymous_kib < 0;

        printf("%-16s %8d %10ld -> %8ld %5ld -> %5ld %3ld -> %3ld %s\n", a->name,
               (int)a->pid, a->anonymous_kib, b->anonymous_kib, a->files, b->files,
               a->threads, b->threads, bad ? "GREW" : "flat");
        grown += bad;
    }
    return grown;
}

static void call_batch(crt_actor_t *actor)
{
    crt_ref_t *refs[BATCH];

    for (int i = 0; i < BATCH; i++)
        refs[i] = crt_call(actor, &counter_add, 1);
    for (int i = 0; i < BATCH; i++)
        CRT_CHECK(crt_get(refs[i], NULL));
    crt_refs_drop(refs, BATCH);
}

static void put_round(int64_t round)
{
    static float data[4096];
    crt_tensor_t tensor = crt_tensor_floats(data, round % 2 ? 256 : 4096);
    const crt_tensor_t *back;
    crt_ref_t *ref;

    data[0] = (float)round;
    ref = crt_put(&tensor);
    CRT_CHECK(crt_get(ref, &back));
    if (((const float *)back->data)[0] != (float)round) {
        fprintf(stderr, "soak: round %lld gave back something else\n", (long long)round);
        exit(1);
    }
    crt_ref_drop(&ref);
}

/* Actors that are made, called once and ended, so many at once. */
static void short_actors(void)
{
    crt_actor_t *actors[ACTORS_AT_ONCE];
    crt_ref_t *refs[ACTORS_AT_ONCE];

    for (int i = 0; i < ACTORS_AT_ONCE; i++) {
        actors[i] = crt_actor_new(&counter_class, NULL);
        refs[i] = crt_call(actors[i], &counter_add, i);
    }
    for (int i = 0; i < ACTORS_AT_ONCE; i++) {
        int64_t sum;

        CRT_CHECK(crt_get(refs[i], &sum));
        if (sum != i) {
            fprintf(stderr, "soak: a new actor that was given %d holds %lld\n", i,
                    (long long)sum);
            exit(1);
        }
        CRT_CHECK(crt_actor_kill(actors[i], NULL));
        crt_actor_drop(&actors[i]);
    }
    crt_refs_drop(refs, ACTORS_AT_ONCE);
}

static int driver(int argc, char **argv)
{
    struct sample before[PROCESSES_MAX], after[PROCESSES_MAX];
    crt_actor_t *actor = crt_actor_new(&counter_class, NULL);
    crt_ref_t *ref = crt_call(actor, &counter_pid);
    int64_t pid = 0;
    int count = 0, grown;
    long store_before = 0, store_after;

    CRT_CHECK(crt_get(ref, &pid));
    crt_ref_drop(&ref);
    CRT_CHECK(crt_tell(actor, &counter_stall));
    for (int tenth = 0; tenth < 10; tenth++) {
        for (int64_t done = 0; done < calls / 10; done += BATCH)
            call_batch(actor);
        for (int64_t done = 0; done < rounds / 10; done++)
            put_round(done);
        for (int64_t done = 0; done < short_lived / 10; done += ACTORS_AT_ONCE)
            short_actors();
        if (tenth == WARM_TENTHS - 1) {
            store_before = store_kib();
            count = find_processes((pid_t)pid, before);
        }
    }
    store_after = store_kib();
    if (find_processes((pid_t)pid, after) != count) {
        fprintf(stderr, "soak: a process of the cluster ended meanwhile\n");
        return 1;
    }
    printf("%lld calls, %lld put/get/drop rounds, %lld actors for one call\n",
           (long long)calls, (long long)rounds, (long long)short_lived);
    grown = report_growth(before, after, count) + report_store(store_before, store_after);
    crt_actor_drop(&actor);
    return grown ? 1 : 0;
}

int main(int argc, char **argv)
{
    TAKE_OPTIONS(argc, argv, OPTION("calls", calls, 0, 1e15),
                 OPTION("rounds", rounds, 0, 1e15),
                 OPTION("actors", short_lived, 0, 1e9));
    use_own_cluster();
    return crt_main(argc, argv, CRT_OPTIONS(.classes = CRT_CLASSES(&counter_class)),
                    driver);
}
