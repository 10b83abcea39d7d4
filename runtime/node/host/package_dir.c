/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacked folders of jobs. See package_dir.h. */
#include "runtime/node/host/package_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <sodium.h>

#include "runtime/base/buffer.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/rundir.h"

#define LOCK ".lock"
/* Bytes of that file which are locked apart: its maker has it alone; users share it. So a user does
 * not find it taken by a process that waited to make it, and only looks whether it is made. */
#define MAKE 0
#define USE  1
#define BOOT 40 /* bytes of the boot's id, with its zero */

typedef struct package {
    char key[CRTI_PACKAGE_KEY];
    uint64_t bytes;
    int64_t used; /* seconds */
} package_t;

void crti_package_key(const char *sha, const char *setup, const char *base,
                      char key[CRTI_PACKAGE_KEY])
{
    unsigned char digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state state;
    char hex[2 * sizeof(digest) + 1];

    snprintf(key, CRTI_PACKAGE_KEY, "%.64s", sha);
    if (!*setup)
        return;
    crypto_hash_sha256_init(&state);
    crypto_hash_sha256_update(&state, (const unsigned char *)setup, strlen(setup));
    if (*base) /* behind a zero, which no command has */
        crypto_hash_sha256_update(&state, (const unsigned char *)"", 1);
    crypto_hash_sha256_update(&state, (const unsigned char *)base, strlen(base));
    crypto_hash_sha256_final(&state, digest);
    sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
    snprintf(key, CRTI_PACKAGE_KEY, "%.64s-%.16s", sha, hex);
}

/* ---------------------------------------------------------------- the lock file */

static void read_boot(char boot[BOOT])
{
    CRTI_AUTO(crti_close)
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, boot, BOOT - 1) : 0;

    boot[got > 0 ? got : 0] = '\0';
    boot[strcspn(boot, "\n")] = '\0';
}

/* What was written in it: false when it says nothing that holds. */
static bool read_mark(int fd, uint64_t *bytes_out)
{
    char text[128], boot[BOOT];
    ssize_t got = pread(fd, text, sizeof(text) - 1, 0);
    size_t length;

    text[got > 0 ? got : 0] = '\0';
    read_boot(boot);
    length = strlen(boot);
    *bytes_out = strncmp(text, boot, length) == 0 ? strtoull(text + length, NULL, 10) : 0;
    return strncmp(text, boot, length) == 0 && strchr(text, '\n') != NULL;
}

/* Locks belong to the open file, as those of flock do. */
static bool lock_byte(int fd, off_t byte, short type, bool waits)
{
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    int result;

    do
        result = fcntl(fd, waits ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

/* -1: it can't be had. A file that was removed while somebody waited for it locks nothing. */
static int open_locked(const char *path, int flags, off_t byte, short type, bool waits)
{
    for (;;) {
        CRTI_AUTO(crti_close)
        int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
        struct stat st;

        if (fd < 0 || !lock_byte(fd, byte, type, waits))
            return -1;
        if (fstat(fd, &st) == 0 && st.st_nlink > 0)
            return crti_take_fd(&fd);
    }
}

bool crti_package_is_complete(int fd)
{
    uint64_t bytes;

    return read_mark(fd, &bytes);
}

bool crti_package_hold(const char *packages, const char *key, int *fd_out)
{
    CRTI_AUTO(crti_close) int fd = -1;
    char path[4400];

    if (crti_dir_check(packages) != CRT_OK) /* whoever makes the package says why */
        return false;
    snprintf(path, sizeof(path), "%s/%s" LOCK, packages, key);
    fd = open_locked(path, O_RDONLY, USE, F_RDLCK, false);
    if (fd < 0 || !crti_package_is_complete(fd))
        return false;
    futimens(fd, NULL);
    *fd_out = crti_take_fd(&fd);
    return true;
}

crt_status_t crti_package_lock(const char *packages, const char *key,
                               void (*on_wait)(void), int *fd_out)
{
    crt_status_t status = crti_dir_make(packages);
    char path[4400];

    if (status != CRT_OK)
        return status;
    snprintf(path, sizeof(path), "%s/%s" LOCK, packages, key);
    *fd_out = open_locked(path, O_RDWR | O_CREAT, MAKE, F_WRLCK, false);
    if (*fd_out < 0 && errno == EAGAIN) {
        if (on_wait)
            on_wait();
        *fd_out = open_locked(path, O_RDWR | O_CREAT, MAKE, F_WRLCK, true);
    }
    return *fd_out >= 0 ? CRT_OK : crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
}

crt_status_t crti_package_complete(int fd, uint64_t bytes)
{
    char boot[BOOT], text[128];
    int length;

    read_boot(boot);
    length = snprintf(text, sizeof(text), "%s %llu\n", boot, (unsigned long long)bytes);
    if (pwrite(fd, text, (size_t)length, 0) != length)
        return crt_raise(CRT_ERR_IO, "the package's lock file: %s", strerror(errno));
    return CRT_OK;
}

/* ---------------------------------------------------------------- trimming */

static int by_use(const void *a, const void *b)
{
    const package_t *x = a, *y = b;

    return (x->used > y->used) - (x->used < y->used);
}

static bool key_of(const char *name, char key[CRTI_PACKAGE_KEY])
{
    size_t length = strlen(name), end = strlen(LOCK);

    if (length <= end || length - end >= CRTI_PACKAGE_KEY ||
        strcmp(name + length - end, LOCK) != 0)
        return false;
    memcpy(key, name, length - end);
    key[length - end] = '\0';
    return strspn(key, "0123456789abcdef-") == length - end;
}

static uint64_t list_packages(DIR *dir, crti_buffer_t *list)
{
    const struct dirent *entry;
    uint64_t total = 0;

    while ((entry = readdir(dir)) != NULL) {
        package_t package = {0};
        CRTI_AUTO(crti_close) int fd = -1;
        struct stat st;

        if (!key_of(entry->d_name, package.key))
            continue;
        fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 || fstat(fd, &st) != 0)
            continue;
        read_mark(fd, &package.bytes);
        package.used = st.st_mtim.tv_sec;
        total += package.bytes;
        if (crti_buffer_append(list, &package, sizeof(package)) != CRT_OK)
            break;
    }
    return total;
}

static bool remove_unused(const char *packages, const package_t *package)
{
    CRTI_AUTO(crti_close) int fd = -1;
    char path[4400];
    struct stat st;

    snprintf(path, sizeof(path), "%s/%s" LOCK, packages, package->key);
    fd = open_locked(path, O_RDWR, MAKE, F_WRLCK, false);
    if (fd < 0 || fstat(fd, &st) != 0 ||
        time(NULL) - st.st_mtim.tv_sec < CRTI_PACKAGES_PIN_S ||
        !lock_byte(fd, USE, F_WRLCK, false))
        return false;
    unlink(path);
    path[strlen(path) - strlen(LOCK)] = '\0';
    crti_dir_remove(path);
    return true;
}

void crti_package_trim(const char *packages, uint64_t bytes, int64_t age_s)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    const package_t *found;
    uint64_t total;
    size_t count;
    DIR *dir = opendir(packages);

    if (!dir)
        return;
    total = list_packages(dir, &list);
    closedir(dir);
    count = list.size / sizeof(*found);
    if (count)
        qsort(list.data, count, sizeof(*found), by_use);
    found = (const package_t *)(const void *)list.data;
    for (size_t i = 0; i < count; i++)
        if ((total > bytes || time(NULL) - found[i].used > age_s) &&
            remove_unused(packages, &found[i]))
            total -= found[i].bytes;
}
