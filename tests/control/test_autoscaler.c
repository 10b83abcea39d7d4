/* SPDX-License-Identifier: Apache-2.0 */
/* When nodes come and go: random traces of work, against a provider that fails and lies.
 * Each is simulated on virtual time; a wrong order ends it with a sentence. Faults that are planted
 * on purpose must be found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/cleanup.h"
#include "runtime/control/autoscale/autoscaler.h"
#include "runtime/control/placement/bundle_placement.h"

#define TRACES   250 /* or as many as CRT_TEST_TRACES says */
#define STEP_NS  (100 * CRTI_MS)
#define IDLE_NS  (8 * CRTI_S)
#define START_NS (12 * CRTI_S)
#define WORK_NS  (60 * CRTI_S)  /* so long new work comes */
#define END_NS   (900 * CRTI_S) /* by then all of it is done, and the nodes are gone */
#define TYPES    3
#define MACHINES 64
#define WORKS    160
#define PIECES   4
#define ANSWERS  1000
#define NEVER    UINT64_MAX

/* A machine of the provider, and the node that it may become. */
typedef struct machine {
    bool exists;    /* it costs money */
    bool is_hidden; /* its end was said to be done, and it is there */
    char name[CRTI_INSTANCE_NAME], labels[CRTI_LABELS_SIZE];
    size_t type;
    uint64_t joins_ns, ends_ns, joined_ns;
    bool is_node, is_drained;
    crti_id_t id;
    crti_resources_t total, available;
    unsigned runs; /* pieces of work */
} machine_t;

/* An answer that comes later. */
typedef struct answer {
    uint64_t at_ns; /* 0: none */
    enum { ASKED, ENDED } kind;
    char name[CRTI_INSTANCE_NAME];
    bool is_done;
} answer_t;

/* A task, an actor, or a placement group; all pieces begin together. */
typedef struct work {
    uint64_t from_ns, time_ns, ends_ns; /* ends_ns: while it runs */
    crti_demand_kind_t kind;
    uint64_t strategy;
    size_t pieces;
    crti_resources_t need;
    crti_scheduling_t how;
    machine_t *at[PIECES];
    bool runs, is_done, is_hopeless;
} work_t;

typedef enum fault { /* that are planted */
                     FAULT_NONE,
                     FAULT_BUSY_IS_IDLE,
                     FAULT_MORE_THAN_MAX,
                     FAULT_DEAF,
                     FAULT_IMPATIENT,
                     FAULT_COUNT
} fault_t;

typedef struct world {
    uint64_t random, now_ns, next_id;
    fault_t fault;
    bool is_honest; /* from some moment on, so that all can be served */
    unsigned mood;  /* how often the provider fails or lies, in percent */
    crti_node_type_t types[TYPES];
    crti_autoscaler_t *scaler;
    machine_t machines[MACHINES];
    answer_t answers[ANSWERS];
    work_t works[WORKS];
    size_t work_count;
    bool wants_list,
        is_touched;  /* is_touched: something has happened since the last look */
    unsigned orders; /* of this look */
    char wrong[300]; /* "": nothing is */
} world_t;

static uint64_t draw(world_t *w, uint64_t below)
{
    uint64_t x = w->random += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (x ^ x >> 31) % below;
}

static bool happens(world_t *w, unsigned percent)
{
    return draw(w, 100) < percent;
}

static bool lies(world_t *w)
{
    return !w->is_honest && happens(w, w->mood);
}

static void complain(world_t *w, const char *format, ...) CRT_PRINTF(2, 3);
static void complain(world_t *w, const char *format, ...)
{
    va_list arguments;

    if (*w->wrong)
        return;
    va_start(arguments, format);
    vsnprintf(w->wrong, sizeof(w->wrong), format, arguments);
    va_end(arguments);
}

static crti_resources_t some(int64_t cpus, int64_t gpus)
{
    crti_resources_t r = {.count = 0};

    crti_resources_set(&r, "CPU", cpus * CRTI_RESOURCE_ONE);
    crti_resources_set(&r, "GPU", gpus * CRTI_RESOURCE_ONE);
    return r;
}

/* ---------------------------------------------------------------- the provider */

static void answer(world_t *w, int kind, const char *name, bool is_done)
{
    answer_t *at = w->answers;

    while (at->at_ns && at < w->answers + ANSWERS - 1)
        at++;
    *at =
        (answer_t){.at_ns = w->now_ns + 1 + draw(w, 3000) * CRTI_MS, .is_done = is_done};
    at->kind = kind ? ENDED : ASKED;
    snprintf(at->name, sizeof(at->name), "%s", name);
}

static size_t type_at(const world_t *w, const crti_node_type_t *type)
{
    for (size_t i = 0; i < TYPES; i++)
        if (strcmp(w->types[i].name, type->name) == 0)
            return i;
    fail_msg("type %s", type->name);
    return 0;
}

static void check_max(world_t *w, size_t type)
{
    size_t count = 0;

    for (size_t i = 0; i < MACHINES; i++)
        count += w->machines[i].exists && !w->machines[i].is_hidden &&
                 w->machines[i].type == type;
    if (count > w->types[type].max)
        complain(w, "%zu nodes of type %s, at most %zu", count, w->types[type].name,
                 w->types[type].max);
}

static void make_machine(world_t *w, const char *name, size_t type)
{
    machine_t *m = w->machines;

    while (m < w->machines + MACHINES && m->exists)
        m++;
    if (m == w->machines + MACHINES) {
        complain(w, "too many machines");
        return;
    }
    *m = (machine_t){.exists = true, .type = type, .id = {7, ++w->next_id}};
    snprintf(m->name, sizeof(m->name), "%s", name);
    snprintf(m->labels, sizeof(m->labels),
             "%s%s" CRTI_LABEL_INSTANCE "=%s," CRTI_LABEL_NODE_TYPE "=%s",
             w->types[type].labels, *w->types[type].labels ? "," : "", name,
             w->types[type].name);
    m->total = m->available = w->types[type].resources;
    m->joins_ns = lies(w) ? NEVER : w->now_ns + 100 * CRTI_MS + draw(w, 8000) * CRTI_MS;
    m->ends_ns = lies(w) ? w->now_ns + draw(w, 40000) * CRTI_MS : NEVER;
    check_max(w, type);
}

static void on_ask(void *user, const char *name, const crti_node_type_t *type)
{
    world_t *w = user;
    bool fails = lies(w);

    w->orders++;
    if (!fails || lies(w)) /* it says that it failed, and makes one */
        make_machine(w, name, type_at(w, type));
    answer(w, 0, name, !fails);
}

static machine_t *find_machine(world_t *w, const char *name)
{
    for (size_t i = 0; i < MACHINES; i++)
        if (w->machines[i].exists && strcmp(w->machines[i].name, name) == 0)
            return &w->machines[i];
    return NULL;
}

static void on_end(void *user, const char *name, const crti_node_type_t *type,
                   crti_id_t node)
{
    world_t *w = user;
    machine_t *m = find_machine(w, name);
    bool fails = lies(w);

    (void)type;
    (void)node;
    if (m && m->is_node && m->runs)
        complain(w, "%s is ended, and %u pieces of work run there", name, m->runs);
    if (m && !fails && lies(w))
        m->is_hidden = true; /* it says that it has ended */
    else if (m && !fails)
        m->exists = m->is_node = false;
    answer(w, 1, name, !fails);
}

static void on_drain(void *user, crti_id_t node)
{
    world_t *w = user;

    w->orders++;
    for (size_t i = 0; i < MACHINES; i++) {
        machine_t *m = &w->machines[i];

        if (!m->is_node || !crti_id_equal(m->id, node))
            continue;
        /* One that was given up comes late, and goes at once. */
        if (!m->is_hidden && w->now_ns - m->joined_ns < IDLE_NS &&
            w->now_ns - m->joined_ns > STEP_NS)
            complain(w, "%s ends %.1f s after it has joined", m->name,
                     (double)(w->now_ns - m->joined_ns) / (double)CRTI_S);
        if (m->runs && w->now_ns - m->joined_ns > 2 * STEP_NS)
            complain(w, "%s is drained, and %u pieces of work run there", m->name,
                     m->runs);
        m->is_drained = true;
    }
}

static void on_list(void *user)
{
    ((world_t *)user)->wants_list = true;
}

static void give_list(world_t *w)
{
    char made_up[CRTI_INSTANCE_NAME];
    const char *names[MACHINES + 2];
    size_t count = 0;

    w->wants_list = false;
    if (lies(w)) {
        crti_autoscaler_listed(w->scaler, false, "the provider is not there", NULL, 0,
                               w->now_ns);
        return;
    }
    for (size_t i = 0; i < MACHINES; i++)
        if (w->machines[i].exists && !lies(w))
            names[count++] = w->machines[i].name;
    if (lies(w)) {
        snprintf(made_up, sizeof(made_up), "%s-simulate-%08x", w->types[0].name,
                 (unsigned)draw(w, 1000));
        names[count++] = made_up;
        names[count++] = "somebody-elses-machine";
    }
    crti_autoscaler_listed(w->scaler, true, "", names, count, w->now_ns);
}

static void give_answers(world_t *w)
{
    for (size_t i = 0; i < ANSWERS; i++) {
        answer_t a = w->answers[i];

        if (a.at_ns == 0 || a.at_ns > w->now_ns)
            continue;
        w->answers[i].at_ns = 0;
        w->is_touched = true;
        (a.kind == ASKED ? crti_autoscaler_asked : crti_autoscaler_ended)(
            w->scaler, a.name, a.is_done, "no room there", w->now_ns);
    }
    if (w->wants_list)
        give_list(w);
}

/* ---------------------------------------------------------------- nodes and work */

/* What runs on a node that dies begins anew. */
static void lose_node(world_t *w, machine_t *m)
{
    for (size_t i = 0; i < w->work_count; i++) {
        work_t *work = &w->works[i];
        bool is_hit = false;

        for (size_t k = 0; work->runs && k < work->pieces; k++)
            is_hit |= work->at[k] == m;
        if (!is_hit)
            continue;
        for (size_t k = 0; k < work->pieces; k++) {
            crti_resources_give(&work->at[k]->available, &work->need);
            work->at[k]->runs--;
        }
        work->runs = false;
    }
    m->is_node = false;
    w->is_touched = true;
}

static void run_machines(world_t *w)
{
    for (size_t i = 0; i < MACHINES; i++) {
        machine_t *m = &w->machines[i];

        if (!m->exists)
            continue;
        if (m->is_node && m->is_drained && m->runs == 0)
            m->is_node = false; /* it leaves; the machine stays until it is ended */
        if (m->ends_ns <= w->now_ns && !w->is_honest) {
            lose_node(w, m);
            m->exists = false;
        } else if (m->joins_ns <= w->now_ns) {
            m->joins_ns = NEVER;
            m->is_node = w->is_touched = true;
            m->joined_ns = w->now_ns;
        }
    }
}

/* The same search as that of the head. */
static bool place(world_t *w, work_t *work)
{
    crti_placement_node_t nodes[MACHINES];
    machine_t *of[MACHINES];
    crti_bundle_choice_t choices[PIECES];
    size_t count = 0;

    for (size_t i = 0; i < MACHINES; i++) {
        machine_t *m = &w->machines[i];

        if (!m->is_node || m->is_drained)
            continue;
        of[count] = m;
        nodes[count++] = (crti_placement_node_t){.node = m->id,
                                                 .labels = m->labels,
                                                 .total = &m->total,
                                                 .available = &m->available};
    }
    for (size_t i = 0; i < work->pieces; i++)
        choices[i] =
            (crti_bundle_choice_t){.need = &work->need, .how = &work->how, .node = -1};
    if (crti_bundle_placement(nodes, count, choices, work->pieces, work->strategy,
                              false) != CRTI_BUNDLES_FOUND)
        return false;
    for (size_t i = 0; i < work->pieces; i++) {
        work->at[i] = of[choices[i].node];
        crti_resources_take(&work->at[i]->available, &work->need);
        work->at[i]->runs++;
    }
    return true;
}

static void end_works(world_t *w)
{
    for (size_t i = 0; i < w->work_count; i++) {
        work_t *work = &w->works[i];

        w->is_touched |=
            work->from_ns <= w->now_ns && work->from_ns + STEP_NS > w->now_ns;
        if (!work->runs || work->ends_ns > w->now_ns)
            continue;
        work->runs = false;
        work->is_done = w->is_touched = true;
        for (size_t k = 0; k < work->pieces; k++) {
            crti_resources_give(&work->at[k]->available, &work->need);
            work->at[k]->runs--;
        }
    }
}

/* Nothing finds room that had none before, unless something has happened. */
static void begin_works(world_t *w)
{
    for (size_t i = 0; i < w->work_count && w->is_touched; i++) {
        work_t *work = &w->works[i];

        if (work->runs || work->is_done || work->from_ns > w->now_ns || !place(w, work))
            continue;
        work->runs = true;
        work->ends_ns = w->now_ns + work->time_ns;
    }
}

/* ---------------------------------------------------------------- what the scaler sees */

static void tell_demand(const world_t *w, crti_demand_t *demand)
{
    for (size_t i = 0; i < w->work_count && w->fault != FAULT_DEAF; i++) {
        const work_t *work = &w->works[i];
        crti_demand_entry_t entry = {.kind = work->kind,
                                     .need = work->need,
                                     .how = work->how,
                                     .strategy = work->strategy,
                                     .count = work->pieces};

        if (work->runs || work->is_done || work->from_ns > w->now_ns)
            continue;
        if (work->kind == CRTI_DEMAND_BUNDLE)
            entry.group = (crti_id_t){1, i + 1};
        snprintf(entry.name, sizeof(entry.name), "w%zu", i % 7);
        crti_demand_add(demand, &entry);
    }
}

static void look(world_t *w)
{
    CRTI_AUTO(crti_demand_fini) crti_demand_t demand;
    uint64_t told = w->scaler->event_count;
    crti_scale_node_t nodes[MACHINES];
    crti_scale_input_t input = {.now_ns = w->now_ns, .nodes = nodes, .demand = &demand};

    crti_demand_init(&demand);
    tell_demand(w, &demand);
    for (size_t i = 0; i < MACHINES; i++) {
        const machine_t *m = &w->machines[i];

        if (m->is_node)
            nodes[input.node_count++] = (crti_scale_node_t){
                .node = m->id,
                .labels = m->labels,
                .total = &m->total,
                .available = &m->available,
                .is_drained = m->is_drained,
                .is_busy = m->runs > 0 && w->fault != FAULT_BUSY_IS_IDLE,
                .store_bytes = 1000};
    }
    w->orders = 0;
    w->is_touched = false;
    crti_autoscaler_look(w->scaler, &input);
    if (w->orders && w->scaler->event_count == told)
        complain(w, "%u orders without a word", w->orders);
}

/* ---------------------------------------------------------------- a trace */

static void add_works(world_t *w)
{
    while (w->work_count < 10 + draw(w, WORKS - 60)) {
        uint64_t from = draw(w, WORK_NS / CRTI_MS) * CRTI_MS;
        size_t burst = 1 + draw(w, happens(w, 20) ? 30 : 3);
        work_t work = {.kind = happens(w, 70) ? CRTI_DEMAND_TASK : CRTI_DEMAND_ACTOR,
                       .pieces = 1,
                       .how = crti_scheduling_default,
                       .need = some((int64_t)(1 + draw(w, 4)),
                                    happens(w, 20) ? (int64_t)(1 + draw(w, 2)) : 0)};

        if (happens(w, 15)) {
            work.kind = CRTI_DEMAND_BUNDLE;
            work.strategy = draw(w, CRTI_PLACEMENT_STRATEGIES);
            work.pieces = 2 + draw(w, PIECES - 1);
            burst = 1;
        }
        if (happens(w, 10))
            snprintf(work.how.selector, sizeof(work.how.selector), "zone=b");
        if (happens(w, 3)) {
            work.need = some(100, 0);
            work.is_hopeless = true;
        }
        for (size_t i = 0; i < burst && w->work_count < WORKS; i++) {
            work.from_ns = from + draw(w, 500) * CRTI_MS;
            work.time_ns =
                50 * CRTI_MS + draw(w, happens(w, 30) ? 20000 : 2000) * CRTI_MS;
            w->works[w->work_count++] = work;
        }
    }
}

/* Whether an empty cluster of all nodes that there may be has room for it. */
static bool could_run(const world_t *w, const work_t *work)
{
    crti_placement_node_t nodes[MACHINES];
    crti_bundle_choice_t choices[PIECES];
    size_t count = 0;

    for (size_t i = 0; i < TYPES; i++)
        for (size_t k = 0; k < w->types[i].max; k++, count++)
            nodes[count] = (crti_placement_node_t){.node = {9, count + 1},
                                                   .labels = w->types[i].labels,
                                                   .total = &w->types[i].resources,
                                                   .available = &w->types[i].resources};
    for (size_t i = 0; i < work->pieces; i++)
        choices[i] =
            (crti_bundle_choice_t){.need = &work->need, .how = &work->how, .node = -1};
    return crti_bundle_placement(nodes, count, choices, work->pieces, work->strategy,
                                 true) == CRTI_BUNDLES_FOUND;
}

static void set_up(world_t *w, uint64_t seed, fault_t fault)
{
    crti_node_type_t types[TYPES];
    crti_scale_config_t config = {.types = types,
                                  .type_count = TYPES,
                                  .idle_ns = fault == FAULT_IMPATIENT ? CRTI_S : IDLE_NS,
                                  .start_ns = START_NS,
                                  .up = 1,
                                  .down = 1,
                                  .cluster = "simulate",
                                  .seed = seed};
    crti_scale_orders_t orders = {
        .user = w, .ask = on_ask, .end = on_end, .drain = on_drain, .list = on_list};

    *w = (world_t){.random = seed, .fault = fault, .now_ns = CRTI_S};
    w->mood = happens(w, 40) ? 0 : (unsigned)draw(w, 40);
    w->types[0] = (crti_node_type_t){.name = "small", .resources = some(4, 0)};
    w->types[1] = (crti_node_type_t){.name = "zone-b", .resources = some(8, 0)};
    w->types[2] = (crti_node_type_t){.name = "gpu", .resources = some(8, 2)};
    snprintf(w->types[1].labels, sizeof(w->types[1].labels), "zone=b");
    for (size_t i = 0; i < TYPES; i++) {
        w->types[i].max = 1 + draw(w, 5);
        w->types[i].min = happens(w, 20) ? 1 : 0;
    }
    memcpy(types, w->types, sizeof(types));
    for (size_t i = 0; i < TYPES && fault == FAULT_MORE_THAN_MAX; i++)
        types[i].max += 2;
    assert_int_equal(crti_autoscaler_new(&config, &orders, &w->scaler), CRT_OK);
    add_works(w);
    for (size_t i = 0; i < w->work_count; i++)
        w->works[i].is_hopeless |= !could_run(w, &w->works[i]);
}

static bool is_all_done(const world_t *w)
{
    for (size_t i = 0; i < w->work_count; i++)
        if (!w->works[i].is_done && !w->works[i].is_hopeless)
            return false;
    return true;
}

/* The provider has exactly the min of each type. */
static bool is_at_rest(const world_t *w)
{
    size_t counts[TYPES] = {0};

    for (size_t i = 0; i < MACHINES; i++)
        if (w->machines[i].exists)
            counts[w->machines[i].type]++;
    for (size_t i = 0; i < TYPES; i++)
        if (counts[i] != w->types[i].min ||
            crti_autoscaler_count_in(w->scaler, i, CRTI_INSTANCE_RUNNING) != counts[i])
            return false;
    return true;
}

/* The time that it took; `w->wrong` says what was. */
static uint64_t run_trace(world_t *w, uint64_t seed, fault_t fault)
{
    set_up(w, seed, fault);
    for (; w->now_ns < END_NS && !*w->wrong; w->now_ns += STEP_NS) {
        w->is_honest = w->now_ns > 3 * WORK_NS;
        run_machines(w);
        end_works(w);
        begin_works(w);
        give_answers(w);
        if (w->is_touched || crti_autoscaler_deadline(w->scaler) <= w->now_ns)
            look(w);
        if (w->now_ns > WORK_NS && is_all_done(w) && is_at_rest(w) &&
            (w->is_honest || w->mood == 0))
            break;
    }
    if (!is_all_done(w))
        complain(w, "work that has room was not done; the scaler says: %s",
                 w->scaler->waits);
    else if (w->now_ns >= END_NS)
        complain(w, "nodes that nothing needs are there, or some of the min are not");
    crti_autoscaler_free(w->scaler);
    return w->now_ns;
}

/* ---------------------------------------------------------------- tests */

static void traces_are_served_without_thrash_and_within_the_limits(void **state)
{
    static world_t w;
    const char *given = getenv("CRT_TEST_TRACES");
    uint64_t traces = given ? strtoull(given, NULL, 10) : TRACES;

    (void)state;
    for (uint64_t seed = 1; seed <= traces; seed++) {
        run_trace(&w, seed, FAULT_NONE);
        if (getenv("CRT_TEST_VERBOSE"))
            print_message("seed %llu: %.1f s\n", (unsigned long long)seed,
                          (double)w.now_ns / (double)CRTI_S);
        if (*w.wrong)
            fail_msg("seed %llu at %.2f s: %s", (unsigned long long)seed,
                     (double)w.now_ns / (double)CRTI_S, w.wrong);
    }
}

static void a_planted_fault_is_found(void **state)
{
    static world_t w;

    (void)state;
    for (unsigned fault = FAULT_NONE + 1; fault < FAULT_COUNT; fault++) {
        uint64_t seed = 1;

        while (seed < 50 && (run_trace(&w, seed, (fault_t)fault), !*w.wrong))
            seed++;
        if (!*w.wrong)
            fail_msg("fault %u was not found", fault);
        print_message("fault %u, seed %llu: %s\n", fault, (unsigned long long)seed,
                      w.wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traces_are_served_without_thrash_and_within_the_limits),
        cmocka_unit_test(a_planted_fault_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
