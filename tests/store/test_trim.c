/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that nobody needs goes back to the system, and nobody notices. */
#include "tests/store/store_test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STORE_BYTES (256 * MIB)
#define RESERVE     (STORE_BYTES / 4 + 10 * MIB) /* at both ends, and 2 MiB of records */

static size_t memory_of(const crti_store_t *store)
{
    struct stat file;

    assert_int_equal(fstat(crti_store_fd(store), &file), 0);
    return (size_t)file.st_blocks * 512;
}

/* A daemon whose threads do nothing by themselves; what they do is done here. */
static crti_store_t *quiet_store(bool huge)
{
    crti_store_t *store = NULL;

    assert_ok(crti_store_new_on(STORE_BYTES, 8, huge, &store));
    crti_store_stop_threads(store);
    return store;
}

/* Until nothing more goes. */
static uint64_t trim_all(crti_store_t *store, crti_trim_t *trim)
{
    uint64_t gone = 0, more;

    for (int i = 0; i < 2; i++) /* what was in use before is needed no more */
        gone += crti_trim_step(store, trim);
    while ((more = crti_trim_step(store, trim)))
        gone += more;
    return gone;
}

static void what_nobody_needs_goes_back_in_steps(void **state)
{
    for (int huge = 0; huge < 2; huge++) {
        CRTI_AUTO(crti_store_detach) crti_store_t *daemon = quiet_store(huge);
        size_t before, after;
        crti_trim_t trim = {{0}};
        unsigned steps = 0;

        for (uint64_t i = 1; i <= 20; i++)
            assert_ok(put(daemon, object(1, i), 10 * MIB, true));
        before = memory_of(daemon);
        for (uint64_t i = 1; i <= 20; i++)
            crti_store_free(daemon, object(1, i));
        /* Both intervals needed it. */
        assert_int_equal(crti_trim_step(daemon, &trim), 0);
        assert_int_equal(crti_trim_step(daemon, &trim), 0);
        assert_int_equal(memory_of(daemon), before);
        for (; crti_trim_step(daemon, &trim) > 0; before = after, steps++) {
            after = memory_of(daemon);
            assert_true(after < before);
            assert_ok(crti_store_check(daemon));
        }
        assert_in_range(steps, 2, 10);
        assert_in_range(memory_of(daemon), RESERVE / 2, RESERVE + 8 * MIB);
        assert_true(used_bytes(daemon) < 100000); /* slabs of entries */
        for (uint64_t i = 1; i <= 20; i++)
            assert_ok(put(daemon, object(1, i), 10 * MIB, true));
        for (uint64_t i = 1; i <= 20; i++) {
            crti_store_view_t view;

            assert_ok(crti_store_get(daemon, object(1, i), &view));
            assert_int_equal(first_wrong(view.data, object(1, i), 10 * MIB), 10 * MIB);
            crti_store_release(daemon, &view);
        }
    }
}

static void what_was_needed_within_two_intervals_stays(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = quiet_store(false);
    crti_trim_t trim = {{0}};
    size_t before = 0;

    for (int i = 0; i < 6; i++) { /* comes and goes each second interval */
        if (i % 2 == 0) {
            assert_ok(put(daemon, object(1, 1), 150 * MIB, true));
            crti_store_free(daemon, object(1, 1));
            before = memory_of(daemon);
        }
        crti_trim_step(daemon, &trim);
        assert_int_equal(memory_of(daemon), before);
    }
}

static void objects_between_the_holes_keep_their_bytes(void **state)
{
    for (int huge = 0; huge < 2; huge++) {
        CRTI_AUTO(crti_store_detach) crti_store_t *daemon = quiet_store(huge);
        CRTI_AUTO(crti_store_detach) crti_store_t *a = join(daemon, 1);
        const size_t size = 3 * MIB + 454321;
        crti_trim_t trim = {{0}};
        size_t before;

        for (uint64_t i = 1; i <= 60; i++) {
            assert_ok(put(a, object(1, i), size, true));
            assert_ok(put(a, object(2, i), 100, true));
        }
        for (uint64_t i = 1; i <= 60; i++)
            if (i % 15 != 0)
                crti_store_free(a, object(1, i));
        before = memory_of(daemon);
        assert_true(trim_all(daemon, &trim) > 50 * MIB);
        assert_true(memory_of(daemon) < before - 50 * MIB);
        assert_ok(crti_store_check(daemon));
        for (uint64_t i = 1; i <= 60; i++) {
            crti_store_view_t view;

            assert_ok(crti_store_get(a, object(2, i), &view));
            assert_int_equal(first_wrong(view.data, object(2, i), 100), 100);
            crti_store_release(a, &view);
            if (i % 15 != 0)
                continue;
            assert_ok(crti_store_get(a, object(1, i), &view));
            assert_int_equal(first_wrong(view.data, object(1, i), size), size);
            crti_store_release(a, &view);
        }
    }
}

/* A host that has none must say so then, and not by a signal at the first write. */
static void who_had_it_mapped_gets_its_memory_before_it_writes(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = quiet_store(false);
    CRTI_AUTO(crti_store_detach) crti_store_t *a = join(daemon, 1);
    crti_trim_t trim = {{0}};
    size_t before;
    void *data;

    assert_ok(put(a, object(1, 1), 200 * MIB, true));
    crti_store_free(a, object(1, 1));
    trim_all(daemon, &trim);
    before = memory_of(daemon);
    assert_true(before < 100 * MIB);
    assert_ok(crti_store_create(a, object(1, 2), 200 * MIB, &data));
    assert_true(memory_of(daemon) >= 200 * MIB);
    crti_store_abort(a, object(1, 2));
}

static void what_was_given_back_is_made_ready_again_ahead_of_use(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = NULL;
    crti_trim_t trim = {{0}};
    uint64_t deadline = crti_now_ns() + 20 * CRTI_S;
    size_t cold;
    void *data;

    assert_ok(crti_store_new_on(STORE_BYTES, 8, false, &daemon));
    assert_ok(put(daemon, object(1, 1), 150 * MIB, true));
    crti_store_free(daemon, object(1, 1));
    trim_all(daemon, &trim);
    cold = memory_of(daemon);
    assert_true(cold < RESERVE + 16 * MIB);
    assert_ok(crti_store_create(daemon, object(1, 2), 50 * MIB, &data));
    while (memory_of(daemon) < 100 * MIB) { /* as much again as is used */
        assert_true(crti_now_ns() < deadline);
        usleep(1000);
    }
    crti_store_abort(daemon, object(1, 2));
}

/* An object on disk has its record here, on pages of their own. */
static void records_take_no_more_memory_than_the_store_may_have(void **state)
{
    enum { COUNT = 300000, BYTES = 32 * MIB };

    for (int huge = 0; huge < 2; huge++) {
        CRTI_AUTO(crti_store_detach) crti_store_t *daemon = NULL;
        size_t most = BYTES + BYTES / 4 + 4 * MIB; /* with the reserve, and tables */
        void *data;

        assert_ok(crti_store_new_on(BYTES, 8, huge, &daemon));
        crti_store_stop_threads(daemon);
        assert_ok(put(daemon, object(1, 1), 31 * MIB, true));
        crti_store_free(daemon, object(1, 1));
        for (uint64_t i = 1; i <= COUNT; i++) {
            crti_store_view_t view;

            assert_ok(crti_store_create(daemon, object(2, i), 1000, &data));
            assert_ok(crti_store_seal(daemon, object(2, i), true));
            assert_ok(crti_store_get(daemon, object(2, i), &view));
            assert_true(crti_store_saved(daemon, &view));
        }
        assert_true(memory_of(daemon) > most);
        assert_true(crti_trim_excess(daemon) > 0);
        assert_true(memory_of(daemon) < most);
        assert_ok(crti_store_check(daemon));
        assert_int_equal(crti_trim_excess(daemon), 0);
    }
}

/* A run may be longer than all that may still be used, as records are taken off that. */
static void what_is_given_back_just_now_makes_no_store_larger(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = quiet_store(false);
    crti_free_run_t run;
    size_t count = 0, used;
    uint32_t floor;
    uint64_t i = 0;
    void *data;

    while (used_bytes(daemon) < 100 * MIB) /* half of it are records */
        for (unsigned n = 0; n < 10000; n++) {
            assert_ok(crti_store_create(daemon, object(1, ++i), 0, &data));
            assert_ok(crti_store_seal(daemon, object(1, i), true));
        }
    while (put(daemon, object(2, ++i), MIB, true) == CRT_OK)
        ;
    used = used_bytes(daemon);
    crti_tx_begin(daemon);
    assert_ok(crti_heap_survey(daemon, 512, &run, 1, &count, &floor));
    assert_ok(crti_heap_cool(daemon, run.page, run.page, run.length / 2));
    assert_ok(crti_tx_end(daemon, CRT_OK));
    assert_int_equal(used_bytes(daemon), used);
    assert_ok(crti_store_check(daemon));
    crti_tx_begin(daemon);
    assert_int_equal(crti_heap_alloc(daemon, 600, CRTI_PAGE_OBJECT, 0, 0, false, &floor),
                     CRT_ERR_STORE_FULL);
    (void)crti_tx_end(daemon, CRT_ERR_STORE_FULL);
    crti_tx_begin(daemon);
    assert_ok(crti_tx_end(daemon, crti_heap_free(daemon, run.page)));
    assert_ok(crti_store_check(daemon));
}

static void give_up(void)
{
    fprintf(stderr, "%s\n", crt_error_detail());
    _exit(1);
}

/* A full store asks for the pages that the daemon has just then. */
static void pages_that_are_given_back_just_now_do_not_make_the_store_full(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = quiet_store(false);
    const size_t most = 250 * MIB;
    crti_trim_t trim = {{0}};
    void *data;
    int status;
    pid_t pid;

    assert_ok(crti_store_create(daemon, object(1, 1), most, &data));
    crti_store_abort(daemon, object(1, 1));
    pid = fork();
    if (pid == 0) {
        crti_store_t *a = join(daemon, 1);
        uint64_t end = crti_now_ns() + 500 * CRTI_MS;

        while (crti_now_ns() < end) {
            if (crti_store_create(a, object(1, 1), most, &data) != CRT_OK)
                give_up();
            crti_store_abort(a, object(1, 1));
        }
        _exit(0);
    }
    while (waitpid(pid, &status, WNOHANG) == 0)
        crti_trim_step(daemon, &trim);
    assert_int_equal(status, 0);
    assert_ok(crti_store_check(daemon));
}

/* Objects of all sizes, few at a time, then none: each is what it was made. */
static void work(crti_store_t *store, unsigned owner)
{
    unsigned seed = owner;
    uint64_t end = crti_now_ns() + 2 * CRTI_S, number = 0;

    while (crti_now_ns() < end) {
        uint64_t first = number + 1;
        size_t sizes[6];

        for (unsigned i = 0; i < 6; i++) {
            sizes[i] = (size_t)rand_r(&seed) % (i % 2 ? 5 * MIB : 200000) + 1;
            if (put(store, object(owner, ++number), sizes[i], true) != CRT_OK)
                give_up();
        }
        for (unsigned i = 0; i < 6; i++) {
            crti_object_id_t id = object(owner, first + i);
            crti_store_view_t view;

            if (crti_store_get(store, id, &view) != CRT_OK ||
                first_wrong(view.data, id, sizes[i]) != sizes[i])
                _exit(2);
            crti_store_release(store, &view);
            crti_store_free(store, id);
        }
    }
    _exit(0);
}

static void who_puts_while_memory_goes_back_finds_its_own_bytes(void **state)
{
    for (int huge = 0; huge < 2; huge++) {
        CRTI_AUTO(crti_store_detach) crti_store_t *daemon = quiet_store(huge);
        crti_trim_t trim = {{0}};
        uint64_t gone = 0, end;
        pid_t pids[3];

        assert_ok(put(daemon, object(1, 1), 200 * MIB, true));
        for (unsigned i = 0; i < 3; i++) {
            pids[i] = fork();
            if (pids[i] == 0)
                work(join(daemon, i + 1), i + 2);
        }
        crti_store_free(daemon, object(1, 1));
        end = crti_now_ns() + 2 * CRTI_S;
        while (crti_now_ns() < end) /* what was needed a moment ago goes, too */
            gone += crti_trim_step(daemon, &trim);
        for (unsigned i = 0; i < 3; i++) {
            int status;

            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            assert_int_equal(status, 0);
            assert_ok(crti_store_reclaim(daemon, i + 1));
        }
        assert_true(gone > 100 * MIB);
        assert_ok(crti_store_check(daemon));
        assert_true(used_bytes(daemon) < 100000); /* slabs of entries */
    }
}

static void who_is_killed_while_memory_goes_back_costs_nobody_anything(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = quiet_store(false);
    crti_trim_t trim = {{0}};

    daemon->patience_ns = 5 * CRTI_MS;
    assert_ok(put(daemon, object(1, 1), MIB, true));
    for (unsigned round = 0; round < 20; round++) {
        uint64_t end = crti_now_ns() + (10 + round) * CRTI_MS;
        pid_t pids[2];

        for (unsigned i = 0; i < 2; i++) {
            pids[i] = fork();
            if (pids[i] == 0)
                work(join(daemon, i + 1), i + 2);
        }
        while (crti_now_ns() < end)
            crti_trim_step(daemon, &trim);
        for (unsigned i = 0; i < 2; i++) {
            kill(pids[i], SIGKILL);
            assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
        }
        crti_trim_step(daemon, &trim); /* a dead one may hold the heap's lock */
        for (unsigned i = 0; i < 2; i++) {
            crt_status_t status = crti_store_reclaim(daemon, i + 1);

            /* The other one may hold a lock: the rest is done when that is reclaimed. */
            assert_true(status == CRT_OK || (status == CRT_ERR_TIMED_OUT && i == 0));
        }
        end = crti_now_ns() + 10 * CRTI_S;
        while (
            !(crti_store_slot_is_free(daemon, 1) && crti_store_slot_is_free(daemon, 2)) &&
            crti_now_ns() < end)
            crti_store_catch_up(daemon); /* which tries again every 20 ms */
        for (unsigned i = 0; i < 2; i++) {
            crti_store_view_t view;

            assert_true(crti_store_slot_is_free(daemon, i + 1));
            crti_store_drop_owner(daemon, object(i + 2, 0).owner);
            assert_ok(crti_store_get(daemon, object(1, 1), &view));
            assert_int_equal(first_wrong(view.data, object(1, 1), MIB), MIB);
            crti_store_release(daemon, &view);
        }
        assert_ok(crti_store_check(daemon));
        assert_true(used_bytes(daemon) < 2 * MIB);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_needs_goes_back_in_steps),
        cmocka_unit_test(what_was_needed_within_two_intervals_stays),
        cmocka_unit_test(objects_between_the_holes_keep_their_bytes),
        cmocka_unit_test(who_had_it_mapped_gets_its_memory_before_it_writes),
        cmocka_unit_test(what_was_given_back_is_made_ready_again_ahead_of_use),
        cmocka_unit_test(records_take_no_more_memory_than_the_store_may_have),
        cmocka_unit_test(what_is_given_back_just_now_makes_no_store_larger),
        cmocka_unit_test(pages_that_are_given_back_just_now_do_not_make_the_store_full),
        cmocka_unit_test(who_is_killed_while_memory_goes_back_costs_nobody_anything),
        cmocka_unit_test(who_puts_while_memory_goes_back_finds_its_own_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
