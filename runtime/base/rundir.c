/* SPDX-License-Identifier: Apache-2.0 */
/* Run and state directories and their info files. See rundir.h. */
#include "runtime/base/rundir.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define INFO_MAX       ((size_t)16 << 10)
#define SWEEP_AGE_S    60
#define KERNEL_EXITING 4    /* PF_EXITING, which no header for programs has */
#define LOOKERS_MS     1000 /* for those who only look at a lock */

static void closedir_auto(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

static const char *environment(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

static crt_status_t fits(int length, const char *path, size_t size, const char *variable)
{
    if (length < 0 || (size_t)length >= size)
        return crt_raise(CRT_ERR_TOO_LARGE,
                         "the path of the directory is too long; set %s to a short one",
                         variable);
    for (const char *at = path; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 127)
            return crt_raise(CRT_ERR_INVALID,
                             "the path of the directory holds a control character (byte "
                             "%d), a newline perhaps; set %s to one without",
                             *at, variable);
    if (path[0] !=
        '/') /* daemons, jobs and workers have working directories of their own */
        return crt_raise(CRT_ERR_INVALID,
                         "the directory %s is relative; set %s to an absolute path", path,
                         variable);
    return CRT_OK;
}

static crt_status_t check_owner(const char *path, const struct stat *st)
{
    return st->st_uid == geteuid()
               ? CRT_OK
               : crt_raise(CRT_ERR_PERMISSION,
                           "%s belongs to user %u, not to you (user %u)", path,
                           (unsigned)st->st_uid, (unsigned)geteuid());
}

static crt_status_t check_found(const char *path, const struct stat *st)
{
    if (!S_ISDIR(st->st_mode))
        return crt_raise(CRT_ERR_PERMISSION, "%s is not a directory", path);
    CRT_TRY(check_owner(path, st));
    if (st->st_mode & 077)
        return crt_raise(CRT_ERR_PERMISSION,
                         "%s can be used by others (mode %04o); run: chmod 700 %s", path,
                         (unsigned)(st->st_mode & 07777), path);
    return CRT_OK;
}

crt_status_t crti_dir_check(const char *path)
{
    struct stat st;

    if (lstat(path, &st) != 0)
        return crt_raise(errno == ENOENT ? CRT_ERR_NOT_FOUND : CRT_ERR_IO, "%s: %s", path,
                         strerror(errno));
    return check_found(path, &st);
}

/* A fifo in its place keeps nobody waiting. */
static crt_status_t open_below(int dir, const char *path, const char *name, int *fd_out)
{
    CRTI_AUTO(crti_close)
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) != 0)
        return crt_raise(errno == ENOENT ? CRT_ERR_NOT_FOUND : CRT_ERR_IO, "%s: %s", path,
                         strerror(errno));
    if (!S_ISREG(st.st_mode))
        return crt_raise(CRT_ERR_PERMISSION, "%s is not a file", path);
    CRT_TRY(check_owner(path, &st));
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return crt_raise(CRT_ERR_PERMISSION, "others can write to %s (mode %04o)", path,
                         (unsigned)(st.st_mode & 07777));
    *fd_out = crti_take_fd(&fd);
    return CRT_OK;
}

crt_status_t crti_own_open(const char *path, int *fd_out)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    CRTI_AUTO(crti_close) int dir = -1;
    struct stat st;

    if (slash == NULL || snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path),
                                  path) >= (int)sizeof(folder))
        return crt_raise(CRT_ERR_TOO_LARGE, "the path %s is too long, or has no folder",
                         path);
    dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir < 0 || fstat(dir, &st) != 0)
        return crt_raise(errno == ENOENT ? CRT_ERR_NOT_FOUND : CRT_ERR_IO, "%s: %s",
                         folder, strerror(errno));
    CRT_TRY(check_found(folder, &st));
    return open_below(dir, path, slash + 1, fd_out);
}

static crt_status_t name_run_dir(char *path, size_t size)
{
    const char *own = environment("CRT_RUN_DIR");
    const char *base = environment("XDG_RUNTIME_DIR");

    if (own)
        return fits(snprintf(path, size, "%s", own), path, size, "CRT_RUN_DIR");
    return fits(
        snprintf(path, size, "%s/crt-%u", base ? base : "/tmp", (unsigned)geteuid()),
        path, size, "CRT_RUN_DIR");
}

/* Anybody can make a directory of our name in /tmp, and say in it where our cluster is. */
crt_status_t crti_run_dir(char *path, size_t size)
{
    crt_status_t status = name_run_dir(path, size);
    struct stat st;

    return status == CRT_OK && lstat(path, &st) == 0 ? crti_dir_check(path) : status;
}

static crt_status_t name_state_dir(char *path, size_t size)
{
    const char *own = environment("CRT_STATE_DIR");
    const char *base = environment("XDG_STATE_HOME");
    const char *home = environment("HOME");

    if (own)
        return fits(snprintf(path, size, "%s", own), path, size, "CRT_STATE_DIR");
    if (base)
        return fits(snprintf(path, size, "%s/crt", base), path, size, "CRT_STATE_DIR");
    if (!home)
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "neither CRT_STATE_DIR nor HOME is set: no place for logs");
    return fits(snprintf(path, size, "%s/.local/state/crt", home), path, size,
                "CRT_STATE_DIR");
}

bool crti_dir_is_same(const char *a, const char *b)
{
    struct stat first, second;

    return strcmp(a, b) == 0 ||
           (stat(a, &first) == 0 && stat(b, &second) == 0 &&
            first.st_dev == second.st_dev && first.st_ino == second.st_ino);
}

/* The group that many systems make for each user, with the user's number and nobody else in it. */
static bool is_group_of_us(gid_t gid)
{
    char names[4096], texts[4096];
    struct passwd user, *found_user = NULL;
    struct group group, *found = NULL;

    if (gid != getegid() || gid != geteuid() ||
        getgrgid_r(gid, &group, names, sizeof(names), &found) != 0)
        return false;
    if (found == NULL || found->gr_mem[0] == NULL)
        return true;
    return getpwuid_r(geteuid(), &user, texts, sizeof(texts), &found_user) == 0 &&
           found_user && strcmp(found->gr_mem[0], user.pw_name) == 0 &&
           found->gr_mem[1] == NULL;
}

/* What is ours in it is closed to others; but they could put something of theirs in its place. */
crt_status_t crti_state_dir(char *path, size_t size)
{
    crt_status_t status = name_state_dir(path, size);
    bool by_all, by_group;
    struct stat st;

    if (status != CRT_OK || stat(path, &st) != 0)
        return status;
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return crt_raise(CRT_ERR_PERMISSION,
                         "%s belongs to user %u, who may replace what is in it; set "
                         "CRT_STATE_DIR to a directory of yours",
                         path, (unsigned)st.st_uid);
    by_all = st.st_mode & S_IWOTH;
    by_group = (st.st_mode & S_IWGRP) && !is_group_of_us(st.st_gid);
    if ((by_all || by_group) && !(st.st_mode & S_ISVTX))
        return crt_raise(CRT_ERR_PERMISSION,
                         "%s may replace what is in %s (mode %04o); run: chmod "
                         "%s-w %s, or set CRT_STATE_DIR to a directory of yours",
                         by_all ? "everybody" : "its group", path,
                         (unsigned)(st.st_mode & 07777),
                         by_all && by_group ? "go" : (by_all ? "o" : "g"), path);
    return status;
}

crt_status_t crti_dir_make(const char *path)
{
    char part[4096];
    size_t length = strlen(path);
    int again = 0;

    if (length == 0 || length >= sizeof(part))
        return crt_raise(CRT_ERR_TOO_LARGE, "a path of %zu bytes", length);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0700) == 0 || errno == EEXIST)
            continue;
        if (errno == ENOENT && again++ < 100) {
            i = 0; /* somebody has just unmade a parent that was empty */
            continue;
        }
        return crt_raise(errno == EACCES ? CRT_ERR_PERMISSION : CRT_ERR_IO,
                         "can't make the directory %s: %s", part, strerror(errno));
    }
    return crti_dir_check(path);
}

void crti_dir_first_missing(const char *path, char *first, size_t size)
{
    struct stat st;
    size_t length = strlen(path);

    first[0] = '\0';
    for (size_t i = 1; i <= length && i < size; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(first, path, i);
        first[i] = '\0';
        if (lstat(first, &st) != 0 && errno == ENOENT)
            return;
    }
    first[0] = '\0';
}

void crti_dir_unmake(const char *path, const char *first)
{
    char part[4096];

    if (!first[0] || snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part))
        return;
    while (strlen(part) >= strlen(first) && (rmdir(part) == 0 || errno == ENOENT)) {
        char *slash = strrchr(part, '/');

        if (slash == NULL || slash == part)
            return;
        *slash = '\0';
    }
}

/* Who looks at the lock has it for a moment, shared: that is no holder. */
static bool take_lock(int fd)
{
    for (int tries = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; tries++) {
        if (errno != EWOULDBLOCK || flock(fd, LOCK_SH | LOCK_NB) != 0 ||
            tries == LOOKERS_MS)
            return false;
        flock(fd, LOCK_UN);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return true;
}

crt_status_t crti_dir_lock(const char *dir, int *fd_out)
{
    char path[4200];
    CRTI_AUTO(crti_close) int fd = -1;

    snprintf(path, sizeof(path), "%s/lock", dir);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    if (!take_lock(fd))
        return crt_raise(
            errno == EWOULDBLOCK ? CRT_ERR_EXISTS : CRT_ERR_IO, "%s: %s", path,
            errno == EWOULDBLOCK ? "held by a living process" : strerror(errno));
    /* Who held it, for those who clean up after a process that was killed. */
    if (ftruncate(fd, 0) != 0 || dprintf(fd, "%d\n", (int)getpid()) < 0) {
        crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
        unlink(path); /* without a number it would be nobody's for ever */
        rmdir(dir);
        return CRT_ERR_IO;
    }
    *fd_out = crti_take_fd(&fd);
    return CRT_OK;
}

/* -1: there is none of ours. What others have put there may be a fifo, or locked by them. */
static int open_lock(const char *dir)
{
    char path[4200];
    CRTI_AUTO(crti_close) int fd = -1;
    struct stat st;

    snprintf(path, sizeof(path), "%s/lock", dir);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return -1;
    return crti_take_fd(&fd);
}

bool crti_dir_is_locked(const char *dir)
{
    CRTI_AUTO(crti_close) int fd = open_lock(dir);

    /* A shared lock, and for no longer than this call: two who look do not see each other. */
    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

/* Who is about to take the lock has not written its number yet. */
bool crti_dir_is_left(const char *dir)
{
    CRTI_AUTO(crti_close) int fd = open_lock(dir);
    char first = 0;

    return fd >= 0 && read(fd, &first, 1) == 1 && !crti_dir_is_locked(dir);
}

static int remove_entry(const char *path, const struct stat *st, int type,
                        struct FTW *walk)
{
    remove(path); /* what stays can be seen there */
    return 0;
}

void crti_dir_remove(const char *dir)
{
    nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---------------------------------------------------------------- private clusters */

crt_status_t crti_dir_make_private(char *path, size_t size)
{
    char run[PATH_MAX];
    crt_status_t status = crti_run_dir(run, sizeof(run));

    /* Whoever leaves last removes the run directory: it may go between two steps. */
    for (int tries = 0; status == CRT_OK; tries++) {
        status = crti_dir_make(run);
        if (status == CRT_OK &&
            snprintf(path, size, "%s/private-XXXXXX", run) >= (int)size)
            status =
                crt_raise(CRT_ERR_TOO_LARGE,
                          "%s is too long for sockets below it: set CRT_RUN_DIR", run);
        if (status == CRT_OK && mkdtemp(path))
            return CRT_OK;
        if (status == CRT_OK && (errno != ENOENT || tries == 100))
            status = crt_raise(CRT_ERR_IO, "private cluster: a directory below %s: %s",
                               run, strerror(errno));
    }
    path[0] = '\0';
    return status;
}

static bool is_used(const char *dir)
{
    CRTI_AUTO(closedir) DIR *entries = opendir(dir);
    const struct dirent *entry;
    char path[4200];

    while (entries && (entry = readdir(entries)) != NULL)
        if ((strncmp(entry->d_name, "node-", 5) == 0 ||
             strncmp(entry->d_name, "head-", 5) == 0) &&
            snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) <
                (int)sizeof(path) &&
            crti_dir_is_locked(path))
            return true;
    return false;
}

void crti_dir_remove_private(const char *dir)
{
    if (!is_used(dir))
        crti_dir_remove(dir);
}

void crti_dir_sweep_private(const char *run)
{
    CRTI_AUTO(closedir) DIR *entries = opendir(run);
    const struct dirent *entry;
    char path[4200];
    struct stat st;

    while (entries && (entry = readdir(entries)) != NULL)
        if (strncmp(entry->d_name, "private-", 8) == 0 &&
            snprintf(path, sizeof(path), "%s/%s", run, entry->d_name) <
                (int)sizeof(path) &&
            lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
            time(NULL) - st.st_mtime >= SWEEP_AGE_S)
            crti_dir_remove_private(path);
}

/* ---------------------------------------------------------------- info files */

static crt_status_t write_entries(FILE *file, const crti_info_entry_t *entries,
                                  size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strchr(entries[i].value, '\n') || strpbrk(entries[i].key, " \n"))
            return crt_raise(CRT_ERR_INVALID, "info entry \"%s\" holds a newline",
                             entries[i].key);
        fprintf(file, "%s %s\n", entries[i].key, entries[i].value);
    }
    if (fflush(file) != 0 || ferror(file))
        return crt_raise(CRT_ERR_IO, "info file: %s", strerror(errno));
    return CRT_OK;
}

crt_status_t crti_info_write(const char *path, const crti_info_entry_t *entries,
                             size_t count)
{
    char temporary[4200];
    CRTI_AUTO(fclose) FILE *file = NULL;
    crt_status_t status;
    int fd;

    snprintf(temporary, sizeof(temporary), "%s.new", path);
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", temporary, strerror(errno));
    file = fdopen(fd, "w");
    if (!file) {
        close(fd);
        return crt_raise(CRT_ERR_NO_MEMORY, "%s: out of memory", temporary);
    }
    status = write_entries(file, entries, count);
    if (status == CRT_OK && rename(temporary, path) != 0)
        status = crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    if (status != CRT_OK)
        unlink(temporary);
    return status;
}

crt_status_t crti_info_read(const char *path, char **text_out)
{
    CRTI_AUTO(crti_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    CRTI_AUTO(free) char *text = NULL;
    size_t length = 0;

    if (fd < 0)
        return crt_raise(errno == ENOENT ? CRT_ERR_NOT_FOUND : CRT_ERR_IO, "%s: %s", path,
                         strerror(errno));
    text = malloc(INFO_MAX + 1);
    if (!text)
        return crt_raise(CRT_ERR_NO_MEMORY, "%s: out of memory", path);
    for (;;) {
        ssize_t n = read(fd, text + length, INFO_MAX + 1 - length);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
        length += (size_t)n;
        if (length > INFO_MAX)
            return crt_raise(CRT_ERR_CORRUPT, "%s is larger than an info file", path);
        if (n == 0)
            break;
    }
    text[length] = '\0';
    *text_out = CRTI_TAKE(text);
    return CRT_OK;
}

const char *crti_info_get(const char *text, const char *key, char *value, size_t size)
{
    size_t key_length = strlen(key);

    value[0] = '\0';
    while (*text) {
        size_t length = strcspn(text, "\n");

        if (length > key_length && text[key_length] == ' ' &&
            memcmp(text, key, key_length) == 0) {
            size_t rest = length - key_length - 1;

            if (rest >= size)
                return value;
            memcpy(value, text + key_length + 1, rest);
            value[rest] = '\0';
            return value;
        }
        text += length + (text[length] == '\n');
    }
    return value;
}

int64_t crti_info_int(const char *text, const char *key)
{
    char value[32];

    return strtoll(crti_info_get(text, key, value, sizeof(value)), NULL, 10);
}

const char *crti_process_stat(pid_t pid, int number, char *text, size_t size)
{
    CRTI_AUTO(crti_close) int fd = -1;
    char path[64];
    const char *at;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (n <= 0)
        return NULL;
    text[n] = '\0';
    at = strrchr(text, ')');
    for (int field = 2; at && field < number; field++)
        at = strchr(at + 1, ' ');
    return at ? at + 1 : NULL;
}

crt_status_t crti_process_start(pid_t pid, uint64_t *start_out)
{
    char text[1024];
    const char *start = crti_process_stat(pid, 22, text, sizeof(text));

    if (start == NULL)
        return crt_raise(CRT_ERR_NOT_FOUND, "no process %d", (int)pid);
    *start_out = strtoull(start, NULL, 10);
    return CRT_OK;
}

bool crti_process_is_ending(pid_t pid)
{
    char text[1024];
    const char *flags = crti_process_stat(pid, 9, text, sizeof(text));

    return flags == NULL || (strtoul(flags, NULL, 10) & KERNEL_EXITING) != 0;
}

/* PIDFD_GET_INFO of Linux 6.15, which the headers of older systems lack. */
struct pidfd_exit_info {
    uint64_t mask, cgroup;
    uint32_t pid, tgid, ppid, ids[8];
    int32_t exit_code;
};
#define PIDFD_EXIT_KNOWN 8
#define PIDFD_GET_EXIT   _IOWR(0xFF, 11, struct pidfd_exit_info)

static bool exit_of_reaped(int pidfd, int *wait_status_out)
{
    struct pidfd_exit_info info = {.mask = PIDFD_EXIT_KNOWN};

    if (ioctl(pidfd, PIDFD_GET_EXIT, &info) != 0 || !(info.mask & PIDFD_EXIT_KNOWN))
        return false;
    *wait_status_out = info.exit_code;
    return true;
}

bool crti_process_wait_status(pid_t pid, int pidfd, int *wait_status_out)
{
    char text[1024];
    const char *code = crti_process_stat(pid, 52, text, sizeof(text));
    const char *flags = code ? strrchr(text, ')') : NULL;

    /* Its number was not given to another one meanwhile if it is still there. */
    if (flags && (flags[2] == 'Z' || flags[2] == 'X') &&
        syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) == 0) {
        *wait_status_out = (int)strtol(code, NULL, 10);
        return true;
    }
    return exit_of_reaped(pidfd, wait_status_out);
}

static void close_files(unsigned first, unsigned last)
{
    if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
        return;
    for (unsigned fd = first; fd <= last && fd < 1024; fd++) /* an old kernel */
        close((int)fd);
}

void crti_close_others(const int *keep, size_t count)
{
    int next = STDERR_FILENO + 1, last;

    do {
        last = INT_MAX;
        for (size_t i = 0; i < count; i++)
            if (keep[i] >= next && keep[i] < last)
                last = keep[i];
        close_files((unsigned)next, last == INT_MAX ? ~0u : (unsigned)last - 1);
        next = last + (last < INT_MAX);
    } while (last < INT_MAX);
}

void crti_close_inherited(int keep, int keep_too)
{
    int kept[] = {keep, keep_too};

    for (int i = 0; i < 2; i++)
        if (kept[i] >= 0)
            fcntl(kept[i], F_SETFD, FD_CLOEXEC);
    crti_close_others(kept, 2);
}

void crti_wake_with_parent(bool wanted)
{
    prctl(PR_SET_PDEATHSIG, wanted ? SIGCONT : 0);
}
