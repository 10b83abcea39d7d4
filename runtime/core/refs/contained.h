/* SPDX-License-Identifier: Apache-2.0 */
/* Inner refs: what a value's table of refs and actors becomes in this process.
 *
 * Where it sits
 *     content.c, value_of.c, incoming.c -> [ contained.c ] -> new_ref.c, actor.c;  refs.c closes
 *     them, since they end with what they are in
 * Threads
 *     The core's lock.
 * Ownership
 *     HELD: each ref is held until the close. COVERED: each ref is covered by what it came in.
 */
#ifndef CRTI_CORE_CONTAINED_H
#define CRTI_CORE_CONTAINED_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/crt_base.h"
#include "runtime/core/values/record.h"

struct crti_core;
struct crti_completion;
struct crt_ref;
struct crt_actor;

/* How the refs inside a value are kept alive. */
typedef enum crti_contained_mode {
    CRTI_CONTAINED_HELD,   /* held: a result's (with tokens), or what we put ourselves */
    CRTI_CONTAINED_COVERED /* as long as what they came in */
} crti_contained_mode_t;

/* What a value's table became. */
typedef struct crti_contained {
    struct crti_core *core; /* NULL: nothing is inside */
    crti_contained_mode_t mode;
    uint32_t ref_count, actor_count;
    struct crt_ref **refs;
    struct crt_actor **actors;
} crti_contained_t;

static inline crti_handles_t crti_contained_handles(const crti_contained_t *inner)
{
    return (crti_handles_t){inner->refs, inner->actors, inner->ref_count,
                            inner->actor_count};
}

/* Makes the refs and handles of a table. `has_tokens`: each ref comes with a registration. */
crt_status_t crti_contained_open(struct crti_core *core, crti_span_t table,
                                 crti_contained_mode_t mode, bool has_tokens,
                                 crti_contained_t *inner_out);
/* refs.c: lets go of them; with covers that must wait, `ending` waits (may be NULL for HELD).
 * Inside another close it is done after that one: lists within lists may be deeper than any
 * stack. */
void crti_contained_close(crti_contained_t *inner, struct crti_completion *ending);
/* Lets go of one hold in the same way. */
void crti_contained_release(struct crt_ref *ref);

#endif
