/* SPDX-License-Identifier: Apache-2.0 */
/* The end of all that a process started. See descendants.h. */
#include "runtime/base/descendants.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_NS   (5 * CRTI_MS) /* between two looks */
#define STAT_BYTES 256

void crti_descendants_keep(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

typedef struct entry { /* of getdents64 */
    uint64_t inode, offset;
    unsigned short length;
    unsigned char type;
    char name[];
} entry_t;

/* The parent of a process: "PID (NAME) STATE PPID ..."; a name may hold anything. 0: it is gone. */
static pid_t parent_of(int proc, const char *pid)
{
    char path[32], text[STAT_BYTES];
    const char *at;
    ssize_t got;
    int fd;

    if (strlen(pid) > 12)
        return 0;
    strcpy(path, pid);
    strcat(path, "/stat");
    fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    got = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    at = strrchr(text, ')');
    return at && strlen(at) > 4 ? (pid_t)strtol(at + 4, NULL, 10) : 0;
}

/* Whoever is our child stays that until we reap it: its number can't be another one's. */
static void kill_children(int proc)
{
    char list[8192] __attribute__((aligned(8)));
    pid_t own = getpid();
    long size;

    lseek(proc, 0, SEEK_SET);
    while ((size = syscall(SYS_getdents64, proc, list, sizeof(list))) > 0)
        for (long at = 0; at < size;) {
            const entry_t *entry = (const void *)(list + at);

            if (entry->name[0] >= '0' && entry->name[0] <= '9' &&
                parent_of(proc, entry->name) == own)
                kill((pid_t)strtol(entry->name, NULL, 10), SIGKILL);
            at += entry->length;
        }
}

/* Those of the killed become ours: only when there is no child is there nobody. */
void crti_descendants_end(pid_t noted, int *status)
{
    uint64_t deadline = crti_now_ns() + CRTI_DESCENDANTS_NS;
    int proc = -1;

    for (;;) {
        int how;
        pid_t ended = waitpid(-1, &how, WNOHANG);

        if (ended > 0 && ended == noted)
            *status = how;
        if (ended > 0 || (ended < 0 && errno == EINTR))
            continue;
        if (ended < 0 || crti_now_ns() > deadline)
            return;
        if (proc < 0)
            proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        kill_children(proc);
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
    }
}
