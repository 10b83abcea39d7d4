/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/loop.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "tests/net/loop_until.h"

#include <cmocka.h>

typedef struct scene {
    crti_loop_t *loop;
    crti_watch_t a, b;
    crti_timer_t timer[8];
    int order[16];
    int count;
    bool done;
} scene_t;

typedef struct mark {
    scene_t *scene;
    int number;
} mark_t;

static int setup(void **state)
{
    scene_t *s = calloc(1, sizeof(*s));

    assert_int_equal(crti_loop_new(&s->loop), CRT_OK);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    scene_t *s = *state;

    crti_loop_free(s->loop);
    free(s);
    return 0;
}

static void note(void *user)
{
    mark_t *mark = user;

    mark->scene->order[mark->scene->count++] = mark->number;
}

static void on_pipe_a(void *user, uint32_t events)
{
    scene_t *s = user;

    s->order[s->count++] = 1;
    crti_loop_remove(s->loop, &s->a);
    crti_loop_remove(s->loop, &s->b);
}

static void a_watch_removed_inside_a_callback_is_not_called_any_more(void **state)
{
    scene_t *s = *state;
    int pipes[2][2];

    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe(pipes[i]), 0);
        assert_int_equal(write(pipes[i][1], "x", 1), 1);
    }
    s->a = s->b = (crti_watch_t){.on_ready = on_pipe_a, .user = s};
    assert_int_equal(crti_loop_add(s->loop, &s->a, pipes[0][0], EPOLLIN), CRT_OK);
    assert_int_equal(crti_loop_add(s->loop, &s->b, pipes[1][0], EPOLLIN), CRT_OK);
    assert_int_equal(crti_loop_turn(s->loop, 0), CRT_OK);
    assert_int_equal(crti_loop_turn(s->loop, 0), CRT_OK);
    assert_int_equal(s->count, 1); /* whichever came first removed both */
    for (int i = 0; i < 4; i++)
        close(pipes[i / 2][i % 2]);
}

static bool five(void *user)
{
    return ((scene_t *)user)->count == 5;
}

static void
timers_expire_in_the_order_of_their_deadlines_and_cancelled_ones_do_not(void **state)
{
    static const int delay[6] = {3, 1, 2, 1, 5, 0};
    static const int expected[5] = {5, 1, 3, 2, 0};
    scene_t *s = *state;
    mark_t marks[6];
    uint64_t now = crti_now_ns();

    for (int i = 0; i < 6; i++) {
        marks[i] = (mark_t){s, i};
        s->timer[i] = (crti_timer_t){.on_expired = note, .user = &marks[i]};
        assert_int_equal(
            crti_loop_start(s->loop, &s->timer[i], now + (uint64_t)delay[i] * CRTI_MS),
            CRT_OK);
    }
    crti_loop_cancel(s->loop, &s->timer[4]);
    crti_loop_cancel(s->loop, &s->timer[4]);
    assert_int_equal(loop_until(s->loop, five, s, now + 10 * CRTI_S), CRT_OK);
    assert_memory_equal(s->order, expected, sizeof(expected));
    assert_true(crti_now_ns() >= now + 3 * CRTI_MS);
    assert_int_equal(loop_until(s->loop, five, s, 0), CRT_OK);
    s->count = 0;
    assert_int_equal(loop_until(s->loop, five, s, now + 4 * CRTI_MS), CRT_ERR_TIMED_OUT);
}

static void a_thousand_timers_started_moved_and_cancelled_keep_their_order(void **state)
{
    enum { COUNT = 1000 };
    scene_t *s = *state;
    crti_timer_t *timers = calloc(COUNT, sizeof(*timers));
    uint64_t base = crti_now_ns(), last = 0;
    unsigned random = 7;

    for (int round = 0; round < 3; round++)
        for (int i = 0; i < COUNT; i++) {
            random = random * 1103515245 + 12345;
            if (round == 2 && random % 3 == 0)
                crti_loop_cancel(s->loop, &timers[i]);
            else
                assert_int_equal(
                    crti_loop_start(s->loop, &timers[i], base + random % 1000), CRT_OK);
        }
    for (int i = 0; i < COUNT; i++)
        if (timers[i].deadline.place)
            assert_true(timers[i].deadline.place <= COUNT);
    /* Taking the smallest again and again: read through the public order of expiry. */
    for (;;) {
        crti_timer_t *first = NULL;

        for (int i = 0; i < COUNT; i++)
            if (timers[i].deadline.place == 1)
                first = &timers[i];
        if (first == NULL)
            break;
        assert_true(first->deadline.at >= last);
        last = first->deadline.at;
        crti_loop_cancel(s->loop, first);
    }
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(timers[i].deadline.place, 0);
    free(timers);
}

static void restart(void *user)
{
    scene_t *s = user;

    s->count++;
    crti_loop_start(s->loop, &s->timer[0], 0);
}

static void on_pipe_done(void *user, uint32_t events)
{
    ((scene_t *)user)->done = true;
}

static void a_timer_that_starts_itself_at_once_does_not_starve_descriptors(void **state)
{
    scene_t *s = *state;
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    s->timer[0] = (crti_timer_t){.on_expired = restart, .user = s};
    s->a = (crti_watch_t){.on_ready = on_pipe_done, .user = s};
    crti_loop_start(s->loop, &s->timer[0], 0);
    crti_loop_add(s->loop, &s->a, fds[0], EPOLLIN);
    assert_int_equal(crti_loop_turn(s->loop, 0), CRT_OK);
    assert_int_equal(s->count, 1);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(crti_loop_turn(s->loop, 0), CRT_OK);
    assert_true(s->done);
    assert_int_equal(s->count, 2);
    crti_loop_remove(s->loop, &s->a);
    close(fds[0]);
    close(fds[1]);
}

static void on_signal(void *user, int number)
{
    scene_t *s = user;

    s->order[s->count++] = number;
    if (s->count == 2)
        crti_loop_stop(s->loop);
}

static void signals_arrive_in_the_loop_and_the_mask_is_restored(void **state)
{
    scene_t *s = *state;
    sigset_t mask;

    assert_int_equal(crti_loop_signal(s->loop, SIGUSR1, on_signal, s), CRT_OK);
    assert_int_equal(crti_loop_signal(s->loop, SIGUSR2, on_signal, s), CRT_OK);
    assert_int_equal(crti_loop_signal(s->loop, 0, on_signal, s), CRT_ERR_INVALID);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    assert_int_equal(crti_loop_run(s->loop), CRT_OK);
    assert_int_equal(s->order[0], SIGUSR1);
    assert_int_equal(s->order[1], SIGUSR2);
    crti_loop_free(s->loop);
    s->loop = NULL;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    assert_false(sigismember(&mask, SIGUSR1));
}

enum { POSTS = 2000 };

typedef struct post_scene {
    crti_loop_t *loop;
    mark_t *marks;
    int next[2]; /* next number expected of each thread */
    int total;
} post_scene_t;

typedef struct post {
    post_scene_t *scene;
    int thread, number;
} post_t;

static void posted(void *user)
{
    post_t *post = user;
    post_scene_t *s = post->scene;

    assert_int_equal(post->number, s->next[post->thread]++);
    if (++s->total == 2 * POSTS)
        crti_loop_stop(s->loop);
    free(post);
}

static void *poster(void *user)
{
    post_t *first = user;

    for (int i = 0; i < POSTS; i++) {
        post_t *post = malloc(sizeof(*post));

        *post = (post_t){first->scene, first->thread, i};
        if (crti_loop_post(first->scene->loop, posted, post) != CRT_OK)
            abort();
    }
    return NULL;
}

static void posted_work_of_two_threads_runs_once_and_in_order(void **state)
{
    scene_t *s = *state;
    post_scene_t scene = {.loop = s->loop};
    post_t start[2] = {{&scene, 0, 0}, {&scene, 1, 0}};
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, poster, &start[i]), 0);
    assert_int_equal(crti_loop_run(s->loop), CRT_OK);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(scene.total, 2 * POSTS);
}

static void posted_work_that_never_ran_is_dropped_with_the_loop(void **state)
{
    scene_t *s = *state;
    mark_t mark = {s, 1};

    assert_int_equal(crti_loop_post(s->loop, note, &mark), CRT_OK);
    crti_loop_free(s->loop);
    s->loop = NULL;
    assert_int_equal(s->count, 0);
}

static void a_descriptor_that_cannot_be_watched_is_an_error_with_its_number(void **state)
{
    scene_t *s = *state;

    assert_int_equal(crti_loop_add(s->loop, &s->a, -1, EPOLLIN), CRT_ERR_IO);
    assert_non_null(strstr(crt_error_detail(), "-1"));
    assert_false(s->a.added);
    crti_loop_remove(s->loop, &s->a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_watch_removed_inside_a_callback_is_not_called_any_more),
        TEST(timers_expire_in_the_order_of_their_deadlines_and_cancelled_ones_do_not),
        TEST(a_thousand_timers_started_moved_and_cancelled_keep_their_order),
        TEST(a_timer_that_starts_itself_at_once_does_not_starve_descriptors),
        TEST(signals_arrive_in_the_loop_and_the_mask_is_restored),
        TEST(posted_work_of_two_threads_runs_once_and_in_order),
        TEST(posted_work_that_never_ran_is_dropped_with_the_loop),
        TEST(a_descriptor_that_cannot_be_watched_is_an_error_with_its_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
