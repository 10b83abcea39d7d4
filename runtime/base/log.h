/* SPDX-License-Identifier: Apache-2.0 */
/* Logging: one line per event, "time level module pid text", to stderr or the host's sink.
 *
 * CRT_LOG=info,session=trace selects, by default notice. Library code logs at debug at most and
 * returns status and detail; an error is logged once, by the function that has no caller to return
 * to. Threads: any.
 *
 * A process that has something to complain of without end must not fill the disk: of errors,
 * warnings, notices and infos on stderr CRTI_LOG_BURST come at once and CRTI_LOG_RATE a second; a
 * line gives the number of missing ones. Debug and trace lines, which the user enabled, all come.
 *
 * A daemon's log is a file of bounded size (crti_log_to_file): at log_file it is renamed
 * to FILE.1, in the place of the one before, and a new one begins.
 */
#ifndef CRTI_BASE_LOG_H
#define CRTI_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/base/crt_base.h"

#define CRTI_LOG_BURST 2000
#define CRTI_LOG_RATE  20

typedef enum crti_log_level {
    CRTI_LOG_ERROR,
    CRTI_LOG_WARN,
    CRTI_LOG_NOTICE, /* what everybody should know, with nothing wrong */
    CRTI_LOG_INFO,
    CRTI_LOG_DEBUG,
    CRTI_LOG_TRACE
} crti_log_level_t;

/* Reads a selection such as "info,session=trace". Unknown words are ignored with a warning.
 * Call before other threads run; daemons call it with CRT_LOG or "info". */
void crti_log_select(const char *selection);

/* Lines go to `sink` instead of stderr; NULL for stderr again. */
void crti_log_set_sink(void (*sink)(void *user, int level, const char *line), void *user);

/* Whatever this process writes to stdout and stderr is appended to the file `path` (mode 0600) from
 * now on, which is rotated. What does not fit on the disk is counted, and a line reports it when
 * there is room again. CRT_ERR_IO: it can't be opened; both are what they were. */
crt_status_t crti_log_to_file(const char *path);

/* What no module writes is above this; CRTI_LOG_TRACE until the selection was read. */
extern _Atomic int crti_log_most;

bool crti_log_is_chosen(crti_log_level_t level, const char *module) CRT_COLD;

static inline bool crti_log_is_on(crti_log_level_t level, const char *module)
{
    return (int)level <= atomic_load_explicit(&crti_log_most, memory_order_relaxed) &&
           crti_log_is_chosen(level, module);
}

void crti_log_write(crti_log_level_t level, const char *module, const char *format, ...)
    CRT_PRINTF(3, 4) CRT_COLD;

/* Arguments are evaluated only when the line will be written. */
#define crti_log(level, module, ...)                                                     \
    do {                                                                                 \
        if (crti_log_is_on((level), (module)))                                           \
            crti_log_write((level), (module), __VA_ARGS__);                              \
    } while (0)

#endif
