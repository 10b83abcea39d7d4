/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of control share. See control_test.h. */
#include "tests/control/control_test.h"

int control_test_begin(void **state)
{
    bed_t *bed = bed_new();

    bed_join(bed, NODE_A, 1, 1, 4, NULL, NULL);
    bed_add_job(bed, NODE_A, 1, 5);
    crti_control_opened(bed->control, ADMIN, true, bed->now);
    bed_forget(bed);
    *state = bed;
    return 0;
}

int control_test_end(void **state)
{
    bed_free(*state);
    return 0;
}

crt_status_t control_error_of(const crti_message_t *m)
{
    assert_non_null(m);
    assert_int_equal(m->kind, CRTI_MSG_ERROR);
    return (crt_status_t)m->error.status;
}

void control_create(bed_t *bed, uint64_t actor, const char *name)
{
    crti_msg_actor_create_t m = bed_actor(actor, 5, name);

    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, actor, &m);
}

void control_watch(bed_t *bed, uint64_t link, uint64_t actor)
{
    crti_msg_actor_watch_t m = {.actor = bed_id(actor)};

    bed_say(bed, link, CRTI_MSG_ACTOR_WATCH, 1, &m);
}

/* The last ACTOR_STATE that was sent on the link. */
crti_msg_actor_state_t control_state_of(bed_t *bed, uint64_t link)
{
    crti_msg_actor_state_t found = {.state = 77};
    const crti_message_t *m;

    while ((m = bed_next(bed, link, CRTI_MSG_ACTOR_STATE)))
        found = m->actor_state;
    return found;
}

void control_expect_rest(bed_t *bed)
{
    crti_control_figures_t f = crti_control_figures(bed->control);

    assert_int_equal(f.outbox, 0);
    assert_int_equal(f.dirty, 0);
}

/* A living actor `actor` on node A in process actor + 100. */
void control_make_alive(bed_t *bed, uint64_t actor, const char *name)
{
    control_create(bed, actor, name);
    assert_true(bed_start_actor(bed, NODE_A, actor + 100));
    bed_forget(bed);
}

void control_submit(bed_t *bed, const char *name)
{
    crti_msg_job_submit_t m = {.submission = crti_str(name),
                               .entrypoint = crti_str("train --x 1"),
                               .argv = crti_str("argv"),
                               .sha = crti_str("ff"),
                               .metadata = crti_str("{\"k\":\"v\"}")};

    bed_say(bed, ADMIN, CRTI_MSG_JOB_SUBMIT, 1, &m);
}
