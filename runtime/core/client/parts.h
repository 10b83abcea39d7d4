/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime of a process, made and taken apart. See parts.c. */
#ifndef CRTI_CORE_CLIENT_PARTS_H
#define CRTI_CORE_CLIENT_PARTS_H

#include "runtime/core/types.h"

/* NULL: out of memory. */
crti_core_t *crti_core_new(void);
/* At shutdown: what the user still holds stays as memory; everything else goes. */
void crti_core_orphan(crti_core_t *core);
void crti_core_free(crti_core_t *core);

#endif
