/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of a call: checked, encoded, and the refs among them pinned.
 *
 * Where it sits
 *     outgoing.c, actor.c (creation) -> [ encode_call.c ] -> record
 * What becomes of an argument
 *     a value            its bytes; large ones were put into the store before (given.c)
 *     a ref              its value: bytes when they are small and known, the place in the store, or
 *                        (a method's: a ref we don't own, not known here) the question to its
 *                        owner
 *     a ref for "ref"    the ref itself, inside a value
 * Tier: message path.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/core/calls/calls.h"
#include "runtime/core/process/context.h"

/* ------------------------------------------------------------------ walking */

/* The arguments one by one; a spread gives its refs. */
typedef struct walk {
    const crt_arg_t *args;
    size_t count, arg, part, index;
    crt_arg_t current;
} walk_t;

static bool next_arg(walk_t *w)
{
    while (w->arg < w->count) {
        const crt_arg_t *arg = &w->args[w->arg];

        if (arg->kind != CRT_KIND_SPREAD) {
            w->arg++;
            w->current = *arg;
            w->index++;
            return true;
        }
        if (w->part < arg->as.spread.count) {
            w->current = crt_arg_ref(arg->as.spread.refs[w->part++]);
            w->index++;
            return true;
        }
        w->part = 0;
        w->arg++;
    }
    return false;
}

static size_t count_args(const crt_arg_t *args, size_t count)
{
    size_t total = 0;

    for (size_t i = 0; i < count; i++)
        total += args[i].kind == CRT_KIND_SPREAD ? args[i].as.spread.count : 1;
    return total;
}

static bool is_passed_itself(const crti_function_t *f, size_t index)
{
    const crti_signature_t *s = &f->signature;

    if (s->is_unchecked || s->count == 0)
        return false;
    return s->kind[index < s->count ? index : s->count - 1] == CRT_KIND_REF;
}

/* A task gets no worker, and so no CPU, before the values of its refs are known, whoever owns
 * them; a method has its process anyway. */
static bool is_awaited(const crti_function_t *f, const crt_ref_t *ref, size_t index)
{
    return ref->content == CRTI_CONTENT_NONE && (ref->is_owned || f->task) &&
           !is_passed_itself(f, index);
}

crt_status_t crti_args_check(const crti_function_t *f, const crt_arg_t *args,
                             size_t count, size_t *total_out, bool *is_pending_out)
{
    crti_place_t place = {f->class_name, f->name, 0};
    walk_t w = {.args = args, .count = count};
    crt_status_t status;
    bool is_ref;

    if (count && !args)
        return crt_raise(CRT_ERR_INVALID, "%s: the arguments are NULL", f->display);
    *total_out = count_args(args, count);
    *is_pending_out = false;
    if (*total_out > UINT16_MAX)
        return crt_raise(CRT_ERR_INVALID,
                         "%s: %zu arguments, at most 65535 can be passed", f->display,
                         *total_out);
    status = crti_signature_count(&f->signature, *total_out, &place);
    while (status == CRT_OK && next_arg(&w)) {
        const crt_ref_t *ref = w.current.kind == CRT_KIND_REF ? w.current.as.ref : NULL;

        if (w.current.kind == CRT_KIND_REF) {
            status = crti_ref_check(ref);
            if (status != CRT_OK)
                return crt_raise(status, "%s: argument %zu: %s", f->display, w.index,
                                 crt_error_detail());
        }
        if (ref && is_awaited(f, ref, w.index - 1))
            *is_pending_out = true;
        if (w.current.kind == CRTI_KIND_TOO_BIG)
            return crt_raise(
                CRT_ERR_INVALID, "%s: argument %zu is %llu: an int is at most %lld",
                f->display, w.index, (unsigned long long)w.current.as.integer,
                (long long)INT64_MAX);
        status = crti_signature_check(&f->signature, w.index - 1,
                                      crti_arg_kind(&w.current), &place, &is_ref);
    }
    return status;
}

/* ------------------------------------------------------------------ pins */

static crt_status_t pin_encoded(crti_call_spec_t *spec, const crti_encoder_t *encoder)
{
    size_t count;
    crt_ref_t *const *refs = crti_encoder_refs(encoder, &count);
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < count && status == CRT_OK; i++)
        status = crti_call_spec_pin(spec, refs[i]);
    return status;
}

/* ------------------------------------------------------------------ encoding */

static crt_status_t put_ref_value(crti_buffer_t *record, crt_ref_t *ref,
                                  crt_ref_t **failed_out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t nodes = {0};
    crti_ref_name_t name = crti_ref_name(ref);
    crti_result_t result;

    switch (ref->content) {
    case CRTI_CONTENT_INLINE:
        return crti_put_arg_bytes(record, 0, crti_span(crti_ref_bytes(ref), ref->size));
    case CRTI_CONTENT_STORED:
        crti_ref_describe(ref, &result, &nodes);
        return crti_put_arg_object(record, &name, &result.location);
    case CRTI_CONTENT_FAILED: *failed_out = ref; return CRT_OK;
    case CRTI_CONTENT_NONE: break;
    }
    return crti_put_arg_ref(record, &name);
}

static crt_status_t encode(crti_core_t *core, crti_call_spec_t *spec, const walk_t *w)
{
    crti_encoder_t *encoder = core->encoder;
    crt_status_t status;

    encoder->what = spec->function->display;
    status = crti_encode(encoder, &crti_core_naming, &w->current);
    return status == CRT_OK ? pin_encoded(spec, encoder) : status;
}

crt_status_t crti_put_args(crti_core_t *core, crti_call_spec_t *spec,
                           crti_buffer_t *record, const crt_arg_t *args, size_t count,
                           crt_ref_t **failed_out)
{
    walk_t w = {.args = args, .count = count};
    unsigned char scalar[CRTI_SCALAR_MAX];
    crt_status_t status = CRT_OK;
    size_t size;

    *failed_out = NULL;
    while (status == CRT_OK && next_arg(&w)) {
        if (w.current.kind == CRT_KIND_REF &&
            !is_passed_itself(spec->function, w.index - 1)) {
            status = crti_call_spec_pin(spec, w.current.as.ref);
            if (status == CRT_OK)
                status = put_ref_value(record, w.current.as.ref, failed_out);
            continue;
        }
        size = crti_encode_scalar(&w.current, scalar);
        if (size) {
            status = crti_put_arg_bytes(record, 0, crti_span(scalar, size));
            continue;
        }
        status = encode(core, spec, &w);
        if (status == CRT_OK)
            status = crti_put_arg_value(record, 0, core->encoder);
    }
    return status;
}

/* ------------------------------------------------------------------ slots */

static crt_status_t slot_value(crti_pending_t *p, crti_slot_t *slot, const walk_t *w)
{
    crt_status_t status = encode(p->core, &p->spec, w);
    size_t size = crti_encoder_size(p->core->encoder);

    if (status == CRT_OK)
        status = crti_buffer_reserve(&p->values, size);
    if (status != CRT_OK)
        return status;
    crti_encoder_write(p->core->encoder, p->values.data + p->values.size);
    slot->offset = p->values.size;
    slot->size = size;
    p->values.size += size;
    return CRT_OK;
}

crt_status_t crti_slot_args(crti_pending_t *p, const crt_arg_t *args, size_t count)
{
    walk_t w = {.args = args, .count = count};
    crt_status_t status = CRT_OK;

    p->slots = calloc(count_args(args, count) + 1, sizeof(*p->slots));
    if (!p->slots)
        return crt_raise(CRT_ERR_NO_MEMORY, "arguments of %s", p->spec.function->display);
    while (status == CRT_OK && next_arg(&w)) {
        crti_slot_t *slot = &p->slots[p->slot_count];

        slot->pending = p;
        crti_list_init(&slot->waiting.link);
        if (w.current.kind == CRT_KIND_REF &&
            !is_passed_itself(p->spec.function, w.index - 1)) {
            status = crti_call_spec_pin(&p->spec, w.current.as.ref);
            slot->ref = w.current.as.ref;
        } else {
            status = slot_value(p, slot, &w);
        }
        p->slot_count++;
    }
    return status;
}

crt_status_t crti_put_slots(crti_pending_t *p, crt_ref_t **failed_out)
{
    crt_status_t status = CRT_OK;

    *failed_out = NULL;
    for (unsigned i = 0; i < p->slot_count && status == CRT_OK && !*failed_out; i++) {
        crti_slot_t *slot = &p->slots[i];

        if (slot->ref)
            status = put_ref_value(&p->spec.record, slot->ref, failed_out);
        else
            status = crti_put_arg_bytes(
                &p->spec.record, 0, crti_span(p->values.data + slot->offset, slot->size));
    }
    if (status == CRT_OK && p->attempt.retries)
        status = crti_append_again(
            &p->spec.record,
            &(crti_call_again_t){crti_call_number(p), (uint32_t)p->attempt.retries});
    return status;
}

void crti_drop_slots(crti_pending_t *p)
{
    for (unsigned i = 0; i < p->slot_count; i++)
        crti_list_remove(&p->slots[i].waiting.link);
    free(p->slots);
    p->slots = NULL;
    p->slot_count = 0;
    p->values.size = 0;
}

/* ------------------------------------------------------------------ slots of a record */

/* The ref of ours, or that we borrow, which that argument stands for; NULL: a value. */
static crt_ref_t *ref_of(crti_core_t *core, const crti_call_arg_t *arg)
{
    if (arg->form != CRTI_ARG_OBJECT && arg->form != CRTI_ARG_REF)
        return NULL;
    return crti_id_equal(arg->ref.id.owner, core->process)
               ? crti_ref_owned(core, arg->ref.id.number)
               : crti_ref_borrowed(core, arg->ref.id.owner, arg->ref.id.number);
}

static crt_status_t slot_arg(crti_pending_t *p, const crti_call_arg_t *arg)
{
    crti_slot_t *slot = &p->slots[p->slot_count++];

    slot->pending = p;
    crti_list_init(&slot->waiting.link);
    slot->ref = ref_of(p->core, arg);
    if (slot->ref)
        return CRT_OK;
    if (arg->form != CRTI_ARG_VALUE && arg->form != CRTI_ARG_DATA)
        return crt_raise(CRT_ERR_OBJECT_LOST, "an argument of %s is gone",
                         p->spec.function->display);
    slot->offset = p->values.size;
    slot->size = arg->value.size;
    return crti_buffer_append(&p->values, arg->value.data, arg->value.size);
}

crt_status_t crti_slot_record(crti_pending_t *p, crti_span_t record)
{
    crti_reader_t args;
    crti_call_head_t head;
    crt_status_t status = crti_get_call(record.data, record.size, &head, &args);
    size_t head_size;

    if (status != CRT_OK)
        return status;
    head_size = (size_t)((const char *)args.at - (const char *)record.data);
    p->values.size = 0;
    p->slots = calloc(head.arg_count + 1u, sizeof(*p->slots));
    if (!p->slots)
        return crt_raise(CRT_ERR_NO_MEMORY, "arguments of %s", p->spec.function->display);
    for (unsigned i = 0; i < head.arg_count && status == CRT_OK; i++) {
        crti_call_arg_t arg;

        status = crti_get_arg(&args, record.data, &arg);
        if (status == CRT_OK)
            status = slot_arg(p, &arg);
    }
    if (record.data == p->spec.record.data)
        p->spec.record.size = head_size;
    else if (status == CRT_OK)
        status = crti_buffer_assign(&p->spec.record, record.data, head_size);
    if (status == CRT_OK)
        crti_renumber_call(&p->spec.record, p->number);
    return status;
}

bool crti_call_is_stale(const crti_pending_t *p)
{
    crti_reader_t args;
    crti_call_head_t head;
    crti_call_arg_t arg;
    bool may_be = false;

    for (uint32_t i = 0; i < p->spec.pin_count && !may_be; i++)
        may_be = p->spec.pins[i]->content == CRTI_CONTENT_NONE;
    if (!may_be ||
        crti_get_call(p->spec.record.data, p->spec.record.size, &head, &args) != CRT_OK)
        return false;
    for (unsigned i = 0; i < head.arg_count; i++) {
        const crt_ref_t *ref;

        if (crti_get_arg(&args, p->spec.record.data, &arg) != CRT_OK)
            return false;
        ref = ref_of(p->core, &arg);
        if (ref && ref->content == CRTI_CONTENT_NONE)
            return true;
    }
    return false;
}
