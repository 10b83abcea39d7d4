/* SPDX-License-Identifier: Apache-2.0 */
/* Names that all modules of the node daemon know, and what their headers are made of. */
#ifndef CRTI_NODE_TYPES_H
#define CRTI_NODE_TYPES_H

#include "runtime/base/buffer.h"
#include "runtime/base/id.h"
#include "runtime/base/list.h"
#include "runtime/base/map.h"
#include "runtime/net/channel.h"
#include "runtime/net/loop.h"
#include "runtime/net/stream.h"

typedef struct crti_node crti_node_t;       /* process/context.h */
typedef struct crti_process crti_process_t; /* process/process.h */
typedef struct crti_local crti_local_t;     /* links/local.h */
typedef struct crti_job crti_job_t;         /* jobs/job_int.h */
typedef struct crti_worker crti_worker_t;   /* leases/worker_table.h */

/* Parts of a node, each known to its module only (process/context.h). */
typedef struct crti_processes crti_processes_t;       /* process/process_int.h */
typedef struct crti_node_memory crti_node_memory_t;   /* likewise */
typedef struct crti_locals crti_locals_t;             /* links/links_int.h */
typedef struct crti_head crti_head_t;                 /* likewise */
typedef struct crti_peers crti_peers_t;               /* likewise */
typedef struct crti_watches crti_watches_t;           /* watches/watches_int.h */
typedef struct crti_leases crti_leases_t;             /* leases/leases_int.h */
typedef struct crti_pulls crti_pulls_t;               /* objects/objects_int.h */
typedef struct crti_spill crti_spill_t;               /* objects/objects_int.h */
typedef struct crti_owners crti_owners_t;             /* objects/objects_int.h */
typedef struct crti_actors crti_actors_t;             /* actors/actors_int.h */
typedef struct crti_node_fence crti_node_fence_t;     /* likewise */
typedef struct crti_logs crti_logs_t;                 /* logs/logs_int.h */
typedef struct crti_jobs crti_jobs_t;                 /* jobs/job_int.h */
typedef struct crti_submissions crti_submissions_t;   /* jobs/submission_int.h */
typedef struct crti_lifecycle crti_lifecycle_t;       /* lifecycle/lifecycle_int.h */
typedef struct crti_drain crti_drain_t;               /* likewise */
typedef struct crti_registration crti_registration_t; /* dispatch/dispatch_int.h */
typedef struct crti_questions crti_questions_t;       /* likewise */
typedef struct crti_rest crti_rest_t;                 /* likewise */

#endif
