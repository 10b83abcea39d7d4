/* SPDX-License-Identifier: Apache-2.0 */
/* The refs of this process as it tells them: the largest ones, each with why it is kept and where it was made, and
 * how many there are in all. See told.h.
 *
 * Where it sits
 *     told_state.c -> [ told_refs.c ] -> tables of refs (refs/ref_table.c)
 * Threads
 *     The core's lock: the refs are passed once, and only the largest ones are put in order.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/core/client/told.h"

#define BORROWERS_MAX 8                 /* that are named */
#define TEXT_MAX      ((size_t)3 << 20) /* bytes of the list; a node takes 4 MiB */

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

/* Why it is kept, in the words of Ray's memory table as far as that has them. */
static const char *kind_of(const crt_ref_t *ref)
{
    if (!ref->is_owned)
        return "BORROWED_REFERENCE";
    return ref->owned.pins             ? "USED_BY_PENDING_TASK"
           : ref->handles              ? "LOCAL_REFERENCE"
           : ref->owned.local          ? "CAPTURED_IN_OBJECT"
           : ref->owned.borrower_count ? "LENT_REFERENCE"
                                       : "";
}

static const char *content_name(const crt_ref_t *ref)
{
    static const char *const names[] = {[CRTI_CONTENT_NONE] = "PENDING",
                                        [CRTI_CONTENT_INLINE] = "INLINE",
                                        [CRTI_CONTENT_STORED] = "STORED",
                                        [CRTI_CONTENT_FAILED] = "FAILED"};

    return names[ref->content];
}

/* Who borrows it, and for what it is kept. */
static void put_holders(crti_buffer_t *json, const crti_owned_t *owned)
{
    char text[96], hex[CRTI_ID_HEX];

    snprintf(text, sizeof(text),
             ",\"local\":%" PRIu32 ",\"calls\":%" PRIu32 ",\"borrowers\":[", owned->local,
             owned->pins);
    crti_told_put(json, text);
    for (uint32_t i = 0; i < owned->borrower_count && i < BORROWERS_MAX; i++) {
        crti_told_put(json, i ? ",\"" : "\"");
        crti_told_put(json, crti_id_hex(owned->borrowers[i].process, hex));
        crti_told_put(json, "\"");
    }
    snprintf(text, sizeof(text), "],\"borrower_count\":%" PRIu32, owned->borrower_count);
    crti_told_put(json, text);
}

static void put_ref(crti_buffer_t *json, const crt_ref_t *ref)
{
    const char *place = atomic_load_explicit(&ref->place, memory_order_relaxed);
    char text[96];

    snprintf(text, sizeof(text), "{\"size\":%zu,\"handles\":%" PRIu32 ",\"is_owned\":%s",
             bytes_of(ref), ref->handles, ref->is_owned ? "true" : "false");
    crti_told_put(json, text);
    crti_told_object(json, ref->content == CRTI_CONTENT_STORED ? ref->more->object
                                                               : crti_ref_id(ref));
    crti_told_text(json, "place", place ? place : "");
    crti_told_text(json, "kind", kind_of(ref));
    crti_told_text(json, "content", content_name(ref));
    if (ref->is_owned)
        put_holders(json, &ref->owned);
    crti_told_put(json, "}");
}

void crti_told_refs(crti_core_t *core, size_t limit, crti_buffer_t *json)
{
    largest_t largest = {.limit = limit ? limit : 1};
    char text[96];

    largest.refs = malloc(2 * largest.limit * sizeof(*largest.refs));
    if (largest.refs) {
        crti_refs_walk(core, look_at, &largest);
        keep_largest(&largest);
    }
    crti_told_put(json, "\"refs\":[");
    for (size_t i = 0; i < largest.count && json->size < TEXT_MAX; i++) {
        crti_told_put(json, i ? "," : "");
        put_ref(json, largest.refs[i]);
    }
    snprintf(text, sizeof(text), "],\"count\":%" PRIu64 ",\"bytes\":%" PRIu64,
             largest.seen, largest.bytes);
    crti_told_put(json, text);
    free(largest.refs);
}
