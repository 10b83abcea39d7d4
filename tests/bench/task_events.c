/* SPDX-License-Identifier: Apache-2.0 */
/* What task events cost: 1_1_actor_calls_async with them and without, in turns, on one actor.
 *
 * Usage: task_events [--rounds N]
 *
 * Prints calls/s of both (medians of the rounds), and the median of the ratios of neighbouring
 * rounds. It is linked with the library inside it, to reach the switch: the installed library is
 * some per cent faster.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "own_cluster.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "timing.h"

#define ROUND_US   50000
#define BATCH      1000
#define ROUNDS_MAX 2000

/* On or off in this process. */
static void record(bool is_on)
{
    static crti_task_ring_t *ring;
    crti_core_t *core = crti_enter();

    if (!core)
        exit(1);
    if (core->task_events.ring)
        ring = core->task_events.ring;
    core->task_events.ring = is_on ? ring : NULL;
    crti_leave(core);
}

static crt_status_t record_run(void *self, crt_call_t *call)
{
    bool is_on;

    CRT_TRY(crt_args(call, &is_on));
    record(is_on);
    return CRT_OK;
}
static crt_status_t nothing_run(void *self, crt_call_t *call)
{
    return CRT_OK;
}
static const crt_method_t server_record =
    CRT_METHOD(.name = "record", .run = record_run, .signature = "bool");
static const crt_method_t server_nothing =
    CRT_METHOD(.name = "nothing", .run = nothing_run, .signature = "");
static const crt_actor_class_t server_class =
    CRT_ACTOR_CLASS(.name = "Server", .size = 8,
                    .methods = CRT_METHODS(&server_record, &server_nothing));

static void call_batch(crt_actor_t *server)
{
    static crt_ref_t *refs[BATCH];

    for (int i = 0; i < BATCH; i++)
        refs[i] = crt_call(server, &server_nothing);
    for (int i = 0; i < BATCH; i++)
        CRT_CHECK(crt_get(refs[i], NULL));
    crt_refs_drop(refs, BATCH);
}

/* Calls per second. */
static double measure(crt_actor_t *server, bool is_on)
{
    crt_ref_t *ref = crt_call(server, &server_record, is_on);
    double begin, end;
    long calls = 0;

    CRT_CHECK(crt_get(ref, NULL));
    crt_ref_drop(&ref);
    record(is_on);
    begin = now_us();
    do {
        call_batch(server);
        calls += BATCH;
        end = now_us();
    } while (end - begin < ROUND_US);
    return (double)calls / (end - begin) * 1e6;
}

static int driver(int argc, char **argv)
{
    static double on[ROUNDS_MAX], off[ROUNDS_MAX], ratio[ROUNDS_MAX];
    int rounds = 100;
    crt_actor_t *server = crt_actor_new(&server_class, NULL);

    TAKE_OPTIONS(argc, argv, OPTION("rounds", rounds, 1, ROUNDS_MAX));
    CRT_CHECK(crt_actor_ready(server, -1));
    measure(server, true);
    for (int i = 0; i < rounds; i++) {
        if (i % 2)
            off[i] = measure(server, false);
        on[i] = measure(server, true);
        if (i % 2 == 0)
            off[i] = measure(server, false);
        ratio[i] = on[i] / off[i];
    }
    printf("with events %.0f/s, without %.0f/s, ratio %.4f (median of %d rounds)\n",
           median(on, rounds), median(off, rounds), median(ratio, rounds), rounds);
    crt_actor_drop(&server);
    return 0;
}

int main(int argc, char **argv)
{
    use_own_cluster();
    return crt_main(argc, argv, CRT_OPTIONS(.classes = CRT_CLASSES(&server_class)),
                    driver);
}
