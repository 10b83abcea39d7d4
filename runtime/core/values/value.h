/* SPDX-License-Identifier: Apache-2.0 */
/* Values: how arguments and results are written as bytes, and read back in place.
 *
 * Where it sits
 *     crt_arg_t -> [ value ] -> record (core/values/record.h) or object of the store -> [ value ]
 *     -> crt_value_t -> crt_out_t
 * Format of an encoded value
 *     plain       0x00, then one msgpack value. Numbers, small texts, lists, maps.
 *     structured  0x01, three zero bytes, u32 size of the table, u32 size of the msgpack, u64 size
 *                 of the data; then table, msgpack, zeros up to a multiple of 64, data.
 *     Texts are msgpack strings with their final zero counted, so that they are used in place.
 *     Extension types (payload little endian):
 *         1 tensor   u8 dtype, u8 rank, i64 sizes, u64 place in the data (a multiple of 64)
 *         2 ref      u32 index in the table
 *         3 actor    u32 index in the table
 *         4 bytes    u64 place in the data, u64 size
 *         5 string   the same, the final zero counted
 *     The table names everything that the value refers to: u32 owners, u32 refs, u32 actors;
 *     owner: id, u64 incarnation, node id, text tcp; ref: u32 owner, u64 number; actor: id,
 *     text class, what callers obey (CRTI_ACTOR_TERMS: u64 or u8), and where it lives: u64
 *     incarnation (0: not known), process id, u64 its incarnation, node id, text tcp; u32 what
 *     keeps it alive: 1 + the index of a ref, which nothing else in the value need name, or 0. It
 *     can be read without the value, so that whoever holds an object knows what the object holds.
 * Trust
 *     Decoders take any bytes, also such that others change meanwhile; counts and lengths are
 *     checked against what is there. Memory is at most 48 bytes for each byte of msgpack.
 * Alignment
 *     An encoded value with data lies on a multiple of 64; objects of the store do, and
 *     whoever takes one out of a record copies it there.
 * Threads
 *     None; pure functions. Tier: message path (a scalar allocates nothing).
 */
#ifndef CRTI_CORE_VALUE_H
#define CRTI_CORE_VALUE_H

#include "runtime/base/actor_terms.h"
#include "runtime/base/buffer.h"
#include "runtime/base/id.h"
#include "runtime/core/types.h"
#include "runtime/crt.h"

#define CRTI_VALUE_ALIGN 64
#define CRTI_VALUE_DEPTH 64 /* deepest nesting of lists and maps */
#define CRTI_VALUE_APART                                                                 \
    4096 /* bytes and texts from here on lie in the data, not in the msgpack */

/* An argument that crt_arg_unsigned could not represent; never on the wire. */
#define CRTI_KIND_TOO_BIG ((crt_kind_t)200)

/* What a ref or an actor is called between processes. */
typedef struct crti_ref_name {
    crti_object_id_t id;
    uint64_t incarnation; /* of the owner */
    crti_id_t node;       /* of the owner */
    crti_span_t tcp;
} crti_ref_name_t;

typedef struct crti_actor_name {
    crti_id_t id;
    crti_span_t class_name;
    crti_actor_terms_t terms;
    /* Where the sender knows it to live, so that the receiver can call it without asking. */
    uint64_t incarnation; /* of the actor; 0: not known */
    crti_id_t process, node;
    uint64_t process_incarnation;
    crti_span_t tcp;
    /* What keeps it alive for as long as anybody has it (core/calls/actor_lifetime.c): to encode,
     * the ref, or NULL; decoded, 1 + its index among the table's refs, or 0. */
    crt_ref_t *lifetime;
    uint32_t lifetime_index;
} crti_actor_name_t;

/* ---------------------------------------------------------------- encoding */

typedef struct crti_naming {
    /* An error refuses the value: the program gave no ref, or no actor. */
    crt_status_t (*name_ref)(void *user, crt_ref_t *ref, crti_ref_name_t *name_out);
    crt_status_t (*name_actor)(void *user, crt_actor_t *actor,
                               crti_actor_name_t *name_out);
    /* Of an object in writing, which the caller of crti_encode has taken. */
    const crt_tensor_t *(*tensor_of)(const crt_object_t *object);
} crti_naming_t;

typedef struct crti_segment {
    crt_tensor_t tensor; /* bytes and texts are tensors of uint8 */
    size_t bytes;
    uint64_t place;
} crti_segment_t;

/* An encoded value in parts, before it is written somewhere. Zero-initialised it is empty; its
 * memory is reused by the next crti_encode. */

struct crti_encoder {
    const crti_naming_t *naming;
    crti_buffer_t head;
    crti_buffer_t owners, ref_entries, actor_entries;
    crti_buffer_t segments; /* crti_segment_t */
    crti_buffer_t refs;     /* crt_ref_t *: borrowed from the argument */
    uint32_t owner_count, ref_count, actor_count;
    crti_id_t last_owner;
    uint32_t last_owner_index;
    uint64_t data_size;
    const char *what; /* names the argument in errors; may be NULL */
    void *user;       /* of `naming` */
};

/* Encodes one value; what it points at is borrowed until crti_encoder_write. Errors say what can't
 * be passed: CRT_ERR_INVALID, CRT_ERR_UNSUPPORTED, CRT_ERR_NO_MEMORY. */
crt_status_t crti_encode(crti_encoder_t *encoder, const crti_naming_t *naming,
                         const crt_arg_t *arg);

/* The kind as which an argument arrives: a tensor for an object in writing, a list or map for one
 * that was received. */
crt_kind_t crti_arg_kind(const crt_arg_t *arg);

#define CRTI_SCALAR_MAX 10

/* The bytes of a number, a truth or nothing, the same that an encoder would write; returns how
 * many, 0 for other kinds: those need an encoder. */
size_t crti_encode_scalar(const crt_arg_t *arg, unsigned char to[CRTI_SCALAR_MAX]);

size_t crti_encoder_size(const crti_encoder_t *encoder);
bool crti_encoder_has_data(const crti_encoder_t *encoder); /* wants alignment */
/* Writes crti_encoder_size bytes. */
void crti_encoder_write(const crti_encoder_t *encoder, void *to);
/* The refs inside, in the order of the table. */
crt_ref_t *const *crti_encoder_refs(const crti_encoder_t *encoder, size_t *count_out);
void crti_encoder_fini(crti_encoder_t *encoder);

/* The header of an object that holds one tensor, for crt_object_create: its size, and with `to`
 * not NULL the bytes. The tensor's elements begin at `*data_offset_out`. */
size_t crti_value_tensor_header(crt_dtype_t dtype, int rank, const int64_t *shape,
                                void *to, size_t *data_offset_out);

/* ---------------------------------------------------------------- decoding */

struct crt_value {
    crt_kind_t kind;
    uint32_t count; /* entries of a list or map */
    union {
        bool boolean;
        int64_t integer;
        double number;
        struct {
            const char *data; /* text: ended by a zero that `size` does not count */
            size_t size;
        } bytes;
        const crt_tensor_t *tensor;
        crt_ref_t *ref;
        crt_actor_t *actor;
        const struct crt_value *items; /* map: key (a text), value, key, value, ... */
    } as;
};

/* Entries of a list or map that was received: a map's keys count. */
static inline size_t crti_value_items(const crt_value_t *value)
{
    return value->kind == CRT_KIND_MAP ? 2 * (size_t)value->count : value->count;
}

/* The first byte of an encoded value that has neither a table nor data apart. */
#define CRTI_VALUE_FLAT 0

static inline bool crti_value_is_flat(const void *value, size_t size)
{
    return size >= 2 && *(const unsigned char *)value == CRTI_VALUE_FLAT;
}

/* The table of an encoded value, checked. */
typedef struct crti_table {
    crti_span_t bytes;
    const unsigned char *owners, *refs, *actors, *end;
    uint32_t owner_count, ref_count, actor_count;
} crti_table_t;

/* The table's bytes of an encoded value; empty when it has none. */
crt_status_t crti_value_table(const void *value, size_t size, crti_span_t *table_out);
crt_status_t crti_table_open(crti_span_t bytes, crti_table_t *table_out);
/* So many refs of one owner, whose numbers follow each other and begin at a multiple of it, are
 * taken together where that can be. */
#define CRTI_REF_BLOCK 16u

/* Calls `ref` for every ref, then `actor` for every actor, in order. Names are borrowed; refs of
 * one owner have theirs at one address. `block` (may be NULL) is called before `ref` for
 * CRTI_REF_BLOCK refs; true: it has taken them all. */
typedef struct crti_table_visitor {
    void *user;
    crt_status_t (*ref)(void *user, uint32_t index, const crti_ref_name_t *name);
    crt_status_t (*actor)(void *user, uint32_t index, const crti_actor_name_t *name);
    bool (*block)(void *user, uint32_t index, const crti_ref_name_t *first);
} crti_table_visitor_t;
crt_status_t crti_table_visit(const crti_table_t *table,
                              const crti_table_visitor_t *visitor);

/* True when the bytes must lie on a multiple of 64 to be decoded. */
bool crti_value_has_data(const void *value, size_t size);

/* What the entries of a table became. */
typedef struct crti_handles {
    crt_ref_t *const *refs; /* NULL: each of them is NULL */
    crt_actor_t *const *actors;
    uint32_t ref_count, actor_count;
} crti_handles_t;

/* The kind and the number of a flat value of at least two bytes, as most results are, without the
 * two passes of crti_decode; nothing else of `*number_out` is set. False: ask crti_decode. */
bool crti_decode_flat_number(const void *value, size_t size, crt_value_t *number_out);

/* Decodes; texts, bytes and tensors point into `value`. A value that names more refs or actors than
 * there are handles is refused, whatever its own table says. `*memory_out` is the caller's to
 * free() (NULL for scalars). */
crt_status_t crti_decode(const void *value, size_t size, const crti_handles_t *handles,
                         crt_value_t *value_out, void **memory_out);

/* ---------------------------------------------------------------- reading */

/* Which value an error speaks of. */
typedef struct crti_place {
    const char *class_name; /* "" or NULL: a task or none */
    const char *method;     /* NULL: not an argument */
    size_t index;
} crti_place_t;

/* Converts a decoded value to what `out` points at; CRT_ERR_INVALID names place and both kinds. */
crt_status_t crti_value_to(const crt_value_t *value, crt_out_t out,
                           const crti_place_t *place);

#endif
