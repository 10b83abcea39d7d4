/* SPDX-License-Identifier: Apache-2.0 */
/* What a watcher of an actor is told, in whatever order the news of it comes: the session with its
 * process, the death of that process and what the node says come by different ways. */
#include <setjmp.h>
#include <stdarg.h>

#include "alone.h"
#include "runtime/core/calls/actor.h"

#include <cmocka.h>

#define HERE  1 /* the process, and its node, where the actor lives first; */
#define THERE 2 /* and next */

typedef struct listener {
    crti_actor_watcher_t watcher;
    unsigned told[CRTI_ACTOR_ENDED + 1]; /* how often each kind of news */
} listener_t;

static void on_news(crti_actor_watcher_t *watcher, crti_actor_news_t news, uint64_t count)
{
    CRTI_CONTAINER(watcher, listener_t, watcher)->told[news]++;
}

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

static void lives(crti_core_t *core, crt_actor_t *actor, unsigned process)
{
    crti_msg_actor_state_t m = {.actor = actor->id,
                                .actor_incarnation = process,
                                .state = CRTI_ACTOR_ALIVE,
                                .process = ALONE_PROCESS(process),
                                .incarnation = 7,
                                .node = ALONE_NODE(process),
                                .ipc = crti_str("ipc:///actor"),
                                .tcp = crti_str("tcp://10.0.0.1:5")};

    crti_net_lock(core->net);
    crti_actor_state(core, &m);
    crti_net_unlock(core->net);
}

static void restarts(crti_core_t *core, crt_actor_t *actor, unsigned process)
{
    crti_msg_actor_state_t m = {.actor = actor->id,
                                .actor_incarnation = process,
                                .state = CRTI_ACTOR_RESTARTING,
                                .text = crti_str("its node is drained")};

    crti_net_lock(core->net);
    crti_actor_state(core, &m);
    crti_net_unlock(core->net);
}

static void is_drained(crti_core_t *core, unsigned node)
{
    crti_net_lock(core->net);
    crti_remotes_drain(core, ALONE_NODE(node));
    crti_actors_drained(core, ALONE_NODE(node));
    crti_net_unlock(core->net);
}

static void follow(crti_core_t *core, listener_t *listener, crt_actor_t *actor)
{
    *listener = (listener_t){.watcher.on_news = on_news};
    crti_net_lock(core->net);
    crti_actor_follow(actor, &listener->watcher);
    crti_net_unlock(core->net);
}

static void unfollow(crti_core_t *core, listener_t *listener)
{
    crti_net_lock(core->net);
    crti_list_remove(&listener->watcher.link);
    crti_net_unlock(core->net);
}

static void
a_drain_is_told_when_the_end_of_the_actors_process_was_seen_first(void **state)
{
    crti_core_t *core = *state;
    crt_actor_t *actor = alone_actor();
    static listener_t first, late; /* outlive a test that fails */

    follow(core, &first, actor);
    lives(core, actor, HERE);
    alone_process_dies(HERE);
    is_drained(core, HERE);
    assert_int_equal(first.told[CRTI_ACTOR_DRAINED], 1);
    follow(core, &late, actor);
    assert_int_equal(late.told[CRTI_ACTOR_DRAINED], 1);
    restarts(core, actor, HERE);
    lives(core, actor, THERE);
    assert_int_equal(first.told[CRTI_ACTOR_DRAINED], 1);
    assert_int_equal(first.told[CRTI_ACTOR_RESTARTS], 1);
    assert_int_equal(late.told[CRTI_ACTOR_RESTARTS], 1);
    unfollow(core, &first);
    unfollow(core, &late);
    crt_actor_drop(&actor);
}

static void a_drain_of_the_node_that_an_actor_has_left_is_not_told(void **state)
{
    crti_core_t *core = *state;
    crt_actor_t *actor = alone_actor();
    static listener_t listener;

    follow(core, &listener, actor);
    lives(core, actor, HERE);
    restarts(core, actor, HERE);
    lives(core, actor, THERE);
    is_drained(core, HERE);
    assert_int_equal(listener.told[CRTI_ACTOR_DRAINED], 0);
    is_drained(core, THERE);
    assert_int_equal(listener.told[CRTI_ACTOR_DRAINED], 1);
    unfollow(core, &listener);
    crt_actor_drop(&actor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_drain_is_told_when_the_end_of_the_actors_process_was_seen_first, start,
            finish),
        cmocka_unit_test_setup_teardown(
            a_drain_of_the_node_that_an_actor_has_left_is_not_told, start, finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
