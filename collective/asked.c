/* SPDX-License-Identifier: Apache-2.0 */
/* What a member was asked for. See asked.h. */
#include "collective/asked.h"

#include <inttypes.h>
#include <stdio.h>

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

const char *crti_asked_kind(int32_t kind)
{
    return kind > 0 && (size_t)kind < sizeof(kinds) / sizeof(kinds[0]) ? kinds[kind]
                                                                       : NULL;
}

static const char *reduction_name(int32_t number)
{
    bool is_known =
        number > 0 && (size_t)number < sizeof(reductions) / sizeof(reductions[0]);

    return is_known ? reductions[number] : "something unknown";
}

static const char *role_of_peer(int32_t kind)
{
    switch (kind) {
    case CRT_COLLECTIVE_SEND: return " to rank ";
    case CRT_COLLECTIVE_RECV: return " from rank ";
    case CRT_COLLECTIVE_REDUCE:
    case CRT_COLLECTIVE_BROADCAST: return ", root ";
    default: return NULL;
    }
}

crti_asked_t crti_asked_of(const crti_step_t *step)
{
    return (crti_asked_t){.sequence = step->sequence,
                          .count = step->count,
                          .kind = step->asked ? step->asked : step->kind,
                          .dtype = (int32_t)step->dtype,
                          .reduction = (int32_t)step->reduction,
                          .peer = step->peer};
}

const char *crti_asked_describe(const crti_asked_t *asked, char *text, size_t size)
{
    const char *kind = crti_asked_kind(asked->kind), *role = role_of_peer(asked->kind);
    char what[64] = "", how[32] = "", who[32] = "", number[40] = "";

    if (asked->dtype && asked->kind != CRT_COLLECTIVE_BARRIER)
        snprintf(what, sizeof(what), " of %" PRIu64 " %s", asked->count,
                 crt_dtype_name((crt_dtype_t)asked->dtype));
    if (asked->reduction)
        snprintf(how, sizeof(how), ", %s", reduction_name(asked->reduction));
    if (role)
        snprintf(who, sizeof(who), "%s%" PRId32, role, asked->peer);
    if (asked->sequence)
        snprintf(number, sizeof(number), " (operation %" PRIu64 ")", asked->sequence);
    snprintf(text, size, "%s%s%s%s%s", kind ? kind : "something unknown", what, how, who,
             number);
    return text;
}
