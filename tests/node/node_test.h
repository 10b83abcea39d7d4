/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the node daemon share: a scene for each, and what they ask for most. */
#ifndef CRTI_TESTS_NODE_NODE_TEST_H
#define CRTI_TESTS_NODE_NODE_TEST_H

#include "scene.h"

#define NODE_TEST(name)                                                                  \
    cmocka_unit_test_setup_teardown(name, node_test_begin, node_test_end)

/* Before and after each test: a scene of its own in *state. */
int node_test_begin(void **state);
int node_test_end(void **state);

/* Runs `tests`, those named like argv[1] when there is one. As a worker or zygote of a node
 * daemon the same executable is the program of its job instead (program.c). */
int node_test_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count);

/* Mounts a file system whose server takes every question and answers none, in a mount namespace of
 * this process: closing the descriptor ends it. -1: there is no FUSE here. */
int node_test_mount_dead(const char *path);

/* Seconds of processor time that the process has used. */
double node_test_cpu_seconds(pid_t pid);

bool node_test_contains(crti_span_t text, const char *part);

/* Driver d gives the lease of a worker at `node` back. */
void node_test_return_lease(scene_t *s, int d, crti_id_t lease, crti_id_t node);

/* The start of actor `number` of driver 0's job, as the head sends it. */
crti_msg_actor_start_t node_test_actor_start(scene_t *s, uint64_t number);

#endif
