/* SPDX-License-Identifier: Apache-2.0 */
/* What has begun when a process is in no cluster any more: all of it ends for the same reason, what
 * waits for an answer of the node, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "alone.h"
#include "runtime/core/client/client.h"

#include <cmocka.h>

static int start(void **state)
{
    *state = alone_start();
    return 0;
}

static int finish(void **state)
{
    alone_stop();
    return 0;
}

static void expect(const crt_ref_t *ref, crt_status_t status, const char *text)
{
    assert_int_equal(ref->content, CRTI_CONTENT_FAILED);
    assert_int_equal(ref->error->user.status, status);
    assert_non_null(strstr(ref->error->user.text, text));
}

/* One runs, one waits for the worker that was asked for, one for its argument, one for an actor. */
static void end_all(crti_core_t *core, crt_status_t status, const char *text)
{
    crt_ref_t *running = alone_submit(1), *queued = alone_task(NULL),
              *waiting = alone_waiting(running);
    crt_actor_t *actor = alone_actor();
    crt_ref_t *call = alone_queued(actor, NULL);

    crti_net_lock(core->net);
    crti_core_break(core, status, text);
    crti_net_unlock(core->net);
    expect(running, status, text);
    expect(queued, status, text);
    expect(waiting, status, text);
    expect(call, status, text);
    alone_drop(running);
    crt_ref_drop(&queued);
    crt_ref_drop(&waiting);
    crt_ref_drop(&call);
    crt_actor_drop(&actor);
}

static void all_ends_when_the_program_leaves_the_cluster(void **state)
{
    end_all(*state, CRT_ERR_CLOSED, "crt_shutdown was called");
}

static void all_ends_when_the_node_is_lost(void **state)
{
    end_all(*state, CRT_ERR_NODE_LOST, "the daemon is gone");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_ends_when_the_program_leaves_the_cluster,
                                        start, finish),
        cmocka_unit_test_setup_teardown(all_ends_when_the_node_is_lost, start, finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
