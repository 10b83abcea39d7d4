/* SPDX-License-Identifier: Apache-2.0 */
/* What workers print. See worker_lines.h. */
#include "runtime/core/client/worker_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/crt_printable.h"
#include "runtime/base/line_fold.h"
#include "runtime/core/client/ranks.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/printed.h"
#include "runtime/core/process/timer.h"

/* The lines of workers are the one thing that a driver prints besides its log. */
static void show(void *user, bool is_stderr, crti_span_t prefix, crti_span_t line,
                 size_t repeated)
{
    FILE *file = is_stderr ? stderr : stdout;
    char worker[192]; /* its class or function: a name that anybody chose */

    snprintf(worker, sizeof(worker), "%.*s", (int)prefix.size, (const char *)prefix.data);
    for (char *at = crt_make_printable(worker); *at; at++)
        if (*at == '\n')
            *at = '?';
    fprintf(file, "%s %.*s", worker, (int)line.size, (const char *)line.data);
    if (repeated)
        fprintf(file, " [repeated %zu times across cluster]", repeated);
    putc('\n', file);
}

static void flush(void)
{
    fflush(stdout);
    fflush(stderr);
}

crt_status_t crti_worker_lines_begin(crti_core_t *core, const crt_options_t *options)
{
    const char *given = getenv("CRT_DEDUP_LOGS");
    bool wanted = options && options->dedup_logs;

    if (given && *given) {
        if (strcmp(given, "0") != 0 && strcmp(given, "1") != 0)
            return crt_raise(CRT_ERR_INVALID, "CRT_DEDUP_LOGS=%.20s is neither 0 nor 1",
                             given);
        wanted = *given == '1';
    }
    core->no_log_to_driver = options && options->no_log_to_driver;
    if (!wanted || core->no_log_to_driver)
        return CRT_OK;
    core->line_fold = malloc(sizeof(*core->line_fold));
    if (!core->line_fold)
        return crt_raise(CRT_ERR_NO_MEMORY, "the lines of workers");
    crti_line_fold_init(core->line_fold, show, NULL);
    return CRT_OK;
}

/* While the node is left there is no timer any more: the end shows what is held. */
static void wake_for_held(crti_core_t *core, uint64_t now_ns)
{
    uint64_t next = crti_line_fold_tick(core->line_fold, now_ns);

    if (next != UINT64_MAX && core->net && !core->is_leaving)
        crti_core_wake_at(core, next);
}

void crti_worker_lines_came(crti_core_t *core, const crti_msg_log_t *m)
{
    const char *line = m->lines.data, *end = line + m->lines.size;
    int rank = crti_ranks_find(m->actor);
    uint64_t now_ns = crti_now_ns();

    crti_printed_came(core->printed);
    if (core->no_log_to_driver)
        return;
    while (line < end) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size_t size = stop ? (size_t)(stop - line) : (size_t)(end - line);

        if (rank >= 0)
            crti_ranks_print(rank, m->is_stderr, line, size);
        else if (core->line_fold)
            crti_line_fold_add(core->line_fold, m->is_stderr, m->prefix,
                               crti_span(line, size), now_ns);
        else
            show(NULL, m->is_stderr, m->prefix, crti_span(line, size), 0);
        line += size + 1;
    }
    if (core->line_fold)
        wake_for_held(core, now_ns);
    fflush(m->is_stderr ? stderr : stdout);
}

void crti_worker_lines_tick(crti_core_t *core, uint64_t now_ns)
{
    if (!core->line_fold)
        return;
    wake_for_held(core, now_ns);
    flush();
}

void crti_worker_lines_end(crti_core_t *core)
{
    if (!core->line_fold)
        return;
    crti_line_fold_fini(core->line_fold);
    free(core->line_fold);
    core->line_fold = NULL;
    flush();
}
