/* SPDX-License-Identifier: Apache-2.0 */
/* Refs: objects as this process knows them, its own and those it borrows. The rules are in
 * ownership.h and borrow.h.
 *
 * Where it sits
 *     calls, execution, functions of crt.h -> [ refs/ ] -> process/remotes.c (owners, borrowers),
 *     store
 * Threads
 *     The core's lock.
 * Ownership
 *     A ref lives while it is held, pinned or covered here, or borrowed elsewhere.
 * States of its content
 *     NONE -> INLINE, STORED or FAILED. STORED goes back to NONE when no copy is known any more
 *     (missing.c), and on to FAILED when none was found and it can't be made again.
 * Invariants
 *     Each waiter is called exactly once, also when the ref failed.
 */
#ifndef CRTI_CORE_REFS_REFS_H
#define CRTI_CORE_REFS_REFS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/list.h"
#include "runtime/base/map.h"
#include "runtime/core/refs/borrow.h"
#include "runtime/core/refs/contained.h"
#include "runtime/core/refs/ownership.h"
#include "runtime/core/types.h"
#include "runtime/core/values/record.h"
#include "runtime/store/store.h"

/* Something that ends when registrations were answered: a call's reply, a borrowed value. */
typedef struct crti_completion {
    unsigned waits;
    crt_status_t status; /* why a registration was given up; CRT_OK */
    void (*on_end)(struct crti_completion *ending);
} crti_completion_t;

/* One ending that waits for one ref's registration (ref->uncovering). */
typedef struct crti_end_wait {
    crti_list_t link;
    crti_completion_t *ending;
} crti_end_wait_t;

/* What the modules above do for this one; under the lock. */
typedef struct crti_ref_handlers {
    /* The handle of an actor that a value names; held. */
    crt_status_t (*open_actor)(crti_core_t *core, const crti_actor_name_t *name,
                               crt_ref_t *lifetime, crt_actor_t **actor_out);
    void (*release_actor)(crt_actor_t *actor);
    /* Owned, is_lifetime: nobody holds it any more; it is freed next. */
    void (*lifetime_ended)(crt_ref_t *ref);
    /* Owned, MISSING, and wanted: true when the call that made it runs once more, or does so
     * already. And CRT_ERR_OBJECT_LOST, raised with which node took it (`text`: what else did), and
     * why it does not. */
    bool (*make_again)(crt_ref_t *ref);
    crt_status_t (*raise_lost)(const crt_ref_t *ref, const char *text);
    /* Owned: its bytes are needed only if others have to be made again (CRTI_OWNED_SPARE). */
    void (*spare)(crt_ref_t *ref);
    /* Owned, with `lineage`: it is freed next. */
    void (*forgotten)(crt_ref_t *ref);
    /* CRT_ERR_DEADLOCK when the result `ref` would be the value of `target` that waits for it. */
    crt_status_t (*check_forward)(const crt_ref_t *ref, crt_ref_t *target);
} crti_ref_handlers_t;

/*          comes             missing, lost
 *  NONE ------------> STORED ---------------> NONE
 *    |                   ^         found        |
 *    |                   +----------------------+
 *    +--------------> INLINE, FAILED
 *
 *  A lost one is FAILED next; all go to NONE when the ref is freed.
 */
typedef enum crti_content {
    CRTI_CONTENT_NONE,   /* not known yet */
    CRTI_CONTENT_INLINE, /* size, crti_ref_bytes */
    CRTI_CONTENT_STORED, /* size, more->object; more->view when it is pinned here */
    CRTI_CONTENT_FAILED  /* error */
} crti_content_t;

/* Somebody waits for a ref. A member of the waiter's struct; called once, then unlinked. */
typedef struct crti_waiting {
    crti_list_t link;
    void (*on_ready)(struct crti_waiting *waiting, crt_ref_t *ref);
} crti_waiting_t;

/* What few refs have: made when it is needed (crti_ref_more), so that a million refs whose calls
 * wait are short. */
typedef struct crti_ref_more {
    crt_ref_t *ref;                 /* whose it is; first: a pool writes there */
    crt_ref_t *forward;             /* its value is that ref's, forward.c */
    crti_waiting_t forward_waiting; /* for that, then in its `forwards` */
    crti_list_t forwards;           /* stored ones whose value is this one's */
    crti_list_t waiters;            /* crti_waiting_t: for content */
    crti_list_t local_waiters;      /* crti_waiting_t: for bytes that can be read here */
    crti_list_t uncovering; /* crti_end_wait_t: covers that end when we are registered */
    crti_list_t turn;       /* core->refs->to_notify */

    crti_object_id_t object; /* STORED: name in the stores */
    crti_store_view_t view;  /* STORED: of bytes that are pinned here */
    crti_id_t *nodes;        /* borrowed: where the owner said copies are */
    uint32_t node_count;
    unsigned char evictions;        /* copies that were gone before they could be read */
    struct crti_again *again;       /* its pull is repeated, value_retry.c */
    uint64_t missing_until_ns;      /* owned, MISSING: not lost before */
    struct crti_lineage *lineage;   /* owned: of the call that can make it again; else, */
    const crti_function_t *made_by; /* if a call has made it, which one, */
    unsigned char not_again;        /* and why it can't (crti_not_again_t, lineage.h) */
    bool is_spared;                 /* its spare bytes are kept, and counted */
    uint32_t dependents;            /* lineages that it is an argument of */
    uint64_t item;       /* owned: one more than its number in a stream; 0: of none */
    crti_list_t awaited; /* crti_items_t (calls/lineage_int.h) */
    struct crti_kept_copies *copies; /* owned: on several nodes; NULL: it need not be */
    crti_contained_t inner;
    crt_value_t value; /* decoded from its bytes or `view` */
    void *memory;
    crti_kept_t *kept; /* of before a shutdown: what `view` was */
} crti_ref_more_t;

struct crt_ref {
    uint64_t number; /* of the object, among its owner's; first: a pool writes there */
    /* NULL after a shutdown, only dropping is left; and once it is free */
    crti_core_t *core;
    uint32_t handles; /* the user's */
    bool is_free;     /* nobody has held it any more */
    uint8_t content;  /* crti_content_t, set last: then others read it without the lock */
    bool is_owned : 1;
    bool is_tell : 1;     /* nobody will ask: errors are logged */
    bool is_result : 1;   /* of a call */
    bool is_lifetime : 1; /* of an actor, which ends with it */
    bool may_peek : 1;    /* borrowed, in no block: in its owner's `unasked`; */
    bool is_locating : 1, is_pulling : 1;
    bool is_decoded : 1;     /* more->value */
    bool in_backlog : 1;     /* `entry`, not `call` */
    bool is_searched : 1;    /* by crti_check_result_wait, which is going on */
    bool is_unconfirmed : 1; /* borrowed: `nodes` are not its owner's word */
    bool is_counted : 1;     /* by crt_wait, which looks for those that stand twice */
    /* Its memory; neither: of the heap, it was made without a runtime. */
    bool is_in_slab : 1, is_in_block : 1;
    union {
        crti_owned_t owned;
        struct {
            crti_borrow_t borrow;
            crti_remote_t *owner;
            crti_list_t unasked; /* owner->unasked */
        };
    };
    union {
        /* that makes it, NULL: none or done; or, far back in a queue, */
        crti_pending_t *call;
        struct crti_backlog_entry *entry; /* of calls/backlog.c */
    };
    size_t size;
    union {
        struct {
            unsigned char small[22]; /* INLINE: values so short, */
            atomic_bool is_read;     /* that one, by the program */
            /* of a borrowed one: with whom it is read, more is asked for (peek.h) */
            atomic_bool is_peek_mark;
        };
        void *long_bytes;         /* and longer ones: crti_ref_bytes */
        struct crti_error *error; /* FAILED; NULL: there was no memory for it */
    };
    crti_ref_more_t *more; /* never NULL: to read; to write: crti_ref_more */
    /* Where the program made it, "file:line"; static text, NULL: not known. Written by its maker
     * without the lock. */
    const char *_Atomic place;
};

/* A program may have a million. */
_Static_assert(sizeof(struct crt_ref) == 128, "two cache lines");

/* The `more` of those that need none: nobody writes there. */
extern const crti_ref_more_t crti_ref_no_more;
#define CRTI_REF_NO_MORE ((crti_ref_more_t *)(uintptr_t)&crti_ref_no_more)
/* Its own, made now if it had none. NULL: no memory, which was raised. */
crti_ref_more_t *crti_ref_more(crt_ref_t *ref);

static inline void *crti_ref_bytes(crt_ref_t *ref)
{
    return ref->size <= sizeof(ref->small) ? ref->small : ref->long_bytes;
}

static inline void crti_ref_prefetch(const crt_ref_t *ref)
{
    __builtin_prefetch(ref, 1);
    __builtin_prefetch((const char *)ref + 64, 1);
}

static inline bool crti_ref_has_error(const crt_ref_t *ref)
{
    return ref->content == CRTI_CONTENT_FAILED && ref->error;
}

/* How often content has come to one, and one of ours has become missing. */
typedef struct crti_ref_changes {
    uint64_t came, went;
} crti_ref_changes_t;

/* ------------------------------------------------------------------ refs.c */

void crti_refs_init(crti_refs_t *refs, const crti_ref_handlers_t *handlers);
void crti_refs_fini(crti_refs_t *refs);
/* The memory of refs that are left is theirs alone. */
void crti_refs_leave(crti_core_t *core);
/* Refs of others, or our own, that `wants` takes, each held: what happens to one may change the
 * tables. The caller frees the list; NULL without memory. */
typedef bool crti_ref_wants_t(const crt_ref_t *ref, const void *what);
crt_ref_t **crti_refs_gather(crti_core_t *core, bool borrowed, crti_ref_wants_t *wants,
                             const void *what, size_t *count_out);

/* The one of ours with that number; NULL: none (any more). */
crt_ref_t *crti_ref_owned(const crti_core_t *core, uint64_t number);
crti_ref_changes_t crti_ref_changes(const crti_core_t *core);
/* All of them, ours and others'. `each` changes nothing. */
void crti_refs_walk(crti_core_t *core, void (*each)(crt_ref_t *ref, void *user),
                    void *user);

/* Of an object of ours, or of another try of a call. */
uint64_t crti_new_numbers(crti_core_t *core, uint64_t count); /* the first of so many */
static inline uint64_t crti_new_number(crti_core_t *core)
{
    return crti_new_numbers(core, 1);
}
/* Whose result is being taken; zero: nobody's. */
void crti_refs_taken_from(crti_core_t *core, crti_id_t process);

/* A new object of this process, pending, held once by the caller. NULL: out of memory. */
crt_ref_t *crti_ref_new(crti_core_t *core);
/* The same under a number that was drawn before, and is no other object's. */
crt_ref_t *crti_ref_new_numbered(crti_core_t *core, uint64_t number);
/* The ref that a name stands for; found or made. It is not held: cover, hold or give it a token
 * at once. */
crt_status_t crti_ref_arrive(crti_core_t *core, const crti_ref_name_t *name,
                             crt_ref_t **ref_out);
/* The same for each of several, which need not look for their owner again; zero at first, and given
 * up before anything else happens. */
typedef struct crti_arrivals {
    const crti_ref_name_t
        *name; /* as crti_table_visit gives it to all refs of an owner */
    bool is_ours;
    crti_remote_t *owner;
} crti_arrivals_t;
crt_status_t crti_ref_arrive_among(crti_core_t *core, const crti_ref_name_t *name,
                                   crti_arrivals_t *arrivals, crt_ref_t **ref_out);
/* The same for CRTI_REF_BLOCK of another process whose numbers follow each other, none of which has
 * arrived before; with what is known of each. False: they arrive one by one. */
bool crti_ref_arrive_block(crti_core_t *core, const crti_ref_name_t *first,
                           crti_arrivals_t *arrivals, crti_borrow_t borrow,
                           crt_ref_t **refs_out);
crti_ref_name_t crti_ref_name(const crt_ref_t *ref);
crti_object_id_t crti_ref_id(const crt_ref_t *ref);
/* The one that we borrow of that process; NULL: none. */
crt_ref_t *crti_ref_borrowed(crti_core_t *core, crti_id_t owner, uint64_t number);

/* CRT_OK, or why a ref that the program gives can't be used: NULL, dropped, of before a
 * shutdown. */
crt_status_t crti_ref_check(const crt_ref_t *ref);
/* False: it is of before a shutdown. Asked without the lock: a shutdown may begin behind it. */
static inline bool crti_ref_has_core(const crt_ref_t *ref)
{
    return __atomic_load_n(&ref->core, __ATOMIC_ACQUIRE) != NULL;
}
static inline void crti_ref_hold(crt_ref_t *ref)
{
    if (ref->is_owned)
        crti_owned_hold(&ref->owned);
    else
        crti_borrow_hold(&ref->borrow);
}
void crti_ref_release(crt_ref_t *ref);
/* Holds of calls in flight. */
static inline void crti_ref_pin(crt_ref_t *ref)
{
    if (ref->is_owned)
        crti_owned_pin(&ref->owned);
    else
        crti_borrow_hold(&ref->borrow);
}
void crti_ref_unpin(crt_ref_t *ref);
/* Covers; when the end must wait, `ending` gets one more wait. */
static inline void crti_ref_cover(crt_ref_t *ref)
{
    if (ref->is_owned)
        crti_owned_hold(&ref->owned);
    else
        crti_borrow_cover(&ref->borrow);
}
void crti_ref_uncover(crt_ref_t *ref, crti_completion_t *ending);
/* CRTI_REF_BLOCK refs at once, when they are a whole block that nothing holds but these covers.
 * False: nothing was done. */
bool crti_ref_uncover_block(crt_ref_t *const *refs);
void crti_ref_end_covers(crt_ref_t *ref); /* those that wait for our registration */
void crti_ref_add_token(crt_ref_t *ref);
void crti_completion_done(crti_completion_t *ending);

/* It has failed, if it had no content. */
void crti_ref_set_failed(crt_ref_t *ref, const crti_failure_t *failure);
void crti_ref_fail(crt_ref_t *ref, crt_status_t status); /* with this thread's detail */

void crti_ref_owner_answered(crt_ref_t *ref, bool gone);
/* What the end of a hold or registration asks for: CRTI_OWNED_FREE, CRTI_OWNED_SPARE. */
void crti_owned_apply(crt_ref_t *ref, unsigned bits);
void crti_ref_free_content(crt_ref_t *ref);

/* A ref of a call that can't even be made, with this thread's detail; `core` may be NULL. */
crt_ref_t *crti_ref_failed(crti_core_t *core, crt_status_t status);
/* What there is when not even that can be made; never freed. */
extern crt_ref_t crti_ref_out_of_memory;

/* ------------------------------------------------------------------ content.c */

/* The content came. Bytes are copied. The first wins; later ones are ignored. Who waits hears of it
 * at crti_refs_notify. */
void crti_ref_set_inline(crt_ref_t *ref, const void *bytes, size_t size);
/* This process has put it in the store of its node; `table`: of the refs inside, held here. After
 * an error nothing has come. */
crt_status_t crti_ref_set_put(crt_ref_t *ref, crti_object_id_t object, size_t size,
                              crti_span_t table);
void crti_ref_set_stored(crt_ref_t *ref, const crti_location_t *location,
                         crti_span_t table, bool has_tokens);
/* The bytes of a stored one that nobody holds are given up: it is missing, until it is wanted to
 * make another one again. And a missing one is pending: a call makes it again. */
void crti_ref_vacate(crt_ref_t *ref);
void crti_ref_repeat(crt_ref_t *ref);
/* The bytes of one of ours that has come are freed whoever holds it: it fails, with that text. What
 * is read here stays until the ref ends. */
void crti_ref_free_value(crt_ref_t *ref, const char *text);
/* An inline value; the refs in it are made first, so that they are held before anybody is told. */
void crti_ref_set_value(crt_ref_t *ref, crti_span_t value, bool has_tokens);

/* A result of a call that has failed meanwhile: nobody wants it any more. */
void crti_result_late(crti_core_t *core, const crti_result_t *result);

/* The content of a ref that has one, as a result that can be sent; borrowed from the ref. */
void crti_ref_describe(crt_ref_t *ref, crti_result_t *result_out, crti_buffer_t *nodes);

/* ------------------------------------------------------------------ notify.c */

/* All who wait for what has changed hear of it: at the end of every event (dispatch.c,
 * node_messages.c), and where the program itself changes what others may wait for. Inside of
 * itself it does nothing: the outer one goes on. */
void crti_refs_notify(crti_core_t *core);
/* Somebody wants its content (LOCATE at its owner); its bytes in this process: true when they can
 * be read, or it failed. */
void crti_ref_locate(crt_ref_t *ref);
bool crti_ref_fetch(crt_ref_t *ref);
/* From REPLY or LOCATED. `has_tokens`: its refs were registered for us. */
void crti_ref_set_result(crt_ref_t *ref, const crti_result_t *result, bool has_tokens);
/* Calls back when the ref has content, or bytes that can be read (at once if so). */
void crti_ref_await(crt_ref_t *ref, crti_waiting_t *waiting, bool local);

/* ------------------------------------------------------------------ owner_requests.c */

/* What is requested of owners in between is gathered; may be nested. */
void crti_owner_requests_gather(crti_core_t *core);
void crti_owner_requests_send(crti_core_t *core);

/* ------------------------------------------------------------------ orphans.c */

/* At shutdown: what the user may still read and drop. */
void crti_refs_orphan(crti_core_t *core);
/* The user has one handle more of one that has no runtime any more, or one less. */
void crti_ref_count_orphan(crt_ref_t *ref, int delta);

#endif
