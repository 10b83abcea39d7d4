/* SPDX-License-Identifier: Apache-2.0 */
/* Results of the cluster in a loop of libuv: a wait set's descriptor is a poll handle like any. A
 * timer of the loop goes on meanwhile.
 *
 *     uv_results [TASKS]
 */
#include <crt.h>

#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

static crt_status_t square_run(crt_call_t *call)
{
    int64_t number;

    CRT_TRY(crt_args(call, &number));
    return crt_return(call, number * number);
}
static const crt_task_t square =
    CRT_TASK(.name = "square", .run = square_run, .signature = "int");

typedef struct work {
    crt_waitset_t *set;
    uv_poll_t results;
    uv_timer_t timer;
    int64_t count, sum;
    unsigned ticks;
} work_t;

static void on_tick(uv_timer_t *timer)
{
    work_t *work = timer->data;

    work->ticks++;
}

/* Takes what is ready; the loop ends when nothing is left in the set. */
static void on_results(uv_poll_t *handle, int status, int events)
{
    crt_event_t event = CRT_EVENT_INIT;
    work_t *work = handle->data;
    crt_status_t result;
    int64_t number;

    (void)events;
    if (status < 0)
        return;
    while ((result = crt_waitset_next(work->set, 0, &event)) == CRT_OK) {
        CRT_CHECK(crt_get(event.ref, &number));
        work->sum += number;
        work->count++;
    }
    if (result != CRT_ERR_NOT_FOUND)
        return; /* CRT_ERR_TIMED_OUT: more will come */
    uv_close((uv_handle_t *)&work->results, NULL);
    uv_close((uv_handle_t *)&work->timer, NULL);
}

static int driver(int argc, char **argv)
{
    int64_t tasks = argc > 1 ? atoi(argv[1]) : 100;
    work_t work = {.count = 0};
    int fd;

    CRT_CHECK(crt_waitset_new(&work.set));
    for (int64_t i = 0; i < tasks; i++) {
        crt_ref_t *ref = crt_submit(&square, NULL, i);

        CRT_CHECK(crt_waitset_add_ref(work.set, ref, NULL));
        crt_ref_drop(&ref);
    }
    CRT_CHECK(crt_waitset_fd(work.set, &fd));
    work.results.data = work.timer.data = &work;
    uv_poll_init(uv_default_loop(), &work.results, fd);
    uv_poll_start(&work.results, UV_READABLE, on_results);
    uv_timer_init(uv_default_loop(), &work.timer);
    uv_timer_start(&work.timer, on_tick, 0, 1);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    uv_loop_close(uv_default_loop());
    printf("%lld squares, together %lld\n", (long long)work.count, (long long)work.sum);
    printf("the timer ticked: %s\n", work.ticks > 0 ? "yes" : "no");
    crt_waitset_drop(&work.set);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&square)), driver);
}
