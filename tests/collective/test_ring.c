/* SPDX-License-Identifier: Apache-2.0 */
/* The ring backend: real processes, real TLS, groups made by hand. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "collective/backends/ring_int.h"
#include "collective/group_int.h"
#include "ring_bed.h"
#include "ring_checks.h"

static const int sizes[] = {1, 2, 3, 4, 7, 8};

/* Around every change of algorithm, for few and for many members. */
static const size_t counts[] = {0,    1,     2,      7,      31,     1000,
                                4099, 32768, 131101, 300007, 1000003};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))

static void all_kinds(bed_t *bed)
{
    for (size_t c = 0; c < COUNTS; c++) {
        size_t n = counts[c];
        int root = (int)c % bed->size;

        if (n > 40000 && bed->size > 4) /* the same, but long */
            n /= 4;
        bed_check_allreduce(bed, n, c % 2);
        bed_check_allreduce(bed, n, !(c % 2));
        bed_check_reduce(bed, n, root);
        bed_check_broadcast(bed, n, root);
        if (n > 40000)
            n /= 8;
        bed_check_allgather(bed, n, c % 2);
        bed_check_reducescatter(bed, n, c % 2);
        bed_check_alltoall(bed, n);
        BED_CHECK(bed_step(bed, bed_step_of(CRT_COLLECTIVE_BARRIER, 0, NULL, NULL)) ==
                  CRT_OK);
    }
}

static void every_kind_gives_what_it_says_for_every_size(void **state)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        bed_run(sizes[i], &crti_backend_ring, all_kinds);
}

/* Parts that no socket's and no other buffer takes as a whole. */
static void much(bed_t *bed)
{
    size_t n = 12000000;
    float *x = calloc(n, 4);
    crti_step_t step = bed_step_of(CRT_COLLECTIVE_ALLREDUCE, n, x, x);

    for (size_t i = 0; i < n; i++)
        x[i] = (float)(i % 1000);
    step.reduction = CRT_REDUCE_SUM;
    BED_CHECK(bed_step(bed, step) == CRT_OK);
    for (size_t i = 0; i < n; i++)
        BED_CHECK(x[i] == (float)(i % 1000 * 3));
    step.kind = CRT_COLLECTIVE_REDUCESCATTER;
    step.count = n / 3;
    step.output = x + n / 3 * (size_t)bed->rank;
    BED_CHECK(bed_step(bed, step) == CRT_OK);
    for (size_t i = n / 3 * (size_t)bed->rank, k = 0; k < n / 3; i++, k++)
        BED_CHECK(x[i] == (float)(i % 1000 * 9));
    free(x);
}

static void values_that_fit_no_buffer_go_round(void **state)
{
    bed_run(3, &crti_backend_ring, much);
}

static void two_levels_give_the_same(void **state)
{
    static const int shapes[][2] = {{4, 2}, {6, 3}, {3, 2}, {7, 3}, {4, 1}, {2, 4}};

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        bed_run_as(&(bed_t){.size = shapes[i][0],
                            .per_node = shapes[i][1],
                            .backend = &crti_backend_two_level},
                   all_kinds, 0);
}

static void it_works_without_encryption(void **state)
{
    bed_run_as(&(bed_t){.size = 3, .backend = &crti_backend_ring, .plain = true},
               all_kinds, 0);
}

/* Thirds are no binary fractions: the order of the sum shows in the last bits. */
static void hash_of_sums(bed_t *bed)
{
    for (size_t c = 1; c < COUNTS; c++) {
        size_t n = counts[c] / 3 + 1;
        float *x = calloc(n, 4);
        crti_step_t step = bed_step_of(CRT_COLLECTIVE_ALLREDUCE, n, x, x);
        uint64_t hash = 1;

        for (size_t i = 0; i < n; i++)
            x[i] = (bed_value(bed->rank, i) + 1) / 3;
        step.reduction = CRT_REDUCE_AVERAGE;
        BED_CHECK(bed_step(bed, step) == CRT_OK);
        for (size_t i = 0; i < n; i++) {
            uint32_t bits;

            memcpy(&bits, &x[i], 4);
            hash = hash * 31 + bits;
        }
        bed_set_word(bed, bed->rank, hash);
        bed_meet(bed);
        BED_CHECK(bed_word(bed, 0) == hash);
        bed_meet(bed);
        free(x);
    }
}

static void sums_are_the_same_to_the_bit_on_all_members(void **state)
{
    bed_run(4, &crti_backend_ring, hash_of_sums);
    bed_run(7, &crti_backend_ring, hash_of_sums);
}

/* ---------------------------------------------------------------- send and receive */

static crt_status_t pass(bed_t *bed, crt_collective_kind_t kind, int peer, float *x,
                         size_t n)
{
    crti_step_t step = bed_step_of(kind, n, kind == CRT_COLLECTIVE_SEND ? x : NULL,
                                   kind == CRT_COLLECTIVE_RECV ? x : NULL);

    step.peer = peer;
    return bed_step(bed, step);
}

static void pairs(bed_t *bed)
{
    static const size_t lengths[] = {0, 1, 256, 257, 16385, 500000};

    for (size_t c = 0; c < sizeof(lengths) / sizeof(lengths[0]); c++) {
        size_t n = lengths[c];
        float *x = bed_values(bed->rank, n, 0), *y = calloc(n + 1, 4);
        int next = (bed->rank + 1) % bed->size,
            before = (bed->rank + bed->size - 1) % bed->size;

        BED_CHECK(pass(bed, CRT_COLLECTIVE_SEND, next, x, n) == CRT_OK);
        BED_CHECK(pass(bed, CRT_COLLECTIVE_RECV, before, y, n) == CRT_OK);
        for (size_t i = 0; i < n; i++)
            BED_CHECK(y[i] == bed_value(before, i));
        bed_check_allreduce(bed, n, true);
        free(x);
        free(y);
    }
}

static void members_that_all_send_first_do_not_wait_for_each_other(void **state)
{
    bed_run(2, &crti_backend_ring, pairs);
    bed_run(4, &crti_backend_ring, pairs);
    bed_run_as(&(bed_t){.size = 4, .per_node = 2, .backend = &crti_backend_two_level},
               pairs, 0);
}

#define LONG 700000

/* To all and from all, begun before an operation of all and ended after it. */
static void across(bed_t *bed)
{
    crti_pair_t going[BED_SIZE], coming[BED_SIZE];
    float *in[BED_SIZE], *out = bed_values(bed->rank, LONG, 0);

    for (int i = 0; i < bed->size; i++) {
        crti_step_t send = bed_step_of(CRT_COLLECTIVE_SEND, LONG, out, NULL);
        crti_step_t receive = bed_step_of(CRT_COLLECTIVE_RECV, LONG, NULL, NULL);

        in[i] = calloc(LONG, sizeof(float));
        send.peer = receive.peer = i;
        receive.output = in[i];
        if (i == bed->rank)
            continue;
        BED_CHECK(bed_post(bed, send, &going[i]) == CRT_OK);
        BED_CHECK(bed_post(bed, receive, &coming[i]) == CRT_OK);
    }
    if (bed->rank % 2) /* these are received before the operation that others are in */
        for (int i = 0; i < bed->size; i++)
            BED_CHECK(i == bed->rank || bed_await(bed, &coming[i]) == CRT_OK);
    bed_check_allreduce(bed, LONG, true);
    bed_check_broadcast(bed, LONG, 0);
    for (int i = bed->size - 1; i >= 0; i--) {
        if (i != bed->rank) {
            BED_CHECK(bed_await(bed, &going[i]) == CRT_OK);
            BED_CHECK(bed_await(bed, &coming[i]) == CRT_OK);
            for (size_t k = 0; k < LONG; k++)
                BED_CHECK(in[i][k] == bed_value(i, k));
        }
        free(in[i]);
    }
    free(out);
}

static void messages_go_on_beside_each_other_and_beside_operations(void **state)
{
    bed_run(2, &crti_backend_ring, across);
    bed_run(4, &crti_backend_ring, across);
    for (int per_node = 1; per_node <= 3; per_node++)
        bed_run_as(
            &(bed_t){.size = 4, .per_node = per_node, .backend = &crti_backend_two_level},
            across, 0);
}

/* Small sends do not wait for their receives, but for a long queue of them. */
static void many_sends(bed_t *bed)
{
    float x[64];

    if (bed->rank == 0)
        for (int i = 0; i < 100; i++) {
            x[0] = (float)i;
            BED_CHECK(pass(bed, CRT_COLLECTIVE_SEND, 1, x, 64) == CRT_OK);
            if (i == 10)
                bed_meet(bed);
        }
    if (bed->rank == 1) {
        bed_meet(bed); /* ten were sent before one was received */
        for (int i = 0; i < 100; i++) {
            BED_CHECK(pass(bed, CRT_COLLECTIVE_RECV, 0, x, 64) == CRT_OK);
            BED_CHECK(x[0] == (float)i);
        }
    }
    bed_check_allreduce(bed, 10, true);
}

static void small_sends_return_before_they_are_received(void **state)
{
    bed_run(2, &crti_backend_ring, many_sends);
}

/* ---------------------------------------------------------------- calls that differ */

static const crti_step_t *odd_step; /* of the last rank; the others: */
static const crti_step_t *even_step;
static const char *expected[3];

static void differ(bed_t *bed)
{
    static float memory[2][300000];
    crti_step_t step = bed->rank == bed->size - 1 ? *odd_step : *even_step;
    uint64_t begin = crti_now_ns();

    bed_check_allreduce(bed, 3, true);
    bed_meet(bed); /* the failure of the next ends the wait for this one, too */
    step.input = memory[0];
    step.output = memory[1];
    BED_CHECK(bed_step(bed, step) == CRT_ERR_INVALID);
    for (int i = 0; i < 3 && expected[i]; i++)
        BED_CHECK(strstr(crt_error_detail(), expected[i]));
    BED_CHECK(crti_now_ns() - begin < 20 * CRTI_S); /* not by the deadline */
    bed_rebuild(bed, 2);
    bed_check_allreduce(bed, 1000, true);
}

static void check_differ(int size, crti_step_t even, crti_step_t odd, const char *one,
                         const char *other)
{
    even_step = &even;
    odd_step = &odd;
    expected[0] = one;
    expected[1] = other;
    bed_run(size, &crti_backend_ring, differ);
}

static crti_step_t call(crt_collective_kind_t kind, size_t count, int peer,
                        crt_reduction_t reduction)
{
    return (crti_step_t){.kind = kind,
                         .dtype = CRT_DTYPE_FLOAT32,
                         .count = count,
                         .peer = peer,
                         .reduction = reduction};
}

static void a_difference_fails_all_members_and_names_both_sides(void **state)
{
    crti_step_t sum = call(CRT_COLLECTIVE_ALLREDUCE, 100, -1, CRT_REDUCE_SUM),
                numbers = sum;
    crti_step_t large = call(CRT_COLLECTIVE_ALLREDUCE, 300000, -1, CRT_REDUCE_SUM);
    crti_step_t barrier = call(CRT_COLLECTIVE_BARRIER, 0, -1, 0);

    numbers.dtype = CRT_DTYPE_INT32;
    check_differ(2, sum, call(CRT_COLLECTIVE_ALLREDUCE, 101, -1, CRT_REDUCE_SUM),
                 "of 100 float32", "of 101 float32");
    check_differ(4, sum, large, "of 100 float32", "of 300000 float32");
    check_differ(4, large, call(CRT_COLLECTIVE_ALLREDUCE, 200000, -1, CRT_REDUCE_SUM),
                 "of 300000", "of 200000");
    check_differ(3, sum, call(CRT_COLLECTIVE_ALLREDUCE, 100, -1, CRT_REDUCE_MAX), "sum",
                 "max");
    check_differ(3, sum, numbers, "float32", "int32");
    check_differ(4, sum, call(CRT_COLLECTIVE_BROADCAST, 100, 0, 0), "allreduce",
                 "broadcast");
    check_differ(4, sum, barrier, "allreduce", "barrier");
    check_differ(7, large, call(CRT_COLLECTIVE_REDUCE, 300000, 1, CRT_REDUCE_SUM),
                 "allreduce", "reduce");
    check_differ(4, call(CRT_COLLECTIVE_BROADCAST, 100, 0, 0),
                 call(CRT_COLLECTIVE_BROADCAST, 100, 3, 0), "root 0", "root 3");
    check_differ(2, call(CRT_COLLECTIVE_BROADCAST, 100, 1, 0),
                 call(CRT_COLLECTIVE_BROADCAST, 100, 0, 0), "root 0", "root 1");
    check_differ(4, call(CRT_COLLECTIVE_REDUCE, 5, 0, CRT_REDUCE_SUM),
                 call(CRT_COLLECTIVE_REDUCE, 6, 0, CRT_REDUCE_SUM), "of 5", "of 6");
    check_differ(4, call(CRT_COLLECTIVE_ALLGATHER, 5, -1, 0),
                 call(CRT_COLLECTIVE_ALLTOALL, 5, -1, 0), "allgather", "alltoall");
    check_differ(4, barrier, call(CRT_COLLECTIVE_ALLGATHER, 0, -1, 0), "barrier",
                 "allgather");
}

static void a_send_that_nobody_can_receive_is_told_at_once(void **state)
{
    crti_step_t sum = call(CRT_COLLECTIVE_ALLREDUCE, 5, -1, CRT_REDUCE_SUM);

    check_differ(2, call(CRT_COLLECTIVE_SEND, 300000, 1, 0), sum, "send", "allreduce");
    check_differ(2, call(CRT_COLLECTIVE_RECV, 5, 1, 0), sum, "recv", "allreduce");
    check_differ(2, call(CRT_COLLECTIVE_RECV, 5, 1, 0),
                 call(CRT_COLLECTIVE_RECV, 5, 0, 0), "from rank 1", "from rank 0");
    check_differ(2, call(CRT_COLLECTIVE_SEND, 200000, 1, 0),
                 call(CRT_COLLECTIVE_RECV, 100000, 0, 0), "of 200000", "of 100000");
}

/* Rank 1 has done its part of an operation and fails before rank 0 has looked at what came. */
static void later(bed_t *bed)
{
    crti_exchange_t *x = ((crti_ring_t *)bed->state)->exchange;
    crti_exchange_call_t call = {.kind = CRT_COLLECTIVE_ALLGATHER,
                                 .dtype = CRT_DTYPE_FLOAT32,
                                 .count = 1,
                                 .peer = -1,
                                 .sequence = 7,
                                 .deadline_ns = crti_now_ns() + 30 * CRTI_S};
    float mine = (float)bed->rank, theirs = -1;
    crti_incoming_t in;

    bed->group->running = call.sequence;
    crti_exchange_begin(x, &call);
    crti_exchange_receive(x, &in, 1 - bed->rank, 0, &theirs, sizeof(theirs));
    crti_exchange_send(x, 1 - bed->rank, 0, &mine, sizeof(mine), NULL);
    bed_meet(bed);
    if (bed->rank == 0)
        bed_meet(bed);
    BED_CHECK(crti_exchange_wait(x, &in) == CRT_OK);
    BED_CHECK(crti_exchange_end(x, CRT_OK) == CRT_OK);
    BED_CHECK(theirs == (float)(1 - bed->rank));
    bed->group->running = 0;
    bed->group->done = call.sequence;
    if (bed->rank == 1) {
        crti_group_fail(bed->group, CRT_ERR_INVALID, 1, "a wrong call (operation 8)");
        crti_exchange_report(x);
        bed_meet(bed);
    }
    bed_meet(bed);
    while (bed->rank == 0 && bed->group->private->later.status == CRT_OK)
        BED_CHECK(crti_links_turn(bed->links, crti_now_ns() + CRTI_S) == CRT_OK ||
                  strstr(crt_error_detail(), "(operation 8)"));
}

static void a_failure_does_not_reach_an_operation_that_was_complete_before(void **state)
{
    bed_run(2, &crti_backend_ring, later);
}

/* The first member to be open fails at once, while others have not looked at the last of what came
 * to open them. */
static void at_once(bed_t *bed)
{
    for (uint64_t incarnation = 2; incarnation < 52; incarnation++) {
        if (bed->rank == 1) {
            crti_group_fail(bed->group, CRT_ERR_INVALID, 1, "a wrong call (operation 1)");
            crti_exchange_report(((crti_ring_t *)bed->state)->exchange);
        }
        bed_meet(bed);
        bed_rebuild(bed, incarnation);
    }
}

static void a_failure_does_not_reach_an_opening_that_was_complete_before(void **state)
{
    bed_run(4, &crti_backend_ring, at_once);
}

/* ---------------------------------------------------------------- deaths */

#define VICTIM 2

/* One is killed in the middle of operations, at a moment of its own. */
static void one_dies(bed_t *bed)
{
    size_t n = (size_t)bed_word(bed, 60);
    uint64_t begin;
    float *x = bed_values(bed->rank, n, 0);
    crti_step_t step = bed_step_of(CRT_COLLECTIVE_ALLREDUCE, n, x, x);
    crt_status_t status = CRT_OK;

    step.reduction = CRT_REDUCE_MAX;
    if (bed->rank == VICTIM) {
        for (int i = 0; i < 20; i++)
            bed_step(bed, step);
        kill(getpid(), SIGKILL);
    }
    do {
        begin = crti_now_ns();
        status = bed_step(bed, step);
    } while (status == CRT_OK);
    BED_CHECK(status == CRT_ERR_ACTOR_DIED);
    BED_CHECK(strstr(crt_error_detail(), "rank 2 (actor "));
    BED_CHECK(crti_now_ns() - begin < 15 * CRTI_S);
    BED_CHECK(bed_step(bed, step) == CRT_ERR_ACTOR_DIED);
    free(x);
}

static bed_member_t *with_length_of;
static uint64_t length;

static void with_length(bed_t *bed)
{
    bed_set_word(bed, 60, length);
    with_length_of(bed);
}

static void a_death_ends_the_operation_of_all_and_names_the_dead(void **state)
{
    static const uint64_t lengths[] = {1, 5000, 2000000};

    with_length_of = one_dies;
    for (size_t i = 0; i < 3; i++) {
        length = lengths[i];
        bed_run_as(&(bed_t){.size = 4, .backend = &crti_backend_ring}, with_length,
                   1u << VICTIM);
    }
}

/* A member that does not come, and one that stops reading in the middle of a large one. */
static void one_stays_away(bed_t *bed)
{
    size_t n = (size_t)bed_word(bed, 60);
    float *x = bed_values(bed->rank, n, 0);
    crti_step_t step = bed_step_of(CRT_COLLECTIVE_ALLREDUCE, n, x, x);

    step.reduction = CRT_REDUCE_SUM;
    bed_check_allreduce(bed, 10, true);
    if (bed->rank != VICTIM) {
        step.deadline_ns = crti_now_ns() + 700 * CRTI_MS;
        BED_CHECK(bed_step(bed, step) == CRT_ERR_TIMED_OUT);
        BED_CHECK(strstr(crt_error_detail(), "rank 2 (actor "));
        BED_CHECK(strstr(crt_error_detail(), "allreduce of"));
        BED_CHECK(strstr(crt_error_detail(), "(operation 2)"));
    }
    bed_meet(bed);
    bed_rebuild(bed, 2);
    bed_check_allreduce(bed, n, true);
    free(x);
}

static void a_member_that_does_not_come_is_named_at_the_deadline(void **state)
{
    static const uint64_t lengths[] = {1, 5000, 4000000};

    with_length_of = one_stays_away;
    for (size_t i = 0; i < 3; i++) {
        length = lengths[i];
        bed_run_as(&(bed_t){.size = 3, .backend = &crti_backend_ring}, with_length, 0);
    }
}

/* The group fails elsewhere (a death notice) while this member waits. */
static void *fail_soon(void *argument)
{
    bed_t *bed = argument;
    struct timespec moment = {0, 100000000};

    nanosleep(&moment, NULL);
    crti_group_fail(bed->group, CRT_ERR_NODE_LOST, 1, "node of rank 1 is silent");
    return NULL;
}

static void told_elsewhere(bed_t *bed)
{
    float x = 1;
    crti_step_t step = bed_step_of(CRT_COLLECTIVE_ALLREDUCE, 1, &x, &x);
    uint64_t begin = crti_now_ns();
    pthread_t thread;

    step.reduction = CRT_REDUCE_SUM;
    if (bed->rank == 1) {
        bed_meet(bed); /* it does not take part */
        return;
    }
    if (bed->rank == 0)
        BED_CHECK(pthread_create(&thread, NULL, fail_soon, bed) == 0);
    BED_CHECK(bed_step(bed, step) == CRT_ERR_NODE_LOST); /* rank 2: told by rank 0 */
    BED_CHECK(strstr(crt_error_detail(), "is silent"));
    BED_CHECK(crti_now_ns() - begin < 20 * CRTI_S);
    if (bed->rank == 0)
        pthread_join(thread, NULL);
    bed_meet(bed);
}

static void a_notice_of_the_runtime_ends_the_wait_of_all(void **state)
{
    bed_run(3, &crti_backend_ring, told_elsewhere);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_gives_what_it_says_for_every_size),
        cmocka_unit_test(values_that_fit_no_buffer_go_round),
        cmocka_unit_test(two_levels_give_the_same),
        cmocka_unit_test(it_works_without_encryption),
        cmocka_unit_test(sums_are_the_same_to_the_bit_on_all_members),
        cmocka_unit_test(members_that_all_send_first_do_not_wait_for_each_other),
        cmocka_unit_test(messages_go_on_beside_each_other_and_beside_operations),
        cmocka_unit_test(small_sends_return_before_they_are_received),
        cmocka_unit_test(a_difference_fails_all_members_and_names_both_sides),
        cmocka_unit_test(a_send_that_nobody_can_receive_is_told_at_once),
        cmocka_unit_test(a_failure_does_not_reach_an_operation_that_was_complete_before),
        cmocka_unit_test(a_failure_does_not_reach_an_opening_that_was_complete_before),
        cmocka_unit_test(a_death_ends_the_operation_of_all_and_names_the_dead),
        cmocka_unit_test(a_member_that_does_not_come_is_named_at_the_deadline),
        cmocka_unit_test(a_notice_of_the_runtime_ends_the_wait_of_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
