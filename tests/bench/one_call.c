/* SPDX-License-Identifier: Apache-2.0 */
/* One call of an actor, between two points where the counters of the coverage are cleared and
 * written: what it went through in the caller and in the worker. See one_call.py.
 *
 *     one_call FOLDER
 *
 * Counters go to FOLDER/caller and FOLDER/worker, those of everything else to FOLDER/rest.
 */
#include <stdio.h>
#include <stdlib.h>

#include <crt.h>

#include "own_cluster.h"

#define WARM   100               /* calls before it, so that what is made once is made */
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

/* From the call before to this one the worker answers one and takes one. */
static crt_status_t echo_run(void *self, crt_call_t *call)
{
    static int calls;
    int64_t value;

    CRT_TRY(crt_args(call, &value));
    if (++calls == WARM)
        __gcov_reset();
    else if (calls == WARM + 1)
        write_counters("worker");
    return crt_return(call, value);
}
static const crt_method_t echo =
    CRT_METHOD(.name = "echo", .run = echo_run, .signature = "int");
static const crt_actor_class_t class =
    CRT_ACTOR_CLASS(.name = "Echo", .methods = CRT_METHODS(&echo));

static int driver(int argc, char **argv)
{
    crt_actor_t *actor = crt_actor_new(&class, NULL);
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
    crt_actor_drop(&actor);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "one_call: give it the folder for the counters\n");
        return 2;
    }
    setenv(FOLDER, argv[1], 1);
    send_counters_to("rest");
    use_own_cluster();
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&class), .num_cpus = 1), driver);
}
