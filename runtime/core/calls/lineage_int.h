/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of lineages: lineage.c keeps them, remake.c runs their calls once more. */
#ifndef CRTI_CORE_CALLS_LINEAGE_INT_H
#define CRTI_CORE_CALLS_LINEAGE_INT_H

#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/calls/lineage.h"

/* Followed by its results (NULL: gone), the refs that its arguments need, and its record. */
struct crti_lineage {
    crti_list_t link; /* crti_lineages_t.all */
    const crti_function_t *function;
    union {
        crti_task_pool_t *pool; /* of a task: used */
        crt_actor_t *actor;     /* of a method: held weakly */
    };
    crti_call_options_t *options; /* NULL: nothing unusual */
    struct crti_remake *remake;   /* it is under way; NULL: it is not */
    uint64_t first;               /* number of its first result */
    int64_t max_retries;
    uint32_t retries; /* attempts after the first */
    uint32_t pin_count;
    uint32_t record_size;
    uint16_t returns, living; /* results, and those that are not gone */
    uint8_t group;
    crt_ref_t *refs[];
};

/* An attempt that makes results again. */
typedef struct crti_remake {
    crti_list_t link; /* crti_lineages_t.under_way */
    crti_lineage_t *lineage;
    uint64_t since_ns;
    bool is_told;
} crti_remake_t;

static inline bool crti_lineage_is_task(const crti_lineage_t *l)
{
    return l->function->task != NULL;
}

static inline crt_ref_t **crti_lineage_pins(const crti_lineage_t *l)
{
    return (crt_ref_t **)(uintptr_t)(l->refs + l->returns);
}

static inline crti_span_t crti_lineage_record(const crti_lineage_t *l)
{
    return crti_span(crti_lineage_pins(l) + l->pin_count, l->record_size);
}

/* Whether its call may run once more. */
static inline bool crti_lineage_may_repeat(const crti_lineage_t *l)
{
    bool is_task = crti_lineage_is_task(l);
    int64_t most = crti_most_retries(is_task ? NULL : l->actor, l->max_retries);

    return (most < 0 || l->retries < most) &&
           (is_task || l->actor->phase != CRTI_ACTOR_GONE);
}

/* Of a call, the first one too. */
static inline crt_ref_t *crti_pending_result(const crti_pending_t *p, unsigned index)
{
    return index ? p->more[index - 1] : p->result;
}

#endif
