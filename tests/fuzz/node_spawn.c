/* SPDX-License-Identifier: Apache-2.0 */
/* runtime/node/spawn.c as it is, but for the exec itself, which fuzz_node.c does. */
#define crti_exec_start crti_exec_start_really
#include "runtime/node/spawn.c"
