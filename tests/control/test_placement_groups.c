/* SPDX-License-Identifier: Apache-2.0 */
/* Placement groups as the head reserves, loses and removes them. */
#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/control/placement/bundle_placement.h"
#include "runtime/control/tables/actor_table.h"
#include "runtime/control/tables/placement_group_table.h"
#include "tests/control/control_test.h"

#define GROUP 60

static void add_bundle(crti_buffer_t *list, const char *resources)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t entry = {0};
    crti_msg_bundle_t m = {.selector = crti_str("")};

    assert_int_equal(crti_resources_parse(resources, &m.resources), CRT_OK);
    assert_int_equal(crti_message_encode(CRTI_MSG_BUNDLE, 0, &m, &entry), CRT_OK);
    assert_int_equal(crti_list_pack(list, entry.data, entry.size), CRT_OK);
}

/* `count` bundles of two CPUs, asked for with that request. */
static void create(bed_t *bed, uint64_t group, unsigned count, uint64_t strategy,
                   uint64_t request)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    crti_msg_placement_group_create_t m = {
        .group = bed_id(group), .job = bed_id(5), .strategy = strategy};

    for (unsigned i = 0; i < count; i++)
        add_bundle(&list, "CPU=2");
    m.bundles = crti_span(list.data, list.size);
    bed_say(bed, NODE_A, CRTI_MSG_PLACEMENT_GROUP_CREATE, request, &m);
}

/* Asks for a version other than that. */
static void ask(bed_t *bed, uint64_t group, uint64_t version, uint64_t request)
{
    crti_msg_placement_group_get_t m = {.group = bed_id(group), .version = version};

    bed_say(bed, NODE_A, CRTI_MSG_PLACEMENT_GROUP_GET, request, &m);
}

/* The state that answers that request; 77: none. */
static unsigned answer(bed_t *bed, uint64_t request, uint64_t *version_out)
{
    const crti_message_t *m;

    bed->seen = 0;
    while ((m = bed_next(bed, NODE_A, CRTI_MSG_PLACEMENT_GROUP_STATE)))
        if (m->request == request) {
            if (version_out)
                *version_out = m->placement_group_state.version;
            return (unsigned)m->placement_group_state.state;
        }
    return 77;
}

/* The next reservation on that link is granted, or refused. */
static crti_msg_bundle_reserve_t reserve(bed_t *bed, uint64_t link, bool granted)
{
    crti_msg_error_t full = {.status = CRT_ERR_BACKPRESSURE, .text = crti_str("full")};
    const crti_message_t *m = bed_next(bed, link, CRTI_MSG_BUNDLE_RESERVE);
    crti_msg_bundle_reserve_t asked;
    uint64_t request;

    assert_non_null(m);
    asked = m->bundle_reserve;
    request = m->request;
    if (granted)
        bed_say(bed, link, CRTI_MSG_DONE, request, NULL);
    else
        bed_say(bed, link, CRTI_MSG_ERROR, request, &full);
    return asked;
}

/* Like bed_join, on the link, with the bundles that it has. */
static void join_with(bed_t *bed, uint64_t link, uint64_t node,
                      const crti_msg_bundle_reserve_t *held)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t entry = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t jobs = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t job = {0};
    crti_msg_node_register_t m = {.protocol = CRTI_PROTOCOL_VERSION,
                                  .version = crti_str("test"),
                                  .node = bed_id(node),
                                  .incarnation = 1,
                                  .ip = crti_str("10.0.0.1"),
                                  .hostname = crti_str("host"),
                                  .endpoint = crti_str("10.0.0.1:7000"),
                                  .pid = 17,
                                  .is_head_host = node == 1};
    crti_msg_job_add_t driver = {
        .job = bed_id(5), .driver = bed_id(1005), .node = bed_id(1), .pid = 4711};

    assert_int_equal(crti_resources_parse("CPU=4", &m.resources), CRT_OK);
    m.available = m.resources;
    if (held) {
        crti_msg_bundle_held_t has = {held->group, held->bundle, held->incarnation, 0};

        assert_int_equal(crti_message_encode(CRTI_MSG_BUNDLE_HELD, 0, &has, &entry),
                         CRT_OK);
        assert_int_equal(crti_list_pack(&list, entry.data, entry.size), CRT_OK);
    }
    if (node == 1) {
        assert_int_equal(crti_message_encode(CRTI_MSG_JOB_ADD, 0, &driver, &job), CRT_OK);
        assert_int_equal(crti_list_pack(&jobs, job.data, job.size), CRT_OK);
    }
    m.bundles = crti_span(list.data, list.size);
    m.jobs = crti_span(jobs.data, jobs.size);
    crti_control_opened(bed->control, link, false, bed->now);
    bed_say(bed, link, CRTI_MSG_NODE_REGISTER, 1, &m);
}

/* Time goes by; nodes are heard (one on NODE_B if there is), and have all of their room. */
static void pass(bed_t *bed, bool has_b, uint64_t ns)
{
    crti_msg_heartbeat_t beat = {.sequence = 1};
    uint64_t end = bed->now + ns;

    assert_int_equal(crti_resources_parse("CPU=4", &beat.available), CRT_OK);
    for (; bed->now < end;
         bed_pass(bed, end - bed->now < CRTI_S ? end - bed->now : CRTI_S)) {
        bed_say(bed, NODE_A, CRTI_MSG_HEARTBEAT, 0, &beat);
        if (has_b)
            bed_say(bed, NODE_B, CRTI_MSG_HEARTBEAT, 0, &beat);
    }
}

static size_t groups(const bed_t *bed)
{
    return crti_control_figures(bed->control).placement_groups;
}

/* ---------------------------------------------------------------- reserving */

static void a_group_is_created_when_all_its_bundles_are_reserved(void **state)
{
    bed_t *bed = *state;
    uint64_t version = 0;

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    bed_forget(bed);
    create(bed, GROUP, 2, CRTI_PLACEMENT_STRICT_SPREAD, 7);
    reserve(bed, NODE_A, true);
    assert_int_equal(answer(bed, 7, NULL), 77);
    bed->seen = 0;
    reserve(bed, NODE_B, true);
    assert_int_equal(answer(bed, 7, &version), CRTI_PLACEMENT_GROUP_CREATED);
    assert_true(bed_has_row(bed, CRTI_STORE_PLACEMENT_GROUPS, bed_id(GROUP)));
    ask(bed, GROUP, version, 8);
    assert_int_equal(answer(bed, 8, NULL), 77); /* it knows that one */
    pass(bed, true, CRTI_PLACEMENT_GROUP_WAIT_NS);
    assert_int_equal(answer(bed, 8, NULL), CRTI_PLACEMENT_GROUP_CREATED);
    control_expect_rest(bed);
}

static void a_node_that_refuses_gives_the_others_their_room_back(void **state)
{
    bed_t *bed = *state;
    const crti_message_t *back;
    crti_msg_bundle_reserve_t first, again;

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    bed_forget(bed);
    create(bed, GROUP, 2, CRTI_PLACEMENT_STRICT_SPREAD, 7);
    first = reserve(bed, NODE_A, true);
    bed->seen = 0;
    reserve(bed, NODE_B, false);
    bed->seen = 0;
    back = bed_next(bed, NODE_A, CRTI_MSG_BUNDLE_RETURN);
    assert_non_null(back);
    assert_int_equal(back->bundle_return.bundle, first.bundle);
    assert_int_equal(back->bundle_return.incarnation, first.incarnation);
    assert_int_equal(answer(bed, 7, NULL), CRTI_PLACEMENT_GROUP_PENDING);
    bed_forget(bed);
    bed_pass(bed, CRTI_LIMIT(group_retry));
    again = reserve(bed, NODE_A, true);
    assert_true(again.incarnation > first.incarnation);
    bed->seen = 0;
    reserve(bed, NODE_B, true);
    ask(bed, GROUP, UINT64_MAX, 9);
    assert_int_equal(answer(bed, 9, NULL), CRTI_PLACEMENT_GROUP_CREATED);
    control_expect_rest(bed);
}

static void a_node_whose_link_breaks_refuses(void **state)
{
    bed_t *bed = *state;
    crti_msg_bundle_reserve_t asked;

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    bed_forget(bed);
    create(bed, GROUP, 2, CRTI_PLACEMENT_STRICT_SPREAD, 7);
    reserve(bed, NODE_A, true);
    bed->seen = 0;
    asked = bed_next(bed, NODE_B, CRTI_MSG_BUNDLE_RESERVE)->bundle_reserve;
    crti_control_closed(bed->control, NODE_B, "it broke", bed->now);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_BUNDLE_RETURN), 1);
    /* It had reserved the bundle; nobody wants that any more. */
    bed_forget(bed);
    join_with(bed, NODE_B + 1, 2, &asked);
    assert_int_equal(bed_count(bed, NODE_B + 1, CRTI_MSG_BUNDLE_RETURN), 1);
    bed_pass(bed, CRTI_LIMIT(group_retry));
    bed->seen = 0;
    reserve(bed, NODE_A, true);
    bed->seen = 0;
    reserve(bed, NODE_B + 1, true);
    ask(bed, GROUP, UINT64_MAX, 9);
    assert_int_equal(answer(bed, 9, NULL), CRTI_PLACEMENT_GROUP_CREATED);
}

static void what_no_node_can_have_is_told_at_once_or_waits(void **state)
{
    bed_t *bed = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    crti_msg_placement_group_create_t m = {
        .group = bed_id(GROUP), .job = bed_id(5), .if_infeasible = CRTI_INFEASIBLE_FAILS};

    add_bundle(&list, "CPU=5");
    m.bundles = crti_span(list.data, list.size);
    bed_say(bed, NODE_A, CRTI_MSG_PLACEMENT_GROUP_CREATE, 7, &m);
    assert_int_equal(answer(bed, 7, NULL), CRTI_PLACEMENT_GROUP_REMOVED);
    m.group = bed_id(GROUP + 1);
    m.if_infeasible = CRTI_INFEASIBLE_DEFAULT;
    bed_say(bed, NODE_A, CRTI_MSG_PLACEMENT_GROUP_CREATE, 8, &m);
    assert_int_equal(answer(bed, 8, NULL), CRTI_PLACEMENT_GROUP_PENDING);
    bed_forget(bed);
    bed_join(bed, NODE_B, 2, 1, 8, NULL, NULL);
    reserve(bed, NODE_B, true);
    assert_int_equal(groups(bed), 1);
}

static void removed_groups_are_not_kept_for_ever(void **state)
{
    bed_t *bed = *state;

    for (uint64_t i = 0; i < CRTI_LIMIT(removed_groups) + 100; i++) {
        crti_msg_placement_group_remove_t end = {.group = bed_id(1000 + i)};

        create(bed, 1000 + i, 1, CRTI_PLACEMENT_PACK, 7);
        reserve(bed, NODE_A, true);
        bed_say(bed, NODE_A, CRTI_MSG_PLACEMENT_GROUP_REMOVE, 8, &end);
        assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_BUNDLE_RETURN), 1);
        bed_forget(bed);
        pass(bed, false, CRTI_MS);
    }
    ask(bed, 1000, 0, 9);
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)),
                     CRT_ERR_NOT_FOUND);
    ask(bed, 1000 + CRTI_LIMIT(removed_groups) + 99, 0, 10);
    assert_int_equal(answer(bed, 10, NULL), CRTI_PLACEMENT_GROUP_REMOVED);
    assert_int_equal(groups(bed), 0);
    assert_false(bed_has_row(bed, CRTI_STORE_PLACEMENT_GROUPS, bed_id(1000)));
}

static void bundles_that_make_no_sense_are_refused(void **state)
{
    bed_t *bed = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    crti_msg_placement_group_create_t m = {.group = bed_id(GROUP), .job = bed_id(5)};

    bed_say(bed, NODE_A, CRTI_MSG_PLACEMENT_GROUP_CREATE, 1, &m); /* none */
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)),
                     CRT_ERR_INVALID);
    m.bundles = crti_span("\x04\0\0\0junk", 8);
    bed_say(bed, NODE_A, CRTI_MSG_PLACEMENT_GROUP_CREATE, 2, &m);
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)),
                     CRT_ERR_PROTOCOL);
    add_bundle(&list, "CPU=1");
    m.bundles = crti_span(list.data, list.size);
    m.strategy = 9;
    bed_say(bed, NODE_A, CRTI_MSG_PLACEMENT_GROUP_CREATE, 3, &m);
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)),
                     CRT_ERR_INVALID);
    m.strategy = 0;
    m.job = bed_id(99);
    bed_say(bed, NODE_A, CRTI_MSG_PLACEMENT_GROUP_CREATE, 4, &m);
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)),
                     CRT_ERR_CANCELLED);
    assert_int_equal(groups(bed), 0);
}

/* ---------------------------------------------------------------- nodes, jobs, heads that die */

static void bundles_of_a_dead_node_are_reserved_elsewhere(void **state)
{
    bed_t *bed = *state;
    uint64_t version = 0;

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    bed_forget(bed);
    create(bed, GROUP, 2, CRTI_PLACEMENT_SPREAD, 7);
    reserve(bed, NODE_A, true);
    bed->seen = 0;
    reserve(bed, NODE_B, true);
    assert_int_equal(answer(bed, 7, &version), CRTI_PLACEMENT_GROUP_CREATED);
    ask(bed, GROUP, version, 8);
    bed_say(bed, NODE_B, CRTI_MSG_NODE_LEAVE, 0,
            &(crti_msg_node_leave_t){.text = crti_str("x")});
    assert_int_equal(answer(bed, 8, NULL), CRTI_PLACEMENT_GROUP_RESCHEDULING);
    bed->seen = 0;
    (void)bed_next(bed, NODE_A, CRTI_MSG_BUNDLE_RESERVE); /* the one of before */
    reserve(bed, NODE_A, true);
    ask(bed, GROUP, UINT64_MAX, 9);
    assert_int_equal(answer(bed, 9, NULL), CRTI_PLACEMENT_GROUP_CREATED);
    control_expect_rest(bed);
}

static void leave(bed_t *bed, uint64_t link)
{
    bed_say(bed, link, CRTI_MSG_NODE_LEAVE, 0,
            &(crti_msg_node_leave_t){.text = crti_str("x")});
}

/* What is reserved then is for the first of them: the group is whole with the next attempt. */
static void
a_bundle_that_is_lost_while_another_is_reserved_again_is_not_forgotten(void **state)
{
    enum { B = NODE_B, C, D, E };
    bed_t *bed = *state;
    uint64_t request;

    bed_join(bed, B, 2, 1, 4, NULL, NULL);
    bed_join(bed, C, 3, 1, 4, NULL, NULL);
    bed_forget(bed);
    create(bed, GROUP, 3, CRTI_PLACEMENT_STRICT_SPREAD, 7);
    for (uint64_t i = 0; i < 3; i++, bed->seen = 0)
        reserve(bed, i ? B + i - 1 : NODE_A, true);
    assert_int_equal(answer(bed, 7, NULL), CRTI_PLACEMENT_GROUP_CREATED);
    leave(bed, B);
    bed_join(bed, D, 4, 1, 4, NULL, NULL);
    bed->seen = 0;
    request = bed_next(bed, D, CRTI_MSG_BUNDLE_RESERVE)->request;
    leave(bed, C);
    bed_say(bed, D, CRTI_MSG_DONE, request, NULL);
    ask(bed, GROUP, UINT64_MAX, 8);
    assert_int_equal(answer(bed, 8, NULL), CRTI_PLACEMENT_GROUP_RESCHEDULING);
    assert_int_equal(bed_count(bed, D, CRTI_MSG_BUNDLE_RETURN), 1);
    bed_join(bed, E, 5, 1, 4, NULL, NULL);
    bed_forget(bed);
    bed_pass(bed, CRTI_LIMIT(group_retry));
    for (uint64_t link = D; link <= E; link++, bed->seen = 0)
        reserve(bed, link, true);
    ask(bed, GROUP, UINT64_MAX, 9);
    assert_int_equal(answer(bed, 9, NULL), CRTI_PLACEMENT_GROUP_CREATED);
    control_expect_rest(bed);
}

static void a_group_ends_with_its_job(void **state)
{
    bed_t *bed = *state;

    create(bed, GROUP, 1, CRTI_PLACEMENT_PACK, 7);
    reserve(bed, NODE_A, true);
    bed_say(bed, NODE_A, CRTI_MSG_JOB_END, 0, &(crti_msg_job_end_t){.job = bed_id(5)});
    assert_int_equal(groups(bed), 0);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_BUNDLE_RETURN), 1);
    assert_false(bed_has_row(bed, CRTI_STORE_PLACEMENT_GROUPS, bed_id(GROUP)));
}

static void a_head_that_restarts_knows_what_was_created(void **state)
{
    bed_t *bed = *state;
    crti_msg_bundle_reserve_t held;

    create(bed, GROUP, 1, CRTI_PLACEMENT_PACK, 7);
    held = reserve(bed, NODE_A, true);
    bed_restart(bed, true);
    join_with(bed, NODE_A, 1, &held);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_BUNDLE_RETURN), 0);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_BUNDLE_RESERVE), 0);
    ask(bed, GROUP, UINT64_MAX, 9);
    assert_int_equal(answer(bed, 9, NULL), CRTI_PLACEMENT_GROUP_CREATED);
    /* What the node gave up meanwhile is reserved again. */
    bed_restart(bed, true);
    join_with(bed, NODE_A, 1, NULL);
    assert_true(reserve(bed, NODE_A, true).incarnation > held.incarnation);
    ask(bed, GROUP, UINT64_MAX, 10);
    assert_int_equal(answer(bed, 10, NULL), CRTI_PLACEMENT_GROUP_CREATED);
}

static void a_reservation_of_a_head_that_died_is_returned(void **state)
{
    bed_t *bed = *state;
    crti_msg_bundle_reserve_t asked;

    create(bed, GROUP, 1, CRTI_PLACEMENT_PACK, 7);
    asked = bed_next(bed, NODE_A, CRTI_MSG_BUNDLE_RESERVE)->bundle_reserve;
    bed_restart(bed, false);
    join_with(bed, NODE_A, 1, &asked);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_BUNDLE_RETURN), 1);
    create(bed, GROUP, 1, CRTI_PLACEMENT_PACK, 7); /* the node asks again */
    bed->seen = 0;
    reserve(bed, NODE_A, true);
    assert_int_equal(answer(bed, 7, NULL), CRTI_PLACEMENT_GROUP_CREATED);
}

static void nobody_hears_of_a_group_before_it_is_durable(void **state)
{
    bed_t *bed = *state;

    bed->manual = true;
    create(bed, GROUP, 1, CRTI_PLACEMENT_PACK, 7);
    reserve(bed, NODE_A, true);
    assert_int_equal(answer(bed, 7, NULL), 77);
    bed_store(bed);
    assert_int_equal(answer(bed, 7, NULL), CRTI_PLACEMENT_GROUP_CREATED);
}

static void a_group_that_can_not_be_stored_is_taken_back(void **state)
{
    bed_t *bed = *state;

    bed->failing = CRT_ERR_IO;
    create(bed, GROUP, 1, CRTI_PLACEMENT_PACK, 7);
    reserve(bed, NODE_A, true);
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)), CRT_ERR_IO);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_BUNDLE_RETURN), 1);
    assert_int_equal(groups(bed), 0);
    bed->failing = CRT_OK;
    pass(bed, false, 10 * CRTI_S);
    bed_forget(bed);
    create(bed, GROUP, 1, CRTI_PLACEMENT_PACK, 8); /* forgotten for certain by now */
    reserve(bed, NODE_A, true);
    assert_int_equal(answer(bed, 8, NULL), CRTI_PLACEMENT_GROUP_CREATED);
}

/* ---------------------------------------------------------------- actors inside */

static void actors_run_in_their_bundle_and_end_with_the_group(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_create_t m = bed_actor(50, 5, "inside");
    crti_msg_placement_group_remove_t end = {.group = bed_id(GROUP)};
    const crti_message_t *start;

    m.group = bed_id(GROUP);
    m.bundle = -1;
    m.detached = true;
    create(bed, GROUP, 1, CRTI_PLACEMENT_PACK, 7);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 2, &m);
    control_watch(bed, NODE_A, 50);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_ACTOR_START), 0);
    bed->seen = 0;
    reserve(bed, NODE_A, true);
    bed->seen = 0;
    start = bed_next(bed, NODE_A, CRTI_MSG_ACTOR_START);
    assert_non_null(start);
    assert_true(crti_id_equal(start->actor_start.group, bed_id(GROUP)));
    assert_int_equal(start->actor_start.bundle, 0);
    bed->seen = 0;
    assert_true(bed_start_actor(bed, NODE_A, 100));
    bed_forget(bed);
    bed_say(bed, NODE_A, CRTI_MSG_PLACEMENT_GROUP_REMOVE, 8, &end);
    assert_int_equal(control_state_of(bed, NODE_A).status, CRT_ERR_UNSCHEDULABLE);
    m.actor = bed_id(51);
    m.name = crti_str("late");
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 3, &m);
    control_watch(bed, NODE_A, 51);
    assert_int_equal(control_state_of(bed, NODE_A).state, CRTI_ACTOR_DEAD);
}

/* The bundle that the next ACTOR_START names; it is refused, as tasks have the bundle. */
static uint64_t refuse_start(bed_t *bed, uint64_t link)
{
    crti_msg_error_t full = {.status = CRT_ERR_BACKPRESSURE, .text = crti_str("full")};
    const crti_message_t *start;
    uint64_t bundle, request;

    bed->seen = 0;
    start = bed_next(bed, link, CRTI_MSG_ACTOR_START);
    assert_non_null(start);
    bundle = (uint64_t)start->actor_start.bundle;
    request = start->request;
    bed_forget(bed);
    bed_say(bed, link, CRTI_MSG_ERROR, request, &full);
    pass(bed, false, CRTI_LIMIT(actor_retry) << CRTI_ACTOR_BACKOFF);
    return bundle;
}

static void an_actor_that_a_bundle_refuses_is_tried_in_the_next_one(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_create_t m = bed_actor(50, 5, "inside");

    m.group = bed_id(GROUP);
    m.bundle = -1;
    create(bed, GROUP, 2, CRTI_PLACEMENT_PACK, 7);
    reserve(bed, NODE_A, true);
    bed->seen = 0;
    (void)bed_next(bed, NODE_A, CRTI_MSG_BUNDLE_RESERVE);
    reserve(bed, NODE_A, true);
    bed_forget(bed);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 2, &m);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(refuse_start(bed, NODE_A), i % 2);
    bed->seen = 0;
    assert_true(bed_start_actor(bed, NODE_A, 100));
}

static void a_group_whose_asker_is_away_is_stored_later(void **state)
{
    bed_t *bed = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    crti_msg_placement_group_create_t m = {.group = bed_id(GROUP), .job = bed_id(5)};

    bed_join(bed, NODE_B, 2, 1, 8, NULL, NULL);
    bed_forget(bed);
    add_bundle(&list, "CPU=6");
    m.bundles = crti_span(list.data, list.size);
    bed_say(bed, NODE_A, CRTI_MSG_PLACEMENT_GROUP_CREATE, 7, &m);
    crti_control_closed(bed->control, NODE_A, "it broke", bed->now);
    bed->failing = CRT_ERR_IO;
    reserve(bed, NODE_B, true);
    join_with(bed, NODE_B + 1, 1, NULL);
    assert_false(bed_has_row(bed, CRTI_STORE_PLACEMENT_GROUPS, bed_id(GROUP)));
    bed->failing = CRT_OK;
    bed_pass(bed, CRTI_S + 100 * CRTI_MS);
    assert_true(bed_has_row(bed, CRTI_STORE_PLACEMENT_GROUPS, bed_id(GROUP)));
    control_expect_rest(bed);
}

/* ---------------------------------------------------------------- which nodes */

typedef struct plan {
    crti_resources_t total[4], need[4];
    crti_placement_node_t nodes[4];
    crti_placement_slot_t slots[4];
    crti_placement_index_t index;
    crti_bundle_choice_t bundles[4];
    crti_resource_names_t names;
} plan_t;

/* Nodes and bundles as "CPU=1" and so on; NULL: the end. */
static crti_bundle_search_t search(plan_t *plan, const char *const *nodes,
                                   const char *const *bundles, uint64_t strategy,
                                   char *text, size_t size)
{
    size_t node_count = 0, count = 0;
    crti_bundle_search_t found;

    *plan = (plan_t){.names.count = 0};
    for (; nodes[node_count]; node_count++) {
        crti_resources_t *total = &plan->total[node_count];

        assert_int_equal(crti_resources_parse(nodes[node_count], total), CRT_OK);
        plan->nodes[node_count] = (crti_placement_node_t){.node = bed_id(node_count + 1),
                                                          .labels = "",
                                                          .total = total,
                                                          .available = total};
        crti_placement_index_set(&plan->index, &plan->slots[node_count],
                                 &plan->nodes[node_count]);
    }
    for (; bundles[count]; count++) {
        assert_int_equal(crti_resources_parse(bundles[count], &plan->need[count]),
                         CRT_OK);
        plan->bundles[count] = (crti_bundle_choice_t){
            .need = &plan->need[count], .how = &crti_scheduling_default, .node = -1};
    }
    found = crti_bundle_placement(plan->nodes, node_count, plan->bundles, count, strategy,
                                  false);
    crti_bundle_placement_reason(&plan->index, plan->bundles, count, strategy,
                                 &plan->names, text, size);
    return found;
}

#define SEARCH(strategy, nodes, ...)                                                     \
    search(&plan, nodes, (const char *const[]){__VA_ARGS__, NULL},                       \
           CRTI_PLACEMENT_##strategy, text, sizeof(text))
#define NODES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void strategies_choose_nodes(void **state)
{
    char text[300];
    plan_t plan;

    assert_int_equal(SEARCH(PACK, NODES("CPU=4", "CPU=4"), "CPU=2", "CPU=2"),
                     CRTI_BUNDLES_FOUND);
    assert_int_equal(plan.bundles[0].node, plan.bundles[1].node);
    assert_int_equal(SEARCH(SPREAD, NODES("CPU=4", "CPU=4"), "CPU=2", "CPU=2", "CPU=2"),
                     CRTI_BUNDLES_FOUND);
    assert_int_not_equal(plan.bundles[0].node, plan.bundles[1].node);
    assert_int_equal(SEARCH(STRICT_SPREAD, NODES("CPU=4", "CPU=4"), "CPU=1", "CPU=1"),
                     CRTI_BUNDLES_FOUND);
    assert_int_not_equal(plan.bundles[0].node, plan.bundles[1].node);
    assert_int_equal(
        SEARCH(STRICT_SPREAD, NODES("CPU=4", "CPU=4"), "CPU=1", "CPU=1", "CPU=1"),
        CRTI_BUNDLES_IMPOSSIBLE);
    assert_string_equal(text, "its 3 bundles need a node each, the cluster has 2");
    /* The fuller one that fits, so that the larger one stays free. */
    assert_int_equal(SEARCH(STRICT_PACK, NODES("CPU=8", "CPU=3"), "CPU=1", "CPU=2"),
                     CRTI_BUNDLES_FOUND);
    assert_int_equal(plan.bundles[0].node, 1);
    assert_int_equal(SEARCH(STRICT_PACK, NODES("CPU=2", "CPU=2"), "CPU=1", "CPU=2"),
                     CRTI_BUNDLES_IMPOSSIBLE);
    assert_string_equal(text,
                        "its 2 bundles need 3 CPU on one node, the largest has 2 CPU");
}

static void a_way_is_found_where_the_first_choice_leads_nowhere(void **state)
{
    char text[300];
    plan_t plan;

    /* The emptiest node is the only one with a GPU for the last bundle. */
    assert_int_equal(
        SEARCH(STRICT_SPREAD, NODES("CPU=8,disk=1", "CPU=2"), "CPU=2", "disk=1,CPU=1"),
        CRTI_BUNDLES_FOUND);
    assert_int_equal(plan.bundles[0].node, 1);
    assert_int_equal(plan.bundles[1].node, 0);
    /* 3+3 | 2+2+2: first fit puts 3 and 2 together. */
    assert_int_equal(
        SEARCH(SPREAD, NODES("CPU=6", "CPU=4"), "CPU=3", "CPU=3", "CPU=2", "CPU=2"),
        CRTI_BUNDLES_FOUND);
    assert_int_equal(SEARCH(PACK, NODES("CPU=3", "CPU=3"), "CPU=2", "CPU=2", "CPU=2"),
                     CRTI_BUNDLES_IMPOSSIBLE);
    assert_string_equal(text, "its 3 bundles do not fit on the nodes together (PACK)");
    assert_int_equal(SEARCH(PACK, NODES("CPU=3", "CPU=3"), "CPU=4"),
                     CRTI_BUNDLES_IMPOSSIBLE);
    assert_string_equal(text, "needs 4 CPU on one node, the largest has 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTROL_TEST(a_group_is_created_when_all_its_bundles_are_reserved),
        CONTROL_TEST(a_node_that_refuses_gives_the_others_their_room_back),
        CONTROL_TEST(a_node_whose_link_breaks_refuses),
        CONTROL_TEST(what_no_node_can_have_is_told_at_once_or_waits),
        CONTROL_TEST(removed_groups_are_not_kept_for_ever),
        CONTROL_TEST(bundles_that_make_no_sense_are_refused),
        CONTROL_TEST(bundles_of_a_dead_node_are_reserved_elsewhere),
        CONTROL_TEST(
            a_bundle_that_is_lost_while_another_is_reserved_again_is_not_forgotten),
        CONTROL_TEST(a_group_ends_with_its_job),
        CONTROL_TEST(a_head_that_restarts_knows_what_was_created),
        CONTROL_TEST(a_reservation_of_a_head_that_died_is_returned),
        CONTROL_TEST(nobody_hears_of_a_group_before_it_is_durable),
        CONTROL_TEST(a_group_that_can_not_be_stored_is_taken_back),
        CONTROL_TEST(actors_run_in_their_bundle_and_end_with_the_group),
        CONTROL_TEST(an_actor_that_a_bundle_refuses_is_tried_in_the_next_one),
        CONTROL_TEST(a_group_whose_asker_is_away_is_stored_later),
        cmocka_unit_test(strategies_choose_nodes),
        cmocka_unit_test(a_way_is_found_where_the_first_choice_leads_nowhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
