/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of control share: a bed with a node, a job and a command, and what they say
 * most. */
#ifndef TESTS_CONTROL_CONTROL_TEST_H
#define TESTS_CONTROL_CONTROL_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/control/bed.h"

#define NODE_A 10 /* links */
#define NODE_B 11
#define ADMIN  20

#define CONTROL_TEST(name)                                                               \
    cmocka_unit_test_setup_teardown(name, control_test_begin, control_test_end)

/* In *state: a bed with node 1 on NODE_A, job 5 of it, and a command on ADMIN. */
int control_test_begin(void **state);
int control_test_end(void **state);

/* The status of a message that must be an error. */
crt_status_t control_error_of(const crti_message_t *m);
void control_create(bed_t *bed, uint64_t actor, const char *name);
void control_watch(bed_t *bed, uint64_t link, uint64_t actor);
/* The last ACTOR_STATE that was sent on the link. */
crti_msg_actor_state_t control_state_of(bed_t *bed, uint64_t link);
/* Nothing waits to be stored or sent. */
void control_expect_rest(bed_t *bed);
/* A living actor on node A in process actor + 100. */
void control_make_alive(bed_t *bed, uint64_t actor, const char *name);
/* A submission that is to run. */
void control_submit(bed_t *bed, const char *name);

#endif
