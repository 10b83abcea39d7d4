/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong in groups ends, on every member, with an error that says who and what; and the
 * group can be used or rebuilt afterwards. */
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collective/group_int.h"
#include "collective/shm_int.h"
#include "member.h"
#include "runtime/base/clock.h"
#include "runtime/core/kv.h"
#include "runtime/net/message.h"

#include <cmocka.h>

static const char *backend = "shm";
static crt_actor_t *members[MEMBERS];

/* How often: `variable` of the environment, else `shm`, or fewer where a round takes longer. */
static int rounds(const char *variable, int shm, int other)
{
    const char *text = getenv(variable);

    return text ? atoi(text) : strcmp(backend, "shm") == 0 ? shm : other;
}

static int start_members(void **state)
{
    members_start(members, 4);
    return 0;
}

static int stop_members(void **state)
{
    for (int i = 0; i < MEMBERS; i++)
        if (members[i])
            members_stop(&members[i], 1);
    return 0;
}

static crt_ref_t *join(int member, const char *name, int size, int rank, int timeout_ms)
{
    return crt_call(members[member], &member_join, 0, name, backend, size, rank,
                    timeout_ms);
}

static void expect_failure(crt_ref_t *ref, crt_status_t status, const char *words)
{
    const char *text;
    crt_status_t got = failure_of(&ref, &text);

    if (got != status || !strstr(text, words))
        fail_msg("%s \"%s\", but expected %s \"%s\"", crt_status_name(got), text,
                 crt_status_name(status), words);
}

static const char *id_of(int member)
{
    return crt_actor_id(members[member]);
}

static int64_t pid_of(int member)
{
    crt_ref_t *ref = crt_call(members[member], &member_pid);
    int64_t pid;

    if (crt_get(ref, &pid) != CRT_OK)
        fail_msg("%s", crt_error_detail());
    crt_ref_drop(&ref);
    return pid;
}

static crt_ref_t *operate(int member, int kind, int dtype, int count, int reduction,
                          int root)
{
    return crt_call(members[member], &member_operate, 0, kind, dtype, count, reduction,
                    root, 0);
}

static void rebuild_all(int count, int size)
{
    crt_ref_t *refs[MEMBERS];

    for (int i = 0; i < count; i++)
        refs[i] = crt_call(members[i], &member_rebuild, 0, size);
    expect_all_ok(refs, count);
}

static void expect_sums(int count, double wanted)
{
    crt_ref_t *refs[MEMBERS];

    for (int i = 0; i < count; i++)
        refs[i] = crt_call(members[i], &member_sum, 0, 70000, 3);
    for (int i = 0; i < count; i++) {
        double sum = -1;

        if (crt_get(refs[i], &sum) != CRT_OK)
            fail_msg("member %d: %s", i, crt_error_detail());
        assert_true(sum == wanted);
        crt_ref_drop(&refs[i]);
    }
}

/* Keys of groups in the control store. */
static int count_keys(void)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_span_t list, key;
    int count = 0;

    assert_int_equal(crti_kv_keys("collective/", &storage, &list), CRT_OK);
    while (list.size && crti_list_unpack(&list, &key) == CRT_OK)
        count++;
    return count;
}

static void await_keys(int count)
{
    uint64_t deadline = crti_now_ns() + 30 * CRTI_S;

    while (count_keys() < count) {
        if (crti_now_ns() > deadline)
            fail_msg("%d keys of groups, %d were expected", count_keys(), count);
        poll(NULL, 0, 5);
    }
}

/* ---------------------------------------------------------------- joining */

static void a_rank_that_is_taken_twice_fails_for_all_and_names_both(void **state)
{
    int before = count_keys();
    crt_ref_t *a = join(0, "twice", 3, 0, 60000), *b, *c;
    const char *text;

    /* Who comes after the failure begins the next try, and waits for the others. */
    await_keys(before + 2); /* the roster, and rank 0 has come */
    b = join(1, "twice", 3, 1, 60000);
    c = join(2, "twice", 3, 1, 60000);
    expect_failure(a, CRT_ERR_EXISTS, "rank 1 was taken twice");
    assert_int_equal(failure_of(&b, &text), CRT_ERR_EXISTS);
    assert_non_null(strstr(text, id_of(1)));
    assert_non_null(strstr(text, id_of(2)));
    assert_int_equal(failure_of(&c, NULL), CRT_ERR_EXISTS);
}

static void a_rank_that_never_comes_is_named(void **state)
{
    crt_ref_t *a = join(0, "missing", 4, 0, 1000), *b = join(1, "missing", 4, 2, 1000);

    expect_failure(a, CRT_ERR_TIMED_OUT, "rank 1, 3 of 4 did not come");
    expect_failure(b, CRT_ERR_TIMED_OUT, "rank 1, 3 of 4 did not come");
    /* The name is free for the next try. */
    members_join(members, 3, 0, "missing", backend);
    expect_sums(3, 6);
    members_leave(members, 3, 0);
}

static void different_sizes_fail_for_all_and_name_both(void **state)
{
    crt_ref_t *a = join(0, "sizes", 2, 0, 60000), *b = join(1, "sizes", 3, 1, 60000);
    const char *text;

    assert_int_equal(failure_of(&a, &text), CRT_ERR_INVALID);
    assert_non_null(strstr(text, " members, but "));
    assert_non_null(strstr(text, id_of(0)));
    assert_int_equal(failure_of(&b, &text), CRT_ERR_INVALID);
    assert_non_null(strstr(text, id_of(1)));
}

static void different_backends_fail_for_all(void **state)
{
    crt_ref_t *a = join(0, "backends", 2, 0, 60000);
    crt_ref_t *b = crt_call(members[1], &member_join, 0, "backends",
                            strcmp(backend, "auto") ? "auto" : "ring", 2, 1, 60000);

    expect_failure(a, CRT_ERR_INVALID, "backend");
    expect_failure(b, CRT_ERR_INVALID, "backend");
}

static void the_name_of_a_living_group_is_taken_until_it_ends(void **state)
{
    members_join(members, 2, 0, "name", backend);
    expect_failure(join(2, "name", 2, 0, 60000), CRT_ERR_EXISTS, "2 of its members live");
    members_leave(members, 2, 0);
    members_join(members + 2, 2, 0, "name", backend);
    members_leave(members + 2, 2, 0);
}

static void a_member_may_come_late(void **state)
{
    crt_ref_t *refs[2] = {join(0, "late", 2, 1, 60000), NULL};

    poll(NULL, 0, 200); /* the lateness itself */
    refs[1] = join(1, "late", 2, 0, 60000);
    expect_all_ok(refs, 2);
    members_leave(members, 2, 0);
}

static void only_actors_are_members(void **state)
{
    crt_group_t *group = NULL;

    assert_int_equal(crt_collective_init_group(1, 0, NULL, &group), CRT_ERR_INVALID);
    assert_null(group);
}

static void bad_arguments_of_joining_are_refused(void **state)
{
    expect_failure(join(0, "bad/name", 1, 0, 60000), CRT_ERR_INVALID, "bad/name");
    expect_failure(join(0, "", 1, 0, 60000), CRT_ERR_INVALID, "name");
    expect_failure(join(0, "rank", 2, 2, 60000), CRT_ERR_INVALID, "rank 2 of 2");
    expect_failure(join(0, "none", 0, 0, 60000), CRT_ERR_INVALID, "0 members");
    expect_failure(crt_call(members[0], &member_join, 0, "x", "carrier", 1, 0, 60000),
                   CRT_ERR_INVALID, "carrier");
    expect_failure(crt_call(members[0], &member_find, 0, "nowhere"), CRT_ERR_NOT_FOUND,
                   "nowhere");
}

static void a_declared_group_wants_each_actor_and_rank_once(void **state)
{
    crt_actor_t *same[2] = {members[0], members[0]};
    const int ranks[2] = {1, 1};

    assert_int_equal(crt_collective_create_group(same, NULL, 2, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_collective_create_group(members, ranks, 2, NULL),
                     CRT_ERR_INVALID);
}

/* Killed before the others come, and while they wait for it: by its handle, and as a process. */
static void who_was_declared_and_dies_before_it_comes_is_named(void **state)
{
    static const char *const names[] = {"bereft", "widowed"};

    for (int late = 0; late < 2; late++) {
        crt_actor_t *declared[3] = {members[0], members[1]};
        int before = count_keys();
        crt_ref_t *refs[2], *pid_ref;
        int64_t pid;

        members_start(&declared[2], 1);
        pid_ref = crt_call(declared[2], &member_pid);
        assert_int_equal(crt_get(pid_ref, &pid), CRT_OK);
        crt_ref_drop(&pid_ref);
        assert_int_equal(crt_collective_create_group(
                             declared, NULL, 3,
                             CRT_GROUP_OPTIONS(.name = names[late], .backend = backend)),
                         CRT_OK);
        if (!late)
            assert_int_equal(crt_actor_kill(declared[2]), CRT_OK);
        for (int i = 0; i < 2; i++)
            refs[i] = crt_call(members[i], &member_find, 0, names[late]);
        if (late) {
            await_keys(before + 3); /* the roster, and both have come */
            assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
        }
        for (int i = 0; i < 2; i++)
            expect_failure(refs[i], CRT_ERR_ACTOR_DIED, crt_actor_id(declared[2]));
        crt_actor_drop(&declared[2]);
    }
}

static void groups_one_after_the_other_leave_no_keys(void **state)
{
    int before = count_keys(), count = rounds("CRT_GROUP_ROUNDS", 1000, 200);

    for (int i = 0; i < count; i++) {
        char name[32];

        snprintf(name, sizeof(name), "group-%d", i);
        members_join(members, 2, 0, name, backend);
        members_leave(members, 2, 0);
    }
    assert_int_equal(count_keys(), before);
}

/* ---------------------------------------------------------------- operations */

static void expect_both(crt_ref_t *a, crt_ref_t *b, const char *words)
{
    expect_failure(a, CRT_ERR_INVALID, words);
    expect_failure(b, CRT_ERR_INVALID, words);
    rebuild_all(2, 0);
}

static void calls_that_do_not_fit_fail_on_both_sides(void **state)
{
    enum { SUM = CRT_COLLECTIVE_ALLREDUCE, CAST = CRT_COLLECTIVE_BROADCAST };

    members_join(members, 2, 0, "fit", backend);
    expect_both(operate(0, SUM, CRT_FLOAT32, 10, CRT_SUM, 0),
                operate(1, SUM, CRT_FLOAT64, 10, CRT_SUM, 0), "float64");
    expect_both(operate(0, SUM, CRT_FLOAT32, 10, CRT_SUM, 0),
                operate(1, SUM, CRT_FLOAT32, 99999, CRT_SUM, 0), "99999");
    expect_both(operate(0, SUM, CRT_FLOAT32, 10, CRT_SUM, 0),
                operate(1, SUM, CRT_FLOAT32, 10, CRT_MAX, 0), "max");
    expect_both(operate(0, CAST, CRT_FLOAT32, 9000, 0, 0),
                operate(1, CAST, CRT_FLOAT32, 9000, 0, 1), "root 1");
    expect_both(operate(0, SUM, CRT_FLOAT32, 10, CRT_SUM, 0),
                operate(1, CRT_COLLECTIVE_ALLGATHER, CRT_FLOAT32, 10, 0, 0), "allgather");
    expect_both(operate(0, CRT_COLLECTIVE_SEND, CRT_FLOAT32, 10000, 0, 1),
                operate(1, CRT_COLLECTIVE_RECV, CRT_FLOAT32, 10001, 0, 0), "10001");
    expect_sums(2, 3);
    members_leave(members, 2, 0);
}

/* One waits for a message, the other for everybody. */
static void a_wrong_order_of_calls_fails_on_both_sides(void **state)
{
    members_join(members, 2, 0, "order", backend);
    expect_both(operate(0, CRT_COLLECTIVE_SEND, CRT_FLOAT32, 100000, 0, 1),
                operate(1, CRT_COLLECTIVE_ALLREDUCE, CRT_FLOAT32, 10, CRT_SUM, 0),
                "allreduce");
    expect_both(operate(0, CRT_COLLECTIVE_RECV, CRT_FLOAT32, 10, 0, 1),
                operate(1, CRT_COLLECTIVE_BARRIER, CRT_FLOAT32, 0, 0, 0), "barrier");
    expect_both(operate(0, CRT_COLLECTIVE_SEND, CRT_FLOAT32, 100000, 0, 1),
                operate(1, CRT_COLLECTIVE_SEND, CRT_FLOAT32, 100000, 0, 0), "send");
    expect_sums(2, 3);
    members_leave(members, 2, 0);
}

static void a_call_that_is_wrong_in_itself_fails_for_the_others_too(void **state)
{
    enum { SUM = CRT_COLLECTIVE_ALLREDUCE };

    members_join(members, 2, 0, "wrong", backend);
    expect_both(operate(0, SUM, CRT_BOOL, 10, CRT_SUM, 0),
                operate(1, SUM, CRT_FLOAT32, 10, CRT_SUM, 0), "bool");
    expect_both(operate(0, SUM, CRT_FLOAT32, 10, 99, 0),
                operate(1, SUM, CRT_FLOAT32, 10, CRT_SUM, 0), "reduction 99");
    expect_both(operate(0, CRT_COLLECTIVE_BROADCAST, CRT_FLOAT32, 10, 0, 7),
                operate(1, CRT_COLLECTIVE_BROADCAST, CRT_FLOAT32, 10, 0, 0), "rank 7");
    expect_both(operate(0, CRT_COLLECTIVE_SEND, CRT_FLOAT32, 10, 0, 0),
                operate(1, CRT_COLLECTIVE_RECV, CRT_FLOAT32, 10, 0, 0), "this member");
    /* The dtype of a tensor on device 0: see member_operate. */
    expect_both(operate(0, SUM, 100 + CRT_FLOAT32, 10, CRT_SUM, 0),
                operate(1, SUM, CRT_FLOAT32, 10, CRT_SUM, 0), "device 0");
    members_leave(members, 2, 0);
}

static void a_member_that_does_not_come_to_an_operation_is_named(void **state)
{
    crt_ref_t *ref;

    members_join(members, 3, 0, "absent", backend);
    ref = crt_call(members[0], &member_operate, 0, CRT_COLLECTIVE_BARRIER, CRT_FLOAT32, 0,
                   0, 0, 300);
    /* Rank 2 is told of it; rank 1 has done nothing and is told at its next call. */
    expect_failure(operate(2, CRT_COLLECTIVE_BARRIER, CRT_FLOAT32, 0, 0, 0),
                   CRT_ERR_TIMED_OUT, "rank 1");
    expect_failure(ref, CRT_ERR_TIMED_OUT, "rank 1");
    expect_failure(operate(0, CRT_COLLECTIVE_BARRIER, CRT_FLOAT32, 0, 0, 0),
                   CRT_ERR_CANCELLED, "not rebuilt");
    rebuild_all(3, 0);
    expect_sums(3, 6);
    members_leave(members, 3, 0);
}

static void who_leaves_ends_the_operations_of_the_others(void **state)
{
    crt_ref_t *ref;

    members_join(members, 2, 0, "leaver", backend);
    ref = operate(0, CRT_COLLECTIVE_BARRIER, CRT_FLOAT32, 0, 0, 0);
    members_leave(members + 1, 1, 0);
    expect_failure(ref, CRT_ERR_CLOSED, id_of(1));
    rebuild_all(1, 0);
    expect_sums(1, 1);
    expect_failure(operate(1, CRT_COLLECTIVE_BARRIER, CRT_FLOAT32, 0, 0, 0),
                   CRT_ERR_INVALID, "NULL");
    members_leave(members, 1, 0);
}

/* ---------------------------------------------------------------- nonsense from a peer */

struct saboteur {
    crt_group_t *group;
};

static crt_status_t sabotage_join(void *self, crt_call_t *call)
{
    const char *name;

    CRT_TRY(crt_args(call, &name));
    return crt_collective_init_group(2, 1,
                                     CRT_GROUP_OPTIONS(.name = name, .backend = "shm"),
                                     &((struct saboteur *)self)->group);
}
static const crt_method_t saboteur_join = {"join", sabotage_join, "string"};

/* Describes an input that lies nowhere, as a member with a defect might. */
static crt_status_t sabotage_run(void *self, crt_call_t *call)
{
    crti_region_t *region = ((struct saboteur *)self)->group->private->region;
    crti_shm_slot_t *slot = &region->head->slots[0];
    int what;

    CRT_TRY(crt_args(call, &what));
    slot->call = (crti_asked_t){.sequence = 1,
                                .count = 100000,
                                .kind = CRT_COLLECTIVE_BROADCAST,
                                .dtype = CRT_FLOAT32,
                                .peer = 1};
    slot->input = (crti_place_t){.nonce = 77, .segment_bytes = 1 << 26, .fd = 0};
    if (what == 1)
        slot->input = (crti_place_t){.nonce = 77, .segment_bytes = UINT64_MAX, .fd = -1};
    if (what == 2) { /* the segment is right, the place is outside */
        void *memory;

        CRT_TRY(crt_collective_alloc(400000, &memory));
        crti_memory_find(memory, 400000, &slot->input);
        slot->input.offset = slot->input.segment_bytes - 16;
    }
    atomic_fetch_add(&region->head->flag, 1);
    crti_shm_wake(((struct saboteur *)self)->group->private->state, &region->head->flag);
    return CRT_OK;
}
static const crt_method_t saboteur_spoil = {"spoil", sabotage_run, "int"};

/* Dies when it has told where its memory is, and before the other, which sleeps, has seen it. */
static crt_status_t sabotage_death(void *self, crt_call_t *call)
{
    crt_group_t *group = ((struct saboteur *)self)->group;
    const crti_shm_t *team = group->private->state;
    crti_region_t *region = group->private->region;
    crti_shm_slot_t *slot = &region->head->slots[0];
    uint64_t deadline = crti_now_ns() + 30 * CRTI_S;
    void *memory;

    CRT_TRY(crt_collective_alloc(400000, &memory));
    slot->call = (crti_asked_t){.sequence = 1,
                                .count = 100000,
                                .kind = CRT_COLLECTIVE_BROADCAST,
                                .dtype = CRT_FLOAT32,
                                .peer = 1};
    crti_memory_find(memory, 400000, &slot->input);
    while (!atomic_load(&team->peers[0].head->sleepers) && crti_now_ns() < deadline)
        sched_yield();
    atomic_fetch_add(&region->head->flag, 1); /* it is not woken: it looks by itself */
    kill(getpid(), SIGKILL);
    return CRT_OK;
}
static const crt_method_t saboteur_die = {"die", sabotage_death, ""};

static const crt_actor_class_t saboteur_class =
    CRT_ACTOR_CLASS(.name = "Saboteur", .size = sizeof(struct saboteur),
                    .methods =
                        CRT_METHODS(&saboteur_join, &saboteur_spoil, &saboteur_die));

static void nonsense_from_a_peer_is_an_error(void **state)
{
    if (strcmp(backend, "shm") != 0)
        return; /* streams are lied to in test_links and test_ring */
    for (int what = 0; what < 3; what++) {
        crt_actor_t *saboteur = crt_actor_new(&saboteur_class, NULL);
        crt_ref_t *refs[2] = {crt_call(saboteur, &saboteur_join, "nonsense"),
                              join(0, "nonsense", 2, 0, 60000)};
        crt_ref_t *ref;

        expect_all_ok(refs, 2);
        ref = operate(0, CRT_COLLECTIVE_BROADCAST, CRT_FLOAT32, 100000, 0, 1);
        refs[0] = crt_call(saboteur, &saboteur_spoil, what);
        expect_all_ok(refs, 1);
        expect_failure(ref, CRT_ERR_PROTOCOL, "");
        assert_int_equal(crt_actor_kill(saboteur), CRT_OK);
        crt_actor_drop(&saboteur);
        rebuild_all(1, 0);
        members_leave(members, 1, 0);
    }
}

/* ---------------------------------------------------------------- death */

static void kill_one(int victim)
{
    kill((pid_t)pid_of(victim), SIGKILL);
}

static void a_member_that_dies_while_others_join_is_named(void **state)
{
    crt_ref_t *a, *b;
    char id[40];
    int before = count_keys();
    pid_t pid;

    members_start(&members[4], 1);
    snprintf(id, sizeof(id), "%s", id_of(4));
    pid = (pid_t)pid_of(4);
    a = join(0, "early", 3, 0, 60000);
    b = join(4, "early", 3, 1, 60000);
    await_keys(before + 3); /* the roster, and both have come */
    kill(pid, SIGKILL);
    expect_failure(a, CRT_ERR_ACTOR_DIED, id);
    failure_of(&b, NULL);
    crt_actor_drop(&members[4]);
}

static void await_failure(int member)
{
    uint64_t deadline = crti_now_ns() + 30 * CRTI_S;
    bool has_failed = false;

    while (!has_failed) {
        crt_ref_t *ref = crt_call(members[member], &member_error, 0);
        const char *text;

        assert_int_equal(crt_get(ref, &text), CRT_OK);
        has_failed = text[0] != '\0';
        crt_ref_drop(&ref);
        if (!has_failed && crti_now_ns() > deadline)
            fail_msg("member %d has not heard of a death", member);
    }
}

/* Programs rebuild when an operation ends with CRT_ERR_ACTOR_DIED. Who has heard of the death before it
 * calls is told so all the same, each time. */
static void every_death_is_told_by_the_next_operation(void **state)
{
    members_start(&members[4], 2);
    members_join(members, 6, 0, "deaths", backend);
    for (int last = 5; last >= 4; last--) {
        kill_one(last);
        crt_actor_drop(&members[last]);
        for (int i = 0; i < 4; i++)
            await_failure(i);
        for (int i = 0; i < 4; i++) {
            expect_failure(operate(i, CRT_COLLECTIVE_BARRIER, CRT_FLOAT32, 0, 0, 0),
                           CRT_ERR_ACTOR_DIED, last == 5 ? "rank 5" : "rank 4");
            expect_failure(operate(i, CRT_COLLECTIVE_BARRIER, CRT_FLOAT32, 0, 0, 0),
                           CRT_ERR_CANCELLED, "not rebuilt");
        }
        if (last == 5)
            expect_failure(operate(4, CRT_COLLECTIVE_BARRIER, CRT_FLOAT32, 0, 0, 0),
                           CRT_ERR_ACTOR_DIED, "rank 5");
        rebuild_all(last, 0);
        expect_sums(last, last == 5 ? 15 : 10);
    }
    members_leave(members, 4, 0);
}

static void who_died_before_its_memory_was_reached_has_died(void **state)
{
    crt_actor_t *saboteur;
    crt_ref_t *refs[2], *ref;

    if (strcmp(backend, "shm") != 0)
        return; /* only there memory of others is reached */
    saboteur = crt_actor_new(&saboteur_class, NULL);
    refs[0] = crt_call(saboteur, &saboteur_join, "unreached");
    refs[1] = join(0, "unreached", 2, 0, 60000);
    expect_all_ok(refs, 2);
    ref = operate(0, CRT_COLLECTIVE_BROADCAST, CRT_FLOAT32, 100000, 0, 1);
    refs[0] = crt_call(saboteur, &saboteur_die);
    expect_failure(ref, CRT_ERR_ACTOR_DIED, "rank 1");
    failure_of(&refs[0], NULL);
    crt_actor_drop(&saboteur);
    rebuild_all(1, 0);
    members_leave(members, 1, 0);
}

static void a_group_of_the_dead_does_not_block_its_name(void **state)
{
    members_start(&members[4], 2);
    members_join(&members[4], 2, 0, "grave", backend);
    kill_one(4);
    kill_one(5);
    crt_actor_drop(&members[4]);
    crt_actor_drop(&members[5]);
    members_join(members, 2, 0, "grave", backend);
    expect_sums(2, 3);
    members_leave(members, 2, 0);
}

static uint64_t random_state = 88172645463325252u;

static unsigned random_below(unsigned limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state % limit);
}

/* One of four is killed; the rest say who it was, go on as three, and then with a new one. */
static void kill_and_rebuild(int victim)
{
    crt_ref_t *refs[4], *rebuilt[4];
    pid_t pid = (pid_t)pid_of(victim);
    int64_t blamed;

    for (int i = 0; i < 4; i++)
        refs[i] = crt_call(members[i], &member_any, 0);
    poll(NULL, 0, (int)random_below(40)); /* a random moment */
    kill(pid, SIGKILL);
    for (int i = 0; i < 4; i++) {
        if (i == victim) {
            failure_of(&refs[i], NULL);
            continue;
        }
        if (crt_get(refs[i], &blamed) != CRT_OK)
            fail_msg("member %d: %s", i, crt_error_detail());
        assert_int_equal(blamed, victim);
        crt_ref_drop(&refs[i]);
    }
    crt_actor_drop(&members[victim]);
    for (int i = 0, k = 0; i < 4; i++)
        if (i != victim)
            rebuilt[k++] = crt_call(members[i], &member_rebuild, 0, 0);
    expect_all_ok(rebuilt, 3);
    members_start(&members[victim], 1);
    rebuilt[3] = join(victim, "killed", 4, CRT_RANK_ANY, 60000);
    for (int i = 0, k = 0; i < 4; i++)
        if (i != victim)
            rebuilt[k++] = crt_call(members[i], &member_rebuild, 0, 4);
    expect_all_ok(rebuilt, 4);
}

/* After rebuilding smaller, ranks are other than places in `members`: back in order. */
static void sort_members(void)
{
    crt_actor_t *sorted[4] = {0};

    for (int i = 0; i < 4; i++) {
        crt_ref_t *ref = crt_call(members[i], &member_state, 0);
        const char *text;

        assert_int_equal(crt_get(ref, &text), CRT_OK);
        sorted[atoi(text)] = members[i];
        crt_ref_drop(&ref);
    }
    for (int i = 0; i < 4; i++) {
        assert_non_null(sorted[i]);
        members[i] = sorted[i];
    }
}

static int64_t descriptors_of(int member)
{
    crt_ref_t *ref = crt_call(members[member], &member_descriptors);
    int64_t count;

    assert_int_equal(crt_get(ref, &count), CRT_OK);
    crt_ref_drop(&ref);
    return count;
}

static void killed_at_random_moments_the_right_one_is_named_and_replaced(void **state)
{
    crt_actor_t *first = members[0];
    int count = rounds("CRT_KILL_ROUNDS", 12, 12), keys = count_keys();
    int64_t descriptors = 0;

    members_join(members, 4, 0, "killed", backend);
    for (int i = 0; i < count; i++) {
        int victim = (int)random_below(4);

        if (members[victim] == first)
            victim = (victim + 1) % 4; /* one lives through all of it */
        kill_and_rebuild(victim);
        sort_members();
        expect_sums(4, 10);
        for (int k = 0; k < 4; k++)
            if (members[k] == first && i < 2)
                descriptors = descriptors_of(k);
    }
    for (int k = 0; k < 4; k++)
        if (members[k] == first)
            assert_true(descriptors_of(k) <= descriptors + 2);
    members_leave(members, 4, 0);
    assert_int_equal(count_keys(), keys);
}

static void expect_settled(int member, int64_t wanted)
{
    crt_ref_t *ref = crt_call(members[member], &member_settle, 0);
    int64_t count;

    if (crt_get(ref, &count) != CRT_OK)
        fail_msg("member %d: %s", member, crt_error_detail());
    assert_int_equal(count, wanted);
    crt_ref_drop(&ref);
}

/* One of four dies in an operation which the first saw succeed, the others not. */
static void who_has_settled_is_not_waited_for(void **state)
{
    crt_ref_t *refs[3];
    pid_t pid = (pid_t)pid_of(3);

    members_join(members, 4, 0, "settled", backend);
    for (int i = 1; i < 3; i++)
        refs[i] = operate(i, CRT_COLLECTIVE_BARRIER, CRT_FLOAT32, 0, 0, 0);
    kill(pid, SIGKILL);
    for (int i = 1; i < 3; i++) {
        expect_failure(refs[i], CRT_ERR_ACTOR_DIED, "rank 3");
        refs[i] = crt_call(members[i], &member_rebuild, 0, 0);
    }
    expect_settled(0, 1);
    for (int i = 1; i < 3; i++)
        expect_failure(refs[i], CRT_ERR_EXISTS, "has succeeded on others");
    rebuild_all(3, 0);
    expect_sums(3, 6);
    for (int i = 0; i < 3; i++)
        expect_settled(i, 2);
    crt_actor_drop(&members[3]);
    members_start(&members[3], 1);
    members_leave(members, 3, 0);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_is_taken_twice_fails_for_all_and_names_both),
        cmocka_unit_test(a_rank_that_never_comes_is_named),
        cmocka_unit_test(different_sizes_fail_for_all_and_name_both),
        cmocka_unit_test(different_backends_fail_for_all),
        cmocka_unit_test(the_name_of_a_living_group_is_taken_until_it_ends),
        cmocka_unit_test(a_member_may_come_late),
        cmocka_unit_test(only_actors_are_members),
        cmocka_unit_test(bad_arguments_of_joining_are_refused),
        cmocka_unit_test(a_declared_group_wants_each_actor_and_rank_once),
        cmocka_unit_test(who_was_declared_and_dies_before_it_comes_is_named),
        cmocka_unit_test(calls_that_do_not_fit_fail_on_both_sides),
        cmocka_unit_test(a_wrong_order_of_calls_fails_on_both_sides),
        cmocka_unit_test(a_call_that_is_wrong_in_itself_fails_for_the_others_too),
        cmocka_unit_test(a_member_that_does_not_come_to_an_operation_is_named),
        cmocka_unit_test(who_leaves_ends_the_operations_of_the_others),
        cmocka_unit_test(nonsense_from_a_peer_is_an_error),
        cmocka_unit_test(every_death_is_told_by_the_next_operation),
        cmocka_unit_test(who_died_before_its_memory_was_reached_has_died),
        cmocka_unit_test(a_group_of_the_dead_does_not_block_its_name),
        cmocka_unit_test(a_member_that_dies_while_others_join_is_named),
        cmocka_unit_test(killed_at_random_moments_the_right_one_is_named_and_replaced),
        cmocka_unit_test(who_has_settled_is_not_waited_for),
        cmocka_unit_test(groups_one_after_the_other_leave_no_keys),
    };

    if (argc > 1)
        backend = argv[1];
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    return cmocka_run_group_tests_name(backend, tests, start_members, stop_members);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&member_class, &saboteur_class),
                                .num_cpus = 2, .object_store_memory = 64 << 20),
                    driver);
}
