/* SPDX-License-Identifier: Apache-2.0 */
/* Types that more than one module of the core names without looking inside. */
#ifndef CRTI_CORE_TYPES_H
#define CRTI_CORE_TYPES_H

#include "runtime/base/id.h"
#include "runtime/crt.h"

typedef struct crti_core crti_core_t;         /* process/context.h */
typedef struct crti_executor crti_executor_t; /* execution/executor.h */
typedef struct crti_pending crti_pending_t;   /* calls/calls.h */

/* Parts of a process, each known to its module only (process/context.h). */
typedef struct crti_node_link crti_node_link_t;   /* process/node_link.h */
typedef struct crti_core_timer crti_core_timer_t; /* process/timer.h */
typedef struct crti_printed crti_printed_t;       /* process/printed.h */
typedef struct crti_seeds crti_seeds_t;           /* process/seeds.h */
typedef struct crti_remotes crti_remotes_t;       /* process/remotes.h */
typedef struct crti_blocked crti_blocked_t;       /* process/blocking.h */
typedef struct crti_frees crti_frees_t;           /* process/store_access.h */
typedef struct crti_program crti_program_t;       /* process/program.h */
typedef struct crti_encoder crti_encoder_t;       /* values/value.h */
typedef struct crti_refs crti_refs_t;             /* refs/refs_int.h */
typedef struct crti_calls crti_calls_t;           /* calls/calls_int.h */
typedef struct crti_execution crti_execution_t;   /* execution/execution_int.h */
typedef struct crti_waits crti_waits_t;           /* client/waitset.h */

typedef struct crti_stream_place crti_stream_place_t; /* process/context.h */
typedef struct crti_remote crti_remote_t;             /* process/remotes.h */
typedef struct crti_client crti_client_t;             /* likewise */
typedef struct crti_function crti_function_t;         /* process/program.h */

/* In which one a call runs; `group` zero: in none. */
typedef struct crti_placement {
    crti_id_t group;
    int64_t bundle;
    bool captures_children; /* what it makes goes there, too */
} crti_placement_t;

#endif
