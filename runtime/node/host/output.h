/* SPDX-License-Identifier: Apache-2.0 */
/* Output: what a process prints, from its pipes to its log file, and in whole lines to whoever
 * wants them.
 *
 * Where it sits
 *     worker, zygote, submitted driver -> pipe -> [ node/host/output.c ] -> log file, on_lines
 * Rules
 *     The file is made at the first byte. Its last bytes are kept for the report of a death.
 *     A file that grows beyond its limit loses its older half (log_quota.c): a marker line at its
 *     start says how much. Whoever reads counts bytes from the first one that was ever printed.
 *     Lines are told whole; one longer than CRTI_OUTPUT_LINE is told in parts.
 * Threads: the loop's.
 * Failure: a disk that is full costs the log, never the worker: the pipe is always read. When there
 * is
 *     room again the log goes on, behind a line that says how many bytes are missing there.
 */
#ifndef CRTI_NODE_OUTPUT_H
#define CRTI_NODE_OUTPUT_H

#include "runtime/base/buffer.h"
#include "runtime/net/loop.h"

#define CRTI_OUTPUT_LINE ((size_t)64 << 10)
#define CRTI_OUTPUT_TAIL 1024

/* The log of one process: both of its pipes write to it. */
typedef struct crti_log_file {
    int fd;         /* -1: not made yet */
    uint64_t lost;  /* bytes since the last one that could be written */
    int lost_errno; /* why */
    bool open_line; /* its last byte ends no line */
    uint64_t limit; /* bytes of the file */
    uint64_t size;  /* the same, now */
    char path[512]; /* set before output is read */
    char link[512]; /* a symbolic link to it, made with it; "" none */
    char tail[CRTI_OUTPUT_TAIL];
    size_t tail_size;
} crti_log_file_t;

typedef struct crti_output crti_output_t;

typedef void crti_output_lines_t(void *user, bool is_stderr, const char *lines,
                                 size_t size);

struct crti_output {
    int fd; /* -1: closed, or read elsewhere */
    bool is_stderr;
    crti_loop_t *loop; /* NULL while it is not read */
    crti_watch_t watch;
    crti_log_file_t *file;
    crti_output_lines_t *on_lines; /* may be NULL */
    void *user;
    crti_buffer_t partial; /* an unfinished line */
};

void crti_log_file_init(crti_log_file_t *file, uint64_t limit);
void crti_log_file_close(crti_log_file_t *file);
/* The last lines, on one line joined by " | ", at most `size` - 1 bytes; "" when nothing was
 * printed. Returns `text`. */
const char *crti_log_file_last(const crti_log_file_t *file, char *text, size_t size);
/* What was printed up to here is not in _last. */
void crti_log_file_forget(crti_log_file_t *file);
/* Where it ends, in bytes from the first one that was ever printed. */
uint64_t crti_log_file_end(const crti_log_file_t *file);
/* Appends bytes as if they had been printed. */
void crti_log_file_write(crti_log_file_t *file, const char *data, size_t size);

/* So many bytes could not be written: told once, and in the log when it goes on. */
void crti_log_file_lost(crti_log_file_t *file, uint64_t bytes, int error);

/* Makes the pipe; the writing end goes to the process. */
crt_status_t crti_output_open(crti_output_t *output, bool is_stderr,
                              crti_log_file_t *file, crti_output_lines_t *on_lines,
                              void *user, int *write_fd_out);
/* Begins to read in `loop`. */
crt_status_t crti_output_start(crti_output_t *output, crti_loop_t *loop);
/* Takes bytes of its pipe that were read elsewhere (offload.h). */
void crti_output_take(crti_output_t *output, const char *data, size_t size);
/* Reads what is there without waiting, and tells an unfinished line. */
void crti_output_flush(crti_output_t *output);
/* The same, and closes. */
void crti_output_close(crti_output_t *output);

#endif
