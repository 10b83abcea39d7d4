/* SPDX-License-Identifier: Apache-2.0 */
#include "ml/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static crt_status_t raise_errno(const char *path, const char *what)
{
    int error = errno;
    crt_status_t status = error == ENOENT                     ? CRT_ERR_NOT_FOUND
                          : error == EACCES || error == EPERM ? CRT_ERR_PERMISSION
                                                              : CRT_ERR_IO;

    return crt_raise(status, "%s: %s: %s", path, what, strerror(error));
}

static crt_status_t read_all(int fd, const char *path, unsigned char *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = read(fd, data + done, size - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return raise_errno(path, "read");
        if (n == 0)
            return crt_raise(CRT_ERR_IO, "%s: ended after %zu of %zu bytes", path, done,
                             size);
        done += (size_t)n;
    }
    return CRT_OK;
}

static crt_status_t read_open(int fd, const char *path, size_t limit,
                              unsigned char **data_out, size_t *size_out)
{
    struct stat info;
    unsigned char *data;
    crt_status_t status;

    if (fstat(fd, &info) != 0)
        return raise_errno(path, "stat");
    if (!S_ISREG(info.st_mode))
        return crt_raise(CRT_ERR_IO, "%s: not a regular file", path);
    if ((uint64_t)info.st_size > limit)
        return crt_raise(CRT_ERR_TOO_LARGE, "%s: %lld bytes, the limit is %zu", path,
                         (long long)info.st_size, limit);
    data = malloc((size_t)info.st_size + 1);
    if (!data)
        return crt_raise(CRT_ERR_NO_MEMORY, "%s: %lld bytes", path,
                         (long long)info.st_size);
    status = read_all(fd, path, data, (size_t)info.st_size);
    if (status != CRT_OK) {
        free(data);
        return status;
    }
    *data_out = data;
    *size_out = (size_t)info.st_size;
    return CRT_OK;
}

crt_status_t crti_file_read(const char *path, size_t limit, unsigned char **data_out,
                            size_t *size_out)
{
    /* Without O_NONBLOCK the open of a named pipe would wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    crt_status_t status;

    if (fd < 0)
        return raise_errno(path, "open");
    status = read_open(fd, path, limit, data_out, size_out);
    close(fd);
    return status;
}

static crt_status_t write_all(int fd, const char *path, const unsigned char *data,
                              size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, data + done, size - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return raise_errno(path, "write");
        done += (size_t)n;
    }
    return fsync(fd) == 0 ? CRT_OK : raise_errno(path, "fsync");
}

/* 0, or the errno that says why it can't be read. */
static int why_not_readable(const char *path)
{
    struct stat info;

    if (access(path, R_OK) != 0 || stat(path, &info) != 0)
        return errno;
    return S_ISDIR(info.st_mode) ? EISDIR : 0;
}

crt_status_t crti_file_find(const char *folder, const char *const *names,
                            char path_out[static PATH_MAX])
{
    static const char *const endings[] = {"", ".gz"};
    int reason = ENOENT;

    for (size_t i = 0; names[i / 2]; i++) {
        int error, length = snprintf(path_out, PATH_MAX, "%s/%s%s", folder, names[i / 2],
                                     endings[i % 2]);

        if (length < 0 || length >= PATH_MAX)
            return crt_raise(CRT_ERR_INVALID, "the name of a data folder has %zu bytes",
                             strlen(folder));
        error = why_not_readable(path_out);
        if (error == 0)
            return CRT_OK;
        reason = error == ENOENT ? reason : error;
    }
    return crt_raise(reason == EACCES ? CRT_ERR_PERMISSION : CRT_ERR_NOT_FOUND,
                     "%s/%s, plain or .gz: %s", folder, names[0], strerror(reason));
}

/* Makes the rename itself durable. */
static crt_status_t sync_folder(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int length = slash == path ? 1 : slash ? (int)(slash - path) : 0, fd;
    crt_status_t status = CRT_OK;

    if (slash)
        snprintf(folder, sizeof(folder), "%.*s", length, path);
    else
        snprintf(folder, sizeof(folder), ".");
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return raise_errno(folder, "open");
    if (fsync(fd) != 0 && errno != EINVAL) /* some file systems can't sync a folder */
        status = raise_errno(folder, "fsync");
    close(fd);
    return status;
}

crt_status_t crti_file_write(const char *path, const void *data, size_t size)
{
    char beside[PATH_MAX];
    int length = snprintf(beside, sizeof(beside), "%s.XXXXXX", path), fd;
    struct stat info;
    crt_status_t status;

    if (length < 0 || length >= PATH_MAX)
        return crt_raise(CRT_ERR_INVALID, "a file name of %zu bytes", strlen(path));
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
        return crt_raise(CRT_ERR_IO, "%s: no regular file, which could be replaced",
                         path);
    fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0)
        return raise_errno(path, "create");
    status = write_all(fd, path, data, size);
    if (status == CRT_OK && fchmod(fd, 0644) != 0)
        status = raise_errno(path, "chmod");
    if (close(fd) != 0 && status == CRT_OK)
        status = raise_errno(path, "close");
    if (status == CRT_OK && rename(beside, path) != 0)
        status = raise_errno(path, "rename");
    if (status != CRT_OK) {
        unlink(beside);
        return status;
    }
    return sync_folder(path);
}
