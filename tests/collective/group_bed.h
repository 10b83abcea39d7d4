/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of failures and of deaths share: four members that live through all tests, and
 * what is expected of them. */
#ifndef CRTI_TESTS_COLLECTIVE_GROUP_BED_H
#define CRTI_TESTS_COLLECTIVE_GROUP_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "member.h"

extern const char *backend;
extern crt_actor_t *members[MEMBERS];

/* How often: `variable` of the environment, else `shm`, or fewer where a round takes longer. */
int rounds(const char *variable, int shm, int other);

crt_ref_t *join(int member, const char *name, int size, int rank, int timeout_ms);
crt_ref_t *operate(int member, int kind, int dtype, int count, int reduction, int root);
/* The call ends with that status and a text with these words. Drops the ref. */
void expect_failure(crt_ref_t *ref, crt_status_t status, const char *words);
const char *id_of(int member);
int64_t pid_of(int member);
/* The first `count` members. */
void rebuild_all(int count, int size);
void expect_sums(int count, double wanted);

/* Keys of groups in the control store. */
int count_keys(void);
void await_keys(int count);

/* The program: the members, and a driver that runs the tests with the backend of its first
 * argument, those that its second argument names. */
int group_bed_main(int argc, char **argv, int (*driver)(int argc, char **argv));
int group_bed_run(int argc, char **argv, const struct CMUnitTest *tests, size_t count);

#endif
