/* SPDX-License-Identifier: Apache-2.0 */
/* runtime/node/spawn.c as it is, but for the exec itself, which system_node.c does. */
#define crti_exec_start crti_exec_start_really
#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>

#include "runtime/node/spawn.c"
#include "tests/sim/system_wrap.h"
