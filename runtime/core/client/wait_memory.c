/* SPDX-License-Identifier: Apache-2.0 */
/* Wait memory. See wait_memory.h. */
#include "runtime/core/client/wait_memory.h"

#include <stdlib.h>

#define ROOM_FIRST 64

void crti_wait_memory_fini(crti_wait_memory_t *m)
{
    free(m->known);
    *m = (crti_wait_memory_t){.count = 0};
}

void crti_wait_memory_begin(crti_wait_memory_t *m)
{
    m->count = m->used = m->given = 0;
}

void crti_wait_memory_end(crti_wait_memory_t *m, size_t given)
{
    m->given = given;
}

void crti_wait_memory_again(crti_wait_memory_t *m)
{
    m->gone = m->given + m->used;
}

void crti_wait_memory_add(crti_wait_memory_t *m, const crt_ref_t *ref, size_t index)
{
    size_t room = m->room ? m->room * 2 : ROOM_FIRST;
    struct crti_wait_known *known = m->known;

    if (m->count == m->room) {
        known = realloc(known, room * sizeof(*known));
        if (!known)
            return;
        m->known = known;
        m->room = room;
    }
    known[m->count++] = (struct crti_wait_known){ref, index};
}

static bool stands_at(const struct crti_wait_known *known, size_t before,
                      crt_ref_t *const *refs, size_t count, size_t least)
{
    size_t index = known->index - before;

    return before <= known->index && index >= least && index < count &&
           refs[index] == known->ref;
}

bool crti_wait_memory_next(crti_wait_memory_t *m, crt_ref_t *const *refs, size_t count,
                           size_t least, size_t *index_out)
{
    while (m->used < m->count) {
        const struct crti_wait_known *known = &m->known[m->used++];

        /* At its place the last of the list may stand now, or all behind gaps have moved up. */
        if (stands_at(known, 0, refs, count, least))
            *index_out = known->index;
        else if (stands_at(known, m->gone, refs, count, least))
            *index_out = known->index - m->gone;
        else
            continue;
        return true;
    }
    crti_wait_memory_fini(m);
    return false;
}
