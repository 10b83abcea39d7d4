/* SPDX-License-Identifier: Apache-2.0 */
/* Run directories. See places.h. */
#include "cli/places.h"

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

/* False: it does not fit, or is relative; then no daemon can have its sockets there either. */
static bool run_directory(char *path, size_t size)
{
    const char *own = getenv("CRT_RUN_DIR"), *base = getenv("XDG_RUNTIME_DIR");

    if (own && *own)
        return own[0] == '/' && snprintf(path, size, "%s", own) < (int)size;
    return snprintf(path, size, "%s/crt-%u", base && *base ? base : "/tmp",
                    (unsigned)geteuid()) < (int)size;
}

static int open_lock(const char *dir)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/lock", dir);
    return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

bool crti_place_is_living(const char *dir)
{
    int fd = open_lock(dir);
    bool is_living;

    if (fd < 0)
        return false;
    is_living = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return is_living;
}

static void on_alarm(int number)
{
}

void crti_place_await_end(const char *dir, int64_t timeout_ms)
{
    /* Again and again: the first may come before the wait has begun. */
    struct itimerval after = {.it_value = {timeout_ms / 1000, timeout_ms % 1000 * 1000},
                              .it_interval = {.tv_usec = 10000}};
    const struct itimerval never = {0};
    struct sigaction action = {.sa_handler = on_alarm}, before; /* it ends flock */
    sigset_t alarm, mask;
    int fd = open_lock(dir);

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
static void read_lock(place_t *place)
{
    char path[128], line[32];
    FILE *file;

    snprintf(path, sizeof(path), "%s/lock", place->dir);
    file = fopen(path, "re");
    if (file && fgets(line, sizeof(line), file))
        place->pid = (pid_t)atol(line);
    if (file)
        fclose(file);
}

/* One that has yet to write its info file has it from whoever started it. */
static void read_state(place_t *place)
{
    char *end = strrchr(place->state, '/');

    if (end)
        *end = '\0'; /* it is STATE/head-PORT or STATE/node-HEX8 */
    else if (place->is_living)
        crti_member_variable(place->pid, "CRT_STATE_DIR", place->state,
                             sizeof(place->state));
}

/* The info file as "key value" lines. */
static void read_info(place_t *place)
{
    char path[128], line[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", place->dir,
             place->is_head ? "head.info" : "node.info");
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        char *value = strchr(line, ' ');

        line[strcspn(line, "\n")] = '\0';
        if (!value)
            continue;
        *value++ = '\0';
        if (strcmp(line, "address") == 0)
            snprintf(place->address, sizeof(place->address), "%s", value);
        else if (strcmp(line, "state_dir") == 0)
            snprintf(place->state, sizeof(place->state), "%s", value);
        else if (strcmp(line, "key_file") == 0)
            snprintf(place->key_file, sizeof(place->key_file), "%s", value);
        else if (strcmp(line, "pid") == 0)
            place->pid = (pid_t)atol(value);
        else if (strcmp(line, "start") == 0)
            place->start = strtoull(value, NULL, 10);
        else if (strcmp(line, "http_pid") == 0)
            place->children[0] = (pid_t)atol(value);
        else if (strcmp(line, "redis_pid") == 0)
            place->children[1] = (pid_t)atol(value);
    }
    if (file)
        fclose(file);
    if (place->pid == 0)
        read_lock(place);
    read_state(place);
}

static bool is_our_directory(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

size_t crti_places_find(const char *address, place_t places[PLACES_MAX])
{
    char run[96];
    struct dirent *entry;
    size_t count = 0;
    DIR *dir;

    if (!run_directory(run, sizeof(run)) || !(dir = opendir(run)))
        return 0;
    while (count < PLACES_MAX && (entry = readdir(dir))) {
        place_t *place = &places[count];

        *place = (place_t){.is_head = strncmp(entry->d_name, "head-", 5) == 0};
        if (!place->is_head && strncmp(entry->d_name, "node-", 5) != 0)
            continue;
        if (snprintf(place->dir, sizeof(place->dir), "%s/%s", run, entry->d_name) >=
                (int)sizeof(place->dir) ||
            !is_our_directory(place->dir))
            continue;
        place->is_living = crti_place_is_living(place->dir);
        read_info(place);
        if (!address || strcmp(address, place->address) == 0)
            count++;
    }
    closedir(dir);
    return count;
}

static bool is_same_directory(const char *a, const char *b)
{
    struct stat first, second;

    return strcmp(a, b) == 0 ||
           (stat(a, &first) == 0 && stat(b, &second) == 0 &&
            first.st_dev == second.st_dev && first.st_ino == second.st_ino);
}

/* A node may have joined from another state directory than its head's: the cluster is of both. */
static bool is_own(const place_t *places, size_t count, const place_t *place,
                   const char *state)
{
    if (!place->address[0] && !place->is_living)
        return !place->state[0] || is_same_directory(place->state, state);
    for (size_t i = 0; i < count; i++)
        if (strcmp(places[i].address, place->address) == 0 && places[i].state[0] &&
            is_same_directory(places[i].state, state))
            return true;
    return false;
}

size_t crti_places_keep_own(place_t *places, size_t count)
{
    const char *state = getenv("CRT_STATE_DIR");
    bool keeps[PLACES_MAX];
    size_t kept = 0;

    if (!state || !*state)
        return count;
    for (size_t i = 0; i < count; i++)
        keeps[i] = is_own(places, count, &places[i], state);
    for (size_t i = 0; i < count; i++)
        if (keeps[i])
            places[kept++] = places[i];
    return kept;
}

static bool is_private_to_us(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 077) == 0;
}

/* Every directory of the path that is missing. */
static void make_parents(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
}

crt_status_t crti_places_make_private(char *path, size_t size)
{
    char run[96];

    path[0] = '\0';
    if (!run_directory(run, sizeof(run)) ||
        snprintf(path, size, "%s/private-XXXXXX", run) >= (int)size)
        return crt_raise(
            CRT_ERR_INVALID,
            "the run directory's path is relative, or too long for sockets below it: "
            "set CRT_RUN_DIR to an absolute, short one");
    /* Whoever leaves last removes the run directory: it may go between two steps. */
    for (int tries = 0; tries < 100; tries++) {
        make_parents(path);
        if (lstat(run, &(struct stat){0}) == 0 && !is_private_to_us(run)) {
            path[0] = '\0';
            return crt_raise(CRT_ERR_PERMISSION,
                             "%s must be a directory that only you can use: chmod 700 "
                             "it, or set CRT_RUN_DIR",
                             run);
        }
        if (mkdtemp(path))
            return CRT_OK;
        if (errno != ENOENT)
            break;
        snprintf(path, size, "%s/private-XXXXXX", run);
    }
    path[0] = '\0';
    return crt_raise(CRT_ERR_IO, "a directory below %s: %s", run, strerror(errno));
}

static int remove_entry(const char *path, const struct stat *st, int type,
                        struct FTW *walk)
{
    return remove(path);
}

bool crti_place_remove(const char *dir)
{
    return nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT;
}

void crti_places_remove_root(void)
{
    const char *own = getenv("CRT_RUN_DIR");
    char run[96];

    if (!(own && *own) && run_directory(run, sizeof(run)))
        rmdir(run); /* fails when somebody else uses it: as it should */
}
