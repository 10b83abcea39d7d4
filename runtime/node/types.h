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

typedef struct crti_node crti_node_t;
typedef struct crti_process crti_process_t;
typedef struct crti_local crti_local_t;
typedef struct crti_job crti_job_t;
typedef struct crti_worker crti_worker_t;

#endif
