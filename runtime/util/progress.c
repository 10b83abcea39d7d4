/* SPDX-License-Identifier: Apache-2.0 */
/* Progress: the actor that counts the steps of many workers, and the wait that draws them.
 *
 * Where it sits
 *     workers -> crt_progress_add -> [ runtime/util/progress.c: the actor ]
 *     driver  -> crt_progress_wait -> bar.h -> stderr
 * Failure
 *     A worker that dies makes no more steps; its result says so. When the actor dies the wait goes
 *     on without a bar, after one line.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "runtime/base/crt_printable.h"
#include "runtime/crt_define.h"
#include "runtime/crt_util.h"
#include "runtime/util/bar.h"
#include "runtime/util/deadline.h"

#define LABEL_MAX 80
#define DRAW_MS   100
#define POLL_MS   20
#define LATE_MS   1000 /* for steps that are on their way when the results are here */
#define WIDTH     80   /* of a terminal that does not say */
#define STEP      10   /* percent between two lines, where there is no terminal */

typedef struct progress {
    char label[LABEL_MAX + 1];
    int64_t done, total, start_ms;
} progress_t;

/* ---------------------------------------------------------------- in the actor */

static crt_status_t create(void *self, crt_call_t *call)
{
    progress_t *p = self;
    const char *label;

    CRT_TRY(crt_args(call, &label, &p->total));
    if (p->total < 0)
        return crt_fail(call, CRT_ERR_INVALID, "a progress of %lld steps",
                        (long long)p->total);
    snprintf(p->label, sizeof(p->label), "%s", label);
    p->start_ms = crti_now_ms();
    return CRT_OK;
}

static crt_status_t add(void *self, crt_call_t *call)
{
    progress_t *p = self;
    int64_t steps;

    CRT_TRY(crt_args(call, &steps));
    p->done += steps;
    return CRT_OK;
}

static crt_status_t read_run(void *self, crt_call_t *call)
{
    const progress_t *p = self;
    crt_arg_t items[] = {CRT_ARG((const char *)p->label), CRT_ARG(p->done),
                         CRT_ARG(p->total),
                         CRT_ARG((double)(crti_now_ms() - p->start_ms) / 1000)};

    return crt_return(call, crt_list(items, sizeof(items) / sizeof(items[0])));
}

static const crt_method_t progress_add =
    CRT_METHOD(.name = "add", .run = add, .signature = "int");
static const crt_method_t progress_read =
    CRT_METHOD(.name = "read", .run = read_run, .signature = "");

static const crt_actor_class_t progress_class =
    CRT_ACTOR_CLASS(.name = "crt.Progress", .size = sizeof(progress_t), .create = create,
                    .signature = "string, int",
                    .methods = CRT_METHODS(&progress_add, &progress_read));

/* Every program has it. */
__attribute__((constructor)) static void define_progress(void)
{
    static crt_definition_t definition = {.struct_size = sizeof(definition),
                                          .actor_class = &progress_class};

    crt_define(&definition);
}

/* ---------------------------------------------------------------- its users */

crt_actor_t *crt_progress_new(const crt_actor_options_t *options, const char *label,
                              int64_t total)
{
    return crt_actor_new(&progress_class, options, label, total);
}

crt_status_t crt_progress_add(crt_actor_t *progress, int64_t steps)
{
    return crt_tell(progress, &progress_add, steps);
}

crt_status_t crt_progress_read(crt_actor_t *progress, int64_t *done_out,
                               int64_t *total_out)
{
    crt_ref_t *answer = crt_call(progress, &progress_read);
    const crt_value_t *list;
    crt_status_t status = crt_get(answer, &list);

    if (status == CRT_OK)
        status = crt_value_read(crt_value_at(list, 1), done_out);
    if (status == CRT_OK)
        status = crt_value_read(crt_value_at(list, 2), total_out);
    crt_ref_drop(&answer);
    return status;
}

/* ---------------------------------------------------------------- drawing */

typedef struct view {
    bool is_terminal, is_lost, was_drawn;
    int percent; /* of the last line */
} view_t;

static size_t width_of_terminal(void)
{
    struct winsize size = {0};

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2)
        return WIDTH;
    return size.ws_col - 1U; /* the last column may begin a line */
}

static void show(view_t *v, const crti_bar_t *bar, bool is_end)
{
    char text[512];
    int percent = crti_bar_percent(bar);

    if (v->is_terminal)
        crti_bar_draw(bar, width_of_terminal(), text, sizeof(text));
    else
        crti_bar_line(bar, text, sizeof(text));
    crt_make_printable(text); /* its label is any worker's */
    if (v->is_terminal) {
        fprintf(stderr, "\r%s\033[K%s", text, is_end ? "\n" : "");
        v->was_drawn = !is_end;
    } else if (is_end || percent / STEP > v->percent / STEP) {
        fprintf(stderr, "%s\n", text);
    }
    v->percent = percent;
}

static crt_status_t read_bar(crt_ref_t *answer, crti_bar_t *bar)
{
    const crt_value_t *list;

    CRT_TRY(crt_get(answer, &list));
    CRT_TRY(crt_value_read(crt_value_at(list, 0), &bar->label));
    CRT_TRY(crt_value_read(crt_value_at(list, 1), &bar->done));
    CRT_TRY(crt_value_read(crt_value_at(list, 2), &bar->total));
    return crt_value_read(crt_value_at(list, 3), &bar->seconds);
}

/* False: the last steps may be on their way still; show nothing yet. */
static bool draw(view_t *v, crt_actor_t *progress, bool is_end, bool may_be_short)
{
    crt_ref_t *answer = crt_call(progress, &progress_read);
    crti_bar_t bar;
    crt_status_t status = read_bar(answer, &bar);
    bool is_short = status == CRT_OK && is_end && bar.done < bar.total;

    if (status == CRT_OK && (!is_short || may_be_short))
        show(v, &bar, is_end);
    else if (status != CRT_OK && status != CRT_ERR_INTERRUPTED) {
        v->is_lost = true;
        fprintf(stderr, "%sprogress: %s\n", v->was_drawn ? "\n" : "", crt_error_detail());
    }
    crt_ref_drop(&answer);
    return !is_short || may_be_short;
}

/* A step is told and not waited for: results may be here before it. A wait whose time is over
 * takes no more of it. */
static void draw_end(view_t *v, crt_actor_t *progress, crt_status_t status)
{
    int64_t deadline = crti_deadline_after(status == CRT_OK ? LATE_MS : 0);

    while (!v->is_lost && !draw(v, progress, true, crti_deadline_left(deadline) == 0))
        poll(NULL, 0, POLL_MS);
}

crt_status_t crt_progress_wait(crt_actor_t *progress, crt_ref_t *const *refs,
                               size_t count, int64_t timeout_ms)
{
    int64_t deadline = crti_deadline_after(timeout_ms);
    view_t view = {.is_terminal = isatty(STDERR_FILENO)};
    size_t ready;

    for (;;) {
        int64_t left = crti_deadline_left(deadline);
        bool is_last = left >= 0 && left <= DRAW_MS;
        crt_status_t status =
            crt_wait(refs, count, count, is_last ? left : DRAW_MS, NULL, &ready);

        if (status == CRT_ERR_TIMED_OUT && !is_last) {
            if (!view.is_lost)
                draw(&view, progress, false, false);
            continue;
        }
        draw_end(&view, progress, status);
        return status == CRT_ERR_TIMED_OUT
                   ? crt_raise(status, "%zu of %zu are ready", ready, count)
                   : status;
    }
}
