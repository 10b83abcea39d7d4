/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing and describing operations. See operation_signature.h. */
#include "collective/operation_signature.h"

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
    [CRT_REDUCE_SUM] = "sum", [CRT_REDUCE_PRODUCT] = "product", [CRT_REDUCE_MIN] = "min",
    [CRT_REDUCE_MAX] = "max", [CRT_REDUCE_AVERAGE] = "average",
};

const char *crti_operation_kind_name(int32_t kind)
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

crti_operation_signature_t crti_operation_signature_of(const crti_step_t *step)
{
    return (crti_operation_signature_t){.sequence = step->sequence,
                                        .count = step->count,
                                        .kind =
                                            step->part_of ? step->part_of : step->kind,
                                        .dtype = (int32_t)step->dtype,
                                        .reduction = (int32_t)step->reduction,
                                        .peer = step->peer};
}

const char *crti_operation_describe(const crti_operation_signature_t *signature,
                                    char *text, size_t size)
{
    const char *kind = crti_operation_kind_name(signature->kind),
               *role = role_of_peer(signature->kind);
    char what[64] = "", how[32] = "", peer[32] = "", number[40] = "";

    if (signature->dtype && signature->kind != CRT_COLLECTIVE_BARRIER)
        snprintf(what, sizeof(what), " of %" PRIu64 " %s", signature->count,
                 crt_dtype_name((crt_dtype_t)signature->dtype));
    if (signature->reduction)
        snprintf(how, sizeof(how), ", %s", reduction_name(signature->reduction));
    if (role)
        snprintf(peer, sizeof(peer), "%s%" PRId32, role, signature->peer);
    if (signature->sequence)
        snprintf(number, sizeof(number), " (operation %" PRIu64 ")", signature->sequence);
    if (signature->kind == CRT_COLLECTIVE_ALLGATHER &&
        signature->dtype == CRT_DTYPE_INT64 && signature->count == CRTI_SPLIT_NUMBERS)
        snprintf(how, sizeof(how), ", as crt_group_split does");
    snprintf(text, size, "%s%s%s%s%s", kind ? kind : "something unknown", what, how, peer,
             number);
    return text;
}
