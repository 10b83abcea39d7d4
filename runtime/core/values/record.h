/* SPDX-License-Identifier: Apache-2.0 */
/* Records: what drivers and workers say to each other, over a session of net/net.h.
 *
 * Where it sits
 *     submit, actor, execute, refs -> [ record ] -> net (sessions) -> [ record ] -> dispatch
 * Kinds
 *     CALL      run this function with these arguments; `call` is the number of the caller's
 *               ref for the result
 *     REPLY     what became of a call
 *     LOCATE    where is the value of your object?        LOCATED  there
 *     PEEK      and of these, as far as it is known now?  PEEKED   there, perhaps not of all
 *     BORROW    somebody keeps refs to your objects       BORROWED known; these are gone
 *     RELEASE   and keeps them no longer                  BORROWED known
 *     TAKE_BACK a BORROW on behalf was in vain            BORROWED known
 *     COPY      a node has a copy of your object now
 *     COPY_QUERY      no copy of these objects of mine is known any more: COPY for each that you
 *     have
 *     COPY_REPLY    that was all, and none of them is being pulled here
 *     WAITING   the processes in the chain wait for this call or object (deadlock.c)
 *     PROBE     a result waits for what is behind this object or call: for itself? (result_wait.c)
 *     GIVE_BACK answer RETURNED for tasks of mine that you have not started
 *     CANCEL    end this call of mine
 *     ITEM      the next result of a call whose caller takes them one by one (a stream)
 *     CONSUMED  so many items may be made by now; their names
 *     RETIRING  no task begins here any more: give this worker back (max_calls)
 * Format
 *     Little endian, packed, u8 kind first; texts behind a u16 length. An encoded value that has
 *     data begins at a multiple of 64 from the start of the record.
 * Trust
 *     Decoders take any bytes and borrow from them; what is left over is an error too.
 * Threads
 *     None; pure functions. Tier: message path.
 */
#ifndef CRTI_CORE_RECORD_H
#define CRTI_CORE_RECORD_H

#include "runtime/core/types.h"
#include "runtime/core/values/bytes.h"
#include "runtime/core/values/value.h"
#include "runtime/net/protocol.h"

typedef enum crti_record_kind {
    CRTI_RECORD_CALL = 1,
    CRTI_RECORD_REPLY = 2,
    CRTI_RECORD_LOCATE = 3,
    CRTI_RECORD_LOCATED = 4,
    CRTI_RECORD_BORROW = 5,
    CRTI_RECORD_BORROWED = 6,
    CRTI_RECORD_RELEASE = 7,
    CRTI_RECORD_COPY = 8,
    CRTI_RECORD_WAITING = 9,
    CRTI_RECORD_GIVE_BACK = 10,
    CRTI_RECORD_TAKE_BACK = 11,
    CRTI_RECORD_COPY_QUERY = 12,
    CRTI_RECORD_COPY_REPLY = 13,
    CRTI_RECORD_PROBE = 14,
    CRTI_RECORD_CANCEL = 15,
    CRTI_RECORD_RETIRING = 16,
    CRTI_RECORD_ITEM = 17,
    CRTI_RECORD_CONSUMED = 18,
    CRTI_RECORD_PEEK = 19,
    CRTI_RECORD_PEEKED = 20,
    CRTI_RECORD_SEEDED_CALL = 21
} crti_record_kind_t;

/* The kind of a record, 0 for none. */
static inline unsigned crti_record_kind(const void *data, size_t size)
{
    return size ? *(const unsigned char *)data : 0;
}

/* A call, with a seed or without. */
static inline bool crti_record_is_call(const void *data, size_t size)
{
    unsigned kind = crti_record_kind(data, size);

    return kind == CRTI_RECORD_CALL || kind == CRTI_RECORD_SEEDED_CALL;
}

/* Where the bytes of an object lie. `nodes` are 16-byte ids, borrowed. */
typedef struct crti_location {
    crti_object_id_t object; /* its name in the stores; may differ from the ref's */
    uint64_t size;
    const void *nodes;
    uint32_t node_count;
} crti_location_t;

crti_id_t crti_location_node(const crti_location_t *location, uint32_t index);

/* ---------------------------------------------------------------- calls */

#define CRTI_CALL_NAMED 1 /* what its caller calls it follows */
#define CRTI_CALL_TASK  2 /* a task; else a method of the actor that lives there, or */
#define CRTI_CALL_IN_GROUP(group)                                                        \
    ((group) << 4) /* of a method: its concurrency group, 0 to 15 */
#define CRTI_CALL_GROUP(flags) ((flags) >> 4)
/* In `index` of the creation of an actor: its calls begin in any order. */
#define CRTI_CREATION_UNORDERED 0x8000u
/* The number of its results follows; else one. None: a stream, whose start follows. */
#define CRTI_CALL_RETURNS 8
/* Of a task, or (both bits) of a creation: it runs in a placement group, which follows. */
#define CRTI_CALL_PLACED 16
#define CRTI_CALL_IS_PLACED(flags)                                                       \
    (((flags) & (CRTI_CALL_TASK | CRTI_CALL_PLACED)) ==                                  \
     (CRTI_CALL_TASK | CRTI_CALL_PLACED))
#define CRTI_CALL_READY 4 /* no method: has create of that actor ended, and how? */

/* As `index` of a method: it is called from outside the cluster (client/outside.h), by its name,
 * and only when its class lets it; the second: by somebody without a token. The caller does not
 * know its class. */
#define CRTI_CALL_OUTSIDE           0xffff
#define CRTI_CALL_STRANGER          0xfffe
#define CRTI_CALL_IS_OUTSIDE(index) ((index) >= CRTI_CALL_STRANGER)
/* As `index` of a method: none of its class; the actor ends itself, as by crt_actor_exit. */
#define CRTI_CALL_STOP 0xfffd

#define CRTI_STREAM_OUT_MAX 100000 /* items of a stream that were made and not taken */

typedef enum crti_arg_form {
    CRTI_ARG_VALUE = 0,
    CRTI_ARG_DATA = 1,   /* a value with data: aligned */
    CRTI_ARG_OBJECT = 2, /* a ref whose bytes are known to lie in a store */
    CRTI_ARG_REF = 3     /* ask its owner */
} crti_arg_form_t;

/* Items from `skip` to `limit` (not included) may be made; they are called `first`, first + 1,
 * ... */
typedef struct crti_stream_start {
    uint64_t skip, limit, first;
} crti_stream_start_t;

/* More of them, from the last limit on. */
typedef struct crti_consumed {
    uint64_t call, limit, first;
} crti_consumed_t;

typedef struct crti_call_head {
    unsigned flags;
    /* of the method in its class, of the task in its program; of the creation of an actor: its
     * max_concurrency, and perhaps CRTI_CREATION_UNORDERED */
    unsigned index;
    unsigned arg_count;
    unsigned returns; /* results, with CRTI_CALL_RETURNS; */
    bool is_stream;   /* none: one, which comes last, and */
    uint64_t call;
    crti_span_t name;           /* the function's, as a check of `index` */
    crti_placement_t placement; /* with CRTI_CALL_IS_PLACED */
    crti_span_t given_name;     /* with CRTI_CALL_NAMED; else empty */
    crti_stream_start_t stream; /* with is_stream */
    uint64_t seed;              /* of a SEEDED_CALL (process/seeds.h); 0: it is a CALL */
} crti_call_head_t;

typedef struct crti_call_arg {
    crti_arg_form_t form;
    crti_span_t value;        /* VALUE, DATA */
    crti_ref_name_t ref;      /* OBJECT, REF */
    crti_location_t location; /* OBJECT */
} crti_call_arg_t;

crt_status_t crti_put_call(crti_buffer_t *out, const crti_call_head_t *head);
/* Behind the arguments of a call that is made again: which one it was at first, and how often it
 * was made before. */
typedef struct crti_call_again {
    uint64_t first; /* number; 0: it was not made before */
    uint32_t tries;
} crti_call_again_t;

/* The same call under another number. CRT_ERR_NO_MEMORY: nothing has changed. */
crt_status_t crti_put_again(crti_buffer_t *record, uint64_t call,
                            const crti_call_again_t *again);
/* The number alone; and the rest alone, behind arguments that nothing follows yet. */
void crti_renumber_call(crti_buffer_t *record, uint64_t call);
crt_status_t crti_append_again(crti_buffer_t *record, const crti_call_again_t *again);
/* The same stream from another item on. */
void crti_restart_stream(crti_buffer_t *record, const crti_stream_start_t *start);
crt_status_t crti_put_arg_value(crti_buffer_t *out, size_t start,
                                const crti_encoder_t *value);
crt_status_t crti_put_arg_bytes(crti_buffer_t *out, size_t start, crti_span_t value);
crt_status_t crti_put_arg_object(crti_buffer_t *out, const crti_ref_name_t *ref,
                                 const crti_location_t *location);
crt_status_t crti_put_arg_ref(crti_buffer_t *out, const crti_ref_name_t *ref);

/* Reads the head; `args_out` is left at the first argument. */
crt_status_t crti_get_call(const void *data, size_t size, crti_call_head_t *head_out,
                           crti_reader_t *args_out);
/* The next argument; `start` is the beginning of the record. */
crt_status_t crti_get_arg(crti_reader_t *args, const void *start,
                          crti_call_arg_t *arg_out);
crt_status_t crti_read_again(crti_reader_t *args, crti_call_again_t *again_out);
/* What is behind the last argument. */
static inline crt_status_t crti_get_again(crti_reader_t *args,
                                          crti_call_again_t *again_out)
{
    *again_out = (crti_call_again_t){0};
    return args->at == args->end ? CRT_OK : crti_read_again(args, again_out);
}

/* ---------------------------------------------------------------- results */

typedef enum crti_result_form {
    CRTI_RESULT_VALUE = 0,
    CRTI_RESULT_DATA = 1,   /* a value with data: aligned */
    CRTI_RESULT_STORED = 2, /* bytes in a store; `table` names what they refer to */
    CRTI_RESULT_ERROR = 3,
    CRTI_RESULT_FORWARD = 4,    /* the value of that ref, which was registered for you */
    CRTI_RESULT_NOT_STARTED = 5 /* not started and given back: run it elsewhere */
} crti_result_form_t;

typedef struct crti_failure {
    crt_status_t status;
    bool may_have_run;
    crti_span_t text, class_name, method;
    crti_id_t actor, node;
    int64_t pid;
} crti_failure_t;

typedef struct crti_result {
    crti_result_form_t form;
    crti_span_t value; /* VALUE, DATA */
    crti_location_t location;
    crti_span_t table;
    crti_failure_t failure;
    crti_ref_name_t ref;
} crti_result_t;

/* Which result of a call a REPLY has: the others come before the first, which ends the call. */
static inline uint64_t crti_reply_number(uint64_t call, unsigned index)
{
    return call | (uint64_t)index << CRTI_NUMBER_BITS;
}
static inline unsigned crti_reply_index(uint64_t number)
{
    return (unsigned)(number >> CRTI_NUMBER_BITS);
}

/* REPLY (`number` is the call and which of its results) and LOCATED (`number` is the request) have
 * the same body. With `encoded` not NULL it is the value, for forms VALUE and DATA. */
crt_status_t crti_put_result(crti_buffer_t *out, crti_record_kind_t kind, uint64_t number,
                             const crti_result_t *result, const crti_encoder_t *encoded);
crt_status_t crti_get_result(const void *data, size_t size, uint64_t *number_out,
                             crti_result_t *result_out);

/* ITEM: what a result is that is neither an error nor a call that has not begun. */
crt_status_t crti_put_item(crti_buffer_t *out, uint64_t call, uint64_t index,
                           const crti_result_t *result);
crt_status_t crti_get_item(const void *data, size_t size, uint64_t *call_out,
                           uint64_t *index_out, crti_result_t *result_out);
crt_status_t crti_put_consumed(crti_buffer_t *out, const crti_consumed_t *consumed);
crt_status_t crti_get_consumed(const void *data, size_t size,
                               crti_consumed_t *consumed_out);

/* ---------------------------------------------------------------- references */

/* `missed`: the name of the object that LOCATED told, when no node that it named has had it for a
 * while; else 0. */
crt_status_t crti_put_locate(crti_buffer_t *out, uint64_t missed, uint64_t number);
crt_status_t crti_get_locate(const void *data, size_t size, uint64_t *missed_out,
                             uint64_t *number_out);

/* PEEK: numbers of the receiver's objects. PEEKED has a LOCATED for each that is answered, one
 * behind the other. Begin it, then put each. */
crt_status_t crti_put_peek(crti_buffer_t *out, const uint64_t *numbers, uint32_t count);
crt_status_t crti_get_peek(const void *data, size_t size, const void **numbers_out,
                           uint32_t *count_out);
crt_status_t crti_begin_peeked(crti_buffer_t *out);
crt_status_t crti_put_peeked(crti_buffer_t *out, uint64_t number,
                             const crti_result_t *result);
/* The same of a flat value (value.h). */
crt_status_t crti_put_peeked_flat(crti_buffer_t *out, uint64_t number, const void *value,
                                  size_t size);
crti_reader_t crti_read_peeked(const void *data, size_t size);
/* The next one; false at the end. */
crt_status_t crti_next_peeked(crti_reader_t *peeked, bool *is_there_out,
                              uint64_t *number_out, crti_result_t *result_out);

/* Most refs that one BORROW, BORROWED, TAKE_BACK or RELEASE names: its receiver is busy with it for
 * some milliseconds. */
#define CRTI_REFS_OF_RECORD 65536u

/* BORROW: `process` keeps them (zero: the sender). TAKE_BACK: one registration of it for each ends.
 * BORROWED: `numbers` are gone, in the order of the request. Numbers are u64,
 * borrowed, perhaps not aligned: crti_number_at. */
typedef struct crti_borrow_record {
    uint64_t request;
    crti_id_t process;
    uint64_t incarnation;
    crti_id_t node; /* of `process` */
    const void *numbers;
    uint32_t count;
} crti_borrow_record_t;

crt_status_t crti_put_borrow(crti_buffer_t *out, crti_record_kind_t kind,
                             const crti_borrow_record_t *record);
crt_status_t crti_get_borrow(const void *data, size_t size,
                             crti_borrow_record_t *record_out);
uint64_t crti_number_at(const void *numbers, uint32_t index);

/* RELEASE gives back `tokens` registrations of each object. */
typedef struct crti_release {
    uint64_t number, tokens;
} crti_release_t;

typedef struct crti_release_record {
    uint64_t request;
    const void *releases; /* borrowed, perhaps not aligned: crti_release_at */
    uint32_t count;
} crti_release_record_t;

crt_status_t crti_put_release(crti_buffer_t *out, uint64_t request,
                              const crti_release_t *releases, uint32_t count);
crt_status_t crti_get_release(const void *data, size_t size,
                              crti_release_record_t *record_out);
crti_release_t crti_release_at(const crti_release_record_t *record, uint32_t index);

/* BORROW, TAKE_BACK and RELEASE are filled one by one, behind crti_put_borrow or crti_put_release
 * with none, and get their number at last. */
crt_status_t crti_add_borrow(crti_buffer_t *record, uint64_t number);
crt_status_t crti_add_release(crti_buffer_t *record, uint64_t number, uint64_t tokens);
void crti_seal_owner_request(crti_buffer_t *record, uint64_t request);
/* How many refs such a record names by now. */
uint32_t crti_owner_request_refs(const crti_buffer_t *record);

/* `object`: the number of what lies there, not always that of the ref; 0 when it is the object of
 * another process. */
crt_status_t crti_put_copy(crti_buffer_t *out, uint64_t number, uint64_t object,
                           crti_id_t node);
crt_status_t crti_get_copy(const void *data, size_t size, uint64_t *number_out,
                           uint64_t *object_out, crti_id_t *node_out);

#define CRTI_CANCEL_FORCE     1
#define CRTI_CANCEL_RECURSIVE 2

crt_status_t crti_put_cancel(crti_buffer_t *out, uint64_t call, unsigned flags);
crt_status_t crti_get_cancel(const void *data, size_t size, uint64_t *call_out,
                             unsigned *flags_out);

/* GIVE_BACK and RETIRING have nothing but their kind. */
crt_status_t crti_put_give_back(crti_buffer_t *out);
crt_status_t crti_put_retiring(crti_buffer_t *out);

/* ---------------------------------------------------------------- waiting */

#define CRTI_CHAIN_MAX 64

/* One process that waits: `wait` counts its waits, so that an old chain is told from the wait
 * that goes on now. `name` is what it runs, "Counter.add". */
typedef struct crti_waiter {
    crti_id_t process;
    uint64_t wait;
    crti_span_t name;
} crti_waiter_t;

typedef struct crti_chain {
    /* `number` is an object of the receiver; else a call that it got from here */
    bool is_object;
    uint64_t number;
    unsigned count;
    crti_waiter_t waiter[CRTI_CHAIN_MAX]; /* the first waited first */
} crti_chain_t;

crt_status_t crti_put_chain(crti_buffer_t *out, const crti_chain_t *chain);
crt_status_t crti_get_chain(const void *data, size_t size, crti_chain_t *chain_out);

#define CRTI_PROBE_NAME 128 /* longest name in a probe; longer ones are cut */

/* An object of `process`, or a call that it got from the process of the step before. */
typedef struct crti_probe_step {
    crti_id_t process;
    bool is_object;
    uint64_t number;
    crti_span_t name; /* of the function whose result it is; filled in by `process` */
} crti_probe_step_t;

typedef struct crti_probe {
    bool is_confirming; /* it goes along `step`, which it has found before */
    uint64_t nonce;     /* drawn by the owner of the first one for each that it sends */
    unsigned at;        /* whose turn it is; the last one's when not confirming */
    unsigned count;     /* 2 at least */
    crti_probe_step_t step[CRTI_CHAIN_MAX]; /* each waits for the next */
} crti_probe_t;

crt_status_t crti_put_probe(crti_buffer_t *out, const crti_probe_t *probe);
crt_status_t crti_get_probe(const void *data, size_t size, crti_probe_t *probe_out);

#endif
