/* SPDX-License-Identifier: Apache-2.0 */
/* A session is lost while its peer lives: what is told of the calls that went by it, and of those
 * that go by the next one. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/types.h>

#include <crt.h>

#include "ok.h"

#include <cmocka.h>

#define CALLS 8

typedef struct seen {
    bool has[CALLS];
} seen_t;

static crt_status_t pid_run(void *self, crt_call_t *call)
{
    return crt_return(call, (int64_t)getpid());
}
static const crt_method_t pid =
    CRT_METHOD(.name = "pid", .run = pid_run, .signature = "");

static crt_status_t see_run(void *self, crt_call_t *call)
{
    seen_t *seen = self;
    int64_t number, before;

    CRT_TRY(crt_args(call, &number, &before));
    seen->has[number] = true;
    return crt_return(call, number);
}
static const crt_method_t see =
    CRT_METHOD(.name = "see", .run = see_run, .signature = "int, int");

static crt_status_t has_seen_run(void *self, crt_call_t *call)
{
    const seen_t *seen = self;
    int64_t number;

    CRT_TRY(crt_args(call, &number));
    return crt_return(call, seen->has[number]);
}
static const crt_method_t has_seen =
    CRT_METHOD(.name = "has_seen", .run = has_seen_run, .signature = "int");

static const crt_actor_class_t seer =
    CRT_ACTOR_CLASS(.name = "Seer", .size = sizeof(seen_t),
                    .methods = CRT_METHODS(&pid, &see, &has_seen));

/* The first call is given up while the actor is stopped. With it the second one fails, which waits
 * for its result; then those behind it are sent, and the actor runs them when it goes on. */
static void
a_call_that_is_sent_while_others_are_given_up_is_not_told_not_to_have_run(void **state)
{
    crt_actor_t *actor = crt_actor_new(&seer, NULL);
    crt_ref_t *refs[CALLS], *ref = crt_call(actor, &pid);
    int64_t process;

    OK(crt_get_for(ref, 20000, &process));
    crt_ref_drop(&ref);
    assert_int_equal(kill((pid_t)process, SIGSTOP), 0);
    refs[0] = crt_call(actor, &see, 0, 0);
    refs[1] = crt_call(actor, &see, 1, refs[0]);
    for (int i = 2; i < CALLS; i++)
        refs[i] = crt_call(actor, &see, i, 0);
    assert_int_equal(crt_get_for(refs[0], 20000, NULL), CRT_ERR_UNREACHABLE);
    assert_int_equal(kill((pid_t)process, SIGCONT), 0);
    for (int64_t i = 0; i < CALLS; i++) {
        bool has_run = false;

        if (crt_get_for(refs[i], 20000, NULL) != CRT_OK &&
            !crt_ref_error(refs[i])->may_have_run) {
            ref = crt_call(actor, &has_seen, i);
            OK(crt_get_for(ref, 20000, &has_run));
            crt_ref_drop(&ref);
            assert_false(has_run);
        }
    }
    crt_refs_drop(refs, CALLS);
    crt_actor_drop(&actor);
}

static int tests(int argc, char **argv)
{
    const struct CMUnitTest all[] = {cmocka_unit_test(
        a_call_that_is_sent_while_others_are_given_up_is_not_told_not_to_have_run)};

    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv)
{
    setenv("CRT_SESSION_TIMEOUT", "1s", 1);
    setenv("CRT_SESSION_PROBE_MAX", "300ms", 1);
    return crt_main(argc, argv, CRT_OPTIONS(.classes = CRT_CLASSES(&seer), .num_cpus = 1),
                    tests);
}
