/* SPDX-License-Identifier: Apache-2.0 */
/* Output of processes: pipes, log files, last lines. See output.h. */
#include "runtime/node/host/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/log.h"
#include "runtime/node/host/log_quota.h"

#define READ_BYTES ((size_t)32 << 10)
#define READS_MAX  8                 /* of one event: other processes have a turn too */
#define DRAIN_MAX  ((size_t)4 << 20) /* read of a dead process whose pipe is held open */

void crti_log_file_init(crti_log_file_t *file, uint64_t limit)
{
    *file = (crti_log_file_t){.fd = -1, .limit = limit};
}

void crti_log_file_lost(crti_log_file_t *file, uint64_t bytes, int error)
{
    if (file->lost == 0)
        crti_log(CRTI_LOG_ERROR, "output",
                 "%s: %s; what is printed until that is over is not kept", file->path,
                 strerror(error));
    file->lost += bytes;
    file->lost_errno = error;
}

/* In the place of what is missing. False: there is no room yet. */
static bool mark_lost(crti_log_file_t *file)
{
    char text[160];
    int length = snprintf(text, sizeof(text), "%s[%llu bytes are missing here: %s]\n",
                          file->open_line ? "\n" : "", (unsigned long long)file->lost,
                          strerror(file->lost_errno));
    ssize_t put = write(file->fd, text, (size_t)length);

    if (put != length) {
        if (put > 0 && ftruncate(file->fd, (off_t)file->size) != 0)
            file->size += (uint64_t)put;
        return false;
    }
    crti_log(CRTI_LOG_INFO, "output", "%s goes on; %llu bytes are missing", file->path,
             (unsigned long long)file->lost);
    file->size += (uint64_t)length;
    file->open_line = false;
    file->lost = 0;
    return true;
}

void crti_log_file_close(crti_log_file_t *file)
{
    if (file->fd >= 0 && file->lost)
        mark_lost(file);
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

static bool make_file(crti_log_file_t *file)
{
    const char *name = strrchr(file->path, '/');
    struct stat st;

    file->fd =
        open(file->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file->fd >= 0 && fstat(file->fd, &st) == 0)
        file->size = (uint64_t)st.st_size;
    if (file->fd < 0)
        return false;
    if (file->link[0] == '\0' || name == NULL)
        return true;
    unlink(file->link);
    if (symlink(name + 1, file->link) < 0)
        crti_log(CRTI_LOG_WARN, "output", "%s: %s", file->link, strerror(errno));
    return true;
}

static void keep_tail(crti_log_file_t *file, const char *data, size_t size)
{
    size_t keep;

    if (size >= sizeof(file->tail)) {
        memcpy(file->tail, data + size - sizeof(file->tail), sizeof(file->tail));
        file->tail_size = sizeof(file->tail);
        return;
    }
    keep = sizeof(file->tail) - size < file->tail_size ? sizeof(file->tail) - size
                                                       : file->tail_size;
    memmove(file->tail, file->tail + file->tail_size - keep, keep);
    memcpy(file->tail + keep, data, size);
    file->tail_size = keep + size;
}

void crti_log_file_write(crti_log_file_t *file, const char *data, size_t size)
{
    if (size == 0)
        return;
    keep_tail(file, data, size);
    if (file->fd < 0 && !make_file(file)) {
        crti_log_file_lost(file, size, errno);
        return;
    }
    if (file->lost && !mark_lost(file)) {
        file->lost += size;
        return;
    }
    while (size) {
        ssize_t put = write(file->fd, data, size);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0) {
            crti_log_file_lost(file, size, errno);
            return;
        }
        file->open_line = data[put - 1] != '\n';
        data += put;
        size -= (size_t)put;
        file->size += (uint64_t)put;
    }
    if (file->size > file->limit)
        crti_log_trim(file);
}

uint64_t crti_log_file_end(const crti_log_file_t *file)
{
    crti_log_place_t place = {0};

    if (file->fd >= 0)
        place = crti_log_find(file->fd);
    return place.removed + file->size - place.marker;
}

const char *crti_log_file_last(const crti_log_file_t *file, char *text, size_t size)
{
    size_t from = 0, end = file->tail_size, used = 0;

    while (end && file->tail[end - 1] == '\n')
        end--;
    if (end - from >= size / 2) /* separators need room too */
        from = end - size / 2;
    for (size_t i = from; i < end && used + 4 < size; i++) {
        unsigned char c = (unsigned char)file->tail[i];

        if (c == '\n') {
            memcpy(text + used, " | ", 3);
            used += 3;
        } else {
            text[used++] = (c >= ' ' || c == '\t') && c != 127 ? (char)c : '?';
        }
    }
    text[used] = '\0';
    return text;
}

void crti_log_file_forget(crti_log_file_t *file)
{
    file->tail_size = 0;
}

/* ---------------------------------------------------------------- lines */

static void tell(crti_output_t *output, const char *lines, size_t size)
{
    if (size && output->on_lines)
        output->on_lines(output->user, output->is_stderr, lines, size);
}

/* Tells whole lines; what is left stays in `partial`. */
static void add_lines(crti_output_t *output, const char *data, size_t size)
{
    const char *last = memrchr(data, '\n', size);
    size_t whole = last ? (size_t)(last + 1 - data) : 0;

    if (whole && output->partial.size) {
        size_t first = (size_t)((const char *)memchr(data, '\n', size) + 1 - data);

        if (crti_buffer_append(&output->partial, data, first) == CRT_OK)
            tell(output, (const char *)output->partial.data, output->partial.size);
        crti_buffer_fini(&output->partial);
        tell(output, data + first, whole - first);
    } else {
        tell(output, data, whole);
    }
    if (whole < size)
        crti_buffer_append(&output->partial, data + whole, size - whole);
    if (output->partial.size >= CRTI_OUTPUT_LINE) {
        crti_buffer_append(&output->partial, "\n", 1);
        tell(output, (const char *)output->partial.data, output->partial.size);
        crti_buffer_fini(&output->partial);
    }
}

void crti_output_take(crti_output_t *output, const char *data, size_t size)
{
    crti_log_file_write(output->file, data, size);
    add_lines(output, data, size);
}

/* One read. False: nothing more now, or ever. */
static bool read_some(crti_output_t *output, size_t *got_out)
{
    char data[READ_BYTES];
    ssize_t got = read(output->fd, data, sizeof(data));

    if (got > 0) {
        crti_output_take(output, data, (size_t)got);
        *got_out = (size_t)got;
        return true;
    }
    if (got == 0 && output->loop) /* all writers closed it; without this epoll spins */
        crti_loop_remove(output->loop, &output->watch);
    return got < 0 && errno == EINTR;
}

static void on_ready(void *user, uint32_t events)
{
    crti_output_t *output = user;
    size_t got;

    for (int i = 0; i < READS_MAX && read_some(output, &got); i++)
        ;
}

crt_status_t crti_output_open(crti_output_t *output, bool is_stderr,
                              crti_log_file_t *file, crti_output_lines_t *on_lines,
                              void *user, int *write_fd_out)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return crt_raise(CRT_ERR_IO, "pipe: %s", strerror(errno));
    /* Only our end: the process must not see EAGAIN on its stdout. */
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    *output = (crti_output_t){.fd = fds[0],
                              .is_stderr = is_stderr,
                              .file = file,
                              .on_lines = on_lines,
                              .user = user};
    *write_fd_out = fds[1];
    return CRT_OK;
}

crt_status_t crti_output_start(crti_output_t *output, crti_loop_t *loop)
{
    output->watch = (crti_watch_t){.on_ready = on_ready, .user = output};
    output->loop = loop;
    return crti_loop_add(loop, &output->watch, output->fd, EPOLLIN);
}

void crti_output_flush(crti_output_t *output)
{
    size_t total = 0, got = 0;

    while (output->fd >= 0 && total < DRAIN_MAX && read_some(output, &got)) {
        total += got;
        got = 0;
    }
    if (output->partial.size) {
        crti_buffer_append(&output->partial, "\n", 1);
        tell(output, (const char *)output->partial.data, output->partial.size);
    }
    crti_buffer_fini(&output->partial);
}

void crti_output_close(crti_output_t *output)
{
    crti_output_flush(output);
    if (output->fd < 0)
        return;
    if (output->loop)
        crti_loop_remove(output->loop, &output->watch);
    close(output->fd);
    output->fd = -1;
}
