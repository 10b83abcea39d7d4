/* SPDX-License-Identifier: Apache-2.0 */
/* Defaults: options that the definition of a task, a method or a class has, on a private
 * cluster. */
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/crt_define.h"

#define EXPECT(condition)                                                                \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #condition,                    \
                   crt_error_detail());                                                  \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)
#define SOON_MS  50
#define LATER_MS 30000

static crt_status_t expect_end(crt_ref_t *ref, crt_status_t wanted)
{
    crt_status_t status = crt_get(ref, NULL);

    if (status != wanted) {
        printf("%s instead of %s: %s\n", crt_status_text(status), crt_status_text(wanted),
               crt_error_detail());
        exit(1);
    }
    crt_ref_drop(&ref);
    return status;
}

static crt_status_t wait_to_be_cancelled(crt_call_t *call)
{
    while (!crt_cancelled(call))
        poll(NULL, 0, 1);
    return crt_fail(call, CRT_ERR_CANCELLED, "as wanted");
}

CRT_DEFINE_TASK_WITH(endless, (.defaults = CRT_TASK_DEFAULTS(.limit_ms = SOON_MS)))
{
    return wait_to_be_cancelled(call);
}

CRT_DEFINE_TASK_WITH(
    nowhere, (.defaults = CRT_TASK_DEFAULTS(.resources = "nowhere=1",
                                            .if_infeasible = CRT_INFEASIBLE_FAILS)))
{
    return crt_return(call, 1);
}

CRT_DEFINE_TASK_WITH(free_of_cpus, (.defaults = CRT_TASK_DEFAULTS(.num_cpus = 1000)))
{
    return crt_return(call, 1);
}

/* How often each method ran, in the actor's process. */
struct worker {
    atomic_int tries, inside;
};

CRT_DEFINE_ACTOR_WITH(worker, (.defaults = CRT_ACTOR_DEFAULTS(.max_concurrency = 2)),
                      struct worker)
{
    (void)call;
    atomic_init(&self->tries, 0);
    return CRT_OK;
}

/* Ends when two calls are inside. */
CRT_DEFINE_METHOD(worker, meet)
{
    atomic_fetch_add(&self->inside, 1);
    for (int i = 0; i < LATER_MS && atomic_load(&self->inside) < 2; i++)
        poll(NULL, 0, 1);
    return atomic_load(&self->inside) < 2 ? crt_fail(call, CRT_ERR_USER, "alone")
                                          : crt_return(call, 2);
}

CRT_DEFINE_METHOD_WITH(worker, endless,
                       (.defaults = CRT_CALL_DEFAULTS(.limit_ms = SOON_MS)))
{
    (void)self;
    return wait_to_be_cancelled(call);
}

CRT_DEFINE_METHOD_WITH(worker, third_try,
                       (.defaults = CRT_CALL_DEFAULTS(.max_attempts = 3,
                                                      .retry_exceptions = CRT_RETRY_ALL)))
{
    int tries = atomic_fetch_add(&self->tries, 1) + 1;

    return tries % 3 ? crt_fail(call, CRT_ERR_USER, "try %d", tries)
                     : crt_return(call, tries);
}

static void a_limit_of_the_method_holds_unless_the_call_has_its_own(void)
{
    crt_actor_t *actor = worker_new(NULL);
    const crt_call_options_t *none = CRT_CALL_OPTIONS(.limit_ms = CRT_FOREVER);
    crt_ref_t *ref;

    expect_end(worker_endless_call(actor, NULL), CRT_ERR_TIMED_OUT);
    expect_end(crt_call(actor, &worker_endless), CRT_ERR_TIMED_OUT);
    expect_end(worker_endless_call(actor, CRT_CALL_OPTIONS(.name = "by another name")),
               CRT_ERR_TIMED_OUT);
    ref = worker_endless_call(actor, none);
    EXPECT(crt_get_for(ref, 4 * SOON_MS, NULL) == CRT_ERR_TIMED_OUT);
    EXPECT(crt_cancel(ref, NULL) == CRT_OK);
    expect_end(ref, CRT_ERR_CANCELLED);
    crt_actor_drop(&actor);
}

static void attempts_of_the_method_are_those_of_a_call(void)
{
    crt_actor_t *actor = worker_new(NULL);

    expect_end(worker_third_try_call(actor, NULL), CRT_OK);
    expect_end(worker_third_try_call(actor, CRT_CALL_OPTIONS(.max_attempts = 1)),
               CRT_ERR_USER);
    crt_actor_drop(&actor);
}

static void a_limit_and_resources_of_the_task_hold(void)
{
    expect_end(endless_submit(NULL), CRT_ERR_TIMED_OUT);
    expect_end(nowhere_submit(NULL), CRT_ERR_UNSCHEDULABLE);
    expect_end(nowhere_submit(CRT_TASK_OPTIONS(.resources = "CPU=1")), CRT_OK);
    expect_end(
        free_of_cpus_submit(CRT_TASK_OPTIONS(.if_infeasible = CRT_INFEASIBLE_FAILS)),
        CRT_ERR_UNSCHEDULABLE);
    expect_end(free_of_cpus_submit(CRT_TASK_OPTIONS(.no_cpus = true)), CRT_OK);
}

static void options_of_the_class_are_those_of_an_actor(void)
{
    crt_actor_t *actor = worker_new(CRT_ACTOR_OPTIONS(.name = "of two"));
    crt_ref_t *first = worker_meet_call(actor, NULL);

    expect_end(worker_meet_call(actor, NULL), CRT_OK);
    expect_end(first, CRT_OK);
    crt_actor_drop(&actor);
}

static void defaults_of_a_newer_version_are_refused(int argc, char **argv)
{
    static struct {
        crt_task_options_t known;
        char unknown[8];
    } newer = {.known.struct_size = sizeof(newer), .unknown = "x"};
    static const crt_task_t task = {.struct_size = sizeof(task),
                                    .name = "newer",
                                    .run = wait_to_be_cancelled,
                                    .defaults = &newer.known};

    EXPECT(crt_init(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&task))) ==
           CRT_ERR_UNSUPPORTED);
    EXPECT(strstr(crt_error_detail(), "CRT_TASK_DEFAULTS") != NULL);
}

static int driver(int argc, char **argv)
{
    a_limit_of_the_method_holds_unless_the_call_has_its_own();
    attempts_of_the_method_are_those_of_a_call();
    a_limit_and_resources_of_the_task_hold();
    options_of_the_class_are_those_of_an_actor();
    crt_shutdown();
    defaults_of_a_newer_version_are_refused(argc, argv);
    return 0;
}

CRT_MAIN(driver, .num_cpus = 2)
