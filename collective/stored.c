/* SPDX-License-Identifier: Apache-2.0 */
/* Rosters and arrivals in the control store: reading, exchanging, waiting for a change.
 *
 * Where it sits
 *     rendezvous.c, rebuild.c -> [ stored.c ] -> crt_kv_*, crti_kv_swap (runtime/core/client/kv.c)
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "collective/rendezvous_int.h"
#include "runtime/core/client/kv.h"

#define LOOK_FIRST_NS (1 * CRTI_MS)
#define LOOK_LAST_NS  (20 * CRTI_MS)

crt_status_t crti_stored_read(const char *key, crti_stored_t *stored)
{
    crt_status_t status;

    memset(stored, 0, sizeof(*stored));
    status = crt_kv_get(key, &stored->bytes, &stored->size);
    if (status != CRT_OK)
        return status;
    return crti_roster_decode(stored->bytes, stored->size, &stored->roster);
}

void crti_stored_fini(crti_stored_t *stored)
{
    crti_roster_fini(&stored->roster);
    free(stored->bytes);
    stored->bytes = NULL;
}

crt_status_t crti_stored_swap(const char *key, const crti_stored_t *from,
                              const crti_roster_t *next, bool *won_out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crt_status_t status = next ? crti_roster_encode(next, &bytes) : CRT_OK;

    *won_out = false;
    if (status != CRT_OK)
        return status;
    if (from)
        return crti_kv_swap(key, crti_span(from->bytes, from->size),
                            crti_span(bytes.data, bytes.size), won_out);
    status = crt_kv_put(key, bytes.data, bytes.size, false);
    *won_out = status == CRT_OK;
    return status == CRT_ERR_EXISTS ? CRT_OK : status;
}

crt_status_t crti_stored_fail(const char *key, const crti_stored_t *from,
                              uint64_t attempt, const crti_group_failure_t *failure,
                              bool *won_out)
{
    crti_roster_t next = from->roster; /* borrows its lists */

    if (next.state == CRTI_ROSTER_FORMING)
        next.state = CRTI_ROSTER_FAILED;
    next.attempt = attempt;
    next.failure = *failure;
    return crti_stored_swap(key, from, &next, won_out);
}

void crti_arrival_key(const crt_group_t *group, uint64_t token, uint64_t attempt,
                      int rank, char *key, size_t size)
{
    snprintf(key, size, "%s/%016" PRIx64 "/%" PRIu64 "/%d", group->private->key, token,
             attempt, rank);
}

crt_status_t crti_arrival_read(const char *key, crti_arrival_t *arrival)
{
    CRTI_AUTO(free) void *bytes = NULL;
    size_t size;
    crt_status_t status = crt_kv_get(key, &bytes, &size);

    return status == CRT_OK ? crti_arrival_decode(bytes, size, arrival) : status;
}

bool crti_backoff_wait(crti_backoff_t *p)
{
    uint64_t now = crti_now_ns(), ns = p->next_ns ? p->next_ns : LOOK_FIRST_NS;

    if (now >= p->deadline_ns)
        return false;
    p->next_ns = ns + ns / 2 < LOOK_LAST_NS ? ns + ns / 2 : LOOK_LAST_NS;
    if (ns > p->deadline_ns - now)
        ns = p->deadline_ns - now;
    crti_liveness_wait(p->liveness, ns);
    return true;
}

const char *crti_member_describe(const crti_member_t *member, char *text, size_t size)
{
    char actor[CRTI_ID_HEX], node[CRTI_ID_HEX];

    snprintf(text, size, "actor %s, node %s", crti_id_hex(member->actor, actor),
             crti_id_hex(member->node, node));
    return text;
}
