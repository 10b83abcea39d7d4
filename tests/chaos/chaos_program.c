/* SPDX-License-Identifier: Apache-2.0 */
/* The program of the chaos test: a driver that calls, makes, ends and checks until it is told to
 * stop, and writes down every call (ledger.h). chaos.py runs it.
 *
 *     chaos_program load ROLE RATE SEED STOP-FILE   until that file is there, or its node is lost
 *     chaos_program job ROLE CALLS                  so many tasks; what is submitted as a job
 *     chaos_program end                             ends what outlives drivers
 *
 * Exit status: 0 all as it should be, 9 its node or job was lost, 3 findings, 1 no cluster. A hang
 * ends by SIGABRT.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "account.h"
#include "ledger.h"
#include "load.h"

#define LOADS       2
#define THREADS     (LOADS + 3)
#define EXIT_LOST   9
#define EXIT_WRONG  3
#define LOOK_NS     50000000
#define HANG_NS     ((CHAOS_PATIENCE_MS + 30000) * UINT64_C(1000000))
#define REPORT_NS   UINT64_C(2000000000)
#define JOB_PATIENT 3 /* times that a job's task is made again */

static void say_counts(const load_t *loads)
{
    uint64_t ended = 0;

    for (int i = 0; i < THREADS; i++)
        ended += loads[i].ended;
    printf("calls %llu", (unsigned long long)ended);
    for (int s = 0; s < LOAD_STATUS; s++) {
        uint64_t failed = 0;

        for (int i = 0; i < THREADS; i++)
            failed += loads[i].failed[s];
        if (failed)
            printf(" %s %llu", crt_status_name((crt_status_t)-s) + strlen("CRT_ERR_"),
                   (unsigned long long)failed);
    }
    printf("\n");
    fflush(stdout);
}

static void look_for_hangs(const load_t *loads)
{
    uint64_t now = ledger_now_ns();

    for (int i = 0; i < THREADS; i++) {
        uint64_t beat = atomic_load(&loads[i].beat_ns);

        if (beat && now > beat + HANG_NS) {
            load_finding("hang: thread %d is in \"%s\" for %llu s", i,
                         atomic_load(&loads[i].doing),
                         (unsigned long long)((now - beat) / 1000000000u));
            abort();
        }
    }
}

static void *run_rest(void *load)
{
    const load_t *first = load;

    switch (first->origin % 8) {
    case LOADS + 1: return names_main(load);
    case LOADS + 2: return variety_main(load);
    default: return hoard_main(load);
    }
}

static int run_loads(const char *role, double rate, uint64_t seed, const char *stop_file)
{
    static load_t loads[THREADS];
    pthread_t threads[THREADS];
    uint64_t next_report = 0;
    int living = THREADS;

    ledger_set_role(role);
    for (int i = 0; i < THREADS; i++) {
        loads[i].role = role;
        loads[i].rate = rate / LOADS;
        loads[i].random = seed * THREADS + (uint64_t)i;
        loads[i].origin = ledger_origin() / 8 * 8 + (uint64_t)i + 1;
        load_beat(&loads[i], "starts");
        if (pthread_create(&threads[i], NULL, i < LOADS ? load_main : run_rest,
                           &loads[i]) != 0)
            return 1;
    }
    printf("serves\n");
    fflush(stdout);
    while (living) {
        living = 0;
        for (int i = 0; i < THREADS; i++)
            living += strcmp(atomic_load(&loads[i].doing), "has ended") != 0;
        if (access(stop_file, F_OK) == 0)
            atomic_store(&load_is_over, true);
        look_for_hangs(loads);
        if (ledger_now_ns() > next_report) {
            say_counts(loads);
            next_report = ledger_now_ns() + REPORT_NS;
        }
        nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    say_counts(loads);
    return atomic_load(&load_findings)  ? EXIT_WRONG
           : atomic_load(&load_is_lost) ? EXIT_LOST
                                        : 0;
}

/* ---------------------------------------------------------------- a job */

/* One task; made anew when a fault took it. CRT_ERR_NODE_LOST: the job itself is lost. */
static crt_status_t run_task(load_t *load, int64_t value)
{
    crt_status_t status = CRT_OK;

    for (int i = 0; i < JOB_PATIENT; i++) {
        ledger_record_t record = {.kind = LEDGER_ASK,
                                  .origin = ledger_origin(),
                                  .number = ledger_next(),
                                  .value = value};
        const crt_error_t *error;
        int64_t result = 0;
        crt_ref_t *ref;

        ledger_write(record);
        ref = crt_submit(&task_triple, CRT_TASK_OPTIONS(.max_attempts = 1),
                         (int64_t)record.origin, (int64_t)record.number, value);
        status = account_get(ref, CRT_OUT(&result));
        error = crt_ref_error(ref);
        record.kind = LEDGER_END;
        record.status = (int32_t)status;
        record.may_have_run = status != CRT_OK && (!error || error->may_have_run);
        record.result = result;
        ledger_write(record);
        load_count(load, "a job's task", status, error ? error->text : "");
        crt_ref_drop(&ref);
        if (status == CRT_OK && result != 3 * value + 1)
            load_finding("wrong: triple of %lld gave %lld", (long long)value,
                         (long long)result);
        if (status == CRT_OK)
            return CRT_OK;
    }
    return status;
}

static int run_job(const char *role, int calls)
{
    static load_t load;
    int done = 0;

    ledger_set_role(role);
    for (int i = 0; i < calls; i++)
        done += run_task(&load, i) == CRT_OK;
    printf("job: %d of %d tasks gave what they should\n", done, calls);
    return atomic_load(&load_findings) ? EXIT_WRONG : done == calls ? 0 : EXIT_LOST;
}

static int driver(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "load") == 0)
        return run_loads(argv[2], strtod(argv[3], NULL), strtoull(argv[4], NULL, 10),
                         argv[5]);
    if (argc == 4 && strcmp(argv[1], "job") == 0)
        return run_job(argv[2], atoi(argv[3]));
    if (argc == 2 && strcmp(argv[1], "end") == 0)
        return names_end() ? 0 : EXIT_WRONG;
    fprintf(stderr, "chaos_program: see its first lines\n");
    return 2;
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.name_space = "chaos",
                    .classes = CRT_CLASSES(&account_class, &variety_crowd),
                    .tasks = CRT_TASKS(&task_triple, &task_fill, &task_total, &task_nest,
                                       &variety_items, &variety_twice)),
        driver);
}
