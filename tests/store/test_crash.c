/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that die or stop at any instruction.
 *
 * The child runs a script of store operations under single steps. After every instruction (or
 * every k-th, so that the test stays short) its memory is what a kill at that instruction would
 * leave: the parent copies the arena as it is, reclaims the child's slot in the copy and checks
 * every invariant there. Real kills and stops follow at fewer points.
 */
#include "tests/store/store_test.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define STORE_BYTES  (8 * MIB)
#define CHECKS       20000u /* copies checked of the script; attach and detach come on top */
#define KILLS        6u     /* children really killed */
#define STOPS        200u /* places where others work beside the stopped child */
#define SMALL        100u
#define LARGE        20000u
#define CHILD_SLOT   3u
#define SCRIPT_STEPS 17u

/* What the child tells in memory shared with the parent. */
struct progress {
    atomic_uint done; /* steps of the script */
    atomic_uint finished;
};

struct scene {
    bool whole; /* the child is stepped through attach and detach, too */
    crti_store_t *daemon, *neighbour;
    crti_store_view_t pinned;
    struct progress *progress;
};

static crti_object_id_t mine(uint64_t number)
{
    return object(1, number);
}

static crti_object_id_t theirs(uint64_t number)
{
    return object(2, number);
}

/* One step of the child's script. Objects of the neighbour are freed, too: memory that goes back
 * to another process's slabs. */
static crt_status_t script_step(crti_store_t *store, unsigned step,
                                crti_store_view_t views[2])
{
    void *data;

    switch (step) {
    case 0: return crti_store_create(store, mine(1), SMALL, &data);
    case 1: return crti_store_seal(store, mine(1), true);
    case 2: return crti_store_get(store, mine(1), &views[0]);
    case 3: return crti_store_create(store, mine(2), LARGE, &data);
    case 4: crti_store_release(store, &views[0]); return CRT_OK;
    case 5: return crti_store_seal(store, mine(2), false);
    case 6: return crti_store_get(store, mine(2), &views[1]);
    case 7: crti_store_free(store, mine(1)); return CRT_OK;
    case 8: crti_store_free(store, mine(2)); return CRT_OK; /* pinned: doomed */
    case 9: crti_store_release(store, &views[1]); return CRT_OK;
    case 10: return crti_store_create(store, mine(3), LARGE, &data);
    case 11: crti_store_abort(store, mine(3)); return CRT_OK;
    case 12: return crti_store_get(store, theirs(2), &views[0]);
    case 13: crti_store_free(store, theirs(1)); return CRT_OK;
    case 14: crti_store_free(store, theirs(2)); return CRT_OK; /* pinned by two */
    case 15: return crti_store_create(store, mine(4), 3000, &data);
    default: return crti_store_seal(store, mine(4), true);
    }
}

/* The objects that can be got after so many steps, as bits: mine 1 ... 4, theirs 1 and 2. */
static unsigned visible_after(unsigned steps)
{
    unsigned bits = 0x30;

    bits |= steps >= 2 && steps < 8 ? 1 : 0;
    bits |= steps >= 6 && steps < 9 ? 2 : 0;
    bits |= steps >= 17 ? 8 : 0;
    bits &= steps >= 14 ? ~0x10u : ~0u;
    bits &= steps >= 15 ? ~0x20u : ~0u;
    return bits;
}

static unsigned visible(crti_store_t *store)
{
    unsigned bits = 0;

    for (unsigned i = 0; i < 4; i++)
        bits |= crti_store_contains(store, mine(i + 1)) ? 1u << i : 0;
    for (unsigned i = 0; i < 2; i++)
        bits |= crti_store_contains(store, theirs(i + 1)) ? 16u << i : 0;
    return bits;
}

/* From here on the parent steps this process. */
static void be_traced(void)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(1);
    raise(SIGSTOP);
}

static void child_main(const struct scene *scene)
{
    crti_store_view_t views[2] = {{0}};
    crti_store_t *store;

    if (scene->whole)
        be_traced();
    if (crti_store_attach(crti_store_fd(scene->daemon), CHILD_SLOT, (crti_id_t){1, ~1ull},
                          &store) != CRT_OK)
        _exit(2);
    if (!scene->whole)
        be_traced();
    for (unsigned i = 0; i < SCRIPT_STEPS; i++) {
        if (script_step(store, i, views) != CRT_OK)
            _exit(3);
        atomic_store(&scene->progress->done, i + 1);
    }
    if (scene->whole)
        crti_store_detach(store);
    atomic_store(&scene->progress->finished, 1);
    for (;;)
        raise(SIGSTOP);
}

/* A child stopped before its first step. The daemon's mappings don't reach into it. */
static pid_t start_child(const struct scene *scene)
{
    int status;
    pid_t child;

    atomic_store(&scene->progress->done, 0);
    atomic_store(&scene->progress->finished, 0);
    child = fork();
    if (child == 0)
        child_main(scene);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSTOPPED(status));
    return child;
}

static void step_child(pid_t child)
{
    int status;

    assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status))
        fail_msg("the child ended by itself: %x", status);
}

static void end_child(pid_t child)
{
    int status;

    kill(child, SIGKILL);
    do
        assert_int_equal(waitpid(child, &status, 0), child);
    while (WIFSTOPPED(status));
}

/* The neighbour's two objects, the second pinned by the daemon. */
static void set_scene(struct scene *scene)
{
    scene->daemon = new_store(STORE_BYTES);
    crti_prefault_stop(scene->daemon); /* the arena is copied behind its back */
    scene->neighbour = join(scene->daemon, 2);
    scene->progress =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(scene->progress, MAP_FAILED);
    assert_ok(put(scene->neighbour, theirs(1), SMALL, true));
    assert_ok(put(scene->neighbour, theirs(2), LARGE, true));
    assert_ok(crti_store_get(scene->daemon, theirs(2), &scene->pinned));
}

static void strike_scene(struct scene *scene)
{
    crti_store_detach(scene->neighbour);
    crti_store_detach(scene->daemon);
    munmap(scene->progress, 4096);
}

/* The part of the arena that is in use, into another of the same geometry. */
static void copy_arena(crti_store_t *to, const crti_store_t *from)
{
    const crti_heap_t *heap = &from->header->heap;
    const crti_geometry_t *g = &from->geometry;
    uint64_t low = crti_read(&heap->high_water) << CRTI_PAGE_SHIFT;
    uint64_t all = (uint64_t)g->page_count << CRTI_PAGE_SHIFT;
    uint64_t high = (crti_read(&heap->low_water) - 1) << CRTI_PAGE_SHIFT;

    memcpy(to->base, from->base,
           g->pages_offset + (g->page_count + 2ull) * sizeof(crti_page_t));
    memcpy(to->base + g->data_offset, from->base + g->data_offset, low);
    memcpy(to->base + g->data_offset + high, from->base + g->data_offset + high,
           all - high);
}

/* What must hold after the child's death at this instruction, in `store`; living processes may
 * keep slabs of `kept` bytes at hand. */
static void assert_recovers(crti_store_t *store, const struct scene *scene, size_t kept)
{
    unsigned done = atomic_load(&scene->progress->done), bits;
    crti_store_view_t pinned = scene->pinned;

    assert_ok(crti_store_reclaim(store, CHILD_SLOT));
    assert_ok(crti_store_check(store));
    bits = visible(store);
    if (bits != visible_after(done) && bits != visible_after(done + 1))
        fail_msg("after step %u objects %x are there", done, bits);
    crti_store_drop_owner(store, mine(1).owner);
    crti_store_drop_owner(store, theirs(1).owner);
    crti_store_release(store, &pinned);
    assert_ok(crti_store_check(store));
    assert_in_range(used_bytes(store), 4096, kept);
}

/* Instructions of the script alone; counted once. */
static unsigned script_instructions(void)
{
    static unsigned count;
    struct scene scene = {.whole = false};
    pid_t child;

    if (count > 0)
        return count;
    set_scene(&scene);
    child = start_child(&scene);
    for (; atomic_load(&scene.progress->finished) == 0; count++)
        step_child(child);
    end_child(child);
    assert_int_equal(atomic_load(&scene.progress->done), SCRIPT_STEPS);
    strike_scene(&scene);
    return count;
}

static void a_process_killed_at_any_instruction_leaves_a_whole_store(void **state)
{
    struct scene scene = {.whole = true};
    crti_store_t *copy;
    unsigned stride = script_instructions() / CHECKS + 1, checks = 0, steps = 0;
    pid_t child;

    set_scene(&scene);
    copy = new_store(STORE_BYTES);
    crti_prefault_stop(copy);
    child = start_child(&scene);
    for (; atomic_load(&scene.progress->finished) == 0; steps++) {
        step_child(child);
        if (steps % stride != 0)
            continue;
        copy_arena(copy, scene.daemon);
        assert_recovers(copy, &scene, 3 * 4096); /* pins, the neighbour's first slabs */
        checks++;
    }
    end_child(child);
    print_message("%u instructions, every %u. checked: %u checks\n", steps, stride,
                  checks);
    crti_store_detach(copy);
    strike_scene(&scene);
}

/* While the child is stopped somewhere, others go on or give up in time. */
static void assert_others_go_on(crti_store_t *store, unsigned round)
{
    uint64_t start = crti_now_ns();
    crti_object_id_t id = object(9, round);
    crti_store_view_t view;
    crt_status_t status = put(store, id, round % 2 ? SMALL : LARGE, true);

    if (status == CRT_OK) {
        status = crti_store_get(store, id, &view);
        if (status == CRT_OK)
            crti_store_release(store, &view);
    }
    if (status != CRT_OK && status != CRT_ERR_TIMED_OUT)
        fail_msg("beside a stopped process: %s", crt_error_detail());
    crti_store_free(store, id);
    (void)crti_store_contains(store, mine(1 + round % 4));
    assert_true(crti_now_ns() - start < 2 * CRTI_S);
}

/* True when somebody waited for the child; then it is the child that is named. */
static bool is_waited_for(crti_store_t *store)
{
    unsigned slot = 0;

    if (!crti_store_stalled(store, &slot) && !crti_store_stalled(store, &slot))
        return false;
    assert_int_equal(slot, CHILD_SLOT);
    return true;
}

static void a_process_stopped_at_any_instruction_does_not_stop_others(void **state)
{
    struct scene scene = {.whole = false};
    unsigned count = script_instructions(), waits = 0, stops = 0;
    pid_t child;

    set_scene(&scene);
    scene.daemon->patience_ns = 2 * CRTI_MS;
    scene.daemon->stall_ns = 0;
    child = start_child(&scene);
    for (unsigned i = 0; atomic_load(&scene.progress->finished) == 0; i++) {
        step_child(child);
        if (i % (count / STOPS + 1) != 0)
            continue;
        assert_others_go_on(scene.daemon, stops++);
        waits += is_waited_for(scene.daemon);
    }
    end_child(child);
    assert_ok(crti_store_reclaim(scene.daemon, CHILD_SLOT));
    while (atomic_load(&scene.daemon->later_count) > 0)
        crti_store_catch_up(scene.daemon);
    assert_ok(crti_store_check(scene.daemon));
    print_message("%u instructions, %u stops, others waited for %u of them\n", count,
                  stops, waits);
    strike_scene(&scene);
}

static void a_kill_after_a_stop_brings_everything_back(void **state)
{
    struct scene scene = {.whole = false};
    unsigned count = script_instructions();

    for (unsigned k = 0; k < KILLS; k++) {
        unsigned steps = (unsigned)((uint64_t)count * (k + 1) / (KILLS + 1));
        pid_t child;

        set_scene(&scene);
        scene.daemon->patience_ns = 2 * CRTI_MS;
        child = start_child(&scene);
        for (unsigned i = 0; i < steps; i++)
            step_child(child);
        assert_others_go_on(scene.daemon, k);
        end_child(child);
        assert_ok(crti_store_reclaim(scene.daemon, CHILD_SLOT));
        while (atomic_load(&scene.daemon->later_count) > 0)
            crti_store_catch_up(scene.daemon);
        crti_store_drop_owner(scene.daemon, object(9, 0).owner);
        assert_recovers(scene.daemon, &scene, 5 * 4096);
        strike_scene(&scene);
    }
}

/* ---------------------------------------------------------------- holders of a lock */

static void a_process_stopped_with_a_lock_is_named_and_its_kill_opens_it(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(STORE_BYTES);
    unsigned slot = 0;
    int status;
    pid_t child;

    daemon->patience_ns = 60 * CRTI_MS;
    daemon->stall_ns = 10 * CRTI_MS;
    assert_ok(put(daemon, mine(1), SMALL, true));
    assert_false(crti_store_stalled(daemon, &slot));
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
    assert_false(crti_store_stalled(daemon, &slot)); /* the first look only remembers */
    while (crti_now_ns() - daemon->watched_ns < daemon->stall_ns)
        ;
    assert_true(crti_store_stalled(daemon, &slot));
    assert_int_equal(slot, CHILD_SLOT);
    end_child(child);
    assert_ok(crti_store_reclaim(daemon, slot));
    while (atomic_load(&daemon->later_count) > 0)
        crti_store_catch_up(daemon);
    assert_false(crti_store_contains(daemon, mine(1)));
    assert_false(crti_store_stalled(daemon, &slot));
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
        cmocka_unit_test(a_process_killed_at_any_instruction_leaves_a_whole_store),
        cmocka_unit_test(a_process_stopped_at_any_instruction_does_not_stop_others),
        cmocka_unit_test(a_kill_after_a_stop_brings_everything_back),
        cmocka_unit_test(a_process_stopped_with_a_lock_is_named_and_its_kill_opens_it),
        cmocka_unit_test(a_reclaim_that_has_to_wait_is_finished_later),
        cmocka_unit_test(random_kills_lose_no_byte),
        cmocka_unit_test(a_waiting_creator_is_woken_by_a_free),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
