/* SPDX-License-Identifier: Apache-2.0 */
/* Executables on their way into the content cache. See upload.h. */
#include "runtime/http/upload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <sodium.h>

#include "runtime/base/limit.h"
#include "runtime/base/programs.h"
#include "runtime/base/rundir.h"
#include "runtime/http/request.h"

struct crti_upload {
    char directory[4096];
    char temporary[4160];
    char name[CRTI_HTTP_ID_MAX];
    int fd;
    uint64_t size, written;
    crypto_hash_sha256_state hash;
};

static crt_status_t disk_failed(const crti_upload_t *upload, const char *what)
{
    bool is_full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;

    if (is_full)
        return crt_raise(
            CRT_ERR_STORE_FULL, "no room for a program of %llu bytes in %s: %s",
            (unsigned long long)(upload->size == CRTI_UPLOAD_UNKNOWN ? upload->written
                                                                     : upload->size),
            upload->directory, strerror(errno));
    return crt_raise(CRT_ERR_IO, "%s: %s: %s", what, upload->temporary, strerror(errno));
}

crt_status_t crti_upload_new(const char *directory, const char *name, uint64_t size,
                             crti_upload_t **upload_out)
{
    static unsigned count;
    CRTI_AUTO(crti_upload_free) crti_upload_t *self = NULL;
    crt_status_t status;

    if (size > CRTI_LIMIT(http_upload) && size != CRTI_UPLOAD_UNKNOWN)
        return crt_raise(CRT_ERR_TOO_LARGE, "a program of %llu bytes; the limit is %llu",
                         (unsigned long long)size,
                         (unsigned long long)CRTI_LIMIT(http_upload));
    status = crti_dir_make(directory);
    if (status != CRT_OK)
        return status;
    self = calloc(1, sizeof(*self));
    if (!self)
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    self->size = size;
    snprintf(self->name, sizeof(self->name), "%s", name);
    snprintf(self->directory, sizeof(self->directory), "%s", directory);
    snprintf(self->temporary, sizeof(self->temporary), "%s/.upload-%d-%u",
             self->directory, (int)getpid(), ++count);
    self->fd = open(self->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    if (self->fd < 0) {
        status = disk_failed(self, "open");
        self->temporary[0] = '\0'; /* not ours to remove */
        return status;
    }
    /* Not every file system can promise room; then a write says it. */
    if (size && size != CRTI_UPLOAD_UNKNOWN &&
        fallocate(self->fd, 0, 0, (off_t)size) != 0 && errno != EOPNOTSUPP)
        return disk_failed(self, "fallocate");
    crypto_hash_sha256_init(&self->hash);
    *upload_out = CRTI_TAKE(self);
    return CRT_OK;
}

crt_status_t crti_upload_write(crti_upload_t *upload, const void *data, size_t size)
{
    const char *at = data;

    if (size > upload->size - upload->written)
        return crt_raise(CRT_ERR_TOO_LARGE, "more bytes than the %llu announced",
                         (unsigned long long)upload->size);
    if (size > CRTI_LIMIT(http_upload) - upload->written)
        return crt_raise(CRT_ERR_TOO_LARGE, "a program of more than %llu bytes",
                         (unsigned long long)CRTI_LIMIT(http_upload));
    crypto_hash_sha256_update(&upload->hash, data, size);
    while (size) {
        ssize_t n = write(upload->fd, at, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return disk_failed(upload, "write");
        at += n;
        size -= (size_t)n;
        upload->written += (uint64_t)n;
    }
    return CRT_OK;
}

static crt_status_t check_hash(crti_upload_t *upload, char sha[65])
{
    unsigned char digest[crypto_hash_sha256_BYTES];

    if (upload->written != upload->size && upload->size != CRTI_UPLOAD_UNKNOWN)
        return crt_raise(CRT_ERR_CORRUPT, "%llu of %llu bytes arrived",
                         (unsigned long long)upload->written,
                         (unsigned long long)upload->size);
    crypto_hash_sha256_final(&upload->hash, digest);
    sodium_bin2hex(sha, 65, digest, sizeof(digest));
    if (!crti_package_is_name(upload->name) && strcmp(sha, upload->name) != 0)
        return crt_raise(CRT_ERR_CORRUPT, "the bytes have SHA-256 %s, not %s", sha,
                         upload->name);
    return CRT_OK;
}

/* The package's name, which may have been that of other bytes, becomes that of these. */
static crt_status_t link_name(crti_upload_t *upload, const char *sha)
{
    char path[4300];

    if (symlink(sha, upload->temporary) != 0)
        return disk_failed(upload, "symlink");
    snprintf(path, sizeof(path), "%s/%s", upload->directory, upload->name);
    if (rename(upload->temporary, path) != 0)
        return disk_failed(upload, "rename");
    upload->temporary[0] = '\0';
    return CRT_OK;
}

crt_status_t crti_upload_finish(crti_upload_t *upload)
{
    char path[4200], sha[65];
    crt_status_t status = check_hash(upload, sha);
    CRTI_AUTO(crti_close) int directory = -1;

    if (status != CRT_OK)
        return status;
    snprintf(path, sizeof(path), "%s/%s", upload->directory, sha);
    directory = open(upload->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fchmod(upload->fd, 0700) != 0 || fsync(upload->fd) != 0 || directory < 0)
        return disk_failed(upload, "fsync");
    /* Closed before it has its name: an executable that is open for writing can't be run. */
    close(crti_take_fd(&upload->fd));
    if (rename(upload->temporary, path) != 0)
        return disk_failed(upload, "rename");
    if (crti_package_is_name(upload->name))
        status = link_name(upload, sha);
    upload->temporary[0] = '\0';
    if (status != CRT_OK)
        return status;
    if (fsync(directory) != 0)
        return disk_failed(upload, "fsync");
    crti_programs_trim(upload->directory, CRTI_LIMIT(program_cache));
    return CRT_OK;
}

void crti_upload_free(crti_upload_t *upload)
{
    if (!upload)
        return;
    if (upload->fd >= 0 && upload->temporary[0])
        close(upload->fd);
    if (upload->temporary[0])
        unlink(upload->temporary);
    free(upload);
}

bool crti_program_exists(const char *directory, const char *sha)
{
    CRTI_AUTO(crti_close) int fd = -1;
    char path[4200];

    /* Of what is refused its upload says why. */
    if (snprintf(path, sizeof(path), "%s/%s", directory, sha) >= (int)sizeof(path) ||
        crti_own_open(path, &fd) != CRT_OK)
        return false;
    crti_programs_used(fd); /* who asks submits a job with it next */
    return true;
}

bool crti_package_is_name(const char *text)
{
    static const char front[] = "_ray_pkg_";
    size_t digits = strlen(front);

    if (strncmp(text, front, digits) != 0)
        return false;
    digits = strspn(text + strlen(front), "0123456789abcdef");
    return digits >= 1 && digits <= 64 &&
           strcmp(text + strlen(front) + digits, ".zip") == 0;
}

bool crti_package_exists(const char *directory, const char *name, char sha_out[65])
{
    char path[4200];
    ssize_t length;

    if (crti_dir_check(directory) != CRT_OK)
        return false;
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    length = readlink(path, sha_out, 65);
    if (length != 64)
        return false;
    sha_out[64] = '\0';
    if (crti_http_is_sha(sha_out) && crti_program_exists(directory, sha_out))
        return true;
    unlink(path); /* the cache has given up what it was the name of */
    return false;
}

void crti_upload_clean(const char *directory)
{
    DIR *dir = opendir(directory);
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        int pid = 0;

        if (sscanf(entry->d_name, ".upload-%d-", &pid) == 1 && pid > 0 &&
            kill(pid, 0) != 0 && errno == ESRCH)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
}
