/* SPDX-License-Identifier: Apache-2.0 */
/* Spill directory: files of spilled objects in a directory. See spill_place.h.
 *
 * Names
 *     They have none: they are made by O_TMPFILE, or where the file system can't do that, their
 *     name is taken away as soon as they are open. What a daemon leaves that is killed in between
 *     is an empty file; the next one that opens a file there removes it. That does no harm to a
 *     daemon that lives, whose file is open by then.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "runtime/base/id.h"
#include "runtime/base/limit.h"
#include "runtime/base/rundir.h"
#include "runtime/node/objects/spill_place.h"

#define PREFIX     ".crt-spill-"
#define KICK_BYTES (4u << 20) /* written out while more is appended */

typedef struct file {
    int fd;
    uint64_t kicked, end; /* appended; of that, on its way to the disk */
} file_t;

static int fd_of(const void *file)
{
    return ((const file_t *)file)->fd;
}

static void remove_left(const char *where)
{
    DIR *dir = opendir(where);
    const struct dirent *entry;
    struct stat left;

    while (dir && (entry = readdir(dir)))
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0 &&
            fstatat(dirfd(dir), entry->d_name, &left, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(left.st_mode) && left.st_uid == geteuid())
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
}

static int open_and_unlink(const char *where)
{
    char path[4096], hex[CRTI_ID_HEX];
    int fd;

    remove_left(where);
    if (snprintf(path, sizeof(path), "%s/" PREFIX "%s", where,
                 crti_id_hex(crti_id_random(), hex)) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static int open_unnamed(const char *where)
{
    int fd = open(where, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
        fd = open_and_unlink(where);
    return fd;
}

static int open_file(const char *where, void **file_out)
{
    int fd = open_unnamed(where);
    file_t *file;

    /* The default one is made when it is needed; others were there at the start. */
    if (fd < 0 && errno == ENOENT && crti_dir_make(where) == CRT_OK)
        fd = open_unnamed(where);
    if (fd < 0)
        return errno;
    file = calloc(1, sizeof(*file));
    if (!file) {
        close(fd);
        return ENOMEM;
    }
    file->fd = fd;
    *file_out = file;
    return 0;
}

static int append(void *user, uint64_t offset, const void *bytes, size_t size)
{
    file_t *file = user;
    const char *at = bytes;

    for (size_t left = size; left > 0;) {
        ssize_t n = pwrite(file->fd, at, left, (off_t)(offset + (size - left)));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        at += n;
        left -= (size_t)n;
    }
    file->end = offset + size;
    if (file->end - file->kicked >= KICK_BYTES) {
        (void)sync_file_range(file->fd, (off_t)file->kicked,
                              (off_t)(file->end - file->kicked), SYNC_FILE_RANGE_WRITE);
        file->kicked = file->end;
    }
    return 0;
}

static int settle(void *file)
{
    return fdatasync(fd_of(file)) == 0 ? 0 : errno;
}

static void want(void *file, uint64_t offset, uint64_t size)
{
    (void)posix_fadvise(fd_of(file), (off_t)offset, (off_t)size, POSIX_FADV_WILLNEED);
}

static int read_file(void *file, uint64_t offset, void *bytes, size_t size)
{
    char *at = bytes;

    for (size_t left = size; left > 0;) {
        ssize_t n = pread(fd_of(file), at, left, (off_t)(offset + (size - left)));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : ENODATA;
        at += n;
        left -= (size_t)n;
    }
    return 0;
}

static void discard(void *file, uint64_t offset, uint64_t size)
{
    (void)fallocate(fd_of(file), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    (off_t)offset, (off_t)size);
}

/* Other descriptors of it may be open for a moment, of a process that is about to be executed: its
 * room comes back before the last of them is closed. */
static void remove_file(void *file)
{
    (void)!ftruncate(fd_of(file), 0);
    close(fd_of(file));
    free(file);
}

static int room(const char *where, uint64_t *bytes_out)
{
    struct statvfs all;
    uint64_t available, keep;

    if (statvfs(where, &all) != 0)
        return errno;
    available = (uint64_t)all.f_bavail * all.f_frsize;
    keep = (uint64_t)all.f_blocks * all.f_frsize / 100 * CRTI_LIMIT(spill_disk_free);
    *bytes_out = available > keep ? available - keep : 0;
    return 0;
}

const crti_spill_ops_t crti_spill_directory = {.open = open_file,
                                               .append = append,
                                               .settle = settle,
                                               .want = want,
                                               .read = read_file,
                                               .discard = discard,
                                               .remove = remove_file,
                                               .room = room};
