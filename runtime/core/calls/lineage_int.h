/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of lineages: lineage.c keeps them, lineage_items.c those of streams, remake.c runs
 * their calls once more. */
#ifndef CRTI_CORE_CALLS_LINEAGE_INT_H
#define CRTI_CORE_CALLS_LINEAGE_INT_H

#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/calls/lineage.h"
#include "runtime/core/calls/stream.h"

/* Of a stream, whose first run may still go on. */
typedef struct crti_items {
    crti_numbers_t refs;    /* index + 1 -> crt_ref_t, of items that may be lost */
    crt_stream_t *stream;   /* of the first run; NULL: that has ended */
    uint64_t total;         /* items of it, when it has ended */
    unsigned first_retries; /* attempts of it that are in the lineage's `retries` */
    crti_pending_t *run;    /* that makes some again; NULL: none is under way */
    crti_list_t awaited;    /* crti_ref_more_t.awaited: refs that wait for it, held; */
    size_t expected;        /* of these, those that it has not come to */
} crti_items_t;

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
    crti_items_t *items;          /* of a stream; NULL: it is none */
    uint64_t first;               /* number of its first result */
    int64_t max_retries;
    uint32_t retries; /* attempts after the first */
    uint32_t pin_count;
    uint32_t record_size;
    uint32_t living;  /* results and items that are not gone */
    uint16_t returns; /* results */
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

/* What is known of the call that goes on is kept; its results are not among it yet. NULL: no
 * memory, `items` stay the caller's. */
crti_lineage_t *crti_lineage_open(crti_pending_t *p, crti_items_t *items);
/* It takes so many bytes. Who changes that says by how many. */
size_t crti_lineage_bytes(const crti_lineage_t *l);
void crti_lineages_add_bytes(crti_core_t *core, int64_t bytes);
/* Lineages end until all that are left fit; any may be among these. */
void crti_lineage_make_room(crti_core_t *core);
/* Nobody holds a result or item any more, and nothing of it goes on. */
void crti_lineage_end_unused(crti_core_t *core, crti_lineage_t *l);
/* That ref is not made again by its lineage any more. */
void crti_lineage_leave(crt_ref_t *ref, crti_not_again_t why);
/* Something speaks against another run of that call; PUT: nothing. */
crti_not_again_t crti_lineage_why_not(const crti_pending_t *p);

/* ---------------------------------------------------------------- lineage_items.c */

/* That of a stream whose first run goes on, made when there is none. NULL: no memory. */
crti_lineage_t *crti_items_lineage(crti_pending_t *p);
void crti_items_free(crti_items_t *items);
/* An item is freed. */
void crti_items_forget(crti_core_t *core, crti_lineage_t *l, const crt_ref_t *ref);
/* All are left: the lineage ends for lack of room. */
void crti_items_leave(const crti_lineage_t *l, crti_not_again_t why);
/* Attempts of the first run, as far as they are not counted yet, are. */
void crti_items_count_retries(crti_lineage_t *l);
/* `p` will make those again that are missing, and `asked`, which may be NULL. */
void crti_items_await(crti_pending_t *p, crti_lineage_t *l, crt_ref_t *asked);
/* The first one that is awaited, where its run begins to yield; when its result alone is needed,
 * behind the last one. */
uint64_t crti_items_first(const crti_lineage_t *l);
/* One is wanted while a run is under way. */
void crti_items_join(crti_lineage_t *l, crt_ref_t *ref);
/* That run has ended so. */
void crti_items_run_ended(crti_lineage_t *l, const crti_result_t *result);

/* Of a call, the first one too. */
static inline crt_ref_t *crti_pending_result(const crti_pending_t *p, unsigned index)
{
    return index ? p->more[index - 1] : p->result;
}

#endif
