/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster of its own for a benchmark, also where its user runs one. */
#ifndef CRTI_TESTS_BENCH_OWN_CLUSTER_H
#define CRTI_TESTS_BENCH_OWN_CLUSTER_H

#include <stdlib.h>

/* Call before crt_init or crt_main. No cluster is of this state directory, so that none is found
 * and a private one is started, which keeps its state in its run directory. */
static inline void use_own_cluster(void)
{
    setenv("CRT_STATE_DIR", "/nonexistent/of-a-benchmark", 1);
    unsetenv("CRT_ADDRESS");
}

#endif
