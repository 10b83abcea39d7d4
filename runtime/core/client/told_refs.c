/* SPDX-License-Identifier: Apache-2.0 */
/* The refs of this process as it tells them: the largest ones, each with why it is kept and where
 * it was made, and how many there are in all. See told.h.
 *
 * Where it sits
 *     told_state.c -> [ told_refs.c ] -> tables of refs (refs/ref_table.c)
 * Threads
 *     The core's lock: the refs are passed once, and only the largest ones are put in order.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/base/object_records.h"
#include "runtime/core/client/told.h"
#include "runtime/core/refs/refs.h"

#define TOLD_MAX ((size_t)3 << 20) /* bytes; a node takes 4 MiB */

/* The largest `limit` of those that were looked at are among these. */
typedef struct largest {
    const crt_ref_t **refs; /* room for twice as many; NULL: no memory */
    size_t count, limit;
    size_t least; /* what is smaller is none of them */
    uint64_t seen, bytes;
} largest_t;

/* ---------------------------------------------------------------- which ones */

/* Of its value, as far as that is there. */
static size_t bytes_of(const crt_ref_t *ref)
{
    bool has_value =
        ref->content == CRTI_CONTENT_INLINE || ref->content == CRTI_CONTENT_STORED;

    return has_value ? ref->size : 0;
}

/* The largest first. */
static int by_size(const void *a, const void *b)
{
    size_t x = bytes_of(*(const crt_ref_t *const *)a),
           y = bytes_of(*(const crt_ref_t *const *)b);

    return (x < y) - (x > y);
}

static void keep_largest(largest_t *largest)
{
    qsort(largest->refs, largest->count, sizeof(*largest->refs), by_size);
    if (largest->count < largest->limit)
        return;
    largest->count = largest->limit;
    largest->least = bytes_of(largest->refs[largest->limit - 1]) + 1;
}

static void look_at(crt_ref_t *ref, void *user)
{
    largest_t *largest = user;

    if (ref->is_free || ref->is_lifetime)
        return;
    largest->seen++;
    largest->bytes += ref->is_owned ? bytes_of(ref) : 0;
    if (bytes_of(ref) < largest->least)
        return;
    largest->refs[largest->count++] = ref;
    if (largest->count == 2 * largest->limit)
        keep_largest(largest);
}

/* ---------------------------------------------------------------- how they are told */

static crti_ref_kind_t kind_of(const crt_ref_t *ref)
{
    if (!ref->is_owned)
        return CRTI_REF_BORROWED;
    return ref->owned.pins             ? CRTI_REF_USED_BY_CALL
           : ref->handles              ? CRTI_REF_LOCAL
           : ref->owned.local          ? CRTI_REF_CAPTURED
           : ref->owned.borrower_count ? CRTI_REF_LENT
                                       : CRTI_REF_LISTED;
}

static crti_ref_value_t value_of(const crt_ref_t *ref)
{
    static const crti_ref_value_t values[] = {[CRTI_CONTENT_NONE] = CRTI_REF_PENDING,
                                              [CRTI_CONTENT_INLINE] = CRTI_REF_INLINE,
                                              [CRTI_CONTENT_STORED] = CRTI_REF_STORED,
                                              [CRTI_CONTENT_FAILED] = CRTI_REF_FAILED};

    return values[ref->content];
}

static crti_ref_record_t record_of(const crt_ref_t *ref)
{
    const char *place = atomic_load_explicit(&ref->place, memory_order_relaxed);

    return (crti_ref_record_t){
        .id = ref->content == CRTI_CONTENT_STORED ? ref->more->object : crti_ref_id(ref),
        .size = bytes_of(ref),
        .handles = ref->handles,
        .calls = ref->is_owned ? ref->owned.pins : 0,
        .borrowers = ref->is_owned ? ref->owned.borrower_count : 0,
        .kind = kind_of(ref),
        .value = value_of(ref),
        .is_owned = ref->is_owned,
        .place = place ? place : ""};
}

void crti_told_refs(crti_core_t *core, uint64_t round, size_t limit, crti_buffer_t *out)
{
    largest_t largest = {.limit = limit ? limit : 1};
    crti_ref_records_t records = {.round = round};
    crt_status_t status;

    largest.refs = malloc(2 * largest.limit * sizeof(*largest.refs));
    if (largest.refs) {
        crti_refs_walk(core, look_at, &largest);
        keep_largest(&largest);
    }
    records.count = largest.seen;
    records.bytes = largest.bytes;
    status = crti_ref_records_begin(&records, out);
    for (size_t i = 0; i < largest.count && out->size < TOLD_MAX && status == CRT_OK;
         i++) {
        crti_ref_record_t record = record_of(largest.refs[i]);

        status = crti_ref_records_add(&records, &record, out);
    }
    free(largest.refs);
}
