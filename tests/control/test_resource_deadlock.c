/* SPDX-License-Identifier: Apache-2.0 */
/* Which jobs are stuck: cases, and random clusters compared with all subsets of their jobs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/control/resource_deadlock.h"

#define NODES    3
#define JOBS     6
#define REQUESTS 2
#define BUNDLES  2
#define SEEDS    10000

/* A cluster with one or two resources, and jobs that hold some and ask for more. */
typedef struct cluster {
    crti_placement_node_t nodes[NODES];
    crti_resources_t total[NODES], available[NODES];
    size_t node_count;
    crti_stuck_job_t jobs[JOBS];
    crti_stuck_part_t parts[JOBS][NODES];
    crti_stuck_request_t requests[JOBS][REQUESTS];
    crti_bundle_choice_t bundles[JOBS][REQUESTS][BUNDLES];
    crti_resources_t needs[JOBS][REQUESTS][BUNDLES];
    size_t awaits[JOBS][2];
    size_t job_count;
} cluster_t;

static crti_resources_t some(const char *name, int64_t amount)
{
    crti_resources_t r = {.count = 0};

    crti_resources_set(&r, name, amount * CRTI_RESOURCE_ONE);
    return r;
}

static void add_node(cluster_t *c, int64_t cpus, int64_t gpus)
{
    size_t i = c->node_count++;

    c->total[i] = some("CPU", cpus);
    crti_resources_set(&c->total[i], "GPU", gpus * CRTI_RESOURCE_ONE);
    c->nodes[i] = (crti_placement_node_t){.node = {0, i + 1},
                                          .labels = "",
                                          .total = &c->total[i],
                                          .available = &c->available[i]};
}

static size_t add_job(cluster_t *c)
{
    size_t i = c->job_count++;

    c->jobs[i] = (crti_stuck_job_t){
        .requests = c->requests[i], .parts = c->parts[i], .awaits = c->awaits[i]};
    return i;
}

static void hold(cluster_t *c, size_t job, size_t node, const char *name, int64_t amount)
{
    c->parts[job][c->jobs[job].part_count++] =
        (crti_stuck_part_t){node, some(name, amount)};
}

static void want(cluster_t *c, size_t job, size_t bundles, const char *name,
                 int64_t amount)
{
    size_t k = c->jobs[job].request_count++;

    for (size_t i = 0; i < bundles; i++) {
        c->needs[job][k][i] = some(name, amount);
        c->bundles[job][k][i] = (crti_bundle_choice_t){
            .need = &c->needs[job][k][i], .how = &crti_scheduling_default, .node = -1};
    }
    c->requests[job][k] =
        (crti_stuck_request_t){c->bundles[job][k], bundles, CRTI_PLACEMENT_PACK};
}

static size_t find(cluster_t *c)
{
    return crti_resource_deadlock_find(c->nodes, c->available, c->node_count, c->jobs,
                                       c->job_count);
}

/* Two drivers that hold 2 of 4 CPUs each, and want a third one. */
static cluster_t two_drivers(void)
{
    cluster_t c = {.node_count = 0};

    add_node(&c, 4, 0);
    for (int i = 0; i < 2; i++) {
        size_t job = add_job(&c);

        hold(&c, job, 0, "CPU", 2);
        want(&c, job, 1, "CPU", 1);
    }
    return c;
}

static void repoint(cluster_t *c)
{
    for (size_t i = 0; i < c->node_count; i++) {
        c->nodes[i].total = &c->total[i];
        c->nodes[i].available = &c->available[i];
    }
    for (size_t i = 0; i < c->job_count; i++) {
        c->jobs[i].requests = c->requests[i];
        c->jobs[i].parts = c->parts[i];
        c->jobs[i].awaits = c->awaits[i];
        for (size_t k = 0; k < c->jobs[i].request_count; k++) {
            c->requests[i][k].bundles = c->bundles[i][k];
            for (size_t b = 0; b < c->requests[i][k].bundle_count; b++)
                c->bundles[i][k][b].need = &c->needs[i][k][b];
        }
    }
}

static void two_that_hold_all_and_want_more_are_stuck(void **state)
{
    cluster_t c = two_drivers();

    repoint(&c);
    assert_int_equal(find(&c), 2);
    assert_true(c.jobs[0].is_stuck && c.jobs[1].is_stuck);
}

static void nobody_is_stuck_while_one_of_them_runs(void **state)
{
    cluster_t c = two_drivers();

    repoint(&c);
    c.jobs[1].may_go_on = true;
    assert_int_equal(find(&c), 0);
}

static void nobody_is_stuck_while_a_cpu_is_free(void **state)
{
    cluster_t c = two_drivers();

    add_node(&c, 1, 0);
    repoint(&c);
    assert_int_equal(find(&c), 0);
}

static void a_node_that_is_too_small_helps_nobody(void **state)
{
    cluster_t c = {.node_count = 0};

    add_node(&c, 4, 0);
    add_node(&c, 1, 0);
    for (int i = 0; i < 2; i++) {
        size_t job = add_job(&c);

        hold(&c, job, 0, "CPU", 2);
        want(&c, job, 1, "CPU", 2);
    }
    assert_int_equal(find(&c), 2);
}

static void a_group_whose_bundles_fit_one_by_one_only_is_stuck(void **state)
{
    cluster_t c = {.node_count = 0};

    add_node(&c, 5, 0);
    for (int i = 0; i < 4; i++) {
        size_t job = add_job(&c);

        hold(&c, job, 0, "CPU", 1);
        want(&c, job, 2, "CPU", 1);
    }
    assert_int_equal(find(&c), 4);
}

static void one_that_waits_for_what_only_itself_holds_is_stuck(void **state)
{
    cluster_t c = {.node_count = 0};
    size_t job;

    add_node(&c, 4, 0);
    job = add_job(&c);
    hold(&c, job, 0, "CPU", 4);
    want(&c, job, 1, "CPU", 1);
    assert_int_equal(find(&c), 1);
}

static void what_no_node_has_is_no_deadlock(void **state)
{
    cluster_t c = two_drivers();

    repoint(&c);
    c.needs[0][0][0] = some("CPU", 5);
    assert_int_equal(find(&c), 0);
}

static void who_awaits_a_job_that_goes_on_is_not_stuck(void **state)
{
    cluster_t c = two_drivers();
    size_t service = add_job(&c);

    repoint(&c);
    c.jobs[0].awaits = (const size_t[]){service};
    c.jobs[0].await_count = 1;
    assert_int_equal(find(&c), 0);
}

static void who_only_waits_is_stuck_with_those_that_hold(void **state)
{
    cluster_t c = two_drivers();
    size_t victim = add_job(&c);

    want(&c, victim, 1, "CPU", 1);
    repoint(&c);
    assert_int_equal(find(&c), 3);
}

/* ---------------------------------------------------------------- by force */

typedef struct force {
    const cluster_t *c;
    int64_t room[NODES][2];
} force_t;

static const char *const names[2] = {"CPU", "GPU"};

static bool place_from(force_t *f, const crti_stuck_request_t *request, size_t at)
{
    if (at == request->bundle_count)
        return true;
    for (size_t n = 0; n < f->c->node_count; n++) {
        bool fits = true, found;

        for (int r = 0; r < 2; r++) {
            f->room[n][r] -= crti_resources_get(request->bundles[at].need, names[r]);
            fits &= f->room[n][r] >= 0 ||
                    crti_resources_get(request->bundles[at].need, names[r]) == 0;
        }
        found = fits && place_from(f, request, at + 1);
        for (int r = 0; r < 2; r++)
            f->room[n][r] += crti_resources_get(request->bundles[at].need, names[r]);
        if (found)
            return true;
    }
    return false;
}

/* Whether the request has room when exactly the jobs of `set` hold what they hold. */
static bool has_room(const cluster_t *c, unsigned set,
                     const crti_stuck_request_t *request)
{
    force_t f = {.c = c};

    for (size_t n = 0; n < c->node_count; n++)
        for (int r = 0; r < 2; r++)
            f.room[n][r] = crti_resources_get(&c->total[n], names[r]);
    for (size_t j = 0; j < c->job_count; j++)
        for (size_t p = 0; (set >> j & 1) && p < c->jobs[j].part_count; p++)
            for (int r = 0; r < 2; r++)
                f.room[c->jobs[j].parts[p].node][r] -=
                    crti_resources_get(&c->jobs[j].parts[p].held, names[r]);
    return place_from(&f, request, 0);
}

/* None of them can go on while the others of the set hold what they have. */
static bool is_closed(const cluster_t *c, unsigned set)
{
    for (size_t j = 0; j < c->job_count; j++) {
        const crti_stuck_job_t *job = &c->jobs[j];

        if (!(set >> j & 1))
            continue;
        if (job->may_go_on || job->request_count == 0)
            return false;
        for (size_t k = 0; k < job->request_count; k++)
            if (has_room(c, set, &job->requests[k]) || !has_room(c, 0, &job->requests[k]))
                return false;
        for (size_t k = 0; k < job->await_count; k++)
            if (!(set >> job->awaits[k] & 1))
                return false;
    }
    return true;
}

static unsigned find_by_force(const cluster_t *c)
{
    unsigned all = 0;

    for (unsigned set = 1; set < 1u << c->job_count; set++)
        if (is_closed(c, set))
            all |= set;
    return all;
}

static uint64_t random_state;

static unsigned below(unsigned n)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % n;
}

static void fill(cluster_t *c)
{
    int64_t left[NODES];

    for (unsigned i = 1 + below(NODES); i > 0; i--)
        add_node(c, 1 + below(4), below(3));
    for (size_t i = 0; i < c->node_count; i++)
        left[i] = crti_resources_get(&c->total[i], "CPU") / CRTI_RESOURCE_ONE;
    for (unsigned i = 2 + below(JOBS - 1); i > 0; i--) {
        size_t job = add_job(c);

        c->jobs[job].may_go_on = below(8) == 0;
        for (size_t n = 0; n < c->node_count; n++) {
            int64_t part = below((unsigned)left[n] + 1);

            left[n] -= part;
            if (part)
                hold(c, job, n, "CPU", part);
        }
        for (unsigned k = below(8) ? 1 + below(REQUESTS) : 0; k > 0; k--)
            want(c, job, 1 + below(BUNDLES), below(6) ? "CPU" : "GPU", 1 + below(3));
    }
    for (size_t j = 0; j < c->job_count; j++)
        if (below(6) == 0)
            c->awaits[j][c->jobs[j].await_count++] = below((unsigned)c->job_count);
}

static void ten_thousand_random_clusters_agree_with_all_subsets_tried(void **state)
{
    unsigned found = 0;

    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        cluster_t c = {.node_count = 0};
        unsigned stuck = 0;
        size_t count;

        random_state = seed;
        fill(&c);
        count = find(&c);
        for (size_t j = 0; j < c.job_count; j++)
            stuck |= (unsigned)c.jobs[j].is_stuck << j;
        if (stuck != find_by_force(&c))
            fail_msg("seed %u: %x are said to be stuck, and %x are", seed, stuck,
                     find_by_force(&c));
        assert_int_equal(count, (size_t)__builtin_popcount(stuck));
        found += stuck != 0;
    }
    assert_in_range(found, SEEDS / 20, SEEDS - SEEDS / 20); /* both come often */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_that_hold_all_and_want_more_are_stuck),
        cmocka_unit_test(nobody_is_stuck_while_one_of_them_runs),
        cmocka_unit_test(nobody_is_stuck_while_a_cpu_is_free),
        cmocka_unit_test(a_node_that_is_too_small_helps_nobody),
        cmocka_unit_test(a_group_whose_bundles_fit_one_by_one_only_is_stuck),
        cmocka_unit_test(one_that_waits_for_what_only_itself_holds_is_stuck),
        cmocka_unit_test(what_no_node_has_is_no_deadlock),
        cmocka_unit_test(who_awaits_a_job_that_goes_on_is_not_stuck),
        cmocka_unit_test(who_only_waits_is_stuck_with_those_that_hold),
        cmocka_unit_test(ten_thousand_random_clusters_agree_with_all_subsets_tried),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
