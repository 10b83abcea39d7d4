/* SPDX-License-Identifier: Apache-2.0 */
/* Object records: which refs a process holds, and what lies in the store of a node, as the bytes in
 * which processes tell their node and nodes tell the head of them.
 *
 * Where it sits
 *     core/client/told_refs.c -> [ base/object_records.c ] -> node/dispatch/questions.c,
 *     object_rows.c -> [ base/object_records.c ] ->
 *     STATE_ANSWER -> [ base/object_records.c ] -> control/rows/object_rows.c
 *
 *     of a process    round, count, bytes (u64), then each ref:
 *                     what is there (u8), owner (id), number, size (u64), handles (u32), [calls,
 *                     borrowers (u32)], [place (text)]
 *     of a node       node (id), ip (text), processes (u32), then each of them:
 *                     worker, job, actor (id), pid (u32), is it a driver (u8), size (u32) and the
 *                     bytes of what it told; then each object: what is there (u8), owner (id),
 *                     number, size (u64), pins, pid of the owner (u32)
 *
 * A text is its length (u8), its bytes and a zero, so that it is borrowed from the bytes. A ref
 * without a place has that of the one before. Trust: the decoders take any bytes; what a process
 * told is opened by itself, so that one that tells nonsense spoils its own part only.
 */
#ifndef CRTI_BASE_OBJECT_RECORDS_H
#define CRTI_BASE_OBJECT_RECORDS_H

#include "runtime/base/buffer.h"
#include "runtime/base/id.h"

#define CRTI_OBJECT_TEXT 255 /* bytes of a place; of a longer one the end is not told */

/* Why a process keeps a ref. */
typedef enum crti_ref_kind {
    CRTI_REF_LISTED, /* by nothing that has a name */
    CRTI_REF_LOCAL,
    CRTI_REF_USED_BY_CALL,
    CRTI_REF_CAPTURED,
    CRTI_REF_LENT,
    CRTI_REF_BORROWED,
    CRTI_REF_KINDS
} crti_ref_kind_t;

/* Where its value is. */
typedef enum crti_ref_value {
    CRTI_REF_PENDING,
    CRTI_REF_INLINE,
    CRTI_REF_STORED,
    CRTI_REF_FAILED,
    CRTI_REF_VALUES
} crti_ref_value_t;

/* In the words of Ray's memory table as far as that has them. */
const char *crti_ref_kind_name(crti_ref_kind_t kind);
const char *crti_ref_value_name(crti_ref_value_t value);

typedef struct crti_ref_record {
    crti_object_id_t id;
    uint64_t size; /* bytes of the value */
    uint32_t handles;
    uint32_t calls, borrowers; /* of one that is owned */
    crti_ref_kind_t kind;
    crti_ref_value_t value;
    bool is_owned;
    const char *place; /* borrowed; "": not known */
} crti_ref_record_t;

/* What a process tells: those that follow, of `count` refs with values of `bytes` in all. */
typedef struct crti_ref_records {
    uint64_t round, count, bytes;
    crti_span_t rest;
    const char *place; /* of the last one */
} crti_ref_records_t;

/* Begins the bytes with round, count and bytes of `records`; crti_ref_records_add goes on. */
crt_status_t crti_ref_records_begin(crti_ref_records_t *records, crti_buffer_t *out);
crt_status_t crti_ref_records_add(crti_ref_records_t *records,
                                  const crti_ref_record_t *record, crti_buffer_t *out);
/* CRT_ERR_PROTOCOL: these are no such bytes. */
crt_status_t crti_ref_records_open(crti_span_t bytes, crti_ref_records_t *records_out);
/* CRT_ERR_NOT_FOUND: that was the last one; CRT_ERR_PROTOCOL: the rest is no record. */
crt_status_t crti_ref_records_next(crti_ref_records_t *records,
                                   crti_ref_record_t *record_out);

/* A process of a node, and what it told; empty: nothing. */
typedef struct crti_holder_record {
    crti_id_t worker, job, actor; /* zero: of none */
    int32_t pid;
    bool is_driver;
    crti_span_t told; /* borrowed */
} crti_holder_record_t;

/* A copy of an object in the store of a node. */
typedef struct crti_object_record {
    crti_object_id_t id;
    uint64_t size;
    uint32_t pins;
    int32_t owner_pid; /* 0: not on this node */
    bool is_of_driver, is_sealed, is_copy;
} crti_object_record_t;

/* What a node tells: `holders` processes, then objects. */
typedef struct crti_object_records {
    crti_id_t node;
    const char *ip; /* borrowed */
    uint32_t holders;
    crti_span_t rest;
} crti_object_records_t;

/* Begins the bytes; as many processes follow, then objects. */
crt_status_t crti_object_records_begin(const crti_object_records_t *records,
                                       crti_buffer_t *out);
crt_status_t crti_object_records_add_holder(const crti_holder_record_t *holder,
                                            crti_buffer_t *out);
crt_status_t crti_object_records_add(const crti_object_record_t *object,
                                     crti_buffer_t *out);
/* CRT_ERR_PROTOCOL: these are no such bytes. */
crt_status_t crti_object_records_open(crti_span_t bytes,
                                      crti_object_records_t *records_out);
/* CRT_ERR_NOT_FOUND: that was the last one; CRT_ERR_PROTOCOL: the rest is no record, and neither is
 * what would come behind it. */
crt_status_t crti_object_records_next_holder(crti_object_records_t *records,
                                             crti_holder_record_t *holder_out);
crt_status_t crti_object_records_next(crti_object_records_t *records,
                                      crti_object_record_t *object_out);

#endif
