/* SPDX-License-Identifier: Apache-2.0 */
/* Seeds. See runner.h. */
#include "tests/sim/runner.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/arrows.h"
#include "tests/sim/seed_limits.h"

#include <cmocka.h>

#define JOBS        64
#define LIMIT       300 /* seconds that a seed may compute, which takes one or two */
#define PROGRESS_NS (30 * CRTI_S) /* between two lines that say how far it is */

static const sim_scenario_t *scenario;
static const char *program;
static uint64_t current;  /* seed that runs, for whoever dies in it */
static uint64_t failures; /* of this run */

typedef struct outcome {
    uint64_t hash, events;
    bool failed;
    char why[400];
} outcome_t;

static outcome_t *told;       /* of the seed that runs, where another process reads it */
static char no_end_text[100]; /* why a seed fails that does not end */

static void print_again(void)
{
    char line[6000], limits[5000];
    int n;

    sim_limits_text(current, limits, sizeof(limits));
    n = snprintf(line, sizeof(line),
                 "limits of seed %llu: %s\n"
                 "seed %llu failed; run again: CRT_SEED=%llu %s\n",
                 (unsigned long long)current, *limits ? limits : "the defaults",
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

/* A seed that does not end: in the midst of anything, so that nothing is done but to say it. */
static void on_limit(int number)
{
    if (told)
        memcpy(told->why, no_end_text, sizeof(no_end_text));
    else if (write(STDOUT_FILENO, no_end_text, strlen(no_end_text)) >= 0 &&
             write(STDOUT_FILENO, "\n", 1) == 1)
        print_again();
    _exit(1);
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* Of time that this process computes: a busy machine changes nothing. 0 seconds: no more. */
static void set_limit(uint64_t seconds)
{
    const struct itimerval limit = {.it_value.tv_sec = (time_t)seconds};

    signal(SIGPROF, on_limit);
    setitimer(ITIMER_PROF, &limit, NULL);
}

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static outcome_t run_here(uint64_t seed, bool trace)
{
    outcome_t outcome = {0};
    sim_world_t world;

    current = seed;
    sim_limits_draw(seed);
    sim_world_init(&world, seed, trace);
    sim_arrows_watch(&world);
    set_limit(number_from("CRT_LIMIT", LIMIT));
    scenario->run(&world);
    set_limit(0);
    if (!world.failed && !scenario->forks && world.events < SIM_EVENTS)
        sim_fail(&world, "only %llu events", (unsigned long long)world.events);
    sim_arrows_watch(NULL);
    outcome.hash = world.hash;
    outcome.events = world.events;
    outcome.failed = world.failed;
    memcpy(outcome.why, world.why, sizeof(outcome.why));
    sim_world_fini(&world);
    return outcome;
}

/* ---------------------------------------------------------------- seeds in processes */

/* A seed that runs in another process, and where that writes what came of it. */
typedef struct job {
    pid_t pid; /* 0: none */
    uint64_t seed;
    outcome_t *outcome; /* shared; the arrows lie behind it */
} job_t;

static void start_job(job_t *job, uint64_t seed, bool trace)
{
    size_t size = sizeof(*job->outcome) + sim_arrows_size();

    if (!job->outcome) {
        job->outcome =
            mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(job->outcome != MAP_FAILED);
    }
    memset(job->outcome, 0, size);
    job->outcome->failed = true; /* unless it says otherwise */
    snprintf(job->outcome->why, sizeof(job->outcome->why), "it died");
    job->seed = seed;
    fflush(NULL);
    job->pid = fork();
    assert_true(job->pid >= 0);
    if (job->pid > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sim_arrows_forget();
    told = job->outcome;
    *job->outcome = run_here(seed, trace);
    sim_arrows_export(job->outcome + 1);
    fflush(NULL);
    _exit(0);
}

static outcome_t end_job(job_t *job)
{
    int status;

    while (waitpid(job->pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    job->pid = 0;
    sim_arrows_add(job->outcome + 1);
    return *job->outcome;
}

static outcome_t run_seed(uint64_t seed, bool trace)
{
    static job_t job;

    if (!scenario->forks)
        return run_here(seed, trace);
    start_job(&job, seed, trace);
    return end_job(&job);
}

static uint64_t seed_count(void)
{
    return number_from("CRT_SEEDS", scenario->seeds ? scenario->seeds : SIM_SEEDS);
}

static void tell_progress(uint64_t seed)
{
    static uint64_t told_ns;
    uint64_t now = crti_now_ns();

    if (told_ns && now > told_ns + PROGRESS_NS)
        printf("seeds up to %llu have run\n", (unsigned long long)seed);
    if (!told_ns || now > told_ns + PROGRESS_NS)
        told_ns = now;
    fflush(stdout);
}

static void take_outcome(uint64_t seed, const outcome_t *outcome, uint64_t *events)
{
    *events += outcome->events;
    tell_progress(seed);
    if (!outcome->failed)
        return;
    current = seed;
    print_again();
    printf("hash %016llx\n", (unsigned long long)outcome->hash);
    if (++failures >= number_from("CRT_FAILURES", 1))
        fail_msg("%s: seed %llu: %s", scenario->name, (unsigned long long)seed,
                 outcome->why);
    printf("seed %llu: %s\n", (unsigned long long)seed, outcome->why);
    fflush(stdout);
}

/* In the order of the seeds, whichever is done first: the same run ends with the same seed. */
static void run_jobs(uint64_t from, uint64_t seeds, uint64_t *events)
{
    static job_t jobs[JOBS];
    uint64_t at_once = number_from("CRT_JOBS", 1);

    at_once = at_once > JOBS ? JOBS : at_once;
    for (uint64_t n = 0; n < seeds + at_once; n++) {
        job_t *job = &jobs[n % at_once];

        if (job->pid) {
            outcome_t outcome = end_job(job);

            take_outcome(job->seed, &outcome, events);
        }
        if (n < seeds)
            start_job(job, from + n, false);
    }
}

static void every_invariant_holds_under_every_seed(void **state)
{
    uint64_t seeds = seed_count(), from = number_from("CRT_FROM", 1), events = 0,
             start = crti_now_ns();

    if (scenario->forks)
        run_jobs(from, seeds, &events);
    else
        for (uint64_t seed = from; seed < from + seeds; seed++) {
            outcome_t outcome = run_seed(seed, false);

            take_outcome(seed, &outcome, &events);
        }
    printf("%s: %llu seeds, %llu events, %.1f s\n", scenario->name,
           (unsigned long long)seeds, (unsigned long long)events,
           (double)(crti_now_ns() - start) / 1e9);
    assert_int_equal(failures, 0);
}

static void every_arrow_of_every_machine_was_taken(void **state)
{
    if (seed_count() < (scenario->seeds ? scenario->seeds : SIM_SEEDS))
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
    char limits[5000];

    sim_limits_text(seed, limits, sizeof(limits));
    printf("limits: %s\n", *limits ? limits : "the defaults");
    printf("seed %llu: %llu events, %s\nhash %016llx\n", (unsigned long long)seed,
           (unsigned long long)outcome.events, outcome.failed ? outcome.why : "holds",
           (unsigned long long)outcome.hash);
    return outcome.failed;
}

/* Options are another spelling of the environment. */
static bool take_options(int argc, char **argv)
{
    static const char *const options[][2] = {{"--seed", "CRT_SEED"},
                                             {"--seeds", "CRT_SEEDS"},
                                             {"--from", "CRT_FROM"},
                                             {"--jobs", "CRT_JOBS"},
                                             {"--failures", "CRT_FAILURES"},
                                             {"--limit", "CRT_LIMIT"},
                                             {"--draw-limits", "CRT_DRAW_LIMITS"}};

    for (int i = 1; i < argc; i += 2) {
        bool known = false;

        for (size_t k = 0; k < sizeof(options) / sizeof(options[0]); k++)
            if (strcmp(argv[i], options[k][0]) == 0 && i + 1 < argc) {
                setenv(options[k][1], argv[i + 1], 1);
                known = true;
            }
        if (!known) {
            fprintf(stderr,
                    "usage: %s [--seed N | --seeds N --from N --jobs N --failures N] "
                    "[--limit N] [--draw-limits 0]\n",
                    argv[0]);
            return false;
        }
    }
    return true;
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
    if (!take_options(argc, argv))
        return 2;
    snprintf(no_end_text, sizeof(no_end_text), "no end after %llu s of computing",
             (unsigned long long)number_from("CRT_LIMIT", LIMIT));
    signal(SIGABRT, on_abort);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(print_again);
    if (getenv("CRT_SEED"))
        return replay(number_from("CRT_SEED", 1));
    return cmocka_run_group_tests_name(which->name, tests, NULL, NULL);
}
