/* SPDX-License-Identifier: Apache-2.0 */
/* Run directories. See run_dirs.h. */
#include "cli/run_dirs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "runtime/base/rundir.h"

static void on_alarm(int number)
{
}

void crti_run_dir_await_end(const char *dir, int64_t timeout_ms)
{
    /* Again and again: the first may come before the wait has begun. */
    struct itimerval after = {.it_value = {timeout_ms / 1000, timeout_ms % 1000 * 1000},
                              .it_interval = {.tv_usec = 10000}};
    const struct itimerval never = {0};
    struct sigaction action = {.sa_handler = on_alarm}, before; /* it ends flock */
    sigset_t alarm, mask;
    char path[128];
    int fd;

    snprintf(path, sizeof(path), "%s/lock", dir);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigaction(SIGALRM, &action, &before);
    sigprocmask(SIG_UNBLOCK, &alarm, &mask);
    setitimer(ITIMER_REAL, timeout_ms > 0 ? &after : &never, NULL);
    flock(fd, timeout_ms > 0 ? LOCK_SH : LOCK_SH | LOCK_NB);
    setitimer(ITIMER_REAL, &never, NULL);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    sigaction(SIGALRM, &before, NULL);
    close(fd);
}

/* A daemon that was killed during its start left no info file, only its number in the lock. */
static void read_lock(run_dir_t *run_dir)
{
    char path[128], line[32];
    FILE *file;

    snprintf(path, sizeof(path), "%s/lock", run_dir->dir);
    file = fopen(path, "re");
    if (file && fgets(line, sizeof(line), file))
        run_dir->pid = (pid_t)atol(line);
    if (file)
        fclose(file);
}

/* One that has yet to write its info file has it from whoever started it. */
static void read_state(run_dir_t *run_dir)
{
    char *end = strrchr(run_dir->state, '/');

    if (end)
        *end = '\0'; /* it is STATE/head-PORT or STATE/node-HEX8 */
    else if (run_dir->is_living)
        crti_member_variable(run_dir->pid, "CRT_STATE_DIR", run_dir->state,
                             sizeof(run_dir->state));
}

static void read_info(run_dir_t *run_dir)
{
    char path[128], *text = NULL;

    snprintf(path, sizeof(path), "%s/%s", run_dir->dir,
             run_dir->is_head ? "head.info" : "node.info");
    if (crti_info_read(path, &text) == CRT_OK) {
        crti_info_get(text, "node", run_dir->node, sizeof(run_dir->node));
        crti_info_get(text, "node_name", run_dir->name, sizeof(run_dir->name));
        crti_info_get(text, "address", run_dir->address, sizeof(run_dir->address));
        crti_info_get(text, "state_dir", run_dir->state, sizeof(run_dir->state));
        crti_info_get(text, "key_file", run_dir->key_file, sizeof(run_dir->key_file));
        run_dir->pid = (pid_t)crti_info_int(text, "pid");
        run_dir->start = (uint64_t)crti_info_int(text, "start");
        run_dir->children[0] = (pid_t)crti_info_int(text, "http_pid");
        run_dir->children[1] = (pid_t)crti_info_int(text, "redis_pid");
    }
    free(text);
    if (run_dir->pid == 0)
        read_lock(run_dir);
    read_state(run_dir);
}

static bool is_our_directory(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

size_t crti_run_dirs_find(const char *address, run_dir_t dirs[RUN_DIRS_MAX])
{
    char run[96];
    struct dirent *entry;
    size_t count = 0;
    DIR *dir;

    if (crti_run_dir(run, sizeof(run)) != CRT_OK || !(dir = opendir(run)))
        return 0;
    while (count < RUN_DIRS_MAX && (entry = readdir(dir))) {
        run_dir_t *run_dir = &dirs[count];

        *run_dir = (run_dir_t){.is_head = strncmp(entry->d_name, "head-", 5) == 0};
        if (!run_dir->is_head && strncmp(entry->d_name, "node-", 5) != 0)
            continue;
        if (snprintf(run_dir->dir, sizeof(run_dir->dir), "%s/%s", run, entry->d_name) >=
                (int)sizeof(run_dir->dir) ||
            !is_our_directory(run_dir->dir))
            continue;
        run_dir->is_living = crti_dir_is_locked(run_dir->dir);
        read_info(run_dir);
        if (!address ||
            (run_dir->address[0] && crt_cluster_same_address(address, run_dir->address)))
            count++;
    }
    closedir(dir);
    return count;
}

/* A node may have joined from another state directory than its head's: the cluster is of both. */
static bool is_own(const run_dir_t *dirs, size_t count, const run_dir_t *run_dir,
                   const char *state)
{
    if (!run_dir->address[0] && !run_dir->is_living)
        return !run_dir->state[0] || crti_dir_is_same(run_dir->state, state);
    for (size_t i = 0; i < count; i++)
        if (strcmp(dirs[i].address, run_dir->address) == 0 && dirs[i].state[0] &&
            crti_dir_is_same(dirs[i].state, state))
            return true;
    return false;
}

size_t crti_run_dirs_keep_own(run_dir_t *dirs, size_t count)
{
    const char *state = getenv("CRT_STATE_DIR");
    bool keeps[RUN_DIRS_MAX];
    size_t kept = 0;

    if (!state || !*state)
        return count;
    for (size_t i = 0; i < count; i++)
        keeps[i] = is_own(dirs, count, &dirs[i], state);
    for (size_t i = 0; i < count; i++)
        if (keeps[i])
            dirs[kept++] = dirs[i];
    return kept;
}

static int remove_entry(const char *path, const struct stat *st, int type,
                        struct FTW *walk)
{
    return remove(path);
}

bool crti_run_dir_remove(const char *dir)
{
    return nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT;
}

void crti_run_dirs_remove_root(void)
{
    const char *own = getenv("CRT_RUN_DIR");
    char run[96];

    if (!(own && *own) && crti_run_dir(run, sizeof(run)) == CRT_OK)
        rmdir(run); /* fails when somebody else uses it: as it should */
}
