/* SPDX-License-Identifier: Apache-2.0 */
/* Records about who waits for whom: WAITING, PROBE. See record.h. */
#include "runtime/core/values/record_int.h"

crt_status_t crti_put_chain(crti_buffer_t *out, const crti_chain_t *chain)
{
    size_t size = 11;
    crt_status_t status;
    unsigned char *to;

    for (unsigned i = 0; i < chain->count; i++)
        size += 26 + chain->waiter[i].name.size;
    status = crti_buffer_reserve(out, size);
    if (status != CRT_OK)
        return status;
    to = crti_put_u8(crti_put_u8(tail(out), CRTI_RECORD_WAITING), chain->is_object);
    to = crti_put_u8(crti_put_u64(to, chain->number), (uint8_t)chain->count);
    for (unsigned i = 0; i < chain->count; i++) {
        to = crti_put_u64(crti_put_id(to, chain->waiter[i].process),
                          chain->waiter[i].wait);
        to = crti_put_text(to, chain->waiter[i].name);
    }
    end_at(out, to);
    return CRT_OK;
}

crt_status_t crti_get_chain(const void *data, size_t size, crti_chain_t *chain)
{
    crti_reader_t r = crti_reader(data, size);

    crti_read_u8(&r);
    chain->is_object = crti_read_u8(&r) != 0;
    chain->number = crti_read_u64(&r);
    chain->count = crti_read_u8(&r);
    if (r.bad || chain->count > CRTI_CHAIN_MAX)
        return malformed("a chain of waiters");
    for (unsigned i = 0; i < chain->count; i++) {
        chain->waiter[i].process = crti_read_id(&r);
        chain->waiter[i].wait = crti_read_u64(&r);
        chain->waiter[i].name = crti_read_text(&r);
    }
    return r.bad || r.at != r.end ? malformed("a chain of waiters") : CRT_OK;
}

static crti_span_t cut_name(crti_span_t name)
{
    return crti_span(name.data,
                     name.size < CRTI_PROBE_NAME ? name.size : CRTI_PROBE_NAME);
}

crt_status_t crti_put_probe(crti_buffer_t *out, const crti_probe_t *probe)
{
    crt_status_t status =
        crti_buffer_reserve(out, 12 + probe->count * (size_t)(27 + CRTI_PROBE_NAME));
    unsigned char *to;

    if (status != CRT_OK)
        return status;
    to = crti_put_u8(crti_put_u8(tail(out), CRTI_RECORD_PROBE), probe->is_confirming);
    to = crti_put_u64(to, probe->nonce);
    to = crti_put_u8(crti_put_u8(to, (uint8_t)probe->at), (uint8_t)probe->count);
    for (unsigned i = 0; i < probe->count; i++) {
        const crti_probe_step_t *step = &probe->step[i];

        to = crti_put_u8(crti_put_id(to, step->process), step->is_object);
        to = crti_put_text(crti_put_u64(to, step->number), cut_name(step->name));
    }
    end_at(out, to);
    return CRT_OK;
}

static bool is_in_turn(const crti_probe_t *probe)
{
    return probe->count >= 2 && probe->count <= CRTI_CHAIN_MAX && probe->at >= 1 &&
           probe->at < probe->count &&
           (probe->is_confirming || probe->at == probe->count - 1);
}

crt_status_t crti_get_probe(const void *data, size_t size, crti_probe_t *probe)
{
    crti_reader_t r = crti_reader(data, size);

    crti_read_u8(&r);
    probe->is_confirming = crti_read_u8(&r) != 0;
    probe->nonce = crti_read_u64(&r);
    probe->at = crti_read_u8(&r);
    probe->count = crti_read_u8(&r);
    if (r.bad || !is_in_turn(probe))
        return malformed("a probe");
    for (unsigned i = 0; i < probe->count; i++) {
        crti_probe_step_t *step = &probe->step[i];

        step->process = crti_read_id(&r);
        step->is_object = crti_read_u8(&r) != 0;
        step->number = crti_read_u64(&r);
        step->name = crti_read_text(&r);
        r.bad |= step->name.size > CRTI_PROBE_NAME;
    }
    return r.bad || r.at != r.end || !probe->step[0].is_object ? malformed("a probe")
                                                               : CRT_OK;
}
