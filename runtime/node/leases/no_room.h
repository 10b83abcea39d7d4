/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that found no room, remembered by lease_table.c while it serves its queue. */
#ifndef CRTI_NODE_NO_ROOM_H
#define CRTI_NODE_NO_ROOM_H

#include "runtime/node/leases/lease_table.h"

#define CRTI_NO_ROOM 8

/* What found no room anywhere: while a queue is served nothing becomes free, so that another
 * request for the same finds none either. Thousands may wait for the same, in a cluster of many
 * nodes. */
typedef struct crti_no_room {
    const crti_lease_t *shapes[CRTI_NO_ROOM]; /* of requests that go on waiting */
    unsigned count;
} crti_no_room_t;

static inline bool crti_has_no_room(const crti_no_room_t *v, const crti_lease_t *lease)
{
    for (unsigned i = 0; i < v->count; i++)
        if (crti_resources_equal(&v->shapes[i]->resources, &lease->resources) &&
            crti_scheduling_equal(&v->shapes[i]->how, &lease->how))
            return true;
    return false;
}

#endif
