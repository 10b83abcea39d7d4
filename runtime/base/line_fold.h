/* SPDX-License-Identifier: Apache-2.0 */
/* Line fold: lines of many workers that are the same in text are shown once, with how many there
 * were, as Ray does.
 *
 *     "x" of A          shown at once
 *     "x" of B          held, for 5 s since the first one
 *     "x" of A          held, too, now that there are two
 *     ... 5 s are over  the last one is shown: "x [repeated 2 times across cluster]"
 *
 * One worker that says the same again and again is not folded: that is what it does. Streams
 * (stdout, stderr) are told apart.
 *
 * Where it sits
 *     core/client/node_messages.c -> [ base/line_fold.c ] -> the driver's terminal
 * Threads: one at a time. Pure: time is passed in.
 * Limits: CRTI_FOLD_LINES texts at a time, at one more the oldest is shown and forgotten; lines
 * above CRTI_FOLD_BYTES and those with
 *     zeros in them are shown as they come.
 */
#ifndef CRTI_BASE_LINE_FOLD_H
#define CRTI_BASE_LINE_FOLD_H

#include "runtime/base/buffer.h"
#include "runtime/base/list.h"
#include "runtime/base/map.h"

#define CRTI_FOLD_NS    UINT64_C(5000000000)
#define CRTI_FOLD_LINES 4096
#define CRTI_FOLD_BYTES 4096

/* `repeated` 0: the line as it came; else the last of so many that were held. */
typedef void crti_fold_show_t(void *user, bool is_stderr, crti_span_t source,
                              crti_span_t line, size_t repeated);

typedef struct crti_line_fold {
    crti_map_t by_text;
    crti_list_t order; /* by the time of the first line */
    crti_fold_show_t *show;
    void *user;
} crti_line_fold_t;

void crti_line_fold_init(crti_line_fold_t *fold, crti_fold_show_t *show, void *user);
/* What is held is shown. */
void crti_line_fold_fini(crti_line_fold_t *fold);

/* A line without its end, of that source ("(Counter pid=7, ip=1.2.3.4)"). Without memory it is
 * shown. */
void crti_line_fold_add(crti_line_fold_t *fold, bool is_stderr, crti_span_t source,
                        crti_span_t line, uint64_t now_ns);
/* Shows what has been held for long enough. Returns when to be called again; UINT64_MAX: nothing is
 * held. */
uint64_t crti_line_fold_tick(crti_line_fold_t *fold, uint64_t now_ns);

#endif
