/* SPDX-License-Identifier: Apache-2.0 */
/* Refs by the thousand: what values with many refs cost who has them.
 *
 *     many_refs [--refs N] [--rounds N] [--only NAME]
 *
 *     visit     a list of 10,000 refs of an actor is fetched, each of them is read for the first
 *               time, and the list dropped
 *     million   a list of N refs (1,000,000) of an actor: fetched, each ref kept, the list dropped
 *               (so that all are registered at their owner), each read, all dropped; and what the
 *               memory of this process and of the actor's grew by at most
 *     result    a list of N refs made by a call, as its result: registered for this process before
 *               it is answered, fetched, dropped
 *     passed    the same list of an actor, returned by another one, which registers each ref at
 *               its owner on behalf of this process
 * The least time of --rounds (5) rounds counts, since other work on the machine only adds to it.
 */
#include <crt.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "own_cluster.h"
#include "timing.h"

#define ROUNDS_MAX 100
#define VISITED    10000

static struct {
    int64_t refs, rounds;
    const char *only;
} options = {1000000, 5, NULL};

/* Bytes of this process that are in memory and nobody else's. */
static int64_t own_bytes(void)
{
    char line[256];
    long long kb = 0;
    FILE *f = fopen("/proc/self/status", "re");

    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "RssAnon: %lld", &kb) == 1)
            break;
    if (f)
        fclose(f);
    return kb * 1024;
}

/* ---------------------------------------------------------------- actors */

struct keeper {
    crt_ref_t *list;
};

static crt_arg_t *make_items(int64_t count)
{
    crt_arg_t *items = calloc((size_t)count, sizeof(*items));

    for (int64_t i = 0; items && i < count; i++)
        items[i] = crt_arg_ref(crt_put(1));
    return items;
}

static void drop_items(crt_arg_t *items, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        crt_ref_drop(&items[i].as.ref);
    free(items);
}

static crt_status_t keeper_create(void *self, crt_call_t *call)
{
    struct keeper *keeper = self;
    crt_arg_t *items;
    int64_t count;

    CRT_TRY(crt_args(call, &count));
    items = make_items(count);
    if (!items)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "%lld refs", (long long)count);
    keeper->list = crt_put(crt_list(items, (size_t)count));
    drop_items(items, count);
    return CRT_OK;
}

static void keeper_destroy(void *self)
{
    struct keeper *keeper = self;

    crt_ref_drop(&keeper->list);
}

/* The ref in a list, so that it is not read for who asks. */
static crt_status_t keeper_list_run(void *self, crt_call_t *call)
{
    const struct keeper *keeper = self;
    crt_arg_t items[] = {crt_arg_ref(keeper->list)};

    return crt_return(call, crt_list(items, 1));
}
static const crt_method_t keeper_list =
    CRT_METHOD(.name = "list", .run = keeper_list_run, .signature = "");

static crt_status_t keeper_make_run(void *self, crt_call_t *call)
{
    crt_arg_t *items;
    int64_t count;
    crt_status_t status;

    CRT_TRY(crt_args(call, &count));
    items = make_items(count);
    if (!items)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "%lld refs", (long long)count);
    status = crt_return(call, crt_list(items, (size_t)count));
    drop_items(items, count);
    return status;
}
static const crt_method_t keeper_make =
    CRT_METHOD(.name = "make", .run = keeper_make_run, .signature = "int");

static crt_status_t keeper_pass_run(void *self, crt_call_t *call)
{
    const crt_value_t *list;

    CRT_TRY(crt_args(call, &list));
    return crt_return(call, list);
}
static const crt_method_t keeper_pass =
    CRT_METHOD(.name = "pass", .run = keeper_pass_run, .signature = "list");

static crt_status_t keeper_bytes_run(void *self, crt_call_t *call)
{
    return crt_return(call, own_bytes());
}
static const crt_method_t keeper_bytes =
    CRT_METHOD(.name = "bytes", .run = keeper_bytes_run, .signature = "");

static const crt_actor_class_t keeper_class =
    CRT_ACTOR_CLASS(.name = "Keeper", .size = sizeof(struct keeper),
                    .create = keeper_create, .signature = "int",
                    .destroy = keeper_destroy,
                    .methods = CRT_METHODS(&keeper_list, &keeper_make, &keeper_pass,
                                           &keeper_bytes));

/* ---------------------------------------------------------------- what is timed */

static void check(bool is_right, const char *what)
{
    if (is_right)
        return;
    fprintf(stderr, "many_refs: %s\n", what);
    exit(1);
}

static const crt_value_t *get_list(crt_ref_t *ref, int64_t count)
{
    const crt_value_t *list;

    CRT_CHECK(crt_get(ref, &list));
    check(crt_value_count(list) == (size_t)count, "the list is not as long as it was");
    return list;
}

static crt_ref_t *ref_at(const crt_value_t *list, int64_t index)
{
    crt_ref_t *ref;

    CRT_CHECK(crt_value_read(crt_value_at(list, (size_t)index), &ref));
    return ref;
}

static int64_t value_of(crt_ref_t *ref)
{
    int64_t number;

    CRT_CHECK(crt_get(ref, &number));
    return number;
}

/* The answer keeps the ref that is in it. */
static crt_ref_t *ask_list(crt_actor_t *keeper, crt_ref_t **answer_out)
{
    crt_ref_t *answer = crt_call(keeper, &keeper_list);

    *answer_out = answer;
    return ref_at(get_list(answer, 1), 0);
}

static int64_t bytes_of(crt_actor_t *keeper)
{
    crt_ref_t *ref = crt_call(keeper, &keeper_bytes);
    int64_t bytes = value_of(ref);

    crt_ref_drop(&ref);
    return bytes;
}

/* When each step of a row was over, in the round that took least. */
#define STEPS_MAX 6
typedef struct steps {
    double at[STEPS_MAX], best[STEPS_MAX];
    int count;
} steps_t;

static void step(steps_t *steps)
{
    steps->at[steps->count++] = now_us();
}

static void end_round(steps_t *steps)
{
    int last = steps->count - 1;

    if (steps->best[last] == 0 ||
        steps->at[last] - steps->at[0] < steps->best[last] - steps->best[0])
        memcpy(steps->best, steps->at, sizeof(steps->at));
}

static void tell_steps(const char *row, int64_t refs, const steps_t *steps,
                       const char *const *names)
{
    int last = steps->count - 1;

    printf("%-8s %8lld refs  %9.3f ms:", row, (long long)refs,
           (steps->best[last] - steps->best[0]) / 1e3);
    for (int i = 0; i < last; i++)
        printf(" %s %.3f", names[i], (steps->best[i + 1] - steps->best[i]) / 1e3);
    printf("\n");
}

static void visit(void)
{
    static const char *const names[] = {"ask", "get", "read", "drop"};
    crt_actor_t *keeper = crt_actor_new(&keeper_class, NULL, VISITED);
    steps_t steps = {.count = 0};

    for (int64_t round = 0; round < 20 * options.rounds; round++) {
        crt_ref_t *answer, *ref;
        const crt_value_t *list;
        int64_t sum = 0;

        steps.count = 0;
        step(&steps);
        ref = ask_list(keeper, &answer);
        step(&steps);
        list = get_list(ref, VISITED);
        step(&steps);
        for (int64_t i = 0; i < VISITED; i++)
            sum += value_of(ref_at(list, i));
        step(&steps);
        crt_ref_drop(&answer);
        step(&steps);
        check(sum == VISITED, "the values are wrong");
        end_round(&steps);
    }
    tell_steps("visit", VISITED, &steps, names);
    printf("         %.0f lists/s\n", 1e6 / (steps.best[4] - steps.best[0]));
    crt_actor_drop(&keeper);
}

static void million(void)
{
    static const char *const names[] = {"get", "keep", "drop list", "read", "drop"};
    crt_ref_t **refs = calloc((size_t)options.refs, sizeof(crt_ref_t *));
    crt_actor_t *keeper = crt_actor_new(&keeper_class, NULL, options.refs);
    steps_t steps = {.count = 0};
    int64_t mine = 0, its = 0;

    check(refs != NULL, "out of memory");
    memset(refs, 1, (size_t)options.refs * sizeof(crt_ref_t *));
    for (int64_t round = 0; round < options.rounds; round++) {
        crt_ref_t *answer, *ref = ask_list(keeper, &answer);
        int64_t bytes = own_bytes(), keeper_before = bytes_of(keeper), sum = 0;
        const crt_value_t *list;

        steps.count = 0;
        step(&steps);
        list = get_list(ref, options.refs);
        step(&steps);
        for (int64_t i = 0; i < options.refs; i++)
            refs[i] = crt_ref_keep(ref_at(list, i));
        if (round == 0)
            mine = own_bytes() - bytes;
        step(&steps);
        crt_ref_drop(&answer);
        step(&steps);
        for (int64_t i = 0; i < options.refs; i++)
            sum += value_of(refs[i]);
        step(&steps);
        if (round == 0) {
            int64_t now = own_bytes() - bytes;

            mine = now > mine ? now : mine;
            its = bytes_of(keeper) - keeper_before;
            steps.at[4] = now_us();
        }
        crt_refs_drop(refs, (size_t)options.refs);
        step(&steps);
        check(sum == options.refs, "the values are wrong");
        end_round(&steps);
    }
    tell_steps("million", options.refs, &steps, names);
    printf("         memory of each ref: %.1f bytes here, %.1f more at its owner\n",
           (double)mine / (double)options.refs, (double)its / (double)options.refs);
    crt_actor_drop(&keeper);
    free(refs);
}

static void result(void)
{
    static const char *const names[] = {"make and answer", "get", "drop"};
    crt_actor_t *keeper = crt_actor_new(&keeper_class, NULL, 1);
    steps_t steps = {.count = 0};

    for (int64_t round = 0; round < options.rounds; round++) {
        crt_ref_t *ref;

        steps.count = 0;
        step(&steps);
        ref = crt_call(keeper, &keeper_make, options.refs);
        CRT_CHECK(crt_wait(&ref, 1, 1, CRT_FOREVER, NULL, NULL));
        step(&steps);
        get_list(ref, options.refs);
        step(&steps);
        crt_ref_drop(&ref);
        step(&steps);
        end_round(&steps);
    }
    tell_steps("result", options.refs, &steps, names);
    crt_actor_drop(&keeper);
}

static void passed(void)
{
    static const char *const names[] = {"pass", "get", "drop"};
    crt_actor_t *keeper = crt_actor_new(&keeper_class, NULL, options.refs),
                *other = crt_actor_new(&keeper_class, NULL, 1);
    steps_t steps = {.count = 0};

    for (int64_t round = 0; round < options.rounds; round++) {
        crt_ref_t *answer, *list = ask_list(keeper, &answer), *ref;

        CRT_CHECK(crt_actor_ready(other, CRT_FOREVER));
        steps.count = 0;
        step(&steps);
        ref = crt_call(other, &keeper_pass, list);
        CRT_CHECK(crt_wait(&ref, 1, 1, CRT_FOREVER, NULL, NULL));
        step(&steps);
        get_list(ref, options.refs);
        step(&steps);
        crt_ref_drop(&ref);
        crt_ref_drop(&answer);
        step(&steps);
        end_round(&steps);
    }
    tell_steps("passed", options.refs, &steps, names);
    crt_actor_drop(&keeper);
    crt_actor_drop(&other);
}

/* ---------------------------------------------------------------- driver */

static int driver(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } rows[] = {
        {"visit", visit}, {"million", million}, {"result", result}, {"passed", passed}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (options.only && strcmp(options.only, rows[i].name) != 0)
            continue;
        rows[i].run();
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv)
{
    use_own_cluster();
    TAKE_OPTIONS(argc, argv, OPTION("refs", options.refs, 1, 10000000),
                 OPTION("rounds", options.rounds, 1, ROUNDS_MAX),
                 OPTION("only", options.only, 0, 0));
    return crt_main(argc, argv, CRT_OPTIONS(.classes = CRT_CLASSES(&keeper_class)),
                    driver);
}
