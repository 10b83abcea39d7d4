/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that a program writes to its log, with the time, the level and the call that wrote them
 * (crt_log).
 *
 * Where it sits
 *     user code -> [ core/client/program_log.c ] -> stderr -> node daemon (host/output.c) -> log,
 *     driver
 * Threads
 *     Any; a line is written at once, by one write, so that lines of threads do not mix. No lock is
 *     taken.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/base/number_text.h"
#include "runtime/core/process/entry.h"

#define TEXT_BYTES 1001 /* of what the program says, with the final zero */
#define LINE_BYTES (TEXT_BYTES + 400)

static const char *name_of(crt_log_level_t level)
{
    switch (level) {
    case CRT_LOG_DEBUG: return "DEBUG";
    case CRT_LOG_INFO: return "INFO";
    case CRT_LOG_WARNING: return "WARNING";
    case CRT_LOG_ERROR: return "ERROR";
    }
    return "LEVEL?";
}

static size_t put_head(crt_log_level_t level, char *line, size_t size)
{
    const crt_call_t *call = crti_is_forked() ? NULL : crti_running();
    char id[CRT_OBJECT_ID_SIZE] = "-", when[32];
    struct timespec now;
    struct tm utc;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(when, sizeof(when), "%F %T", &utc);
    if (call)
        crt_task_id(call, id, sizeof(id));
    snprintf(line, size, "%s.%03d %s %s %s ", when, (int)(now.tv_nsec / 1000000),
             name_of(level), call ? crt_call_name(call) : "-", id);
    return strlen(line);
}

/* A line is one line, whatever is in the text. */
static void write_line(crt_log_level_t level, const char *text)
{
    char line[LINE_BYTES];
    size_t size, done = 0;

    if (level == CRT_LOG_DEBUG && !crti_log_is_on(CRTI_LOG_DEBUG, "program"))
        return;
    size = put_head(level, line, sizeof(line) - TEXT_BYTES);
    for (size_t i = 0; i < TEXT_BYTES - 1 && text[i]; i++)
        line[size++] = text[i] == '\n' || text[i] == '\r' ? ' ' : text[i];
    line[size++] = '\n';
    fflush(stderr);
    while (done < size) {
        ssize_t n = write(STDERR_FILENO, line + done, size - done);

        if (n < 0 && errno != EINTR)
            return;
        done += n > 0 ? (size_t)n : 0;
    }
}

void crt_log(crt_log_level_t level, const char *format, ...)
{
    int before = errno;
    char text[TEXT_BYTES];
    va_list args;

    va_start(args, format);
    crti_vformat(text, sizeof(text), format, args);
    va_end(args);
    write_line(level, text);
    errno = before;
}

void crt_log_text(crt_log_level_t level, const char *text)
{
    int before = errno;

    if (text)
        write_line(level, text);
    errno = before;
}
