/* SPDX-License-Identifier: Apache-2.0 */
/* The index of nodes finds what a walk over all of them finds, and looks at few. The linker gives
 * us the looks, to count them. */
#include "runtime/control/placement/placement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/list.h"

#define NODES_MAX 8000

typedef struct machine {
    crti_resources_t total, available;
    char labels[64];
    crti_placement_node_t node;
    crti_placement_slot_t slot;
    bool is_in;
} machine_t;

typedef struct cluster {
    crti_placement_index_t index;
    machine_t *machines;
    size_t count;
    uint64_t random;
} cluster_t;

/* ---------------------------------------------------------------- looks */

bool __real_crti_resources_fit(const crti_resources_t *have,
                               const crti_resources_t *need);
bool __wrap_crti_resources_fit(const crti_resources_t *have,
                               const crti_resources_t *need);
int64_t __real_crti_resource_part_in_use(int64_t total, int64_t available, int64_t need,
                                         int64_t scale);
int64_t __wrap_crti_resource_part_in_use(int64_t total, int64_t available, int64_t need,
                                         int64_t scale);

static size_t looks; /* at nodes, and at summaries */

bool __wrap_crti_resources_fit(const crti_resources_t *have, const crti_resources_t *need)
{
    looks++;
    return __real_crti_resources_fit(have, need);
}

int64_t __wrap_crti_resource_part_in_use(int64_t total, int64_t available, int64_t need,
                                         int64_t scale)
{
    looks++;
    return __real_crti_resource_part_in_use(total, available, need, scale);
}

/* ---------------------------------------------------------------- clusters */

static uint64_t draw(cluster_t *c, uint64_t below)
{
    c->random = c->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (c->random >> 33) % below;
}

static void tell(cluster_t *c, machine_t *m)
{
    m->node.labels = m->labels;
    m->node.total = &m->total;
    m->node.available = &m->available;
    m->is_in = true;
    crti_placement_index_set(&c->index, &m->slot, &m->node);
}

static void make_cluster(cluster_t *c, size_t count, uint64_t seed)
{
    *c = (cluster_t){.count = count, .random = seed};
    c->machines = calloc(count, sizeof(*c->machines));
    assert_non_null(c->machines);
    for (size_t i = 0; i < count; i++)
        c->machines[i].node.node = (crti_id_t){(i + 1) << 16, draw(c, 1 << 20)};
}

static void draw_machine(cluster_t *c, machine_t *m)
{
    static const int64_t cpus[] = {4, 8, 8, 8, 64};
    char name[CRTI_RESOURCE_NAME];

    m->total.count = 0;
    crti_resources_set(&m->total, "CPU", cpus[draw(c, 5)] * CRTI_RESOURCE_ONE);
    if (draw(c, 3) == 0)
        crti_resources_set(&m->total, "GPU",
                           (int64_t)(1 + draw(c, 4)) * CRTI_RESOURCE_ONE);
    crti_resources_set(&m->total, "memory", (int64_t)(1 + draw(c, 1000)) << 32);
    for (uint64_t i = draw(c, 3); i; i--) { /* more names than summaries tell of */
        snprintf(name, sizeof(name), "kind-%u", (unsigned)draw(c, 12));
        crti_resources_set(&m->total, name, CRTI_RESOURCE_ONE);
    }
    snprintf(name, sizeof(name), "node:10.0.0.%u", (unsigned)(m - c->machines));
    crti_resources_set(&m->total, name, CRTI_RESOURCE_ONE);
    m->available = m->total;
    for (unsigned i = 0; i < m->available.count; i++)
        m->available.item[i].amount -=
            m->available.item[i].amount / 8 * (int64_t)draw(c, 10);
    m->node.idle_actors = (unsigned)draw(c, 20);
    snprintf(m->labels, sizeof(m->labels), "zone=%c,rack=r%u", (char)('a' + draw(c, 3)),
             (unsigned)draw(c, 20));
}

static crti_resources_t draw_need(cluster_t *c)
{
    crti_resources_t need = {0};
    char name[CRTI_RESOURCE_NAME];

    if (draw(c, 4))
        crti_resources_set(&need, "CPU", (int64_t)draw(c, 9) * CRTI_RESOURCE_ONE / 2);
    if (draw(c, 4) == 0)
        crti_resources_set(&need, "GPU", (int64_t)draw(c, 3) * CRTI_RESOURCE_ONE);
    if (draw(c, 3) == 0)
        crti_resources_set(&need, "memory", (int64_t)draw(c, 900) << 32);
    if (draw(c, 8) == 0) {
        snprintf(name, sizeof(name), "kind-%u", (unsigned)draw(c, 12));
        crti_resources_set(&need, name, CRTI_RESOURCE_ONE / 2);
    }
    if (draw(c, 12) == 0) {
        snprintf(name, sizeof(name), "node:10.0.0.%u", (unsigned)draw(c, c->count));
        crti_resources_set(&need, name, CRTI_RESOURCE_ONE / 8);
    }
    return need;
}

static crti_scheduling_t draw_how(cluster_t *c)
{
    static const char *const selectors[] = {
        "", "", "", "zone=b", "zone=!a", "rack=r3;zone=c", "zone=in(a,b),rack=in(r1)",
    };
    crti_scheduling_t how = {.strategy = draw(c, CRTI_STRATEGIES)};

    how.is_soft = draw(c, 2);
    if (how.strategy == CRTI_STRATEGY_AFFINITY && draw(c, 3))
        how.node = c->machines[draw(c, c->count)].node.node;
    snprintf(how.selector, sizeof(how.selector), "%s", selectors[draw(c, 7)]);
    return how;
}

/* ---------------------------------------------------------------- the walk */

/* As the policy is written down in placement.h. */
static int64_t fullness(const machine_t *m, const crti_resources_t *need)
{
    int64_t cpus = crti_resources_get(&m->total, "CPU"), worst = 0, part;

    for (unsigned i = 0; i < m->total.count; i++) {
        part = crti_resources_part_in_use(&m->total, &m->available, need,
                                          m->total.item[i].name, 1000);
        worst = part > worst ? part : worst;
    }
    part = (int64_t)(m->node.idle_actors + 1) * CRTI_RESOURCE_ONE * 1000 /
           (cpus < CRTI_RESOURCE_ONE ? CRTI_RESOURCE_ONE : cpus);
    return need->count == 0 && part > worst ? part : worst;
}

static const machine_t *walk_one(const cluster_t *c, const crti_resources_t *need,
                                 crti_id_t prefer, const crti_scheduling_t *how,
                                 unsigned alternative)
{
    bool spreads = how->strategy == CRTI_STRATEGY_SPREAD;
    const machine_t *best = NULL;
    int64_t least = 0;

    for (size_t i = 0; i < c->count; i++) {
        const machine_t *m = &c->machines[i];
        int64_t score;
        bool is_preferred = !spreads && crti_id_equal(m->node.node, prefer);

        if (!m->is_in || !crti_resources_fit(&m->available, need) ||
            !crti_scheduling_allows(how, alternative, m->node.node, m->labels))
            continue;
        score = fullness(m, need);
        score = score <= 500 && !spreads ? 0 : score;
        if (best && (score > least || (score == least && !is_preferred)))
            continue; /* in the order of ids: of equal ones the first */
        best = m;
        least = score;
    }
    return best;
}

static const machine_t *walk(const cluster_t *c, const crti_resources_t *need,
                             crti_id_t prefer, crti_scheduling_t how)
{
    const machine_t *best = NULL;
    bool is_void = true;

    for (size_t i = 0; i < c->count; i++)
        is_void = is_void && !(c->machines[i].is_in &&
                               crti_id_equal(c->machines[i].node.node, how.node) &&
                               crti_resources_fit(&c->machines[i].total, need));
    if (how.strategy == CRTI_STRATEGY_AFFINITY && how.is_soft && is_void)
        how.strategy = CRTI_STRATEGY_DEFAULT;
    for (unsigned i = 0; !best && i < crti_scheduling_alternatives(&how); i++)
        best = walk_one(c, need, prefer, &how, i);
    return best;
}

static void check_survey(const cluster_t *c, const char *name)
{
    crti_placement_survey_t all = crti_placement_index_survey(&c->index, name);
    int64_t sum = 0, largest = 0, most_free = 0;

    for (size_t i = 0; i < c->count; i++) {
        const machine_t *m = &c->machines[i];
        int64_t total = crti_resources_get(&m->total, name);
        int64_t available = crti_resources_get(&m->available, name);

        if (!m->is_in)
            continue;
        sum += total;
        largest = total > largest ? total : largest;
        most_free = available > most_free ? available : most_free;
    }
    assert_int_equal(all.sum, sum);
    assert_int_equal(all.largest, largest);
    assert_int_equal(all.most_free, most_free);
}

static void change_some(cluster_t *c)
{
    for (int i = 0; i < 5; i++) {
        machine_t *m = &c->machines[draw(c, c->count)];

        if (m->is_in && draw(c, 3) == 0) {
            crti_placement_index_remove(&c->index, &m->slot);
            m->is_in = false;
            continue;
        }
        draw_machine(c, m);
        tell(c, m);
    }
}

static void check_order(const cluster_t *c)
{
    const crti_placement_slot_t *slot = NULL;

    for (size_t i = 0; i < c->count; i++) {
        if (!c->machines[i].is_in)
            continue;
        slot = crti_placement_index_next(&c->index, slot);
        assert_ptr_equal(slot, &c->machines[i].slot);
    }
    assert_null(slot ? crti_placement_index_next(&c->index, slot) : NULL);
}

static void the_index_finds_what_a_walk_over_all_nodes_finds(void **state)
{
    size_t found = 0, asked = 0;

    for (uint64_t seed = 1; seed <= 25; seed++) {
        cluster_t c;

        make_cluster(&c, 1 + seed * 3, seed);
        for (int round = 0; round < 200; round++, asked++) {
            crti_resources_t need;
            crti_scheduling_t how;
            crti_id_t prefer;
            const machine_t *expected;
            const crti_placement_node_t *best;

            change_some(&c);
            need = draw_need(&c);
            how = draw_how(&c);
            prefer = c.machines[draw(&c, c.count)].node.node;
            expected = walk(&c, &need, prefer, how);
            best = crti_placement_pick(&c.index, &need, prefer, &how);
            assert_ptr_equal(best, expected ? &expected->slot.node : NULL);
            found += best != NULL;
        }
        check_order(&c);
        check_survey(&c, "CPU");
        check_survey(&c, "GPU");
        check_survey(&c, "kind-11");
        free(c.machines);
    }
    assert_in_range(found, asked / 4, asked - 1); /* the draw tests both */
}

/* ---------------------------------------------------------------- cost */

/* Looks for one of `actors` that are placed one after the other on nodes that are alike but for a
 * name of their own; then for one that has a label few nodes have, and for one that fits
 * nowhere. */
static size_t cost_of(size_t count, const char *strategy_of)
{
    cluster_t c;
    crti_resources_t need = {0}, large = {0};
    crti_scheduling_t how = {0}, rack = {.selector = "rack=r7"};
    size_t worst = 0;

    if (*strategy_of == 's')
        how.strategy = CRTI_STRATEGY_SPREAD;
    make_cluster(&c, count, 3);
    crti_resources_set(&need, "CPU", CRTI_RESOURCE_ONE);
    crti_resources_set(&large, "CPU", 65 * CRTI_RESOURCE_ONE);
    for (size_t i = 0; i < count; i++) {
        machine_t *m = &c.machines[i];

        draw_machine(&c, m);
        m->total.count = 0;
        crti_resources_set(&m->total, "CPU", 4 * CRTI_RESOURCE_ONE);
        crti_resources_set(&m->total, "memory", INT64_C(64) << 30);
        m->available = m->total;
        snprintf(m->labels, sizeof(m->labels), "rack=r%u", (unsigned)i / 16);
        tell(&c, m);
    }
    for (size_t i = 0; i < 4 * count; i++) {
        const crti_placement_node_t *best;
        machine_t *m;

        looks = 0;
        best = crti_placement_pick(&c.index, &need, c.machines[5].node.node, &how);
        assert_non_null(best);
        assert_null(crti_placement_pick(&c.index, &large, (crti_id_t){0}, &how));
        if (i < 10)
            assert_non_null(crti_placement_pick(&c.index, &need, (crti_id_t){0}, &rack));
        worst = looks > worst ? looks : worst;
        m = CRTI_CONTAINER(best, machine_t, slot.node);
        m->available.item[0].amount -= CRTI_RESOURCE_ONE;
        tell(&c, m);
    }
    free(c.machines);
    print_message("%zu nodes, %s: at most %zu looks\n", count, strategy_of, worst);
    return worst;
}

static void a_search_costs_hardly_more_in_a_large_cluster(void **state)
{
    assert_true(cost_of(NODES_MAX, "pack") <= 3 * cost_of(500, "pack"));
    assert_true(cost_of(NODES_MAX, "spread") <= 3 * cost_of(500, "spread"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_index_finds_what_a_walk_over_all_nodes_finds),
        cmocka_unit_test(a_search_costs_hardly_more_in_a_large_cluster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
