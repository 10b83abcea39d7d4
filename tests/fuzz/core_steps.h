/* SPDX-License-Identifier: Apache-2.0 */
/* What fuzz_core.c and its valid inputs (core_seeds.c) share: who is there, and the steps. */
#ifndef CRTI_TESTS_FUZZ_CORE_STEPS_H
#define CRTI_TESTS_FUZZ_CORE_STEPS_H

#include "runtime/base/id.h"

#include "steps.h"

#define OTHERS      3 /* processes */
#define LARGE       100000
#define INCARNATION 7
#define OURS        0xfee1 /* in an id: that of an actor or lease of ours, which are drawn */

enum { IS_WORKER = 1 }; /* mode */

/* LOSE is told whose session: this and a process's number: the one that we made. */
#define OUR_SESSION 6

/* FILL: the window of a process that called us is full, or with an odd byte has room again. */
enum { CALLER, CALLED, LOSE, NOTICE, ANSWER, RUN, USE, TICK, FILL, STEPS };

static const crti_id_t us = {0, 5}, our_node = {0, 9};

static inline crti_id_t other(unsigned number)
{
    return (crti_id_t){0, 20 + number % OTHERS};
}

/* One is of our node. */
static inline crti_id_t node_of(unsigned number)
{
    return number % OTHERS ? (crti_id_t){0, 9 + number % OTHERS} : our_node;
}

#endif
