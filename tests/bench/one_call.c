/* SPDX-License-Identifier: Apache-2.0 */
/* One call of an actor, or one ref, between two points where the counters of the coverage are
 * cleared and written: what it went through in the caller and in the worker. See one_call.py.
 *
 *     one_call FOLDER [ref]
 *
 * Counters go to FOLDER/caller and FOLDER/worker, those of everything else to FOLDER/rest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crt.h>

#include "own_cluster.h"

#define WARM   100               /* calls before it, so that what is made once is made */
#define SIZE   ((size_t)1 << 20) /* bytes of the object: more than goes in a record */
#define FOLDER "ONE_CALL_FOLDER" /* for the worker, too */

/* Of libgcov. */
void __gcov_reset(void);
void __gcov_dump(void);

/* Counters that are written from now on go there. */
static void send_counters_to(const char *side)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", getenv(FOLDER), side);
    setenv("GCOV_PREFIX", path, 1);
}

static void write_counters(const char *side)
{
    send_counters_to(side);
    __gcov_dump();
    send_counters_to("rest");
}

/* The counters of the worker from the end of the call number WARM to the begin of `last`. */
static void count_in_worker(int number, int last)
{
    if (number == WARM)
        __gcov_reset();
    else if (number == last)
        write_counters("worker");
}

/* ---------------------------------------------------------------- a call */

/* From the call before to this one the worker answers one and takes one. */
static crt_status_t echo_run(void *self, crt_call_t *call)
{
    static int calls;
    int64_t value;

    CRT_TRY(crt_args(call, &value));
    count_in_worker(++calls, WARM + 1);
    return crt_return(call, value);
}
static const crt_method_t echo =
    CRT_METHOD(.name = "echo", .run = echo_run, .signature = "int");

static void one_call(crt_actor_t *actor)
{
    int64_t value;

    for (int64_t i = 0; i < WARM + 10; i++) {
        crt_ref_t *ref;

        if (i == WARM + 5)
            __gcov_reset();
        ref = crt_call(actor, &echo, i);
        CRT_CHECK(crt_get(ref, &value));
        crt_ref_drop(&ref);
        if (i == WARM + 5)
            write_counters("caller");
    }
}

/* ---------------------------------------------------------------- a ref */

static int64_t calls_with_refs;
static crt_ref_t *kept;

/* Keeps the ref that is in its list. */
static crt_status_t keep_run(void *self, crt_call_t *call)
{
    const crt_value_t *list;
    crt_ref_t *ref;

    count_in_worker((int)++calls_with_refs, WARM + 3);
    CRT_TRY(crt_args(call, &list));
    CRT_TRY(crt_value_read(crt_value_at(list, 0), &ref));
    kept = crt_ref_keep(ref);
    return crt_return(call, calls_with_refs);
}
static const crt_method_t keep =
    CRT_METHOD(.name = "keep", .run = keep_run, .signature = "list");

/* Reads what it has kept, and lets it go. */
static crt_status_t drop_run(void *self, crt_call_t *call)
{
    crt_bytes_t bytes;

    count_in_worker((int)++calls_with_refs, WARM + 3);
    CRT_TRY(crt_get(kept, &bytes));
    crt_ref_drop(&kept);
    return crt_return(call, calls_with_refs);
}
static const crt_method_t drop = CRT_METHOD(.name = "drop", .run = drop_run);

static void expect_answer(crt_ref_t *ref)
{
    int64_t value;

    CRT_CHECK(crt_get(ref, &value));
    crt_ref_drop(&ref);
}

/* Made by a put, kept and read by an actor, dropped by both, and freed. */
static void one_ref(crt_actor_t *actor)
{
    for (int i = 0; i < WARM / 2 + 10; i++) {
        static const char data[SIZE];
        crt_arg_t item;
        crt_ref_t *ref;

        if (i == WARM / 2 + 5)
            __gcov_reset();
        ref = crt_put(crt_bytes(data, SIZE));
        item = CRT_ARG(ref);
        expect_answer(crt_call(actor, &keep, crt_list(&item, 1)));
        crt_ref_drop(&ref);
        expect_answer(crt_call(actor, &drop));
        if (i == WARM / 2 + 5)
            write_counters("caller");
    }
}

/* ---------------------------------------------------------------- both */

static const crt_actor_class_t class =
    CRT_ACTOR_CLASS(.name = "Counted", .methods = CRT_METHODS(&echo, &keep, &drop));

static int driver(int argc, char **argv)
{
    crt_actor_t *actor = crt_actor_new(&class, NULL);

    if (argc == 3)
        one_ref(actor);
    else
        one_call(actor);
    crt_actor_drop(&actor);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3 || (argc == 3 && strcmp(argv[2], "ref") != 0)) {
        fprintf(stderr,
                "one_call: give it the folder for the counters, and `ref` for a ref\n");
        return 2;
    }
    setenv(FOLDER, argv[1], 1);
    send_counters_to("rest");
    use_own_cluster();
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&class), .num_cpus = 1), driver);
}
