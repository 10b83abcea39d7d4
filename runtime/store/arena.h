/* SPDX-License-Identifier: Apache-2.0 */
/* Arena: how the shared file is laid out, and one process's attachment to it.
 *
 *     header | slots | buckets | page descriptors | marks
 *         | (2 MiB boundary) pages with objects | (2 MiB boundary) pages with records
 *
 * Where it sits
 *     store.c, space.c, reclaim.c -> table.c -> slab.c -> heap.c -> transaction.c -> [ arena ]
 * Threads
 *     Every shared word is atomic and written only inside a transaction that holds the word's
 *     lock (named beside the field), unless the comment says otherwise. Reading without the
 *     lock gives a hint, nothing more.
 * Trust
 *     Where things lie is kept in private memory (`geometry`), checked once at attach. Any index
 *     or offset read from shared memory goes through an accessor below that returns NULL when it
 *     lies outside; each word is read once, then checked, then used.
 */
#ifndef CRTI_STORE_ARENA_H
#define CRTI_STORE_ARENA_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "runtime/store/file.h"
#include "runtime/store/store.h"

#define CRTI_ARENA_MAGIC   0x616e657261747263ull /* "crtarena" */
#define CRTI_ARENA_VERSION 6u
#define CRTI_PAGE_SHIFT    12
#define CRTI_PAGE_BYTES    (1u << CRTI_PAGE_SHIFT)
#define CRTI_HUGE_BYTES    (2u << 20)
#define CRTI_HEAP_BINS     256
#define CRTI_LOG_WORDS     128 /* words that one transaction may change */
#define CRTI_TX_LOCKS      4   /* locks that one transaction may hold */

/* What a get runs lies side by side: where caches are cold each page of code costs what a page of
 * data does. On lines of their own, too: moved by 32 bytes, a release takes a quarter longer. */
#define CRTI_HOT __attribute__((hot, aligned(64)))

/* Classes of slab units: two for the store's own records, then sizes of small objects. */
#define CRTI_CLASS_ENTRY  0u
#define CRTI_CLASS_PIN    1u
#define CRTI_CLASS_DATA   2u  /* the first of data */
#define CRTI_CLASSES      26u /* 24 of data: 64 ... 8192 bytes */
#define CRTI_SMALL_BYTES  8192u
#define CRTI_RECORD_BYTES 64u /* of an entry, of a pin */

typedef _Atomic uint64_t crti_word_t;
typedef _Atomic uint32_t crti_lock_t; /* 0 free, else slot + 1, with CRTI_LOCK_WAITERS */

#define CRTI_LOCK_WAITERS 0x80000000u

/* Where everything lies. Written once when the arena is made; each process keeps a checked
 * copy. */
typedef struct crti_geometry {
    uint64_t file_bytes;
    uint64_t capacity; /* bytes of the largest object */
    uint64_t slots_offset;
    uint64_t buckets_offset;
    uint64_t pages_offset;
    uint64_t marks_offset;
    uint64_t data_offset;
    uint64_t bucket_count; /* power of two */
    uint32_t slot_count;
    /* Pages 1 ... page_count hold objects, first_record ... last_record the store's own records, as
     * many again. No more than page_count of all of them are in use at a time. Descriptors 0,
     * page_count + 1, first_record - 1 and last_record + 1 are guards. */
    uint32_t page_count, first_record, last_record;
    uint32_t reserve; /* pages that only pins may take */
    uint32_t huge_pages;
} crti_geometry_t;

/* What a page descriptor's `run` says. Only the first page of a run, and the last one, mean
 * something; those between keep what they had. */
typedef enum crti_page_kind {
    CRTI_PAGE_NONE,
    CRTI_PAGE_GUARD,
    CRTI_PAGE_FREE,     /* first page of a free run; links: the list of its bin */
    CRTI_PAGE_FREE_END, /* last page of a free run of two or more; length of the run */
    CRTI_PAGE_OBJECT,   /* first page of one object's data */
    CRTI_PAGE_SLAB,     /* first page of equal units; links: its slot's list */
    CRTI_PAGE_USED_END, /* last page of a run of two or more in use */
    CRTI_PAGE_COOLING, /* first page of what the daemon gives back to the system just now */
    CRTI_PAGE_KINDS
} crti_page_kind_t;

/* `run` changes only under the heap's lock. The rest of a free run belongs to the heap's lock,
 * of a slab to its slot's lock (of pins: to the slot's process alone). */
typedef struct crti_page {
    crti_word_t run;   /* kind 8 | class 8 | slot 16 | length 32 */
    crti_word_t links; /* previous 32 | next 32 */
    crti_word_t bits;  /* slab: 1 = unit is free */
    /* slab of entries: previous | next of all such slabs (heap's lock) */
    crti_word_t more;
} crti_page_t;

/*            seal                 free, pinned            last release
 *  WRITING ----------> SEALED ------------------> DOOMED -------------+
 *     |  \              |  \                                          v
 *     |   \ free        |   +---- free or evict, not pinned ------> (gone)
 *     |    v            |                                          ^ ^ ^
 *     |   UNWANTED -----|-------- seal, abort, death --------------+ | |
 *     +-----------------|-------- abort, death ----------------------+ |
 *                       |                                              |
 *                       | evict, saved and not pinned                  |
 *                       v                                   free       |
 *                    SPILLED ------------------------------------------+
 *                       |  ^
 *               restore v  | abort
 *                    WRITING, by the daemon
 *
 *  What is gone and was saved waits in the heap's list `gone` until the daemon has dropped its
 *  bytes (spill.c).
 */
typedef enum crti_entry_state {
    CRTI_ENTRY_GONE,
    CRTI_ENTRY_WRITING,  /* its creator fills it */
    CRTI_ENTRY_UNWANTED, /* the same, and its owner has freed it already */
    CRTI_ENTRY_SEALED,
    CRTI_ENTRY_DOOMED,  /* freed, some process still has it pinned */
    CRTI_ENTRY_SPILLED, /* no memory: its bytes are where the daemon saved them */
    CRTI_ENTRY_STATES
} crti_entry_state_t;

#define CRTI_ENTRY_PRIMARY 1u /* flag: stays until its owner frees it */
#define CRTI_ENTRY_SAVED   2u /* flag: the daemon has its bytes outside, too */

/* One object. All under the lock of its id's bucket. */
typedef struct crti_entry {
    crti_word_t next; /* in its bucket; 0 ends */
    crti_word_t owner_high, owner_low, number;
    crti_word_t size;
    crti_word_t place; /* page 32 | unit 32; SPILLED: nothing */
    /* state 8 | flags 8 | creator's slot 16, from seal on its group | pins 32 */
    crti_word_t state;
    crti_word_t stamp; /* when it was last let go (not logged: a hint for eviction) */
} crti_entry_t;

_Static_assert(sizeof(crti_entry_t) == CRTI_RECORD_BYTES, "an entry is one cache line");

/* One view of one process: a unit of that process's pin slabs. */
typedef struct crti_pin {
    crti_word_t entry; /* reference: page << 6 | unit */
} crti_pin_t;

typedef struct crti_bucket {
    crti_lock_t lock;
    crti_word_t head; /* reference of its first entry */
} crti_bucket_t;

typedef struct crti_arena_list {
    crti_word_t head; /* page, 0 is none */
} crti_arena_list_t;

/*        attach           detach, death            all came back
 *  FREE ---------> LIVE ------------------> ENDING ----------------> FREE
 *
 *  While ENDING no empty slab is kept for the slot. Locks of a FREE slot are damage.
 */
typedef enum crti_slot_state {
    CRTI_SLOT_FREE,
    CRTI_SLOT_LIVE,
    CRTI_SLOT_ENDING
} crti_slot_state_t;

/* One process. The lists keep their slabs when the process dies: the slot's next process, or
 * the process that frees the last unit, takes them. */
typedef struct crti_arena_slot {
    _Alignas(64) crti_lock_t lock; /* covers lists and slabs of all classes but pins */
    _Atomic uint32_t state; /* by the process at attach and detach, by the daemon */
    _Atomic uint32_t pid;
    _Atomic uint32_t waits_for; /* slot + 1 that holds the lock this process waits for */
    _Atomic uint32_t group; /* by the daemon: what the process makes is of this group */
    crti_word_t process_high, process_low;
    crti_word_t sequence;            /* counts transactions */
    crti_word_t held[CRTI_TX_LOCKS]; /* offsets of locks this transaction has or wants */
    crti_word_t log_count;           /* > 0: a transaction is under way */
    struct {
        crti_word_t offset, old;
    } log[CRTI_LOG_WORDS];
    struct {
        crti_arena_list_t partial; /* slabs with a free unit */
        crti_arena_list_t full;
    } slabs[CRTI_CLASSES];
} crti_arena_slot_t;

/* Free runs of one part of the pages, by their length. */
typedef struct crti_zone {
    crti_word_t map[CRTI_HEAP_BINS / 64]; /* bins that hold a run */
    crti_arena_list_t bins[CRTI_HEAP_BINS];
} crti_zone_t;

/* Which part: below `floor`, from there on, records. */
typedef enum crti_zone_kind {
    CRTI_ZONE_OBJECTS, /* large ones */
    CRTI_ZONE_SLABS,   /* of small ones */
    CRTI_ZONE_RECORDS,
    CRTI_ZONES
} crti_zone_kind_t;

typedef struct crti_heap {
    _Alignas(64) crti_lock_t lock; /* covers everything here */
    crti_word_t pages_free;        /* of page_count; records are taken off it */
    /* ... at most so many since the last look (trim.c); a hint, not logged */
    crti_word_t least_free;
    crti_word_t cooling; /* the run of kind COOLING, 0: none */
    /* pages 1 ... high_water were in use since memory was given back */
    crti_word_t high_water;
    crti_word_t low_water;    /* so were low_water ... page_count, for slabs */
    crti_word_t record_water; /* so were first_record ... record_water */
    crti_word_t floor; /* first page of the slabs at the end of the objects' pages */
    crti_word_t entry_slabs;      /* how many */
    crti_arena_list_t entry_list; /* all slabs of entries, linked through `more` */
    crti_word_t gone; /* the first entry of the list of saved objects that are gone */
    crti_zone_t zones[CRTI_ZONES];
} crti_heap_t;

typedef struct crti_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    crti_geometry_t geometry;
    /* Signals between processes; hints, no lock. */
    _Alignas(64) _Atomic uint32_t space_sequence; /* futex: memory came back */
    _Atomic uint32_t space_wanted;                /* a process sleeps on it */
    _Atomic uint32_t complaint;                   /* slot + 1 that others waited for */
    _Atomic uint32_t fault_sequence;              /* futex: the pre-faulting thread */
    _Atomic uint32_t fault_mark;        /* used pages from the start that wake it */
    _Atomic uint32_t fault_zone_mark;   /* ... from the end */
    _Atomic uint32_t fault_record_mark; /* ... of records */
    _Atomic uint32_t trims; /* counts the trims: no process has that memory mapped */
    crti_word_t evictions;
    /* Spilling (spill.c). Words that others read often, and which change seldom. */
    _Alignas(64) crti_word_t clock_ns; /* some 200 ms old, for stamps */
    _Atomic uint32_t
        spill_mark; /* fewer free pages than that wake the saver; 0: it is off */
    _Atomic uint32_t spill_state; /* crti_store_spill_t 16 | errno 16 */
    crti_word_t spill_limit;      /* bytes, of the state LIMIT */
    /* ... and of those who want room. */
    _Alignas(64) _Atomic uint32_t spill_asked; /* futex: crti_spill_ask_t */
    crti_word_t spill_size;                    /* what the largest of them needs */
    crti_word_t spill_saved;                   /* bytes since the arena was made */
    crti_heap_t heap;
} crti_header_t;

/* What could not be finished in time; tried again with a later call. */
typedef struct crti_deferred {
    enum {
        CRTI_DEFERRED_RELEASE,
        CRTI_DEFERRED_FREE,
        CRTI_DEFERRED_ABORT,
        CRTI_DEFERRED_RECLAIM
    } what;
    unsigned slot;       /* reclaim */
    uint64_t pin;        /* release */
    crti_object_id_t id; /* free, abort */
} crti_deferred_t;

struct crti_store {
    /* one transaction at a time; covers everything below but constants */
    pthread_mutex_t mutex;
    uint8_t *base;       /* read and write; for the store itself and for writers */
    const uint8_t *view; /* read only; what users see */
    crti_geometry_t geometry;
    crti_header_t *header;
    crti_arena_slot_t *me;
    unsigned slot;
    int fd;             /* the daemon's, else -1 */
    unsigned log_count; /* trusted copies of me->log_count and me->held */
    unsigned lock_count;
    bool damaged;    /* this transaction met something impossible */
    bool freed;      /* this transaction gave memory back */
    bool lacks;      /* ... took memory, and the saver is to look */
    uint32_t marked; /* ... gave an entry of that page memory, 0: of none */
    crti_lock_t *locks[CRTI_TX_LOCKS];
    uint64_t patience_ns;
    crti_deferred_t *later;
    atomic_size_t later_count;
    size_t later_room;
    uint64_t later_tried_ns;
    /* per 2 MiB of data: this process has mapped it for writing ... */
    _Atomic uint8_t *touched;
    _Atomic uint32_t touched_since; /* ... since so many trims */
    unsigned watched;               /* stalled(): slot + 1 of the last call's complaint */
    unsigned looks; /* ... and calls in a row that saw it at watched_sequence */
    uint64_t watched_sequence;
    pthread_t fault_thread;
    bool fault_running;
    atomic_bool fault_stop;
    /* data beyond the water marks that was given back; of records, its first byte */
    _Atomic uint64_t cold_low, cold_high, cold_record;
    pthread_t trim_thread;
    bool trim_running;
    _Atomic uint32_t trim_call; /* futex: crti_trim_call_t */
    crti_kept_t *kept;          /* keep.c; NULL: nothing is */
};

static inline uint64_t crti_read(const crti_word_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

/* For fields that no other process sees yet (and hints): no undo. */
static inline void crti_write(crti_word_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

static inline uint64_t crti_pack(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

static inline uint64_t crti_run_word(crti_page_kind_t kind, unsigned class, unsigned slot,
                                     uint32_t length)
{
    return (uint64_t)kind << 56 | (uint64_t) class << 48 | (uint64_t)slot << 32 | length;
}

static inline crti_page_kind_t crti_run_kind(uint64_t run)
{
    return (crti_page_kind_t)(run >> 56);
}

static inline unsigned crti_run_class(uint64_t run)
{
    return run >> 48 & 0xff;
}

static inline unsigned crti_run_slot(uint64_t run)
{
    return run >> 32 & 0xffff;
}

static inline uint32_t crti_run_length(uint64_t run)
{
    return (uint32_t)run;
}

static inline uint64_t crti_state_word(crti_entry_state_t state, unsigned flags,
                                       unsigned slot, uint32_t pins)
{
    return (uint64_t)state << 56 | (uint64_t)flags << 48 | (uint64_t)slot << 32 | pins;
}

static inline crti_entry_state_t crti_state_of(uint64_t word)
{
    return (crti_entry_state_t)(word >> 56);
}

static inline unsigned crti_state_flags(uint64_t word)
{
    return word >> 48 & 0xff;
}

static inline unsigned crti_state_slot(uint64_t word)
{
    return word >> 32 & 0xffff;
}

static inline uint32_t crti_state_pins(uint64_t word)
{
    return (uint32_t)word;
}

/* Pages needed for `bytes`, at least one. */
static inline uint64_t crti_pages_for(uint64_t bytes)
{
    return bytes == 0 ? 1 : (bytes + CRTI_PAGE_BYTES - 1) >> CRTI_PAGE_SHIFT;
}

/* The descriptor of a page, NULL for a number that is none (guards are none). */
static inline crti_page_t *crti_page_at(const crti_store_t *store, uint64_t page)
{
    if (page == 0 || page > store->geometry.last_record)
        return NULL;
    return (crti_page_t *)(store->base + store->geometry.pages_offset) + page;
}

/* The same for a page that the caller has checked, guards included. */
static inline crti_page_t *crti_page(const crti_store_t *store, uint64_t page)
{
    return (crti_page_t *)(store->base + store->geometry.pages_offset) + page;
}

/* A byte for each page, which says something of slabs of entries: 0 when none of its objects has
 * memory, so that walks that look for memory pass by what lies on disk. No lock: set by who gives
 * an object memory, cleared by who has seen none there (space.c). `page` was checked. */
static inline _Atomic uint8_t *crti_page_mark(const crti_store_t *store, uint64_t page)
{
    return (_Atomic uint8_t *)(store->base + store->geometry.marks_offset) + page;
}

/* Where a page's bytes lie in the file. `page` was checked. */
static inline uint64_t crti_page_offset(const crti_store_t *store, uint64_t page)
{
    return store->geometry.data_offset + ((page - 1) << CRTI_PAGE_SHIFT);
}

static inline crti_arena_slot_t *crti_arena_slot(const crti_store_t *store, unsigned slot)
{
    if (slot >= store->geometry.slot_count)
        return NULL;
    return (crti_arena_slot_t *)(store->base + store->geometry.slots_offset) + slot;
}

static inline crti_object_id_t crti_entry_id(const crti_entry_t *entry)
{
    return (crti_object_id_t){
        {crti_read(&entry->owner_high), crti_read(&entry->owner_low)},
        crti_read(&entry->number)};
}

/* How many huge pages the data is. */
static inline uint64_t crti_arena_huge_count(const crti_geometry_t *geometry)
{
    return (((uint64_t)geometry->page_count << CRTI_PAGE_SHIFT) + CRTI_HUGE_BYTES - 1) /
           CRTI_HUGE_BYTES;
}

/* ---- arena.c ---- */

/* Lays a geometry out for `bytes` of objects. */
crt_status_t crti_arena_plan(size_t bytes, unsigned slots, crti_geometry_t *geometry_out);

/* False when a geometry read from a file can't be one of ours. */
bool crti_arena_plausible(const crti_geometry_t *geometry, uint64_t file_bytes);

/* Both mappings. On failure nothing stays mapped. */
crt_status_t crti_arena_map(crti_store_t *store, int fd);
void crti_arena_unmap(crti_store_t *store);
/* keep.c: what is kept gets its own memory; a mapping goes, but for that. */
void crti_store_copy_kept(crti_store_t *store);
void crti_store_unmap_rest(const crti_kept_t *kept, const void *start, size_t size);

/* ---- attach.c ---- */

/* crti_store_new, with or without trying for huge pages. */
crt_status_t crti_store_new_on(size_t bytes, unsigned process_slots, bool huge,
                               crti_store_t **store_out);

/* Daemon: ends the threads of prefault.c and trim.c. */
void crti_store_stop_threads(crti_store_t *store);

/* ---- store.c ---- */

/* Does it; CRT_ERR_TIMED_OUT: it is put off. Outside transactions. */
crt_status_t crti_store_do(crti_store_t *store, const crti_deferred_t *what);

/* Tries again what had to be put off. */
void crti_store_catch_up(crti_store_t *store);

/* ---- spill_signal.c ---- */

/* How much those who want room want the saver to look. */
typedef enum crti_spill_ask {
    CRTI_SPILL_NOT_ASKED,
    CRTI_SPILL_ASKED,  /* when it has rested */
    CRTI_SPILL_WAITED, /* somebody waits */
} crti_spill_ask_t;

/* Wakes the saver, which is to find room for `size` bytes; nothing when spilling is off. */
void crti_spill_ask(crti_store_t *store, crti_spill_ask_t how, size_t size);

/* ---- prefault.c ---- */

/* Daemon: the thread that makes pages ready ahead of the high-water mark. */
crt_status_t crti_prefault_start(crti_store_t *store);
void crti_prefault_stop(crti_store_t *store);

/* Bytes that are kept ready behind `used` of them from one end, at most. */
uint64_t crti_prefault_reserve(const crti_store_t *store, bool at_end, uint64_t used);

/* Data from `first` to `last` - 1, beyond the water marks, is ready no more. */
void crti_prefault_went_cold(crti_store_t *store, uint64_t first, uint64_t last);

/* The same of records: bytes that are kept ready behind those in use, and from which byte of the
 * data on they are ready no more. */
uint64_t crti_prefault_record_reserve(const crti_store_t *store);
void crti_prefault_records_went_cold(crti_store_t *store, uint64_t first);

/* After an allocation: wakes that thread when it is time. */
void crti_prefault_notice(crti_store_t *store);

/* Maps a block for writing in this process in one go, so that a host without memory is an
 * error here and not a signal at the first write. */
crt_status_t crti_prefault_block(crti_store_t *store, void *data, size_t size);

/* ---- trim.c ---- */

/* How much was in use at the same time, in pages, in the last two intervals. */
typedef struct crti_trim {
    uint64_t peaks[2];
} crti_trim_t;

/* What its thread is to do. */
typedef enum crti_trim_call {
    CRTI_TRIM_WAIT,
    CRTI_TRIM_LOOK, /* whether the file has more memory than it may */
    CRTI_TRIM_STOP,
} crti_trim_call_t;

crt_status_t crti_trim_start(crti_store_t *store);
void crti_trim_stop(crti_store_t *store);

/* Records were given memory: wakes the thread. */
void crti_trim_look(crti_store_t *store);

/* What an interval ends with: gives back half of the unneeded bytes, and all that the file has
 * beyond the size of the store. Returns their number. */
uint64_t crti_trim_step(crti_store_t *store, crti_trim_t *trim);

/* Only the latter. */
uint64_t crti_trim_excess(crti_store_t *store);

#endif
