/* SPDX-License-Identifier: Apache-2.0 */
/* The algorithms of collectives between nodes: each one of the table by force, the choice by cost,
 * and what CRT_COLLECTIVE_ALGORITHM may say. */
#include <stdlib.h>

#include "collective/backends/algorithms.h"
#include "collective/operation_signature.h"
#include "ring_bed.h"
#include "ring_checks.h"

static crti_ring_job_t job_of(bed_t *bed, crti_ring_t *ring, crt_collective_kind_t kind,
                              size_t count)
{
    *ring = (crti_ring_t){.group = bed->group, .size = bed->size, .rank = bed->rank};
    return (crti_ring_job_t){.ring = ring,
                             .kind = kind,
                             .dtype = CRT_DTYPE_FLOAT32,
                             .element = sizeof(float),
                             .count = count};
}

/* ---------------------------------------------------------------- by force */

static void force(bed_t *bed, const crti_algorithm_t *algorithm)
{
    memset(bed->group->forced, 0, sizeof(bed->group->forced));
    if (algorithm)
        bed->group->forced[algorithm->kind] = algorithm;
}

static const size_t counts[] = {0, 1, 2, 7, 31, 1000, 40003, 150001};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))

/* Counts that it can't do are refused in a test of their own. */
static void each_by_force(bed_t *bed)
{
    for (int i = 0; crti_algorithms[i]; i++) {
        const crti_algorithm_t *a = crti_algorithms[i];

        force(bed, a);
        for (size_t c = 0; c < COUNTS; c++) {
            crti_ring_t ring;
            crti_ring_job_t job = job_of(bed, &ring, a->kind, counts[c]);

            if (counts[c] && a->unfit && a->unfit(&job))
                continue;
            bed_check(bed, a->kind, counts[c], (int)c % bed->size, c % 2);
        }
    }
}

static void every_algorithm_gives_what_its_operation_says(void **state)
{
    static const int sizes[] = {2, 3, 4, 7};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        bed_run(sizes[i], &crti_backend_ring, each_by_force);
}

static void every_algorithm_works_between_nodes_of_several_members(void **state)
{
    bed_run_as(&(bed_t){.size = 4, .per_node = 2, .backend = &crti_backend_two_level},
               each_by_force, 0);
    bed_run_as(&(bed_t){.size = 5, .per_node = 2, .backend = &crti_backend_two_level},
               each_by_force, 0);
}

/* ---------------------------------------------------------------- the same bits */

static void fill(bed_t *bed, crt_dtype_t dtype, void *memory, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float third = (bed_value(bed->rank, i) + 1) / 3;
        uint32_t bits;

        memcpy(&bits, &third, sizeof(bits));
        if (dtype == CRT_DTYPE_FLOAT32)
            ((float *)memory)[i] = third;
        else
            ((uint16_t *)memory)[i] = (uint16_t)(bits >> 16); /* bfloat16 */
    }
}

/* What an operation of `n` elements of the unit gives here, as a number. */
static uint64_t result(bed_t *bed, const crti_algorithm_t *a, crt_dtype_t dtype,
                       crt_reduction_t reduction, size_t n)
{
    size_t size = crt_dtype_size(dtype), all = n * (size_t)bed->size;
    unsigned char *in = calloc(all, size), *out = calloc(n, size);
    crti_step_t step = bed_step_of(a->kind, n, in, out);
    uint64_t hash = 1;

    fill(bed, dtype, in, all);
    step.dtype = dtype;
    step.reduction = reduction;
    if (a->kind == CRT_COLLECTIVE_REDUCE) {
        step.peer = 1;
        step.output = bed->rank == 1 ? out : NULL;
    }
    force(bed, a);
    BED_CHECK(bed_step(bed, step) == CRT_OK);
    for (size_t i = 0; i < n * size; i++)
        hash = hash * 31 + out[i];
    free(in);
    free(out);
    return hash;
}

/* All algorithms of the operation, beside the first. */
static void compare(bed_t *bed, crt_collective_kind_t kind, crt_dtype_t dtype,
                    crt_reduction_t reduction, size_t n)
{
    const crti_algorithm_t *first = NULL;
    uint64_t expected = 0, here;

    for (int i = 0; crti_algorithms[i]; i++) {
        const crti_algorithm_t *a = crti_algorithms[i];
        crti_ring_t ring;
        crti_ring_job_t job = job_of(bed, &ring, kind, n);

        job.dtype = dtype;
        if (a->kind != kind || (a->unfit && a->unfit(&job)))
            continue;
        here = result(bed, a, dtype, reduction, n);
        if (!first)
            expected = here;
        if (here != expected)
            fprintf(stderr, "%s by %s and by %s differ\n", crti_operation_kind_name(kind),
                    a->name, first->name);
        BED_CHECK(here == expected);
        first = first ? first : a;
    }
}

static void every_sum(bed_t *bed)
{
    static const size_t lengths[] = {1, 5, 1001, 70001};
    static const crt_collective_kind_t kinds[] = {
        CRT_COLLECTIVE_ALLREDUCE, CRT_COLLECTIVE_REDUCE, CRT_COLLECTIVE_REDUCESCATTER};
    static const crt_reduction_t reductions[] = {CRT_REDUCE_SUM, CRT_REDUCE_PRODUCT,
                                                 CRT_REDUCE_AVERAGE};

    for (size_t k = 0; k < 3; k++)
        for (size_t r = 0; r < 3; r++)
            for (size_t c = 0; c < 4; c++) {
                compare(bed, kinds[k], CRT_DTYPE_FLOAT32, reductions[r], lengths[c]);
                compare(bed, kinds[k], CRT_DTYPE_BFLOAT16, reductions[r], lengths[c]);
            }
}

static void all_algorithms_of_an_operation_give_the_same_bits(void **state)
{
    bed_run(3, &crti_backend_ring, every_sum);
    bed_run(5, &crti_backend_ring, every_sum);
}

/* ---------------------------------------------------------------- what can't be done */

/* An operation that `a` can't do; false: there is none. */
static bool find_unfit(bed_t *bed, const crti_algorithm_t *a, crti_step_t *step)
{
    static const crt_dtype_t dtypes[] = {CRT_DTYPE_FLOAT32, CRT_DTYPE_FLOAT16};
    static float memory[2][300];

    for (int d = 0; d < 2; d++)
        for (size_t n = 1; n < 100; n += 70) {
            crti_ring_t ring;
            crti_ring_job_t job = job_of(bed, &ring, a->kind, n);

            job.dtype = dtypes[d];
            if (!a->unfit || !a->unfit(&job))
                continue;
            *step = bed_step_of(a->kind, n, memory[0], memory[1]);
            step->dtype = dtypes[d];
            step->reduction = CRT_REDUCE_SUM;
            step->peer = a->kind == CRT_COLLECTIVE_REDUCE ? 0 : -1;
            return true;
        }
    return false;
}

static void refused(bed_t *bed)
{
    uint64_t incarnation = 1;
    int refusals = 0;

    for (int i = 0; crti_algorithms[i]; i++) {
        const crti_algorithm_t *a = crti_algorithms[i];
        crti_step_t step;

        if (!find_unfit(bed, a, &step))
            continue;
        force(bed, a);
        BED_CHECK(bed_step(bed, step) == CRT_ERR_UNSUPPORTED);
        BED_CHECK(strstr(crt_error_detail(), "CRT_COLLECTIVE_ALGORITHM"));
        BED_CHECK(strstr(crt_error_detail(), a->name));
        bed_meet(bed);
        bed_rebuild(bed, ++incarnation);
        bed_check_allreduce(bed, 1000, true);
        refusals++;
    }
    BED_CHECK(refusals);
}

static void
an_algorithm_that_can_not_do_it_fails_all_members_with_the_reason(void **state)
{
    bed_run(3, &crti_backend_ring, refused);
}

/* ---------------------------------------------------------------- who does not come */

#define ABSENT 2

static void one_absent(bed_t *bed)
{
    static float memory[2][4000];
    uint64_t incarnation = 1;

    for (int i = 0; crti_algorithms[i]; i++) {
        const crti_algorithm_t *a = crti_algorithms[i];
        crti_step_t step = bed_step_of(a->kind, 1000, memory[0], memory[1]);

        step.reduction = CRT_REDUCE_SUM;
        if (a->kind == CRT_COLLECTIVE_REDUCE || a->kind == CRT_COLLECTIVE_BROADCAST)
            step.peer = 0;
        force(bed, a);
        bed_check(bed, a->kind, 1000, 0, false);
        bed_meet(bed);
        if (bed->rank != ABSENT) {
            step.deadline_ns = crti_now_ns() + 300 * CRTI_MS;
            BED_CHECK(bed_step(bed, step) == CRT_ERR_TIMED_OUT);
            if (!strstr(crt_error_detail(), "waited too long for rank 2 (actor "))
                fprintf(stderr, "%s by %s\n", crti_operation_kind_name(a->kind), a->name);
            BED_CHECK(strstr(crt_error_detail(), "waited too long for rank 2 (actor "));
        }
        bed_meet(bed);
        bed_rebuild(bed, ++incarnation);
    }
}

static void a_member_that_does_not_come_is_named_whatever_the_algorithm(void **state)
{
    bed_run(4, &crti_backend_ring, one_absent);
}

/* ---------------------------------------------------------------- the costs of links */

static void agreed(bed_t *bed)
{
    const crti_ring_costs_t *costs = &((crti_ring_t *)bed->state)->costs;
    double mine[5] = {costs->hop_ns, costs->message_ns, costs->byte_ns,
                      costs->lone_step_ns, costs->lone_byte_ns};

    for (int i = 0; i < 5; i++) {
        uint64_t bits;

        memcpy(&bits, &mine[i], sizeof(bits));
        bed_set_word(bed, bed->rank, bits);
        bed_meet(bed);
        BED_CHECK(bed_word(bed, 0) == bits);
        BED_CHECK(mine[i] > 0 && mine[i] < 1e10);
        bed_meet(bed);
    }
}

static void members_agree_on_what_their_links_cost(void **state)
{
    bed_run(2, &crti_backend_ring, agreed);
    bed_run(5, &crti_backend_ring, agreed);
}

static const char *chosen(int size, crti_ring_costs_t costs, crt_collective_kind_t kind,
                          crt_dtype_t dtype, size_t bytes)
{
    crt_group_t *group = calloc(1, sizeof(*group));
    bed_t bed = {.size = size, .group = group};
    crti_ring_t ring;
    crti_ring_job_t job =
        job_of(&bed, &ring, kind, bytes ? bytes / crt_dtype_size(dtype) : 0);
    const crti_algorithm_t *a;

    ring.costs = costs;
    job.dtype = dtype;
    job.element = crt_dtype_size(dtype);
    assert_non_null(group);
    assert_int_equal(crti_algorithm_choose(&job, &a), CRT_OK);
    assert_non_null(a);
    free(group);
    return a->name;
}

#define ALLREDUCE CRT_COLLECTIVE_ALLREDUCE, CRT_DTYPE_FLOAT32

/* 1 Gbit/s and steps of 75 us; the same steps at 20 times the bytes; a far link; members that share
 * processors. */
static void the_choice_follows_the_costs_of_the_links(void **state)
{
    const crti_ring_costs_t slow = {25000, 50000, 8, 75000, 8},
                            fast = {25000, 50000, 0.4, 75000, 0.4},
                            far = {10e6, 5000, 8, 10e6, 8},
                            crowded = {100000, 200000, 8, 40000, 1};

    assert_string_equal(chosen(16, slow, ALLREDUCE, 4), "bruck");
    assert_string_equal(chosen(16, slow, ALLREDUCE, 4 << 20), "ring");
    assert_string_equal(chosen(4, slow, ALLREDUCE, 40 << 10), "ring");
    assert_string_equal(chosen(4, fast, ALLREDUCE, 40 << 10), "gather");
    assert_string_equal(chosen(16, far, ALLREDUCE, 4 << 10), "gather");
    assert_string_equal(chosen(16, far, ALLREDUCE, 1 << 20), "direct");
    assert_string_equal(chosen(16, crowded, ALLREDUCE, 4 << 10), "tree");
    assert_string_equal(chosen(16, crowded, ALLREDUCE, 4 << 20), "ring");
    assert_string_equal(chosen(16, slow, CRT_COLLECTIVE_BROADCAST, CRT_DTYPE_FLOAT32, 64),
                        "tree");
    assert_string_equal(
        chosen(16, slow, CRT_COLLECTIVE_BROADCAST, CRT_DTYPE_FLOAT32, 16 << 20), "chain");
}

static void every_operation_has_an_algorithm_for_every_type_and_size(void **state)
{
    const crti_ring_costs_t costs = {25000, 50000, 8, 75000, 8};
    static const size_t bytes[] = {16, 4096, 64 << 20};

    for (int kind = CRT_COLLECTIVE_ALLREDUCE; kind <= CRT_COLLECTIVE_BARRIER; kind++)
        for (int dtype = CRT_DTYPE_FLOAT32; dtype <= CRT_DTYPE_UINT64; dtype++)
            for (int size = 2; size <= 64; size *= 2)
                for (size_t b = 0; b < 3; b++)
                    if (kind != CRT_COLLECTIVE_SEND && kind != CRT_COLLECTIVE_RECV)
                        assert_non_null(chosen(size, costs, (crt_collective_kind_t)kind,
                                               (crt_dtype_t)dtype, bytes[b]));
}

/* ---------------------------------------------------------------- the environment */

static const crti_algorithm_t *forced[CRTI_GROUP_KINDS];

static void every_algorithm_can_be_named(void **state)
{
    char text[80];

    for (int i = 0; crti_algorithms[i]; i++) {
        const crti_algorithm_t *a = crti_algorithms[i];

        snprintf(text, sizeof(text), "%s:%s", crti_operation_kind_name((int32_t)a->kind),
                 a->name);
        assert_int_equal(crti_algorithms_parse(text, forced), CRT_OK);
        for (int kind = 0; kind < CRTI_GROUP_KINDS; kind++)
            assert_ptr_equal(forced[kind], kind == (int)a->kind ? a : NULL);
    }
    assert_int_equal(crti_algorithms_parse("allreduce:ring,broadcast:tree", forced),
                     CRT_OK);
    assert_string_equal(forced[CRT_COLLECTIVE_ALLREDUCE]->name, "ring");
    assert_string_equal(forced[CRT_COLLECTIVE_BROADCAST]->name, "tree");
    assert_int_equal(crti_algorithms_parse("", forced), CRT_OK);
    assert_null(forced[CRT_COLLECTIVE_ALLREDUCE]);
}

static void expect_refusal(const char *text, const char *words)
{
    assert_int_equal(crti_algorithms_parse(text, forced), CRT_ERR_INVALID);
    if (!strstr(crt_error_detail(), words))
        fail_msg("\"%s\": %s", text, crt_error_detail());
}

static void a_wrong_name_is_told_with_the_nearest_one_and_the_list(void **state)
{
    expect_refusal("allreduce:rnig", "did you mean \"ring\"?");
    expect_refusal("allreduce:rnig", "\"bruck\" (");
    expect_refusal("allreduce:zzzzzzzzz", "has no algorithm \"zzzzzzzzz\"; it has");
    expect_refusal("allreduce:", "has no algorithm \"\"; it has");
    expect_refusal("alreduce:ring", "did you mean \"allreduce\"?");
    expect_refusal("send:ring", "there is no operation \"send\"");
    expect_refusal("ring", "\"ring\" is not OPERATION:ALGORITHM");
    expect_refusal("allreduce:ring,,broadcast:tree", "\"\" is not OPERATION:ALGORITHM");
    expect_refusal("allreduce:ring,allreduce:bruck", "allreduce is there twice");
    expect_refusal("allreduce:"
                   "ringringringringringringringringringringringringringringringring",
                   "is not OPERATION:ALGORITHM");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_gives_what_its_operation_says),
        cmocka_unit_test(every_algorithm_works_between_nodes_of_several_members),
        cmocka_unit_test(all_algorithms_of_an_operation_give_the_same_bits),
        cmocka_unit_test(
            an_algorithm_that_can_not_do_it_fails_all_members_with_the_reason),
        cmocka_unit_test(a_member_that_does_not_come_is_named_whatever_the_algorithm),
        cmocka_unit_test(members_agree_on_what_their_links_cost),
        cmocka_unit_test(the_choice_follows_the_costs_of_the_links),
        cmocka_unit_test(every_operation_has_an_algorithm_for_every_type_and_size),
        cmocka_unit_test(every_algorithm_can_be_named),
        cmocka_unit_test(a_wrong_name_is_told_with_the_nearest_one_and_the_list),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
