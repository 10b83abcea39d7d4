/* SPDX-License-Identifier: Apache-2.0 */
/* What the members were asked for, as messages and people read it. See exchange.h. */
#include "collective/backends/exchange_int.h"
#include "collective/operation_signature.h"

static int32_t small(uint64_t number)
{
    return number <= INT32_MAX ? (int32_t)number : -1;
}

const char *crti_exchange_describe(const crti_msg_group_data_t *m, char *text,
                                   size_t size)
{
    crti_operation_signature_t signature = {
        .sequence = m->sequence,
        .count = m->count,
        .kind = small(m->kind),
        .dtype = small(m->dtype),
        .reduction = small(m->reduction),
        .peer = m->peer < 0 ? -1 : small((uint64_t)m->peer)};

    return crti_operation_describe(&signature, text, size);
}

crti_msg_group_data_t crti_exchange_header(const crti_exchange_t *x)
{
    const crti_exchange_call_t *c = &x->call;

    return (crti_msg_group_data_t){.team = c->team,
                                   .sequence = c->sequence,
                                   .phase = c->phase,
                                   .kind = c->kind,
                                   .dtype = c->dtype,
                                   .reduction = c->reduction,
                                   .count = c->count,
                                   .peer = c->peer};
}

crti_msg_group_data_t crti_exchange_pair_header(const crti_pair_t *pair)
{
    return (crti_msg_group_data_t){.kind = pair->is_send ? CRT_COLLECTIVE_SEND
                                                         : CRT_COLLECTIVE_RECV,
                                   .sequence = pair->number,
                                   .dtype = pair->dtype,
                                   .count = pair->count,
                                   .peer = pair->rank};
}

crt_status_t crti_exchange_mismatch(crti_exchange_t *x, int rank,
                                    const crti_msg_group_data_t *mine,
                                    const crti_msg_group_data_t *theirs)
{
    char here[200], there[200], us[160], them[160];

    return crti_group_fail(x->group, CRT_ERR_INVALID, rank,
                           "the calls of the members differ: %s calls %s, %s %s",
                           crti_group_describe(x->group, x->group->rank, us, sizeof(us)),
                           crti_exchange_describe(mine, here, sizeof(here)),
                           crti_group_describe(x->group, rank, them, sizeof(them)),
                           crti_exchange_describe(theirs, there, sizeof(there)));
}

void crti_exchange_nonsense(crti_exchange_t *x, int rank, const char *what)
{
    char them[160];

    crti_group_fail(x->group, CRT_ERR_PROTOCOL, rank, "%s sent %s",
                    crti_group_describe(x->group, rank, them, sizeof(them)), what);
}
