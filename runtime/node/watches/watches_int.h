/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of watches/, which its own files see. */
#ifndef CRTI_NODE_WATCHES_INT_H
#define CRTI_NODE_WATCHES_INT_H

#include "runtime/node/process/context.h"
#include "runtime/node/watches/watch.h"

struct crti_watches {
    crti_map_t by_process; /* process id -> watch */
    crti_map_t actors;     /* actor id -> watch, actor_watch.c */
    crti_buffer_t dead;    /* ring of the last deaths, for late watchers */
    size_t dead_next;
    uint64_t again_ns; /* when watches were said again last */
};

#endif
