/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that belong to run directories. See run_dirs.h.
 *
 * A process is recognised by what only ours have, never by its name: the daemons by the pid and
 * start time in their info files, everything they executed by CRT_HEAD_DIR, CRT_NODE_DIR or
 * CRT_NODE_SOCKET in its environment, which is inherited: what a killed daemon left behind is
 * found too, and so are the grandchildren of user code.
 */
#include "cli/run_dirs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/rundir.h"

#define FILE_MAX ((size_t)4 << 20) /* an environment has at most a few MiB */

/* Start in clock ticks since boot. False: it does not run any more (a zombie does not). */
static bool read_start(pid_t pid, uint64_t *start)
{
    char text[1024];
    const char *state = crti_process_stat(pid, 3, text, sizeof(text));

    return state && *state != 'Z' && *state != 'X' &&
           crti_process_start(pid, start) == CRT_OK;
}

/* A file of /proc/PID, ended by a zero; the size is 0 when it can't be read. */
static size_t read_proc(pid_t pid, const char *name, char **text, size_t *capacity)
{
    char path[64];
    size_t used = 0;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && used < FILE_MAX) {
        ssize_t n;

        if (used + 1 >= *capacity) {
            char *larger = realloc(*text, *capacity ? 2 * *capacity : 1 << 16);

            if (!larger)
                break;
            *capacity = *capacity ? 2 * *capacity : 1 << 16;
            *text = larger;
        }
        n = read(fd, *text + used, *capacity - used - 1);
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    if (fd >= 0)
        close(fd);
    if (*text)
        (*text)[used] = '\0';
    return used;
}

bool crti_member_variable(pid_t pid, const char *name, char *value, size_t size)
{
    size_t capacity = 0, length = strlen(name), used;
    char *text = NULL;
    bool found = false;

    used = read_proc(pid, "environ", &text, &capacity);
    for (size_t at = 0; at < used && !found; at += strlen(text + at) + 1)
        if (strncmp(text + at, name, length) == 0 && text[at + length] == '=')
            found =
                snprintf(value, size, "%s", text + at + length + 1) < (int)size && *value;
    free(text);
    return found;
}

/* Which run directory the environment names; NULL: none. */
static const run_dir_t *run_dir_of(const char *environ_text, size_t size,
                                   const run_dir_t *dirs, size_t count)
{
    static const char *const names[] = {
        "CRT_HEAD_DIR=", "CRT_NODE_DIR=", "CRT_NODE_SOCKET="};
    const char *end = environ_text + size;

    for (const char *entry = environ_text; entry < end; entry += strlen(entry) + 1)
        for (size_t i = 0; i < 3; i++) {
            const char *value = entry + strlen(names[i]);

            if (strncmp(entry, names[i], strlen(names[i])) != 0)
                continue;
            for (size_t k = 0; k < count; k++) {
                size_t length = strlen(dirs[k].dir);

                if (strncmp(value, dirs[k].dir, length) == 0 &&
                    strcmp(value + length, i == 2 ? "/node.sock" : "") == 0)
                    return &dirs[k];
            }
        }
    return NULL;
}

/* The daemon, or a child of a head that is named in its info file and has its directory among
 * its arguments. */
static const run_dir_t *run_dir_of_recorded(pid_t pid, uint64_t start,
                                            const run_dir_t *dirs, size_t count,
                                            bool *is_daemon)
{
    static char *arguments;
    static size_t capacity;

    for (size_t k = 0; k < count; k++) {
        size_t size;

        *is_daemon = true;
        if (dirs[k].pid == pid &&
            (dirs[k].start ? dirs[k].start == start : dirs[k].is_living))
            return &dirs[k];
        *is_daemon = false;
        if (dirs[k].children[0] != pid && dirs[k].children[1] != pid)
            continue;
        size = read_proc(pid, "cmdline", &arguments, &capacity);
        if (size && memmem(arguments, size, dirs[k].dir, strlen(dirs[k].dir)))
            return &dirs[k];
    }
    return NULL;
}

size_t crti_members_find(const run_dir_t *dirs, size_t count, member_t *members,
                         size_t room)
{
    DIR *proc = opendir("/proc");
    char *text = NULL;
    size_t capacity = 0, found = 0;
    struct dirent *entry;

    while (proc && (entry = readdir(proc))) {
        pid_t pid = (pid_t)atol(entry->d_name);
        const run_dir_t *run_dir;
        bool is_daemon = false;
        uint64_t start;
        size_t size;
        struct stat st;

        if (!isdigit((unsigned char)entry->d_name[0]) || pid == getpid() ||
            fstatat(dirfd(proc), entry->d_name, &st, 0) != 0 || st.st_uid != geteuid() ||
            !read_start(pid, &start))
            continue;
        run_dir = run_dir_of_recorded(pid, start, dirs, count, &is_daemon);
        if (!run_dir) {
            size = read_proc(pid, "environ", &text, &capacity);
            run_dir = size ? run_dir_of(text, size, dirs, count) : NULL;
        }
        if (!run_dir)
            continue;
        if (found < room)
            members[found] = (member_t){pid, start, is_daemon, run_dir->is_head};
        found++;
    }
    if (proc)
        closedir(proc);
    free(text);
    return found;
}

int crti_member_open(const member_t *member)
{
    int fd = (int)syscall(SYS_pidfd_open, member->pid, 0);
    uint64_t start;

    if (fd < 0)
        return -1;
    errno = ESRCH;
    /* Checked after the descriptor holds the process: the number can't change owners now. */
    if (read_start(member->pid, &start) && start == member->start)
        return fd;
    close(fd);
    return -1;
}
