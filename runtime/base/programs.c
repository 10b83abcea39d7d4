/* SPDX-License-Identifier: Apache-2.0 */
/* The quota of the content cache. See programs.h. */
#include "runtime/base/programs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/buffer.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/log.h"

#define SHA_TEXT 64

typedef struct program {
    char name[SHA_TEXT + 1];
    uint64_t size;
    struct timespec used;
} program_t;

bool crti_programs_hold(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB) != 0)
        return false;
    futimens(fd, NULL);
    return true;
}

void crti_programs_used(int fd)
{
    futimens(fd, NULL);
}

static int by_use(const void *a, const void *b)
{
    const struct timespec *x = &((const program_t *)a)->used;
    const struct timespec *y = &((const program_t *)b)->used;

    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* Uploads that are not complete have other names, and are left alone. */
static bool is_program(const char *name)
{
    return strspn(name, "0123456789abcdef") == SHA_TEXT && name[SHA_TEXT] == '\0';
}

static uint64_t list_programs(DIR *dir, crti_buffer_t *list)
{
    const struct dirent *entry;
    uint64_t total = 0;

    while ((entry = readdir(dir)) != NULL) {
        program_t program = {0};
        struct stat st;

        if (!is_program(entry->d_name) ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(st.st_mode))
            continue;
        memcpy(program.name, entry->d_name, SHA_TEXT);
        program.size = (uint64_t)st.st_size;
        program.used = st.st_mtim;
        total += program.size;
        if (crti_buffer_append(list, &program, sizeof(program)) != CRT_OK)
            break;
    }
    return total;
}

/* Under a lock that nobody else has: who comes now finds it gone, and never half of it. */
static bool remove_unused(DIR *dir, const program_t *program)
{
    CRTI_AUTO(crti_close)
    int fd = openat(dirfd(dir), program->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;

    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 &&
           time(NULL) - st.st_mtim.tv_sec >= CRTI_PROGRAMS_PIN_S &&
           unlinkat(dirfd(dir), program->name, 0) == 0;
}

void crti_programs_trim(const char *directory, uint64_t limit)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    const program_t *programs;
    uint64_t total;
    size_t count;
    DIR *dir = opendir(directory);

    if (dir == NULL)
        return;
    total = list_programs(dir, &list);
    count = list.size / sizeof(*programs);
    if (count)
        qsort(list.data, count, sizeof(*programs), by_use);
    programs = (const program_t *)(const void *)list.data;
    for (size_t i = 0; i < count && total > limit; i++)
        if (remove_unused(dir, &programs[i])) {
            crti_log(CRTI_LOG_INFO, "programs", "%s/%s was not used for long: removed",
                     directory, programs[i].name);
            total -= programs[i].size;
        }
    closedir(dir);
}
