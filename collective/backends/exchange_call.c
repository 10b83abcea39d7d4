/* SPDX-License-Identifier: Apache-2.0 */
/* What the members were asked for, as messages and people read it. See exchange.h. */
#include <stdio.h>

#include "collective/backends/exchange_int.h"

static const char *const kinds[] = {
    [CRT_COLLECTIVE_ALLREDUCE] = "allreduce",
    [CRT_COLLECTIVE_REDUCE] = "reduce",
    [CRT_COLLECTIVE_BROADCAST] = "broadcast",
    [CRT_COLLECTIVE_ALLGATHER] = "allgather",
    [CRT_COLLECTIVE_REDUCESCATTER] = "reducescatter",
    [CRT_COLLECTIVE_ALLTOALL] = "alltoall",
    [CRT_COLLECTIVE_SEND] = "send",
    [CRT_COLLECTIVE_RECV] = "recv",
    [CRT_COLLECTIVE_BARRIER] = "barrier",
};

static const char *const reductions[] = {
    [CRT_SUM] = "sum", [CRT_PRODUCT] = "product", [CRT_MIN] = "min",
    [CRT_MAX] = "max", [CRT_AVERAGE] = "average",
};

static const char *name_of(const char *const *names, size_t count, uint64_t number)
{
    return number < count && names[number] ? names[number] : "unknown";
}

const char *crti_exchange_describe(const crti_msg_group_data_t *m, char *text,
                                   size_t size)
{
    int at = snprintf(text, size, "%s number %llu",
                      name_of(kinds, sizeof(kinds) / sizeof(kinds[0]), m->kind),
                      (unsigned long long)m->sequence);

    if (m->kind == CRT_COLLECTIVE_BARRIER)
        return text;
    at += snprintf(text + at, size - (size_t)at, " of %llu %s",
                   (unsigned long long)m->count, crt_dtype_name((crt_dtype_t)m->dtype));
    if (m->reduction)
        at += snprintf(text + at, size - (size_t)at, ", %s",
                       name_of(reductions, sizeof(reductions) / sizeof(reductions[0]),
                               m->reduction));
    if (m->peer >= 0)
        snprintf(text + at, size - (size_t)at, ", %s %lld",
                 m->kind == CRT_COLLECTIVE_SEND   ? "to rank"
                 : m->kind == CRT_COLLECTIVE_RECV ? "from rank"
                                                  : "root",
                 (long long)m->peer);
    return text;
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

crt_status_t crti_exchange_mismatch(crti_exchange_t *x, int rank,
                                    const crti_msg_group_data_t *theirs)
{
    crti_msg_group_data_t mine = crti_exchange_header(x);
    char here[200], there[200], us[160], them[160];

    return crti_group_fail(x->group, CRT_ERR_INVALID, rank,
                           "the calls of the members differ: %s calls %s, %s %s",
                           crti_group_describe(x->group, x->group->rank, us, sizeof(us)),
                           crti_exchange_describe(&mine, here, sizeof(here)),
                           crti_group_describe(x->group, rank, them, sizeof(them)),
                           crti_exchange_describe(theirs, there, sizeof(there)));
}

void crti_exchange_nonsense(crti_exchange_t *x, int rank, const char *what)
{
    char them[160];

    crti_group_fail(x->group, CRT_ERR_PROTOCOL, rank, "%s sent %s",
                    crti_group_describe(x->group, rank, them, sizeof(them)), what);
}
