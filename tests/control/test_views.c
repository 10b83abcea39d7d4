/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes hear of each other: all of it once they have registered, then what changes, in few
 * messages, and again what a broken link has lost. */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "tests/control/control_test.h"

#define NODE_C 12 /* a link */
#define CPU(n) ((n)*CRTI_RESOURCE_ONE)

/* ---------------------------------------------------------------- few nodes */

/* What one NODE_VIEWS says. */
typedef struct heard {
    const crti_msg_node_views_t *m;
    size_t views, rooms;
    crti_message_t last[8];
} heard_t;

static heard_t next_news(bed_t *bed, uint64_t link)
{
    const crti_message_t *m = bed_next(bed, link, CRTI_MSG_NODE_VIEWS);
    heard_t heard = {0};
    crti_span_t rows, row;

    assert_non_null(m);
    heard.m = &m->node_views;
    rows = m->node_views.rows;
    while (crti_list_unpack(&rows, &row) == CRT_OK) {
        size_t at = (heard.views + heard.rooms) % 8;

        assert_int_equal(crti_message_decode(row.data, row.size, &heard.last[at]),
                         CRT_OK);
        heard.views += heard.last[at].kind == CRTI_MSG_NODE_VIEW;
        heard.rooms += heard.last[at].kind == CRTI_MSG_NODE_ROOM;
    }
    return heard;
}

static bool names(const heard_t *heard, uint64_t node)
{
    for (size_t i = 0; i < heard->views; i++)
        if (crti_id_equal(heard->last[i].node_view.node, bed_id(node)))
            return true;
    return false;
}

static void beat(bed_t *bed, uint64_t link, int64_t cpus)
{
    crti_msg_heartbeat_t m = {0};

    crti_resources_set(&m.available, "CPU", CPU(cpus));
    bed_say(bed, link, CRTI_MSG_HEARTBEAT, 0, &m);
}

static void a_node_that_joins_late_hears_of_all_at_once(void **state)
{
    bed_t *bed = *state;
    heard_t heard;

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    beat(bed, NODE_B, 3);
    bed_pass(bed, CRTI_S);
    bed_forget(bed);
    bed_join(bed, NODE_C, 3, 1, 4, NULL, NULL);
    assert_int_equal(bed_count(bed, NODE_C, CRTI_MSG_NODE_VIEWS), 1);
    heard = next_news(bed, NODE_C);
    assert_true(heard.m->begins && heard.m->ends && heard.m->is_complete);
    assert_int_equal(heard.views, 3);
    assert_true(names(&heard, 1) && names(&heard, 2) && names(&heard, 3));
    bed->seen = 0;
    heard = next_news(bed, NODE_A); /* which knows the others */
    assert_false(heard.m->begins);
    assert_true(heard.m->ends);
    assert_int_equal(heard.views, 1);
    assert_true(names(&heard, 3));
}

static void of_what_becomes_free_others_hear_that_alone(void **state)
{
    bed_t *bed = *state;
    heard_t heard;

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    bed_pass(bed, CRTI_S);
    bed_forget(bed);
    beat(bed, NODE_B, 3);
    bed_pass(bed, 100 * CRTI_MS);
    heard = next_news(bed, NODE_A);
    assert_int_equal(heard.views, 0);
    assert_int_equal(heard.rooms, 1);
    assert_int_equal(crti_resources_get(&heard.last[0].node_room.available, "CPU"),
                     CPU(3));
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_NODE_VIEWS), 0);
}

static void what_a_broken_link_lost_is_told_behind_the_next_registration(void **state)
{
    bed_t *bed = *state;
    heard_t heard;

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    bed_join(bed, NODE_C, 3, 1, 4, NULL, NULL);
    crti_control_closed(bed->control, NODE_B, "reset", bed->now);
    beat(bed, NODE_C, 1);
    bed_pass(bed, 200 * CRTI_MS);
    bed_forget(bed);
    bed_join(bed, 40, 2, 1, 4, NULL, NULL);
    heard = next_news(bed, 40);
    assert_true(heard.m->begins && heard.m->ends && heard.m->is_complete);
    assert_int_equal(heard.views, 3);
    for (size_t i = 0; i < 3; i++)
        if (crti_id_equal(heard.last[i].node_view.node, bed_id(3)))
            assert_int_equal(
                crti_resources_get(&heard.last[i].node_view.available, "CPU"), CPU(1));
    beat(bed, NODE_C, 2); /* and it goes on to hear */
    bed_pass(bed, 100 * CRTI_MS);
    heard = next_news(bed, 40);
    assert_int_equal(heard.rooms, 1);
}

static void of_a_drained_node_all_hear_that_it_offers_nothing(void **state)
{
    bed_t *bed = *state;
    crti_msg_node_drain_t drain = {.node = bed_id(2), .left_ms = 60000};
    heard_t heard;

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    bed_forget(bed);
    bed_say(bed, ADMIN, CRTI_MSG_NODE_DRAIN, 1, &drain);
    heard = next_news(bed, NODE_A); /* no time passed */
    assert_int_equal(heard.views, 1);
    assert_true(heard.last[0].node_view.is_drained);
    assert_int_equal(heard.last[0].node_view.available.count, 0);
    bed_forget(bed);
    beat(bed, NODE_B, 2);
    bed_pass(bed, 200 * CRTI_MS);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_NODE_VIEWS), 0);
}

static void a_dead_node_is_not_among_all(void **state)
{
    bed_t *bed = *state;
    heard_t heard;

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    bed_say(bed, NODE_B, CRTI_MSG_NODE_LEAVE, 0,
            &(crti_msg_node_leave_t){.text = crti_str("stopped")});
    bed_forget(bed);
    bed_join(bed, NODE_C, 3, 1, 4, NULL, NULL);
    heard = next_news(bed, NODE_C);
    assert_int_equal(heard.views, 2);
    assert_false(names(&heard, 2));
    bed_join(bed, 41, 2, 2, 4, NULL, NULL); /* it started again */
    heard = next_news(bed, NODE_C);
    assert_true(names(&heard, 2));
}

static void while_nodes_are_expected_back_nobody_is_told_that_these_are_all(void **state)
{
    bed_t *bed = *state;
    heard_t heard;

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    bed_restart(bed, true);
    bed_forget(bed);
    bed_join(bed, 50, 1, 1, 4, NULL, NULL);
    heard = next_news(bed, 50);
    assert_true(heard.m->begins && heard.m->ends);
    assert_false(heard.m->is_complete);
    assert_false(names(&heard, 2));
    bed_join(bed, 51, 2, 1, 4, NULL, NULL);
    heard = next_news(bed, 51);
    assert_true(heard.m->is_complete);
    bed->seen = 0;
    next_news(bed, 50);
    heard = next_news(bed, 50);
    assert_true(names(&heard, 2));
}

/* ---------------------------------------------------------------- many nodes */

typedef struct crowd {
    crti_control_t *control;
    uint64_t now, tickets, done;
    size_t messages, bytes;
    size_t rows_of_last,
        complete; /* the last node that registered; nodes that heard of all */
    uint64_t last;
    uint64_t slow; /* a link that does not read */
} crowd_t;

static void do_send(void *user, uint64_t link, const void *message, size_t size)
{
    crowd_t *c = user;
    crti_message_t m;
    crti_span_t row;

    assert_int_equal(crti_message_decode(message, size, &m), CRT_OK);
    if (m.kind != CRTI_MSG_NODE_VIEWS)
        return;
    assert_true(link != c->slow);
    c->messages++;
    c->bytes += size;
    c->complete += m.node_views.ends;
    if (link != c->last)
        return;
    while (crti_list_unpack(&m.node_views.rows, &row) == CRT_OK)
        c->rows_of_last++;
}

static void do_drop(void *user, uint64_t link, const char *why)
{
    fail_msg("link %llu was dropped: %s", (unsigned long long)link, why);
}

static size_t get_queued(void *user, uint64_t link)
{
    return link == ((crowd_t *)user)->slow ? (size_t)32 << 20 : 0;
}

static void do_store(void *user, const crti_store_operation_t *operation)
{
    ((crowd_t *)user)->tickets++;
}

static bool do_revoke(void *user, crti_id_t id, bool is_revoked)
{
    return true;
}

static void make_crowd(crowd_t *c)
{
    crti_control_config_t config = {.cluster = {1, 1},
                                    .address = "10.0.0.1:1",
                                    .actions = {.user = c,
                                                .send = do_send,
                                                .drop = do_drop,
                                                .queued = get_queued,
                                                .store = do_store,
                                                .revoke = do_revoke}};

    *c = (crowd_t){.now = CRTI_S};
    assert_int_equal(crti_control_new(&config, &c->control), CRT_OK);
    crti_control_loaded(c->control, c->now);
}

static void store_all(crowd_t *c)
{
    while (c->done < c->tickets)
        crti_control_stored(c->control, ++c->done, CRT_OK, "", false, crti_span(NULL, 0),
                            c->now);
}

static void pass(crowd_t *c, uint64_t ns)
{
    uint64_t end = c->now + ns, next;

    while ((next = crti_control_deadline(c->control)) <= end) {
        c->now = next > c->now ? next : c->now;
        crti_control_tick(c->control, c->now);
        store_all(c);
    }
    c->now = end;
}

static void enter(crowd_t *c, uint64_t link)
{
    crti_message_t m = {.kind = CRTI_MSG_NODE_REGISTER, .request = 1};

    m.node_register = (crti_msg_node_register_t){.protocol = CRTI_PROTOCOL_VERSION,
                                                 .version = crti_str("test"),
                                                 .node = bed_id(link),
                                                 .incarnation = 1,
                                                 .endpoint = crti_str("10.0.0.1:7000")};
    crti_resources_set(&m.node_register.resources, "CPU", CPU(4));
    m.node_register.available = m.node_register.resources;
    c->last = link;
    crti_control_opened(c->control, link, false, c->now);
    crti_control_message(c->control, link, &m, c->now);
    store_all(c);
}

static void beat_all(crowd_t *c, size_t count, int64_t cpus)
{
    crti_message_t m = {.kind = CRTI_MSG_HEARTBEAT};

    crti_resources_set(&m.heartbeat.available, "CPU", CPU(cpus));
    for (size_t i = 1; i <= count; i++)
        crti_control_message(c->control, i, &m, c->now);
}

/* So many register in a second; then each says once that something has changed. The number of
 * messages until all know all. */
static size_t storm(size_t count)
{
    crowd_t c;
    size_t messages;

    make_crowd(&c);
    for (size_t i = 1; i <= count; i++) {
        enter(&c, i);
        pass(&c, CRTI_S / count);
    }
    pass(&c, CRTI_S);
    beat_all(&c, count, 4);
    pass(&c, 4 * CRTI_S);
    assert_true(c.rows_of_last >= count); /* the last hears of all */
    assert_true(c.complete >= count);
    beat_all(&c, count, 3);
    c.rows_of_last = 0;
    pass(&c, 4 * CRTI_S);
    assert_int_equal(c.rows_of_last, count);
    messages = c.messages;
    crti_control_free(c.control);
    return messages;
}

static void a_storm_of_nodes_costs_messages_in_the_order_of_their_number(void **state)
{
    size_t few = storm(200), many = storm(1600);

    print_message("%zu messages for 200 nodes, %zu for 1600\n", few, many);
    assert_true(many <=
                6 * 8 * few / 4); /* 64 times as many, were it one for each pair */
}

static void a_slow_reader_hears_later_and_nothing_twice(void **state)
{
    crowd_t c;

    make_crowd(&c);
    c.slow = 1;
    for (size_t i = 1; i <= 100; i++)
        enter(&c, i);
    pass(&c, CRTI_S);
    beat_all(&c, 100, 3);
    pass(&c, CRTI_S);
    c.slow = 0;
    c.last = 1;
    c.rows_of_last = 0;
    c.messages = 0;
    beat_all(&c, 100, 3);
    pass(&c, CRTI_S);
    assert_int_equal(c.rows_of_last, 100);
    assert_int_equal(c.messages, 1);
    crti_control_free(c.control);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTROL_TEST(a_node_that_joins_late_hears_of_all_at_once),
        CONTROL_TEST(of_what_becomes_free_others_hear_that_alone),
        CONTROL_TEST(what_a_broken_link_lost_is_told_behind_the_next_registration),
        CONTROL_TEST(of_a_drained_node_all_hear_that_it_offers_nothing),
        CONTROL_TEST(a_dead_node_is_not_among_all),
        CONTROL_TEST(while_nodes_are_expected_back_nobody_is_told_that_these_are_all),
        cmocka_unit_test(a_storm_of_nodes_costs_messages_in_the_order_of_their_number),
        cmocka_unit_test(a_slow_reader_hears_later_and_nothing_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
