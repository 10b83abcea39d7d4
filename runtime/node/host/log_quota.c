/* SPDX-License-Identifier: Apache-2.0 */
/* Log quotas. See log_quota.h. */
#include "runtime/node/host/log_quota.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/log.h"

#define COPY_BYTES ((size_t)64 << 10)

/* ---------------------------------------------------------------- the marker */

static int write_marker(char text[CRTI_LOG_MARKER], uint64_t removed)
{
    return snprintf(text, CRTI_LOG_MARKER,
                    "--- %llu bytes (%.1f MiB) removed by the log quota ---\n",
                    (unsigned long long)removed, (double)removed / 1048576.0);
}

crti_log_place_t crti_log_find(int fd)
{
    char text[CRTI_LOG_MARKER + 1], expected[CRTI_LOG_MARKER];
    ssize_t got = pread(fd, text, CRTI_LOG_MARKER, 0);
    crti_log_place_t place = {0};
    unsigned long long removed;
    int length;

    text[got > 0 ? got : 0] = '\0';
    if (sscanf(text, "--- %19llu bytes", &removed) != 1)
        return place;
    length = write_marker(expected, removed);
    if (strncmp(text, expected, (size_t)length) != 0)
        return place;
    place.removed = removed;
    place.marker = (size_t)length;
    return place;
}

/* ---------------------------------------------------------------- one file */

/* The first line that begins at `from` or behind it, if it is near and not the end. */
static off_t next_line(int fd, off_t from, off_t size)
{
    char text[COPY_BYTES];
    ssize_t got = pread(fd, text, sizeof(text), from - 1);
    const char *end = got > 0 ? memchr(text, '\n', (size_t)got) : NULL;

    return end && from + (end - text) < size ? from + (end - text) : from;
}

static crt_status_t write_all(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t put = write(fd, data, size);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return crt_raise(CRT_ERR_IO, "%s", strerror(errno));
        data += put;
        size -= (size_t)put;
    }
    return CRT_OK;
}

/* The marker, and the output of `from` behind the byte `at`. */
static crt_status_t copy_rest(int to, int from, off_t at, uint64_t removed)
{
    char text[COPY_BYTES];
    crt_status_t status = write_all(to, text, (size_t)write_marker(text, removed));

    while (status == CRT_OK) {
        ssize_t got = pread(from, text, sizeof(text), at);

        if (got == 0)
            return CRT_OK;
        if (got < 0)
            return crt_raise(CRT_ERR_IO, "%s", strerror(errno));
        at += got;
        status = write_all(to, text, (size_t)got);
    }
    return status;
}

/* A new file in the place of the old one: at every moment the name leads to a whole one. */
static crt_status_t replace(crti_log_file_t *file, off_t at, uint64_t removed)
{
    char path[sizeof(file->path) + 8];
    CRTI_AUTO(crti_close) int fd = -1;
    crt_status_t status;

    snprintf(path, sizeof(path), "%s.new", file->path);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    status = copy_rest(fd, file->fd, at, removed);
    if (status == CRT_OK && rename(path, file->path) != 0)
        status = crt_raise(CRT_ERR_IO, "%s: %s", file->path, strerror(errno));
    if (status != CRT_OK) {
        unlink(path);
        return status;
    }
    file->size = (uint64_t)lseek(fd, 0, SEEK_END);
    close(file->fd);
    file->fd = crti_take_fd(&fd);
    return CRT_OK;
}

/* Without room for a copy: all of it goes, and the marker says so. */
static void empty(crti_log_file_t *file, uint64_t removed)
{
    char text[CRTI_LOG_MARKER];
    int length = write_marker(text, removed);

    if (ftruncate(file->fd, 0) == 0) {
        file->size = 0;
        file->open_line = false;
        if (write_all(file->fd, text, (size_t)length) == CRT_OK) {
            file->size = (uint64_t)length;
            return;
        }
    }
    crti_log_file_lost(file, removed, errno);
}

void crti_log_trim(crti_log_file_t *file)
{
    crti_log_place_t place = crti_log_find(file->fd);
    off_t at =
        next_line(file->fd, (off_t)(file->size - file->limit / 2), (off_t)file->size);
    uint64_t removed = place.removed + (uint64_t)at - place.marker;

    if (replace(file, at, removed) == CRT_OK)
        return;
    crti_log(CRTI_LOG_WARN, "output", "%s: %s: all of the log is removed", file->path,
             crt_error_detail());
    empty(file, place.removed + file->size - place.marker);
}

/* ---------------------------------------------------------------- all that ended */

typedef struct ended {
    crti_list_t link;
    uint64_t size;
    char *symlink; /* that led to it when it ended, NULL: none */
    char path[];
} ended_t;

void crti_log_quota_init(crti_log_quota_t *quota, uint64_t total)
{
    *quota = (crti_log_quota_t){.total = total};
    crti_list_init(&quota->ended);
}

static void drop(crti_log_quota_t *quota, ended_t *e)
{
    crti_list_remove(&e->link);
    quota->used -= e->size;
    quota->files--;
    free(e->symlink);
    free(e);
}

void crti_log_quota_fini(crti_log_quota_t *quota)
{
    while (!crti_list_is_empty(&quota->ended))
        drop(quota, CRTI_CONTAINER(quota->ended.next, ended_t, link));
}

/* An actor's link leads to its newest process: it goes only with that one. */
static void remove_link(const ended_t *e)
{
    char target[512];
    ssize_t length = readlink(e->symlink, target, sizeof(target) - 1);
    const char *name = strrchr(e->path, '/');

    target[length > 0 ? length : 0] = '\0';
    if (name && strcmp(target, name + 1) == 0)
        unlink(e->symlink);
}

void crti_log_quota_ended(crti_log_quota_t *quota, crti_log_file_t *file)
{
    size_t length = strlen(file->path) + 1;
    ended_t *e;

    if (file->fd < 0)
        return;
    crti_log_file_close(file);
    e = calloc(1, sizeof(*e) + length);
    if (e == NULL)
        return;
    memcpy(e->path, file->path, length);
    e->symlink = file->link[0] ? strdup(file->link) : NULL;
    e->size = file->size;
    crti_list_append(&quota->ended, &e->link);
    quota->used += e->size;
    quota->files++;
    while (quota->used > quota->total || quota->files > CRTI_LOG_FILES) {
        ended_t *oldest = CRTI_CONTAINER(quota->ended.next, ended_t, link);

        if (oldest->symlink)
            remove_link(oldest);
        unlink(oldest->path);
        crti_log(CRTI_LOG_INFO, "output", "%s removed by the log quota", oldest->path);
        drop(quota, oldest);
    }
}
