/* SPDX-License-Identifier: Apache-2.0 */
/* A process that dies, or stops for good, at any instruction.
 *
 * The child runs a script of store operations under single steps. Between two instructions its
 * memory is what a kill or a stop at that point would leave, so the parent copies the arena as it
 * is and plays on in the copy:
 *     killed    the child's slot is reclaimed, every invariant holds, the memory comes back
 *     stopped   a neighbour goes on; if it has to wait, the daemon finds out for whom, ends that
 *               process, and the neighbour's call succeeds
 * Every k-th instruction is taken, so that the test stays short; CRT_TEST_EVERY=K chooses k (1:
 * each one, for hours with the stops), CRT_TEST_FIRST=F begins with the F-th, so that K runs with F
 * = 0 ... K - 1 are together all of them. Real kills and stops of processes follow at a few points.
 */
#include "tests/store/store_test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define STORE_BYTES (8 * MIB)
#define KILL_POINTS 8000u /* copies that are checked, about */
#define STOP_POINTS                                                                      \
    60u /* ... and in which others go on, with the child inside a transaction */
#define REAL_POINTS 6u            /* children really stopped, then killed */
#if defined(__SANITIZE_ADDRESS__) /* more instructions, and dearer checks */
#    define KILL_EVERY 61u
#    define STOP_EVERY 2203u
#else
#    define KILL_EVERY 11u
#    define STOP_EVERY 307u
#endif
#define LOOKS        4u /* of the daemon until it ends a process that is stopped */
#define SMALL        100u
#define LARGE        20000u
#define HUGE         (3 * MIB / 2)
#define MANY         80u /* more than one slab holds */
#define CHILD_SLOT   3u
#define GUEST_SLOT   5u
#define SCRIPT_STEPS 24u

/* What the child tells in memory shared with the parent. */
struct progress {
    atomic_uint done; /* steps of the script */
    atomic_uint finished;
    atomic_uint is_free; /* it runs without single steps until it traps */
};

static struct progress *progress; /* of the scene that is set */

struct scene {
    crti_store_t *daemon, *neighbour;
    crti_store_view_t pinned;
};

static crti_object_id_t mine(uint64_t number)
{
    return object(1, number);
}

static crti_object_id_t theirs(uint64_t number)
{
    return object(2, number);
}

/* Objects of the child that come and go within the script. */
static crti_object_id_t passing(uint64_t number)
{
    return object(3, number);
}

/* ---------------------------------------------------------------- the script */

/* What is done here is not stepped through: more of the same. */
static void be_free(bool is_free)
{
    if (atomic_exchange(&progress->is_free, is_free) && !is_free)
        raise(SIGTRAP);
}

/* Slabs fill, and others begin: with the 9th object and with the 73rd. */
static crt_status_t make_many(crti_store_t *store)
{
    crt_status_t status = CRT_OK;
    void *data;

    for (uint64_t i = 1; i <= MANY && status == CRT_OK; i++) {
        be_free(i != 8 && i != 9 && i != 72 && i != 73);
        status = crti_store_create(store, passing(i), 64, &data);
        if (status == CRT_OK)
            status = crti_store_seal(store, passing(i), true);
    }
    be_free(false);
    return status;
}

/* Out of order: slabs that were full have room again, then nothing. */
static crt_status_t free_many(crti_store_t *store)
{
    for (unsigned half = 1; half <= 2; half++)
        for (uint64_t i = half; i <= MANY; i += 2) {
            be_free(i != half && i < MANY - 3);
            crti_store_free(store, passing(i));
        }
    be_free(false);
    return CRT_OK;
}

static crt_status_t make_copy(crti_store_t *store, uint64_t number)
{
    void *data;
    crt_status_t status = crti_store_create(store, passing(number), HUGE, &data);

    return status == CRT_OK ? crti_store_seal(store, passing(number), false) : status;
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
    case 16: return crti_store_seal(store, mine(4), true);
    case 17: return make_many(store);
    case 18: return free_many(store);
    case 19: return make_copy(store, 101);
    case 20: return make_copy(store, 102);
    case 21: return make_copy(store, 103);
    case 22: /* the copies have to go */
        return crti_store_create(store, passing(104), 5 * MIB, &data);
    default: return crti_store_seal(store, passing(104), true);
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

/* ---------------------------------------------------------------- the child */

/* From here on the parent steps this process. */
static void be_traced(void)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(1);
    raise(SIGSTOP);
}

/* Attach, script and detach under single steps. With `freely` it runs up to the script's step of
 * that number. */
static void child_main(const struct scene *scene, unsigned freely)
{
    crti_store_view_t views[2] = {{0}};
    crti_store_t *store;

    atomic_store(&progress->is_free, freely > 0);
    be_traced();
    if (crti_store_attach(crti_store_fd(scene->daemon), CHILD_SLOT, (crti_id_t){1, ~1ull},
                          &store) != CRT_OK)
        _exit(2);
    for (unsigned i = 0; i < SCRIPT_STEPS; i++) {
        if (i == freely)
            be_free(false);
        if (script_step(store, i, views) != CRT_OK)
            _exit(3);
        atomic_store(&progress->done, i + 1);
    }
    crti_store_detach(store);
    atomic_store(&progress->finished, 1);
    for (;;)
        raise(SIGTRAP);
}

/* A child stopped before its first step. The daemon's mappings don't reach into it. */
static pid_t start_child(const struct scene *scene, unsigned freely)
{
    int status;
    pid_t child;

    atomic_store(&progress->done, 0);
    atomic_store(&progress->finished, 0);
    atomic_store(&progress->is_free, 0);
    child = fork();
    if (child == 0)
        child_main(scene, freely);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSTOPPED(status));
    return child;
}

static void step_child(pid_t child)
{
    int status;

    assert_int_equal(
        ptrace(atomic_load(&progress->is_free) ? PTRACE_CONT : PTRACE_SINGLESTEP, child,
               NULL, NULL),
        0);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
        fail_msg("the child ended by itself, or stopped: %x", status);
}

static void end_child(pid_t child)
{
    int status;

    kill(child, SIGKILL);
    do
        assert_int_equal(waitpid(child, &status, 0), child);
    while (WIFSTOPPED(status));
}

static bool is_finished(void)
{
    return atomic_load(&progress->finished) != 0;
}

/* True while the child has a lock, or takes one. */
static bool is_inside(const struct scene *scene)
{
    const crti_arena_slot_t *slot = crti_arena_slot(scene->daemon, CHILD_SLOT);

    return slot && crti_read(&slot->held[0]) != 0;
}

/* ---------------------------------------------------------------- the scene */

/* The neighbour's two objects, the second pinned by the daemon. */
static void set_scene(struct scene *scene)
{
    scene->daemon = new_store(STORE_BYTES);
    crti_store_stop_threads(scene->daemon); /* the arena is copied behind its back */
    scene->neighbour = join(scene->daemon, 2);
    progress =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(progress, MAP_FAILED);
    assert_ok(put(scene->neighbour, theirs(1), SMALL, true));
    assert_ok(put(scene->neighbour, theirs(2), LARGE, true));
    assert_ok(crti_store_get(scene->daemon, theirs(2), &scene->pinned));
}

static void strike_scene(struct scene *scene)
{
    crti_store_detach(scene->neighbour);
    crti_store_detach(scene->daemon);
    munmap(progress, 4096);
}

static crti_store_t *new_copy(void)
{
    crti_store_t *copy = new_store(STORE_BYTES);

    crti_store_stop_threads(copy);
    return copy;
}

/* All tables, with the records. What objects hold says nothing. */
static void copy_arena(crti_store_t *to, const crti_store_t *from)
{
    const crti_geometry_t *g = &from->geometry;
    uint64_t used = crti_read(&from->header->heap.record_water) + 1 - g->first_record;
    uint64_t at = crti_page_offset(from, g->first_record);

    memcpy(to->base, from->base, g->marks_offset + g->last_record + 2ull);
    memcpy(to->base + at, from->base + at, used << CRTI_PAGE_SHIFT);
}

/* What must hold after the child's death, in `store`; living processes may keep slabs of `kept`
 * bytes at hand. */
static void assert_whole(crti_store_t *store, const struct scene *scene, size_t kept)
{
    unsigned done = atomic_load(&progress->done), bits;
    crti_store_view_t pinned = scene->pinned;

    assert_ok(crti_store_check(store));
    bits = visible(store);
    if (bits != visible_after(done) && bits != visible_after(done + 1))
        fail_msg("after step %u objects %x are there", done, bits);
    for (uint64_t owner = 1; owner <= 3; owner++)
        crti_store_drop_owner(store, object(owner, 0).owner);
    crti_store_release(store, &pinned);
    assert_ok(crti_store_check(store));
    assert_in_range(used_bytes(store), 4096, kept);
}

/* ---------------------------------------------------------------- stopped for good */

/* A neighbour that works in the copy, from a thread of its own. */
struct guest {
    crti_store_t *store;
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    bool has_ended;
    uint64_t longest_ns; /* of a call */
    char wrong[300];
};

static void note(struct guest *g, const char *what, crt_status_t status, uint64_t *start)
{
    uint64_t now = crti_now_ns();

    if (status != CRT_OK && g->wrong[0] == '\0')
        snprintf(g->wrong, sizeof(g->wrong), "%s: %s", what, crt_error_detail());
    if (now - *start > g->longest_ns)
        g->longest_ns = now - *start;
    *start = crti_now_ns();
}

/* Meets all locks that the child may have: the heap's, those of its objects, and the child's. */
static void *visit(void *arg)
{
    struct guest *g = arg;
    uint64_t start = crti_now_ns();
    crti_store_view_t view = {0};
    crt_status_t status;

    note(g, "put", put(g->store, object(9, 1), LARGE, true), &start);
    note(g, "get", crti_store_get(g->store, object(9, 1), &view), &start);
    crti_store_release(g->store, &view);
    note(g, "release", CRT_OK, &start);
    for (uint64_t i = 1; i <= 4; i++) {
        status = crti_store_get(g->store, mine(i), &view);
        note(g, "get", status == CRT_ERR_NOT_FOUND ? CRT_OK : status, &start);
        crti_store_release(g->store, &view);
        note(g, "release", CRT_OK, &start);
    }
    for (uint64_t i = 0; i < MANY; i += MANY / 8)
        (void)crti_store_contains(g->store, passing(i));
    note(g, "contains", CRT_OK, &start);
    crti_store_free(g->store, object(9, 1));
    note(g, "free", CRT_OK, &start);
    pthread_mutex_lock(&g->mutex);
    g->has_ended = true;
    pthread_cond_signal(&g->ended);
    pthread_mutex_unlock(&g->mutex);
    return NULL;
}

/* What the daemon does while the guest works: looks, and ends whom others wait for. True when it
 * had to. */
static bool attend(crti_store_t *store, struct guest *g)
{
    bool had_to = false;

    pthread_mutex_lock(&g->mutex);
    while (!g->has_ended) {
        struct timespec until;
        unsigned slot = 0;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 5000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&g->ended, &g->mutex, &until);
        pthread_mutex_unlock(&g->mutex);
        if (crti_store_stalled(store, &slot) >= LOOKS) {
            assert_false(had_to);
            assert_int_equal(slot, CHILD_SLOT);
            assert_ok(crti_store_reclaim(store, slot));
            had_to = true;
        }
        pthread_mutex_lock(&g->mutex);
    }
    pthread_mutex_unlock(&g->mutex);
    return had_to;
}

/* The longest wait of one call; *waited: the child was waited for, and ended. */
static uint64_t others_go_on(crti_store_t *copy, bool *waited)
{
    struct guest guest = {.store = join(copy, GUEST_SLOT),
                          .mutex = PTHREAD_MUTEX_INITIALIZER,
                          .ended = PTHREAD_COND_INITIALIZER};
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, visit, &guest), 0);
    *waited = attend(copy, &guest);
    pthread_join(thread, NULL);
    if (guest.wrong[0])
        fail_msg("beside a stopped process: %s", guest.wrong);
    if (!*waited)
        assert_ok(crti_store_reclaim(copy, CHILD_SLOT)); /* it dies later */
    while (atomic_load(&guest.store->later_count) > 0)
        crti_store_catch_up(guest.store);
    crti_store_detach(guest.store);
    return guest.longest_ns;
}

/* ---------------------------------------------------------------- every k-th instruction */

static unsigned from_environment(const char *name, unsigned usual)
{
    const char *text = getenv(name);

    return text ? (unsigned)atoi(text) : usual;
}

static void assert_survives_a_kill(crti_store_t *copy, const struct scene *scene)
{
    copy_arena(copy, scene->daemon);
    assert_ok(crti_store_reclaim(copy, CHILD_SLOT));
    assert_whole(copy, scene, 3 * 4096); /* pins, the neighbour's first slabs */
}

static void a_process_may_be_killed_or_stopped_at_any_instruction(void **state)
{
    const unsigned kill_every = from_environment("CRT_TEST_EVERY", KILL_EVERY),
                   stop_every = from_environment("CRT_TEST_EVERY", STOP_EVERY),
                   first = from_environment("CRT_TEST_FIRST", 0);
    unsigned steps = 0, kills = 0, inside = 0, stops = 0, waits = 0;
    uint64_t longest = 0;
    struct scene scene;
    crti_store_t *copy;
    pid_t child;

    set_scene(&scene);
    copy = new_copy();
    for (child = start_child(&scene, 0); !is_finished(); steps++) {
        step_child(child);
        if (steps % kill_every == first % kill_every) {
            assert_survives_a_kill(copy, &scene);
            kills++;
        }
        if (is_inside(&scene) && inside++ % stop_every == first % stop_every) {
            uint64_t waited_ns;
            bool waited;

            copy_arena(copy, scene.daemon);
            waited_ns = others_go_on(copy, &waited);
            assert_whole(copy, &scene, 3 * 4096);
            longest = waited_ns > longest ? waited_ns : longest;
            waits += waited;
            stops++;
        }
    }
    end_child(child);
    print_message(
        "%u instructions, %u of them inside a transaction; killed at %u; stopped at "
        "%u, where others waited for %u, at most %.0f ms\n",
        steps, inside, kills, stops, waits, (double)longest / 1e6);
    assert_int_equal(atomic_load(&progress->done), SCRIPT_STEPS);
    assert_true(waits > stops / 4);
    /* Complaint and looks are some 80 ms. More would be a processor that was not there. */
    assert_true(longest < CRTI_STORE_PATIENCE_NS);
    crti_store_detach(copy);
    strike_scene(&scene);
}

/* ---------------------------------------------------------------- real ones */

static void a_kill_after_a_stop_brings_everything_back(void **state)
{
    for (unsigned step = 1; step < SCRIPT_STEPS; step += 4) {
        struct scene scene;
        crt_status_t status;
        pid_t child;

        set_scene(&scene);
        scene.daemon->patience_ns = 2 * CRTI_MS;
        child = start_child(&scene, step);
        step_child(child); /* runs up to there */
        while (!is_inside(&scene))
            step_child(child);
        for (unsigned i = 0; i < 40 * step; i++)
            step_child(child);
        status = put(scene.daemon, object(9, step), LARGE, true);
        assert_true(status == CRT_OK || status == CRT_ERR_TIMED_OUT);
        crti_store_free(scene.daemon, object(9, step));
        end_child(child);
        assert_ok(crti_store_reclaim(scene.daemon, CHILD_SLOT));
        while (atomic_load(&scene.daemon->later_count) > 0)
            crti_store_catch_up(scene.daemon);
        crti_store_drop_owner(scene.daemon, object(9, 0).owner);
        assert_whole(scene.daemon, &scene, 5 * 4096);
        strike_scene(&scene);
    }
}

/* A step is two changes of process: on one processor they cost a third. */
static void use_one_processor(void)
{
    int cpu = sched_getcpu();
    cpu_set_t one;

    CPU_ZERO(&one);
    if (cpu < 0)
        return;
    CPU_SET(cpu, &one);
    (void)sched_setaffinity(0, sizeof(one), &one);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_may_be_killed_or_stopped_at_any_instruction),
        cmocka_unit_test(a_kill_after_a_stop_brings_everything_back),
    };

    use_one_processor();
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
