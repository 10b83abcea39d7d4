/* SPDX-License-Identifier: Apache-2.0 */
/* What is behind the arguments of a call that is made again. See record.h. */
#include "runtime/core/values/record_int.h"

#define AGAIN_BYTES 12

static void write_again(crti_buffer_t *record, const crti_call_again_t *again)
{
    crti_put_u32(crti_put_u64(record->data + record->size - AGAIN_BYTES, again->first),
                 again->tries);
}

crt_status_t crti_append_again(crti_buffer_t *record, const crti_call_again_t *again)
{
    crt_status_t status = crti_buffer_reserve(record, AGAIN_BYTES);

    if (status != CRT_OK)
        return status;
    record->size += AGAIN_BYTES;
    write_again(record, again);
    return CRT_OK;
}

crt_status_t crti_put_again(crti_buffer_t *record, uint64_t call,
                            const crti_call_again_t *again)
{
    crt_status_t status = again->tries > 1 ? CRT_OK : crti_append_again(record, again);

    if (status != CRT_OK)
        return status;
    crti_put_u64(record->data + CRTI_CALL_NUMBER_AT, call);
    write_again(record, again);
    return CRT_OK;
}

void crti_renumber_call(crti_buffer_t *record, uint64_t call)
{
    crti_put_u64(record->data + CRTI_CALL_NUMBER_AT, call);
}

crt_status_t crti_read_again(crti_reader_t *args, crti_call_again_t *again_out)
{
    again_out->first = crti_read_u64(args);
    again_out->tries = crti_read_u32(args);
    if (args->bad || args->at != args->end || again_out->first == 0 ||
        again_out->first >> CRTI_NUMBER_BITS || again_out->tries == 0)
        return malformed("bytes behind the arguments");
    return CRT_OK;
}
