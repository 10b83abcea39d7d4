/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of lifecycle/, which its own files see. */
#ifndef CRTI_NODE_LIFECYCLE_INT_H
#define CRTI_NODE_LIFECYCLE_INT_H

#include "runtime/node/lifecycle/drain.h"
#include "runtime/node/process/context.h"

struct crti_lifecycle {
    char http[288], http_pin[56]; /* of the dashboard, as the head says */
    crti_timer_t stop_timer;
    uint64_t flush_until_ns; /* all are gone; the last words go out */
    /* its id is another node's: the process begins anew with another one */
    bool is_clash;
    bool is_leaving; /* node.info says so */
};

struct crti_drain {
    uint64_t deadline_ns; /* 0: it is not drained */
    uint64_t look_ns;     /* when it is looked what is left */
    uint64_t idle_ns;     /* since then it only stores objects; 0: it does more */
    crti_buffer_t others; /* ids of nodes that are drained */
};

#endif
