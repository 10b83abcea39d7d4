/* SPDX-License-Identifier: Apache-2.0 */
/* Resource deadlocks: when they are looked for, and what is told of them. See
 * control_deadlock.c. */
#ifndef CRTI_CONTROL_CONTROL_DEADLOCK_H
#define CRTI_CONTROL_CONTROL_DEADLOCK_H

#include <stdint.h>

#include "runtime/base/clock.h"
#include "runtime/base/id.h"
#include "runtime/base/limit.h"
#include "runtime/base/list.h"
#include "runtime/base/map.h"
#include "runtime/control/control.h"

/* A job that can't go on. Texts: "2 CPU", "1 CPU (actor Counter)". */
typedef struct crti_deadlock_member {
    crti_id_t job;
    char name[80]; /* "job 0123abcd (pid 17 on 10.0.0.1)" */
    char holds[128], wants[128];
} crti_deadlock_member_t;

/* One that was found: goes on until `end_ms`. */
typedef struct crti_deadlock_report {
    crti_list_t link;
    crti_id_t id;
    int64_t start_ms, end_ms; /* end_ms 0: it goes on */
    char *text;
    crti_deadlock_member_t *members; /* those that hold something first */
    size_t count;
} crti_deadlock_report_t;

typedef struct crti_deadlocks {
    uint64_t due_ns;     /* of the next look; UINT64_MAX: nothing waits */
    bool is_asking;      /* nodes have not answered */
    crti_map_t last;     /* job -> what was seen of it in the last look */
    crti_list_t reports; /* the oldest first; only the last one may go on */
    size_t report_count;
} crti_deadlocks_t;

void crti_deadlocks_init(crti_deadlocks_t *deadlocks);
void crti_deadlocks_fini(crti_deadlocks_t *deadlocks);

/* Something waits for resources: looks begin, and end by themselves when nothing does. */
static inline void crti_deadlocks_expect(crti_deadlocks_t *deadlocks, uint64_t now_ns)
{
    if (deadlocks->due_ns == UINT64_MAX && !deadlocks->is_asking)
        deadlocks->due_ns = now_ns + CRTI_LIMIT(deadlock_delay);
}
/* The look that is due. */
void crti_control_deadlock_look(crti_control_t *control);
/* The one that goes on; NULL: none. */
static inline crti_deadlock_report_t *
crti_deadlocks_now(const crti_deadlocks_t *deadlocks)
{
    crti_deadlock_report_t *last;

    if (crti_list_is_empty(&deadlocks->reports))
        return NULL;
    last = CRTI_CONTAINER(deadlocks->reports.prev, crti_deadlock_report_t, link);
    return last->end_ms ? NULL : last;
}

#endif
