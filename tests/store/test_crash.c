/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that die or stop in the middle, and those who wait for them. Single steps are in
 * test_steps.c. */
#include "tests/store/store_test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STORE_BYTES (8 * MIB)
#define SMALL       100u
#define CHILD_SLOT  3u

static crti_object_id_t mine(uint64_t number)
{
    return object(1, number);
}

static void end_child(pid_t child)
{
    int status;

    kill(child, SIGKILL);
    do
        assert_int_equal(waitpid(child, &status, 0), child);
    while (WIFSTOPPED(status));
}

/* ---------------------------------------------------------------- holders of a lock */

static void a_process_stopped_with_a_lock_is_named_and_its_kill_opens_it(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(STORE_BYTES);
    unsigned slot = 0;
    int status;
    pid_t child;

    daemon->patience_ns = 60 * CRTI_MS;
    assert_ok(put(daemon, mine(1), SMALL, true));
    assert_int_equal(crti_store_stalled(daemon, &slot), 0);
    child = fork();
    if (child == 0) {
        crti_store_t *store;
        crti_found_t found;

        if (crti_store_attach(crti_store_fd(daemon), CHILD_SLOT, mine(1).owner, &store))
            _exit(1);
        crti_tx_begin(store);
        if (crti_table_find(store, mine(1), &found) != CRT_OK)
            _exit(1);
        (void)crti_table_move(store, &found, CRTI_ENTRY_SEALED, 0, 77);
        for (;;)
            raise(SIGSTOP);
    }
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    assert_false(crti_store_contains(daemon, mine(1)));
    assert_int_equal(put(daemon, mine(1), 1, true), CRT_ERR_TIMED_OUT);
    assert_non_null(strstr(crt_error_detail(), "slot 3"));
    crti_store_free(daemon, mine(1)); /* put off */
    assert_int_equal(atomic_load(&daemon->later_count), 1);
    for (unsigned looks = 1; looks < 4; looks++) {
        assert_int_equal(crti_store_stalled(daemon, &slot), looks);
        assert_int_equal(slot, CHILD_SLOT);
    }
    end_child(child);
    assert_ok(crti_store_reclaim(daemon, slot));
    while (atomic_load(&daemon->later_count) > 0)
        crti_store_catch_up(daemon);
    assert_false(crti_store_contains(daemon, mine(1)));
    assert_int_equal(crti_store_stalled(daemon, &slot), 0);
    assert_ok(crti_store_check(daemon));
}

static void a_reclaim_that_has_to_wait_is_finished_later(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(STORE_BYTES);
    CRTI_AUTO(crti_store_detach) crti_store_t *stopped = join(daemon, 1);
    crti_store_t *dead = join(daemon, 2), *other = NULL;
    crti_store_view_t view;
    crti_found_t found;

    daemon->patience_ns = 5 * CRTI_MS;
    assert_ok(put(daemon, mine(1), SMALL, true));
    assert_ok(crti_store_get(dead, mine(1), &view));
    crti_tx_begin(stopped);
    assert_ok(crti_table_find(stopped, mine(1), &found));
    assert_int_equal(crti_store_reclaim(daemon, 2), CRT_ERR_TIMED_OUT);
    assert_false(crti_store_slot_is_free(daemon, 2));
    assert_int_equal(crti_store_attach(crti_store_fd(daemon), 2, mine(1).owner, &other),
                     CRT_ERR_EXISTS);
    assert_ok(crti_tx_end(stopped, CRT_OK));
    while (atomic_load(&daemon->later_count) > 0)
        crti_store_catch_up(daemon);
    assert_true(crti_store_slot_is_free(daemon, 2));
    assert_ok(crti_store_check(daemon));
    crti_store_detach(dead); /* its mappings only: nothing is left to give back */
    assert_ok(crti_store_check(daemon));
}

/* ---------------------------------------------------------------- kill -9 at random */

static unsigned next_random(unsigned *random)
{
    *random = *random * 1103515245u + 12345u;
    return *random >> 16 & 0x7fff;
}

/* Makes, reads and frees objects of its own and of the others until it is killed. */
static void busy_child(const crti_store_t *daemon, unsigned slot, unsigned random)
{
    crti_store_view_t views[16] = {{0}};
    crti_store_t *store;
    void *data;

    if (crti_store_attach(crti_store_fd(daemon), slot, (crti_id_t){slot, ~(uint64_t)slot},
                          &store))
        _exit(1);
    for (uint64_t n = 1;; n++) {
        crti_object_id_t id =
            object(1 + next_random(&random) % 4, next_random(&random) % 64);
        crti_store_view_t *view = &views[n % 16];
        size_t size = (size_t)1 << next_random(&random) % 20;

        switch (next_random(&random) % 4) {
        case 0:
            if (crti_store_create(store, id, size, &data) == CRT_OK) {
                fill(data, id, size < 100 ? size : 100);
                if (next_random(&random) % 8 == 0)
                    crti_store_abort(store, id);
                else
                    (void)crti_store_seal(store, id, n % 2);
            }
            break;
        case 1: crti_store_free(store, id); break;
        default:
            crti_store_release(store, view);
            if (crti_store_get(store, id, view) == CRT_OK) {
                size_t look = view->size < 100 ? view->size : 100;

                if (first_wrong(view->data, id, look) != look)
                    _exit(4);
            }
        }
    }
}

static void random_kills_lose_no_byte(void **state)
{
    enum { CHILDREN = 4, ROUNDS = 40 };
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(STORE_BYTES);
    unsigned random = 4711;
    uint64_t objects = 0;

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct crti_store_stats stats;
        pid_t children[CHILDREN];

        for (unsigned i = 0; i < CHILDREN; i++) {
            children[i] = fork();
            if (children[i] == 0)
                busy_child(daemon, i + 1, round * CHILDREN + i);
        }
        for (unsigned i = 0; i < CHILDREN; i++) {
            struct timespec t = {0, 1000L * next_random(&random)};
            int status;

            nanosleep(&t, NULL); /* the random moment of death */
            kill(children[i], SIGKILL);
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
            assert_ok(crti_store_reclaim(daemon, i + 1)); /* beside the living */
        }
        assert_ok(crti_store_check(daemon));
        crti_store_stats(daemon, &stats);
        assert_int_equal(stats.pins, 0);
        assert_int_equal(stats.unsealed, 0);
        objects += stats.objects;
        for (uint64_t owner = 1; owner <= 4; owner++)
            crti_store_drop_owner(daemon, object(owner, 0).owner);
        assert_ok(crti_store_check(daemon));
        assert_int_equal(used_bytes(daemon), 0);
    }
    assert_true(objects > ROUNDS); /* they did something */
}

/* ---------------------------------------------------------------- waiting for space */

static void a_waiting_creator_is_woken_by_a_free(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(STORE_BYTES);
    CRTI_AUTO(crti_store_detach) crti_store_t *a = join(daemon, 1);
    int status;
    pid_t child;

    assert_ok(put(a, mine(1), 5 * MIB, true));
    child = fork();
    if (child == 0) {
        uint64_t start = crti_now_ns();
        crti_store_t *store;
        void *data;

        if (crti_store_attach(crti_store_fd(daemon), CHILD_SLOT, mine(1).owner, &store) ||
            crti_store_create(store, mine(2), 6 * MIB, &data) != CRT_ERR_STORE_FULL ||
            crti_store_wait_space(store, 6 * MIB, start + 20 * CRTI_S) != CRT_OK ||
            crti_store_create(store, mine(2), 6 * MIB, &data) != CRT_OK ||
            crti_store_seal(store, mine(2), true) != CRT_OK ||
            crti_now_ns() - start > 15 * CRTI_S)
            _exit(1);
        _exit(0);
    }
    while (atomic_load(&daemon->header->space_wanted) == 0)
        sched_yield();
    crti_store_free(a, mine(1));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ok(crti_store_reclaim(daemon, CHILD_SLOT));
    assert_true(crti_store_contains(daemon, mine(2))); /* outlives its maker */
    assert_ok(crti_store_check(daemon));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_stopped_with_a_lock_is_named_and_its_kill_opens_it),
        cmocka_unit_test(a_reclaim_that_has_to_wait_is_finished_later),
        cmocka_unit_test(random_kills_lose_no_byte),
        cmocka_unit_test(a_waiting_creator_is_woken_by_a_free),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
