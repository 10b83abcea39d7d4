/* SPDX-License-Identifier: Apache-2.0 */
/* Types that more than one module of the core names without looking inside. */
#ifndef CRTI_CORE_TYPES_H
#define CRTI_CORE_TYPES_H

#include "runtime/base/id.h"
#include "runtime/crt.h"

typedef struct crti_core crti_core_t;         /* core.h */
typedef struct crti_executor crti_executor_t; /* execution/executor.h */
typedef struct crti_pending crti_pending_t;   /* calls/calls.h */

/* In which one a call runs; `group` zero: in none. */
typedef struct crti_placement {
    crti_id_t group;
    int64_t bundle;
    bool captures_children; /* what it makes goes there, too */
} crti_placement_t;

#endif
