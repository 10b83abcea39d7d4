/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the host and of control groups. See memory.h. */
#include "runtime/base/memory.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/control_group.h"

#define PATH           1024
#define TREE_PROCESSES 4096

/* The files of one version of control groups. */
typedef struct version {
    const char *limit, *usage;
    const char *cache; /* key in memory.stat */
} version_t;

static const version_t versions[] = {
    [1] = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "},
    [2] = {"memory.max", "memory.current", "inactive_file "}};

/* The number behind `key` at the start of a line. */
static bool read_key(const char *path, const char *key, uint64_t *value_out)
{
    CRTI_AUTO(fclose) FILE *file = fopen(path, "re");
    unsigned long long value;
    char line[256];

    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, key, strlen(key)) == 0 &&
            sscanf(line + strlen(key), "%llu", &value) == 1) {
            *value_out = value;
            return true;
        }
    return false;
}

static void add(crti_memory_t *memory, uint64_t total, uint64_t used)
{
    if (total > 0 && memory->count < CRTI_MEMORY_LEVELS)
        memory->level[memory->count++] =
            (crti_memory_level_t){total, used < total ? used : total};
}

static void add_host(const char *root, crti_memory_t *memory)
{
    uint64_t total, available;
    char path[PATH];

    snprintf(path, sizeof(path), "%s/proc/meminfo", root);
    if (read_key(path, "MemTotal:", &total) &&
        read_key(path, "MemAvailable:", &available) && available <= total)
        add(memory, total << 10, (total - available) << 10);
}

/* A group without a limit has one that is no number, or larger than any host. */
static void add_group(void *user, const char *directory, int version)
{
    const version_t *v = &versions[version];
    crti_memory_t *memory = user;
    uint64_t limit, used, cache = 0;
    char path[PATH + 32];

    snprintf(path, sizeof(path), "%s/%s", directory, v->limit);
    if (!read_key(path, "", &limit) || limit > INT64_MAX / 2)
        return;
    snprintf(path, sizeof(path), "%s/%s", directory, v->usage);
    if (!read_key(path, "", &used))
        return;
    snprintf(path, sizeof(path), "%s/memory.stat", directory);
    (void)read_key(path, v->cache, &cache);
    add(memory, limit, used > cache ? used - cache : 0);
}

void crti_memory_read(const char *root, crti_memory_t *memory_out)
{
    *memory_out = (crti_memory_t){0};
    add_host(root, memory_out);
    crti_control_groups_visit(root, "memory", add_group, memory_out);
}

uint64_t crti_memory_total(const crti_memory_t *memory)
{
    uint64_t least = UINT64_MAX;

    for (unsigned i = 0; i < memory->count; i++)
        if (memory->level[i].total < least)
            least = memory->level[i].total;
    return least;
}

uint64_t crti_memory_left(const crti_memory_t *memory)
{
    uint64_t least = UINT64_MAX;

    for (unsigned i = 0; i < memory->count; i++)
        if (memory->level[i].total - memory->level[i].used < least)
            least = memory->level[i].total - memory->level[i].used;
    return least;
}

crti_memory_level_t crti_memory_tightest(const crti_memory_t *memory)
{
    crti_memory_level_t most = {0};

    for (unsigned i = 0; i < memory->count; i++) {
        const crti_memory_level_t *l = &memory->level[i];

        if (most.total == 0 ||
            (double)l->used / (double)l->total > (double)most.used / (double)most.total)
            most = *l;
    }
    return most;
}

uint64_t crti_memory_of(pid_t pid)
{
    unsigned long long resident, shared;
    char path[64];
    CRTI_AUTO(fclose) FILE *file = NULL;

    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    file = fopen(path, "re");
    if (!file || fscanf(file, "%*u %llu %llu", &resident, &shared) != 2 ||
        resident < shared)
        return 0;
    return (uint64_t)(resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

typedef struct tree {
    pid_t process[TREE_PROCESSES];
    unsigned count;
} tree_t;

/* The children that this thread has forked. */
static void add_children(tree_t *tree, pid_t pid, pid_t thread)
{
    char path[80];
    CRTI_AUTO(fclose) FILE *file = NULL;
    int child;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)thread);
    file = fopen(path, "re");
    while (file && tree->count < TREE_PROCESSES && fscanf(file, "%d", &child) == 1 &&
           child > 0)
        tree->process[tree->count++] = child;
}

/* Of its other threads; most processes have none. */
static void add_threads(tree_t *tree, pid_t pid)
{
    const struct dirent *entry;
    struct stat info;
    char path[64];
    DIR *threads;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    if (stat(path, &info) != 0 || info.st_nlink <= 3) /* itself, its parent, one thread */
        return;
    threads = opendir(path);
    while (threads && (entry = readdir(threads))) {
        pid_t thread = (pid_t)atoi(entry->d_name);

        if (thread > 0 && thread != pid)
            add_children(tree, pid, thread);
    }
    if (threads)
        closedir(threads);
}

/* Its share of the pages that it and others have in common, and all of those that it alone has. */
static uint64_t share_of(pid_t pid)
{
    char path[64];
    uint64_t kib;

    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
    return read_key(path, "Pss_Anon:", &kib) ? kib << 10 : crti_memory_of(pid);
}

/* Children of processes of the group that have ended are this process's now. */
static void add_orphans(tree_t *tree, pid_t group)
{
    pid_t self = getpid();
    unsigned from = tree->count, kept = from;

    if (group == self)
        return;
    add_children(tree, self, self);
    add_threads(tree, self);
    for (unsigned i = from; i < tree->count; i++)
        if (tree->process[i] != group && getpgid(tree->process[i]) == group)
            tree->process[kept++] = tree->process[i];
    tree->count = kept;
}

uint64_t crti_memory_of_tree(pid_t pid)
{
    tree_t tree;
    uint64_t bytes = 0;

    tree.process[0] = pid;
    tree.count = 1;
    add_orphans(&tree, pid);
    for (unsigned i = 0; i < tree.count; i++) {
        add_children(&tree, tree.process[i], tree.process[i]);
        add_threads(&tree, tree.process[i]);
    }
    if (tree.count == 1)
        return crti_memory_of(pid);
    for (unsigned i = 0; i < tree.count; i++)
        bytes += share_of(tree.process[i]);
    return bytes;
}

uint64_t crti_memory_kills(const char *root)
{
    uint64_t kills = 0;
    char path[PATH];

    snprintf(path, sizeof(path), "%s/proc/vmstat", root);
    (void)read_key(path, "oom_kill ", &kills);
    return kills;
}
