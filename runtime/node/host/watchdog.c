/* SPDX-License-Identifier: Apache-2.0 */
/* The process that outlives the daemon. See watchdog.h. */
#include "runtime/node/host/watchdog.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/rundir.h"

#define WATCHDOG_NS (5 * CRTI_S)
#define PAUSE_NS    (5 * CRTI_MS) /* between two looks while somebody ends */
#define ENTRY_BYTES 4096          /* a longer variable is none of ours */
#define WATCHDOG_FD 3             /* numbers in the watchdog */
#define LOCK_FD     4
#define NAME        "crt-watchdog"

/* ---------------------------------------------------------------- whose process */

typedef struct wanted {
    char dir[320], socket[320]; /* the entries that mean this node */
} wanted_t;

/* The variable that ends at text[size], or, when it is too long, the end of it. */
static bool is_ours(const wanted_t *wanted, const char *text, size_t size)
{
    return (size == strlen(wanted->dir) && memcmp(text, wanted->dir, size) == 0) ||
           (size == strlen(wanted->socket) && memcmp(text, wanted->socket, size) == 0);
}

static bool has_variable(int fd, const wanted_t *wanted)
{
    char text[2 * ENTRY_BYTES];
    size_t used = 0;
    bool is_cut = false; /* the beginning of the variable is gone */
    ssize_t got;

    while ((got = read(fd, text + used, sizeof(text) - used)) > 0) {
        char *from = text, *end;

        used += (size_t)got;
        while ((end = memchr(from, '\0', used - (size_t)(from - text))) != NULL) {
            if (!is_cut && is_ours(wanted, from, (size_t)(end - from)))
                return true;
            is_cut = false;
            from = end + 1;
        }
        used -= (size_t)(from - text);
        memmove(text, from, used);
        if (used >= ENTRY_BYTES) {
            is_cut = true;
            used = 0;
        }
    }
    return false;
}

static bool belongs(int proc, const char *pid, const wanted_t *wanted)
{
    char path[32];
    struct stat st;
    bool found;
    int fd;

    if (strlen(pid) > 12 || fstatat(proc, pid, &st, 0) != 0 || st.st_uid != geteuid())
        return false;
    strcpy(path, pid);
    strcat(path, "/environ");
    fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    found = has_variable(fd, wanted);
    close(fd);
    return found;
}

/* ---------------------------------------------------------------- ending them */

typedef struct entry { /* of getdents64 */
    uint64_t inode, offset;
    unsigned short length;
    unsigned char type;
    char name[];
} entry_t;

/* SIGKILL to all that are found; how many. */
static int look_once(int proc, const wanted_t *wanted)
{
    char list[8192] __attribute__((aligned(8)));
    int found = 0;
    long size;

    lseek(proc, 0, SEEK_SET);
    while ((size = syscall(SYS_getdents64, proc, list, sizeof(list))) > 0)
        for (long at = 0; at < size;) {
            const entry_t *entry = (const void *)(list + at);
            pid_t pid = 0;

            for (const char *c = entry->name; *c >= '0' && *c <= '9'; c++)
                pid = 10 * pid + (*c - '0');
            if (pid > 1 && pid != getpid() && belongs(proc, entry->name, wanted)) {
                found++;
                kill(pid, SIGKILL);
            }
            at += entry->length;
        }
    return found;
}

static void end_all(const wanted_t *wanted)
{
    uint64_t deadline = crti_now_ns() + WATCHDOG_NS;
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    /* One that is killed may have forked: only a look that finds nobody is the last. */
    while (proc >= 0 && look_once(proc, wanted) && crti_now_ns() < deadline)
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
}

static void want(const char *run_dir, wanted_t *wanted)
{
    snprintf(wanted->dir, sizeof(wanted->dir), "CRT_NODE_DIR=%s", run_dir);
    snprintf(wanted->socket, sizeof(wanted->socket), "CRT_NODE_SOCKET=%s/node.sock",
             run_dir);
}

void crti_watchdog_sweep(const char *run)
{
    DIR *entries = opendir(run);
    const struct dirent *entry;
    wanted_t wanted;
    char dir[300];

    while (entries && (entry = readdir(entries)) != NULL) {
        if (strncmp(entry->d_name, "node-", 5) != 0 ||
            snprintf(dir, sizeof(dir), "%s/%s", run, entry->d_name) >= (int)sizeof(dir) ||
            !crti_dir_is_left(dir))
            continue;
        crti_log(CRTI_LOG_INFO, "node", "removes %s of a node that was killed", dir);
        want(dir, &wanted);
        end_all(&wanted);
        crti_dir_remove(dir);
    }
    if (entries)
        closedir(entries);
}

/* ---------------------------------------------------------------- the process */

static void keep(const wanted_t *wanted)
{
    char byte;
    ssize_t n;

    do
        n = read(WATCHDOG_FD, &byte, 1);
    while (n > 0 || (n < 0 && errno == EINTR));
    end_all(wanted);
    _exit(0);
}

/* The arguments lie in one piece from argv[0] on. */
void crti_take_name(const char *name)
{
    char part[256];
    size_t room = 0;
    ssize_t n;
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);

    prctl(PR_SET_NAME, name);
    while (fd >= 0 && (n = read(fd, part, sizeof(part))) > 0)
        room += (size_t)n;
    if (fd >= 0)
        close(fd);
    if (room > strlen(name)) {
        memset(program_invocation_name, 0, room);
        strcpy(program_invocation_name, name);
    }
}

/* Only the pipe and the lock stay open: else the starter's pipes would never end. */
static void become_watchdog(const wanted_t *wanted, int fd, int lock_fd)
{
    static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE};
    int null;

    setsid();
    crti_wake_with_parent(true);
    crti_take_name(NAME);
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        signal(ignored[i], SIG_IGN);
    /* Out of the way of the numbers they get. */
    fd = fcntl(fd, F_DUPFD, LOCK_FD + 1);
    lock_fd = fcntl(lock_fd, F_DUPFD, LOCK_FD + 1);
    null = open("/dev/null", O_RDWR);
    if (fd < 0 || lock_fd < 0 || null < 0 || dup2(fd, WATCHDOG_FD) < 0 ||
        dup2(lock_fd, LOCK_FD) < 0)
        _exit(1);
    for (int i = 0; i < 3; i++)
        dup2(null, i);
    if (syscall(SYS_close_range, LOCK_FD + 1, ~0u, 0) != 0) /* an old kernel */
        for (int i = LOCK_FD + 1; i < 1024; i++)
            close(i);
    if (chdir("/") != 0)
        _exit(1);
    keep(wanted);
}

crt_status_t crti_watchdog_start(crti_watchdog_t *watchdog, const char *run_dir,
                                 int lock_fd)
{
    wanted_t wanted;
    int ends[2];

    *watchdog = (crti_watchdog_t){.fd = -1};
    want(run_dir, &wanted);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return crt_raise(CRT_ERR_IO, "pipe: %s", strerror(errno));
    watchdog->pid = fork();
    if (watchdog->pid == 0)
        become_watchdog(&wanted, ends[0], lock_fd);
    close(ends[0]);
    if (watchdog->pid < 0) {
        close(ends[1]);
        watchdog->pid = 0;
        return crt_raise(CRT_ERR_BACKPRESSURE, "fork: %s", strerror(errno));
    }
    watchdog->fd = ends[1];
    return CRT_OK;
}

void crti_watchdog_end(crti_watchdog_t *watchdog)
{
    if (watchdog->pid == 0)
        return;
    close(watchdog->fd);
    kill(watchdog->pid,
         SIGCONT); /* one that somebody stopped would be waited for without end */
    while (waitpid(watchdog->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    *watchdog = (crti_watchdog_t){.fd = -1};
}
