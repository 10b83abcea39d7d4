/* SPDX-License-Identifier: Apache-2.0 */
/* Refs and objects as bytes. See object_records.h. */
#include "runtime/base/object_records.h"

#include <string.h>

#include "runtime/base/pack.h"

/* What is there of a ref; its value and its kind follow. */
enum { IS_OWNED = 1 << 0, HAS_PLACE = 1 << 1, FIRST_VALUE = 2, FIRST_KIND = 4 };

/* And of an object. */
enum { IS_SEALED = 1 << 0, IS_COPY = 1 << 1, IS_OF_DRIVER = 1 << 2 };

#define TEXT_MAX   (1 + CRTI_OBJECT_TEXT + 1)
#define REF_MAX    (1 + 24 + 8 + 3 * 4 + TEXT_MAX)
#define HOLDER_MAX (3 * 16 + 4 + 1 + 4)
#define OBJECT_MAX (1 + 24 + 8 + 4 + 4)

const char *crti_ref_kind_name(crti_ref_kind_t kind)
{
    static const char *const names[CRTI_REF_KINDS] = {"",
                                                      "LOCAL_REFERENCE",
                                                      "USED_BY_PENDING_TASK",
                                                      "CAPTURED_IN_OBJECT",
                                                      "LENT_REFERENCE",
                                                      "BORROWED_REFERENCE"};

    return names[kind];
}

const char *crti_ref_value_name(crti_ref_value_t value)
{
    static const char *const names[CRTI_REF_VALUES] = {"PENDING", "INLINE", "STORED",
                                                       "FAILED"};

    return names[value];
}

/* ---------------------------------------------------------------- texts and ids of objects */

static unsigned char *put_text(unsigned char *at, const char *text)
{
    size_t size = strnlen(text, CRTI_OBJECT_TEXT);

    *at++ = (unsigned char)size;
    memcpy(at, text, size);
    at[size] = '\0';
    return at + size + 1;
}

/* It ends where its length says. */
static bool take_text(crti_span_t *rest, const char **text_out)
{
    const unsigned char *at;
    uint64_t size;

    if (!crti_take_number(rest, 1, &size) || !(at = crti_take(rest, size + 1)) ||
        memchr(at, '\0', size + 1) != at + size)
        return false;
    *text_out = (const char *)at;
    return true;
}

static unsigned char *put_object(unsigned char *at, crti_object_id_t id)
{
    return crti_put_number(crti_put_id(at, id.owner), id.number, 8);
}

static bool take_object(crti_span_t *rest, crti_object_id_t *id_out)
{
    return crti_take_id(rest, true, &id_out->owner) &&
           crti_take_number(rest, 8, &id_out->number);
}

/* One that people could have. */
static bool take_size(crti_span_t *rest, uint64_t *size_out)
{
    return crti_take_number(rest, 8, size_out) && *size_out <= INT64_MAX;
}

static bool take_small(crti_span_t *rest, uint32_t *number_out)
{
    uint64_t number;
    bool is_there = crti_take_number(rest, 4, &number);

    *number_out = (uint32_t)number;
    return is_there;
}

/* ---------------------------------------------------------------- refs of a process */

crt_status_t crti_ref_records_begin(crti_ref_records_t *records, crti_buffer_t *out)
{
    unsigned char bytes[24], *at = bytes;

    at = crti_put_number(at, records->round, 8);
    at = crti_put_number(at, records->count, 8);
    crti_put_number(at, records->bytes, 8);
    records->place = "";
    return crti_buffer_append(out, bytes, sizeof(bytes));
}

crt_status_t crti_ref_records_add(crti_ref_records_t *records,
                                  const crti_ref_record_t *record, crti_buffer_t *out)
{
    unsigned char bytes[REF_MAX], *at = bytes;
    bool has_place =
        record->place != records->place && strcmp(record->place, records->place) != 0;

    *at++ =
        (unsigned char)((record->is_owned ? IS_OWNED : 0) | (has_place ? HAS_PLACE : 0) |
                        record->value << FIRST_VALUE | record->kind << FIRST_KIND);
    at = put_object(at, record->id);
    at = crti_put_number(at, record->size, 8);
    at = crti_put_number(at, record->handles, 4);
    if (record->is_owned)
        at = crti_put_number(crti_put_number(at, record->calls, 4), record->borrowers, 4);
    if (has_place)
        at = put_text(at, record->place);
    records->place = record->place;
    return crti_buffer_append(out, bytes, (size_t)(at - bytes));
}

crt_status_t crti_ref_records_open(crti_span_t bytes, crti_ref_records_t *records_out)
{
    *records_out = (crti_ref_records_t){.rest = bytes, .place = ""};
    if (crti_take_number(&records_out->rest, 8, &records_out->round) &&
        crti_take_number(&records_out->rest, 8, &records_out->count) &&
        crti_take_number(&records_out->rest, 8, &records_out->bytes))
        return CRT_OK;
    return crt_raise(CRT_ERR_PROTOCOL, "refs of a process without a beginning");
}

static bool take_ref(crti_ref_records_t *records, crti_ref_record_t *record)
{
    crti_span_t *rest = &records->rest;
    uint64_t there;

    if (!crti_take_number(rest, 1, &there) || there >> FIRST_KIND >= CRTI_REF_KINDS ||
        !take_object(rest, &record->id) || !take_size(rest, &record->size) ||
        !take_small(rest, &record->handles))
        return false;
    record->is_owned = there & IS_OWNED;
    record->value = (crti_ref_value_t)(there >> FIRST_VALUE & 3);
    record->kind = (crti_ref_kind_t)(there >> FIRST_KIND);
    if (record->is_owned &&
        (!take_small(rest, &record->calls) || !take_small(rest, &record->borrowers)))
        return false;
    if (there & HAS_PLACE && !take_text(rest, &records->place))
        return false;
    record->place = records->place;
    return true;
}

crt_status_t crti_ref_records_next(crti_ref_records_t *records,
                                   crti_ref_record_t *record_out)
{
    *record_out = (crti_ref_record_t){.place = ""};
    if (records->rest.size == 0)
        return CRT_ERR_NOT_FOUND;
    if (take_ref(records, record_out))
        return CRT_OK;
    records->rest = crti_span(NULL, 0);
    return crt_raise(CRT_ERR_PROTOCOL, "a ref that is none");
}

/* ------------------------------------------------------------- processes and objects of a node */

crt_status_t crti_object_records_begin(const crti_object_records_t *records,
                                       crti_buffer_t *out)
{
    unsigned char bytes[16 + TEXT_MAX + 4], *at = bytes;

    at = put_text(crti_put_id(at, records->node), records->ip);
    at = crti_put_number(at, records->holders, 4);
    return crti_buffer_append(out, bytes, (size_t)(at - bytes));
}

crt_status_t crti_object_records_add_holder(const crti_holder_record_t *holder,
                                            crti_buffer_t *out)
{
    unsigned char bytes[HOLDER_MAX], *at = bytes;
    crt_status_t status;

    at = crti_put_id(at, holder->worker);
    at = crti_put_id(at, holder->job);
    at = crti_put_id(at, holder->actor);
    at = crti_put_number(at, (uint32_t)holder->pid, 4);
    *at++ = holder->is_driver;
    at = crti_put_number(at, holder->told.size, 4);
    status = crti_buffer_append(out, bytes, (size_t)(at - bytes));
    return status == CRT_OK
               ? crti_buffer_append(out, holder->told.data, holder->told.size)
               : status;
}

crt_status_t crti_object_records_add(const crti_object_record_t *object,
                                     crti_buffer_t *out)
{
    unsigned char bytes[OBJECT_MAX], *at = bytes;

    *at++ = (unsigned char)((object->is_sealed ? IS_SEALED : 0) |
                            (object->is_copy ? IS_COPY : 0) |
                            (object->is_of_driver ? IS_OF_DRIVER : 0));
    at = put_object(at, object->id);
    at = crti_put_number(at, object->size, 8);
    at = crti_put_number(at, object->pins, 4);
    at = crti_put_number(at, (uint32_t)object->owner_pid, 4);
    return crti_buffer_append(out, bytes, (size_t)(at - bytes));
}

crt_status_t crti_object_records_open(crti_span_t bytes,
                                      crti_object_records_t *records_out)
{
    *records_out = (crti_object_records_t){.rest = bytes, .ip = ""};
    if (crti_take_id(&records_out->rest, true, &records_out->node) &&
        take_text(&records_out->rest, &records_out->ip) &&
        take_small(&records_out->rest, &records_out->holders))
        return CRT_OK;
    *records_out = (crti_object_records_t){.ip = ""};
    return crt_raise(CRT_ERR_PROTOCOL, "objects of a node without a beginning");
}

static bool take_holder(crti_span_t *rest, crti_holder_record_t *holder)
{
    uint64_t is_driver;
    uint32_t pid, size;
    const unsigned char *told;

    if (!crti_take_id(rest, true, &holder->worker) ||
        !crti_take_id(rest, true, &holder->job) ||
        !crti_take_id(rest, true, &holder->actor) || !take_small(rest, &pid) ||
        !crti_take_number(rest, 1, &is_driver) || !take_small(rest, &size) ||
        !(told = crti_take(rest, size)))
        return false;
    holder->pid = (int32_t)pid;
    holder->is_driver = is_driver;
    holder->told = crti_span(told, size);
    return true;
}

crt_status_t crti_object_records_next_holder(crti_object_records_t *records,
                                             crti_holder_record_t *holder_out)
{
    *holder_out = (crti_holder_record_t){0};
    if (records->holders == 0)
        return CRT_ERR_NOT_FOUND;
    records->holders--;
    if (take_holder(&records->rest, holder_out))
        return CRT_OK;
    records->holders = 0;
    records->rest = crti_span(NULL, 0);
    return crt_raise(CRT_ERR_PROTOCOL, "a process that holds refs and is none");
}

static bool take_stored(crti_span_t *rest, crti_object_record_t *object)
{
    uint64_t there;
    uint32_t pid;

    if (!crti_take_number(rest, 1, &there) || there >= 2 * IS_OF_DRIVER ||
        !take_object(rest, &object->id) || !take_size(rest, &object->size) ||
        !take_small(rest, &object->pins) || !take_small(rest, &pid))
        return false;
    object->owner_pid = (int32_t)pid;
    object->is_sealed = there & IS_SEALED;
    object->is_copy = there & IS_COPY;
    object->is_of_driver = there & IS_OF_DRIVER;
    return true;
}

crt_status_t crti_object_records_next(crti_object_records_t *records,
                                      crti_object_record_t *object_out)
{
    *object_out = (crti_object_record_t){0};
    if (records->rest.size == 0)
        return CRT_ERR_NOT_FOUND;
    if (take_stored(&records->rest, object_out))
        return CRT_OK;
    records->rest = crti_span(NULL, 0);
    return crt_raise(CRT_ERR_PROTOCOL, "an object that is none");
}
