/* SPDX-License-Identifier: Apache-2.0 */
/* Bed: control between a store and links that the test holds in its hands. */
#ifndef TESTS_CONTROL_BED_H
#define TESTS_CONTROL_BED_H

#include "runtime/base/map.h"
#include "runtime/control/autoscale/provider.h"
#include "runtime/control/control.h"

#define BED_SENT 4096

typedef struct bed_sent {
    uint64_t link;
    crti_buffer_t bytes;
    crti_message_t message; /* borrows from bytes */
} bed_sent_t;

typedef struct bed_row {
    crti_store_table_t table;
    char key[64];
    crti_buffer_t value;
    bool gone;
} bed_row_t;

typedef struct bed_operation {
    uint64_t ticket;
    crti_store_verb_t verb;
    crti_store_table_t table;
    char key[64];
    crti_buffer_t value;
} bed_operation_t;

/* To a provider of nodes. */
typedef struct bed_order {
    crti_provider_verb_t verb;
    char instance[96], machine[96], cluster[16];
    crti_id_t node;
} bed_order_t;

typedef struct bed {
    crti_control_t *control;
    uint64_t now;
    bool may_be_two;    /* another head may have the tables */
    bool fail_youngest; /* as of the config; from the next bed_restart on */
    size_t max_jobs;    /* the same */
    const struct crti_scale_config *autoscale; /* the same */
    bed_order_t orders[64];
    size_t order_count;
    bool manual;          /* operations wait for bed_store */
    crt_status_t failing; /* what operations end with */
    bed_operation_t pending[BED_SENT];
    size_t pending_count;
    bool fails_late;      /* what was put is there all the same */
    bool may_delete;      /* deletions succeed, as in a redis beyond its maxmemory */
    bool scans_twice;     /* what is loaded comes twice, as redis may give it */
    bool forgets_revoked; /* there is no room for them */
    crti_id_t revoked[8]; /* zero: free */
    bed_row_t rows[BED_SENT];
    size_t row_count;
    bed_sent_t sent[BED_SENT];
    size_t sent_count, seen;
    uint64_t dropped[64];
    size_t dropped_count;
} bed_t;

/* A control with an empty store; serves. */
bed_t *bed_new(void);
/* The head dies: what it had not stored is lost (operations under way are done first when
 * `applied`), and its successor loads the rows. Links are gone. */
void bed_restart(bed_t *bed, bool applied);
void bed_free(bed_t *bed);

/* Does so many of the pending operations. */
void bed_store_first(bed_t *bed, size_t count);
/* Does the pending operations; returns how many there were. */
size_t bed_store(bed_t *bed);
void bed_pass(bed_t *bed, uint64_t ns);

void bed_say(bed_t *bed, uint64_t link, crti_message_kind_t kind, uint64_t request,
             const void *body);

/* The next message of that kind that was sent on the link (0: any link) and not looked at, or
 * NULL; messages before it are passed over. */
const crti_message_t *bed_next(bed_t *bed, uint64_t link, crti_message_kind_t kind);
/* How many of that kind were sent on the link since bed_forget. */
size_t bed_count(const bed_t *bed, uint64_t link, crti_message_kind_t kind);
void bed_forget(bed_t *bed);

bool bed_has_row(const bed_t *bed, crti_store_table_t table, crti_id_t id);
bool bed_has_value(const bed_t *bed, const char *key);
bool bed_was_dropped(const bed_t *bed, uint64_t link);

/* A node joins on `link` with `cpus`; `actors` and `jobs` are what it reports (may be NULL). */
void bed_join(bed_t *bed, uint64_t link, uint64_t node, uint64_t incarnation, double cpus,
              const crti_buffer_t *actors, const crti_buffer_t *jobs);
void bed_add_job(bed_t *bed, uint64_t link, uint64_t node, uint64_t job);
crti_msg_actor_create_t bed_actor(uint64_t actor, uint64_t job, const char *name);

/* Answers the ACTOR_START that comes next on the link; false: there is none. */
bool bed_start_actor(bed_t *bed, uint64_t link, uint64_t process);

/* The first 48 bits differ, too, as those of nodes must. */
static inline crti_id_t bed_id(uint64_t n)
{
    return (crti_id_t){n << 16, n};
}

#endif
