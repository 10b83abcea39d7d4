/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of fuzz_node.c's inputs, which node_seeds.c writes. */
#ifndef CRTI_TESTS_FUZZ_NODE_STEPS_H
#define CRTI_TESTS_FUZZ_NODE_STEPS_H

#include "steps.h"

#define OURS    0xfee1 /* in an id: that of the last worker that was wished for */
#define OUR_PID 1      /* in a message: a pid that may be said here */

enum { LOCAL, CLOSE, ZYGOTE, DIE, NEWS, ANSWER, GUEST, PEER, BREAK, TICK, STEPS };

#endif
