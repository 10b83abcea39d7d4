/* SPDX-License-Identifier: Apache-2.0 */
/* Seeds. See runner.h. */
#include "tests/sim/runner.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/arrows.h"

#include <cmocka.h>

static const sim_scenario_t *scenario;
static const char *program;
static uint64_t current; /* seed that runs, for whoever dies in it */

typedef struct outcome {
    uint64_t hash, events;
    bool failed;
    char why[400];
} outcome_t;

static void print_again(void)
{
    char line[300];
    int n =
        snprintf(line, sizeof(line), "seed %llu failed; run again: CRT_SEED=%llu %s\n",
                 (unsigned long long)current, (unsigned long long)current, program);

    if (n > 0 && write(STDOUT_FILENO, line, (size_t)n) < 0)
        return;
}

/* An assertion of a machine, or a bad access. */
static void on_abort(int number)
{
    print_again();
    signal(number, SIG_DFL);
    raise(number);
}

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static outcome_t run_seed(uint64_t seed, bool trace)
{
    outcome_t outcome = {0};
    sim_world_t world;

    current = seed;
    sim_world_init(&world, seed, trace);
    sim_arrows_watch(&world);
    scenario->run(&world);
    if (!world.failed && world.events < SIM_EVENTS)
        sim_fail(&world, "only %llu events", (unsigned long long)world.events);
    sim_arrows_watch(NULL);
    outcome.hash = world.hash;
    outcome.events = world.events;
    outcome.failed = world.failed;
    memcpy(outcome.why, world.why, sizeof(outcome.why));
    sim_world_fini(&world);
    return outcome;
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void every_invariant_holds_under_every_seed(void **state)
{
    uint64_t seeds = number_from("CRT_SEEDS", SIM_SEEDS), events = 0,
             start = crti_now_ns();

    for (uint64_t seed = 1; seed <= seeds; seed++) {
        outcome_t outcome = run_seed(seed, false);

        events += outcome.events;
        if (!outcome.failed)
            continue;
        print_again();
        printf("hash %016llx\n", (unsigned long long)outcome.hash);
        fail_msg("%s: seed %llu: %s", scenario->name, (unsigned long long)seed,
                 outcome.why);
    }
    printf("%s: %llu seeds, %llu events, %.1f s\n", scenario->name,
           (unsigned long long)seeds, (unsigned long long)events,
           (double)(crti_now_ns() - start) / 1e9);
}

static void every_arrow_of_every_machine_was_taken(void **state)
{
    if (number_from("CRT_SEEDS", SIM_SEEDS) < SIM_SEEDS)
        skip();
    assert_int_equal(sim_arrows_report(scenario->machines, scenario->machine_count), 0);
}

static void the_same_seed_does_the_same_again(void **state)
{
    outcome_t other = run_seed(1, false);

    for (uint64_t seed = 7; seed <= 1000; seed += 331) {
        outcome_t first = run_seed(seed, false), again = run_seed(seed, false);

        assert_true(first.hash == again.hash);
        assert_int_equal(first.events, again.events);
        assert_true(first.hash != other.hash);
    }
}

static int replay(uint64_t seed)
{
    outcome_t outcome = run_seed(seed, true);

    printf("seed %llu: %llu events, %s\nhash %016llx\n", (unsigned long long)seed,
           (unsigned long long)outcome.events, outcome.failed ? outcome.why : "holds",
           (unsigned long long)outcome.hash);
    return outcome.failed;
}

int sim_main(int argc, char **argv, const sim_scenario_t *which)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_invariant_holds_under_every_seed),
        cmocka_unit_test(every_arrow_of_every_machine_was_taken),
        cmocka_unit_test(the_same_seed_does_the_same_again),
    };

    scenario = which;
    program = argv[0];
    signal(SIGABRT, on_abort);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(print_again);
    if (getenv("CRT_SEED"))
        return replay(number_from("CRT_SEED", 1));
    return cmocka_run_group_tests_name(which->name, tests, NULL, NULL);
}
