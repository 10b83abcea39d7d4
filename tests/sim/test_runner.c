/* SPDX-License-Identifier: Apache-2.0 */
/* The runner of seeds: one that does not end is named, and the run ends all the same. This program
 * runs itself: as a scenario whose third seed has no end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/runner.h"

#include <cmocka.h>

#define ENDLESS 3

static const char *program;

static void run_seed(sim_world_t *world)
{
    while (world->seed == ENDLESS) /* a loop that did nothing might be left out */
        atomic_signal_fence(memory_order_seq_cst);
}

static const sim_scenario_t in_processes = {
    .name = "endless", .run = run_seed, .forks = true, .seeds = 4};
static const sim_scenario_t here = {.name = "endless", .run = run_seed, .seeds = 4};

/* What it prints; it has failed. */
static void run(const char *how, char *output, size_t size)
{
    char command[600];
    size_t length;
    FILE *pipe;

    snprintf(command, sizeof(command), "env CRT_LIMIT=1 %s '%s' 2>&1", how, program);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    length = fread(output, 1, size - 1, pipe);
    output[length] = '\0';
    assert_int_not_equal(pclose(pipe), 0);
}

static void contains(const char *output, const char *words)
{
    if (!strstr(output, words))
        fail_msg("\"%s\" is not in:\n%s", words, output);
}

static void a_seed_without_an_end_is_named_and_the_others_run(void **state)
{
    char output[8192];

    run("CRT_ENDLESS=processes CRT_FAILURES=9", output, sizeof(output));
    contains(output, "seed 3 failed; run again: CRT_SEED=3 ");
    contains(output, "seed 3: no end after 1 s of computing\n");
    contains(output, "endless: 4 seeds, ");
}

static void where_seeds_are_no_processes_it_is_named_and_the_run_ends(void **state)
{
    char output[8192];

    run("CRT_ENDLESS=here CRT_FROM=3", output, sizeof(output));
    contains(output, "no end after 1 s of computing\n");
    contains(output, "seed 3 failed; run again: CRT_SEED=3 ");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seed_without_an_end_is_named_and_the_others_run),
        cmocka_unit_test(where_seeds_are_no_processes_it_is_named_and_the_run_ends),
    };
    const char *endless = getenv("CRT_ENDLESS");

    program = argv[0];
    if (endless)
        return sim_main(argc, argv, strcmp(endless, "here") == 0 ? &here : &in_processes);
    return cmocka_run_group_tests_name("runner of seeds", tests, NULL, NULL);
}
