/* SPDX-License-Identifier: Apache-2.0 */
/* Counts and removes directories of nodes that ended. See old_logs.h. */
#include "runtime/node/host/old_logs.h"

#include <dirent.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/buffer.h"
#include "runtime/base/log.h"
#include "runtime/base/rundir.h"
#include "runtime/base/thread.h"

#define OPEN_FDS 16

typedef struct directory {
    char path[512];
    uint64_t bytes;
    int64_t written_s; /* newest file */
} directory_t;

/* nftw gives its function nothing of the caller's. */
static _Thread_local directory_t *counted;
static _Thread_local const atomic_bool *stops_walk;

static void closedir_auto(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

static int count_entry(const char *path, const struct stat *st, int type,
                       struct FTW *walk)
{
    if (type == FTW_F) {
        counted->bytes += (uint64_t)st->st_blocks * 512;
        if (st->st_mtime > counted->written_s)
            counted->written_s = st->st_mtime;
    }
    return atomic_load(stops_walk);
}

static int remove_entry(const char *path, const struct stat *st, int type,
                        struct FTW *walk)
{
    remove(path); /* what stays can be seen there */
    return atomic_load(stops_walk);
}

static bool is_node(const char *name)
{
    return strncmp(name, "node-", 5) == 0 && strlen(name) == 13 &&
           strspn(name + 5, "0123456789abcdef") == 8;
}

static int newest_first(const void *a, const void *b)
{
    const directory_t *x = a, *y = b;

    return (x->written_s < y->written_s) - (x->written_s > y->written_s);
}

/* What another user put into a directory that is everybody's (CRT_STATE_DIR=/tmp) is none of ours:
 * he could lead the walk elsewhere while it removes. */
static bool is_our_directory(const char *path, struct stat *st)
{
    return lstat(path, st) == 0 && S_ISDIR(st->st_mode) && st->st_uid == geteuid();
}

/* Appends a directory_t for each node that has ended. */
static void find_ended(const char *state_dir, const char *own, crti_buffer_t *found)
{
    CRTI_AUTO(closedir) DIR *entries = opendir(state_dir);
    const struct dirent *entry;

    while (entries && (entry = readdir(entries)) != NULL) {
        directory_t d = {.bytes = 0};
        struct stat st;

        if (!is_node(entry->d_name))
            continue;
        snprintf(d.path, sizeof(d.path), "%.400s/%s", state_dir, entry->d_name);
        if (strcmp(d.path, own) == 0 || !is_our_directory(d.path, &st) ||
            crti_dir_is_locked(d.path))
            continue;
        d.written_s = st.st_mtime;
        counted = &d;
        nftw(d.path, count_entry, OPEN_FDS, FTW_PHYS);
        if (crti_buffer_append(found, &d, sizeof(d)) != CRT_OK)
            return;
    }
}

size_t crti_old_logs_trim(const char *state_dir, const char *own, uint64_t total,
                          const atomic_bool *stops)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t found = {0};
    size_t count, removed = 0;
    uint64_t bytes = 0;
    directory_t *all;

    stops_walk = stops;
    find_ended(state_dir, own, &found);
    all = (directory_t *)(void *)found.data;
    count = found.size / sizeof(*all);
    if (count)
        qsort(all, count, sizeof(*all), newest_first);
    for (size_t i = 0; i < count && !atomic_load(stops); i++) {
        bytes += all[i].bytes;
        if (i < CRTI_OLD_NODES && bytes <= total)
            continue;
        nftw(all[i].path, remove_entry, OPEN_FDS, FTW_DEPTH | FTW_PHYS);
        removed++;
    }
    if (removed)
        crti_log(CRTI_LOG_INFO, "logs", "%zu directories of earlier nodes were removed",
                 removed);
    return removed;
}

static void *run(void *user)
{
    crti_old_logs_t *old = user;

    crti_old_logs_trim(old->state_dir, old->own, old->total, &old->stops);
    return NULL;
}

void crti_old_logs_start(crti_old_logs_t *old, const char *state_dir, const char *own,
                         uint64_t total)
{
    snprintf(old->state_dir, sizeof(old->state_dir), "%s", state_dir);
    snprintf(old->own, sizeof(old->own), "%s", own);
    old->total = total;
    atomic_init(&old->stops, false);
    old->is_running = crti_thread_start(&old->thread, NULL, run, old) == 0;
}

void crti_old_logs_fini(crti_old_logs_t *old)
{
    if (!old->is_running)
        return;
    atomic_store(&old->stops, true);
    pthread_join(old->thread, NULL);
    old->is_running = false;
}
