/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of hpp.cpp through the C interface. Each function ends the process on an error. */
#ifndef CRTI_TESTS_BENCH_HPP_C_H
#define CRTI_TESTS_BENCH_HPP_C_H

#include <crt.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes an actor. The caller drops the handle. */
crt_actor_t *c_adder(void);
/* Make `count` calls, each after the result of the one before, or all at once; return the last
 * result. `refs` has room for `count` refs. */
int64_t c_calls(crt_actor_t *actor, int count);
int64_t c_batch(crt_actor_t *actor, crt_ref_t **refs, int count);
/* Run `count` tasks, each after the result of the one before; return the last result. */
int64_t c_tasks(int count);
int64_t c_texts(int count);

#ifdef __cplusplus
}
#endif

#endif
