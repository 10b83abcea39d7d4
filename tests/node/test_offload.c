/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/node/host/offload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/node/host/offload_thread.h"
#include "tests/net/loop_until.h"

#include <cmocka.h>

#define DEADLINE (20 * CRTI_S)

typedef struct item {
    crti_offloaded_t offloaded;
    char text[2][200]; /* what its pipes had */
    int ends;
    int write_fds[2];
    pid_t pid;
} item_t;

typedef struct scene {
    crti_loop_t *loop;
    crti_offload_t *offload;
} scene_t;

static void on_bytes(void *user, unsigned which, const char *data, size_t size)
{
    item_t *item = user;
    size_t used = strlen(item->text[which]);

    assert_true(which < 2 && used + size < sizeof(item->text[0]));
    memcpy(item->text[which] + used, data, size);
}

static void on_end(void *user, bool lost)
{
    item_t *item = user;

    assert_false(lost);
    item->ends++;
}

static void open_offload(scene_t *s, size_t files)
{
    assert_int_equal(crti_loop_new(&s->loop), CRT_OK);
    assert_int_equal(crti_offload_new(s->loop, files, &s->offload), CRT_OK);
}

static void close_offload(scene_t *s)
{
    crti_offload_free(s->offload);
    crti_loop_free(s->loop);
}

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;

    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* A process that ends by a signal only, and two pipes that are offloaded with its pidfd. */
static void offload_item(scene_t *s, item_t *item)
{
    int fds[CRTI_OFFLOAD_FILES], pair[2];
    pid_t parent = getpid();

    *item = (item_t){.pid = fork()};
    if (item->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            pause();
        _exit(0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe2(pair, O_CLOEXEC | O_NONBLOCK), 0);
        fds[i] = pair[0];
        item->write_fds[i] = pair[1];
    }
    fds[2] = (int)syscall(SYS_pidfd_open, item->pid, 0);
    assert_true(fds[2] >= 0);
    item->offloaded.on_bytes = on_bytes;
    item->offloaded.on_end = on_end;
    item->offloaded.user = item;
    assert_int_equal(crti_offload_put(s->offload, &item->offloaded, fds), CRT_OK);
    for (int i = 0; i < CRTI_OFFLOAD_FILES; i++)
        assert_int_equal(fds[i], -1);
}

static void end_item(item_t *item)
{
    crti_offload_take_out(&item->offloaded);
    for (int i = 0; i < 2; i++)
        close(item->write_fds[i]);
    kill(item->pid, SIGKILL);
    waitpid(item->pid, NULL, 0);
}

static bool has_ended(void *user)
{
    return ((item_t *)user)->ends > 0;
}

static bool has_both(void *user)
{
    const item_t *item = user;

    return item->text[0][0] && item->text[1][0];
}

static void bytes_of_both_pipes_arrive_and_so_does_the_end(void **state)
{
    scene_t s;
    item_t item;

    open_offload(&s, 1000);
    offload_item(&s, &item);
    assert_int_equal(write(item.write_fds[0], "out", 3), 3);
    assert_int_equal(write(item.write_fds[1], "err", 3), 3);
    assert_int_equal(loop_until(s.loop, has_both, &item, crti_now_ns() + DEADLINE),
                     CRT_OK);
    assert_string_equal(item.text[0], "out");
    assert_string_equal(item.text[1], "err");
    assert_int_equal(item.ends, 0);
    kill(item.pid, SIGKILL);
    assert_int_equal(loop_until(s.loop, has_ended, &item, crti_now_ns() + DEADLINE),
                     CRT_OK);
    assert_int_equal(item.ends, 1);
    end_item(&item);
    close_offload(&s);
}

static void what_a_pipe_holds_is_told_before_it_is_closed(void **state)
{
    scene_t s;
    item_t item;

    open_offload(&s, 1000);
    offload_item(&s, &item);
    assert_int_equal(write(item.write_fds[1], "last words", 10), 10);
    crti_offload_take_out(&item.offloaded); /* the loop has not turned */
    assert_string_equal(item.text[1], "last words");
    end_item(&item);
    close_offload(&s);
}

static void a_pipe_that_all_writers_closed_is_not_looked_at_again(void **state)
{
    scene_t s;
    item_t item;

    open_offload(&s, 1000);
    offload_item(&s, &item);
    for (int i = 0; i < 2; i++) {
        close(item.write_fds[i]);
        item.write_fds[i] = -1;
    }
    kill(item.pid, SIGKILL);
    assert_int_equal(loop_until(s.loop, has_ended, &item, crti_now_ns() + DEADLINE),
                     CRT_OK);
    end_item(&item);
    close_offload(&s);
}

static void a_parked_process_is_killed_by_its_pidfd(void **state)
{
    scene_t s;
    item_t item;

    open_offload(&s, 1000);
    offload_item(&s, &item);
    crti_offload_kill(&item.offloaded);
    assert_int_equal(loop_until(s.loop, has_ended, &item, crti_now_ns() + DEADLINE),
                     CRT_OK);
    end_item(&item);
    close_offload(&s);
}

static void descriptors_are_in_tables_of_their_own_as_many_as_it_takes(void **state)
{
    enum { ITEMS = 50 };
    static item_t items[ITEMS];
    int files = count_entries("/proc/self/fd"),
        threads = count_entries("/proc/self/task");
    scene_t s;

    open_offload(&s, 160); /* 32 items in each */
    for (int i = 0; i < ITEMS; i++)
        offload_item(&s, &items[i]);
    /* Two more; one that was joined may have been counted before. */
    assert_in_range(count_entries("/proc/self/task"), threads + 1, threads + 2);
    /* The ends that the test writes to, and a little of loop and offload. */
    assert_in_range(count_entries("/proc/self/fd"), files, files + 2 * ITEMS + 10);
    for (int i = 0; i < ITEMS; i++) {
        assert_int_equal(write(items[i].write_fds[0], "x", 1), 1);
        end_item(&items[i]);
        assert_string_equal(items[i].text[0], "x");
    }
    close_offload(&s);
    assert_int_equal(count_entries("/proc/self/fd"), files);
}

static void one_that_is_taken_out_among_many_that_talk_hears_nothing_more(void **state)
{
    enum { ITEMS = 20 };
    static item_t items[ITEMS];
    scene_t s;

    open_offload(&s, 1000);
    for (int i = 0; i < ITEMS; i++) {
        offload_item(&s, &items[i]);
        kill(items[i].pid, SIGKILL);
    }
    /* Ends that were heard while the first was taken out are told later, its own is not. */
    crti_offload_take_out(&items[0].offloaded);
    for (int i = 1; i < ITEMS; i++)
        assert_int_equal(
            loop_until(s.loop, has_ended, &items[i], crti_now_ns() + DEADLINE), CRT_OK);
    assert_int_equal(items[0].ends, 0);
    for (int i = 0; i < ITEMS; i++)
        end_item(&items[i]);
    close_offload(&s);
}

/* As a child of the daemon has it that has not executed its program yet. */
static void a_pipe_that_somebody_else_has_open_too_is_forgotten(void **state)
{
    int fds[CRTI_OFFLOAD_FILES] = {-1, -1, -1}, pair[2], other;
    item_t first = {.text = {""}}, item;
    scene_t s;

    open_offload(&s, 1000);
    assert_int_equal(pipe2(pair, O_CLOEXEC | O_NONBLOCK), 0);
    other = dup(pair[0]);
    fds[0] = pair[0];
    first.offloaded =
        (crti_offloaded_t){.on_bytes = on_bytes, .on_end = on_end, .user = &first};
    assert_int_equal(crti_offload_put(s.offload, &first.offloaded, fds), CRT_OK);
    crti_offload_take_out(&first.offloaded);
    assert_int_equal(write(pair[1], "x", 1), 1); /* nobody listens any more */
    offload_item(&s, &item);
    crti_offload_kill(&item.offloaded);
    assert_int_equal(loop_until(s.loop, has_ended, &item, crti_now_ns() + DEADLINE),
                     CRT_OK);
    assert_string_equal(first.text[0], "");
    end_item(&item);
    close(other);
    close(pair[1]);
    close_offload(&s);
}

/* As many as this user may have, in a message that nobody takes. */
static bool fill_the_ways_of_this_user(void)
{
    struct rlimit few = {200, 200};
    int ends[2], fds[CRTI_OFFLOAD_FILES] = {0, 0, 0};
    crti_offload_thread_order_t order = {.places = 0};

    if ((geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) ||
        setrlimit(RLIMIT_NOFILE, &few) != 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    while (
        crti_offload_thread_send(ends[0], &order, fds, CRTI_OFFLOAD_FILES, MSG_DONTWAIT))
        continue;
    return errno == ETOOMANYREFS;
}

static bool is_refused(void)
{
    int fds[CRTI_OFFLOAD_FILES] = {-1, -1, -1};
    crti_offloaded_t offloaded = {.on_bytes = on_bytes, .on_end = on_end};
    bool is_ok;
    scene_t s;

    open_offload(&s, 1000);
    fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    is_ok = crti_offload_put(s.offload, &offloaded, fds) == CRT_ERR_BACKPRESSURE &&
            fds[0] >= 0;
    crti_offload_take_out(&offloaded);
    close(fds[0]);
    close_offload(&s);
    return is_ok;
}

/* The worker would not be watched, and its end never told. */
static void what_can_not_be_handed_over_stays_with_the_daemon(void **state)
{
    pid_t pid = fork();
    int status = 0;

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(fill_the_ways_of_this_user() && is_refused() ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_both_pipes_arrive_and_so_does_the_end),
        cmocka_unit_test(what_a_pipe_holds_is_told_before_it_is_closed),
        cmocka_unit_test(a_pipe_that_all_writers_closed_is_not_looked_at_again),
        cmocka_unit_test(a_parked_process_is_killed_by_its_pidfd),
        cmocka_unit_test(descriptors_are_in_tables_of_their_own_as_many_as_it_takes),
        cmocka_unit_test(one_that_is_taken_out_among_many_that_talk_hears_nothing_more),
        cmocka_unit_test(a_pipe_that_somebody_else_has_open_too_is_forgotten),
        cmocka_unit_test(what_can_not_be_handed_over_stays_with_the_daemon),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
